/* SPDX-License-Identifier: MIT */
/*
 * tests/app/faults.c - what happens to a connection when something goes wrong
 *
 *     faults [--role client|server] [--seed N] [--hostile PROGRAM] SCENARIO
 *     faults --list
 *
 *     main() -> near end, which is looked at  <- connection ->  far end
 *                  |                                               |
 *                  +-> watcher: kills or stops the far end <-------+
 *
 * Scenarios are in faults_*.c.  Runs one, in 8 seconds at most, and ends with 0,
 * with 77 when something it needs is missing, or with 1 and a sentence.  Whether
 * the connection was upgraded is read from the statistics of both processes while
 * it lives.  Run by tests/app/test_faults.py, under the library.
 */
#include "faults.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SCENARIO_S 40 /* most need less than one, and the machine may be busy */
#define TURN_BYTES 16

extern const struct scenario *const __start_scenarios[],
    *const __stop_scenarios[];

const char *stage = "start";
char stage_more[200];
static struct ctx *self;

/* --- ends --- */

static const char *who(void)
{
	return !self->is_far               ? "near end"
	       : getpid() == self->watcher ? "watcher"
					   : "far end";
}

void die(const char *fmt, ...)
{
	char text[600];
	va_list ap;

	int n = snprintf(text, sizeof(text),
			 "FAIL: %s, %s is the %s: ", self->sc->name, who(),
			 self->is_client != self->is_far ? "client" : "server");
	va_start(ap, fmt);
	n += vsnprintf(text + n, sizeof(text) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(text) - 2)
		n = (int)sizeof(text) - 2;
	text[n++] = '\n';
	if (write(2, text, (size_t)n) < 0)
		_exit(3);
	_exit(1);
}

static void too_long(int sig)
{
	die("no end in %d s while: %s %s", SCENARIO_S, stage, stage_more);
}

uint64_t ns_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t ms_now(void) { return ns_now() / 1000000; }

void tell(struct ctx *x, uint64_t word)
{
	need(write(x->ctl, &word, sizeof(word)) == sizeof(word),
	     "the other end is gone before: %s", stage);
}

uint64_t hear(struct ctx *x)
{
	uint64_t word = 0;
	ssize_t r;

	do
		r = read(x->ctl, &word, sizeof(word));
	while (r < 0 && errno == EINTR);
	need(r == sizeof(word), "the other end is gone before: %s", stage);
	return word;
}

/* --- sockets --- */

int listen_local(uint16_t *port)
{
	struct sockaddr_in a = local_addr(0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	need(!bind(fd, (void *)&a, sizeof(a)) && !listen(fd, 16), "listen: %m");
	*port = port_of(fd, false);
	return fd;
}

static int socket_local(void)
{
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	need(fd >= 0, "socket: %m");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

int connect_local(uint16_t port)
{
	struct sockaddr_in a = local_addr(port);
	int fd = socket_local();

	need(!connect(fd, (void *)&a, sizeof(a)), "connect: %m");
	return fd;
}

static void before(struct ctx *x)
{
	if (!x->is_far && x->sc->before)
		x->sc->before(x);
}

static void connect_end(struct ctx *x)
{
	struct sockaddr_in a = local_addr((uint16_t)hear(x));
	int fd = socket_local();

	before(x);
	need(!connect(fd, (void *)&a, sizeof(a)), "connect: %m");
	tell(x, 1);
	x->fd = fd;
}

static void accept_end(struct ctx *x)
{
	uint16_t port;
	int one = 1, listener = listen_local(&port);

	tell(x, port);
	hear(x);
	before(x);
	x->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	need(x->fd >= 0, "accept: %m");
	setsockopt(x->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

void connection_is(struct ctx *x, int fd, uint32_t id)
{
	x->fd = fd;
	x->port = port_of(fd, false);
	x->far_port = port_of(fd, true);
	x->s = stream_make(fd, x->seed, id, x->is_client != x->is_far);
}

static void open_end(struct ctx *x)
{
	bool is_client = x->is_client != x->is_far;

	stage = "the connection is made";
	if (is_client)
		connect_end(x);
	else
		accept_end(x);
	connection_is(x, x->fd, 0);
}

/* --- traffic --- */

void turns(struct ctx *x, int n)
{
	stage = "turns";
	while (n--) {
		need(stream_send(&x->s, TURN_BYTES), "turn: send: %m");
		need(stream_recv(&x->s, TURN_BYTES), "turn: recv: %m");
	}
}

void bulk(struct ctx *x, uint64_t bytes)
{
	stage = "a bulk exchange";
	for (; bytes >= STREAM_PART; bytes -= STREAM_PART) {
		need(stream_send(&x->s, STREAM_PART), "bulk: send: %m");
		need(stream_recv(&x->s, STREAM_PART), "bulk: recv at %llu: %m",
		     (unsigned long long)x->s.in);
	}
}

void far_echo(struct ctx *x)
{
	need(stream_echo(&x->s), "echo at byte %llu: %s",
	     (unsigned long long)x->s.in, strerror(errno));
}

/* --- statistics --- */

static const char *const reason_names[] = {
#define R(name, text) #name,
#include "osf/reasons.def"
#undef R
};

const char *reason_name(unsigned reason)
{
	return reason < OSF_REASONS ? reason_names[reason] : "?";
}

bool has_stats(void) { return getenv("OSF_STATS_DIR"); }

/* A process that has executed another program has several files: the last. */
static int stats_open(pid_t pid)
{
	const char *dir = getenv("OSF_STATS_DIR");
	char path[400];
	int fd = -1;

	for (int n = 0; dir && n < 9; n++) {
		snprintf(path, sizeof(path), "%s/%d.%d.osf", dir, (int)pid, n);
		int next = open(path, O_RDONLY | O_CLOEXEC);
		if (next < 0)
			break;
		if (fd >= 0)
			close(fd);
		fd = next;
	}
	return fd;
}

/* The file is its owner's alone; the other end may be another user. */
void stats_show(void)
{
	int fd = stats_open(getpid());

	if (fd >= 0) {
		fchmod(fd, 0644);
		close(fd);
	}
}

bool stats_of(pid_t pid, struct osf_stats_header *h)
{
	int fd = stats_open(pid);

	if (fd < 0)
		return false;
	bool ok = pread(fd, h, sizeof(*h), 0) == sizeof(*h) &&
		  h->magic == OSF_STATS_MAGIC;
	close(fd);
	return ok;
}

static bool is_sock(const struct osf_stats_sock *st, uint16_t port,
		    uint16_t peer_port)
{
	/* A socket that nobody has looked at does not know its own port. */
	return st->in_use && !st->listening && st->peer_port == peer_port &&
	       (st->local_port == port || (!st->local_port && !st->passive) ||
		!port);
}

bool stats_sock(pid_t pid, uint16_t port, uint16_t peer_port,
		struct osf_stats_sock *st)
{
	struct osf_stats_header h;
	bool found = false;
	int fd = stats_open(pid);

	if (fd < 0 || pread(fd, &h, sizeof(h), 0) != sizeof(h))
		die("no statistics of process %d", (int)pid);
	for (uint32_t i = 0; i < h.n_socks && !found; i++)
		found =
		    pread(fd, st, sizeof(*st),
			  (off_t)(h.header_size + (uint64_t)i * h.sock_size)) ==
			sizeof(*st) &&
		    is_sock(st, port, peer_port);
	close(fd);
	return found;
}

void need_reason(pid_t pid, uint16_t port, uint16_t peer_port, uint64_t reasons)
{
	struct osf_stats_sock st;

	if (!has_stats())
		return;
	need(stats_sock(pid, port, peer_port, &st),
	     "the statistics do not know connection %u-%u of process %d", port,
	     peer_port, (int)pid);
	need(reasons >> st.reason & 1,
	     "the reason for connection %u-%u of the %s is %s", port, peer_port,
	     pid == self->near_pid ? "near end" : "other end",
	     reason_name(st.reason));
	need((st.proto == OSF_PROTO_SHM) == (reasons == BIT(UPGRADED)),
	     "reason %s and protocol %u do not fit", reason_name(st.reason),
	     st.proto);
}

void need_upgraded(struct ctx *x)
{
	need_reason(x->near_pid, x->port, x->far_port, BIT(UPGRADED));
	need_reason(x->far_pid, x->far_port, x->port, BIT(UPGRADED));
}

void need_kernel(struct ctx *x, uint64_t reasons)
{
	struct osf_stats_header h;

	need_reason(x->near_pid, x->port, x->far_port, reasons);
	if (!has_stats())
		return;
	need(stats_of(x->near_pid, &h), "no statistics");
	need(!h.totals.n_upgraded, "%llu connections were upgraded",
	     (unsigned long long)h.totals.n_upgraded);
}

/* --- processes --- */

char proc_state(pid_t pid, uint64_t *cpu_ticks)
{
	unsigned long long user = 0, system = 0;
	char path[64], text[600], state = '?';

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 'X';
	text[n] = '\0';
	char *p = strrchr(text, ')');
	need(p && sscanf(p,
			 ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u "
			 "%llu %llu",
			 &state, &user, &system) == 3,
	     "%s is '%s'", path, text);
	if (cpu_ticks)
		*cpu_ticks = user + system;
	return state;
}

/* Asleep is who is seen asleep 30 times in a row. */
bool wait_asleep(pid_t pid, int timeout_ms)
{
	uint64_t end = ms_now() + (uint64_t)timeout_ms;

	for (int n = 0; n < 30;) {
		n = proc_state(pid, NULL) == 'S' ? n + 1 : 0;
		if (ms_now() > end)
			return false;
		usleep(1000);
	}
	return true;
}

void wait_word(_Atomic int *word, int timeout_ms, const char *what)
{
	uint64_t end = ms_now() + (uint64_t)timeout_ms;

	while (!*word) {
		need(ms_now() < end, "waited in vain for: %s", what);
		usleep(500);
	}
}

static void bound(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGALRM, too_long);
	alarm(SCENARIO_S);
}

void end_child(pid_t pid, bool must_be_ok)
{
	int status = 0;

	if (!must_be_ok)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	need(!must_be_ok || !status, "a process of ours ended with %x", status);
}

/* Before the near end has sockets, which it would hold too. */
static void spawn_watcher(struct ctx *x)
{
	x->watcher = fork();
	if (x->watcher)
		return;
	x->is_far = true;
	x->watcher = getpid();
	bound();
	close(x->ctl);
	x->sc->watch(x);
	_exit(0);
}

static void run_far(struct ctx *x)
{
	x->is_far = true;
	x->far_pid = getpid();
	bound();
	if (x->sc->first)
		x->sc->first(x);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* setuid() has cleared it */
	if (!(x->sc->flags & FAR_APART))
		open_end(x);
	x->sc->far(x);
	exit(0);
}

/* The same program, without the library in it. */
static void exec_far_plain(struct ctx *x, int page_fd)
{
	char ctl[16], page[16], seed[32];

	snprintf(ctl, sizeof(ctl), "%d", x->ctl);
	snprintf(page, sizeof(page), "%d", page_fd);
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)x->seed);
	unsetenv("LD_PRELOAD");
	fcntl(x->ctl, F_SETFD, 0);
	fcntl(page_fd, F_SETFD, 0);
	execl("/proc/self/exe", "faults", "--far", ctl, "--page", page,
	      "--role", x->is_client ? "client" : "server", "--seed", seed,
	      x->sc->name, NULL);
	die("exec: %m");
}

static struct page *page_map(int fd)
{
	struct page *p =
	    mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	need(p != MAP_FAILED, "a shared page: %m");
	return p;
}

static void spawn_far(struct ctx *x, int page_fd)
{
	int ctl[2];

	need(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl),
	     "socketpair: %m");
	x->far_pid = fork();
	if (!x->far_pid) {
		close(ctl[0]);
		x->ctl = ctl[1];
		if (x->sc->flags & FAR_PLAIN)
			exec_far_plain(x, page_fd);
		run_far(x);
	}
	close(ctl[1]);
	x->ctl = ctl[0];
}

static void run_near(struct ctx *x)
{
	int page_fd = memfd_create("faults", MFD_CLOEXEC);

	x->near_pid = getpid();
	need(!ftruncate(page_fd, sizeof(struct page)), "a shared page: %m");
	x->page = page_map(page_fd);
	bound();
	if (x->sc->flags & FAR_NONE) {
		x->sc->near(x);
		return;
	}
	spawn_far(x, page_fd);
	close(page_fd);
	if (x->sc->watch)
		spawn_watcher(x);
	if (x->sc->first)
		x->sc->first(x);
	if (!(x->sc->flags & FAR_APART))
		open_end(x);
	x->sc->near(x);
}

/* --- main --- */

static void list(void)
{
	static const char *const words[] = { "plain",      "alone", "lazy",
					     "from-start", "osf",   "client",
					     "server" };

	for (const struct scenario *const *s = __start_scenarios;
	     s < __stop_scenarios; s++) {
		printf("%s", (*s)->name);
		for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++)
			if ((*s)->flags >> i & 1)
				printf(" %s", words[i]);
		printf("\n");
	}
}

static const struct scenario *find(const char *name)
{
	for (const struct scenario *const *s = __start_scenarios;
	     s < __stop_scenarios; s++)
		if (!strcmp((*s)->name, name))
			return *s;
	fprintf(stderr, "no scenario '%s'\n", name);
	exit(2);
}

static const struct option long_options[] = {
	{ "role", required_argument, NULL, 'r' },
	{ "seed", required_argument, NULL, 's' },
	{ "hostile", required_argument, NULL, 'h' },
	{ "far", required_argument, NULL, 'f' },
	{ "page", required_argument, NULL, 'p' },
	{ "list", no_argument, NULL, 'l' },
	{ 0 },
};

int main(int argc, char **argv)
{
	static struct ctx x = { .is_client = true, .seed = 1, .ctl = -1 };
	int o, page_fd = -1;

	self = &x;
	signal(SIGPIPE, SIG_IGN);
	while ((o = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		switch (o) {
		case 'r':
			x.is_client = optarg[0] == 'c';
			break;
		case 's':
			x.seed = strtoull(optarg, NULL, 0);
			break;
		case 'h':
			x.hostile = optarg;
			break;
		case 'f':
			x.ctl = atoi(optarg);
			break;
		case 'p':
			page_fd = atoi(optarg);
			break;
		case 'l':
			list();
			return 0;
		default:
			return 2;
		}
	if (optind >= argc)
		return 2;
	x.sc = find(argv[optind]);
	if (x.ctl >= 0) {
		x.page = page_map(page_fd);
		run_far(&x);
	}
	run_near(&x);
	return 0;
}
