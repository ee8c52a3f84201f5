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
#include <limits.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "file/epoll.h"
#include "ops/ops.h"
#include "preload/data_call.h"
#include "preload/edge.h"
#include "preload/numbered.h"
#include "preload/times.h"
#include "proto/shm/shm.h"

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
		count(&sk->st->rx_ops, 1);
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
		file_touched(f, EPOLLERR);
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
			file_touched(f, EPOLLOUT);
	}
	if (likely(r > 0))
		count(&sk->st->tx_ops, 1);
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
		count(&sk->st->tx_ops, 1);
	if (r == -EAGAIN || (r > 0 && (size_t)r < n))
		file_touched(f, EPOLLOUT);
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
