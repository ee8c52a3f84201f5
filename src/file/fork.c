/* SPDX-License-Identifier: MIT */
/*
 * file/fork.c - what fork() and the end of a process do to files
 *
 *     parent, before:  adds one process to the count of every socket
 *     child, after:    makes its own segment and inbox; inherited memory stays
 *                      mapped, and the anchor descriptors notify it
 *     exit:            the peer can still read what was written
 *
 * The parent raises the counts before the fork.  Otherwise the parent could
 * take itself for the last holder of a socket before the child has run.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/fork_lock.h"
#include "base/libc.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "base/rawcall.h"
#include "base/unwind.h"
#include "file/epoll.h"
#include "file/file.h"
#include "file/hold.h"
#include "ops/ops.h"
#include "sock/anchor.h"
#include "sock/arena.h"
#include "sock/shared.h"
#include "sock/sock_ops.h"

/* Several descriptors may name one file: each walk over the table meets it once. */
static __thread uint32_t walk, n_met, n_pages;

static bool first_met(struct file *f)
{
	if (f->kind != FILE_SOCK || f->walk == walk)
		return false;
	f->walk = walk;
	return true;
}

/* Other threads may be closing what we meet: each file is held while it is met. */
static void walk_all(void (*each)(int fd, struct file *f))
{
	static uint32_t walks;

	walk = fetch_add(&walks, 1) + 1;
	for (int fd = file_next(0); fd >= 0; fd = file_next(fd + 1)) {
		struct file *f = file_get_any(fd);

		if (!f)
			continue;
		each(fd, f);
		file_put(f);
	}
}

static void meet(int fd, struct file *f)
{
	if (!first_met(f))
		return;
	n_met++;
	ops_before_sharing(f->sk, fd);
	n_pages += shared_needs_page(f->sk);
}

static void gain(int fd, struct file *f)
{
	if (f->kind == FILE_EPOLL) {
		epoll_before_fork(f);
		return;
	}
	if (!first_met(f))
		return;
	if (sock_share(f->sk)) {
		f->is_parents = 1;
		return;
	}
	f->sk->st->shared = 1;
	sock_ops(f->sk)->before_fork(f->sk);
	file_note_shared_fds(f);
	hold_add(f->sk, f->holding ? f->holding : f->unshared);
}

/* There was no memory to share this socket with the parent.  So the child gets
 * a socket that is not connected. */
static COLD void lose(struct file *f)
{
	f->is_parents = 0;
	f->sk->is_held = 0;
	sock_set_mode(f->sk, SOCK_KERNEL);
	file_pass(f);
	int none = libc.socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (none >= 0) {
		file_move(f, none);
		nocancel_close(none);
	}
}

static void inherit(int fd, struct file *f)
{
	lock_inherit(&f->lock);
	if (f->kind == FILE_EPOLL) {
		epoll_after_fork(f);
		return;
	}
	if (!first_met(f))
		return;
	sock_inherit(f->sk, unwind_top != NULL);
	if (f->is_parents) {
		lose(f);
		return;
	}
	f->holding = hold_claim(f->sk);
	sock_ops(f->sk)->after_fork(f->sk);
}

/*
 * vfork(): the parent sleeps until the child executes a program or ends; either
 * closes the child's end of a pipe.  If another child had a copy of that end,
 * the parent would wait for that child too.  So the parent makes the pipe and
 * closes the end while no other thread forks, and the child's own children
 * close it.
 */
static __thread bool suspends;
static __thread int life[2]; /* the parent reads [0], the child keeps [1] */
static int kept = -1;        /* in a child of vfork(): its end */
static ino_t kept_ino;

static void life_make(void)
{
	if (pipe2(life, O_CLOEXEC) < 0) {
		log_info("vfork() does not wait for its child: %m");
		suspends = false;
		return;
	}
	life[0] = fds_hide(life[0]);
	life[1] = fds_hide(life[1]);
}

static void life_child(void)
{
	struct stat st;

	fds_close(kept);
	kept = -1;
	if (!suspends)
		return;
	suspends = false;
	fds_close(life[0]);
	kept = life[1];
	kept_ino = libc.fstat(kept, &st) ? 0 : st.st_ino;
}

/* The child of vfork() is about to end: wake the parent now.  But check first
 * that the program has not closed our end and reused the number. */
static void life_ends(void)
{
	struct stat st;

	if (kept >= 0 && !libc.fstat(kept, &st) && S_ISFIFO(st.st_mode) &&
	    st.st_ino == kept_ino)
		nocancel_write(kept, "", 1);
}

void fork_suspends(void) { suspends = true; }

/* A cancelled thread, too, is suspended to the end: no libc call. */
void fork_wait(pid_t pid)
{
	char byte;
	long n;

	if (!suspends)
		return;
	suspends = false;
	do
		n = rawcall(SYS_read, life[0], &byte, 1);
	while (n == -EINTR);
	fds_close(life[0]);
	while (n == 1 && rawcall(SYS_waitid, P_PID, pid, NULL,
				 WEXITED | WNOWAIT, NULL) == -EINTR)
		;
}

void fork_before(void)
{
	fork_lock_get();
	if (file_has_left()) {
		suspends = false;
		return;
	}
	file_before_fork();
	if (suspends)
		life_make();
	hold_reap();
	n_met = n_pages = 0;
	walk_all(meet);
	hold_begin(n_met);
	shared_reserve(n_pages);
	walk_all(gain);
	shared_release();
	ops_before_fork();
}

/* In the child, calls of the parent's other threads never return. */
static void no_refs(int fd, struct file *f) { f->n_refs = 0; }
static void one_ref(int fd, struct file *f) { f->n_refs++; }

void fork_child(void)
{
	if (!unwind_top) { /* but the calls of this thread return */
		file_for_each(no_refs);
		file_for_each(one_ref);
	}
	lock_after_fork();
	fork_lock_child();
	if (file_has_left())
		return;
	arena_after_fork();
	ops_after_fork();
	handoff_after_fork();
	life_child();
	hold_child();
	walk_all(inherit);
	hold_claimed();
}

static void leave(int fd, struct file *f)
{
	if (!first_met(f))
		return;
	if (sock_procs(f->sk) > 1 && sock_was_used(f->sk))
		anchor_clear(f->sk, fd);
	f->has_left = 1;
	if (!f->holding)
		sock_maker_lets_go(f->sk);
	hold_leave(f->holding);
	if (!sock_leave_it(f->sk))
		return;
	if (f->holding)
		f->sk->st->ended = 1; /* the one who gave it frees it */
	sock_refresh(f->sk);
	sock_ops(f->sk)->exit(f->sk, fd);
}

void file_exit(void)
{
	static bool done;

	if (!xchg(&done, true) && !file_has_left()) {
		hold_reap();
		walk_all(leave);
		life_ends();
	}
}

static void fork_parent(void)
{
	if (suspends)
		fds_close(life[1]);
	hold_parent();
	ops_forked();
	fork_lock_put();
}

void fork_after(bool is_child)
{
	int saved = errno;

	if (is_child)
		fork_child();
	else
		fork_parent();
	errno = saved;
}

void fork_init(void) { pthread_atfork(fork_before, fork_parent, fork_child); }
