/* SPDX-License-Identifier: MIT */
/*
 * tests/app/calls.c - the same small scenarios, on any kind of connection
 *
 *     calls [--same] [--role client|server] [--family 4|6|m] [--no-warm]
 *           [--only PATTERN] [--not PATTERN] [--list]
 *
 *     main() -> one process per scenario -> near end runs it
 *                    |                      (calls_*.c)
 *                    +-> far end: a process forked before any socket exists,
 *                        or with --same a thread; obeys commands (calls_far.c)
 *
 * Scenarios start this program again as --part NAME (calls_part.h).
 *
 * Prints one line per scenario.  Two runs, one on the kernel and one under the
 * library, must print the same: tests/app/test_calls.py compares them.  Each
 * connection first makes some small turns, so that osf moves it where it can;
 * --no-warm leaves them out.
 */
#include "calls.h"
#include "calls_far.h"
#include "calls_part.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The longest that a scenario may take.  A scenario that hangs is found after 60 s as well as
 * after one, and a busy machine may need many: 30 were seen with a load of 60.  A sanitizer
 * makes a fork take many times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SCENARIO_S 90
#else
#define SCENARIO_S 60
#endif
/* For what happens at once, however busy the machine is. */
#define SETTLE_MS 10000
#define WARM_TURNS 40

extern const struct scenario __start_scenarios[], __stop_scenarios[];

_Atomic int signals;
int interrupted;
static int signals_before;
char buf[1 << 20];
static int report_fd = 1;
static bool no_warm;
static const char *only, *left_out; /* patterns of names to run, not to run */

/* --- printing --- */

void out(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	int len = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (write(report_fd, text, (size_t)len) < 0)
		_exit(3);
}

int out_to(int fd)
{
	if (fd >= 0)
		report_fd = fd;
	return report_fd;
}

const char *errno_name(int err)
{
	const char *name = strerrorname_np(err);

	return name ? name : "E?";
}

void res(const char *what, long r)
{
	if (r == -1 && errno)
		out(" %s=%s", what, errno_name(errno));
	else
		out(" %s=%ld", what, r);
}

void bits(const char *what, int revents)
{
	static const struct {
		int bit;
		const char *name;
	} names[] = { { POLLIN, "IN" },      { POLLPRI, "PRI" },
		      { POLLOUT, "OUT" },    { POLLERR, "ERR" },
		      { POLLHUP, "HUP" },    { POLLNVAL, "NVAL" },
		      { POLLRDNORM, "RDN" }, { POLLRDBAND, "RDB" },
		      { POLLWRNORM, "WRN" }, { POLLWRBAND, "WRB" },
		      { POLLRDHUP, "RDHUP" } };
	const char *sep = "";

	out(" %s=[", what);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (revents & names[i].bit) {
			out("%s%s", sep, names[i].name);
			sep = "|";
		}
	out("]");
}

void state(struct ctx *x, const char *what)
{
	struct pollfd pfd = { .fd = x->fd,
			      .events =
				  POLLIN | POLLOUT | POLLRDHUP | POLLPRI };

	poll(&pfd, 1, 0);
	bits(what, pfd.revents);
}

void settle(struct ctx *x, int events)
{
	long long end = ms_now() + SETTLE_MS;
	struct pollfd pfd = { .fd = x->fd, .events = (short)events };

	do {
		poll(&pfd, 1, 5);
		if ((pfd.revents & events) == events)
			return;
		usleep(1000); /* other bits may be there already */
	} while (ms_now() < end);
	bits("UNSETTLED", events);
}

/* Return: does any other thread of this process run? */
static bool others_run(void)
{
	struct dirent *e;
	bool run = false;
	DIR *tasks = opendir("/proc/self/task");

	while (tasks && (e = readdir(tasks))) {
		char path[300], stat[512] = "";
		int tid = atoi(e->d_name);

		if (!tid || tid == gettid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, stat, sizeof(stat) - 1) > 0)
			run |= !strstr(stat, ") S ");
		close(fd);
	}
	if (tasks)
		closedir(tasks);
	return run;
}

void others_sleep(void)
{
	long long end = ms_now() + SETTLE_MS;

	while (others_run() && ms_now() < end)
		usleep(1000);
}

long long ms_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ll + ts.tv_nsec / 1000000;
}

/* A call on a busy machine may return late, but not as late as a close() that lingers for its
 * full 5 s.  A call that returns early is always wrong. */
#define LATE_MS 4000
void took(long long since_ms, int expected_ms)
{
	long long ms = ms_now() - since_ms;

	if (ms < expected_ms - 5)
		out(" early");
	else if (ms > expected_ms + LATE_MS)
		out(" late");
	else
		out(" in-time");
}

/* --- streams: the byte at an offset, one function for either direction --- */

#define PERIOD 251
static char
    periods[64 * PERIOD]; /* the stream repeats itself, from any multiple on */

static void streams_init(void)
{
	for (size_t i = 0; i < sizeof(periods); i++)
		periods[i] = (char)(i * 7 % PERIOD + 1);
}

/* The part of a stream that begins at @off: at most *@len bytes, which is then how many. */
static const char *stream_part(uint64_t off, size_t *len)
{
	size_t at = off % PERIOD, most = sizeof(periods) - at;

	*len = *len < most ? *len : most;
	return periods + at;
}

bool stream_ok(uint64_t off, const char *p, size_t len)
{
	for (size_t i = 0, k; i < len; i += k) {
		k = len - i;
		const char *part = stream_part(off + i, &k);
		if (memcmp(p + i, part, k))
			return false;
	}
	return true;
}

void stream_make(uint64_t off, char *p, size_t len)
{
	for (size_t i = 0, k; i < len; i += k) {
		k = len - i;
		const char *part = stream_part(off + i, &k);
		memcpy(p + i, part, k);
	}
}

void got(struct ctx *x, const void *p, long len)
{
	if (len <= 0)
		return;
	if (!stream_ok(x->got, p, (size_t)len))
		out(" WRONG-BYTES");
	x->got += (uint64_t)len;
}

void made(struct ctx *x, void *p, size_t len)
{
	stream_make(x->sent, p, len);
	x->sent += len;
}

size_t n(size_t len)
{
	volatile size_t opaque = len;

	return opaque;
}

void set_nonblock(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* Sends pieces of @piece bytes until one finds no room.  Return: bytes. */
static size_t fill_now(struct ctx *x, size_t piece)
{
	ssize_t r = 0;
	size_t total = 0;

	do {
		x->sent += (uint64_t)r;
		total += (size_t)r;
		stream_make(x->sent, buf, piece);
		r = send(x->fd, buf, piece, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (r > 0);
	return total;
}

/* Until none of the @n sizes @pieces has found room @patience times in a row. */
static size_t fill(struct ctx *x, const size_t *pieces, int n, int patience)
{
	size_t total = 0;

	for (int idle = 0; idle < patience; idle++) {
		size_t before = total;

		for (int i = 0; i < n; i++)
			total += fill_now(x, pieces[i]);
		if (total > before)
			idle = -1;
		usleep(5000);
	}
	return total;
}

size_t fill_with(struct ctx *x, size_t piece, int patience)
{
	return fill(x, &piece, 1, patience);
}

/* Where a large piece finds no room a small one still may.  The patience is for the kernel,
 * which finds room once more when it has probed the window. */
size_t fill_up(struct ctx *x)
{
	static const size_t pieces[] = { sizeof(buf), 4096, 64, 1 };

	return fill(x, pieces, 4, 60);
}

int file_of(struct ctx *x, size_t len)
{
	int fd = memfd_create("calls", MFD_CLOEXEC);

	made(x, buf, len);
	if (fd < 0 || pwrite(fd, buf, len, 0) != (ssize_t)len)
		out(" NO-FILE");
	return fd;
}

/* --- signals --- */

static void count_signal(int sig) { signals++; }

void on_signal(int sig, int flags)
{
	struct sigaction sa = { .sa_handler = count_signal, .sa_flags = flags };

	sigaction(sig, &sa, NULL);
}

void signal_after(int ms, int flags)
{
	struct itimerval it = { .it_value = { .tv_usec = ms * 1000 } };

	on_signal(SIGALRM, flags);
	setitimer(ITIMER_REAL, &it, NULL);
}

static void signals_every(int ms)
{
	struct itimerval it = { .it_value = { .tv_usec = ms * 1000 } };

	it.it_interval = it.it_value;
	setitimer(ITIMER_REAL, &it, NULL);
}

void signals_begin(int ms)
{
	on_signal(SIGALRM, 0);
	signals_every(ms);
}

void interrupt_after(int ms, int flags)
{
	on_signal(SIGALRM, flags);
	signals_before = signals;
	signals_every(ms);
}

void signals_end(void) { signals_every(0); }

void interrupt_over(void)
{
	signals_end();
	interrupted += signals != signals_before;
}

/* --- one scenario --- */

void turns(struct ctx *x, int count)
{
	char turn[TURN_BYTES];

	far_begin(x, FAR_ECHO, count);
	for (int i = 0; i < count; i++) {
		made(x, turn, sizeof(turn));
		if (send(x->fd, turn, sizeof(turn), 0) != TURN_BYTES)
			out(" WARM-SEND");
		if (recv(x->fd, turn, sizeof(turn), MSG_WAITALL) != TURN_BYTES)
			out(" WARM-RECV");
		got(x, turn, sizeof(turn));
	}
	if (far_end(x))
		out(" WARM-FAR");
}

/* A v6 socket's v4-mapped peer is a v4 socket: both spellings are met. */
static void connect_both(struct ctx *x, int family)
{
	int peer_family = family == 'm' ? 4 : family;

	if (x->is_client) {
		long port = far_do(x, FAR_LISTEN, peer_family);
		x->fd = connect_at(family, (int)port);
		far_do(x, FAR_ACCEPT, 0);
	} else {
		int listener = listen_at(family);
		far_do(x, FAR_CONNECT,
		       (long)port_of(listener) << 16 | peer_family);
		x->fd = accept_at(listener);
	}
	if (x->fd < 0)
		out(" NO-CONNECTION");
	x->near_port = (uint16_t)port_of(x->fd);
	x->far_port = (uint16_t)far_do(x, FAR_PORT, 0);
}

static void run_near(const struct scenario *s, struct ctx *x, int family)
{
	out("%s:", s->name);
	connect_both(x, family);
	if (!no_warm)
		turns(x, WARM_TURNS);
	s->run(x);
	out("\n");
}

static void run_same(const struct scenario *s, struct ctx *x, int far_ctl,
		     int family)
{
	pthread_t thread;
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_create(&thread, NULL, far_main, &far_ctl);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	run_near(s, x, family);
	far_begin(x, FAR_END, 0);
	pthread_join(thread, NULL);
}

/* The process of one scenario; the far end is its child or its thread. */
static void run_one(const struct scenario *s, struct ctx *x, int family)
{
	int ctl[2];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl))
		_exit(3);
	x->far_ctl = ctl[0];
	x->family = family;
	if (x->is_same) {
		run_same(s, x, ctl[1], family);
		exit(0);
	}
	pid_t far = fork();
	if (!far) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ctl[0]);
		far_main(&ctl[1]);
		exit(0);
	}
	close(ctl[1]);
	run_near(s, x, family);
	close(ctl[0]);
	waitpid(far, NULL, 0);
	exit(0);
}

/* Return: 0, or 1 when the scenario crashed or hung. */
static int run_bounded(const struct scenario *s, struct ctx x, int family)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		run_one(s, &x, family);
	struct pollfd end = { .fd = pidfd_open(pid, 0), .events = POLLIN };
	int has_ended = poll(&end, 1, SCENARIO_S * 1000);
	close(end.fd);
	if (has_ended != 1)
		kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	if (has_ended != 1) {
		out(" HANG\n");
		return 1;
	}
	if (WIFSIGNALED(status))
		out(" KILLED-BY-%s\n", sigabbrev_np(WTERMSIG(status)));
	else if (WEXITSTATUS(status))
		out(" EXITED-%d\n", WEXITSTATUS(status));
	return status != 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct scenario *)a)->name,
		      ((const struct scenario *)b)->name);
}

static bool is_chosen(const char *name)
{
	return !(only && fnmatch(only, name, FNM_EXTMATCH)) &&
	       !(left_out && !fnmatch(left_out, name, FNM_EXTMATCH));
}

static int run_all(const struct ctx *x, int family, bool list)
{
	size_t count = (size_t)(__stop_scenarios - __start_scenarios);
	struct scenario *all = calloc(count, sizeof(*all));
	int failed = 0;

	if (!all)
		return 3;
	memcpy(all, __start_scenarios, count * sizeof(*all));
	qsort(all, count, sizeof(*all), by_name);
	for (size_t i = 0; i < count; i++) {
		if (!is_chosen(all[i].name))
			continue;
		if (list)
			puts(all[i].name);
		else
			failed |= run_bounded(&all[i], *x, family);
	}
	free(all);
	return failed;
}

static const struct option long_options[] = {
	{ "same", no_argument, NULL, 's' },
	{ "role", required_argument, NULL, 'r' },
	{ "family", required_argument, NULL, 'f' },
	{ "no-warm", no_argument, NULL, 'w' },
	{ "only", required_argument, NULL, 'o' },
	{ "list", no_argument, NULL, 'l' },
	{ "not", required_argument, NULL, 'n' },
	{ 0 },
};

int main(int argc, char **argv)
{
	struct ctx x = { .is_client = true };
	bool list = false;
	int o, family = 4;

	streams_init();
	if (argc > 2 && !strcmp(argv[1], "--part"))
		return part_main(argc - 2, argv + 2);
	while ((o = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		switch (o) {
		case 's':
			x.is_same = true;
			break;
		case 'r':
			x.is_client = optarg[0] == 'c';
			break;
		case 'f':
			family = optarg[0] == 'm' ? 'm' : atoi(optarg);
			break;
		case 'w':
			no_warm = true;
			break;
		case 'o':
			only = optarg;
			break;
		case 'n':
			left_out = optarg;
			break;
		case 'l':
			list = true;
			break;
		default:
			return 2;
		}
	return run_all(&x, family, list);
}
