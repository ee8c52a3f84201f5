/* SPDX-License-Identifier: MIT */
/*
 * tests/packetdrill/entry.c - the table that packetdrill calls through; see interface.h
 *
 * Each entry takes the lock, makes the call, wakes threads that wait, and turns the
 * result into -1 and errno.  If the object is also preloaded into the tool, it answers
 * the getsockopt() with which the tool checks a script's assertions.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "host.h"

#define EPOCH_S 1000000000 /* what gettimeofday() begins with */
#define MTU 1500
#define LIMIT_S 10800 /* more than a keepalive's first two hours */
#define SETTINGS_MAX 32
#define SYSCTLS "/proc/sys/net/ipv4"

static struct host *the_host; /* the last that was made; NULL: none */

static ssize_t done(struct host *h, ssize_t r)
{
	host_moved(h);
	host_leave(h);
	if (r >= 0)
		return r;
	errno = (int)-r;
	return -1;
}

/* Defines name(u, parameters), which calls pd_name(h, the arguments). */
#define CALL(ret, name, params, ...)                                           \
	static ret call_##name params                                          \
	{                                                                      \
		struct host *h = u;                                            \
                                                                               \
		host_enter(h);                                                 \
		return (ret)done(h, pd_##name(h, __VA_ARGS__));                \
	}

CALL(int, socket, (void *u, int domain, int type, int protocol), domain, type,
     protocol)
CALL(int, bind, (void *u, int fd, const struct sockaddr *a, socklen_t len), fd,
     a, len)
CALL(int, listen, (void *u, int fd, int backlog), fd, backlog)
CALL(int, accept, (void *u, int fd, struct sockaddr *a, socklen_t *len), fd, a,
     len)
CALL(int, connect, (void *u, int fd, const struct sockaddr *a, socklen_t len),
     fd, a, len)
CALL(ssize_t, recv, (void *u, int fd, void *buf, size_t len, int flags), fd,
     buf, len, flags)
CALL(ssize_t, send, (void *u, int fd, const void *buf, size_t len, int flags),
     fd, buf, len, flags)
CALL(int, close, (void *u, int fd), fd)
CALL(int, shutdown, (void *u, int fd, int how), fd, how)
CALL(int, getsockopt,
     (void *u, int fd, int level, int name, void *v, socklen_t *len), fd, level,
     name, v, len)
CALL(int, setsockopt,
     (void *u, int fd, int level, int name, const void *v, socklen_t len), fd,
     level, name, v, len)
CALL(int, poll, (void *u, struct pollfd *fds, nfds_t n, int timeout_ms), fds, n,
     timeout_ms)
CALL(int, epoll_create, (void *u, int size), size)
CALL(int, epoll_ctl,
     (void *u, int epfd, int op, int fd, struct epoll_event *ev), epfd, op, fd,
     ev)
CALL(int, epoll_wait,
     (void *u, int epfd, struct epoll_event *evs, int max, int timeout_ms),
     epfd, evs, max, timeout_ms)
CALL(int, pipe, (void *u, int fds[2]), fds)
CALL(ssize_t, splice,
     (void *u, int in, loff_t *off_in, int out, loff_t *off_out, size_t len,
      unsigned flags),
     in, off_in, out, off_out, len, flags)

/* --- the same in other words --- */

static ssize_t call_read(void *u, int fd, void *buf, size_t len)
{
	return call_recv(u, fd, buf, len, 0);
}

static ssize_t call_write(void *u, int fd, const void *buf, size_t len)
{
	return call_send(u, fd, buf, len, 0);
}

static ssize_t call_readv(void *u, int fd, const struct iovec *iov, int n)
{
	struct host *h = u;

	host_enter(h);
	return done(h, n < 0 ? -EINVAL : pd_recv_iov(h, fd, iov, (size_t)n, 0));
}

static ssize_t call_writev(void *u, int fd, const struct iovec *iov, int n)
{
	struct host *h = u;

	host_enter(h);
	return done(h, n < 0 ? -EINVAL : pd_send_iov(h, fd, iov, (size_t)n, 0));
}

/* A stream's bytes carry no sender's address. */
static ssize_t call_recvfrom(void *u, int fd, void *buf, size_t len, int flags,
			     struct sockaddr *a, socklen_t *alen)
{
	ssize_t n = call_recv(u, fd, buf, len, flags);

	if (n >= 0 && a && alen)
		*alen = 0;
	return n;
}

/* TCP_CM_INQ; the end of the stream counts as a byte.  Return: bytes of control */
static size_t inq_tell(struct host *h, int fd, struct msghdr *m)
{
	struct file *f = file_get(h, fd, FILE_SOCKET);
	size_t space = m->msg_control ? m->msg_controllen : 0;
	int n = 0;

	if (!f || !f->is_inq || space < CMSG_SPACE(sizeof(n)))
		return 0;
	if (h->b.ops->ioctl(h->b.self, f->sock, FIONREAD, &n))
		return 0;
	if (!n && h->b.ops->poll(h->b.self, f->sock, POLLRDHUP) & POLLRDHUP)
		n = 1;
	struct cmsghdr *c = m->msg_control;
	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(n)),
			       .cmsg_level = IPPROTO_TCP,
			       .cmsg_type = TCP_CM_INQ };
	memcpy(CMSG_DATA(c), &n, sizeof(n));
	return CMSG_SPACE(sizeof(n));
}

static ssize_t call_recvmsg(void *u, int fd, struct msghdr *m, int flags)
{
	struct host *h = u;

	host_enter(h);
	ssize_t n = pd_recv_iov(h, fd, m->msg_iov, m->msg_iovlen, flags);
	if (n >= 0) {
		m->msg_namelen = 0;
		m->msg_controllen = inq_tell(h, fd, m);
		m->msg_flags = 0;
	}
	return done(h, n);
}

/* A stream ignores the address, except for MSG_FASTOPEN, which the engine does not
 * have. */
static ssize_t call_sendto(void *u, int fd, const void *buf, size_t len,
			   int flags, const struct sockaddr *a, socklen_t alen)
{
	if (flags & MSG_FASTOPEN) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return call_send(u, fd, buf, len, flags);
}

static ssize_t call_sendmsg(void *u, int fd, const struct msghdr *m, int flags)
{
	struct host *h = u;

	host_enter(h);
	return done(h,
		    flags & MSG_FASTOPEN
			? -EOPNOTSUPP
			: pd_send_iov(h, fd, m->msg_iov, m->msg_iovlen, flags));
}

static int call_fcntl(void *u, int fd, int cmd, ...)
{
	struct host *h = u;
	va_list ap;

	va_start(ap, cmd);
	long arg = va_arg(ap, long);
	va_end(ap);
	host_enter(h);
	return (int)done(h, pd_fcntl(h, fd, cmd, arg));
}

static int call_ioctl(void *u, int fd, unsigned long what, ...)
{
	struct host *h = u;
	va_list ap;

	va_start(ap, what);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	host_enter(h);
	return (int)done(h, pd_ioctl(h, fd, what, arg));
}

/* --- the wire and the clock --- */

static int call_netdev_send(void *u, const void *p, size_t len)
{
	struct host *h = u;
	int err = -EMSGSIZE;

	host_enter(h);
	if (len <= BACKEND_PACKET_MAX)
		err = h->b.ops->inject(h->b.self, p, (uint32_t)len);
	return (int)done(h, err);
}

static int call_netdev_receive(void *u, void *p, size_t *len, long long *at_us)
{
	struct host *h = u;
	uint64_t at_ns = 0;

	host_enter(h);
	ssize_t n = host_receive(h, p, *len, &at_ns);
	if (n >= 0) {
		*len = (size_t)n;
		*at_us = EPOCH_S * 1000000ll + (long long)(at_ns / NS_PER_US);
	}
	return (int)done(h, n < 0 ? n : 0);
}

static int call_usleep(void *u, useconds_t us)
{
	struct host *h = u;

	host_enter(h);
	host_sleep(h, host_now(h) + us * NS_PER_US);
	return (int)done(h, 0);
}

/* The tool waits for an instant by asking for the time until it has come.  It does so
 * even in the thread that is about to make a blocking call, while the owner waits for
 * that thread. */
static int call_gettimeofday(void *u, struct timeval *tv, struct timezone *tz)
{
	static _Thread_local uint64_t asked_ns; /* the last answer */
	struct host *h = u;

	host_enter(h);
	if (pthread_equal(h->owner, pthread_self()) || host_now(h) == asked_ns)
		host_sleep(h, host_now(h) + NS_PER_US);
	asked_ns = host_now(h);
	uint64_t us = host_now(h) / NS_PER_US;
	*tv = (struct timeval){ .tv_sec = EPOCH_S + (time_t)(us / 1000000),
				.tv_usec = (suseconds_t)(us % 1000000) };
	if (tz)
		*tz = (struct timezone){ 0 };
	return (int)done(h, 0);
}

/* --- the host's life --- */

static void call_free(void *u)
{
	struct host *h = u;

	if (!h)
		return;
	host_enter(h);
	for (int fd = 0; fd < FILES_MAX; fd++) {
		h->files[fd].linger.l_onoff = 0;
		if (h->files[fd].kind != FILE_NONE && pd_close(h, fd) < 0)
			continue; /* the tool has closed its number itself */
	}
	h->b.ops->free(h->b.self);
	host_leave(h);
	if (the_host == h)
		the_host = NULL;
	pthread_cond_destroy(&h->moved);
	pthread_cond_destroy(&h->looked);
	pthread_mutex_destroy(&h->lock);
	free(h->packet);
	free(h);
}

static void fail(const char *what, const char *which)
{
	fprintf(stderr, "libosf-packetdrill: %s%s\n", what, which);
	exit(EXIT_FAILURE);
}

/* Parses the flags in @text, which it cuts into parts. */
static void flags_read(char *text, struct host *h, struct backend_config *cfg,
		       struct backend_setting *settings)
{
	char *rest;

	for (char *at = strtok_r(text, ",", &rest); at;
	     at = strtok_r(NULL, ",", &rest)) {
		char *value = strchr(at, '=');

		if (!value || cfg->n_settings == SETTINGS_MAX)
			fail("not name=value, or too many: ", at);
		*value++ = '\0';
		if (!strcmp(at, "mtu"))
			cfg->mtu = (uint32_t)strtoul(value, NULL, 10);
		else if (!strcmp(at, "limit"))
			h->limit_ns = strtoul(value, NULL, 10) * NS_PER_S;
		else if (!strcmp(at, "sysctls"))
			snprintf(h->sysctls, sizeof(h->sysctls), "%s", value);
		else {
			settings_keep(h, at);
			settings[cfg->n_settings++] =
			    (struct backend_setting){ at, value };
		}
	}
}

static struct host *host_new(const char *flags)
{
	struct backend_setting settings[SETTINGS_MAX];
	struct backend_config cfg = { .mtu = MTU, .settings = settings };
	struct host *h = calloc(1, sizeof(*h));
	char *text = strdup(flags ? flags : "");

	if (!h || !text || !(h->packet = malloc(BACKEND_PACKET_MAX)))
		fail("no memory", "");
	h->limit_ns = LIMIT_S * NS_PER_S;
	strcpy(h->sysctls, SYSCTLS);
	flags_read(text, h, &cfg, settings);
	int err = backend_engine(&h->b, &cfg);
	if (err)
		fail("flags: ", strerror(-err));
	free(text);
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->moved, NULL);
	pthread_cond_init(&h->looked, NULL);
	h->owner = pthread_self();
	return h;
}

void packetdrill_interface_init(const char *flags,
				struct packetdrill_interface *out)
{
	*out = (struct packetdrill_interface){
		.userdata = the_host = host_new(flags),
		.free = call_free,
		.socket = call_socket,
		.bind = call_bind,
		.listen = call_listen,
		.accept = call_accept,
		.connect = call_connect,
		.read = call_read,
		.readv = call_readv,
		.recv = call_recv,
		.recvfrom = call_recvfrom,
		.recvmsg = call_recvmsg,
		.write = call_write,
		.writev = call_writev,
		.send = call_send,
		.sendto = call_sendto,
		.sendmsg = call_sendmsg,
		.fcntl = call_fcntl,
		.ioctl = call_ioctl,
		.close = call_close,
		.shutdown = call_shutdown,
		.getsockopt = call_getsockopt,
		.setsockopt = call_setsockopt,
		.poll = call_poll,
		.netdev_send = call_netdev_send,
		.netdev_receive = call_netdev_receive,
		.usleep = call_usleep,
		.gettimeofday = call_gettimeofday,
		.epoll_create = call_epoll_create,
		.epoll_ctl = call_epoll_ctl,
		.epoll_wait = call_epoll_wait,
		.pipe = call_pipe,
		.splice = call_splice,
	};
}

/* For the tool's own calls, when this object is preloaded. */
OSF_API int getsockopt(int fd, int level, int name, void *restrict v,
		       socklen_t *restrict len)
{
	if (the_host && file_get(the_host, fd, FILE_SOCKET))
		return call_getsockopt(the_host, fd, level, name, v, len);
	return (int)syscall(SYS_getsockopt, fd, level, name, v, len);
}
