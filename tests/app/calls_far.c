/* SPDX-License-Identifier: MIT */
/*
 * tests/app/calls_far.c - the far end of a scenario's connection
 *
 *     far_do() -> a command through far_ctl -> far_main(): far_act() -> its result
 *
 * The far end runs in a process or a thread of its own, and does one command after the
 * other.
 */
#include "calls_far.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct far {
	int ctl, listener, fd;
	uint64_t got, sent;
};

struct command {
	long op, arg;
};

static socklen_t address(int family, int port, struct sockaddr_storage *ss)
{
	struct sockaddr_in *v4 = (void *)ss;
	struct sockaddr_in6 *v6 = (void *)ss;

	memset(ss, 0, sizeof(*ss));
	if (family == 4) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		return sizeof(*v4);
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons((uint16_t)port);
	inet_pton(AF_INET6, family == 6 ? "::1" : "::ffff:127.0.0.1",
		  &v6->sin6_addr);
	return sizeof(*v6);
}

int port_of(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	getsockname(fd, (void *)&ss, &len);
	return ntohs(ss.ss_family == AF_INET
			 ? ((struct sockaddr_in *)&ss)->sin_port
			 : ((struct sockaddr_in6 *)&ss)->sin6_port);
}

int listen_at(int family)
{
	struct sockaddr_storage ss;
	socklen_t len = address(family, 0, &ss);
	int fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (void *)&ss, len) || listen(fd, 8))
		return -1;
	return fd;
}

/* 'm' is a v6 socket that talks v4: its peer may be v4. */
int connect_at(int family, int port)
{
	struct sockaddr_storage ss;
	socklen_t len = address(family, port, &ss);
	int one = 1, fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (void *)&ss, len))
		return -1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

int accept_at(int listener)
{
	int one = 1, fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* The listener stays: it is how the two ends find each other. */
	return fd;
}

static long far_send(struct far *f, size_t len, int flags)
{
	long total = 0;
	char part[16384];

	while (len) {
		size_t k = len < sizeof(part) ? len : sizeof(part);
		stream_make(f->sent, part, k);
		ssize_t r = send(f->fd, part, k, MSG_NOSIGNAL | flags);
		if (r < 0)
			return -errno;
		f->sent += (uint64_t)r;
		total += r;
		len -= (size_t)r;
	}
	return total;
}

/* For bytes that come, however busy the machine is. */
#define FAR_PATIENCE_MS 10000

/* Return: bytes, or -errno when nothing came. */
static long far_recv(struct far *f, size_t len, int silence_ms)
{
	struct pollfd pfd = { .fd = f->fd, .events = POLLIN };
	char part[16384];
	long total = 0;

	while (len) {
		size_t k = len < sizeof(part) ? len : sizeof(part);
		if (silence_ms && poll(&pfd, 1, silence_ms) == 0)
			return total ? total : -ETIMEDOUT;
		ssize_t r = recv(f->fd, part, k, 0);
		if (r < 0 && !total)
			return -errno;
		if (r <= 0)
			break;
		if (!stream_ok(f->got, part, (size_t)r))
			return -EBADMSG;
		f->got += (uint64_t)r;
		total += r;
		len -= (size_t)r;
	}
	return total;
}

/* At least @least bytes, however long they take, and then what else there is. */
static long far_drain(struct far *f, size_t least)
{
	long r = far_recv(f, least, FAR_PATIENCE_MS);

	if (r < (long)least)
		return r;
	long more = far_recv(f, SIZE_MAX, 300);
	return more == -EBADMSG ? more : r + (more > 0 ? more : 0);
}

static long far_now(struct far *f, size_t len)
{
	char part[16384];
	ssize_t r = recv(f->fd, part, len < sizeof(part) ? len : sizeof(part),
			 MSG_DONTWAIT);

	if (r < 0)
		return -errno;
	if (!stream_ok(f->got, part, (size_t)r))
		return -EBADMSG;
	f->got += (uint64_t)r;
	return r;
}

static long far_count(struct far *f, size_t len)
{
	char part[256];

	if (len > sizeof(part))
		return -EINVAL;
	long r = recv(f->fd, part, len, MSG_WAITALL);
	return r < 0 ? -errno : r;
}

static long far_echo(struct far *f, long turns)
{
	long r = 0;

	while (turns-- && r >= 0) {
		r = far_recv(f, TURN_BYTES, 0);
		if (r == TURN_BYTES)
			r = far_send(f, TURN_BYTES, 0);
	}
	return r < 0 ? r : 0;
}

static long far_text(struct far *f, long lines)
{
	char line[32];
	long total = 0;

	for (long i = 0; i < lines; i++) {
		int len = snprintf(line, sizeof(line), "line %ld\n", i);
		total += send(f->fd, line, (size_t)len, MSG_NOSIGNAL);
	}
	return total;
}

static long far_close(struct far *f, bool reset)
{
	struct linger now = { .l_onoff = 1 };

	if (reset)
		setsockopt(f->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	int r = close(f->fd);
	f->fd = -1;
	return r ? -errno : 0;
}

static long far_act(struct far *f, long op, long arg)
{
	switch (op) {
	case FAR_LISTEN:
		f->listener = listen_at((int)arg);
		return f->listener < 0 ? -errno : port_of(f->listener);
	case FAR_ACCEPT:
		f->fd = accept_at(f->listener);
		return f->fd < 0 ? -errno : 0;
	case FAR_CONNECT:
		f->fd = connect_at((int)(arg & 0xffff), (int)(arg >> 16));
		return f->fd < 0 ? -errno : 0;
	case FAR_ECHO:
		return far_echo(f, arg);
	case FAR_SEND:
	case FAR_SEND_LATER:
		return far_send(f, (size_t)arg, 0);
	case FAR_SEND_MORE:
	case FAR_SEND_MORE_LATER:
		return far_send(f, (size_t)arg, MSG_MORE);
	case FAR_NOW:
		return far_now(f, (size_t)arg);
	case FAR_TEXT:
		return far_text(f, arg);
	case FAR_RECV:
	case FAR_RECV_LATER:
		return far_recv(f, (size_t)arg, FAR_PATIENCE_MS);
	case FAR_COUNT:
		return far_count(f, (size_t)arg);
	case FAR_DRAIN:
		return far_drain(f, (size_t)arg);
	case FAR_SHUT:
	case FAR_SHUT_LATER:
		return shutdown(f->fd, (int)arg) ? -errno : 0;
	case FAR_CLOSE:
	case FAR_CLOSE_LATER:
		return far_close(f, false);
	case FAR_RESET:
	case FAR_RESET_LATER:
		return far_close(f, true);
	case FAR_SEND_OOB:
	case FAR_SEND_OOB_LATER:
		return send(f->fd, "x", 1, MSG_OOB);
	case FAR_INLINE:
		return setsockopt(f->fd, SOL_SOCKET, SO_OOBINLINE, &(int){ 1 },
				  sizeof(int));
	case FAR_PORT:
		return port_of(f->fd);
	default:
		return -ENOSYS;
	}
}

static bool is_later(long op)
{
	return op == FAR_SEND_LATER || op == FAR_SEND_MORE_LATER ||
	       op == FAR_RECV_LATER || op == FAR_SHUT_LATER ||
	       op == FAR_CLOSE_LATER || op == FAR_RESET_LATER ||
	       op == FAR_SEND_OOB_LATER;
}

void *far_main(void *arg)
{
	struct far f = { .ctl = *(int *)arg, .listener = -1, .fd = -1 };
	struct command cmd;

	while (read(f.ctl, &cmd, sizeof(cmd)) == sizeof(cmd)) {
		long r = 0;

		if (cmd.op == FAR_END)
			break;
		if (!is_later(cmd.op))
			r = far_act(&f, cmd.op, cmd.arg);
		if (write(f.ctl, &r, sizeof(r)) != sizeof(r))
			break;
		if (is_later(cmd.op)) {
			usleep(LATER_MS * 1000);
			far_act(&f, cmd.op, cmd.arg);
		}
	}
	if (f.fd >= 0)
		close(f.fd);
	return NULL;
}

void far_begin(struct ctx *x, enum far_op op, long arg)
{
	struct command cmd = { op, arg };

	if (write(x->far_ctl, &cmd, sizeof(cmd)) != sizeof(cmd))
		out(" FAR-END-GONE");
}

long far_end(struct ctx *x)
{
	long r = -ESRCH;
	ssize_t got_bytes;

	do
		got_bytes = read(x->far_ctl, &r, sizeof(r));
	while (got_bytes < 0 && errno == EINTR);
	if (got_bytes != sizeof(r))
		out(" FAR-END-GONE");
	return r;
}

long far_do(struct ctx *x, enum far_op op, long arg)
{
	far_begin(x, op, arg);
	return far_end(x);
}

void far_res(struct ctx *x, const char *what, enum far_op op, long arg)
{
	long r = far_do(x, op, arg);

	if (r < 0)
		out(" %s=%s", what, errno_name((int)-r));
	else
		out(" %s=%ld", what, r);
}
