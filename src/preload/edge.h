/* SPDX-License-Identifier: MIT */
/*
 * preload/edge.h - where our conventions end and libc's begin
 *
 * Inside the tree an error is a negative errno; a libc call returns -1, sets
 * errno, and leaves errno alone on success.  Only this file converts one into
 * the other.
 */
#pragma once

#include <errno.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/libc.h"
#include "base/unwind.h"
#include "file/file.h"
#include "sock/switch.h"

static inline ssize_t libc_ret(ssize_t r, int errno_before)
{
	errno = r < 0 ? (int)-r : errno_before;
	return r < 0 ? -1 : r;
}

/* A call inside a file; its clean-up also runs on cancellation. */
struct call {
	struct unwind u;
	struct file *file;
	const struct sock_ops *entered; /* see call_enter() */
};

static inline void call_undo(struct unwind *u)
{
	struct call *c = (struct call *)u;

	if (unlikely(c->entered != NULL))
		c->entered->leave(c->file->sk, DIR_NONE, 0);
	if (c->file)
		file_put(c->file);
}

static inline void call_end(struct call *c)
{
	if (c->u.undo)
		unwind_top = c->u.outer;
	call_undo(&c->u);
}

/* The call may sleep, and so be left by a handler's longjmp(). */
static inline void call_may_sleep(struct call *c)
{
	unwind_push(&c->u, call_undo);
}

/* Before a call of libc's on a socket that is not ours: prevents an upgrade
 * during the call and returns true; call_leave() must follow.  False: the
 * socket is ours. */
static inline bool call_enter(struct call *c)
{
	c->entered = sock_keep_table(c->file->sk);
	return c->entered;
}

/* @n: the bytes that it moved in direction @dir; DIR_NONE: it was about none. */
static inline void call_leave(struct call *c, int dir, ssize_t n)
{
	const struct sock_ops *ops = c->entered;

	c->entered = NULL;
	if (ops)
		ops->leave(c->file->sk, dir, n);
}

/* Apply a decision that was made while no call was inside the socket. */
static inline void sync_file(struct file *f, int fd)
{
	if (!file_is_synced(f))
		file_sync(f, fd);
}

/* May a libc call on @fd tell a peer on this host something?  Ask before the call, which
 * may close @fd. */
static inline bool past_of(int fd)
{
	uintptr_t entry = table_load(fd);

	if (likely(!entry))
		return false;
	const struct file *f = (struct file *)(entry & ~FILE_PASS);
	const struct sock *sk = load_rlx(&f->sk);
	return sk && load_rlx(&sk->st->reason) != OSF_REASON_REMOTE;
}

/* The call was made. */
static inline void went_past(bool is_past)
{
	if (unlikely(is_past))
		sock_went_past();
}

/* The half of a call that handles our entries; see preload/data.h. */
#define OURS static __attribute__((noinline))

#define CALL(name) struct call name __attribute__((cleanup(call_end)))

/* A socket that goes to another process falls back to TCP first. */
void pass_on(const struct msghdr *msg);
/* Calls @with for each descriptor that @msg carries by SCM_RIGHTS. */
void each_passed(const struct msghdr *msg, void (*with)(int fd));
