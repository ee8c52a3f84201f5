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
 *                        or with --same a thread; obeys commands
 *
 * Scenarios start this program again as --part NAME (calls_part.h).
 *
 * Prints one line per scenario.  Two runs, one on the kernel and one under the
 * library, must print the same: tests/app/test_calls.py compares them.  Each
 * connection first makes some small turns, so that osf moves it where it can;
 * --no-warm leaves them out.
 */
#include "calls.h"
#include "calls_part.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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
#define TURN_BYTES 16

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

static const char *errno_name(int err)
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

static bool stream_ok(uint64_t off, const char *p, size_t len)
{
	for (size_t i = 0, k; i < len; i += k) {
		k = len - i;
		const char *part = stream_part(off + i, &k);
		if (memcmp(p + i, part, k))
			return false;
	}
	return true;
}

static void stream_make(uint64_t off, char *p, size_t len)
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

/* --- the far end --- */

struct far {
	int ctl, listener, fd;
	uint64_t got, sent;
};

struct command {
	long op, arg;
};

static socklen_t address(int family, int port, struct sockaddr_storage *ss)
{
	struct sockaddr_in *v4 = (void *)ss;
	struct sockaddr_in6 *v6 = (void *)ss;

	memset(ss, 0, sizeof(*ss));
	if (family == 4) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		return sizeof(*v4);
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons((uint16_t)port);
	inet_pton(AF_INET6, family == 6 ? "::1" : "::ffff:127.0.0.1",
		  &v6->sin6_addr);
	return sizeof(*v6);
}

static int port_of(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	getsockname(fd, (void *)&ss, &len);
	return ntohs(ss.ss_family == AF_INET
			 ? ((struct sockaddr_in *)&ss)->sin_port
			 : ((struct sockaddr_in6 *)&ss)->sin6_port);
}

static int listen_at(int family)
{
	struct sockaddr_storage ss;
	socklen_t len = address(family, 0, &ss);
	int fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (void *)&ss, len) || listen(fd, 8))
		return -1;
	return fd;
}

/* 'm' is a v6 socket that talks v4: its peer may be v4. */
static int connect_at(int family, int port)
{
	struct sockaddr_storage ss;
	socklen_t len = address(family, port, &ss);
	int one = 1, fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (void *)&ss, len))
		return -1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static int accept_at(int listener)
{
	int one = 1, fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* The listener stays: it is how the two ends find each other. */
	return fd;
}

static long far_send(struct far *f, size_t len, int flags)
{
	long total = 0;
	char part[16384];

	while (len) {
		size_t k = len < sizeof(part) ? len : sizeof(part);
		stream_make(f->sent, part, k);
		ssize_t r = send(f->fd, part, k, MSG_NOSIGNAL | flags);
		if (r < 0)
			return -errno;
		f->sent += (uint64_t)r;
		total += r;
		len -= (size_t)r;
	}
	return total;
}

/* For bytes that come, however busy the machine is. */
#define FAR_PATIENCE_MS 10000

/* Return: bytes, or -errno when nothing came. */
static long far_recv(struct far *f, size_t len, int silence_ms)
{
	struct pollfd pfd = { .fd = f->fd, .events = POLLIN };
	char part[16384];
	long total = 0;

	while (len) {
		size_t k = len < sizeof(part) ? len : sizeof(part);
		if (silence_ms && poll(&pfd, 1, silence_ms) == 0)
			return total ? total : -ETIMEDOUT;
		ssize_t r = recv(f->fd, part, k, 0);
		if (r < 0 && !total)
			return -errno;
		if (r <= 0)
			break;
		if (!stream_ok(f->got, part, (size_t)r))
			return -EBADMSG;
		f->got += (uint64_t)r;
		total += r;
		len -= (size_t)r;
	}
	return total;
}

/* At least @least bytes, however long they take, and then what else there is. */
static long far_drain(struct far *f, size_t least)
{
	long r = far_recv(f, least, FAR_PATIENCE_MS);

	if (r < (long)least)
		return r;
	long more = far_recv(f, SIZE_MAX, 300);
	return more == -EBADMSG ? more : r + (more > 0 ? more : 0);
}

static long far_now(struct far *f, size_t len)
{
	char part[16384];
	ssize_t r = recv(f->fd, part, len < sizeof(part) ? len : sizeof(part),
			 MSG_DONTWAIT);

	if (r < 0)
		return -errno;
	if (!stream_ok(f->got, part, (size_t)r))
		return -EBADMSG;
	f->got += (uint64_t)r;
	return r;
}

static long far_count(struct far *f, size_t len)
{
	char part[256];

	if (len > sizeof(part))
		return -EINVAL;
	long r = recv(f->fd, part, len, MSG_WAITALL);
	return r < 0 ? -errno : r;
}

static long far_echo(struct far *f, long turns)
{
	long r = 0;

	while (turns-- && r >= 0) {
		r = far_recv(f, TURN_BYTES, 0);
		if (r == TURN_BYTES)
			r = far_send(f, TURN_BYTES, 0);
	}
	return r < 0 ? r : 0;
}

static long far_text(struct far *f, long lines)
{
	char line[32];
	long total = 0;

	for (long i = 0; i < lines; i++) {
		int len = snprintf(line, sizeof(line), "line %ld\n", i);
		total += send(f->fd, line, (size_t)len, MSG_NOSIGNAL);
	}
	return total;
}

static long far_close(struct far *f, bool reset)
{
	struct linger now = { .l_onoff = 1 };

	if (reset)
		setsockopt(f->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	int r = close(f->fd);
	f->fd = -1;
	return r ? -errno : 0;
}

static long far_act(struct far *f, long op, long arg)
{
	switch (op) {
	case FAR_LISTEN:
		f->listener = listen_at((int)arg);
		return f->listener < 0 ? -errno : port_of(f->listener);
	case FAR_ACCEPT:
		f->fd = accept_at(f->listener);
		return f->fd < 0 ? -errno : 0;
	case FAR_CONNECT:
		f->fd = connect_at((int)(arg & 0xffff), (int)(arg >> 16));
		return f->fd < 0 ? -errno : 0;
	case FAR_ECHO:
		return far_echo(f, arg);
	case FAR_SEND:
	case FAR_SEND_LATER:
		return far_send(f, (size_t)arg, 0);
	case FAR_SEND_MORE:
	case FAR_SEND_MORE_LATER:
		return far_send(f, (size_t)arg, MSG_MORE);
	case FAR_NOW:
		return far_now(f, (size_t)arg);
	case FAR_TEXT:
		return far_text(f, arg);
	case FAR_RECV:
	case FAR_RECV_LATER:
		return far_recv(f, (size_t)arg, FAR_PATIENCE_MS);
	case FAR_COUNT:
		return far_count(f, (size_t)arg);
	case FAR_DRAIN:
		return far_drain(f, (size_t)arg);
	case FAR_SHUT:
	case FAR_SHUT_LATER:
		return shutdown(f->fd, (int)arg) ? -errno : 0;
	case FAR_CLOSE:
	case FAR_CLOSE_LATER:
		return far_close(f, false);
	case FAR_RESET:
	case FAR_RESET_LATER:
		return far_close(f, true);
	case FAR_SEND_OOB:
	case FAR_SEND_OOB_LATER:
		return send(f->fd, "x", 1, MSG_OOB);
	case FAR_INLINE:
		return setsockopt(f->fd, SOL_SOCKET, SO_OOBINLINE, &(int){ 1 },
				  sizeof(int));
	case FAR_PORT:
		return port_of(f->fd);
	default:
		return -ENOSYS;
	}
}

static bool is_later(long op)
{
	return op == FAR_SEND_LATER || op == FAR_SEND_MORE_LATER ||
	       op == FAR_RECV_LATER || op == FAR_SHUT_LATER ||
	       op == FAR_CLOSE_LATER || op == FAR_RESET_LATER ||
	       op == FAR_SEND_OOB_LATER;
}

static void *far_main(void *arg)
{
	struct far f = { .ctl = *(int *)arg, .listener = -1, .fd = -1 };
	struct command cmd;

	while (read(f.ctl, &cmd, sizeof(cmd)) == sizeof(cmd)) {
		long r = 0;

		if (cmd.op == FAR_END)
			break;
		if (!is_later(cmd.op))
			r = far_act(&f, cmd.op, cmd.arg);
		if (write(f.ctl, &r, sizeof(r)) != sizeof(r))
			break;
		if (is_later(cmd.op)) {
			usleep(LATER_MS * 1000);
			far_act(&f, cmd.op, cmd.arg);
		}
	}
	if (f.fd >= 0)
		close(f.fd);
	return NULL;
}

void far_begin(struct ctx *x, enum far_op op, long arg)
{
	struct command cmd = { op, arg };

	if (write(x->far_ctl, &cmd, sizeof(cmd)) != sizeof(cmd))
		out(" FAR-END-GONE");
}

long far_end(struct ctx *x)
{
	long r = -ESRCH;
	ssize_t got_bytes;

	do
		got_bytes = read(x->far_ctl, &r, sizeof(r));
	while (got_bytes < 0 && errno == EINTR);
	if (got_bytes != sizeof(r))
		out(" FAR-END-GONE");
	return r;
}

long far_do(struct ctx *x, enum far_op op, long arg)
{
	far_begin(x, op, arg);
	return far_end(x);
}

void far_res(struct ctx *x, const char *what, enum far_op op, long arg)
{
	long r = far_do(x, op, arg);

	if (r < 0)
		out(" %s=%s", what, errno_name((int)-r));
	else
		out(" %s=%ld", what, r);
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
