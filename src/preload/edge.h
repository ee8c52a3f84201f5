/* SPDX-License-Identifier: MIT */
/*
 * preload/edge.h - where our conventions end and libc's begin
 *
 * Inside the tree an error is a negative errno; a libc call returns -1, sets
 * errno, and leaves errno alone on success.  Here, and nowhere else, the one
 * becomes the other.
 */
#pragma once

#include <errno.h>
#include <signal.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/libc.h"
#include "base/unwind.h"
#include "file/file.h"
#include "proto/shm/inbox.h"

static inline ssize_t libc_ret(ssize_t r, int errno_before)
{
	errno = r < 0 ? (int)-r : errno_before;
	return r < 0 ? -1 : r;
}

/* A call inside a file: its end is reached by cancellation too. */
struct call {
	struct unwind u;
	struct file *file;
	struct sock *entered; /* counted in, in mode YOUNG */
};

static inline void call_undo(struct unwind *u)
{
	struct call *c = (struct call *)u;

	if (c->entered)
		sock_leave(c->entered);
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

static inline bool is_ours(const struct sock *sk)
{
	return sock_mode(sk) == SOCK_SHM || sock_mode(sk) == SOCK_CANDIDATE;
}

/* Before libc's call on a socket that is not ours (true), so that it is not upgraded
 * under it; false: it is ours by now. */
bool call_enter(struct call *c);

static inline void call_leave(struct call *c)
{
	if (c->entered)
		sock_leave(c->entered);
	c->entered = NULL;
}

/* The connection has become the kernel's under a call of ours.  It may be about to be
 * put under the same number again. */
static inline void call_went_back(const struct call *c)
{
	while (sock_mode(c->file->sk) == SOCK_UPGRADING)
		cpu_relax();
}

/* Does a peer on this host hear by TCP of what @fd's connection does?  Then
 * inbox_went_past(), after it was done. */
static inline bool goes_past(int fd)
{
	uintptr_t entry = table_load(fd);

	if (likely(!entry))
		return false;
	const struct file *f = (struct file *)(entry & ~FILE_PASS);
	const struct sock *sk = load_rlx(&f->sk);
	return sk && load_rlx(&sk->st->reason) != OSF_REASON_REMOTE;
}

#define CALL(name) struct call name __attribute__((cleanup(call_end)))

/* The vectors of a data call, as both its forms need them. */
#define ONE(buf, n) (&(struct iovec){ (void *)(buf), (n) }), (size_t)1

/* A socket that goes to another process goes as the kernel's. */
void pass_on(const struct msghdr *msg);

ssize_t edge_rx(struct file *f, int fd, const struct iovec *iov, size_t n,
		int flags);
ssize_t edge_tx(struct file *f, int fd, const struct iovec *iov, size_t n,
		int flags);
