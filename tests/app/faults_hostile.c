/* SPDX-License-Identifier: MIT */
/*
 * tests/app/faults_hostile.c - a peer that lies costs its own connection, no other
 *
 *     hostile.c, without the library  <- one connection ->   near end, the victim
 *     far end, honest                 <- HONEST of them ->   in one epoll set
 *
 * While the hostile peer comes again and again, each honest connection carries
 * checked messages both ways; none may stand still, or lose or change a byte.
 * What the hostile connection itself answers does not matter.  The scenarios named
 * wrong_* are about the rendezvous: there the connection is to stay with the
 * kernel, and to work.  Called by faults.c.
 */
#include "faults_hostile.h"
#include "lost_core.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define HONEST 3
#define ATTACK_MS 600
#define MESSAGE_BYTES 6000 /* at most */
#define LATE_MS 50
#define STANDS_MS 3000

/* The descriptors that the library may keep after hostile connections: some for later
 * connections, 16 that it must not close, and some that other processes are still closing. */
#define HOLDS_MAX 40u

/* No call on a descriptor that does not block may wait for a peer.  The machine may be slow,
 * and the time in which the thread had no core does not count; but a loop that waits for the
 * peer costs time of the core, or sleeps.  A fallback waits for 2 ms twice at most, and each
 * byte that a peer drips into that wakes it: 115 sleeps were seen in one sendmsg(). */
#define CALL_MS 1000u
#define STANDS_STILL                                                           \
	10u /* times CALL_MS: a virtual machine that loses its cores */
#define CALL_CPU_MS 50u
#define CALL_SLEEPS 400

/* --- the hostile program --- */

pid_t spawn_hostile(struct ctx *x, const char *manner, int *ctl, uint16_t other)
{
	char fd[16], seed[32], port[16];
	int pair[2];

	if (!x->hostile) {
		fprintf(stderr, "skip: no --hostile PROGRAM\n");
		_exit(77);
	}
	need(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair),
	     "socketpair: %m");
	pid_t pid = fork();
	if (pid) {
		close(pair[1]);
		*ctl = pair[0];
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	unsetenv("LD_PRELOAD");
	fcntl(pair[1], F_SETFD, 0);
	snprintf(fd, sizeof(fd), "%d", pair[1]);
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)x->seed);
	snprintf(port, sizeof(port), "%u", other);
	execl(x->hostile, "hostile", x->is_client ? "acceptor" : "opener",
	      manner, seed, fd, other ? port : NULL, NULL);
	_exit(3);
}

/* --- how long a call takes --- */

struct call_time longest;

static uint64_t us_by(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

static long sleeps_now(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return u.ru_nvcsw;
}

struct call_time call_begins(const char *call)
{
	stage = call;
	return (
	    struct call_time){ call, us_by(CLOCK_MONOTONIC) - lost_core_us(),
			       us_by(CLOCK_THREAD_CPUTIME_ID), sleeps_now() };
}

void call_ends(struct call_time *t)
{
	int saved = errno;

	uint64_t now = us_by(CLOCK_MONOTONIC) - lost_core_us();

	t->us = now > t->us ? now - t->us : 0; /* it may be lost in between */
	t->cpu_us = us_by(CLOCK_THREAD_CPUTIME_ID) - t->cpu_us;
	t->sleeps = sleeps_now() - t->sleeps;
	/* Who has not slept has hardly waited for anybody: the machine itself stood still. */
	need(t->us < (t->sleeps ? 1u : STANDS_STILL) * CALL_MS * 1000u &&
		 t->cpu_us < CALL_CPU_MS * 1000u && t->sleeps < CALL_SLEEPS,
	     "%s took %llu us, and %llu us of the core, and slept %ld times",
	     t->call, (unsigned long long)t->us, (unsigned long long)t->cpu_us,
	     t->sleeps);
	if (t->cpu_us > longest.cpu_us)
		longest = *t;
	errno = saved;
}

/* --- a rendezvous that goes wrong --- */

struct wrong {
	const char *manner;
	uint64_t reasons;
	bool resets; /* the end of the connection may be a reset */
};

/* What the near end says of its connection when the peer behaved so. */
static const struct wrong wrongs[] = {
	{ "unsealed", BIT(BROKEN), false },
	{ "half_sealed", BIT(BROKEN), false },
	{ "short_segment", BIT(BROKEN), false },
	{ "empty_segment", BIT(BROKEN), false },
	{ "odd_segment", BIT(BROKEN), false },
	{ "huge_segment", BIT(BROKEN), false },
	{ "ring_size", BIT(BROKEN), false },
	{ "segment_magic", BIT(BROKEN), false },
	{ "segment_version", BIT(VERSION), false },
	{ "pipe", BIT(BROKEN), false },
	{ "device", BIT(BROKEN), false },
	{ "write_sealed", BIT(BROKEN), false },
	{ "read_only", BIT(BROKEN), false },
	{ "unsealed_inbox", BIT(BROKEN), false },
	{ "short_inbox", BIT(BROKEN), false },
	{ "one_descriptor", BIT(BROKEN), false },
	{ "no_descriptor", BIT(BROKEN), false },
	{ "many_descriptors", BIT(BROKEN), false },
	{ "short_hello", BIT(BROKEN), false },
	{ "magic", BIT(BROKEN), false },
	{ "version", BIT(VERSION), false },
	{ "mute", BIT(NO_PEER) | BIT(YOUNG), false },
	{ "gone", BIT(PEER_KERNEL), false },
	{ "holds", BIT(NO_PEER) | BIT(YOUNG), false },
	{ "declines", BIT(PEER_KERNEL), false },
	{ "half_taken", BIT(NO_PEER) | BIT(YOUNG), true },
	{ "half_taken_and_goes", BIT(PEER_KERNEL) | BIT(YOUNG), true },
	{ "answer", BIT(NO_PEER) | BIT(YOUNG), true },
	{ "half_back", BIT(NO_PEER) | BIT(YOUNG), true },
};

void connect_with_hostile(struct ctx *x)
{
	uint16_t port;

	stage = "the connection with the hostile peer is made";
	if (x->is_client) {
		x->fd = connect_local((uint16_t)hear(x));
	} else {
		int listener = listen_local(&port);

		tell(x, port);
		x->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		close(listener);
	}
	connection_is(x, x->fd, 0);
}

static void wrong_rendezvous(struct ctx *x)
{
	const struct wrong *w = &wrongs[x->sc->arg];
	pid_t pid = spawn_hostile(x, w->manner, &x->ctl, 0);

	connect_with_hostile(x);
	turns(x, WARM_TURNS);
	bulk(x, 1 << 20);
	turns(x, WARM_TURNS);
	need_kernel(x, w->reasons);
	stage = "the end of the stream";
	if (w->resets) {
		TIMED("shutdown()", shutdown(x->fd, SHUT_WR));
		need(stream_recv_some(&x->s, 1, 0) <= 0, "more than an end");
		end_child(pid, false);
		return;
	}
	need(!shutdown(x->fd, SHUT_WR), "shutdown: %m");
	need(stream_recv_some(&x->s, 1, 0) == 0, "the end: %m");
	end_child(pid, true);
}

/* Scenario's name, the role in which it can be, its place above. */
#define WRONG(name, role, place)                                               \
	SCENARIO(wrong_##name, .near = wrong_rendezvous,                       \
		 .flags = FAR_NONE | NEEDS_OSF | (role), .arg = place)

WRONG(unsealed, CLIENT_ONLY, 0);
WRONG(half_sealed, CLIENT_ONLY, 1);
WRONG(short_segment, CLIENT_ONLY, 2);
WRONG(empty_segment, CLIENT_ONLY, 3);
WRONG(odd_segment, CLIENT_ONLY, 4);
WRONG(huge_segment, CLIENT_ONLY, 5);
WRONG(ring_size, CLIENT_ONLY, 6);
WRONG(segment_magic, CLIENT_ONLY, 7);
WRONG(segment_version, CLIENT_ONLY, 8);
WRONG(pipe, CLIENT_ONLY, 9);
WRONG(device, CLIENT_ONLY, 10);
WRONG(write_sealed, CLIENT_ONLY, 11);
WRONG(read_only, CLIENT_ONLY, 12);
WRONG(unsealed_inbox, CLIENT_ONLY, 13);
WRONG(short_inbox, CLIENT_ONLY, 14);
WRONG(one_descriptor, CLIENT_ONLY, 15);
WRONG(no_descriptor, CLIENT_ONLY, 16);
WRONG(many_descriptors, CLIENT_ONLY, 17);
WRONG(short_hello, CLIENT_ONLY, 18);
WRONG(magic, CLIENT_ONLY, 19);
WRONG(version, CLIENT_ONLY, 20);
WRONG(mute, CLIENT_ONLY, 21);
WRONG(gone, CLIENT_ONLY, 22);
WRONG(holds, SERVER_ONLY, 23);
WRONG(declines, SERVER_ONLY, 24);
WRONG(half_taken, SERVER_ONLY, 25);
WRONG(half_taken_and_goes, SERVER_ONLY, 26);
WRONG(answer, SERVER_ONLY, 27);
WRONG(half_back, SERVER_ONLY, 28);

/* --- the honest peer: an event loop that answers, as the victim is one --- */

void watch_fd(int ep, int fd, uint32_t events, uint32_t data)
{
	struct epoll_event ev = { .events = events, .data.u32 = data };

	need(!epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), "epoll_ctl: %m");
}

/* Answers what has come; false at the end. */
static bool answer(struct stream *s)
{
	ssize_t r = stream_recv_some(s, STREAM_PART, MSG_DONTWAIT);

	if (r < 0 && errno == EAGAIN)
		return true;
	need(r >= 0, "an honest stream at byte %llu: %m",
	     (unsigned long long)s->in);
	need(!r || stream_send(s, (uint64_t)r), "an honest answer: %m");
	return r;
}

void serve(struct stream *s, unsigned n)
{
	struct epoll_event evs[8];
	int ep = epoll_create1(EPOLL_CLOEXEC);

	for (unsigned i = 0; i < n; i++)
		watch_fd(ep, s[i].fd, EPOLLIN, i);
	stage = "an honest far end";
	while (n) {
		int got = epoll_wait(ep, evs, 8, -1);

		need(got > 0, "epoll_wait: %m");
		for (int i = 0; i < got; i++) {
			uint32_t at = evs[i].data.u32;

			if (answer(&s[at]))
				continue;
			close(s[at].fd);
			n--;
		}
	}
	close(ep);
}

/* The first connection is there; the others are made likewise. */
static void more_honest(struct ctx *x, struct stream *s, unsigned n)
{
	bool connects = x->is_client != x->is_far;
	int listener = -1;
	uint16_t port;

	s[0] = x->s;
	if (connects)
		port = (uint16_t)hear(x);
	else
		listener = listen_local(&port), tell(x, port);
	for (unsigned i = 1; i < n; i++) {
		int fd = connects ? connect_local(port)
				  : accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		need(fd >= 0, "an honest connection: %m");
		s[i] = stream_make(fd, x->seed, i, connects);
	}
	if (listener >= 0)
		close(listener);
}

static void far_honest(struct ctx *x)
{
	struct stream s[HONEST];

	more_honest(x, s, HONEST);
	serve(s, HONEST);
	tell(x, 1);
}

/* --- the victim --- */

struct victim {
	struct ctx *x;
	struct stream honest[HONEST];
	uint64_t started_ms[HONEST]; /* when its message was sent, or: */
	uint64_t lost_us[HONEST];    /* 0, or what both ends had lost then */
	int ep, hostile, listener;
	uint16_t hostile_port;
	uint64_t rng, n_lost;
	bool finishing;
};

enum { EV_HOSTILE = HONEST, EV_LISTENER };

static struct victim v = { .hostile = -1, .listener = -1 };

static uint32_t below(uint32_t n)
{
	v.rng += 0x9e3779b97f4a7c15ull;
	return (uint32_t)(pattern_mix(pattern_mix(v.rng)) >> 16) % n;
}

static void honest_stage(void)
{
	int n = 0;

	for (int i = 0; i < HONEST; i++)
		n += snprintf(stage_more + n, sizeof(stage_more) - (size_t)n,
			      "; honest %d: %llu out, %llu in", i,
			      (unsigned long long)v.honest[i].out,
			      (unsigned long long)v.honest[i].in);
}

static void honest_next(int i)
{
	v.started_ms[i] = ms_now();
	v.lost_us[i] = 0;
	need(stream_send(&v.honest[i], 1 + below(MESSAGE_BYTES)),
	     "an honest connection: send: %m");
}

static void honest_event(int i)
{
	struct stream *s = &v.honest[i];
	ssize_t r = stream_recv_some(s, STREAM_PART, MSG_DONTWAIT);

	if (r < 0 && errno == EAGAIN)
		return;
	need(r > 0, "honest connection %d at byte %llu: %s", i,
	     (unsigned long long)s->in, r ? strerror(errno) : "its end");
	if (s->in == s->out && !v.finishing)
		honest_next(i);
}

/* Is a message of connection @i on its way for longer than it can be?  The time in which one of
 * its ends had no core does not count, and is asked for if the message is late. */
static bool honest_stands(int i)
{
	uint64_t waited = ms_now() - v.started_ms[i];

	if (waited < LATE_MS)
		return false;
	uint64_t lost = 1 + lost_core_us() + lost_core_of_us(v.x->far_pid);
	if (!v.lost_us[i]) {
		v.lost_us[i] = lost;
		v.started_ms[i] += waited;
		return false;
	}
	return waited > STANDS_MS + (lost - v.lost_us[i]) / 1000;
}

static void honest_watch(void)
{
	for (int i = 0; i < HONEST; i++)
		need(v.honest[i].in == v.honest[i].out || !honest_stands(i),
		     "honest connection %d stands at %llu bytes out, %llu in",
		     i, (unsigned long long)v.honest[i].out,
		     (unsigned long long)v.honest[i].in);
}

static bool honest_all_answered(void)
{
	for (int i = 0; i < HONEST; i++)
		if (v.honest[i].in != v.honest[i].out)
			return false;
	return true;
}

static void hostile_open(void)
{
	if (v.x->is_client)
		v.hostile = connect_local(v.hostile_port);
	else
		v.hostile = accept4(v.listener, NULL, NULL, SOCK_CLOEXEC);
	need(v.hostile >= 0, "a connection with the hostile peer: %m");
	watch_fd(v.ep, v.hostile, EPOLLIN | (below(2) ? EPOLLET : 0),
		 EV_HOSTILE);
}

/* The next one may come, or is made. */
static void hostile_lost(void)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT,
				  .data.u32 = EV_LISTENER };

	TIMED("close()", close(v.hostile));
	v.hostile = -1;
	v.n_lost++;
	if (v.x->is_client && !v.finishing)
		hostile_open();
	else if (!v.x->is_client)
		need(!epoll_ctl(v.ep, EPOLL_CTL_MOD, v.listener, &ev),
		     "epoll_ctl: %m");
}

/* Give the connection to somebody who knows nothing of rings: ourselves. */
static void hostile_pass(void)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control = { .align = { .cmsg_level = SOL_SOCKET,
				 .cmsg_type = SCM_RIGHTS,
				 .cmsg_len = CMSG_LEN(sizeof(int)) } };
	struct iovec iov = { (void *)"x", 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = CMSG_SPACE(sizeof(int)) };
	int pair[2];

	need(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair),
	     "socketpair: %m");
	memcpy(CMSG_DATA(&control.align), &v.hostile, sizeof(int));
	TIMED("sendmsg(SCM_RIGHTS)", sendmsg(pair[0], &msg, MSG_DONTWAIT));
	close(pair[0]);
	close(pair[1]);
}

/* What reads a byte of the hostile connection, or none. */
static ssize_t hostile_receive(void)
{
	static char bin[STREAM_PART];
	struct iovec iov[2] = { { bin, 100 }, { bin + 100, 5000 } };

	switch (below(4)) {
	case 0:
		return TIMED("recv(MSG_PEEK)",
			     recv(v.hostile, bin, 1 + below(2000),
				  MSG_PEEK | MSG_DONTWAIT));
	case 1:
		fcntl(v.hostile, F_SETFL, O_RDWR | O_NONBLOCK);
		return TIMED("readv()", readv(v.hostile, iov, 2));
	case 2:
		return TIMED("recv(MSG_TRUNC)", recv(v.hostile, NULL, INT32_MAX,
						     MSG_TRUNC | MSG_DONTWAIT));
	default:
		return TIMED("recv()",
			     recv(v.hostile, bin, sizeof(bin), MSG_DONTWAIT));
	}
}

/* Any call that reads; true when the connection is still one. */
static bool hostile_read(void)
{
	struct pollfd p = { .fd = v.hostile, .events = POLLIN | POLLOUT };
	int n;

	if (below(50) == 0)
		hostile_pass();
	if (below(200) == 0)
		TIMED("shutdown()", shutdown(v.hostile, (int)below(3)));
	if (below(8) == 0) {
		n = (int)below(200);
		setsockopt(v.hostile, SOL_SOCKET, SO_RCVLOWAT, &n, sizeof(n));
	}
	switch (below(8)) {
	case 0:
		TIMED("FIONREAD", ioctl(v.hostile, FIONREAD, &n));
		return true;
	case 1:
		TIMED("poll()", poll(&p, 1, 0));
		return true;
	case 2:
		TIMED("SIOCOUTQ", ioctl(v.hostile, SIOCOUTQ, &n));
		return true;
	}
	ssize_t r = hostile_receive();
	return r > 0 || (r < 0 && errno == EAGAIN);
}

static bool hostile_write(void)
{
	static const char junk[3000];
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL;

	if (below(8) == 0)
		flags |= MSG_MORE;
	return TIMED("send()", send(v.hostile, junk, 1 + below(sizeof(junk)),
				    flags)) > 0 ||
	       errno == EAGAIN;
}

static void victim_event(const struct epoll_event *ev)
{
	uint32_t at = ev->data.u32;

	if (at < HONEST) {
		stage = "honest traffic";
		honest_event((int)at);
	} else if (at == EV_LISTENER && v.hostile < 0) {
		hostile_open();
	} else if (at == EV_HOSTILE && v.hostile >= 0 && !hostile_read()) {
		hostile_lost();
	}
}

/* Has a hostile connection been in shared memory yet?  The peer may start late, so there is no
 * time by which it has to be: the scenario's own time ends what never comes. */
static bool is_attacked(void)
{
	struct osf_stats_header h;

	return !has_stats() ||
	       (stats_of(v.x->near_pid, &h) && h.totals.n_upgraded > HONEST);
}

static void victim_loop(uint64_t ms)
{
	struct epoll_event evs[8];
	uint64_t end = ms_now() + ms;

	for (int i = 0; i < HONEST; i++)
		honest_next(i);
	for (unsigned turn = 0; !v.finishing || !honest_all_answered();
	     turn++) {
		stage = "epoll_wait";
		honest_stage();
		int n = epoll_wait(v.ep, evs, 8, -1);

		need(n > 0, "epoll_wait: %m");
		for (int i = 0; i < n; i++)
			victim_event(&evs[i]);
		if (turn % 4 == 0 && v.hostile >= 0 && !hostile_write())
			hostile_lost();
		honest_watch();
		if (ms_now() > end)
			v.finishing = is_attacked();
	}
}

static void need_honest_upgraded(struct ctx *x)
{
	struct osf_stats_header h;

	for (int i = 0; i < HONEST; i++) {
		x->port = port_of(v.honest[i].fd, false);
		x->far_port = port_of(v.honest[i].fd, true);
		need_upgraded(x);
	}
	if (!has_stats())
		return;
	need(stats_of(x->near_pid, &h), "no statistics");
	need(h.totals.n_upgraded > HONEST,
	     "no hostile connection was upgraded, %llu were lost",
	     (unsigned long long)v.n_lost);
	need(stats_of(x->far_pid, &h) && !h.totals.n_broken,
	     "an honest peer's connection was broken");
	printf("%s, seed %llu: %llu hostile connections lost, %llu bytes each "
	       "way on an honest one; %s took %llu us, %llu of the core\n",
	       x->sc->name, (unsigned long long)x->seed,
	       (unsigned long long)v.n_lost, (unsigned long long)v.honest[0].in,
	       longest.call, (unsigned long long)longest.us,
	       (unsigned long long)longest.cpu_us);
}

struct holds count_holds(void)
{
	struct holds n = { 0 };
	char line[512];
	DIR *dir = opendir("/proc/self/fd");
	FILE *maps = fopen("/proc/self/maps", "r");

	need(dir && maps, "/proc/self: %m");
	while (readdir(dir))
		n.fds++;
	while (fgets(line, sizeof(line), maps))
		n.maps++;
	closedir(dir);
	fclose(maps);
	return n;
}

/* A hostile connection leaves nothing behind but what serves the next one. */
void need_nothing_left(const struct holds *before, uint64_t n_attacks)
{
	struct holds now = count_holds();

	need(now.fds < before->fds + HOLDS_MAX,
	     "%u descriptors before, %u after %llu attacks", before->fds,
	     now.fds, (unsigned long long)n_attacks);
	need(now.maps < before->maps + HOLDS_MAX,
	     "%u mappings before, %u after %llu attacks", before->maps,
	     now.maps, (unsigned long long)n_attacks);
}

/* They move into shared memory before there is another process that holds them. */
static void warm_honest(void)
{
	for (int turn = 0; turn < WARM_TURNS; turn++)
		for (int i = 0; i < HONEST; i++)
			need(stream_send(&v.honest[i], 16) &&
				 stream_recv(&v.honest[i], 16),
			     "an honest connection: %m");
}

/* It connects, or is connected to. */
static pid_t hostile_begins(struct ctx *x, const char *manner)
{
	uint64_t word = 0;
	uint16_t port;
	int ctl;

	pid_t pid = spawn_hostile(x, manner, &ctl, 0);
	if (x->is_client) {
		need(read(ctl, &word, sizeof(word)) == sizeof(word),
		     "hostile: no port");
		v.hostile_port = (uint16_t)word;
		hostile_open();
		return pid;
	}
	v.listener = listen_local(&port);
	watch_fd(v.ep, v.listener, EPOLLIN | EPOLLONESHOT, EV_LISTENER);
	word = port;
	need(write(ctl, &word, sizeof(word)) == sizeof(word), "hostile: %m");
	return pid;
}

static void near_victim(struct ctx *x, const char *manner, uint64_t ms)
{
	v.x = x;
	v.rng = x->seed;
	v.ep = epoll_create1(EPOLL_CLOEXEC);
	more_honest(x, v.honest, HONEST);
	warm_honest();
	for (uint32_t i = 0; i < HONEST; i++)
		watch_fd(v.ep, v.honest[i].fd, EPOLLIN | (i == 1 ? EPOLLET : 0),
			 i);
	struct holds before = count_holds();
	pid_t pid = hostile_begins(x, manner);
	victim_loop(ms);
	stage = "the hostile connection is closed";
	if (v.hostile >= 0)
		close(v.hostile);
	end_child(pid, false);
	need_nothing_left(&before, v.n_lost);
	need_honest_upgraded(x);
	stage = "the honest connections are closed";
	for (int i = 0; i < HONEST; i++)
		need(!shutdown(v.honest[i].fd, SHUT_WR), "shutdown: %m");
	hear(x);
	/* A sanitizer that looks for leaks does not know what is open. */
	for (int i = 0; i < HONEST; i++)
		close(v.honest[i].fd);
	close(v.ep);
	if (v.listener >= 0)
		close(v.listener);
}

static void attacked(struct ctx *x)
{
	near_victim(x, x->sc->name + strlen("hostile_"), ATTACK_MS);
}

#define HOSTILE(name)                                                          \
	SCENARIO(hostile_##name, .near = attacked, .far = far_honest,          \
		 .flags = NEEDS_OSF)

HOSTILE(headers);
HOSTILE(long);
HOSTILE(loop);
HOSTILE(tail);
HOSTILE(tcp_bytes);
HOSTILE(flags);
HOSTILE(slots);
HOSTILE(bells);
HOSTILE(scribble);
HOSTILE(inbox);
HOSTILE(owes);
HOSTILE(drip);
HOSTILE(recall);
HOSTILE(odd_fds);
HOSTILE(any);

/* --- how long a quiet connection takes beside a hostile one --- */

#define WINDOWS 60
#define WINDOW_MS 25
#define PINGS_MAX 400000u

static struct {
	uint32_t ns[PINGS_MAX];
	size_t n;
} pings[2]; /* while the hostile peer is stopped, and while it works */

static int by_size(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static double median_us(int which)
{
	need(pings[which].n, "no round trip was measured");
	qsort(pings[which].ns, pings[which].n, sizeof(uint32_t), by_size);
	return pings[which].ns[pings[which].n / 2] / 1e3;
}

static void window(struct ctx *x, int which)
{
	struct epoll_event evs[8];

	for (uint64_t end = ms_now() + WINDOW_MS; ms_now() < end;) {
		uint64_t start = ns_now();

		need(stream_send(&x->s, 64) && stream_recv(&x->s, 64),
		     "a quiet round trip: %m");
		if (pings[which].n < PINGS_MAX)
			pings[which].ns[pings[which].n++] =
			    (uint32_t)(ns_now() - start);
		int n = epoll_wait(v.ep, evs, 8, 0);
		for (int i = 0; i < n; i++)
			victim_event(&evs[i]);
		if (v.hostile >= 0 && pings[which].n % 8 == 0 &&
		    !hostile_write())
			hostile_lost();
	}
}

/* A measure, not a test: the machine may be busy. */
static void near_quiet(struct ctx *x)
{
	v.x = x;
	v.rng = x->seed;
	v.ep = epoll_create1(EPOLL_CLOEXEC);
	turns(x, WARM_TURNS);
	need_upgraded(x);
	pid_t pid = hostile_begins(x, "any");
	for (int i = 0; i < WINDOWS; i++) {
		kill(pid, i % 2 ? SIGCONT : SIGSTOP);
		window(x, i % 2);
	}
	end_child(pid, false);
	need(!shutdown(x->fd, SHUT_WR), "shutdown: %m");
	double alone = median_us(0), beside = median_us(1);
	printf("%s, seed %llu: median round trip %.2f us alone, %.2f us beside "
	       "%llu hostile connections: %.2f\n",
	       x->sc->name, (unsigned long long)x->seed, alone, beside,
	       (unsigned long long)v.n_lost, beside / alone);
}

SCENARIO(quiet_beside_hostile, .near = near_quiet, .far = far_echo,
	 .flags = NEEDS_OSF);
