/* SPDX-License-Identifier: MIT */
/* tests/app/calls_times.c - scenarios: when a byte came, and control messages that
 * only the kernel can follow (see calls.h) */
#include "calls.h"
#include "calls_part.h"

#include <linux/net_tstamp.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

union control {
	struct cmsghdr align;
	char room[256];
};

static int64_t wall_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * INT64_C(1000000) + ts.tv_nsec / 1000;
}

/* The time in @c is one between @since_us and now. */
static void time_told(const struct cmsghdr *c, int64_t since_us)
{
	int64_t part = c->cmsg_type == SO_TIMESTAMP ? 1 : 1000;
	struct timespec ts; /* or a timeval, of the same size */

	memcpy(&ts, CMSG_DATA(c), sizeof(ts));
	int64_t us = ts.tv_sec * INT64_C(1000000) + ts.tv_nsec / part;
	out(us < since_us ? "early" : us > wall_us() ? "late" : "in-time");
}

static long recv_with(struct ctx *x, union control *control, struct msghdr *m)
{
	struct iovec iov = { buf, 10 };

	*m = (struct msghdr){ .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(*control) };
	long r = recvmsg(x->fd, m, 0);
	got(x, buf, r);
	m->msg_iov = NULL;
	return r;
}

static void times_of(struct ctx *x, const char *what, int name, int value)
{
	union control control;
	struct msghdr m;

	RES(what, setsockopt(x->fd, SOL_SOCKET, name, &value, sizeof(value)));
	int64_t since_us = 0;
	long r = 0;
	/* The kernel begins to record times a little later, and the first bytes may have
	 * come through shared memory. */
	for (long long end = ms_now() + 10000; ms_now() < end;) {
		since_us = wall_us();
		far_do(x, FAR_SEND, 10);
		r = recv_with(x, &control, &m);
		if (r != 10 || m.msg_controllen)
			break;
		usleep(5000);
	}
	res("recvmsg", r);
	out("/%zu/%x", m.msg_controllen, m.msg_flags);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		out("/%d/%d/%zu:", c->cmsg_level, c->cmsg_type,
		    (size_t)c->cmsg_len);
		time_told(c, since_us);
	}
	play(x, "s10r10w10f10");
}

SCENARIO(times_us) { times_of(x, "on", SO_TIMESTAMP, 1); }
SCENARIO(times_ns) { times_of(x, "on", SO_TIMESTAMPNS, 1); }
SCENARIO(times_all)
{
	times_of(x, "on", SO_TIMESTAMPING,
		 SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE);
}

/* Set, and never asked for: test_stays.py sees that the connection is moved. */
SCENARIO(times_beside)
{
	struct iovec iov = { buf, 10 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	int one = 1;

	RES("on",
	    setsockopt(x->fd, SOL_SOCKET, SO_TIMESTAMP, &one, sizeof(one)));
	play(x, "t30s10");
	RES("recvmsg", recvmsg(x->fd, &m, 0));
	got(x, buf, 10);
	play(x, "w10000f10000s10000r10000");
}

/* --- control messages --- */

static long send_with(struct ctx *x, int type, int value, int flags)
{
	struct iovec iov = { buf, 10 };
	union control control = { .align = { .cmsg_level = SOL_SOCKET,
					     .cmsg_type = type,
					     .cmsg_len = CMSG_LEN(4) } };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = CMSG_SPACE(4) };

	memcpy(CMSG_DATA(&control.align), &value, sizeof(value));
	made(x, buf, 10);
	return sendmsg(x->fd, &m, flags);
}

SCENARIO(control_mark)
{
	play(x, "w10f10");
	RES("mark", send_with(x, SO_MARK, 7, 0));
	play(x, "f10w10f10s10r10");
	RES("mark", send_with(x, SO_MARK, 7, 0));
	play(x, "f10t3");
}

SCENARIO(control_unknown)
{
	play(x, "w10f10");
	RES("unknown", send_with(x, 9999, 7, 0));
	x->sent -= 10;
	play(x, "w10f10s10r10t3");
}

SCENARIO(control_after_shutdown)
{
	on_signal(SIGPIPE, 0);
	RES("shutdown", shutdown(x->fd, SHUT_WR));
	RES("mark", send_with(x, SO_MARK, 7, 0));
	RES("mark", send_with(x, SO_MARK, 7, MSG_NOSIGNAL));
	RES("oob", send(x->fd, "!", n(1), MSG_OOB | MSG_NOSIGNAL));
	out(" signals=%d", signals);
	play(x, "Es10r10");
}
