/* SPDX-License-Identifier: MIT */
/*
 * tests/app/stress.c - many connections doing everything at random, checked
 *
 *     stress                 server and client, in two processes (--place fork,
 *                            exec) or in one (--place same)
 *     stress server --ports A,B,C      one half each, started by hand; the
 *     stress client --ports A,B,C      ports are 127.0.0.1's, ::1's and
 *                                      ::ffff:127.0.0.1's
 *     --mode KIND --rx CALLS --tx CALLS  only one way to wait, some to receive or send
 *     --no-aborts                      no connection is reset on purpose
 *     stress --selfcheck               how fast patterns are made and checked
 *
 * Every byte is checked at its offset, both ends compare their totals at the
 * end, and a process without progress for --hang seconds prints the state of
 * each connection and exits with 3.  Exit 1: something was wrong; stderr has
 * what, and how to repeat it.  The schedule of threads is the machine's, so a
 * seed repeats the choices, not always the failure.
 *
 * The parts: stress.h.
 */
#include "stress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pattern.h"

struct options opt = {
	.bytes = 2 << 20,
	.seconds = 5,
	.conns = 16,
	.threads = 2,
	.hang_s = 20,
	.kind = -1,
};
struct totals totals;
pthread_mutex_t totals_lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic uint64_t progress;
_Atomic bool is_stopping;
_Atomic int stop_fd = -1;

static _Atomic bool watchdog_stops;
static _Atomic bool is_client;
static int tell_fd = -1;
static const char *place = "fork";

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* --- watchdog --- */

static void *watchdog_main(void *p)
{
	struct timespec tick = { 0, 50000000 };
	uint64_t seen = 0, since = now_ms();

	while (!atomic_load(&watchdog_stops)) {
		nanosleep(&tick, NULL);
		uint64_t now = load_rlx(&progress);
		if (now != seen || (!is_client && !conns_open())) {
			seen = now;
			since = now_ms();
		}
		if (now_ms() - since < opt.hang_s * 1000ull)
			continue;
		fprintf(stderr,
			"stress: HANG: %s %d: no progress for %u s, seed %llu, "
			"connections:\n",
			is_client ? "client" : "server", (int)getpid(),
			opt.hang_s, (unsigned long long)opt.seed);
		conns_dump();
		_exit(3);
	}
	return NULL;
}

static void watchdog_start(pthread_t *thread)
{
	if (pthread_create(thread, NULL, watchdog_main, NULL))
		die("no more threads");
}

static void watchdog_stop(pthread_t thread)
{
	atomic_store(&watchdog_stops, true);
	pthread_join(thread, NULL);
}

/* --- the server's half --- */

static int listener_open(int i)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET,
				  .sin_port = htons(opt.port[i]),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(opt.port[i]) };
	struct sockaddr *sa = i ? (void *)&v6 : (void *)&v4;
	socklen_t len = i ? sizeof(v6) : sizeof(v4);
	int one = 1, fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET6, i == 1 ? "::1" : "::ffff:127.0.0.1", &v6.sin6_addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, sa, len) || listen(fd, 1024) ||
	    getsockname(fd, sa, &len))
		die("listener %d: %s", i, strerror(errno));
	opt.port[i] = ntohs(i ? v6.sin6_port : v4.sin_port);
	/* Several workers accept: who comes late must not wait. */
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static void server_open(struct server *s)
{
	for (int i = 0; i < N_LISTENERS; i++) {
		s->listener[i] = listener_open(i);
		s->family[i] = i ? AF_INET6 : AF_INET;
	}
	if (tell_fd < 0)
		return;
	if (write(tell_fd, opt.port, sizeof(opt.port)) != sizeof(opt.port))
		die("telling the ports: %s", strerror(errno));
	close(tell_fd);
}

/* The worker that saw the request to stop left us its connection. */
static void server_report(struct server *s)
{
	int fd = load_rlx(&stop_fd);

	if (send(fd, &totals, sizeof(totals), MSG_NOSIGNAL) != sizeof(totals))
		die("sending totals: %s", strerror(errno));
	close(fd);
	for (int i = 0; i < N_LISTENERS; i++)
		close(s->listener[i]);
}

static int server_run(void)
{
	struct server s;
	pthread_t watchdog;

	server_open(&s);
	watchdog_start(&watchdog);
	workers_start(&s);
	meddler_start();
	workers_join(true);
	meddler_stop();
	server_report(&s);
	watchdog_stop(watchdog);
	return 0;
}

/* --- the client's half --- */

/* Asks the server for its totals, which makes it end. */
static void client_compare(const struct totals *ours)
{
	struct timeval tv = { .tv_sec = opt.hang_s };
	struct totals theirs;
	struct io io;

	io_open(&io, opt.seed);
	struct conn *c = conn_connect(&io, UINT32_MAX, KIND_BLOCK);
	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	if (recv(c->fd, &theirs, sizeof(theirs), MSG_WAITALL) != sizeof(theirs))
		conn_fail(c, "no totals from the server: %s", strerror(errno));
	conn_finish(c);
	io_close(&io);
	if (theirs.conns != ours->conns || theirs.rx != ours->tx ||
	    theirs.tx != ours->rx)
		die("totals differ: %llu/%llu connections, %llu/%llu bytes to "
		    "the server, %llu/%llu back (ours/theirs)",
		    (unsigned long long)ours->conns,
		    (unsigned long long)theirs.conns,
		    (unsigned long long)ours->tx, (unsigned long long)theirs.rx,
		    (unsigned long long)ours->rx,
		    (unsigned long long)theirs.tx);
}

static void report(const struct totals *t, uint64_t ms)
{
	printf("stress: ok: seed %llu, %llu connections whole, %llu aborted, "
	       "%.1f MB to the server, %.1f MB back, %.1f s\n",
	       (unsigned long long)opt.seed, (unsigned long long)t->conns,
	       (unsigned long long)t->aborted, (double)t->tx / 1e6,
	       (double)t->rx / 1e6, (double)ms / 1e3);
	fflush(stdout);
}

static int client_run(void)
{
	uint64_t start = now_ms();
	pthread_t watchdog;

	is_client = true;
	watchdog_start(&watchdog);
	workers_start(NULL);
	meddler_start();
	workers_join(false);
	meddler_stop();
	client_compare(&totals);
	watchdog_stop(watchdog);
	report(&totals, now_ms() - start);
	return 0;
}

/* --- both --- */

static int same_run(void)
{
	uint64_t start = now_ms();
	struct server s;
	pthread_t watchdog;

	is_client = true;
	server_open(&s);
	watchdog_start(&watchdog);
	workers_start(&s);
	workers_start(NULL);
	meddler_start();
	workers_join(false);

	/* Both ends counted into one: half of it is either end's. */
	is_client = true;
	struct io io;
	io_open(&io, opt.seed);
	struct conn *c = conn_connect(&io, UINT32_MAX, KIND_BLOCK);
	workers_join(true);
	meddler_stop();
	conn_finish(c);
	io_close(&io);
	server_report(&s);
	watchdog_stop(watchdog);
	if (totals.rx != totals.tx || totals.conns % 2)
		die("totals differ: sent %llu, received %llu",
		    (unsigned long long)totals.tx,
		    (unsigned long long)totals.rx);
	totals.conns /= 2;
	report(&totals, now_ms() - start);
	return 0;
}

static char *text(uint64_t n)
{
	char *s = NULL;

	if (asprintf(&s, "%llu", (unsigned long long)n) < 0)
		die("no memory");
	return s;
}

static void server_exec(int fd)
{
	fcntl(fd, F_SETFD, 0);
	const char *argv[] = {
		"stress",    "server",
		"--seed",    text(opt.seed),
		"--bytes",   text(opt.bytes),
		"--conns",   text(opt.conns),
		"--threads", text(opt.threads),
		"--hang",    text(opt.hang_s),
		"--tell",    text((uint64_t)fd),
		"--mode",    opt.kind < 0 ? "any" : kind_names[opt.kind],
		NULL,        NULL,
		NULL,        NULL,
		NULL
	};
	const char **end = argv;

	while (*end)
		end++;
	if (opt.rx) {
		*end++ = "--rx";
		*end++ = opt.rx;
	}
	if (opt.tx) {
		*end++ = "--tx";
		*end++ = opt.tx;
	}
	execv("/proc/self/exe", (char **)argv);
	die("exec: %s", strerror(errno));
}

static int child_wait(pid_t pid)
{
	struct timespec tick = { 0, 10000000 };
	int status;

	for (uint64_t i = 0; i < opt.hang_s * 100ull; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid) {
			if (!WIFEXITED(status) || WEXITSTATUS(status))
				die("the server ended with status 0x%x",
				    status);
			return 0;
		}
		nanosleep(&tick, NULL);
	}
	kill(pid, SIGKILL);
	die("the server did not end");
}

static int fork_run(bool with_exec)
{
	int tell[2];

	if (pipe2(tell, O_CLOEXEC))
		die("pipe: %s", strerror(errno));
	pid_t pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(tell[0]);
		tell_fd = tell[1];
		if (with_exec)
			server_exec(tell_fd);
		exit(server_run());
	}
	close(tell[1]);
	if (read(tell[0], opt.port, sizeof(opt.port)) != sizeof(opt.port))
		die("the server did not start");
	close(tell[0]);
	client_run();
	return child_wait(pid);
}

static int selfcheck(void)
{
	const size_t n = 64 << 20;
	uint8_t *buf = malloc(n);
	uint64_t key = pattern_key(opt.seed, 1, 0);

	if (!buf)
		die("no memory");
	memset(buf, 0, n);
	for (int i = 0; i < 2; i++) {
		uint64_t t0 = now_ms();
		for (int k = 0; k < 8; k++)
			pattern_fill(key, 3, buf, n);
		uint64_t t1 = now_ms();
		for (int k = 0; k < 8; k++)
			if (pattern_check(key, 3, buf, n) != n)
				die("the pattern does not match itself");
		uint64_t t2 = now_ms();
		if (i)
			printf("fill %.1f GB/s, check %.1f GB/s\n",
			       8e-6 * (double)n / (double)(t1 - t0),
			       8e-6 * (double)n / (double)(t2 - t1));
	}
	buf[12345] ^= 1;
	if (pattern_check(key, 3, buf, n) != 12345 ||
	    pattern_find(key, 0, buf + 20000, 1 << 20) != 20003)
		die("a wrong byte was not found");
	free(buf);
	return 0;
}

static int kind_parse(const char *name)
{
	if (!strcmp(name, "any"))
		return -1;
	for (int k = 0; k < KINDS; k++)
		if (!strcmp(name, kind_names[k]))
			return k;
	die("--mode is any, block, level, edge, oneshot, poll or select");
}

static void ports_parse(const char *list)
{
	if (sscanf(list, "%hu,%hu,%hu", &opt.port[0], &opt.port[1],
		   &opt.port[2]) != 3)
		die("--ports takes three, such as 7001,7001,7002");
}

static const struct option long_options[] = {
	{ "seed", required_argument, NULL, 's' },
	{ "bytes", required_argument, NULL, 'b' },
	{ "seconds", required_argument, NULL, 't' },
	{ "conns", required_argument, NULL, 'c' },
	{ "threads", required_argument, NULL, 'j' },
	{ "rounds", required_argument, NULL, 'r' },
	{ "mode", required_argument, NULL, 'm' },
	{ "place", required_argument, NULL, 'p' },
	{ "rx", required_argument, NULL, 'x' },
	{ "tx", required_argument, NULL, 'y' },
	{ "hang", required_argument, NULL, 'h' },
	{ "ports", required_argument, NULL, 'P' },
	{ "tell", required_argument, NULL, 'T' },
	{ "no-aborts", no_argument, NULL, 'A' },
	{ "selfcheck", no_argument, NULL, 'S' },
	{ 0 },
};

static unsigned number(const char *s)
{
	unsigned long n = strtoul(s, NULL, 0);

	return n > UINT32_MAX / 2 ? UINT32_MAX / 2 : (unsigned)n;
}

/* Return: false when a selfcheck was asked for. */
static bool options_parse(int argc, char **argv)
{
	bool is_test = true;
	int o;

	while ((o = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		switch (o) {
		case 's':
			opt.seed = strtoull(optarg, NULL, 0);
			break;
		case 'b':
			opt.bytes = strtoull(optarg, NULL, 0);
			break;
		case 't':
			opt.seconds = number(optarg);
			break;
		case 'c':
			opt.conns = number(optarg);
			break;
		case 'j':
			opt.threads = number(optarg);
			break;
		case 'r':
			opt.rounds = number(optarg);
			break;
		case 'm':
			opt.kind = kind_parse(optarg);
			break;
		case 'p':
			place = optarg;
			break;
		case 'h':
			opt.hang_s = number(optarg);
			break;
		case 'x':
			opt.rx = optarg;
			break;
		case 'y':
			opt.tx = optarg;
			break;
		case 'P':
			ports_parse(optarg);
			break;
		case 'T':
			tell_fd = (int)number(optarg);
			break;
		case 'A':
			opt.no_aborts = true;
			break;
		case 'S':
			is_test = false;
			break;
		default:
			die("unknown option; the opening of stress.c has them");
		}
	if (!opt.bytes || !opt.conns || !opt.threads || !opt.hang_s)
		die("--bytes, --conns, --threads and --hang are at least 1");
	return is_test;
}

int main(int argc, char **argv)
{
	opt.seed = now_ms() ^ (uint64_t)getpid() << 32;
	if (!options_parse(argc, argv))
		return selfcheck();
	signal(SIGPIPE, SIG_IGN);
	if (tell_fd < 0) {
		fprintf(stderr, "stress: seed %llu\n",
			(unsigned long long)opt.seed);
	}
	if (argc > optind && !strcmp(argv[optind], "server"))
		return server_run();
	if (argc > optind && !strcmp(argv[optind], "client"))
		return client_run();
	if (!strcmp(place, "same"))
		return same_run();
	if (!strcmp(place, "exec") || !strcmp(place, "fork"))
		return fork_run(!strcmp(place, "exec"));
	die("--place is fork, exec or same");
}
