/* SPDX-License-Identifier: MIT */
/*
 * api/vma/dump.c - dump_fd_stats(): what is known of a socket, as `vma_stats -v 3` shows it
 *
 *     counters of the statistics file, options and ends  ->  a block of text  ->  the log
 *
 * Without a log the blocks go to standard error.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "api/vma/calls.h"
#include "api/vma/vsock.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "sock/arena.h"
#include "sock/sock.h"

#define RULE "======================================================\n"
#define KB 1024
#define TEXT_MAX 1536

struct text {
	char s[TEXT_MAX];
	size_t n;
	bool is_active; /* the socket has moved something */
};

struct counts {
	uint64_t packets, bytes, eagains, errors;
};

static PRINTF(2, 3) void add(struct text *t, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	int n = vsnprintf(t->s + t->n, sizeof(t->s) - t->n, fmt, args);
	va_end(args);
	size_t room = sizeof(t->s) - t->n - 1;

	if (n > 0)
		t->n += MIN((size_t)n, room);
}

static void text_write(const struct text *t)
{
	int fd = log_fd();

	for (size_t done = 0; done < t->n;) {
		ssize_t n = nocancel_write(fd < 0 ? STDERR_FILENO : fd,
					   t->s + done, t->n - done);
		if (n < 0 && errno != EINTR)
			return;
		done += n > 0 ? (size_t)n : 0;
	}
}

/* Writes the address of one end, or nothing if it has no port. */
static void add_end(struct text *t, const char *what,
		    const struct sockaddr_storage *a)
{
	const struct sockaddr_in6 *v6 = (const void *)a;
	const struct sockaddr_in *v4 = (const void *)a;
	char addr[INET6_ADDRSTRLEN] = "";

	if (a->ss_family == AF_INET && v4->sin_port)
		add(t, "- %s = [%s:%u]\n", what,
		    inet_ntop(AF_INET, &v4->sin_addr, addr, sizeof(addr)),
		    ntohs(v4->sin_port));
	if (a->ss_family == AF_INET6 && v6->sin6_port)
		add(t, "- %s = [[%s]:%u]\n", what,
		    inet_ntop(AF_INET6, &v6->sin6_addr, addr, sizeof(addr)),
		    ntohs(v6->sin6_port));
}

static void add_names(struct text *t, int fd, bool is_udp)
{
	struct sockaddr_storage local = { 0 }, peer = { 0 };
	socklen_t len = sizeof(local), len2 = len, len3 = sizeof(int);
	int loops = 0;

	add(t, RULE "\tFd=[%d]\n- %s, %s", fd, is_udp ? "UDP" : "TCP",
	    fcntl(fd, F_GETFL) & O_NONBLOCK ? "Non-blocked" : "Blocked");
	if (is_udp &&
	    !getsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &loops, &len3))
		add(t, ", MC Loop %s", loops ? "Enabled " : "Disabled");
	add(t, "\n");
	if (!getsockname(fd, (struct sockaddr *)&local, &len))
		add_end(t, "Local Address  ", &local);
	if (!getpeername(fd, (struct sockaddr *)&peer, &len2))
		add_end(t, "Foreign Address", &peer);
}

static void add_counts(struct text *t, const char *what, const struct counts *c)
{
	if (!c->packets && !c->bytes && !c->eagains && !c->errors)
		return;
	t->is_active = true;
	add(t,
	    "%s %" PRIu64 " / %" PRIu64 " / %" PRIu64 " / %" PRIu64
	    " [kilobytes/packets/eagains/errors]\n",
	    what, c->bytes / KB, c->packets, c->eagains, c->errors);
}

/* Writes how much waits to be received now, how much waited at most, and what was dropped.  Writes
 * nothing if nothing ever waited and nothing was dropped. */
static void add_queue(struct text *t, int fd, uint64_t most,
		      const struct osf_stats_packets *p)
{
	uint64_t n = p ? load_rlx(&p->n_dropped) : 0;
	int queued = 0, limit = 0;
	socklen_t len = sizeof(limit);

	if (!most && !n)
		return;
	if (ioctl(fd, FIONREAD, &queued))
		queued = 0;
	getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &limit, &len);
	add(t,
	    "Rx byte: cur %d / max %" PRIu64 " / dropped %" PRIu64
	    " / limit %d\n"
	    "Rx pkt : cur %d / max %d / dropped %" PRIu64 "\n",
	    queued, MAX(most, (uint64_t)queued),
	    p ? load_rlx(&p->dropped_bytes) : 0, limit, queued > 0,
	    queued || most, n);
}

static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

static void add_held(struct text *t, const struct osf_stats_packets *p)
{
	uint64_t n = p ? less(load_rlx(&p->n_held), load_rlx(&p->n_freed)) : 0;

	if (n)
		add(t, "Rx zero copy buffers: cur %" PRIu64 "\n", n);
	t->is_active |= n;
}

static void add_dummies(struct text *t, const struct osf_stats_packets *p)
{
	uint64_t n = p ? load_rlx(&p->n_dummies) : 0;

	if (n)
		add(t, "Tx Dummy messages : %" PRIu64 "\n", n);
	t->is_active |= n;
}

static void add_udp(struct text *t, int fd, const struct osf_stats_packets *p)
{
	add_counts(t, "Tx OS info:",
		   &(struct counts){ p->n_sent, p->tx_bytes, p->tx_eagains,
				     p->tx_errors });
	add_dummies(t, p);
	add_counts(t, "Rx OS info:",
		   &(struct counts){ p->n_received + p->n_dropped,
				     p->rx_bytes + p->dropped_bytes,
				     p->rx_eagains, p->rx_errors });
	add_queue(t, fd, 0, p);
	add_held(t, p);
}

static void add_tcp(struct text *t, int fd, const struct osf_stats_sock *s,
		    const struct osf_stats_packets *p)
{
	uint64_t n_polls = s->n_spins + s->n_sleeps;

	add_counts(t, "Tx Offload:",
		   &(struct counts){ less(s->tx_ops, s->tx_ops_inet),
				     s->tx_bytes_shm, s->tx_eagains,
				     s->tx_errors });
	add_counts(t, "Tx OS info:",
		   &(struct counts){ s->tx_ops_inet, s->tx_bytes_inet,
				     s->tx_eagains_inet, s->tx_errors_inet });
	add_dummies(t, p);
	add_counts(t, "Rx Offload:",
		   &(struct counts){ less(s->rx_ops, s->rx_ops_inet),
				     s->rx_bytes_shm, s->rx_eagains,
				     s->rx_errors });
	add_counts(t, "Rx OS info:",
		   &(struct counts){ s->rx_ops_inet, s->rx_bytes_inet,
				     s->rx_eagains_inet, s->rx_errors_inet });
	add_queue(t, fd, s->rx_most, p);
	add_held(t, p);
	if (n_polls)
		add(t,
		    "Rx poll: %" PRIu64 " / %" PRIu64 " (%2.2f%%) [miss/hit]\n",
		    s->n_sleeps, s->n_spins,
		    100.0 * (double)s->n_spins / (double)n_polls);
	if (s->n_retransmitted)
		add(t, "Retransmissions: %" PRIu64 "\n", s->n_retransmitted);
}

/* @s: of a TCP socket, NULL: osf has nothing to do with it. */
static void dump_one(int fd, bool is_udp, const struct osf_stats_sock *s)
{
	struct text t = { 0 };
	VISIT(v, vsock_get(fd));
	const struct osf_stats_packets *p =
	    v.s ? load_acq(&v.s->packets.at) : NULL;

	add_names(&t, fd, is_udp);
	if (is_udp && p)
		add_udp(&t, fd, p);
	if (s)
		add_tcp(&t, fd, s, p);
	if (!t.is_active)
		add(&t, "Rx and Tx where not active\n");
	add(&t, RULE);
	text_write(&t);
}

/* Counters of TCP sockets, because no call may be made while the table of them is locked. */
struct found {
	int fd; /* whose; 0: of all */
	struct osf_stats_sock *at;
	size_t room, n;
};

static void find_one(const struct sock *sk, void *arg)
{
	struct found *f = arg;

	if (f->fd && f->fd != sk->st->fd)
		return;
	if (f->n < f->room)
		f->at[f->n] = *sk->st;
	f->n++;
}

static void dump_fd(int fd, bool is_udp)
{
	struct osf_stats_sock one;
	struct found f = { .fd = fd, .at = &one, .room = 1 };

	if (!is_udp)
		arena_for_each(find_one, &f);
	dump_one(fd, is_udp, f.n ? &one : NULL);
}

static void dump_all(void)
{
	struct found f = { 0 };

	arena_for_each(find_one, &f);
	f.room = f.n;
	f.n = 0;
	f.at = malloc(f.room * sizeof(*f.at));
	if (f.at)
		arena_for_each(find_one, &f);
	for (size_t i = 0; i < MIN(f.n, f.room); i++)
		dump_one(f.at[i].fd, false, &f.at[i]);
	free(f.at);
	for (int fd = 1; fd < vsock_fd_end(); fd++) {
		VISIT(v, vsock_get(fd));

		if (v.s && v.s->is_udp)
			dump_one(fd, true, NULL);
	}
}

/* As in libvma: messages above the log's level are not written.  The level is
 * info, 3 in libvma's numbers, unless the program has set another. */
static bool is_heard(int level)
{
	static const int theirs[] = { -1, 1, 2, 4, 8 };
	int ours = log_level();

	if (log_fd() < 0 && ours < 0)
		return level <= 3;
	if (ours < -1 || ours > LOG_LEVEL_DBG) /* somebody wrote it there */
		ours = ours < 0 ? -1 : LOG_LEVEL_DBG;
	return level <= theirs[ours + 1];
}

/* 0: all.  TCP sockets, and those that this API knows. */
int vma_dump_fd_stats(int fd, int level)
{
	bool is_udp = false;
	int saved = errno;

	if (fd < 0 || (fd && !vsock_is_inet(fd, &is_udp))) {
		errno = EBADF;
		return -1;
	}
	if (level >= 0 && is_heard(level) && fd)
		dump_fd(fd, is_udp);
	else if (level >= 0 && is_heard(level))
		dump_all();
	errno = saved;
	return 0;
}
