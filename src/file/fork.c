/* SPDX-License-Identifier: MIT */
/*
 * file/fork.c - what fork() does to files
 *
 *     parent, before:  every socket gains a process
 *     child, after:    fresh segment and inbox of its own; what it inherited stays
 *                      mapped, and is told of by the anchors
 *
 * The counts go up before the fork, so the parent cannot take itself for the last
 * holder of a socket in the moment when the child has not yet said that it is one.
 */
#include <pthread.h>
#include <unistd.h>

#include "base/fds.h"
#include "file/epoll.h"
#include "file/file.h"
#include "ops/local.h"
#include "shm/inbox.h"
#include "shm/shm.h"
#include "sock/arena.h"

/* Several descriptors may name one file: act on the one it is anchored by. */
static bool is_anchor(int fd, const struct file *f)
{
	return f->kind == FILE_SOCK && (f->anchor_fd == fd || f->hidden);
}

static void gain(int fd, struct file *f)
{
	if (is_anchor(fd, f))
		fetch_add(&f->sk->n_procs, 1);
}

static void lose(int fd, struct file *f)
{
	if (is_anchor(fd, f))
		fetch_sub(&f->sk->n_procs, 1);
}

static void inherit(int fd, struct file *f)
{
	f->lock = (struct lock){ 0 };
	if (f->kind == FILE_EPOLL) {
		epoll_after_fork(f);
		return;
	}
	if (!is_anchor(fd, f))
		return;
	shm_after_fork(f->sk);
}

static void before(void) { file_for_each(gain); }

static void in_child(void)
{
	lock_after_fork();
	arena_after_fork();
	inbox_after_fork();
	local_after_fork();
	file_for_each(inherit);
}

static void leave(int fd, struct file *f)
{
	if (is_anchor(fd, f) && f->sk->seg)
		if (fetch_sub(&f->sk->n_procs, 1) == 1)
			shm_exit(f->sk, fd);
}

void file_exit(void)
{
	static bool done;

	if (!xchg(&done, true))
		file_for_each(leave);
}

void fork_init(void) { pthread_atfork(before, NULL, in_child); }

void fork_failed(void) { file_for_each(lose); }
