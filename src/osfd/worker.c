/* SPDX-License-Identifier: MIT */
/* osfd/worker.c - one program's process; see worker.h */
#include "osfd/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "osfd/channel.h"
#include "osfd/confine.h"
#include "osfd/held.h"
#include "osfd/received.h"
#include "osfd/sockopt.h"

#define EVENTS 32
#define SILENT_MS 1000
#define KEPT_MAX 16 /* descriptors that stay open */
#define AWAY_MIN_NS (10 * NS_PER_MS)

/* What an event is about: osfd, a program's two descriptors, or a grant's timer. */
enum { TAG_OSFD = PROGRAMS_MAX, TAG_DEATH = 1 << 16, TAG_AWAY = 1 << 17 };

static int watch(struct work *w, int fd, uint32_t tag, uint32_t how)
{
	struct epoll_event ev = { .events = EPOLLIN | how, .data.u32 = tag };

	return epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

/* Edge-triggered, because nobody reads the timer here. */
int worker_watch_away(struct work *w, struct grant *g, int fd,
		      struct refusal *why)
{
	uint32_t index = (uint32_t)(g - w->ports->grant);

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
	int err = watch(w, own, TAG_AWAY | index, EPOLLET);
	if (err) {
		close(own);
		return err;
	}
	g->away_fd = own;
	g->away_set_fd = w->epoll_fd;
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

/*
 * osfd.
 */

/* Tells osfd that one of the worker's grants has ended, or one of its programs' sockets, or
 * that osfd should look at its ports.  osfd always reads. */
static void tell_osfd(const struct work *w, enum control_type type,
		      uint32_t grant)
{
	struct control m = { .type = type, .grant = grant };

	if (send(w->osfd_fd, &m, sizeof(m), MSG_NOSIGNAL) < 0)
		_exit(0); /* it has gone */
}

/* Closes a program's socket, unless something is queued in it: others may have queued
 * descriptors there, and close() would close these and wait for them.  Then the socket
 * stays open. */
static void channel_close(struct work *w, int fd)
{
	char byte;

	epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	shutdown(fd, SHUT_RDWR);
	if (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
		w->n_kept++;
	else
		close(fd);
}

/* A program's socket, and its pidfd, of which osfd has a copy. */
static void sockets_close(struct work *w, unsigned n, const int *fds)
{
	if (n > 0)
		channel_close(w, fds[0]);
	if (n > 1) {
		epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, fds[1], NULL);
		close(fds[1]);
	}
}

/* The main loop serves its request: the answer to another one may not be here yet. */
static void client_take(struct work *w, const struct control *m,
			struct received *got)
{
	int i = 0;

	while (i < PROGRAMS_MAX && w->program[i].fd >= 0)
		i++;
	if (got->n != 2 || i == PROGRAMS_MAX ||
	    watch(w, got->fd[0], (uint32_t)i, 0) ||
	    watch(w, got->fd[1], (uint32_t)i | TAG_DEATH, 0)) {
		sockets_close(w, got->n, got->fd);
		got->n = 0;
		tell_osfd(w, CONTROL_GONE, 0);
		return;
	}
	struct program *p = &w->program[i];
	*p = (struct program){ .fd = got->fd[0],
			       .pid_fd = got->fd[1],
			       .version = m->version,
			       .n_bytes =
				   MIN(m->n_bytes, (uint32_t)MSG_BYTES_MAX) };
	memcpy(p->bytes, m->bytes, p->n_bytes);
	got->n = 0;
}

/* A program that does not read this reply learns of it from the reply to its next request. */
static void tell_programs(struct work *w)
{
	struct reply r = { .magic = MSG_MAGIC,
			   .version = MSG_VERSION,
			   .type = MSG_LEAVE,
			   .flags = REPLY_LEAVE };

	for (int i = 0; i < PROGRAMS_MAX; i++) {
		struct program *p = &w->program[i];

		if (p->fd < 0 || p->is_told || p->silent_ns ||
		    p->version < MSG_VERSION_LEAVE || !program_leaves(w, i))
			continue;
		p->is_told = !channel_send(p->fd, &r, sizeof(r), NULL, 0);
	}
}

/* The next packet of osfd's.  Return: whether there was one */
static bool osfd_read(struct work *w, struct control *m, struct received *got,
		      int flags)
{
	struct iovec iov = { m, sizeof(*m) };
	ssize_t n = receive(w->osfd_fd, &iov, got, flags);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n != sizeof(*m))
		_exit(0); /* osfd has ended, or has no use for us */
	return true;
}

static void osfd_said(struct work *w, const struct control *m,
		      struct received *got)
{
	if (m->type == CONTROL_CLIENT)
		client_take(w, m, got);
	else if (m->type == CONTROL_LOOK)
		tell_programs(w);
}

/* A grant that OPEN has made. */
static int take_grant(struct work *w, int index, const struct control *m,
		      struct served *out, struct received *got)
{
	struct grant_part part = {
		.is = out->reply.grant,
		.number = m->number,
		.is_lo = m->is_lo,
		.frames_fd =
		    fcntl(got->fd[CONTROL_FD_PACKET], F_DUPFD_CLOEXEC, 0),
		.flows_fd = got->fd[CONTROL_FD_FLOWS],
		.ports_fd = got->fd[CONTROL_FD_PORTS],
	};

	got->n = CONTROL_FD_FLOWS;
	return grant_share(w->ports, &part, index);
}

static int answered(struct work *w, int index, const struct control *m,
		    struct served *out, struct received *got)
{
	memcpy(&out->reply, m->bytes, sizeof(out->reply));
	int err = out->reply.err;
	if (!err && got->n == CONTROL_FDS)
		err = take_grant(w, index, m, out, got);
	for (unsigned i = 0; i < 2 && i < got->n; i++)
		out->fds[i] = got->fd[i];
	return err;
}

/* Before its ANSWER osfd may send other packets.  A request of another socket of the
 * program then waits until this one has its answer. */
int worker_ask(struct work *w, int index, const struct request *r,
	       struct served *out)
{
	struct control m = { .type = CONTROL_ASK,
			     .n_bytes = (uint32_t)request_len(
				 (enum msg_type)r->type) };
	struct received got;

	memcpy(m.bytes, r, m.n_bytes);
	if (send(w->osfd_fd, &m, sizeof(m), MSG_NOSIGNAL) < 0)
		_exit(0);
	for (;;) {
		if (!osfd_read(w, &m, &got, 0))
			continue;
		if (m.type == CONTROL_ANSWER)
			return answered(w, index, &m, out, &got);
		osfd_said(w, &m, &got);
	}
}

/*
 * Programs.
 */

bool program_leaves(const struct work *w, int index)
{
	for (unsigned i = 0; i < GRANTS_MAX; i++) {
		const struct grant *g = &w->ports->grant[i];

		if (g->port && g->owner == index && g->port->is_ending)
			return true;
	}
	return false;
}

static void program_close(struct work *w, int index, bool is_dead)
{
	struct program *p = &w->program[index];

	for (unsigned i = 0; i < GRANTS_MAX; i++) {
		struct grant *g = &w->ports->grant[i];

		if (!g->port || g->owner != index)
			continue;
		held_end(g, is_dead);
		grant_drop(g);
		tell_osfd(w, CONTROL_END, i);
	}
	sockets_close(w, 2, (int[2]){ p->fd, p->pid_fd });
	*p = (struct program){ .fd = -1, .pid_fd = -1 };
	tell_osfd(w, CONTROL_GONE, 0);
}

/* The program sends no more requests.  The pidfd tells when it is dead. */
static void program_silence(struct work *w, int index)
{
	struct program *p = &w->program[index];

	if (p->silent_ns)
		return;
	epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, p->fd, NULL);
	p->silent_ns = now_ns();
}

static void serve_one(struct work *w, int index, const void *buf, size_t len,
		      struct received *got)
{
	struct served out;

	program_serve(w, index, buf, len, got->fd, got->n, &out);
	w->n_kept += received_close(got);
	unsigned n = (out.fds[0] >= 0) + (out.fds[1] >= 0);
	if (channel_send(w->program[index].fd, &out.reply, sizeof(out.reply),
			 out.fds, n) < 0)
		program_silence(w, index);
	for (unsigned i = 0; i < n; i++)
		close(out.fds[i]);
}

static void program_read(struct work *w, int index)
{
	uint8_t buf[MSG_BYTES_MAX];
	struct iovec iov = { buf, sizeof(buf) };
	struct received got;
	ssize_t n = receive(w->program[index].fd, &iov, &got, MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return;
	bool is_cut = n <= 0 || got.flags & (MSG_TRUNC | MSG_CTRUNC);
	if (!is_cut)
		serve_one(w, index, buf, (size_t)n, &got);
	else
		w->n_kept += received_close(&got);
	if (is_cut || w->n_kept > KEPT_MAX)
		program_silence(w, index);
}

static bool has_grant(const struct work *w, int index)
{
	for (unsigned i = 0; i < GRANTS_MAX; i++)
		if (w->ports->grant[i].port &&
		    w->ports->grant[i].owner == index)
			return true;
	return false;
}

/* Ends the sockets that the program has closed, if it does not die soon.  Return: after how
 * many milliseconds to look again, or -1 */
static int end_silent(struct work *w)
{
	uint64_t now = now_ns();
	bool any = false;

	for (int i = 0; i < PROGRAMS_MAX; i++) {
		const struct program *p = &w->program[i];

		if (p->fd < 0 || !p->silent_ns)
			continue;
		if (!has_grant(w, i) ||
		    now - p->silent_ns > SILENT_MS * NS_PER_MS)
			program_close(w, i, false);
		else
			any = true;
	}
	return any ? SILENT_MS / 10 : -1;
}

/* Drops grants whose port osfd has removed, and tells osfd of a port that waits for its last
 * connection to go. */
static void look_at_grants(struct work *w)
{
	for (unsigned i = 0; i < GRANTS_MAX; i++) {
		struct grant *g = &w->ports->grant[i];

		if (!g->port)
			continue;
		if (grant_has_ended(g)) {
			held_end(g, false);
			grant_drop(g);
		} else if (g->port->is_ending && !g->n_flows && !g->is_told) {
			g->is_told = true;
			tell_osfd(w, CONTROL_LOOK, 0);
		}
	}
}

static void event(struct work *w, uint32_t tag)
{
	uint32_t index = tag & ~(uint32_t)(TAG_DEATH | TAG_AWAY);
	struct control m;
	struct received got;

	if (tag & TAG_AWAY)
		look_after(&w->ports->grant[index]);
	else if (tag == TAG_OSFD) {
		if (osfd_read(w, &m, &got, MSG_DONTWAIT))
			osfd_said(w, &m, &got);
	} else if (w->program[index].fd < 0)
		return; /* closed by an event before this one */
	else if (tag & TAG_DEATH)
		program_close(w, (int)index, true);
	else if (!w->program[index].silent_ns)
		program_read(w, (int)index);
}

static void serve_new(struct work *w)
{
	for (int i = 0; i < PROGRAMS_MAX; i++) {
		struct program *p = &w->program[i];
		struct received none = { 0 };
		uint8_t buf[MSG_BYTES_MAX];
		size_t n = p->n_bytes;

		if (p->fd < 0 || !n)
			continue;
		memcpy(buf, p->bytes, n);
		p->n_bytes = 0;
		serve_one(w, i, buf, n, &none);
	}
}

static void run(struct work *w)
{
	struct epoll_event ev[EVENTS];
	int wait_ms = -1;

	for (;;) {
		int n = epoll_wait(w->epoll_fd, ev, EVENTS, wait_ms);
		for (int i = 0; i < n; i++)
			event(w, ev[i].data.u32);
		serve_new(w);
		look_at_grants(w);
		wait_ms = sooner_ms(end_silent(w), grants_rest(w->ports));
	}
}

/* Sorts what stays open, and closes all between. */
static void close_others(int *keep, unsigned n)
{
	unsigned from = 3;

	for (unsigned i = 1; i < n; i++)
		for (unsigned k = i; k > 0 && keep[k - 1] > keep[k]; k--) {
			int higher = keep[k - 1];

			keep[k - 1] = keep[k];
			keep[k] = higher;
		}
	for (unsigned i = 0; i < n; i++) {
		if (keep[i] < (int)from)
			continue;
		if (keep[i] > (int)from)
			close_range(from, (unsigned)keep[i] - 1, 0);
		from = (unsigned)keep[i] + 1;
	}
	close_range(from, ~0u, 0);
}

static void begin(struct ports *ports, int osfd_fd, int null_fd)
{
	struct work w = { .osfd_fd = osfd_fd, .ports = ports };
	int keep[1 + LO_N_CONF] = { osfd_fd };

	memcpy(keep + 1, ports->lo_fd, sizeof(ports->lo_fd));
	for (int fd = 0; fd < 3; fd++)
		dup2(null_fd, fd);
	close_others(keep, ARRAY_LEN(keep));
	grants_forget(ports);
	for (int i = 0; i < PROGRAMS_MAX; i++)
		w.program[i].fd = w.program[i].pid_fd = -1;
	w.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	prctl(PR_SET_NAME, "osfd-worker");
	if (w.epoll_fd < 0 || watch(&w, osfd_fd, TAG_OSFD, 0) ||
	    confine_worker() || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return;
	run(&w);
}

int worker_start(struct ports *ports, int null_fd, int *fd, int *proc_fd)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid_t pid = fork();
	int err = pid < 0 ? -errno : 0;
	if (!pid) {
		begin(ports, pair[1], null_fd);
		_exit(1);
	}
	int proc = err ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
	if (!err && proc < 0)
		err = -errno;
	close(pair[1]);
	if (err) { /* the worker ends with its socket */
		close(pair[0]);
		return err;
	}
	*fd = pair[0];
	*proc_fd = proc;
	return 0;
}
