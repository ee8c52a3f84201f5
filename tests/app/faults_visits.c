/* SPDX-License-Identifier: MIT */
/*
 * tests/app/faults_visits.c - a stranger visits while connections are made, and move
 *
 *     far end, honest  <- one connection after the other ->  near end, the victim
 *     hostile_stranger.c, another user  -> reaches for them, and connects, too
 *
 * Each honest connection carries checked messages until it is in shared memory or
 * long past the moment for it.  No call on a descriptor that does not block may take
 * long, whoever comes, and nothing may stay behind.
 */
#include "faults_hostile.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define VISITS_MS 800
#define TURNS 14
#define MESSAGE 64
#define GUESTS 16

struct host {
	struct ctx *x;
	int listener, door, ctl;
	uint16_t far_port;
	int guests[GUESTS];
	unsigned n_guests, n_honest;
	uint64_t n_visits;
};

/* --- far end --- */

static void far_serves(struct ctx *x)
{
	uint16_t port;
	int listener = listen_local(&port);
	struct pollfd p[2] = { { .fd = listener, .events = POLLIN },
			       { .fd = x->ctl, .events = POLLIN } };

	tell(x, port);
	stage = "an honest far end serves";
	for (;;) {
		need(poll(p, 2, -1) > 0, "poll: %m");
		if (p[1].revents)
			break;
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		struct stream s = stream_make(fd, x->seed, 0, false);
		need(stream_echo(&s), "an honest connection: %m");
		close(fd);
	}
	close(listener);
}

static void far_comes(struct ctx *x)
{
	uint16_t port = (uint16_t)hear(x);
	struct pollfd p = { .fd = x->ctl, .events = POLLIN };

	stage = "an honest far end comes";
	while (poll(&p, 1, 0) == 0) {
		int fd = connect_local(port);
		struct stream s = stream_make(fd, x->seed, 0, true);
		need(stream_echo(&s) || errno == ECONNRESET,
		     "an honest connection: %m");
		close(fd);
	}
}

static void far_visited(struct ctx *x)
{
	if (x->is_client) /* the near end is */
		far_serves(x);
	else
		far_comes(x);
	hear(x);
}

/* --- near end --- */

/* Nobody who comes by the open door is waited for. */
static void serve_guests(struct host *h)
{
	char bin[200];
	int fd = TIMED("accept4()", accept4(h->door, NULL, NULL,
					    SOCK_CLOEXEC | SOCK_NONBLOCK));

	if (fd >= 0) {
		int *place = &h->guests[h->n_guests++ % GUESTS];

		if (*place >= 0)
			TIMED("close()", close(*place));
		*place = fd;
	}
	for (int i = 0; i < GUESTS; i++) {
		int guest = h->guests[i];

		if (guest < 0)
			continue;
		TIMED("a guest's recv()",
		      recv(guest, bin, sizeof(bin), MSG_DONTWAIT));
		TIMED("a guest's send()",
		      send(guest, "welcome", 7, MSG_DONTWAIT | MSG_NOSIGNAL));
	}
	while (recv(h->ctl, bin, sizeof(bin), MSG_DONTWAIT) > 0)
		h->n_visits++;
}

static void turn(struct host *h, struct stream *s)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	uint64_t wanted = s->in + MESSAGE;

	need(TIMED("send()", stream_send_some(s, MESSAGE, MSG_DONTWAIT)) ==
		 MESSAGE,
	     "honest connection %u: send: %m", h->n_honest);
	while (s->in < wanted) {
		stage = "an answer on an honest connection";
		need(poll(&p, 1, ANSWER_MS) == 1,
		     "honest connection %u stands at %llu bytes out, %llu in",
		     h->n_honest, (unsigned long long)s->out,
		     (unsigned long long)s->in);
		ssize_t r =
		    TIMED("recv()", stream_recv_some(s, MESSAGE, MSG_DONTWAIT));
		need(r > 0 || (r < 0 && errno == EAGAIN),
		     "honest connection %u at byte %llu: %s", h->n_honest,
		     (unsigned long long)s->in,
		     r ? strerror(errno) : "its end");
	}
}

static void honest_connection(struct host *h)
{
	stage = "an honest connection is made";
	int fd = h->x->is_client
		     ? connect_local(h->far_port)
		     : accept4(h->listener, NULL, NULL, SOCK_CLOEXEC);

	need(fd >= 0, "an honest connection: %m");
	struct stream s = stream_make(fd, h->x->seed, 0, h->x->is_client);
	for (int i = 0; i < TURNS; i++) {
		turn(h, &s);
		serve_guests(h);
	}
	TIMED("close()", close(fd));
	h->n_honest++;
}

static void stranger_begins(struct host *h, uint16_t open_port)
{
	uint64_t word = (uint64_t)h->far_port << 16 | open_port;

	need(write(h->ctl, &word, sizeof(word)) == sizeof(word),
	     "the stranger ended early");
}

static bool is_enough(const struct host *h, uint64_t end)
{
	struct osf_stats_header st;
	uint64_t now = ms_now();

	if (now <= end)
		return false;
	return now > end + ANSWER_MS ||
	       (h->n_visits > 0 &&
		(!has_stats() ||
		 (stats_of(h->x->near_pid, &st) && st.totals.n_upgraded > 0)));
}

static void report(struct host *h)
{
	struct osf_stats_header st;

	need(h->n_visits, "no visit took place");
	if (!has_stats())
		return;
	need(stats_of(h->x->near_pid, &st), "no statistics");
	need(!st.totals.n_broken, "an honest connection was broken");
	need(st.totals.n_upgraded, "no connection of %u moved", h->n_honest);
	printf("%s, seed %llu: %llu visits, %llu of %u connections moved; "
	       "%s took %llu us, %llu of the core\n",
	       h->x->sc->name, (unsigned long long)h->x->seed,
	       (unsigned long long)h->n_visits,
	       (unsigned long long)st.totals.n_upgraded, h->n_honest,
	       longest.call, (unsigned long long)longest.us,
	       (unsigned long long)longest.cpu_us);
}

static void near_visited(struct ctx *x)
{
	struct host h = { .x = x, .listener = -1 };
	uint16_t open_port;

	if (geteuid()) {
		fprintf(stderr, "skip: needs root\n");
		_exit(77);
	}
	for (int i = 0; i < GUESTS; i++)
		h.guests[i] = -1;
	h.door = listen_local(&open_port);
	fcntl(h.door, F_SETFL, O_NONBLOCK);
	if (x->is_client)
		h.far_port = (uint16_t)hear(x);
	else
		h.listener = listen_local(&h.far_port), tell(x, h.far_port);
	pid_t pid = spawn_hostile(x, "visits", &h.ctl, 0);
	honest_connection(&h);
	struct holds before = count_holds();
	stranger_begins(&h, open_port);
	for (uint64_t end = ms_now() + VISITS_MS; !is_enough(&h, end);)
		honest_connection(&h);
	for (int i = 0; i < GUESTS; i++)
		if (h.guests[i] >= 0)
			TIMED("close()", close(h.guests[i]));
	close(h.door);
	stage = "the stranger ends";
	kill(pid, SIGKILL); /* it may have to wait for what it has made */
	close(h.ctl);
	need_nothing_left(&before, h.n_visits);
	tell(x, 1);
	if (h.listener >= 0)
		close(h.listener);
	report(&h);
}

SCENARIO(stranger_visits, .near = near_visited, .far = far_visited,
	 .flags = NEEDS_OSF | FAR_APART);
