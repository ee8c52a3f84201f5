/* SPDX-License-Identifier: MIT */
/* tests/app/calls_send.c - scenarios: calls that send (see calls.h) */
#include "calls.h"

#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <linux/sockios.h>
#include <unistd.h>

static void send_made(struct ctx *x, const char *what, size_t len, int flags)
{
	made(x, buf, len);
	errno = 0;
	long r = send(x->fd, buf, n(len), flags);
	res(what, r);
	x->sent -= r < 0 ? len : len - (size_t)r;
}

static void sndtimeo(struct ctx *x, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	setsockopt(x->fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
}

SCENARIO(send_plain)
{
	send_made(x, "send", 100, 0);
	made(x, buf, 100);
	RES("write", write(x->fd, buf, n(100)));
	made(x, buf, 100);
	RES("sendto", sendto(x->fd, buf, n(100), MSG_NOSIGNAL, NULL, 0));
	far_res(x, "far", FAR_RECV, 300);
}

SCENARIO(send_to_address)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = 9 };

	made(x, buf, 100);
	RES("sendto", sendto(x->fd, buf, n(100), 0, (void *)&sa, sizeof(sa)));
	far_res(x, "far", FAR_RECV, 100);
	RES("bad", sendto(x->fd, buf, n(100), 0, BAD_POINTER, sizeof(sa)));
	RES("long", sendto(x->fd, buf, n(100), 0, (void *)&sa, 4096));
}

/* sendmsg() ignores an address that is too short, and control data that is too short for a
 * header: it sends both messages to the peer.  It refuses wrong headers before it sends
 * anything. */
SCENARIO(send_msg_odd)
{
	struct sockaddr_storage to[8] = { { .ss_family = AF_INET } };
	struct cmsghdr c = { .cmsg_level = SOL_SOCKET,
			     .cmsg_type = SO_MARK,
			     .cmsg_len = 1000 };
	struct iovec iov = { buf, 100 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	made(x, buf, 100);
	m.msg_name = to;
	m.msg_namelen = sizeof(to);
	RES("long", sendmsg(x->fd, &m, 0));
	far_res(x, "far", FAR_RECV, 100);
	m.msg_name = NULL;
	m.msg_control = &c;
	m.msg_controllen = 4;
	made(x, buf, 100);
	RES("short", sendmsg(x->fd, &m, 0));
	far_res(x, "far", FAR_RECV, 100);
	m.msg_controllen = sizeof(c);
	RES("overrun", sendmsg(x->fd, &m, 0));
	c.cmsg_len = 1;
	RES("tiny", sendmsg(x->fd, &m, 0));
	made(x, buf, 100);
	m.msg_controllen = 0;
	RES("plain", sendmsg(x->fd, &m, 0));
	far_res(x, "far", FAR_RECV, 100);
}

SCENARIO(send_zero_length)
{
	RES("send", send(x->fd, buf, n(0), 0));
	RES("write", write(x->fd, buf, n(0)));
	RES("null", send(x->fd, NULL, n(0), 0));
	RES("bad", send(x->fd, BAD_POINTER, n(0), 0));
	send_made(x, "one", 1, 0);
	far_res(x, "far", FAR_RECV, 1);
}

SCENARIO(send_bad_pointer)
{
	RES("send", send(x->fd, BAD_POINTER, n(10), 0));
	RES("write", write(x->fd, BAD_POINTER, n(10)));
	RES("null", send(x->fd, NULL, n(10), 0));
	send_made(x, "good", 10, 0);
	far_res(x, "far", FAR_RECV, 10);
}

/* The vectors themselves are at a bad address. */
SCENARIO(send_vectors_bad_pointer)
{
	far_do(x, FAR_SEND, 10);
	for (int i = 0; i < 3; i++) {
		RES("writev", writev(x->fd, BAD_POINTER, i));
		RES("writev", writev(x->fd, NULL, i));
		RES("readv", readv(x->fd, BAD_POINTER, i));
		RES("pwritev2", pwritev2(x->fd, BAD_POINTER, i, -1, 0));
		RES("preadv2", preadv2(x->fd, BAD_POINTER, i, -1, 0));
	}
	send_made(x, "good", 10, 0);
	far_res(x, "far", FAR_RECV, 10);
}

SCENARIO(send_half_bad_pointer)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(p + 4096, 4096);
	RES("send", send(x->fd, p + 4000, n(200), 0));
	send_made(x, "good", 10, 0);
	far_res(x, "far", FAR_RECV, 10);
}

SCENARIO(send_bad_fd)
{
	int p[2];

	RES("minus", send(-1, buf, n(10), 0));
	RES("large", send(90000, buf, n(10), 0));
	RES("write", write(-1, buf, n(10)));
	if (!pipe(p))
		RES("pipe", send(p[1], buf, n(10), 0));
}

SCENARIO(send_until_full)
{
	state(x, "before");
	size_t total = fill_up(x);
	out(" %s", total > 50000 ? "much" : "little");
	state(x, "full");
	RES("dontwait", send(x->fd, buf, n(10), MSG_DONTWAIT));
	set_nonblock(x->fd);
	RES("nonblock", send(x->fd, buf, n(10), 0));
	RES("write", write(x->fd, buf, n(10)));
	RES("zero", send(x->fd, buf, n(0), 0));
	long r = far_do(x, FAR_DRAIN, (long)total);
	out(" %s", r == (long)total ? "all-there" : "lost");
	state(x, "drained");
	send_made(x, "again", 10, 0);
	far_res(x, "far", FAR_RECV, 10);
}

SCENARIO(send_large)
{
	made(x, buf, 1000000);
	far_begin(x, FAR_RECV, 1000000);
	RES("send", send(x->fd, buf, n(1000000), 0));
	out(" far=%ld", far_end(x));
}

SCENARIO(send_nonblock_partial)
{
	size_t total = 0;
	long r;

	set_nonblock(x->fd);
	do {
		made(x, buf, sizeof(buf));
		r = send(x->fd, buf, sizeof(buf), 0);
		x->sent -= sizeof(buf) - (r > 0 ? (size_t)r : 0);
		total += r > 0 ? (size_t)r : 0;
	} while (r == (long)sizeof(buf));
	out(" %s", r > 0 || errno == EAGAIN ? "partial" : "odd");
	r = far_do(x, FAR_DRAIN, (long)total);
	out(" %s", r == (long)total ? "all-there" : "lost");
}

SCENARIO(send_timeo)
{
	fill_up(x);
	sndtimeo(x, 100);
	long long t = ms_now();
	RES("send", send(x->fd, buf, n(10), 0));
	took(t, 100);
	t = ms_now();
	RES("write", write(x->fd, buf, n(10)));
	took(t, 100);
}

/* The number that headers for a 64-bit time on 32-bit machines give it. */
SCENARIO(send_timeo_new)
{
	const int so_sndtimeo_new = 67;
	struct timeval tv = { .tv_usec = 100000 };

	fill_up(x);
	RES("set",
	    setsockopt(x->fd, SOL_SOCKET, so_sndtimeo_new, &tv, sizeof(tv)));
	long long t = ms_now();
	RES("send", send(x->fd, buf, n(10), 0));
	took(t, 100);
}

SCENARIO(send_timeo_partial)
{
	sndtimeo(x, 100);
	char *large = calloc(64, 1 << 20);
	long r = send(x->fd, large, n(64 << 20), 0);
	out(" %s", r > 0 && r < 64 << 20 ? "partial" : "odd");
	free(large);
}

SCENARIO(send_intr)
{
	struct iovec iov = { buf, 10 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	fill_up(x);
	interrupt_after(30, 0);
	RES("send", send(x->fd, buf, n(10), 0));
	interrupt_over();
	interrupt_after(30, 0);
	RES("write", write(x->fd, buf, n(10)));
	interrupt_over();
	interrupt_after(30, 0);
	RES("writev", writev(x->fd, &iov, 1));
	interrupt_over();
	interrupt_after(30, 0);
	RES("sendmsg", sendmsg(x->fd, &m, 0));
	interrupt_over();
	out(" signals=%d", interrupted);
}

SCENARIO(send_restart)
{
	size_t total = fill_up(x);

	interrupt_after(20, SA_RESTART);
	far_do(x, FAR_RECV_LATER, (long)total);
	send_made(x, "send", 10, 0);
	interrupt_over();
	far_res(x, "far", FAR_RECV, 10);
	out(" signals=%d", interrupted);
}

SCENARIO(send_intr_partial)
{
	char *large = calloc(64, 1 << 20);

	interrupt_after(50, 0);
	long r = send(x->fd, large, n(64 << 20), 0);
	interrupt_over();
	out(" %s signals=%d", r > 0 && r < 64 << 20 ? "partial" : "odd",
	    interrupted);
	free(large);
}

SCENARIO(send_more)
{
	send_made(x, "more", 10, MSG_MORE);
	send_made(x, "more", 10, MSG_MORE);
	send_made(x, "last", 10, 0);
	far_res(x, "far", FAR_RECV, 30);
	send_made(x, "alone", 10, MSG_MORE);
	far_res(x, "far", FAR_RECV, 10);
	send_made(x, "fin", 10, MSG_MORE);
	RES("shutdown", shutdown(x->fd, SHUT_WR));
	far_res(x, "far", FAR_RECV, 20);
}

SCENARIO(send_flags)
{
	send_made(x, "eor", 10, MSG_EOR);
	send_made(x, "confirm", 10, MSG_CONFIRM);
	send_made(x, "dontroute", 10, MSG_DONTROUTE);
	far_res(x, "far", FAR_RECV, 30);
}

SCENARIO(send_msg)
{
	struct iovec iov[5] = { { buf, 0 },
				{ buf, 50 },
				{ NULL, 0 },
				{ buf + 50, 50 },
				{ BAD_POINTER, 0 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 5 };

	made(x, buf, 100);
	RES("sendmsg", sendmsg(x->fd, &m, MSG_NOSIGNAL));
	made(x, buf, 100);
	RES("writev", writev(x->fd, iov, 5));
	m.msg_iovlen = 0;
	RES("none", sendmsg(x->fd, &m, 0));
	RES("writev-none", writev(x->fd, iov, 0));
	far_res(x, "far", FAR_RECV, 200);
}

SCENARIO(send_msg_bad)
{
	struct iovec iov = { BAD_POINTER, 10 };
	static struct iovec many[IOV_MAX + 1];
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	RES("buffer", sendmsg(x->fd, &m, 0));
	RES("writev", writev(x->fd, &iov, 1));
	m.msg_iov = BAD_POINTER;
	RES("iov", sendmsg(x->fd, &m, 0));
	RES("msg", sendmsg(x->fd, BAD_POINTER, 0));
	for (int i = 0; i <= IOV_MAX; i++)
		many[i] = (struct iovec){ buf, 1 };
	m.msg_iov = many;
	m.msg_iovlen = IOV_MAX + 1;
	RES("many", sendmsg(x->fd, &m, 0));
	RES("writev-many", writev(x->fd, many, IOV_MAX + 1));
	RES("writev-minus", writev(x->fd, many, (int)n((size_t)-1)));
	made(x, buf, IOV_MAX);
	for (int i = 0; i < IOV_MAX; i++)
		many[i].iov_base = buf + i;
	RES("writev-max", writev(x->fd, many, IOV_MAX));
	far_res(x, "far", FAR_RECV, IOV_MAX);
}

SCENARIO(send_writev_second_bad)
{
	struct iovec iov[2] = { { buf, 50 }, { BAD_POINTER, 50 } };

	made(x, buf, 50);
	long r = writev(x->fd, iov, 2);
	/* How much went before the fault is the kernel's affair. */
	out(" %s", r == -1 && errno == EFAULT ? "fault" : "some");
	if (r == -1)
		x->sent -= 50;
	send_made(x, "good", 10, 0);
}

SCENARIO(send_msg_control)
{
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(int))];
	} u = { .h = { .cmsg_len = CMSG_LEN(sizeof(int)),
		       .cmsg_level = SOL_SOCKET,
		       .cmsg_type = 0x7777 } };
	struct iovec iov = { buf, 10 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u) };

	RES("unknown", sendmsg(x->fd, &m, 0));
	u.h.cmsg_len = 3;
	RES("short", sendmsg(x->fd, &m, 0));
	u.h.cmsg_len = CMSG_LEN(sizeof(int));
	u.h.cmsg_level = SOL_IP;
	made(x, buf, 10);
	RES("ignored", sendmsg(x->fd, &m, 0));
	far_res(x, "far", FAR_RECV, 10);
}

SCENARIO(send_mmsg)
{
	struct iovec iov[3] = { { buf, 50 },
				{ buf + 50, 50 },
				{ BAD_POINTER, 10 } };
	struct mmsghdr m[3] = { 0 };

	for (int i = 0; i < 3; i++) {
		m[i].msg_hdr.msg_iov = &iov[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	made(x, buf, 100);
	RES("none", sendmmsg(x->fd, m, 0, 0));
	RES("three", sendmmsg(x->fd, m, 3, 0));
	out("/%u/%u", m[0].msg_len, m[1].msg_len);
	RES("bad", sendmmsg(x->fd, m + 2, 1, 0));
	RES("null", sendmmsg(x->fd, BAD_POINTER, 1, 0));
	far_res(x, "far", FAR_RECV, 100);
}

SCENARIO(send_mmsg_full)
{
	struct iovec iov = { buf, 50 };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } };

	fill_up(x);
	RES("full", sendmmsg(x->fd, &m, 1, MSG_DONTWAIT));
}

SCENARIO(send_after_shutdown)
{
	struct iovec iov = { buf, 10 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	on_signal(SIGPIPE, 0);
	RES("shutdown", shutdown(x->fd, SHUT_WR));
	RES("nosignal", send(x->fd, buf, n(10), MSG_NOSIGNAL));
	out(" signals=%d", signals);
	RES("send", send(x->fd, buf, n(10), 0));
	out(" signals=%d", signals);
	RES("write", write(x->fd, buf, n(10)));
	out(" signals=%d", signals);
	RES("writev", writev(x->fd, &iov, 1));
	out(" signals=%d", signals);
	RES("sendmsg", sendmsg(x->fd, &m, 0));
	out(" signals=%d", signals);
	RES("zero", send(x->fd, buf, n(0), MSG_NOSIGNAL));
	RES("dontwait", send(x->fd, buf, n(10), MSG_NOSIGNAL | MSG_DONTWAIT));
	far_res(x, "far", FAR_RECV, 10);
}

SCENARIO(send_after_shutdown_file)
{
	int file = file_of(x, 100), p[2];

	on_signal(SIGPIPE, 0);
	shutdown(x->fd, SHUT_WR);
	RES("sendfile", sendfile(x->fd, file, NULL, n(50)));
	out(" signals=%d", signals);
	if (pipe(p) || write(p[1], buf, 10) != 10)
		return;
	RES("splice", splice(p[0], NULL, x->fd, NULL, 10, 0));
	out(" signals=%d", signals);
}

SCENARIO(send_sigpipe_kills_not_ignored)
{
	shutdown(x->fd, SHUT_WR);
	signal(SIGPIPE, SIG_IGN);
	RES("ignored", write(x->fd, buf, n(10)));
	RES("bad", send(x->fd, BAD_POINTER, n(10), 0));
}

SCENARIO(send_to_closed)
{
	on_signal(SIGPIPE, 0);
	far_do(x, FAR_CLOSE, 0);
	settle(x, POLLRDHUP);
	state(x, "closed");
	send_made(x, "first", 10, 0);
	settle(x, POLLHUP);
	state(x, "refused");
	RES("second", send(x->fd, buf, n(10), 0));
	out(" signals=%d", signals);
	RES("third", send(x->fd, buf, n(10), MSG_NOSIGNAL));
	RES("recv", recv(x->fd, buf, n(10), 0));
	out(" signals=%d", signals);
}

SCENARIO(send_after_reset)
{
	on_signal(SIGPIPE, 0);
	far_do(x, FAR_RESET, 0);
	settle(x, POLLERR);
	RES("first", send(x->fd, buf, n(10), 0));
	out(" signals=%d", signals);
	RES("second", send(x->fd, buf, n(10), 0));
	out(" signals=%d", signals);
	RES("recv", recv(x->fd, buf, n(10), 0));
}

SCENARIO(send_blocked_reset)
{
	on_signal(SIGPIPE, 0);
	fill_up(x);
	far_do(x, FAR_RESET_LATER, 0);
	RES("blocked", send(x->fd, buf, n(10), 0));
	RES("next", send(x->fd, buf, n(10), 0));
	out(" signals=%d", signals);
}

SCENARIO(send_siocoutq)
{
	int left = -1;

	send_made(x, "send", 100, 0);
	far_res(x, "far", FAR_RECV, 100);
	usleep(60000);
	RES("outq", ioctl(x->fd, SIOCOUTQ, &left));
	out("/%d", left);
	RES("bad", ioctl(x->fd, SIOCOUTQ, BAD_POINTER));
	fill_up(x);
	ioctl(x->fd, SIOCOUTQ, &left);
	out(" %s", left > 0 ? "some" : "none");
}

SCENARIO(send_positioned)
{
	struct iovec iov = { buf, 10 };

	RES("pwrite", pwrite(x->fd, buf, n(10), 0));
	RES("pwritev", pwritev(x->fd, &iov, 1, 0));
	made(x, buf, 10);
	RES("pwritev2", pwritev2(x->fd, &iov, 1, -1, 0));
	far_res(x, "far", FAR_RECV, 10);
}

/* --- files and pipes --- */

SCENARIO(send_file)
{
	int file = file_of(x, 5000);
	off_t off = 0;

	RES("sendfile", sendfile(x->fd, file, &off, n(3000)));
	out(" offset=%ld", (long)off);
	lseek(file, 3000, SEEK_SET);
	RES("rest", sendfile(x->fd, file, NULL, n(9000)));
	RES("position", lseek(file, 0, SEEK_CUR));
	RES("at-end", sendfile(x->fd, file, NULL, n(100)));
	RES("zero", sendfile(x->fd, file, NULL, n(0)));
	far_res(x, "far", FAR_RECV, 5000);
}

SCENARIO(send_file_large)
{
	int file = file_of(x, 1000000);

	far_begin(x, FAR_RECV, 1000000);
	RES("sendfile", sendfile(x->fd, file, NULL, n(1000000)));
	out(" far=%ld", far_end(x));
}

SCENARIO(send_file_bad)
{
	int file = file_of(x, 100), wr = open("/dev/null", O_WRONLY), p[2];
	off_t off = 0, minus = -1;

	RES("in", sendfile(x->fd, -1, &off, n(10)));
	RES("write-only", sendfile(x->fd, wr, &off, n(10)));
	RES("minus", sendfile(x->fd, file, &minus, n(10)));
	RES("pointer", sendfile(x->fd, file, BAD_POINTER, n(10)));
	RES("from-socket", sendfile(file, x->fd, NULL, n(10)));
	RES("from-socket-offset", sendfile(file, x->fd, &off, n(10)));
	if (!pipe(p))
		RES("from-pipe-offset", sendfile(x->fd, p[0], &off, n(10)));
}

SCENARIO(send_file_full)
{
	int file = file_of(x, 1000);
	off_t off = 0;

	x->sent -= 1000;
	fill_up(x);
	set_nonblock(x->fd);
	RES("full", sendfile(x->fd, file, &off, n(1000)));
	out(" offset=%ld", (long)off);
}

SCENARIO(send_file_intr)
{
	int file = file_of(x, 1000);
	off_t off = 0;

	x->sent -= 1000;
	fill_up(x);
	interrupt_after(30, 0);
	RES("intr", sendfile(x->fd, file, &off, n(1000)));
	interrupt_over();
	out(" offset=%ld", (long)off);
}

SCENARIO(send_copy_file_range)
{
	int file = file_of(x, 100);

	RES("to", copy_file_range(file, NULL, x->fd, NULL, 10, 0));
	RES("from", copy_file_range(x->fd, NULL, file, NULL, 10, 0));
}

SCENARIO(splice_nothing)
{
	int p[2];

	if (pipe2(p, O_NONBLOCK))
		return;
	RES("out", splice(x->fd, NULL, p[1], NULL, n(0), SPLICE_F_NONBLOCK));
	RES("in", splice(p[0], NULL, x->fd, NULL, n(0), 1 << 20));
}

SCENARIO(splice_in)
{
	int p[2];

	if (pipe(p))
		return;
	made(x, buf, 1000);
	RES("write", write(p[1], buf, 1000));
	RES("splice", splice(p[0], NULL, x->fd, NULL, n(400), 0));
	RES("more", splice(p[0], NULL, x->fd, NULL, n(4000), SPLICE_F_MORE));
	RES("empty", splice(p[0], NULL, x->fd, NULL, n(10), SPLICE_F_NONBLOCK));
	close(p[1]);
	RES("eof", splice(p[0], NULL, x->fd, NULL, n(10), 0));
	far_res(x, "far", FAR_RECV, 1000);
}

#define SPLICED_MAX (64l << 20) /* more than any socket takes */

/* As much as there is room for leaves the pipe, and the rest stays there. */
SCENARIO(splice_in_waits_for_nothing)
{
	long total = 0, r = 1;
	size_t waits = 0; /* of buf: what the pipe had no place for */
	uint64_t before = x->sent;
	int p[2], left = 0, small = 8192;

	if (pipe2(p, O_NONBLOCK) ||
	    setsockopt(x->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)))
		return;
	set_nonblock(x->fd);
	while (r > 0 && total < SPLICED_MAX) {
		do {
			if (!waits)
				made(x, buf, waits = PIPE_BUF);
			if (write(p[1], buf, waits) == PIPE_BUF)
				waits = 0;
		} while (!waits);
		r = splice(p[0], NULL, x->fd, NULL, n(1 << 20), SPLICE_F_MORE);
		total += r > 0 ? r : 0;
	}
	out(" full=%d", r < 0 && errno == EAGAIN);
	ioctl(p[0], FIONREAD, &left);
	x->sent -= waits + (size_t)left;
	out(" sent=%d", (uint64_t)total == x->sent - before);
	out(" far=%d", far_do(x, FAR_RECV, total) == total);
}

SCENARIO(splice_out)
{
	int p[2];

	if (pipe(p))
		return;
	far_do(x, FAR_SEND, 100);
	settle(x, POLLIN);
	RES("part", splice(x->fd, NULL, p[1], NULL, n(60), 0));
	RES("rest", splice(x->fd, NULL, p[1], NULL, n(600), 0));
	long r = read(p[0], buf, n(1000));
	res("read", r);
	got(x, buf, r);
	far_do(x, FAR_SEND_LATER, 50);
	RES("later", splice(x->fd, NULL, p[1], NULL, n(600), 0));
	got(x, buf, read(p[0], buf, n(1000)));
	set_nonblock(x->fd);
	RES("nonblock", splice(x->fd, NULL, p[1], NULL, n(10), 0));
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	RES("eof", splice(x->fd, NULL, p[1], NULL, n(10), 0));
}

/* The pipe takes what it has places for, and what it does not take stays with the socket. */
SCENARIO(splice_out_to_a_small_pipe)
{
	enum { ALL = 20000 };
	size_t total = 0;
	long r = 1;
	int p[2];

	if (pipe(p) || fcntl(p[1], F_SETPIPE_SZ, PIPE_BUF) < 0)
		return;
	far_do(x, FAR_SEND, ALL);
	while (r > 0 && total < ALL) {
		r = splice(x->fd, NULL, p[1], NULL, n(ALL), 0);
		if (r > 0 && read(p[0], buf + total, n((size_t)r)) == r)
			total += (size_t)r;
	}
	res("total", (long)total);
	got(x, buf, (long)total);
	on_signal(SIGPIPE, SA_RESTART);
	close(p[0]);
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	RES("nobody", splice(x->fd, NULL, p[1], NULL, n(10), 0));
	out(" signals=%d", signals);
	r = recv(x->fd, buf, n(10), 0);
	res("recv", r);
	got(x, buf, r);
}

SCENARIO(splice_bad)
{
	int p[2], file = file_of(x, 100);
	loff_t off = 0;

	if (pipe(p) || write(p[1], buf, 10) != 10)
		return;
	RES("two-sockets", splice(x->fd, NULL, x->fd, NULL, n(10), 0));
	RES("no-pipe", splice(file, NULL, x->fd, NULL, n(10), 0));
	RES("offset-in", splice(x->fd, &off, p[1], NULL, n(10), 0));
	RES("offset-out", splice(p[0], NULL, x->fd, &off, n(10), 0));
	RES("flags", splice(p[0], NULL, x->fd, NULL, n(10), 0x100));
	RES("wrong-end", splice(p[1], NULL, x->fd, NULL, n(10), 0));
	RES("zero", splice(p[0], NULL, x->fd, NULL, n(0), 0));
	RES("tee", tee(x->fd, p[1], 10, 0));
	RES("tee-to", tee(p[0], x->fd, 10, 0));
	struct iovec iov = { buf, 10 };
	RES("vmsplice", vmsplice(x->fd, &iov, 1, 0));
}

/* An error of the connection comes before one of the call. */
SCENARIO(send_bad_address_after_reset)
{
	far_do(x, FAR_RESET, 0);
	settle(x, POLLERR);
	RES("bad", send(x->fd, BAD_POINTER, n(10), MSG_NOSIGNAL));
	RES("again", send(x->fd, BAD_POINTER, n(10), MSG_NOSIGNAL));
	state(x, "told");
}

/* A file without more bytes is no error, and takes none. */
SCENARIO(send_file_of_nothing_after_the_end)
{
	int file = file_of(x, 100);
	off_t end = 100;

	RES("shutdown", shutdown(x->fd, SHUT_WR));
	RES("none", sendfile(x->fd, file, &end, n(10)));
	far_do(x, FAR_RESET, 0);
	settle(x, POLLERR);
	RES("none", sendfile(x->fd, file, &end, n(10)));
	end = 0;
	RES("some", sendfile(x->fd, file, &end, n(10)));
	RES("again", sendfile(x->fd, file, &end, n(10)));
}
