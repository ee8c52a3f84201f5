/* SPDX-License-Identifier: MIT */
/* osfd/server.c - osfd's socket and its loop; see server.h */
#include "osfd/server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "osfd/channel.h"
#include "osfd/closer.h"
#include "osfd/received.h"
#include "osfd/sockopt.h"
#include "osfd/worker.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif
#define BACKLOG 64
#define EVENTS 32
#define REFUSED_MS 1000
#define LEAVE_MS 5000
/* How long a worker may live after its program's death.  It needs some of that time for the
 * connections.  It cannot end while somebody keeps the lock of one of their sockets. */
#define DEAD_MS 10000

/* What an event is about: an index below CLIENTS_MAX is a client; TAG_LISTEN is osfd's
 * socket; with the index of a worker, TAG_WORKER is a packet of it, TAG_DEATH the death of
 * its program, TAG_GONE its own end. */
enum {
	TAG_LISTEN = CLIENTS_MAX,
	TAG_SIGNAL,
	TAG_WORKER = 1 << 16,
	TAG_DEATH = 1 << 17,
	TAG_GONE = 1 << 18
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
		s->client[i].fd = -1;
	for (unsigned i = 0; i < WORKERS_MAX; i++)
		s->worker[i].fd = s->worker[i].proc_fd = s->worker[i].pid_fd =
		    -1;
	s->listen_fd =
	    socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* Where the kernel can, it lets nobody send descriptors who has no worker. */
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

	signal(SIGCHLD, SIG_IGN); /* workers leave no zombies */
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

/*
 * Clients, who have no grant.
 */

/* Closes a client's socket.  Descriptors that nobody has received may be queued in it, so
 * the closer closes it.  Until it has done so the file stays open, so the set of events
 * must forget it. */
static void channel_close(const struct server *s, int fd)
{
	epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	shutdown(fd, SHUT_RDWR);
	closer_close(s->closer_fd, fd);
}

static void client_close(struct server *s, int index)
{
	channel_close(s, s->client[index].fd);
	s->client[index] = (struct client){ .fd = -1 };
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
	for (int i = 0; i < WORKERS_MAX; i++)
		if (s->worker[i].proc_fd >= 0 && s->worker[i].uid == uid)
			n_own += MAX(s->worker[i].n_clients, 1u);
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
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int fd =
	    accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
		channel_close(s, fd);
		return;
	}
	int i = client_place(s, cred.uid);
	if (i < 0) {
		channel_close(s, fd);
		return;
	}
	s->client[i] =
	    (struct client){ .fd = fd, .uid = cred.uid, .pid = cred.pid };
	if (watch(s, fd, (uint32_t)i))
		client_close(s, i);
}

/*
 * Workers.
 */

static void worker_end(struct server *s, int index)
{
	struct worker *w = &s->worker[index];

	for (unsigned i = 0; i < GRANTS_MAX; i++)
		if (s->ports.grant[i].port && s->ports.grant[i].owner == index)
			grant_close(&s->ports.grant[i]);
	/* The worker has copies of both, or had. */
	epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
	epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, w->pid_fd, NULL);
	close(w->fd);
	close(w->pid_fd);
	w->fd = w->pid_fd = -1;
	w->n_clients = 0;
}

/* Its process is dead. */
static void worker_free(struct server *s, int index)
{
	struct worker *w = &s->worker[index];

	if (w->fd >= 0)
		worker_end(s, index);
	epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, w->proc_fd, NULL);
	close(w->proc_fd);
	*w = (struct worker){ .fd = -1, .proc_fd = -1, .pid_fd = -1 };
}

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return fd >= 0 && poll(&p, 1, 0) > 0;
}

/* Finds the worker of a program, or starts one.  A program whose pid we do not know always
 * gets a new one, because we cannot tell it from other programs of its user.  Return: the
 * worker's index, or a negative errno */
static int worker_for(struct server *s, const struct client *c, int pid_fd)
{
	struct worker *w;
	int room = -1;

	for (int i = 0; i < WORKERS_MAX; i++) {
		w = &s->worker[i];
		if (w->proc_fd < 0)
			room = i;
		else if (w->fd >= 0 && c->pid && w->pid == c->pid &&
			 w->uid == c->uid && !w->dead_ns)
			return i;
	}
	if (room < 0)
		return -ENOSPC;
	w = &s->worker[room];
	int fd, proc_fd;
	int err = worker_start(&s->ports, s->null_fd, &fd, &proc_fd);
	if (err)
		return err;
	*w = (struct worker){ .fd = fd,
			      .proc_fd = proc_fd,
			      .pid_fd = dup(pid_fd),
			      .pid = c->pid,
			      .uid = c->uid };
	if (w->pid_fd < 0 || watch(s, w->fd, TAG_WORKER | (uint32_t)room) ||
	    watch(s, w->proc_fd, TAG_GONE | (uint32_t)room) ||
	    watch(s, w->pid_fd, TAG_DEATH | (uint32_t)room)) {
		worker_free(s, room);
		return -ENOMEM;
	}
	return room;
}

/* Hands a client to its worker, with the request that the worker has to serve.  Return: 0,
 * or an errno: then the client is still ours */
static int hand_over(struct server *s, int index, const void *buf, size_t len)
{
	struct client *c = &s->client[index];
	struct control m = { .type = CONTROL_CLIENT,
			     .uid = c->uid,
			     .version = c->version,
			     .n_bytes = (uint32_t)len };
	int fds[2] = { c->fd, -1 };
	socklen_t size = sizeof(int);

	memcpy(m.bytes, buf, len);
	if (getsockopt(c->fd, SOL_SOCKET, SO_PEERPIDFD, &fds[1], &size) < 0)
		return -errno;
	int i = worker_for(s, c, fds[1]);
	(void)opt_set(c->fd, SOL_SOCKET, SO_PASSRIGHTS, 1);
	int err =
	    i < 0 ? i : channel_send(s->worker[i].fd, &m, sizeof(m), fds, 2);
	close(fds[1]);
	if (err) {
		(void)opt_set(c->fd, SOL_SOCKET, SO_PASSRIGHTS, 0);
		if (i >= 0 && !s->worker[i].n_clients)
			worker_end(s, i);
		return err;
	}
	s->worker[i].n_clients++;
	epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
	close(c->fd);
	*c = (struct client){ .fd = -1 };
	return 0;
}

static unsigned n_fds_of(const struct answer *a)
{
	unsigned n = 0;

	while (n < CONTROL_FDS && a->fds[n] >= 0)
		n++;
	return n;
}

static void worker_answer(struct server *s, int index, const struct control *m)
{
	struct worker *w = &s->worker[index];
	uint32_t version = MSG_VERSION;
	struct asker who = { w->uid, &version, index };
	struct control out = { .type = CONTROL_ANSWER };
	struct answer a;

	client_serve(s, &who, m->bytes,
		     MIN(m->n_bytes, (uint32_t)MSG_BYTES_MAX), &a);
	out.number = a.number;
	out.is_lo = a.is_lo;
	memcpy(out.bytes, &a.reply, sizeof(a.reply));
	int err = channel_send(w->fd, &out, sizeof(out), a.fds, n_fds_of(&a));
	if (a.is_ours)
		close(a.fds[0]);
	if (err)
		worker_end(s, index);
}

static void worker_read(struct server *s, int index)
{
	struct worker *w = &s->worker[index];
	struct control m;
	ssize_t n = recv(w->fd, &m, sizeof(m), MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n != sizeof(m)) {
		worker_end(s, index);
		return;
	}
	if (m.type == CONTROL_ASK) {
		worker_answer(s, index, &m);
	} else if (m.type == CONTROL_END) {
		struct grant *g = grant_of(&s->ports, m.grant, index);

		if (g)
			grant_close(g);
	} else if (m.type == CONTROL_GONE && !--w->n_clients) {
		worker_end(s, index);
	}
}

static void worker_orphaned(struct server *s, int index)
{
	struct worker *w = &s->worker[index];

	epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, w->pid_fd, NULL);
	w->dead_ns = now_ns();
}

/* If a worker outlives its program, it waits for a lock that somebody keeps, and no signal
 * ends that wait.  This ends the grants of such workers, so that nothing is steered any
 * more for a dead program.  Return: after how many milliseconds to look again, or -1 */
static int end_orphaned(struct server *s)
{
	uint64_t now = now_ns();
	bool any = false;

	for (int i = 0; i < WORKERS_MAX; i++) {
		struct worker *w = &s->worker[i];

		if (w->fd < 0 || !w->dead_ns)
			continue;
		if (now - w->dead_ns > DEAD_MS * NS_PER_MS)
			worker_end(s, i);
		else
			any = true;
	}
	return any ? DEAD_MS / 10 : -1;
}

void workers_look(const struct server *s)
{
	struct control m = { .type = CONTROL_LOOK };

	for (int i = 0; i < WORKERS_MAX; i++)
		if (s->worker[i].fd >= 0) /* a full one has something to read */
			(void)channel_send(s->worker[i].fd, &m, sizeof(m), NULL,
					   0);
}

/*
 * Requests of clients.
 */

/* Whether a request opens a port that its user has. */
static bool needs_worker(const struct server *s, const struct client *c,
			 const void *buf, size_t len)
{
	struct request r;

	return c->version && !request_parse(buf, len, 0, &r) &&
	       r.type == MSG_OPEN && port_for(&s->ports, r.port.dev, c->uid);
}

static void client_refuse(struct server *s, int index)
{
	struct client *c = &s->client[index];
	struct reply r = { .magic = MSG_MAGIC,
			   .version = MSG_VERSION,
			   .err = -EBADF };

	(void)channel_send(c->fd, &r, sizeof(r), NULL, 0);
	epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
	c->refused_ns = now_ns();
}

static void client_answer(struct server *s, int index, const void *buf,
			  size_t len)
{
	struct client *c = &s->client[index];
	struct asker who = { c->uid, &c->version, -1 };
	struct answer a;
	int err =
	    needs_worker(s, c, buf, len) ? hand_over(s, index, buf, len) : 1;

	if (!err)
		return;
	if (err > 0) {
		client_serve(s, &who, buf, len, &a);
	} else {
		struct refusal why = { "" };

		a = (struct answer){ .reply = { .magic = MSG_MAGIC,
						.version = MSG_VERSION,
						.type = MSG_OPEN },
				     .fds = { -1, -1, -1, -1 } };
		refuse(&why, "no worker: %s", strerror(-err));
		reply_end(&a.reply, MSG_OPEN, err, &why);
	}
	if (channel_send(c->fd, &a.reply, sizeof(a.reply), a.fds, n_fds_of(&a)))
		client_close(s, index);
}

/* From Linux 6.16 on, the kernel refuses descriptors of clients that have no worker.  On
 * older kernels osfd never receives them: it answers the client with an error, and closes
 * it. */
static void client_read(struct server *s, int index)
{
	uint8_t buf[MSG_BYTES_MAX];
	struct client *c = &s->client[index];

	if (has_descriptors(c->fd)) {
		client_refuse(s, index);
		return;
	}
	ssize_t n = recv(c->fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_TRUNC);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0 || n > (ssize_t)sizeof(buf))
		client_close(s, index);
	else
		client_answer(s, index, buf, (size_t)n);
}

/* Ends the clients that were refused.  Return: milliseconds until there is one, or -1 */
static int end_refused(struct server *s)
{
	uint64_t now = now_ns();
	bool any = false;

	for (int i = 0; i < CLIENTS_MAX; i++) {
		const struct client *c = &s->client[i];

		if (c->fd < 0 || !c->refused_ns)
			continue;
		if (now - c->refused_ns > REFUSED_MS * NS_PER_MS)
			client_close(s, i);
		else
			any = true;
	}
	return any ? REFUSED_MS / 10 : -1;
}

/*
 * The end.
 */

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
	workers_look(s);
}

/* Milliseconds that programs still have. */
static int ms_left(const struct server *s)
{
	uint64_t gone_ms = (now_ns() - s->ending_ns) / NS_PER_MS;

	return gone_ms < LEAVE_MS ? (int)(LEAVE_MS - gone_ms) : 0;
}

static void event(struct server *s, uint32_t tag)
{
	int index = (int)(tag & (TAG_WORKER - 1u));

	/* An event may be of this entry's last worker. */
	if (tag & TAG_WORKER) {
		if (s->worker[index].fd >= 0)
			worker_read(s, index);
	} else if (tag & TAG_DEATH) {
		if (is_readable(s->worker[index].pid_fd))
			worker_orphaned(s, index);
	} else if (tag & TAG_GONE) {
		if (is_readable(s->worker[index].proc_fd))
			worker_free(s, index);
	} else if (tag == TAG_LISTEN) {
		client_accept(s);
	} else if (tag == TAG_SIGNAL) {
		end_soon(s);
	} else if (s->client[index].fd >= 0 && !s->client[index].refused_ns) {
		client_read(s,
			    index); /* no event before this one has closed it */
	}
}

static bool has_nothing_to_do(struct server *s)
{
	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		if (s->client[i].fd >= 0 || s->worker[i].fd >= 0)
			return false;
	return s->is_on_demand && !port_at(&s->ports, 0);
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
		wait_ms = sooner_ms(end_refused(s), end_orphaned(s));
		if (s->ending_ns)
			wait_ms = sooner_ms(wait_ms, ms_left(s));
		was_used = true;
	}
	return 0;
}
