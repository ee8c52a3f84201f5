/* SPDX-License-Identifier: MIT */
/* file/file.c - the table, and the life of descriptions; see file/file.h */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bell.h"
#include "base/fds.h"
#include "base/fork_lock.h"
#include "base/idle.h"
#include "base/libc.h"
#include "file/epoll.h"
#include "file/file.h"
#include "file/hold.h"
#include "ops/ops.h"
#include "sock/anchor.h"
#include "sock/arena.h"
#include "sock/shared.h"
#include "sock/sock_ops.h"
#include "sock/wait.h"

#define PAGE_BYTES ((size_t)sizeof(uintptr_t) << TABLE_BITS)
#define FILES_A_SLAB 256

uintptr_t *file_table[TABLE_TOP];
bool file_has_left_all;

static struct lock lock;
static struct file *free_files; /* that were in use */
/* Files of the last slab that were never in use.  They are on no list, so that nothing
 * touches their pages before they are needed. */
static struct file *fresh_files;
static int n_fresh;
static int top_fd; /* numbers from it on were never in use */

static uintptr_t *slot_make_room(int fd)
{
	uintptr_t *slot = table_slot(fd);

	if (slot || (unsigned)fd >= TABLE_TOP << TABLE_BITS)
		return slot;
	uintptr_t *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return NULL;
	int i = fd >> TABLE_BITS;
	if (!cas(&file_table[i], NULL, page)) /* pairs with table_slot() */
		munmap(page, PAGE_BYTES);
	return table_slot(fd);
}

static void top_raise(int fd)
{
	int top;

	while (fd >= (top = load_rlx(&top_fd)) && !cas(&top_fd, top, fd + 1))
		;
}

static struct file *file_alloc(void)
{
	GUARD(&lock);
	struct file *f = free_files;

	if (f) {
		free_files = f->next_free;
		return f;
	}
	if (!n_fresh) {
		f = mmap(NULL, FILES_A_SLAB * sizeof(*f),
			 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
		if (f == MAP_FAILED)
			return NULL;
		fresh_files = f;
		n_fresh = FILES_A_SLAB;
	}
	n_fresh--;
	return fresh_files++;
}

static void file_free(struct file *f)
{
	GUARD(&lock);
	f->sk = NULL;
	f->ep = NULL;
	f->next_free = free_files;
	free_files = f;
}

/* Count a reference on a file that may be going away this moment. */
struct file *file_ref_slow(int fd, bool any)
{
	for (;;) {
		uintptr_t entry = table_load(fd);
		struct file *f = (struct file *)(entry & ~FILE_PASS);

		if (!f || (entry & FILE_PASS && !any))
			return NULL;
		uint32_t n = load_rlx(&f->n_refs);
		if (!n || !cas(&f->n_refs, n, n + 1))
			continue;
		if (likely(file_is_at(f, fd)))
			return f;
		file_put(f);
	}
}

static struct file *file_new(int fd, enum file_kind kind)
{
	struct file *f = file_alloc();

	if (!f)
		return NULL;
	f->kind = (uint8_t)kind;
	f->merged = f->hidden = f->has_left = 0;
	f->anchor_fd = fd;
	f->moved_fd = -1;
	f->items = NULL;
	f->holding = f->unshared = NULL;
	f->synced = NULL;
	memset(f->shared_fds, 0, sizeof(f->shared_fds));
	return f; /* a thread that finds it gone may still hold its lock */
}

/* @fd is to name something else: keep a descriptor of our own.  False: there is none. */
static bool anchor_keep(struct file *f, int fd)
{
	if (f->anchor_fd != fd)
		return true;
	int up = fds_hide(libc.fcntl(fd, F_DUPFD_CLOEXEC, 3));
	if (up < 0 && f->kind == FILE_SOCK)
		return false;
	f->hidden = up >= 0;
	store_rel(&f->anchor_fd, up < 0 ? -1 : up);
	return true;
}

/* A call that finds the file waits until the socket's mode says that the kernel has it.  One
 * that finds no file is the kernel's at once.  So the number keeps its file until it has left
 * the old description. */
static void move_one(struct file *f, int fd, int to)
{
	int cloexec = libc.fcntl(fd, F_GETFD);

	anchor_keep(f, fd);
	if (cloexec & FD_CLOEXEC)
		libc.dup3(to, fd, O_CLOEXEC);
	else
		libc.dup2(to, fd);
	file_forget(fd);
}

/* Calls that are inside go on with the new description, too. */
void file_move(struct file *f, int to)
{
	int own = fds_hide(libc.fcntl(to, F_DUPFD_CLOEXEC, 3));

	xchg(&f->moved_fd, own);
	store_rel(&f->sk->moved_fd1, own < 0 ? 0u : (uint32_t)own + 1);
	for (int fd = file_next(0); fd >= 0; fd = file_next(fd + 1))
		if (file_is_at(f, fd))
			move_one(f, fd, to);
}

int file_install(int fd, struct file *f, bool pass)
{
	/* A fork counts what it meets on its way up: nothing may move down. */
	INSIDE_FORK_LOCK();
	uintptr_t *slot = slot_make_room(fd);

	if (!slot)
		return -ENOMEM;
	top_raise(fd);
	if (load_rlx(slot))
		file_forget(fd); /* closed without our functions */
	fetch_add(&f->n_refs, 1);
	if (unlikely(is_standard(fd)) && f->kind == FILE_SOCK)
		fetch_or(&f->sk->standard, (uint8_t)(1u << fd));
	/* The number is the socket's again: a call on it need not leave it. */
	if (f->kind == FILE_SOCK && f->sk &&
	    unlikely(load_rlx(&f->sk->closed_fd1) == (uint32_t)fd + 1))
		store_rlx(&f->sk->closed_fd1, 0u);
	xchg(slot, (uintptr_t)f | (pass ? FILE_PASS : 0));
	if (unlikely(load_seq(&f->moved_fd) >= 0)) /* Dekker with file_move() */
		move_one(f, fd, f->moved_fd);
	return 0;
}

struct file *file_new_sock(int fd)
{
	INSIDE_FORK_LOCK();
	if (file_has_left())
		return NULL;
	if (unlikely(arena_is_full()))
		hold_reap();
	struct file *f = file_new(fd, FILE_SOCK);
	struct sock *sk = f ? sock_new(fd) : NULL;

	if (sk) {
		f->sk = sk;
		store_rel(&f->n_refs, 0u);
		if (!file_install(fd, f, false))
			return f;
		sock_free(sk);
	}
	if (f)
		file_free(f);
	return NULL;
}

struct file *file_new_epoll(int fd, struct epoll *ep)
{
	struct file *f = file_has_left() ? NULL : file_new(fd, FILE_EPOLL);

	if (!f)
		return NULL;
	f->ep = ep;
	store_rel(&f->n_refs, 0u);
	if (!file_install(fd, f, false))
		return f;
	file_free(f);
	return NULL;
}

void file_note_shared_fds(struct file *f)
{
	int32_t fds[OPS_UPGRADE_FDS];

	ops_upgrade_fds(f->sk, fds);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (fds[i] > 0)
			f->shared_fds[i] =
			    (struct shared_fd){ fds[i], fds_cookie(fds[i]) };
}

/* Other processes continue the connection with their own copies. */
static void close_shared_fds(struct file *f)
{
	for (size_t i = 0; i < ARRAY_LEN(f->shared_fds); i++) {
		struct shared_fd *at = &f->shared_fds[i];

		if (at->cookie && fds_is_ours(at->fd) &&
		    fds_cookie(at->fd) == at->cookie)
			fds_close(at->fd);
		at->cookie = 0;
	}
}

static void sock_release(struct file *f, int fd)
{
	struct sock *sk = f->sk;

	epoll_forget_sock(f);
	if (f->has_left) { /* closed while the process ends */
		close_shared_fds(f);
		return;
	}
	if (sock_procs(sk) > 1)
		hold_reap_of(sk);
	if (sock_procs(sk) > 1 && sock_ops(sk)->is_ours)
		hold_reap_above();
	if (!f->holding)
		sock_maker_lets_go(sk);
	hold_strike(f->holding);
	hold_unkeep(f->unshared);
	if (sock_procs(sk) > 1)
		anchor_clear(sk, fd); /* the others may only be about to exec */
	if (!sock_let_go(sk, 1)) {
		ops_let_go(sk, fd);
		close_shared_fds(f);
		if (shared_let_go(sk)) /* the others ended meanwhile */
			sock_free(sk);
		return;
	}
	sock_refresh(sk); /* what the others have left */
	ops_close(sk, fd);
	close_shared_fds(f); /* the others have done with theirs */
	sock_free(sk);
}

/* The last reference is dropped.  @fd still names the kernel's description. */
void file_release(struct file *f, int fd)
{
	int saved = errno;

	if (f->kind == FILE_SOCK) {
		sock_release(f, fd);
	} else {
		epoll_forget_sock(f); /* of the sets it was in itself */
		epoll_free(f->ep);
	}
	if (f->hidden)
		fds_close(f->anchor_fd);
	fds_close(f->moved_fd);
	file_free(f);
	errno = saved;
}

/* Others still use the description: keep a descriptor of our own for them. */
static void anchor_move(struct file *f, int fd)
{
	bool has_one = anchor_keep(f, fd);

	if (f->kind == FILE_SOCK)
		wait_closes(f->sk);
	if (f->kind == FILE_SOCK && load_rlx(&f->moved_fd) < 0) {
		store_rlx(&f->sk->closed_fd1, (uint32_t)fd + 1);
		store_rel(&f->sk->moved_fd1,
			  has_one ? (uint32_t)f->anchor_fd + 1 : 0u);
	}
	if (f->kind == FILE_EPOLL) {
		epoll_moved(f);
		return;
	}
	if (has_one)
		sock_ops(f->sk)->anchor_moved(f->sk, fd, f->anchor_fd);
	/* Who polls @fd would poll what gets its number next. */
	if (!is_single_threaded())
		bells_ring_own();
}

void file_forget(int fd)
{
	uintptr_t *slot = table_slot(fd);
	uintptr_t entry = slot ? xchg(slot, (uintptr_t)0) : 0;
	struct file *f = (struct file *)(entry & ~FILE_PASS);

	if (!f)
		return;
	int saved = errno;
	if (unlikely(is_standard(fd)) && f->kind == FILE_SOCK)
		fetch_and(&f->sk->standard, (uint8_t) ~(1u << fd));
	/* Free the file only if nobody else has or can get a reference.
	 * Otherwise whoever is last needs an anchor, even if it only looked the
	 * file up. */
	bool last = cas(&f->n_refs, 1u, 0u);
	if (!last) {
		anchor_move(f, fd);
		last = fetch_sub(&f->n_refs, 1) == 1;
	}
	if (last)
		file_release(f, f->hidden ? f->anchor_fd : fd);
	errno = saved;
}

static struct file *passing;
static void pass_one(int fd, struct file *f)
{
	uintptr_t *slot = table_slot(fd);

	if (f == passing)
		cas(slot, (uintptr_t)f, (uintptr_t)f | FILE_PASS);
}

void file_pass(struct file *f)
{
	uintptr_t *slot = table_slot(f->anchor_fd);

	sock_ops(f->sk)->passthrough(f->sk, f->anchor_fd);
	/* Usually there is one descriptor; the search for others is rare and
	 * slow.  The anchor may be a descriptor of our own that has no entry.
	 */
	if (slot)
		cas(slot, (uintptr_t)f, (uintptr_t)f | FILE_PASS);
	if (f->hidden || load_rlx(&f->n_refs) > 2) {
		GUARD(&lock);
		passing = f;
		file_for_each(pass_one);
	}
}

COLD void file_sync(struct file *f, int fd)
{
	int saved = errno;
	struct sock *sk = f->sk;

	const struct sock_ops *ops = sock_ops(sk);

	store_rlx(&f->synced, ops);
	if (ops->own_events && !load_rlx(&f->merged))
		epoll_merge_sock(f);
	ops->sync(sk, fd);
	/* While a call may sleep on more than its socket, calls come to us. */
	if (!ops->is_ours && !ops->may_move && !idle_is_on())
		file_pass(f);
	errno = saved;
}

COLD void file_advance(struct file *f, int fd)
{
	int saved = errno;

	if (sock_procs(f->sk) > 1) {
		hold_reap_of(f->sk);
		hold_reap_above();
	}
	ops_advance(f->sk, fd);
	file_sync(f, fd);
	errno = saved;
}

bool file_is_passthrough(int fd) { return table_load(fd) & FILE_PASS; }

int file_next(int from)
{
	int top = load_acq(&top_fd);

	for (int fd = from < 0 ? 0 : from; fd < top; fd++) {
		if (!load_rlx(&file_table[fd >> TABLE_BITS]))
			fd |= (1 << TABLE_BITS) - 1;
		else if (table_load(fd))
			return fd;
	}
	return -1;
}

void file_for_each(void (*each)(int fd, struct file *f))
{
	for (int fd = file_next(0); fd >= 0; fd = file_next(fd + 1)) {
		struct file *f = (struct file *)(table_load(fd) & ~FILE_PASS);

		if (f)
			each(fd, f);
	}
}
