/* SPDX-License-Identifier: MIT */
/*
 * preload/data.c - the calls that move bytes
 *
 *     application -> send() -> file_get() -> shm_send()
 *                                 |
 *                                 +-> libc.send(), when the kernel serves it
 *
 * Built from preload/calls.def; the few that do not fit its shape stand below it.
 * Every one is a cancellation point as libc's is: what we sleep in is a libc call,
 * and CALL()'s clean-up runs when a thread is cancelled there.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "file/epoll.h"
#include "inet/inet.h"
#include "ops/ops.h"
#include "preload/edge.h"
#include "preload/numbered.h"
#include "preload/times.h"
#include "shm/shm.h"

/* Ours, above libc's MSG_*: read() and readv(), where 0 bytes mean no call. */
#define READ_FLAG (1 << 30)

/* A stream ignores an address, but looks at it: this flag fails the call. */
#define BAD_ADDR_FLAG (1 << 29)
#define BAD_LEN_FLAG (1 << 28)
#define TO(addr, len, flags)                                                   \
	((flags) | (!(addr)                                   ? 0              \
		    : (len) > sizeof(struct sockaddr_storage) ? BAD_LEN_FLAG   \
		    : (len) && is_bad_ptr(addr)               ? BAD_ADDR_FLAG  \
							      : 0))
#define MSG_VECTORS(msg) (msg)->msg_iov, (msg)->msg_iovlen

/* What these flags ask for, the rings do not have. */
#define RX_KERNEL_FLAGS (MSG_OOB | MSG_ERRQUEUE)

extern void __chk_fail(void) __attribute__((noreturn));
/* glibc's names for calls of programs compiled with _FORTIFY_SOURCE. */
ssize_t __read_chk(int fd, void *buf, size_t n, size_t size);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags);
ssize_t __recvfrom_chk(int fd, void *restrict buf, size_t n, size_t size,
		       int flags, struct sockaddr *restrict addr,
		       socklen_t *restrict len);

#define CHECK(n, size) ((n) > (size) ? __chk_fail() : (void)0)

static ssize_t vectors_check(const struct iovec *iov, size_t n)
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

/* A message that the kernel refuses, so that it may say how. */
static bool bad_msg(const struct msghdr *msg)
{
	return is_bad_ptr(msg) || msg->msg_iovlen > IOV_MAX ||
	       (msg->msg_iovlen && is_bad_ptr(msg->msg_iov));
}

/* A ring takes no notice of control messages; so those that are wrong, or ask for what
 * only the kernel can do, are the kernel's. */
static COLD bool bad_control(const struct msghdr *msg)
{
	if (!msg->msg_controllen)
		return false;
	if (is_bad_ptr(msg->msg_control))
		return true;
	struct msghdr m = *msg;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_len < sizeof(*c) || control_is_kernels(c))
			return true;
	return msg->msg_controllen < sizeof(struct cmsghdr);
}

/* Out-of-band calls are the kernel's, on the connection underneath, and so is most of
 * what an error queue holds. */
static COLD ssize_t rx_kernel(struct sock *sk, int fd, const struct iovec *iov,
			      size_t n, int flags)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = n };

	if (flags & MSG_ERRQUEUE)
		return errq_recv(sk, fd, &msg, flags);
	ssize_t r = libc.recvmsg(fd, &msg, flags);
	return r < 0 ? -errno : r;
}

HOT ssize_t edge_rx(struct file *f, int fd, const struct iovec *iov, size_t n,
		    int flags)
{
	struct sock *sk = f->sk;

	if (n != 1 || unlikely(iov->iov_len - 1 >= SSIZE_MAX)) {
		ssize_t bytes = vectors_check(iov, n);

		if (bytes < 0 || (!bytes && flags & READ_FLAG))
			return bytes;
	}
	flags &= ~READ_FLAG;
	if (unlikely(flags & RX_KERNEL_FLAGS))
		return rx_kernel(sk, fd, iov, n, flags);
	ssize_t r = shm_recv(sk, fd, iov, n, flags);
	if (unlikely(!load_rlx(&f->merged) || shm_wants_back_or_gone(sk)))
		file_settle(f, fd);
	if (likely(r > 0))
		count(&sk->st.rx_ops, 1);
	return r;
}

static inline bool is_urgent(const struct iovec *iov, size_t n, int flags)
{
	return flags & MSG_OOB;
}

/* The kernel counts an urgent byte among the others, and delivers it by itself. */
static COLD void tx_urgent_young(struct file *f)
{
	if (ops_pin(f->sk, OSF_REASON_URGENT))
		file_pass(f);
}

static COLD ssize_t tx_urgent(struct file *f, int fd, const struct iovec *iov,
			      size_t n, int flags)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = n };

	if (sock_mode(f->sk) == SOCK_CANDIDATE) { /* it counts its bytes */
		lock_get(&f->sk->rx_lock);
		lock_get(&f->sk->tx_lock);
		if (sock_mode(f->sk) == SOCK_CANDIDATE)
			shm_candidate_decide(f->sk, fd);
		lock_put(&f->sk->tx_lock);
		lock_put(&f->sk->rx_lock);
	}
	if (load_rlx(&f->sk->shut) & SHUT_BIT_WR)
		return -EPIPE; /* the anchor is not */
	shm_take_back(f->sk, fd, OSF_REASON_URGENT);
	ssize_t r = libc.sendmsg(fd, &msg, flags | MSG_NOSIGNAL);
	return r < 0 ? -errno : r;
}

/* What is no plain send, or has a number. */
#define TX_ODD_FLAGS (BAD_LEN_FLAG | BAD_ADDR_FLAG | MSG_OOB | MSG_ZEROCOPY)

static COLD ssize_t tx_odd(struct file *f, int fd, const struct iovec *iov,
			   size_t n, int flags)
{
	struct sock *sk = f->sk;

	if (flags & (BAD_LEN_FLAG | BAD_ADDR_FLAG))
		return flags & BAD_LEN_FLAG ? -EINVAL : -EFAULT;
	ssize_t r;
	if (flags & MSG_OOB) {
		r = tx_urgent(f, fd, iov, n, flags & ~MSG_ZEROCOPY);
		if (r > 0 && flags & MSG_ZEROCOPY && load_rlx(&sk->zc_on))
			errq_copied(sk);
	} else {
		r = shm_send_zerocopy(sk, fd, iov, n, flags);
	}
	if (load_rlx(&sk->zc_done))
		epoll_touch(f, EPOLLERR);
	return r;
}

HOT ssize_t edge_tx(struct file *f, int fd, const struct iovec *iov, size_t n,
		    int flags)
{
	struct sock *sk = f->sk;
	ssize_t r, bytes;

	if (likely(n == 1 && iov->iov_len <= SSIZE_MAX)) {
		bytes = (ssize_t)iov->iov_len;
	} else {
		bytes = vectors_check(iov, n);
		if (bytes < 0)
			return bytes;
	}
	if (unlikely(load_rlx(&sk->cork)))
		flags |= MSG_MORE;
	if (unlikely(flags & TX_ODD_FLAGS))
		r = tx_odd(f, fd, iov, n, flags);
	else
		r = shm_send(sk, fd, iov, n, flags);
	if (unlikely(!load_rlx(&f->merged) || shm_wants_back_or_gone(sk)))
		file_settle(f, fd);
	if (unlikely(r != bytes)) {
		if (r == -EPIPE && !(flags & MSG_NOSIGNAL))
			raise(SIGPIPE);
		if (r >= 0 || r == -EAGAIN)
			epoll_touch(f, EPOLLOUT);
	}
	if (likely(r > 0))
		count(&sk->st.tx_ops, 1);
	return r;
}

/* Enter a kernel call, or learn that the call has become ours.  KERNEL: the table
 * has not heard yet. */
bool call_enter(struct call *c)
{
	struct sock *sk = c->file->sk;

	for (;;) {
		if (sock_enter(sk)) {
			c->entered = sk;
			return true;
		}
		switch (sock_mode(sk)) {
		case SOCK_CANDIDATE:
		case SOCK_SHM:
			return false;
		case SOCK_KERNEL:
			file_settle(c->file, c->file->anchor_fd);
			return true;
		default: /* UPGRADING takes microseconds */
			cpu_relax();
		}
	}
}

/*
 * One data call on a file of ours.  @kernel is libc's own call; if the socket goes
 * back to the kernel while we are at it, that is the answer too.
 */
#define DATA_CALL(c, dir, kernel, ours) DATA_CALL_OF(c, dir, kernel, ours, r_)
/* @moved: the bytes that libc's call moved, where it answers otherwise. */
#define DATA_CALL_OF(c, dir, kernel, ours, moved)                              \
	({                                                                     \
		struct sock *sk_ = (c).file->sk;                               \
		int errno_before_ = errno;                                     \
		call_may_sleep(&(c));                                          \
		ssize_t r_;                                                    \
		if ((dir) == DIR_TX && unlikely(!is_ours(sk_)) &&              \
		    inet_due_before_send(sk_))                                 \
			file_look((c).file, fd);                               \
		if (unlikely(!is_ours(sk_)) && call_enter(&(c))) {             \
			r_ = (kernel);                                         \
			call_leave(&(c));                                      \
			if (inet_account(sk_, (dir), (moved)))                 \
				file_look((c).file, fd);                       \
		} else {                                                       \
			r_ = (ours);                                           \
			if (unlikely(r_ == -ESTALE)) {                         \
				call_went_back(&(c));                          \
				r_ = (kernel);                                 \
			} else {                                               \
				r_ = libc_ret(r_, errno_before_);              \
			}                                                      \
		}                                                              \
		r_;                                                            \
	})

/* A socket that goes to another process goes as the kernel's. */
COLD void pass_on(const struct msghdr *msg)
{
	struct msghdr m = *msg;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
		    c->cmsg_len < CMSG_LEN(sizeof(int)))
			continue;
		const int *fds = (const int *)CMSG_DATA(c);
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++)
			file_hand_over(fds[i], OSF_REASON_PASSED);
	}
}

static void pass_on_all(const struct mmsghdr *msgs, unsigned n)
{
	for (unsigned i = 0; i < n && i < UIO_MAXIOV; i++)
		if (unlikely(msgs[i].msg_hdr.msg_controllen) &&
		    !is_bad_ptr(msgs[i].msg_hdr.msg_control))
			pass_on(&msgs[i].msg_hdr);
}

#define PASSES_sendmsg                                                         \
	if (!bad_msg(msg) && unlikely(msg->msg_controllen) &&                  \
	    !is_bad_ptr(msg->msg_control))                                     \
	pass_on(msg)
#define PASSES_write (void)0
#define PASSES_writev (void)0
#define PASSES_send (void)0
#define PASSES_sendto (void)0

/* sendmsg() is followed through its pointer. */
#define BAD_MSG_sendmsg bad_msg(msg) || (msg->msg_control && bad_control(msg))
#define ODD_sendmsg(kernel)                                                    \
	c.file &&c.file->kind == FILE_SOCK && !bad_msg(msg)                    \
	    ? control_send(&c, fd, msg, flags)                                 \
	    : (kernel)
#define BAD_MSG_write false
#define BAD_MSG_writev false
#define BAD_MSG_send false
#define BAD_MSG_sendto false
#define ODD_write(kernel) (kernel)
#define ODD_writev(kernel) (kernel)
#define ODD_send(kernel) (kernel)
#define ODD_sendto(kernel) (kernel)

#define RX(name, params, kernel, vectors, ...)                                 \
	OSF_API ssize_t name params                                            \
	{                                                                      \
		CALL(c) = { .file = file_get(fd) };                            \
		if (likely(!c.file) || c.file->kind != FILE_SOCK)              \
			return (kernel);                                       \
		return DATA_CALL(c, DIR_RX, (kernel),                          \
				 edge_rx(c.file, fd, vectors, __VA_ARGS__));   \
	}
#define TX(name, params, kernel, vectors, ...)                                 \
	OSF_API ssize_t name params                                            \
	{                                                                      \
		PASSES_##name;                                                 \
		CALL(c) = { .file = file_get(fd) };                            \
		if (likely(!c.file) || c.file->kind != FILE_SOCK ||            \
		    BAD_MSG_##name) {                                          \
			ssize_t r = ODD_##name(kernel);                        \
			if (unlikely(goes_past(fd)))                           \
				inbox_went_past();                             \
			return r;                                              \
		}                                                              \
		if (unlikely(is_urgent(vectors, __VA_ARGS__)))                 \
			tx_urgent_young(c.file);                               \
		return DATA_CALL(                                              \
		    c, DIR_TX,                                                 \
		    numbered(c.file->sk, fd, (kernel), vectors, __VA_ARGS__),  \
		    edge_tx(c.file, fd, vectors, __VA_ARGS__));                \
	}
#include "preload/calls.def"

/*
 * Those with results beside the bytes.
 */

/* As the kernel: a stream names no senders. */
static ssize_t edge_recvfrom(struct file *f, int fd, const struct iovec *iov,
			     size_t n, int flags, const struct sockaddr *addr,
			     socklen_t *len)
{
	ssize_t r = edge_rx(f, fd, iov, n, flags);

	if (r >= 0 && addr && len)
		*len = 0;
	return r;
}

OSF_API ssize_t recvfrom(int fd, void *restrict buf, size_t n, int flags,
			 struct sockaddr *restrict addr,
			 socklen_t *restrict len)
{
	CALL(c) = { .file = file_get(fd) };
	if (likely(!c.file) || c.file->kind != FILE_SOCK)
		return libc.recvfrom(fd, buf, n, flags, addr, len);
	return DATA_CALL(
	    c, DIR_RX, libc.recvfrom(fd, buf, n, flags, addr, len),
	    edge_recvfrom(c.file, fd, ONE(buf, n), flags, addr, len));
}

OSF_API ssize_t __recvfrom_chk(int fd, void *restrict buf, size_t n,
			       size_t size, int flags,
			       struct sockaddr *restrict addr,
			       socklen_t *restrict len)
{
	CHECK(n, size);
	return recvfrom(fd, buf, n, flags, addr, len);
}

/* TCP_INQ's control message; as the kernel, cut off where the program left no room.
 * The end of the stream counts as a byte, so that the program reads on. */
static COLD void put_inq(struct sock *sk, int fd, struct msghdr *msg,
			 size_t room)
{
	struct {
		struct cmsghdr head;
		int inq;
	} c = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
			  .cmsg_level = IPPROTO_TCP,
			  .cmsg_type = TCP_CM_INQ } };

	if (is_bad_ptr(msg->msg_control) || room < sizeof(c.head)) {
		msg->msg_flags |= MSG_CTRUNC;
		return;
	}
	c.inq = shm_inq(sk, fd);
	if (c.inq <= 0)
		c.inq = (shm_events(sk, fd) & POLLRDHUP) != 0;
	if (room < c.head.cmsg_len) {
		msg->msg_flags |= MSG_CTRUNC;
		c.head.cmsg_len = room;
	}
	memcpy(msg->msg_control, &c, c.head.cmsg_len);
	msg->msg_controllen = MIN(room, CMSG_SPACE(sizeof(int)));
}

static ssize_t edge_recvmsg(struct file *f, int fd, struct msghdr *msg,
			    int flags)
{
	size_t room = msg->msg_controllen;

	if (unlikely(flags & MSG_ERRQUEUE))
		return errq_recv(f->sk, fd, msg, flags);
	bool times = msg->msg_controllen && load_rlx(&f->sk->times);
	if (unlikely(times) && times_wanted(f, fd)) {
		ssize_t k = libc.recvmsg(fd, msg, flags);

		return k < 0 ? -errno : k;
	}
	if (unlikely(flags & MSG_OOB)) {
		ssize_t k = libc.recvmsg(fd, msg, flags);

		return k < 0 ? -errno : k;
	}
	ssize_t r = edge_rx(f, fd, msg->msg_iov, msg->msg_iovlen, flags);
	if (r >= 0) {
		msg->msg_namelen = 0;
		msg->msg_controllen = 0;
		msg->msg_flags = flags & MSG_CMSG_CLOEXEC;
		if (unlikely(load_rlx(&f->sk->inq)))
			put_inq(f->sk, fd, msg, room);
	}
	return r;
}

/* Who carries the connection does not matter. */
static COLD ssize_t recv_errq(struct file *f, int fd, struct msghdr *msg,
			      int flags)
{
	int saved = errno;

	return libc_ret(errq_recv(f->sk, fd, msg, flags), saved);
}

OSF_API ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	CALL(c) = { .file = file_get(fd) };
	if (likely(!c.file) || c.file->kind != FILE_SOCK || bad_msg(msg))
		return libc.recvmsg(fd, msg, flags);
	if (unlikely(flags & MSG_ERRQUEUE))
		return recv_errq(c.file, fd, msg, flags);
	if (unlikely(msg->msg_controllen && load_rlx(&c.file->sk->times)))
		times_wanted_young(c.file);
	return DATA_CALL(c, DIR_RX, libc.recvmsg(fd, msg, flags),
			 edge_recvmsg(c.file, fd, msg, flags));
}

/*
 * sendmmsg() and recvmmsg() on a stream are loops of the single calls.  An error
 * after some messages is the next call's, as with the kernel.
 */
static ssize_t mmsg_bytes(const struct mmsghdr *msgs, ssize_t n)
{
	ssize_t bytes = 0;

	for (ssize_t i = 0; i < n; i++)
		bytes += msgs[i].msg_len;
	return bytes;
}

static int edge_sendmmsg(struct file *f, int fd, struct mmsghdr *msgs,
			 unsigned n, int flags)
{
	unsigned i = 0;

	for (; i < n && i < UIO_MAXIOV; i++) {
		struct msghdr *msg = &msgs[i].msg_hdr;
		ssize_t r =
		    edge_tx(f, fd, msg->msg_iov, msg->msg_iovlen, flags);

		if (r < 0 && i)
			anchor_note(f->sk, (int)-r);
		if (r < 0)
			return i ? (int)i : (int)r;
		msgs[i].msg_len = (unsigned)r;
		/* What did not fit goes before the next message. */
		if (r < vectors_check(msg->msg_iov, msg->msg_iovlen))
			return (int)i + 1;
	}
	return (int)i;
}

OSF_API int sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	if (!is_bad_ptr(msgs))
		pass_on_all(msgs, n);
	CALL(c) = { .file = file_get(fd) };

	if (likely(!c.file) || c.file->kind != FILE_SOCK || is_bad_ptr(msgs))
		return libc.sendmmsg(fd, msgs, n, flags);
	if (unlikely(flags & MSG_OOB))
		tx_urgent_young(c.file);
	return (int)DATA_CALL_OF(
	    c, DIR_TX,
	    numbered_all(c.file->sk, fd, msgs,
			 libc.sendmmsg(fd, msgs, n, flags), flags),
	    edge_sendmmsg(c.file, fd, msgs, n, flags), mmsg_bytes(msgs, r_));
}

/* As the kernel: time is looked at after each message. */
static bool is_late(const struct timespec *start, const struct timespec *limit)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	int64_t ns = (now.tv_sec - start->tv_sec) * INT64_C(1000000000) +
		     (now.tv_nsec - start->tv_nsec);
	return ns >= limit->tv_sec * INT64_C(1000000000) + limit->tv_nsec;
}

static int edge_recvmmsg(struct file *f, int fd, struct mmsghdr *msgs,
			 unsigned n, int flags, const struct timespec *ts)
{
	struct timespec start;
	unsigned i = 0;

	if (ts &&
	    (ts->tv_sec < 0 || ts->tv_nsec < 0 || ts->tv_nsec > 999999999))
		return -EINVAL;
	clock_gettime(CLOCK_MONOTONIC, &start);
	while (i < n && i < UIO_MAXIOV) {
		ssize_t r = edge_recvmsg(f, fd, &msgs[i].msg_hdr,
					 flags & ~MSG_WAITFORONE);

		if (r < 0 && i && r != -EAGAIN)
			anchor_note(f->sk, (int)-r);
		if (r < 0)
			return i ? (int)i : (int)r;
		msgs[i++].msg_len = (unsigned)r;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if (!r || (ts && is_late(&start, ts)))
			break;
	}
	return (int)i;
}

OSF_API int recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags,
		     struct timespec *ts)
{
	CALL(c) = { .file = file_get(fd) };

	if (likely(!c.file) || c.file->kind != FILE_SOCK || is_bad_ptr(msgs) ||
	    (ts && is_bad_ptr(ts)))
		return libc.recvmmsg(fd, msgs, n, flags, ts);
	return (int)DATA_CALL_OF(c, DIR_RX,
				 libc.recvmmsg(fd, msgs, n, flags, ts),
				 edge_recvmmsg(c.file, fd, msgs, n, flags, ts),
				 mmsg_bytes(msgs, r_));
}

/* Of the flags of preadv2() only this one means something to a socket. */
static int nowait(int flags) { return flags & RWF_NOWAIT ? MSG_DONTWAIT : 0; }
#define RWF_KNOWN (RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND)

OSF_API ssize_t preadv2(int fd, const struct iovec *iov, int n, off_t off,
			int flags)
{
	CALL(c) = { .file = off == -1 && !(flags & ~RWF_KNOWN) ? file_get(fd)
							       : NULL };
	if (likely(!c.file) || c.file->kind != FILE_SOCK)
		return libc.preadv2(fd, iov, n, off, flags);
	return DATA_CALL(
	    c, DIR_RX, libc.preadv2(fd, iov, n, off, flags),
	    edge_rx(c.file, fd, iov, (size_t)n, READ_FLAG | nowait(flags)));
}

OSF_API ssize_t pwritev2(int fd, const struct iovec *iov, int n, off_t off,
			 int flags)
{
	CALL(c) = { .file = off == -1 && !(flags & ~RWF_KNOWN) ? file_get(fd)
							       : NULL };
	if (likely(!c.file) || c.file->kind != FILE_SOCK)
		return libc.pwritev2(fd, iov, n, off, flags);
	return DATA_CALL(c, DIR_TX, libc.pwritev2(fd, iov, n, off, flags),
			 edge_tx(c.file, fd, iov, (size_t)n, nowait(flags)));
}

OSF_API ssize_t preadv64v2(int fd, const struct iovec *iov, int n, off64_t off,
			   int flags) __attribute__((alias("preadv2")));
OSF_API ssize_t pwritev64v2(int fd, const struct iovec *iov, int n, off64_t off,
			    int flags) __attribute__((alias("pwritev2")));

/*
 * Between descriptors.
 */

static ssize_t edge_sendfile(struct file *f, int out, int in, off_t *off,
			     size_t n)
{
	struct sock *sk = f->sk;
	ssize_t r = shm_send_file(sk, out, in, off, n, load_rlx(&sk->nonblock));

	if (unlikely(!load_rlx(&f->merged) || shm_wants_back_or_gone(sk)))
		file_settle(f, out);
	if (r == -EPIPE)
		raise(SIGPIPE);
	if (r > 0)
		count(&sk->st.tx_ops, 1);
	if (r == -EAGAIN || (r > 0 && (size_t)r < n))
		epoll_touch(f, EPOLLOUT);
	return r;
}

/* With @off pread() refuses what has no place to read from.  Without it read() would
 * take bytes, and the kernel's sendfile() refuses. */
static bool has_no_place(int in)
{
	int saved = errno;
	bool none = lseek(in, 0, SEEK_CUR) < 0;

	errno = saved;
	return none;
}

OSF_API ssize_t sendfile(int out, int in, off_t *off, size_t n)
{
	int fd = out;
	CALL(c) = { .file = file_get(out) };
	if (likely(!c.file) || c.file->kind != FILE_SOCK || !n ||
	    (off ? is_bad_ptr(off) : has_no_place(in)))
		return libc.sendfile(out, in, off, n);
	if (n > INT_MAX - 4095)
		n = INT_MAX - 4095; /* the kernel's limit of one call */
	return DATA_CALL(c, DIR_TX, libc.sendfile(out, in, off, n),
			 edge_sendfile(c.file, out, in, off, n));
}

OSF_API ssize_t sendfile64(int out, int in, off64_t *off, size_t n)
    __attribute__((alias("sendfile")));

/*
 * splice() between a pipe and a socket of ours, by way of a buffer.  What was
 * taken from the one must fit the other: a pipe that may block takes all of it in
 * time, one that may not takes PIPE_BUF bytes when it polls as writable.
 */
#define SPLICE_BUF (64 * 1024)
#define SPLICE_FLAGS                                                           \
	(SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT)

static bool may_block(int pipe_fd, unsigned flags)
{
	return !(flags & SPLICE_F_NONBLOCK) &&
	       !(libc.fcntl(pipe_fd, F_GETFL) & O_NONBLOCK);
}

static bool pipe_is(int pipe_fd, short events, int timeout_ms)
{
	struct pollfd p = { .fd = pipe_fd, .events = events };

	return libc.poll(&p, 1, timeout_ms) > 0;
}

/* Bytes that a pipe takes at once: one that is empty takes what it can hold. */
static size_t pipe_room(int pipe_fd)
{
	int used = 0, size = libc.fcntl(pipe_fd, F_GETPIPE_SZ);

	return size > PIPE_BUF && !libc.ioctl(pipe_fd, FIONREAD, &used) && !used
		   ? (size_t)size
		   : (size_t)PIPE_BUF;
}

/* SPLICE_F_NONBLOCK is about the pipe: whether the socket waits is for O_NONBLOCK. */
static ssize_t splice_in(struct file *f, int sock, int pipe_fd, size_t n,
			 unsigned flags)
{
	bool block = may_block(pipe_fd, flags);
	char buf[SPLICE_BUF];
	size_t done = 0;

	if (!block && !pipe_is(pipe_fd, POLLOUT, 0))
		return -EAGAIN;
	n = MIN(n, sizeof(buf));
	if (!block)
		n = MIN(n, pipe_room(pipe_fd));
	ssize_t r = edge_rx(f, sock, ONE(buf, n), 0);
	while (r > 0 && done < (size_t)r) {
		ssize_t w = libc.write(pipe_fd, buf + done, (size_t)r - done);

		if (w >= 0)
			done += (size_t)w;
		else if (errno == EAGAIN) /* others have filled it: lose none */
			pipe_is(pipe_fd, POLLOUT, -1);
		else if (errno != EINTR)
			return -errno;
	}
	return r;
}

/* What could not be sent goes back to where it was: in front of the rest. */
static COLD void pipe_put_back(int pipe_fd, const char *data, size_t n)
{
	int rest = 0;

	if (libc.ioctl(pipe_fd, FIONREAD, &rest) < 0 || rest < 0)
		return;
	/* /proc opens the other end of the pipe. */
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", pipe_fd);
	int out = libc.open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC, 0);
	char *all = malloc(n + (size_t)rest);
	if (out >= 0 && all) {
		memcpy(all, data, n);
		ssize_t more =
		    rest ? libc.read(pipe_fd, all + n, (size_t)rest) : 0;
		size_t len = n + (more > 0 ? (size_t)more : 0);
		if (libc.write(out, all, len) != (ssize_t)len)
			log_err("splice: %zu bytes were lost", len);
	}
	free(all);
	if (out >= 0)
		libc.close(out);
}

static ssize_t splice_out(struct file *f, int sock, int pipe_fd, size_t n,
			  unsigned flags)
{
	char buf[SPLICE_BUF];
	size_t sent = 0;

	if (!may_block(pipe_fd, flags) && !pipe_is(pipe_fd, POLLIN, 0))
		return -EAGAIN;
	/* Nothing may be lost between the pipe and a socket that is full, so
	 * wait for room first, then take, then send all of it. */
	while (!(shm_events(f->sk, sock) & POLLOUT)) {
		struct pollfd room = { .fd = sock, .events = POLLOUT };

		if (f->sk->nonblock)
			return -EAGAIN;
		if (poll(&room, 1, -1) < 0)
			return -errno;
	}
	ssize_t r = libc.read(pipe_fd, buf, MIN(n, sizeof(buf)));
	if (r <= 0)
		return r < 0 ? -errno : 0;
	while (sent < (size_t)r) {
		struct iovec iov = { buf + sent, (size_t)r - sent };
		ssize_t w = edge_tx(f, sock, &iov, 1,
				    flags & SPLICE_F_MORE ? MSG_MORE : 0);

		if (w < 0 && w != -EAGAIN)
			pipe_put_back(pipe_fd, buf + sent, (size_t)r - sent);

		if (w == -EAGAIN) {
			struct pollfd p = { .fd = sock, .events = POLLOUT };
			poll(&p, 1, -1);
		} else if (w < 0) {
			return sent ? (ssize_t)sent : w;
		} else {
			sent += (size_t)w;
		}
	}
	return (ssize_t)sent;
}

OSF_API ssize_t splice(int in, off64_t *off_in, int out, off64_t *off_out,
		       size_t n, unsigned flags)
{
	int fd = in, errno_before = errno;
	CALL(ci) = { .file = file_get(in) };
	CALL(co) = { .file = file_get(out) };
	bool in_ours = ci.file && ci.file->kind == FILE_SOCK &&
		       sock_mode(ci.file->sk) != SOCK_KERNEL;
	bool out_ours = co.file && co.file->kind == FILE_SOCK &&
			sock_mode(co.file->sk) != SOCK_KERNEL;

	if (likely(!in_ours && !out_ours))
		return libc.splice(in, off_in, out, off_out, n, flags);
	struct stat st;
	if (in_ours == out_ours || (in_ours && off_in) ||
	    (out_ours && off_out) || flags & ~(unsigned)SPLICE_FLAGS ||
	    libc.fstat(in_ours ? out : in, &st) || !S_ISFIFO(st.st_mode)) {
		errno = EINVAL; /* as the kernel: one end must be a pipe */
		return -1;
	}
	if (in_ours)
		return DATA_CALL(
		    ci, DIR_RX, libc.splice(in, off_in, out, off_out, n, flags),
		    splice_in(ci.file, in, out, n, flags));
	fd = out;
	ssize_t r = DATA_CALL(co, DIR_TX,
			      libc.splice(in, off_in, out, off_out, n, flags),
			      splice_out(co.file, out, in, n, flags));
	if (r >= 0)
		errno = errno_before;
	return r;
}
