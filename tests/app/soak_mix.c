/* SPDX-License-Identifier: MIT */
/*
 * tests/app/soak_mix.c - the processes of the mix, its totals and its watchdog
 *
 *     mix_run()  controller: starts all others, watches, reports
 *       server   a thread for each connection
 *       clients  threads that connect, one connection after the other
 *       adopters a thread for each end that they were passed
 *
 * What becomes of an end is soak_end.c's.
 */
#include "soak_mix.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define LOOPBACK 0x7f000001u
#define N_CLIENTS 2
#define CLIENT_THREADS 5
#define LIVE_MAX 40 /* ends */

struct shared *shared;

static const char *const event_names[EVENTS] = { "dup",       "fork-back",
						 "fork-over", "exec",
						 "spawn",     "pass",
						 "pass-back", "program" };

const char *event_name(int what)
{
	return what >= 0 && what < EVENTS ? event_names[what] : "";
}

void shared_map(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED,
		      SHARED_FD, 0);
	if (shared == MAP_FAILED)
		die("the shared memory: %s", strerror(errno));
	failed = &shared->failed;
}

/* --- signals --- */

static void count_signal(int sig) { atomic_fetch_add(&shared->n_signals, 1); }

/* SIGALRM from a timer and SIGUSR1 from meddlers; one of them restarts calls. */
void signals_start(uint64_t salt)
{
	struct rng r = { seed ^ salt << 20 };
	bool restarts = rng_one_in(&r, 2);
	struct sigaction sa = { .sa_handler = count_signal };
	struct itimerval it = { 0 };

	sa.sa_flags = restarts ? SA_RESTART : 0;
	sigaction(SIGALRM, &sa, NULL);
	sa.sa_flags = restarts ? 0 : SA_RESTART;
	sigaction(SIGUSR1, &sa, NULL);
	if (rng_one_in(&r, 4) || shared->is_calm)
		return;
	it.it_interval.tv_usec = 2000 + (suseconds_t)rng_below(&r, 8000);
	it.it_value = it.it_interval;
	setitimer(ITIMER_REAL, &it, NULL);
}

/* Strikes one of our threads after the other. */
static void *meddler_main(void *p)
{
	const pthread_t *threads = p;
	struct rng r = { seed + (uint64_t)getpid() };

	while (!shared->stops) {
		if (!shared->is_calm)
			pthread_kill(threads[rng_below(&r, CLIENT_THREADS)],
				     SIGUSR1);
		sleep_us(1000 + rng_below(&r, 4000));
	}
	return NULL;
}

/* --- clients --- */

static uint16_t server_port;

static void client_once(void)
{
	struct end e = { .id = shared->next_id++, .side = 0 };

	shared->n_live += 2;
	e.fd = connect_to(LOOPBACK, server_port);
	send_all(e.fd, &e.id, sizeof(e.id));
	end_run(&e);
}

static void *client_main(void *p)
{
	while (!shared->stops) {
		if (shared->n_live < LIVE_MAX)
			client_once();
		else
			sleep_us(1000);
	}
	return NULL;
}

static int client_run(void)
{
	pthread_t threads[CLIENT_THREADS], meddler;

	signals_start((uint64_t)getpid());
	for (int i = 0; i < CLIENT_THREADS; i++)
		if (pthread_create(&threads[i], NULL, client_main, NULL))
			die("no more threads");
	if (pthread_create(&meddler, NULL, meddler_main, threads))
		die("no more threads");
	pthread_join(meddler, NULL);
	for (int i = 0; i < CLIENT_THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

/* --- the server, and adopters --- */

static _Atomic int n_threads;

static void *end_main(void *p)
{
	struct end e = *(struct end *)p;

	free(p);
	if (e.side == 1 && !e.hops && !recv_all(e.fd, &e.id, sizeof(e.id)))
		die("a connection without a number");
	end_run(&e);
	n_threads--;
	return NULL;
}

static void end_start(const struct end *e)
{
	struct end *copy = malloc(sizeof(*copy));
	pthread_attr_t attr;
	pthread_t thread;

	if (!copy)
		die("no memory");
	*copy = *e;
	n_threads++;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, end_main, copy))
		die("no more threads");
	pthread_attr_destroy(&attr);
}

/* Return: false when nothing has come for a while. */
static bool readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, 50) > 0;
}

static int server_run(int listener)
{
	signals_start((uint64_t)getpid());
	while (!shared->ended) {
		if (!readable(listener))
			continue;
		struct end e = { .side = 1 };
		e.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (e.fd >= 0)
			end_start(&e);
		else if (errno != EINTR)
			die("accept: %s", strerror(errno));
	}
	while (n_threads)
		sleep_us(1000);
	return 0;
}

static bool end_receive(int channel, struct end *e)
{
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(int))];
	} u;
	struct iovec iov = { e, sizeof(*e) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u) };
	ssize_t r = recvmsg(channel, &m, MSG_CMSG_CLOEXEC);

	if (r < 0 && errno == EINTR)
		return false;
	if (r != sizeof(*e) || m.msg_controllen < CMSG_LEN(sizeof(int)))
		die("an end was passed in %zd bytes: %s", r, strerror(errno));
	memcpy(&e->fd, CMSG_DATA(&u.h), sizeof(int));
	return true;
}

static int adopter_run(int channel, bool is_bare)
{
	struct end e;

	signals_start((uint64_t)getpid());
	while (!shared->ended) {
		if (!readable(channel) || !end_receive(channel, &e))
			continue;
		e.is_bare = is_bare;
		e.is_alone = false;
		end_start(&e);
	}
	while (n_threads)
		sleep_us(1000);
	return 0;
}

int mix_part(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	shared_map();
	if (!strcmp(argv[0], "end"))
		return end_part(argc - 1, argv + 1);
	if (!strcmp(argv[0], "server"))
		return server_run(atoi(argv[1]));
	if (!strcmp(argv[0], "adopter"))
		return adopter_run(atoi(argv[1]), argc > 2);
	server_port = (uint16_t)atoi(argv[1]);
	return client_run();
}

/* --- the controller --- */

static void shared_make(void)
{
	int fd = memfd_create("soak", 0);

	if (fd < 0 || dup2(fd, SHARED_FD) < 0 ||
	    ftruncate(SHARED_FD, sizeof(struct shared)))
		die("the shared memory: %s", strerror(errno));
	close(fd);
	shared_map();
}

static void hang_report(void)
{
	die_first();
	fprintf(stderr,
		"soak mix: HANG: seed %llu, no byte has moved in %d s, %u ends "
		"are open:\n",
		(unsigned long long)seed, HANG_S, shared->n_live);
	for (int i = 0; i < N_SLOTS; i++) {
		const struct slot *s = &shared->slots[i];
		if (s->pid && s->side == 0)
			notes_print(s->id);
		if (s->pid)
			fprintf(stderr,
				"  connection %u side %u: process %d in %s, "
				"received %llu, sent %llu\n",
				s->id, s->side, s->pid, call_name(s->call),
				(unsigned long long)s->rx_off,
				(unsigned long long)s->tx_off);
	}
	die("hang");
}

/* Until @end_us; with @all until nothing is open. */
static void watch(uint64_t end_us, bool all)
{
	uint64_t seen = 0, since = now_us();

	while (all ? shared->n_live > 0 : now_us() < end_us) {
		uint64_t now = shared->bytes + shared->n_over;

		if (shared->failed == FAILED)
			_exit(1);
		if (now != seen) {
			seen = now;
			since = now_us();
		}
		if (now_us() - since > HANG_S * 1000000ull)
			hang_report();
		sleep_us(20000);
	}
}

/* Return: false when it is no event. */
static bool event_choose(const char *name)
{
	for (int i = 0; i < EVENTS; i++)
		if (!strcmp(name, event_names[i])) {
			shared->events |= 1u << i;
			return true;
		}
	return false;
}

static void events_choose(char *const words[])
{
	shared->events = *words ? 0 : UINT32_MAX;
	shared->no_bare = *words != NULL;
	for (; *words; words++) {
		if (!strcmp(*words, "bare"))
			shared->no_bare = false;
		else if (!strcmp(*words, "calm"))
			shared->is_calm = true;
		else if (!event_choose(*words))
			die("%s is no event", *words);
	}
}

static pid_t role_start(const char *role, uint64_t number, bool is_bare)
{
	char *const words[] = { (char *)(uintptr_t) "mix",
				(char *)(uintptr_t)role, text(number),
				(char *)(uintptr_t)(is_bare ? "bare" : NULL),
				NULL };

	return part_start(words, is_bare);
}

/* Before anybody starts: all processes inherit the ways to all adopters. */
static void channels_make(void)
{
	int pair[2];

	for (int i = 0; i < N_ADOPTERS; i++) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) ||
		    dup2(pair[0], ADOPTER_FD(i)) < 0 ||
		    dup2(pair[1], ADOPTER_FD(i + N_ADOPTERS)) < 0)
			die("socketpair: %s", strerror(errno));
		close(pair[0]);
		close(pair[1]);
	}
}

static pid_t adopter_start(int i)
{
	return role_start("adopter", (uint64_t)ADOPTER_FD(i + N_ADOPTERS),
			  i == N_ADOPTERS - 1 && !shared->no_bare);
}

static void report(uint64_t us)
{
	printf(
	    "soak mix: ok: seed %llu, %.1f s, %u streams in both directions, "
	    "%.1f MB, %u signals, 0 wrong, 0 hangs:",
	    (unsigned long long)seed, (double)us / 1e6, shared->n_over / 2,
	    (double)shared->bytes / 1e6, shared->n_signals);
	for (int i = 0; i < EVENTS; i++)
		printf(" %s %u", event_names[i], shared->n_events[i]);
	printf("\n");
}

int mix_run(unsigned seconds, char *const words[])
{
	pid_t pids[1 + N_ADOPTERS + N_CLIENTS];
	uint64_t start = now_us();
	uint16_t port = 0;
	int n = 0, listener = listener_open(LOOPBACK, &port);
	int inherited = dup(listener);

	fprintf(stderr, "soak mix: seed %llu\n", (unsigned long long)seed);
	shared_make();
	events_choose(words);
	channels_make();
	for (int i = 0; i < N_ADOPTERS; i++)
		pids[n++] = adopter_start(i);
	pids[n++] = role_start("server", (uint64_t)inherited, false);
	close(inherited);
	close(listener);
	for (int i = 0; i < N_CLIENTS; i++)
		pids[n++] = role_start("client", port, false);
	watch(start + seconds * 1000000ull, false);
	shared->stops = true;
	watch(0, true);
	shared->ended = true;
	while (n)
		part_wait(pids[--n], "a process of the mix", HANG_S);
	if (shared->failed)
		return 1;
	report(now_us() - start);
	return 0;
}
