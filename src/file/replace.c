/* SPDX-License-Identifier: MIT */
/*
 * file/replace.c - puts a replacement descriptor wherever the program has a
 * socket
 *
 *     descriptor, its duplicates, our own copy  ->  dup3() over each
 *     entries of epoll sets                     ->  removed and added again
 *
 * The socket has done nothing yet, so the only event that anybody can have seen
 * is that it is not connected.  We cannot replace descriptors in other
 * processes, nor an entry of an epoll set whose number the program has closed
 * since: such sockets stay with the kernel.  A thread that duplicates the
 * descriptor at this very moment keeps the old socket.
 */
#include <errno.h>
#include <fcntl.h>

#include "base/fork_lock.h"
#include "file/epoll_set.h"
#include "file/file.h"
#include "sock/shared.h"
#include "file/hold.h"

/* Is this thread's call the only one on it? */
static bool is_quiet(const struct file *f)
{
	uint32_t n = 1;

	for (int fd = file_next(0); fd >= 0; fd = file_next(fd + 1))
		n += file_is_at(f, fd);
	return load_rlx(&f->n_refs) == n;
}

static bool items_may_move(struct file *f)
{
	GUARD(&f->lock);
	for (const struct epitem *it = f->items; it; it = it->next_of_sock)
		if (it->parked || it->merged || !file_is_at(f, it->fd))
			return false;
	return true;
}

bool file_may_be_replaced(struct file *f)
{
	if (sock_procs(f->sk) > 1)
		hold_reap_of(f->sk);
	if (sock_procs(f->sk) > 1)
		return false;
	if (likely(load_rlx(&f->n_refs) == 2 && !load_rlx(&f->items)))
		return true;
	return items_may_move(f) && is_quiet(f);
}

static int replace_one(int fd, int by)
{
	int flags = libc.fcntl(fd, F_GETFD);

	return libc.dup3(by, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0
		   ? -errno
		   : 0;
}

static int replace_all(struct file *f, int by)
{
	int err = 0;

	for (int fd = file_next(0); fd >= 0 && !err; fd = file_next(fd + 1))
		if (file_is_at(f, fd))
			err = replace_one(fd, by);
	if (!err && f->hidden)
		err = replace_one(f->anchor_fd, by);
	return err;
}

static void items_out(struct file *f)
{
	for (struct epitem *it = f->items; it; it = it->next_of_sock) {
		GUARD(&it->ep->lock);
		kernel_ctl(it->ep, EPOLL_CTL_DEL, it->fd, 0, 0);
	}
}

static void items_in(struct file *f)
{
	for (struct epitem *it = f->items; it; it = it->next_of_sock) {
		GUARD(&it->ep->lock);
		/* One that has fired waits for the program's MOD. */
		kernel_ctl(it->ep, EPOLL_CTL_ADD, it->fd,
			   it->disabled ? EPOLLET : it->events,
			   it->tagged ? tag_of(it) : it->data.u64);
	}
}

/* The relay takes the descriptors over, and we know nothing of the relay's
 * socket.  So restore the program's own entries in the kernel's sets. */
void file_to_relay(struct file *f, int to)
{
	GUARD(&f->lock);
	for (struct epitem *it = f->items; it; it = it->next_of_sock) {
		GUARD(&it->ep->lock);
		it->moves = !it->parked && file_is_at(f, it->fd);
		if (it->moves)
			kernel_ctl(it->ep, EPOLL_CTL_DEL, it->fd, 0, 0);
	}
	file_move(f, to);
	for (struct epitem *it = f->items; it; it = it->next_of_sock) {
		GUARD(&it->ep->lock);
		if (it->moves)
			kernel_ctl(it->ep, EPOLL_CTL_ADD, it->fd,
				   it->disabled ? EPOLLET : it->events,
				   it->data.u64);
	}
}

int file_replace(int fd, int by)
{
	struct file *f = file_get_any(fd);
	int err;

	if (!f)
		return replace_one(fd, by);
	fork_lock_enter();
	if (sock_procs(f->sk) > 1) {
		err = -EBUSY; /* a fork happened meanwhile */
	} else {
		GUARD(&f->lock);
		items_out(f);
		err = replace_all(f, by);
		items_in(f);
	}
	fork_lock_leave();
	file_put(f);
	return err;
}
