/* SPDX-License-Identifier: MIT */
/*
 * preload/recv.c - the calls that receive; see preload/data.h
 *
 * preload/calls.def generates most of them; the others stand below.  Each is a
 * cancellation point as in libc: it sleeps in a libc call, and CALL()'s
 * clean-up runs when a thread is cancelled there.
 */
#include <string.h>
#include <unistd.h>

#include "api/vma/below.h"
#include "api/vma/vma.h"
#include "preload/data.h"
#include "sock/cursor.h"
#include "sock/lend.h"

/* glibc's names for calls of programs compiled with _FORTIFY_SOURCE. */
ssize_t __read_chk(int fd, void *buf, size_t n, size_t size);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags);
ssize_t __recvfrom_chk(int fd, void *restrict buf, size_t n, size_t size,
		       int flags, struct sockaddr *restrict addr,
		       socklen_t *restrict len);

ssize_t vectors_check(const struct iovec *iov, size_t n)
{
	size_t bytes = 0;

	if (n > IOV_MAX)
		return -EINVAL;
	if (n && is_bad_ptr(iov))
		return -EFAULT;
	for (size_t i = 0; i < n; i++) {
		if (iov[i].iov_len > SSIZE_MAX - bytes)
			return -EINVAL;
		bytes += iov[i].iov_len;
	}
	return (ssize_t)bytes;
}

COLD void data_moved(struct file *f, int fd, int dir, ssize_t r)
{
	const struct sock_ops *ops = sock_ops(f->sk);

	if (dir == DIR_RX && r > 0 && ops->is_due(f->sk, dir))
		file_advance(f, fd);
	if (!file_is_synced(f))
		file_sync(f, fd);
}

static COLD ssize_t recv_cut(struct call *c, int fd, const struct iovec *iov,
			     size_t n, int flags)
{
	struct iovec part[IOV_MAX];

	return data_recv(c, fd, part, iov_cut(part, iov, n, MOVE_MAX), flags);
}

HOT ssize_t data_recv(struct call *c, int fd, const struct iovec *iov, size_t n,
		      int flags)
{
	int saved = errno;

	if (n != 1 || unlikely(iov->iov_len - 1 >= MOVE_MAX)) {
		ssize_t bytes = vectors_check(iov, n);

		if (bytes < 0 || (!bytes && flags & READ_FLAG))
			return libc_ret(bytes, saved);
		if ((size_t)bytes > MOVE_MAX)
			return recv_cut(c, fd, iov, n, flags);
	}
	call_may_sleep(c);
	if (unlikely(flags & MSG_ERRQUEUE)) {
		struct msghdr msg = { .msg_iov = (struct iovec *)iov,
				      .msg_iovlen = n };

		return libc_ret(data_recvmsg(c->file, fd, &msg, flags), saved);
	}
	struct sock *sk = c->file->sk;
	ssize_t r =
	    io_recv(sk, sock_ops(sk), fd, iov, n, flags & ~FLAGS_OF_OURS);
	return libc_ret(data_received(c->file, fd, r), saved);
}

/* For a socket with a receive callback. */
OURS ssize_t recv_filtered(int fd, const struct iovec *iov, size_t n, int flags)
{
	if (n != 1 || unlikely(iov->iov_len - 1 >= SSIZE_MAX)) {
		ssize_t bytes = vectors_check(iov, n);

		if (bytes < 0 || (!bytes && flags & READ_FLAG))
			return libc_ret(bytes, errno);
	}
	return vma_recv(fd, iov, n, flags & ~FLAGS_OF_OURS);
}

#define RX(name, params, args, kernel, vectors, ...)                           \
	OURS ssize_t name##_ours params                                        \
	{                                                                      \
		CALL(c) = { .file = data_file(fd) };                           \
		if (unlikely(!c.file))                                         \
			return (kernel);                                       \
		return data_recv(&c, fd, vectors, __VA_ARGS__);                \
	}                                                                      \
	OSF_API ssize_t name params                                            \
	{                                                                      \
		if (vma_has(fd))                                               \
			return recv_filtered(fd, vectors, __VA_ARGS__);        \
		return likely(!file_serves(fd)) ? (kernel) : name##_ours args; \
	}
#define TX(...)
#include "preload/calls.def"
#undef RX
#undef TX

OSF_API ssize_t __read_chk(int fd, void *buf, size_t n, size_t size)
{
	CHECK(n, size);
	return read(fd, buf, n);
}

OSF_API ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags)
{
	CHECK(n, size);
	return recv(fd, buf, n, flags);
}

/* Calls that return more than bytes. */

static COLD ssize_t recvmsg_cut(struct file *f, int fd, struct msghdr *msg,
				int flags)
{
	struct iovec part[IOV_MAX];
	struct msghdr m = *msg;

	m.msg_iov = part;
	m.msg_iovlen = iov_cut(part, msg->msg_iov, msg->msg_iovlen, MOVE_MAX);
	ssize_t r = data_recvmsg(f, fd, &m, flags);
	m.msg_iov = msg->msg_iov;
	m.msg_iovlen = msg->msg_iovlen;
	*msg = m;
	return r;
}

ssize_t data_recvmsg(struct file *f, int fd, struct msghdr *msg, int flags)
{
	ssize_t bytes = vectors_check(msg->msg_iov, msg->msg_iovlen);

	if (bytes < 0)
		return bytes;
	if (unlikely((size_t)bytes > MOVE_MAX))
		return recvmsg_cut(f, fd, msg, flags);
	return data_received(f, fd, io_recvmsg(f->sk, fd, msg, flags));
}

/* As the kernel: a stream names no senders. */
OURS ssize_t recvfrom_ours(int fd, void *buf, size_t n, int flags,
			   struct sockaddr *addr, socklen_t *len)
{
	CALL(c) = { .file = data_file(fd) };
	if (unlikely(!c.file || (addr && is_bad_ptr(len))))
		return libc.recvfrom(fd, buf, n, flags, addr, len);
	if (!addr || !(flags & MSG_ERRQUEUE)) {
		ssize_t r = data_recv(&c, fd, ONE(buf, n), flags);

		if (r >= 0 && addr)
			*len = 0;
		return r;
	}
	int saved = errno;
	struct iovec iov = { buf, n };
	struct msghdr msg = { .msg_name = addr,
			      .msg_namelen = *len,
			      .msg_iov = &iov,
			      .msg_iovlen = 1 };
	call_may_sleep(&c);
	ssize_t r = data_recvmsg(c.file, fd, &msg, flags);
	if (r >= 0)
		*len = msg.msg_namelen;
	return libc_ret(r, saved);
}

ssize_t below_recvfrom(int fd, void *buf, size_t n, int flags,
		       struct sockaddr *addr, socklen_t *len)
{
	return likely(!file_serves(fd))
		   ? libc.recvfrom(fd, buf, n, flags, addr, len)
		   : recvfrom_ours(fd, buf, n, flags, addr, len);
}

OSF_API ssize_t recvfrom(int fd, void *restrict buf, size_t n, int flags,
			 struct sockaddr *restrict addr,
			 socklen_t *restrict len)
{
	return vma_has(fd) ? vma_recvfrom(fd, buf, n, flags, addr, len)
			   : below_recvfrom(fd, buf, n, flags, addr, len);
}

OSF_API ssize_t __recvfrom_chk(int fd, void *restrict buf, size_t n,
			       size_t size, int flags,
			       struct sockaddr *restrict addr,
			       socklen_t *restrict len)
{
	CHECK(n, size);
	return recvfrom(fd, buf, n, flags, addr, len);
}

OURS ssize_t recvmsg_ours(int fd, struct msghdr *msg, int flags)
{
	CALL(c) = { .file = data_file(fd) };
	int saved = errno;

	if (unlikely(!c.file || is_bad_msg(msg)))
		return libc.recvmsg(fd, msg, flags);
	call_may_sleep(&c);
	return libc_ret(data_recvmsg(c.file, fd, msg, flags), saved);
}

/* On a descriptor that is not ours, as another process may pass a listener on it. */
ssize_t below_recvmsg(int fd, struct msghdr *msg, int flags)
{
	if (unlikely(file_serves(fd)))
		return recvmsg_ours(fd, msg, flags);
	ssize_t r = libc.recvmsg(fd, msg, flags);
	if (unlikely(r >= 0 && msg->msg_controllen))
		each_passed(msg, file_adopt_listener);
	return r;
}

/* What a quick attempt did not settle. */
static COLD ssize_t recv_slowly(struct call *c, int fd, void *buf, size_t n)
{
	int saved = errno;
	ssize_t r = c->file ? data_recv(c, fd, ONE(buf, n), MSG_DONTWAIT)
			    : libc.recv(fd, buf, n, MSG_DONTWAIT);

	if (r < 0) {
		r = -errno;
		errno = saved;
	}
	return r;
}

HOT ssize_t below_recv(int fd, void *buf, size_t n)
{
	CALL(c) = { .file = data_file(fd) };
	const struct sock_ops *ops = c.file ? sock_ops(c.file->sk) : NULL;
	struct iovec iov = { buf, n };

	if (unlikely(!ops || !ops->is_ours))
		return recv_slowly(&c, fd, buf, n);
	ssize_t r = ops->recv(c.file->sk, fd, &iov, 1, MSG_DONTWAIT);
	if (likely(r != -EAGAIN && r != -ESTALE))
		return data_received(c.file, fd, r);
	return recv_slowly(&c, fd, buf, n);
}

HOT ssize_t below_take(int fd, void *buf, size_t n, bool one, unsigned looks)
{
	CALL(c) = { .file = data_file(fd) };
	const struct sock_ops *ops = c.file ? sock_ops(c.file->sk) : NULL;
	ssize_t r = 0;
	int is;

	if (unlikely(!ops || !ops->is_ours))
		return -EAGAIN;
	/* Who looks without a break takes the line away from the peer, who is writing. */
	while (!(is = ops->is_ready(c.file->sk, DIR_RX)) && --looks)
		cpu_relax();
	if (is <= 0)
		return is ? -EAGAIN : 0;
	if (one && ops->recv_one)
		r = ops->recv_one(c.file->sk, fd, buf, n);
	if (unlikely(!r)) {
		struct iovec iov = { buf, n };

		r = ops->recv(c.file->sk, fd, &iov, 1, MSG_DONTWAIT);
	}
	data_received(c.file, fd, r);
	if (likely(r > 0))
		return r;
	return r == -EAGAIN ? 0 : r == -ESTALE ? -EAGAIN : r ? r : -ENODATA;
}

int32_t below_lend(int fd, uint32_t max, const uint8_t **data,
		   struct below_lent *l)
{
	CALL(c) = { .file = data_file(fd) };
	const struct lend_ops *ops = c.file ? sock_ops(c.file->sk)->lend : NULL;
	struct lend_memory *memory;
	struct lent at = { 0 };

	if (!ops || !ops->lend_one)
		return 0;
	call_may_sleep(&c);
	int32_t n = ops->lend_one(c.file->sk, fd, max, data, &at, &memory);
	if (n > 0)
		*l = (struct below_lent){ at.off, memory };
	return n;
}

void below_lent_back(int fd, const struct below_lent *l)
{
	CALL(c) = { .file = data_file(fd) };
	const struct lend_ops *ops = c.file ? sock_ops(c.file->sk)->lend : NULL;
	struct lent at = { .off = l->off };

	if (ops && ops->one_back)
		ops->one_back(c.file->sk, fd, &at, l->memory);
	lend_memory_put(l->memory, &at);
}

bool below_serves(int fd) { return file_serves(fd); }

bool below_is_left(int fd)
{
	CALL(c) = { .file = file_get_any(fd) };
	const struct sock *sk =
	    c.file && c.file->kind == FILE_SOCK ? c.file->sk : NULL;
	unsigned reason = sk ? load_rlx(&sk->st->reason) : OSF_REASON_NONE;

	return reason == OSF_REASON_RULE || reason == OSF_REASON_DIRECT;
}

int below_is_ready(int fd)
{
	CALL(c) = { .file = data_file(fd) };
	const struct sock_ops *ops = c.file ? sock_ops(c.file->sk) : NULL;

	return ops && ops->is_ours ? ops->is_ready(c.file->sk, DIR_RX) : -1;
}

OSF_API ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	return vma_has(fd) ? vma_recvmsg(fd, msg, flags)
			   : below_recvmsg(fd, msg, flags);
}

/* Of the flags of preadv2() only this one means something to a socket. */
#define RWF_KNOWN (RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND)

OURS ssize_t preadv2_ours(int fd, const struct iovec *iov, int n, off_t off,
			  int flags)
{
	CALL(c) = { .file = off == -1 && !(flags & ~RWF_KNOWN) ? data_file(fd)
							       : NULL };
	if (unlikely(!c.file))
		return libc.preadv2(fd, iov, n, off, flags);
	return data_recv(&c, fd, iov, vectors_count(iov, n),
			 READ_FLAG | (flags & RWF_NOWAIT ? MSG_DONTWAIT : 0));
}

OSF_API ssize_t preadv2(int fd, const struct iovec *iov, int n, off_t off,
			int flags)
{
	return likely(!file_serves(fd)) ? libc.preadv2(fd, iov, n, off, flags)
					: preadv2_ours(fd, iov, n, off, flags);
}

OSF_API ssize_t preadv64v2(int fd, const struct iovec *iov, int n, off64_t off,
			   int flags) __attribute__((alias("preadv2")));
