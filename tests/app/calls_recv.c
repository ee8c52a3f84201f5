/* SPDX-License-Identifier: MIT */
/* tests/app/calls_recv.c - scenarios: calls that receive (see calls.h) */
#include "calls.h"

#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

static void rcvtimeo(struct ctx *x, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	RES("setsockopt",
	    setsockopt(x->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
}

static void sent_by_far(struct ctx *x, long len)
{
	far_do(x, FAR_SEND, len);
	settle(x, POLLIN);
}

static void recv_got(struct ctx *x, const char *what, size_t len, int flags)
{
	errno = 0;
	long r = recv(x->fd, buf, n(len), flags);
	res(what, r);
	if (!(flags & (MSG_PEEK | MSG_TRUNC)))
		got(x, buf, r);
}

SCENARIO(recv_plain)
{
	sent_by_far(x, 100);
	recv_got(x, "recv", 60, 0);
	recv_got(x, "recv", 200, 0);
}

SCENARIO(recv_read)
{
	sent_by_far(x, 100);
	long r = read(x->fd, buf, n(30));
	res("read", r);
	got(x, buf, r);
	r = read(x->fd, buf, n(300));
	res("read", r);
	got(x, buf, r);
}

SCENARIO(recv_zero_length)
{
	RES("empty", recv(x->fd, buf, n(0), MSG_DONTWAIT));
	RES("read-empty", read(x->fd, buf, n(0)));
	sent_by_far(x, 100);
	RES("recv", recv(x->fd, buf, n(0), 0));
	RES("read", read(x->fd, buf, n(0)));
	RES("null", recv(x->fd, NULL, n(0), 0));
	recv_got(x, "all", 200, 0);
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	RES("eof", recv(x->fd, buf, n(0), 0));
}

SCENARIO(recv_bad_pointer)
{
	RES("empty", recv(x->fd, BAD_POINTER, n(10), MSG_DONTWAIT));
	sent_by_far(x, 100);
	RES("recv", recv(x->fd, BAD_POINTER, n(10), 0));
	RES("read", read(x->fd, BAD_POINTER, n(10)));
	RES("null", recv(x->fd, NULL, n(10), 0));
	recv_got(x, "all", 200, 0);
}

SCENARIO(recv_bad_fd)
{
	int p[2];

	RES("minus", recv(-1, buf, n(10), 0));
	RES("large", recv(90000, buf, n(10), 0));
	RES("read", read(-1, buf, n(10)));
	if (!pipe(p))
		RES("pipe", recv(p[0], buf, n(10), 0));
}

SCENARIO(recv_empty)
{
	RES("dontwait", recv(x->fd, buf, n(10), MSG_DONTWAIT));
	set_nonblock(x->fd);
	RES("recv", recv(x->fd, buf, n(10), 0));
	RES("read", read(x->fd, buf, n(10)));
	RES("peek", recv(x->fd, buf, n(10), MSG_PEEK));
	RES("waitall", recv(x->fd, buf, n(10), MSG_WAITALL));
	RES("trunc", recv(x->fd, buf, n(10), MSG_TRUNC));
}

SCENARIO(recv_peek)
{
	sent_by_far(x, 100);
	recv_got(x, "peek", 40, MSG_PEEK);
	recv_got(x, "peek", 200, MSG_PEEK);
	recv_got(x, "recv", 30, 0);
	recv_got(x, "peek", 200, MSG_PEEK | MSG_DONTWAIT);
	recv_got(x, "recv", 200, 0);
	recv_got(x, "peek", 200, MSG_PEEK | MSG_DONTWAIT);
}

SCENARIO(recv_peek_waits)
{
	far_do(x, FAR_SEND_LATER, 50);
	recv_got(x, "peek", 40, MSG_PEEK);
	recv_got(x, "recv", 200, 0);
}

SCENARIO(recv_peek_waitall)
{
	sent_by_far(x, 100);
	far_do(x, FAR_SEND_LATER, 100);
	recv_got(x, "peek", 200, MSG_PEEK | MSG_WAITALL);
	recv_got(x, "recv", 300, 0);
}

SCENARIO(recv_peek_eof)
{
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	recv_got(x, "peek", 200, MSG_PEEK);
	recv_got(x, "recv", 200, 0);
}

SCENARIO(recv_waitall_in_parts)
{
	sent_by_far(x, 100);
	far_do(x, FAR_SEND_LATER, 100);
	recv_got(x, "recv", 200, MSG_WAITALL);
}

SCENARIO(recv_waitall_eof)
{
	sent_by_far(x, 100);
	far_do(x, FAR_SHUT_LATER, SHUT_WR);
	recv_got(x, "recv", 200, MSG_WAITALL);
	recv_got(x, "again", 200, MSG_WAITALL);
}

SCENARIO(recv_waitall_dontwait)
{
	sent_by_far(x, 100);
	recv_got(x, "recv", 200, MSG_WAITALL | MSG_DONTWAIT);
}

SCENARIO(recv_waitall_large)
{
	far_begin(x, FAR_SEND, 1000000);
	recv_got(x, "recv", 1000000, MSG_WAITALL);
	out(" far=%ld", far_end(x));
}

SCENARIO(recv_waitall_reset)
{
	sent_by_far(x, 100);
	far_do(x, FAR_RESET_LATER, 0);
	recv_got(x, "recv", 200, MSG_WAITALL);
	recv_got(x, "recv", 200, MSG_WAITALL);
	recv_got(x, "recv", 200, MSG_WAITALL);
}

SCENARIO(recv_trunc)
{
	sent_by_far(x, 100);
	memset(buf, 0, 200);
	RES("recv", recv(x->fd, buf, n(30), MSG_TRUNC));
	out(" first=%d", buf[0]);
	RES("null", recv(x->fd, NULL, n(20), MSG_TRUNC));
	x->got += 50;
	recv_got(x, "rest", 200, 0);
}

SCENARIO(recv_trunc_peek)
{
	sent_by_far(x, 100);
	RES("both", recv(x->fd, NULL, n(30), MSG_TRUNC | MSG_PEEK));
	RES("longer", recv(x->fd, NULL, n(300), MSG_TRUNC | MSG_PEEK));
	recv_got(x, "recv", 200, 0);
}

SCENARIO(recv_oob_none) { RES("recv", recv(x->fd, buf, n(10), MSG_OOB)); }

SCENARIO(recv_errqueue) { RES("recv", recv(x->fd, buf, n(10), MSG_ERRQUEUE)); }

SCENARIO(recv_unknown_flags)
{
	sent_by_far(x, 100);
	recv_got(x, "recv", 200, 0x08000000 | MSG_EOR | MSG_NOSIGNAL);
}

SCENARIO(recv_from)
{
	struct sockaddr_in6 sa;
	socklen_t len = sizeof(sa);

	sent_by_far(x, 100);
	errno = 0;
	long r = recvfrom(x->fd, buf, n(200), 0, (void *)&sa, &len);
	res("recvfrom", r);
	got(x, buf, r);
	out(" namelen=%u", len);
}

SCENARIO(recv_msg)
{
	char control[64];
	struct sockaddr_in6 sa;
	struct iovec iov = { buf, n(200) };
	struct msghdr m = { .msg_name = &sa,
			    .msg_namelen = sizeof(sa),
			    .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control),
			    .msg_flags = MSG_CTRUNC };

	sent_by_far(x, 100);
	errno = 0;
	long r = recvmsg(x->fd, &m, 0);
	res("recvmsg", r);
	got(x, buf, r);
	out(" name=%u control=%zu flags=0x%x", m.msg_namelen,
	    (size_t)m.msg_controllen, m.msg_flags);
}

SCENARIO(recv_msg_flags)
{
	struct iovec iov = { buf, n(30) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	sent_by_far(x, 100);
	RES("peek", recvmsg(x->fd, &m, MSG_PEEK));
	out(" flags=0x%x", m.msg_flags);
	RES("trunc", recvmsg(x->fd, &m, MSG_TRUNC));
	out(" flags=0x%x", m.msg_flags);
	RES("cloexec", recvmsg(x->fd, &m, MSG_CMSG_CLOEXEC));
	out(" flags=0x%x", m.msg_flags);
}

SCENARIO(recv_msg_no_iov)
{
	struct msghdr m = { 0 };

	RES("empty", recvmsg(x->fd, &m, MSG_DONTWAIT));
	sent_by_far(x, 100);
	RES("recvmsg", recvmsg(x->fd, &m, 0));
	recv_got(x, "recv", 200, 0);
}

SCENARIO(recv_msg_empty_elements)
{
	struct iovec iov[5] = { { buf, 0 },
				{ buf, 50 },
				{ NULL, 0 },
				{ buf + 50, 70 },
				{ BAD_POINTER, 0 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 5 };

	sent_by_far(x, 100);
	errno = 0;
	long r = recvmsg(x->fd, &m, 0);
	res("recvmsg", r);
	got(x, buf, r);
}

SCENARIO(recv_msg_bad)
{
	struct iovec iov = { BAD_POINTER, 10 };
	struct iovec many[IOV_MAX + 1];
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	sent_by_far(x, 100);
	RES("buffer", recvmsg(x->fd, &m, 0));
	m.msg_iov = BAD_POINTER;
	RES("iov", recvmsg(x->fd, &m, 0));
	RES("msg", recvmsg(x->fd, BAD_POINTER, 0));
	for (int i = 0; i <= IOV_MAX; i++)
		many[i] = (struct iovec){ buf, 1 };
	m.msg_iov = many;
	m.msg_iovlen = IOV_MAX + 1;
	RES("many", recvmsg(x->fd, &m, 0));
	RES("readv-many", readv(x->fd, many, IOV_MAX + 1));
	RES("readv-none", readv(x->fd, many, 0));
	RES("readv-minus", readv(x->fd, many, (int)n((size_t)-1)));
	iov = (struct iovec){ buf, (size_t)-1 };
	RES("readv-long", readv(x->fd, &iov, 1));
	recv_got(x, "recv", 200, 0);
}

SCENARIO(recv_readv)
{
	struct iovec iov[3] = { { buf, 10 },
				{ buf + 10, 0 },
				{ buf + 10, 60 } };

	sent_by_far(x, 100);
	errno = 0;
	long r = readv(x->fd, iov, 3);
	res("readv", r);
	got(x, buf, r);
	errno = 0;
	r = readv(x->fd, iov, 3);
	res("readv", r);
	got(x, buf, r);
}

SCENARIO(recv_readv_max)
{
	static struct iovec iov[IOV_MAX];

	for (int i = 0; i < IOV_MAX; i++)
		iov[i] = (struct iovec){ buf + i, 1 };
	sent_by_far(x, 2000);
	errno = 0;
	long r = readv(x->fd, iov, IOV_MAX);
	res("readv", r);
	got(x, buf, r);
	recv_got(x, "recv", 4000, 0);
}

SCENARIO(recv_readv_second_bad)
{
	struct iovec iov[2] = { { buf, 50 }, { BAD_POINTER, 50 } };

	sent_by_far(x, 100);
	RES("readv", readv(x->fd, iov, 2));
	recv_got(x, "recv", 200, 0);
}

static void mmsg(struct ctx *x, const char *what, unsigned count, size_t each,
		 int flags, struct timespec *ts)
{
	struct iovec iov[4];
	struct mmsghdr m[4] = { 0 };

	for (unsigned i = 0; i < 4; i++) {
		iov[i] = (struct iovec){ buf + 1000 * i, each };
		m[i].msg_hdr.msg_iov = &iov[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	errno = 0;
	int r = recvmmsg(x->fd, m, count, flags, ts);
	res(what, r);
	for (int i = 0; i < r; i++) {
		out("/%u", m[i].msg_len);
		got(x, iov[i].iov_base, m[i].msg_len);
	}
}

SCENARIO(recv_mmsg)
{
	set_nonblock(x->fd);
	mmsg(x, "empty", 2, 50, 0, NULL);
	mmsg(x, "none", 0, 50, 0, NULL);
	sent_by_far(x, 100);
	mmsg(x, "two", 2, 40, 0, NULL);
	mmsg(x, "more", 3, 40, 0, NULL);
	RES("bad", recvmmsg(x->fd, BAD_POINTER, 1, 0, NULL));
}

SCENARIO(recv_mmsg_wait_for_one)
{
	sent_by_far(x, 100);
	mmsg(x, "one", 3, 60, MSG_WAITFORONE, NULL);
	far_do(x, FAR_SEND_LATER, 20);
	mmsg(x, "later", 3, 60, MSG_WAITFORONE, NULL);
}

SCENARIO(recv_mmsg_blocks_for_all)
{
	sent_by_far(x, 50);
	far_do(x, FAR_SEND_LATER, 50);
	mmsg(x, "two", 2, 50, 0, NULL);
}

SCENARIO(recv_mmsg_eof)
{
	sent_by_far(x, 50);
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	mmsg(x, "three", 3, 40, 0, NULL);
}

SCENARIO(recv_mmsg_timeout)
{
	struct timespec ts = { 20, 0 }, over = { 0, 1 }, bad = { 0, -1 };

	mmsg(x, "bad", 1, 50, 0, &bad);
	sent_by_far(x, 50);
	far_do(x, FAR_SEND_LATER, 50);
	mmsg(x, "two", 2, 50, 0, &ts);
	sent_by_far(x, 50);
	mmsg(x, "one", 4, 50, 0, &over);
}

SCENARIO(recv_timeo)
{
	rcvtimeo(x, 100);
	long long t = ms_now();
	RES("recv", recv(x->fd, buf, n(10), 0));
	took(t, 100);
	t = ms_now();
	RES("read", read(x->fd, buf, n(10)));
	took(t, 100);
	t = ms_now();
	RES("dontwait", recv(x->fd, buf, n(10), MSG_DONTWAIT));
	took(t, 0);
}

SCENARIO(recv_timeo_data_comes)
{
	rcvtimeo(x, 3000);
	long long t = ms_now();
	far_do(x, FAR_SEND_LATER, 10);
	recv_got(x, "recv", 20, 0);
	took(t, LATER_MS - 10);
}

SCENARIO(recv_timeo_waitall)
{
	rcvtimeo(x, 100);
	sent_by_far(x, 50);
	long long t = ms_now();
	recv_got(x, "recv", 100, MSG_WAITALL);
	took(t, 100);
}

SCENARIO(recv_timeo_option)
{
	struct timeval tv = { 1, 2000000 };
	socklen_t len = sizeof(tv);

	RES("bad", setsockopt(x->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	RES("short", setsockopt(x->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, 4));
	rcvtimeo(x, 2040);
	RES("get", getsockopt(x->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, &len));
	out(" %ld.%06ld len=%u", tv.tv_sec, tv.tv_usec, len);
}

static void lowat(struct ctx *x, int low)
{
	RES("lowat",
	    setsockopt(x->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
}

SCENARIO(recv_lowat_poll)
{
	lowat(x, 50);
	far_do(x, FAR_SEND, 20);
	usleep(20000);
	state(x, "20");
	far_do(x, FAR_SEND, 40);
	settle(x, POLLIN);
	state(x, "60");
	recv_got(x, "recv", 200, 0);
	state(x, "0");
	far_do(x, FAR_SEND, 10);
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	state(x, "eof");
}

SCENARIO(recv_lowat_dontwait)
{
	lowat(x, 50);
	far_do(x, FAR_SEND, 20);
	usleep(20000);
	recv_got(x, "recv", 200, MSG_DONTWAIT);
	lowat(x, 0);
	far_do(x, FAR_SEND, 1);
	settle(x, POLLIN);
	recv_got(x, "recv", 200, 0);
}

SCENARIO(recv_lowat_blocks)
{
	lowat(x, 50);
	far_do(x, FAR_SEND_LATER, 60);
	recv_got(x, "recv", 200, 0);
}

SCENARIO(recv_fionread)
{
	int avail = -1;

	RES("empty", ioctl(x->fd, FIONREAD, &avail));
	out("/%d", avail);
	sent_by_far(x, 100);
	RES("some", ioctl(x->fd, FIONREAD, &avail));
	out("/%d", avail);
	recv_got(x, "recv", 30, 0);
	RES("less", ioctl(x->fd, FIONREAD, &avail));
	out("/%d", avail);
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	RES("fin", ioctl(x->fd, FIONREAD, &avail));
	out("/%d", avail);
	recv_got(x, "recv", 300, 0);
	RES("eof", ioctl(x->fd, FIONREAD, &avail));
	out("/%d", avail);
	RES("bad", ioctl(x->fd, FIONREAD, BAD_POINTER));
}

/* What lies in shared memory counts, and what has come by TCP behind it. */
SCENARIO(recv_fionread_on_the_way_back)
{
	int one = 1, avail = -1;

	sent_by_far(x, 100);
	RES("inline",
	    setsockopt(x->fd, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one)));
	sent_by_far(x, 50);
	RES("both", ioctl(x->fd, FIONREAD, &avail));
	out("/%d", avail);
	recv_got(x, "recv", 30, 0);
	RES("less", ioctl(x->fd, FIONREAD, &avail));
	out("/%d", avail);
	recv_got(x, "recv", 120, MSG_WAITALL);
	RES("none", ioctl(x->fd, FIONREAD, &avail));
	out("/%d", avail);
}

SCENARIO(recv_intr)
{
	struct iovec iov = { buf, 10 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	interrupt_after(30, 0);
	RES("recv", recv(x->fd, buf, n(10), 0));
	interrupt_over();
	interrupt_after(30, 0);
	RES("read", read(x->fd, buf, n(10)));
	interrupt_over();
	interrupt_after(30, 0);
	RES("readv", readv(x->fd, &iov, 1));
	interrupt_over();
	interrupt_after(30, 0);
	RES("recvmsg", recvmsg(x->fd, &m, 0));
	interrupt_over();
	interrupt_after(30, 0);
	mmsg(x, "recvmmsg", 2, 50, 0, NULL);
	interrupt_over();
	interrupt_after(30, 0);
	RES("recvfrom", recvfrom(x->fd, buf, n(10), 0, NULL, NULL));
	interrupt_over();
	out(" signals=%d", interrupted);
}

SCENARIO(recv_restart)
{
	interrupt_after(20, SA_RESTART);
	far_do(x, FAR_SEND_LATER, 16);
	recv_got(x, "recv", 16, 0);
	interrupt_over();
	interrupt_after(20, SA_RESTART);
	far_do(x, FAR_SEND_LATER, 16);
	errno = 0;
	long r = read(x->fd, buf, n(16));
	interrupt_over();
	res("read", r);
	got(x, buf, r);
	out(" signals=%d", interrupted);
}

SCENARIO(recv_intr_waitall)
{
	sent_by_far(x, 50);
	interrupt_after(30, 0);
	recv_got(x, "recv", 100, MSG_WAITALL);
	interrupt_over();
	sent_by_far(x, 50);
	interrupt_after(30, SA_RESTART);
	recv_got(x, "restart", 100, MSG_WAITALL);
	interrupt_over();
}

/* signal(7): with a timeout, never restarted. */
SCENARIO(recv_timeo_intr)
{
	rcvtimeo(x, 2000);
	interrupt_after(30, SA_RESTART);
	RES("recv", recv(x->fd, buf, n(10), 0));
	interrupt_over();
	interrupt_after(30, 0);
	RES("read", read(x->fd, buf, n(10)));
	interrupt_over();
}

SCENARIO(recv_positioned)
{
	struct iovec iov = { buf, 10 };

	sent_by_far(x, 100);
	RES("pread", pread(x->fd, buf, n(10), 0));
	RES("preadv", preadv(x->fd, &iov, 1, 0));
	RES("lseek", lseek(x->fd, 0, SEEK_CUR));
	errno = 0;
	long r = preadv2(x->fd, &iov, 1, -1, 0);
	res("preadv2", r);
	got(x, buf, r);
	RES("nowait", preadv2(x->fd, &iov, 1, -1, RWF_NOWAIT) > 0);
}

SCENARIO(recv_while_sending)
{
	far_begin(x, FAR_ECHO, 100);
	for (int i = 0; i < 100; i++) {
		made(x, buf, 16);
		if (write(x->fd, buf, n(16)) != 16 ||
		    recv(x->fd, buf, n(16), MSG_WAITALL) != 16)
			out(" turn-%d", i);
		got(x, buf, 16);
	}
	out(" far=%ld", far_end(x));
}

/* A read that returns less than was asked for means that nothing is left, also when a part of
 * the bytes came through TCP and a part through shared memory. */
SCENARIO(recv_takes_all)
{
	int unread = 0;

	/* Unread bytes, while enough is sent for an upgrade. */
	for (int i = 0; i < 16; i++) {
		made(x, buf, 20000);
		RES("send", send(x->fd, buf, n(20000), 0));
		far_do(x, FAR_RECV, 20000);
		far_do(x, FAR_SEND, 100);
	}
	for (int i = 0; i < 1000 && unread < 1600; i++) {
		ioctl(x->fd, FIONREAD, &unread);
		usleep(1000);
	}
	out(" unread=%d", unread);
	recv_got(x, "some", 50, MSG_DONTWAIT);
	recv_got(x, "rest", 5000, MSG_DONTWAIT);
	recv_got(x, "more", 5000, MSG_DONTWAIT);
}

/* POLLHUP comes when the peer's FIN is in order, so a read that returns less than was asked for
 * after it has reached the end.  libuv relies on that.  Here most of the bytes wait at the far
 * end for room when the connection moves, and the end follows through shared memory. */
SCENARIO(recv_short_after_hup)
{
	struct pollfd p = { .fd = x->fd, .events = POLLIN };
	int room = 4096;
	ssize_t r = 1;

	RES("room",
	    setsockopt(x->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)));
	for (int i = 0; i < 16; i++) {
		made(x, buf, 20000);
		RES("send", send(x->fd, buf, n(20000), 0));
		far_do(x, FAR_RECV, 20000);
		far_do(x, FAR_SEND, 20000);
	}
	far_res(x, "far", FAR_SHUT, SHUT_WR);
	RES("shut", shutdown(x->fd, SHUT_WR));
	do {
		poll(&p, 1, -1);
		r = recv(x->fd, buf, n(65536), MSG_DONTWAIT);
		if (r > 0)
			x->got += (uint64_t)r;
	} while (r == 65536 || (r && !(p.revents & POLLHUP)));
	out(" got=%llu", (unsigned long long)x->got);
}

SCENARIO(recv_urgent)
{
	int at = -1;

	sent_by_far(x, 5);
	far_res(x, "far", FAR_SEND_OOB, 0);
	settle(x, POLLPRI);
	state(x, "state");
	recv_got(x, "recv", 100, 0);
	RES("sockatmark", ioctl(x->fd, SIOCATMARK, &at));
	out("/%d", at);
	RES("oob", recv(x->fd, buf, n(10), MSG_OOB));
	out("/%c", buf[0]);
	RES("again", recv(x->fd, buf, n(10), MSG_OOB));
}

/* It comes while the call sleeps, or before. */
SCENARIO(recv_urgent_ends_waitall)
{
	sent_by_far(x, 50);
	far_do(x, FAR_SEND_OOB_LATER, 0);
	recv_got(x, "recv", 100, MSG_WAITALL);
	settle(x, POLLPRI);
	RES("oob", recv(x->fd, buf, n(10), MSG_OOB));
	out("/%c", buf[0]);
	sent_by_far(x, 20);
	recv_got(x, "rest", 20, MSG_WAITALL);
}

/* The error comes first where there is nothing to read. */
SCENARIO(recv_nowhere_after_reset)
{
	far_do(x, FAR_RESET, 0);
	settle(x, POLLERR);
	RES("nowhere", recv(x->fd, buf, n(0), MSG_DONTWAIT));
	RES("again", recv(x->fd, buf, n(0), MSG_DONTWAIT));
	RES("bad", recv(x->fd, BAD_POINTER, n(10), MSG_DONTWAIT));
}

/* A message without room does not end the call, nor does the end of the stream. */
SCENARIO(recv_mmsg_of_nothing)
{
	struct mmsghdr m[3] = { 0 };
	struct iovec iov[3] = { { buf, 0 }, { buf, 10 }, { buf, 10 } };

	for (int i = 0; i < 3; i++) {
		m[i].msg_hdr.msg_iov = &iov[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	sent_by_far(x, 10);
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	RES("recvmmsg", recvmmsg(x->fd, m, n(3), 0, NULL));
	out(" %u/%u/%u", m[0].msg_len, m[1].msg_len, m[2].msg_len);
	m[1].msg_hdr.msg_iovlen = UIO_MAXIOV + 1;
	RES("long", recvmmsg(x->fd, m, n(3), 0, NULL));
	RES("first", recvmmsg(x->fd, m + 1, n(1), 0, NULL));
	RES("send", sendmmsg(x->fd, m + 1, n(1), 0));
}

/* The connection falls back to the kernel, first our direction, then the peer's.  The mark that
 * says so lies in the ring where bytes would lie, and must not make the socket readable. */
SCENARIO(recv_after_the_way_back)
{
	int one = 1;

	RES("inline",
	    setsockopt(x->fd, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one)));
	state(x, "set");
	RES("recv", recv(x->fd, buf, n(100), MSG_DONTWAIT));
	made(x, buf, 10);
	RES("send", send(x->fd, buf, n(10), 0));
	far_res(x, "far", FAR_RECV, 10);
	state(x, "sent");
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	recv_got(x, "recv", 100, 0);
	state(x, "read");
	RES("recv", recv(x->fd, buf, n(100), MSG_DONTWAIT));
	state(x, "empty");
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	recv_got(x, "recv", 100, 0);
	state(x, "read");
}

/* recvmmsg() asks for an error before it looks for bytes, and other calls after that. */
SCENARIO(recv_mmsg_tells_a_reset_first)
{
	far_do(x, FAR_SEND, 100);
	settle(x, POLLIN);
	far_do(x, FAR_RESET, 0);
	settle(x, POLLERR);
	mmsg(x, "recvmmsg", 2, 50, 0, NULL);
	mmsg(x, "again", 2, 50, 0, NULL);
}

SCENARIO(recv_shut_tells_a_reset)
{
	RES("shutdown", shutdown(x->fd, SHUT_RD));
	far_do(x, FAR_RESET, 0);
	settle(x, POLLERR);
	RES("peek", recv(x->fd, buf, n(10), MSG_PEEK));
	RES("again", recv(x->fd, buf, n(10), 0));
}
