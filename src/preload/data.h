/* SPDX-License-Identifier: MIT */
/*
 * preload/data.h - what all calls that move bytes have in common
 *
 *     read()  ->  no entry for that number: libc's read()
 *       |
 *       +->  read_ours()  ->  data_recv()  ->  io_recv(), on TCP or in memory
 *
 * Each call is two functions.  The first looks the number up and, if it has no
 * entry, jumps on into libc: a load, a branch and a jump, without a stack
 * frame.  The second handles the rest and is never inlined.
 */
#pragma once

#include <limits.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "file/epoll.h"
#include "preload/edge.h"
#include "sock/io.h"

/* Flags of ours, above libc's MSG_*: read(), readv() and writev() of 0 bytes do
 * not reach the socket. */
#define READ_FLAG (1 << 30)
#define WRITEV_FLAG (1 << 29)
#define FLAGS_OF_OURS (READ_FLAG | WRITEV_FLAG)

#define ONE(buf, n) (&(struct iovec){ (void *)(buf), (n) }), (size_t)1

extern void __chk_fail(void) __attribute__((noreturn));
#define CHECK(n, size) ((n) > (size) ? __chk_fail() : (void)0)

/* The file that serves data calls on @fd, or NULL: the call is libc's. */
static inline struct file *data_file(int fd)
{
	struct file *f = file_get(fd);

	if (likely(f && f->kind == FILE_SOCK))
		return f;
	if (f)
		file_put(f);
	return NULL;
}

/* As libc's calls answer; the kernel has not seen the call yet. */
ssize_t data_recv(struct call *c, int fd, const struct iovec *iov, size_t n,
		  int flags);
ssize_t data_send(struct call *c, int fd, const struct iovec *iov, size_t n,
		  int flags);
/* The same with -errno, for calls that consist of several. */
ssize_t data_recvmsg(struct file *f, int fd, struct msghdr *msg, int flags);
ssize_t data_sendmsg(struct file *f, int fd, const struct msghdr *msg,
		     int flags);

/* What the kernel moves in one call, at most: programs keep the result in an int. */
#define MOVE_MAX ((size_t)0x7ffff000)

/* For writev() and the like: a single vector at a bad address is not one that data_send()
 * and data_recv() may read at once. */
static inline size_t vectors_count(const struct iovec *iov, int n)
{
	return n == 1 && is_bad_ptr(iov) ? 2 : (size_t)n;
}

/* Bytes of the vectors, or the -errno with which the kernel refuses them. */
ssize_t vectors_check(const struct iovec *iov, size_t n);

/* A bad message: pass it to the kernel for the right error. */
static inline bool is_bad_msg(const struct msghdr *msg)
{
	return is_bad_ptr(msg) || msg->msg_iovlen > IOV_MAX ||
	       (msg->msg_iovlen && is_bad_ptr(msg->msg_iov));
}

/* Called after a call of libc's moved @r bytes, or when the socket changed its
 * table during a call: update the state or find another table. */
void data_moved(struct file *f, int fd, int dir, ssize_t r);

static inline ssize_t data_received(struct file *f, int fd, ssize_t r)
{
	const struct sock_ops *ops = sock_ops(f->sk);

	if (likely(r > 0) && likely(ops->is_ours))
		count(&f->sk->st->rx_ops, 1);
	if (unlikely(load_rlx(&f->synced) != ops || (!ops->is_ours && r > 0)))
		data_moved(f, fd, DIR_RX, r);
	return r;
}

/* Before a send: returns the table that serves it.  Look first, so that the
 * peer sees the result of the look together with the data. */
static inline const struct sock_ops *data_sends(struct file *f, int fd)
{
	const struct sock_ops *ops = sock_ops(f->sk);

	if (likely(ops->is_ours) || !ops->is_due(f->sk, DIR_TX))
		return ops;
	file_advance(f, fd);
	return sock_ops(f->sk);
}

/* @len: the bytes that were to be sent. */
ssize_t data_sent(struct file *f, int fd, ssize_t r, ssize_t len, int flags);
