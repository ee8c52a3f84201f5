/* SPDX-License-Identifier: MIT */
/*
 * file/unshare.c - a forked process that gives up authority shares no memory any more
 *
 *     setuid(), capset(), ...  ->  file_unshare()  ->  the kernel's call
 *
 * Parent and child map the memory of the sockets that they share.  That harms nobody
 * while both have the same authority.  When the child is about to become another user, or
 * to give up some of its rights, it first leaves that memory:
 *
 *   - a connection in shared memory goes back to the kernel, for all its holders;
 *   - in this process, a connection that other processes hold stays with the kernel from
 *     now on; they go on counting this process among its holders;
 *   - each socket gets a struct sock of this process alone, so that a listener goes on
 *     accepting connections for shared memory;
 *   - what is left of the parent's memory is unmapped.
 *
 * A process that no other one has forked shares nothing in this way, but it may be about to share
 * memory with a peer.  The unix sockets that are open for that tell the peer who the process was
 * when it made them.  So they are withdrawn, and new ones tell who it is.
 *
 * Other threads may be inside calls on these sockets, or this thread may be, if a signal
 * handler brought us here.  Then the connections go back, and the memory stays mapped
 * until the process gives up more.
 */
#include <errno.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/unwind.h"
#include "file/epoll.h"
#include "file/file.h"
#include "file/hold.h"
#include "ops/ops.h"
#include "ops/port.h"
#include "sock/arena.h"
#include "sock/shared.h"
#include "sock/sock_ops.h"

static bool is_inherited(const struct file *f)
{
	return f->kind == FILE_SOCK && !arena_has(f->sk);
}

/* In shared memory: back to the kernel, for every process that holds it.  Unread bytes
 * may go to a relay only if nobody else could read them. */
static void give_back(struct file *f, int fd)
{
	sock_await_move(f->sk);
	if (sock_is_young(f->sk) || f->sk->st->listening)
		return;
	file_give_back(f, fd, OSF_REASON_PASSED, sock_procs(f->sk) > 1);
	sock_ops(f->sk)->retire(f->sk);
	file_sync(f, fd);
}

/* Is any thread inside a call on @f?  Its descriptors and we ourselves count, too. */
static uint32_t n_fds_of;
static const struct file *counting;
static void count_one(int fd, struct file *f) { n_fds_of += f == counting; }

static bool is_busy(const struct file *f)
{
	if (load_rlx(&f->n_refs) == 2) /* one descriptor, and we */
		return false;
	n_fds_of = 1;
	counting = f;
	file_for_each(count_one);
	return load_rlx(&f->n_refs) != n_fds_of;
}

/* Only this process holds @f: its own socket goes on where the inherited one was. */
static void take_over(struct file *f, int fd, struct sock *mine)
{
	struct sock *old = f->sk;
	bool moves = old->st->listening || sock_is_young(old);

	sock_copy(mine, old, moves);
	f->sk = mine;
	if (f->holding)
		hold_strike(f->holding);
	else
		sock_maker_lets_go(old);
	f->holding = NULL;
	if (!sock_let_go(old, 1))
		return;
	if (!moves)
		ops_close(old, fd);
	sock_forget_counts(old); /* they are @mine's now */
	sock_free(old);
}

/* Others hold @f, too, and go on without us. */
static void part_from(struct file *f, int fd, struct sock *mine)
{
	struct sock before = *f->sk;

	sock_copy(mine, &before, before.st->listening);
	sock_forget_counts(mine); /* the others have them */
	f->sk = mine;
	f->unshared = f->holding;
	f->holding = NULL;
	ops_let_go(&before, fd);
}

/* False: it has to stay in the memory that it is in. */
static bool unshare_socket(struct file *f, int fd)
{
	if (sock_is_ours(f->sk) || sock_ops(f->sk)->is_moving || is_busy(f))
		return false;
	struct sock *mine = sock_new(fd);
	if (!mine)
		return false;
	if (sock_procs(f->sk) > 1)
		part_from(f, fd, mine);
	else
		take_over(f, fd, mine);
	file_sync(f, fd);
	return true;
}

static bool is_sock(const struct file *f) { return f->kind == FILE_SOCK; }

static void walk(bool (*is_meant)(const struct file *f),
		 void (*each)(struct file *f, int fd))
{
	for (int fd = file_next(0); fd >= 0; fd = file_next(fd + 1)) {
		struct file *f = file_get_any(fd);

		if (f && is_meant(f))
			each(f, fd);
		if (f)
			file_put(f);
	}
}

/* Is this the only thread?  libc does not say so in the child of a parent with threads,
 * and the kernel does: a folder of task/ for each. */
static bool is_only_thread(void)
{
	struct stat st;

	return is_single_threaded() ||
	       (!stat("/proc/self/task", &st) && st.st_nlink == 3);
}

static bool is_all_done;
static void unshare_one(struct file *f, int fd)
{
	is_all_done &= unshare_socket(f, fd);
}

bool file_may_unshare(void)
{
	return (arena_inherits() || port_is_open() || ops_had_offers()) &&
	       !file_has_left();
}

static void withdraw(struct file *f, int fd)
{
	sock_await_move(f->sk);
	ops_withdraw(f->sk, fd);
	file_sync(f, fd);
}

void file_unshare(void)
{
	int saved = errno;

	file_drop_port();
	ops_unshare();
	if (ops_had_offers() && !file_has_left()) {
		ops_forget_offers();
		walk(is_sock, withdraw);
	}
	if (!arena_inherits() || file_has_left())
		return;
	hold_reap();
	walk(is_inherited, give_back);
	is_all_done = is_only_thread() && !unwind_top;
	if (is_all_done)
		walk(is_inherited, unshare_one);
	if (is_all_done) {
		hold_forget_all_but(arena_has);
		arena_drop_inherited();
	} else {
		log_info("memory of the parent's stays mapped: a call is in "
			 "flight");
	}
	errno = saved;
}

/* Called by the parent before it makes a child in another user namespace.  Such a child may not
 * ask the other ends where the streams are, so it could not give its connections back. */
void file_before_stranger(void)
{
	int saved = errno;

	if (!file_has_left())
		walk(is_sock, give_back);
	errno = saved;
}
