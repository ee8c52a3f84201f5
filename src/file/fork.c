/* SPDX-License-Identifier: MIT */
/*
 * file/fork.c - what fork() and the end of a process do to files
 *
 *     parent, before:  every socket gains a process
 *     child, after:    fresh segment and inbox of its own; what it inherited stays
 *                      mapped, and is told of by the anchors
 *     the end:         what was written is there for the peer to read
 *
 * The counts go up before the fork, so the parent cannot take itself for the last
 * holder of a socket in the moment when the child has not yet said that it is one.
 */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/gate.h"
#include "base/unwind.h"
#include "file/epoll.h"
#include "file/file.h"
#include "file/hold.h"
#include "ops/local.h"
#include "shm/inbox.h"
#include "shm/shm.h"
#include "sock/arena.h"

/* Several descriptors may name one file: each walk over the table meets it once. */
static __thread uint32_t walk, n_met;

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

static void meet(int fd, struct file *f) { n_met += first_met(f); }

static void gain(int fd, struct file *f)
{
	if (!first_met(f))
		return;
	fetch_add(&f->sk->n_procs, 1);
	f->sk->st.shared = 1;
	file_note_shared_fds(f);
	hold_add(f->sk, f->holding);
}

static void inherit(int fd, struct file *f)
{
	f->lock = (struct lock){ 0 };
	if (f->kind == FILE_EPOLL) {
		epoll_after_fork(f);
		return;
	}
	if (!first_met(f))
		return;
	f->holding = hold_claim(f->sk);
	shm_after_fork(f->sk);
}

void fork_before(void)
{
	gate_close();
	hold_reap();
	n_met = 0;
	walk_all(meet);
	hold_begin(n_met);
	walk_all(gain);
}

/* Calls of the parent's other threads will not end here. */
static void no_refs(int fd, struct file *f) { f->n_refs = 0; }
static void one_ref(int fd, struct file *f) { f->n_refs++; }

void fork_child(void)
{
	if (!unwind_top) { /* but one that this thread was interrupted in will */
		file_for_each(no_refs);
		file_for_each(one_ref);
	}
	lock_after_fork();
	gate_child();
	arena_after_fork();
	inbox_after_fork();
	local_after_fork();
	handoff_after_fork();
	hold_child();
	walk_all(inherit);
	hold_claimed();
}

static void leave(int fd, struct file *f)
{
	if (!first_met(f))
		return;
	if (load_rlx(&f->sk->n_procs) > 1 && f->sk->seg)
		anchor_clear(f->sk, fd);
	f->has_left = 1;
	if (!f->holding)
		store_rlx(&f->sk->maker_has, (uint8_t)0);
	hold_leave(f->holding);
	if (fetch_sub(&f->sk->n_procs, 1) != 1)
		return;
	if (f->holding)
		f->sk->st.ended = 1; /* the one who gave it frees it */
	if (f->sk->seg)
		shm_exit(f->sk, fd);
}

void file_exit(void)
{
	static bool done;

	if (!xchg(&done, true)) {
		hold_reap();
		walk_all(leave);
	}
}

static void fork_parent(void)
{
	hold_parent();
	gate_open();
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
