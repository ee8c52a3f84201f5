/* SPDX-License-Identifier: MIT */
/* osfd/server.c - osfd's socket and its loop; see server.h */
#include "osfd/server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "osfd/closer.h"
#include "osfd/held.h"
#include "osfd/received.h"
#include "osfd/sockopt.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif
#define BACKLOG 64
#define EVENTS 32
#define SILENT_MS 1000
#define KEPT_MAX 16 /* files of one port that stay open */
#define AWAY_MIN_NS (10 * NS_PER_MS)
#define LEAVE_MS 5000

/* What an event is about: the socket itself, a signal, a client's two descriptors, or a
 * grant's timer. */
enum {
	TAG_LISTEN = CLIENTS_MAX,
	TAG_SIGNAL,
	TAG_DEATH = 1 << 16,
	TAG_AWAY = 1 << 17
};

static int watch(struct server *s, int fd, uint32_t tag)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = tag };

	return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

int server_listen(struct server *s)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	socklen_t len =
	    offsetof(struct sockaddr_un, sun_path) + sizeof(OSFD_NAME);

	memcpy(un.sun_path + 1, OSFD_NAME, sizeof(OSFD_NAME) - 1);
	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		s->client[i].fd = s->client[i].pid_fd = -1;
	s->listen_fd =
	    socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* Where the kernel can, it lets nobody send descriptors who has no grant. */
	(void)opt_set(s->listen_fd, SOL_SOCKET, SO_PASSRIGHTS, 0);
	if (s->listen_fd < 0 ||
	    bind(s->listen_fd, (struct sockaddr *)&un, len) < 0 ||
	    listen(s->listen_fd, BACKLOG) < 0)
		return -errno;
	return 0;
}

int server_begin(struct server *s)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->signal_fd < 0 || s->epoll_fd < 0)
		return -errno;
	int err = watch(s, s->listen_fd, TAG_LISTEN);
	return err ? err : watch(s, s->signal_fd, TAG_SIGNAL);
}

static bool client_has_grant(const struct server *s, int index)
{
	for (unsigned i = 0; i < GRANTS_MAX; i++)
		if (s->ports.grant[i].port && s->ports.grant[i].owner == index)
			return true;
	return false;
}

/* Edge-triggered, because nobody reads the timer here. */
int server_watch_away(struct server *s, struct grant *g, int fd,
		      struct refusal *why)
{
	uint32_t index = (uint32_t)(g - s->ports.grant);
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET,
				  .data.u32 = TAG_AWAY | index };

	if (!is_timer(fd)) {
		refuse(why, "not a timer");
		return -EBADF;
	}
	if (!g->held || g->away_fd >= 0) {
		refuse(why, "%s",
		       g->held ? "the grant has a timer already"
			       : "the grant has no escrow");
		return g->held ? -EEXIST : -EINVAL;
	}
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return -errno;
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, own, &ev) < 0) {
		int err = -errno;

		close(own);
		return err;
	}
	g->away_fd = own;
	g->away_set_fd = s->epoll_fd;
	return 0;
}

/* Sends a program's ACKs once in AWAY_MIN_NS at most, however often its timer expires. */
static void look_after(struct grant *g)
{
	uint64_t now = now_ns();

	if (!g->port || g->away_fd < 0 || now - g->away_ns < AWAY_MIN_NS)
		return;
	g->away_ns = now;
	held_acknowledge(g);
}

/* Closes what a client has to say no more.  Descriptors may be queued there that nobody has
 * received, and the closer keeps the file open, so the set of events must forget it. */
static void channel_close(const struct server *s, int fd)
{
	epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	shutdown(fd, SHUT_RDWR);
	closer_close(s->closer_fd, fd);
}

static void client_close(struct server *s, int index, bool is_dead)
{
	struct client *c = &s->client[index];

	for (unsigned i = 0; i < GRANTS_MAX; i++) {
		struct grant *g = &s->ports.grant[i];

		if (!g->port || g->owner != index)
			continue;
		held_end(g, is_dead);
		grant_close(g);
	}
	channel_close(s, c->fd);
	close(c->pid_fd);
	*c = (struct client){ .fd = -1, .pid_fd = -1 };
}

/* The client sends no more requests.  The pidfd tells when it is dead. */
static void client_silence(struct server *s, int index)
{
	struct client *c = &s->client[index];

	epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
	c->silent_ns = now_ns();
}

/* A descriptor of the process at the other end.  Unlike a pid, it never names another
 * process. */
static int identify(int fd, struct client *out)
{
	struct client c = { .fd = fd, .pid_fd = -1 };
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	len = sizeof(c.pid_fd);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &c.pid_fd, &len) < 0)
		return -errno;
	c.uid = cred.uid;
	*out = c;
	return 0;
}

/* Users who have no port share few places: they can only ask which ports there are. */
static bool has_place(const struct server *s, uint32_t uid)
{
	unsigned n_own = 0, n_strangers = 0;

	for (int i = 0; i < CLIENTS_MAX; i++) {
		const struct client *c = &s->client[i];

		n_own += c->fd >= 0 && c->uid == uid;
		n_strangers +=
		    c->fd >= 0 && c->uid && !ports_has(&s->ports, c->uid);
	}
	if (!uid)
		return true;
	return ports_has(&s->ports, uid) ? n_own < CLIENTS_PER_UID
					 : n_strangers < STRANGERS_MAX;
}

static int client_place(const struct server *s, uint32_t uid)
{
	for (int i = 0; has_place(s, uid) && i < CLIENTS_MAX; i++)
		if (s->client[i].fd < 0)
			return i;
	return -ENOSPC;
}

static void client_accept(struct server *s)
{
	struct client c;
	int fd =
	    accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	if (identify(fd, &c) < 0) {
		channel_close(s, fd);
		return;
	}
	int i = client_place(s, c.uid);
	if (i < 0) {
		channel_close(s, fd);
		close(c.pid_fd);
		return;
	}
	s->client[i] = c;
	if (watch(s, c.fd, (uint32_t)i) ||
	    watch(s, c.pid_fd, (uint32_t)i | TAG_DEATH))
		client_close(s, i, false);
}

static int reply_send(int fd, struct reply *r, const int fds[2])
{
	size_t n = fds[0] < 0 ? 0 : fds[1] < 0 ? 1 : 2;
	struct iovec iov = { r, sizeof(*r) };
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(2 * sizeof(int))];
	} control = { 0 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n) {
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		control.head = (struct cmsghdr){
			.cmsg_len = CMSG_LEN(n * sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
		};
		memcpy(CMSG_DATA(&control.head), fds, n * sizeof(int));
	}
	return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The port whose user a client is, or NULL. */
static struct port *port_of(const struct server *s, int index)
{
	for (unsigned i = 0; i < GRANTS_MAX; i++)
		if (s->ports.grant[i].port && s->ports.grant[i].owner == index)
			return s->ports.grant[i].port;
	return NULL;
}

/* All requests that come with descriptors need a grant.  What others send is never
 * received: the client gets an answer, and is closed with it. */
static bool may_send(const struct server *s, int index)
{
	const struct port *p = port_of(s, index);

	return (p && p->n_kept < KEPT_MAX) ||
	       !has_descriptors(s->client[index].fd);
}

static void client_read(struct server *s, int index)
{
	uint8_t buf[MSG_BYTES_MAX];
	struct iovec iov = { buf, sizeof(buf) };
	struct reply out = { .magic = MSG_MAGIC, .version = MSG_VERSION };
	struct received got;
	int out_fds[2] = { -1, -1 };
	bool owned[2] = { false, false };
	int fd = s->client[index].fd;
	struct port *port = port_of(s, index);

	if (!may_send(s, index)) {
		out.err = -EBADF;
		s->client[index].is_refused = true;
		reply_send(fd, &out, out_fds);
		client_silence(s, index);
		return;
	}
	ssize_t n = receive(fd, &iov, &got);
	bool is_cut = n <= 0 || got.flags & (MSG_TRUNC | MSG_CTRUNC);
	if (n < 0 && errno == EAGAIN)
		return;
	if (!is_cut)
		client_serve(s, index, buf, (size_t)n, got.fd, got.n, &out,
			     out_fds, owned);
	if (!port && port_of(s, index))
		(void)opt_set(fd, SOL_SOCKET, SO_PASSRIGHTS, 1);
	unsigned n_kept = received_close(&got, s->closer_fd);
	if (port)
		port->n_kept += n_kept;
	if (is_cut || reply_send(fd, &out, out_fds) < 0)
		client_silence(s, index);
	for (int i = 0; i < 2; i++)
		if (owned[i])
			close(out_fds[i]);
}

/*
 * The end of ports.
 */

bool client_leaves(const struct server *s, int index)
{
	for (unsigned i = 0; i < GRANTS_MAX; i++) {
		const struct grant *g = &s->ports.grant[i];

		if (g->port && g->owner == index && g->port->is_ending)
			return true;
	}
	return false;
}

/* A program that does not read this reply learns of it from the reply to its next request. */
void clients_leave(struct server *s)
{
	struct reply r = { .magic = MSG_MAGIC,
			   .version = MSG_VERSION,
			   .type = MSG_LEAVE,
			   .flags = REPLY_LEAVE };
	const int none[2] = { -1, -1 };

	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct client *c = &s->client[i];

		if (c->fd < 0 || c->is_told || c->silent_ns ||
		    c->version < MSG_VERSION_LEAVE || !client_leaves(s, i))
			continue;
		c->is_told = reply_send(c->fd, &r, none) == 0;
	}
}

/* Handles SIGTERM and SIGINT.  The second signal ends the wait for programs. */
static void end_soon(struct server *s)
{
	struct signalfd_siginfo info;

	if (read(s->signal_fd, &info, sizeof(info)) < 0)
		return;
	if (s->ending_ns) {
		s->ending_ns = 1;
		return;
	}
	s->ending_ns = now_ns();
	ports_end(&s->ports);
	clients_leave(s);
}

/* Milliseconds that programs still have. */
static int ms_left(const struct server *s)
{
	uint64_t gone_ms = (now_ns() - s->ending_ns) / NS_PER_MS;

	return gone_ms < LEAVE_MS ? (int)(LEAVE_MS - gone_ms) : 0;
}

static void event(struct server *s, uint32_t tag)
{
	uint32_t index = tag & ~(uint32_t)(TAG_DEATH | TAG_AWAY);

	if (tag & TAG_AWAY)
		look_after(&s->ports.grant[index]);
	else if (tag == TAG_LISTEN)
		client_accept(s);
	else if (tag == TAG_SIGNAL)
		end_soon(s);
	else if (s->client[index].fd < 0)
		return; /* closed by an event before this one */
	else if (tag & TAG_DEATH)
		client_close(s, (int)index, true);
	else if (!s->client[index].silent_ns)
		client_read(s, (int)index);
}

/* Ends the clients that are silent and do not die.  Return: milliseconds until there is
 * one, or -1 */
static int end_silent(struct server *s)
{
	uint64_t now = now_ns();
	bool any = false;

	for (int i = 0; i < CLIENTS_MAX; i++) {
		const struct client *c = &s->client[i];

		if (c->fd < 0 || !c->silent_ns)
			continue;
		if ((!client_has_grant(s, i) && !c->is_refused) ||
		    now - c->silent_ns > SILENT_MS * NS_PER_MS)
			client_close(s, i, false);
		else
			any = true;
	}
	return any ? SILENT_MS / 10 : -1;
}

static bool has_nothing_to_do(struct server *s)
{
	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		if (s->client[i].fd >= 0)
			return false;
	return s->is_on_demand && !port_at(&s->ports, 0);
}

/* Return: the shorter of two waits; -1 is a wait without end. */
static int sooner(int a_ms, int b_ms)
{
	return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

int server_run(struct server *s)
{
	struct epoll_event ev[EVENTS];
	bool was_used = false;
	int wait_ms = -1;

	while (!(was_used && has_nothing_to_do(s))) {
		int n = epoll_wait(s->epoll_fd, ev, EVENTS, wait_ms);
		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n; i++)
			event(s, ev[i].data.u32);
		bool leaves = ports_sweep(&s->ports);
		if (s->ending_ns && (!leaves || !ms_left(s)))
			break;
		wait_ms = sooner(end_silent(s), grants_rest(&s->ports));
		if (s->ending_ns && (wait_ms < 0 || wait_ms > ms_left(s)))
			wait_ms = ms_left(s);
		was_used = true;
	}
	return 0;
}
