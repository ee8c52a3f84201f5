/* SPDX-License-Identifier: MIT */
/*
 * preload/send.c - the calls that send; see preload/data.h
 *
 * preload/calls.def generates most of them; the others stand below.
 *
 * If the kernel serves the descriptor, libc sends.  We still record that
 * (sock_went_past()), so that a peer on this host handles later
 * notifications after these bytes.
 */
#include <signal.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "api/vma/below.h"
#include "api/vma/vma.h"
#include "preload/data.h"
#include "sock/cursor.h"

/* It was sent in part, or with an error. */
static COLD void sent_odd(struct file *f, int fd, bool ours, ssize_t r,
			  int flags)
{
	if (load_rlx(&vma_is_asked) && (r >= 0 || r == -EAGAIN))
		vma_sent_part(fd, load_rlx(&f->n_refs) > 2);
	if (r == -EPIPE && !(flags & MSG_NOSIGNAL))
		raise(SIGPIPE);
	if (ours && (r >= 0 || r == -EAGAIN))
		file_touched(f, EPOLLOUT);
	if (flags & MSG_ZEROCOPY && load_rlx(&f->sk->w->zc_done))
		file_touched(f, EPOLLERR);
}

ssize_t data_sent(struct file *f, int fd, ssize_t r, ssize_t len, int flags)
{
	const struct sock_ops *ops = sock_ops(f->sk);

	if (likely(r > 0) && likely(ops->is_ours))
		count(&f->sk->st->tx_ops, 1);
	if (unlikely(load_rlx(&f->synced) != ops))
		data_moved(f, fd, DIR_TX, r);
	if (unlikely(r != len || flags & MSG_ZEROCOPY))
		sent_odd(f, fd, ops->is_ours, r, flags);
	return r;
}

/* We must honour TCP_CORK while we move the bytes. */
static inline int corked(const struct sock *sk, const struct sock_ops *ops,
			 int flags)
{
	return unlikely(load_rlx(&sk->w->cork)) && ops->is_ours
		   ? flags | MSG_MORE
		   : flags;
}

static COLD ssize_t sendmsg_cut(struct file *f, int fd,
				const struct msghdr *msg, int flags)
{
	struct iovec part[IOV_MAX];
	struct msghdr m = *msg;

	m.msg_iov = part;
	m.msg_iovlen = iov_cut(part, msg->msg_iov, msg->msg_iovlen, MOVE_MAX);
	return data_sendmsg(f, fd, &m, flags);
}

static COLD ssize_t send_cut(struct call *c, int fd, const struct iovec *iov,
			     size_t n, int flags)
{
	struct iovec part[IOV_MAX];

	return data_send(c, fd, part, iov_cut(part, iov, n, MOVE_MAX), flags);
}

ssize_t data_sendmsg(struct file *f, int fd, const struct msghdr *msg,
		     int flags)
{
	ssize_t len = vectors_check(msg->msg_iov, msg->msg_iovlen);

	if (len < 0)
		return len;
	if (unlikely((size_t)len > MOVE_MAX))
		return sendmsg_cut(f, fd, msg, flags);
	flags = corked(f->sk, data_sends(f, fd), flags);
	ssize_t r = io_sendmsg(f->sk, fd, msg, (size_t)len, flags);
	return data_sent(f, fd, r, len, flags);
}

HOT ssize_t data_send(struct call *c, int fd, const struct iovec *iov, size_t n,
		      int flags)
{
	struct file *f = c->file;
	ssize_t len = likely(n == 1) ? (ssize_t)iov->iov_len : -1;
	int saved = errno;

	if (unlikely((size_t)len > MOVE_MAX)) {
		len = vectors_check(iov, n);
		if (len < 0 || (!len && flags & WRITEV_FLAG))
			return libc_ret(len, saved);
		if ((size_t)len > MOVE_MAX)
			return send_cut(c, fd, iov, n, flags);
	}
	call_may_sleep(c);
	const struct sock_ops *ops = data_sends(f, fd);
	flags = corked(f->sk, ops, flags & ~FLAGS_OF_OURS);
	if (unlikely(flags & MSG_OOB)) {
		struct msghdr msg = { .msg_iov = (struct iovec *)iov,
				      .msg_iovlen = n };

		return libc_ret(data_sendmsg(f, fd, &msg, flags), saved);
	}
	ssize_t r = io_send(f->sk, ops, fd, iov, n, (size_t)len, flags);
	return libc_ret(data_sent(f, fd, r, len, flags), saved);
}

/* What libc's call has answered, on a descriptor that we know. */
static ssize_t by_kernel(int fd, ssize_t r)
{
	went_past(past_of(fd));
	return vma_counts_sends() ? vma_sent(fd, r) : r;
}

/* Is libc's answer all that there is to a send on @fd? */
static inline bool is_kernels(int fd)
{
	return likely(!table_load(fd)) && !vma_counts_sends();
}

static inline bool is_dummy(const struct iovec *iov, size_t n, int flags)
{
	return vma_is_dummy(flags);
}

/* VMA_SND_FLAGS_DUMMY. */
OURS ssize_t send_dummy(int fd, const struct iovec *iov, size_t n, int flags,
			const struct sockaddr *addr, socklen_t len)
{
	struct msghdr msg = { .msg_name = (void *)addr,
			      .msg_namelen = addr ? len : 0,
			      .msg_iov = (struct iovec *)iov,
			      .msg_iovlen = n };

	return vma_dummy_send(fd, &msg, flags & ~FLAGS_OF_OURS);
}

#define RX(...)
#define TX(name, params, args, kernel, vectors, ...)                           \
	OURS ssize_t name##_ours params                                        \
	{                                                                      \
		CALL(c) = { .file = data_file(fd) };                           \
		if (unlikely(!c.file))                                         \
			return by_kernel(fd, (kernel));                        \
		return data_send(&c, fd, vectors, __VA_ARGS__);                \
	}                                                                      \
	OSF_API ssize_t name params                                            \
	{                                                                      \
		if (is_dummy(vectors, __VA_ARGS__))                            \
			return send_dummy(fd, vectors, __VA_ARGS__, NULL, 0);  \
		return is_kernels(fd) ? (kernel) : name##_ours args;           \
	}
#include "preload/calls.def"
#undef RX
#undef TX

/* Calls with an address or control messages. */

OURS ssize_t sendto_ours(int fd, const void *buf, size_t n, int flags,
			 const struct sockaddr *addr, socklen_t len)
{
	CALL(c) = { .file = data_file(fd) };
	if (unlikely(!c.file))
		return by_kernel(fd, libc.sendto(fd, buf, n, flags, addr, len));
	if (!addr)
		return data_send(&c, fd, ONE(buf, n), flags);
	struct iovec iov = { (void *)buf, n };
	struct msghdr msg = { .msg_name = (void *)addr,
			      .msg_namelen = len,
			      .msg_iov = &iov,
			      .msg_iovlen = 1 };
	int saved = errno;
	call_may_sleep(&c);
	return libc_ret(len > sizeof(struct sockaddr_storage)
			    ? -EINVAL
			    : data_sendmsg(c.file, fd, &msg, flags),
			saved);
}

OSF_API ssize_t sendto(int fd, const void *buf, size_t n, int flags,
		       const struct sockaddr *addr, socklen_t len)
{
	if (vma_is_dummy(flags))
		return send_dummy(fd, ONE(buf, n), flags, addr, len);
	return is_kernels(fd) ? libc.sendto(fd, buf, n, flags, addr, len)
			      : sendto_ours(fd, buf, n, flags, addr, len);
}

COLD void each_passed(const struct msghdr *msg, void (*with)(int fd))
{
	struct msghdr m = *msg;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
		    c->cmsg_len < CMSG_LEN(sizeof(int)))
			continue;
		const int *fds = (const int *)CMSG_DATA(c);
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++)
			with(fds[i]);
	}
}

static COLD void pass_one(int fd)
{
	file_hand_over(fd, OSF_REASON_PASSED);
	vma_passes(fd);
}

/* A socket that goes to another process falls back to TCP first. */
COLD void pass_on(const struct msghdr *msg)
{
	if (!is_bad_ptr(msg->msg_control))
		each_passed(msg, pass_one);
}

/* On any descriptor, as it may pass one of our descriptors on. */
OURS ssize_t sendmsg_ours(int fd, const struct msghdr *msg, int flags)
{
	int saved = errno;
	bool bad = is_bad_msg(msg);

	if (!bad && msg->msg_controllen)
		pass_on(msg);
	CALL(c) = { .file = bad ? NULL : data_file(fd) };
	if (!c.file)
		return by_kernel(fd, libc.sendmsg(fd, msg, flags));
	call_may_sleep(&c);
	return libc_ret(data_sendmsg(c.file, fd, msg, flags), saved);
}

ssize_t below_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return likely(!table_load(fd) &&
		      (is_bad_ptr(msg) || !msg->msg_controllen))
		   ? libc.sendmsg(fd, msg, flags)
		   : sendmsg_ours(fd, msg, flags);
}

OSF_API ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (vma_is_dummy(flags))
		return vma_dummy_send(fd, msg, flags);
	return vma_counts_sends() ? sendmsg_ours(fd, msg, flags)
				  : below_sendmsg(fd, msg, flags);
}

OSF_API ssize_t pwritev2(int fd, const struct iovec *iov, int n, off_t off,
			 int flags)
{
	const int known =
	    RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND;
	CALL(c) = { .file =
			off == -1 && !(flags & ~known) ? data_file(fd) : NULL };
	if (likely(!c.file))
		return libc.pwritev2(fd, iov, n, off, flags);
	return data_send(&c, fd, iov, vectors_count(iov, n),
			 WRITEV_FLAG | (flags & RWF_NOWAIT ? MSG_DONTWAIT : 0));
}

OSF_API ssize_t pwritev64v2(int fd, const struct iovec *iov, int n, off64_t off,
			    int flags) __attribute__((alias("pwritev2")));

/* Calls that send from a file. */

/* With @off, pread() refuses a file without a position.  Without @off, read()
 * would consume bytes where the kernel's sendfile() refuses. */
static bool has_no_place(int in)
{
	int saved = errno;
	bool none = lseek(in, 0, SEEK_CUR) < 0;

	errno = saved;
	return none;
}

OURS ssize_t sendfile_ours(int out, int in, off_t *off, size_t n)
{
	CALL(c) = { .file = data_file(out) };
	int saved = errno;

	if (!c.file || !n || (off ? is_bad_ptr(off) : has_no_place(in)))
		return by_kernel(out, libc.sendfile(out, in, off, n));
	if (n > INT_MAX - 4095)
		n = INT_MAX - 4095; /* the kernel's limit of one call */
	call_may_sleep(&c);
	data_sends(c.file, out);
	ssize_t r = io_send_file(c.file->sk, out, in, off, MIN(n, MOVE_MAX));
	/* The kernel's sendfile() has raised SIGPIPE itself. */
	int flags = sock_is_ours(c.file->sk) ? 0 : MSG_NOSIGNAL;
	return libc_ret(data_sent(c.file, out, r, (ssize_t)n, flags), saved);
}

OSF_API ssize_t sendfile(int out, int in, off_t *off, size_t n)
{
	return likely(!table_load(out)) ? libc.sendfile(out, in, off, n)
					: sendfile_ours(out, in, off, n);
}

OSF_API ssize_t sendfile64(int out, int in, off64_t *off, size_t n)
    __attribute__((alias("sendfile")));
