/* SPDX-License-Identifier: MIT */
/*
 * tests/app/soak.c - long runs: what is left behind, and what goes wrong rarely
 *
 *     soak kills N             either side of a connection under load is killed,
 *                              N times; the other must see it within a second,
 *                              and hold nothing of it at the end
 *     soak conns N             N connections opened, used and closed; the server
 *                              must not grow
 *     soak many N              N connections at a time, all of them active
 *     soak share SECONDS       processes that use one connection together
 *     soak mix SECONDS [SEED [EVENT ...]]
 *                              streams in both directions while their ends are
 *                              forked, executed, copied, passed to others and
 *                              struck by signals.  EVENT: only these of dup,
 *                              fork-back, fork-over, exec, spawn, pass,
 *                              pass-back, program; "bare": exec and the like
 *                              without the library too; "calm": no signals
 *
 * Each prints one line; exit 1: something was wrong, and stderr has what.  Every
 * byte is checked.  SOAK_SEED or SEED repeats the choices; the schedule is the
 * machine's.  Under a thread sanitizer the mix needs
 * TSAN_OPTIONS=die_after_fork=0.
 *
 * The parts: soak.h.
 */
#include "soak.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SELF "/proc/self/exe"

extern char **environ;

uint64_t seed;
const char *mode = "?";
_Atomic int *failed;

void die_first(void)
{
	static _Thread_local bool is_first;
	int not_yet = FAILED_NOT;

	if (failed && !is_first &&
	    !atomic_compare_exchange_strong(failed, &not_yet, FAILED_TELLING))
		_exit(1);
	is_first = true;
}

void die(const char *fmt, ...)
{
	va_list ap;

	die_first();
	flockfile(stderr);
	fprintf(stderr, "soak %s: FAIL: seed %llu, process %d: ", mode,
		(unsigned long long)seed, (int)getpid());
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	if (failed)
		*failed = FAILED;
	_exit(1);
}

uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void sleep_us(uint64_t us)
{
	struct timespec ts = { (time_t)(us / 1000000),
			       (long)(us % 1000000) * 1000 };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

/* --- sockets --- */

static struct sockaddr_in address(uint32_t addr, uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(addr) };
}

uint16_t local_port(int fd)
{
	struct sockaddr_in sa = { 0 };
	socklen_t len = sizeof(sa);

	getsockname(fd, (void *)&sa, &len);
	return ntohs(sa.sin_port);
}

int listener_open(uint32_t addr, uint16_t *port)
{
	struct sockaddr_in sa = address(addr, *port);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (void *)&sa, sizeof(sa)) || listen(fd, 4096))
		die("listener: %s", strerror(errno));
	*port = local_port(fd);
	return fd;
}

static int connect_once(const struct sockaddr_in *sa)
{
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r;

	if (fd < 0)
		die("socket: %s", strerror(errno));
	do
		r = connect(fd, (void *)sa, sizeof(*sa));
	while (r && errno == EINTR);
	if (r && errno != EISCONN) {
		int err = errno;
		close(fd);
		return -err;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* Ports run out after many closed connections, which keep them for a minute.  A connect()
 * that a signal interrupted continues, and the next call reports that. */
int connect_to(uint32_t addr, uint16_t port)
{
	struct sockaddr_in sa = address(addr, port);
	int fd = -1;

	for (int tries = 0; tries < 700; tries++) {
		fd = connect_once(&sa);
		if (fd == -EALREADY)
			continue;
		if (fd != -EADDRNOTAVAIL)
			break;
		sleep_us(100000);
	}
	if (fd < 0)
		die("connect to port %u: %s", port, strerror(-fd));
	return fd;
}

void send_all(int fd, const void *p, size_t n)
{
	while (n) {
		ssize_t r = send(fd, p, n, MSG_NOSIGNAL);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			die("send: %s", strerror(errno));
		p = (const char *)p + r;
		n -= (size_t)r;
	}
}

bool recv_all(int fd, void *p, size_t n)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r = recv(fd, (char *)p + got, n - got, 0);
		if (r < 0 && errno == EINTR)
			continue;
		if (!r && !got)
			return false;
		if (r <= 0)
			die("recv after %zu of %zu bytes: %s", got, n,
			    r ? strerror(errno) : "end of stream");
		got += (size_t)r;
	}
	return true;
}

unsigned nofile_raise(void)
{
	struct rlimit r;

	getrlimit(RLIMIT_NOFILE, &r);
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
	return r.rlim_cur > 1u << 30 ? 1u << 30 : (unsigned)r.rlim_cur;
}

/* --- this program again --- */

char *text(uint64_t n)
{
	static __thread char texts[16][24];
	static __thread unsigned i;
	char *p = texts[i++ % 16];

	snprintf(p, sizeof(texts[0]), "%llu", (unsigned long long)n);
	return p;
}

static char **bare_environment(void)
{
	static __thread char *bare[512];
	int k = 0;

	for (char **e = environ; *e && k < 511; e++)
		if (strncmp(*e, "LD_PRELOAD=", 11))
			bare[k++] = *e;
	bare[k] = NULL;
	return bare;
}

/* @argv: room for 20 */
static void argv_make(char **argv, char *const words[])
{
	int k = 0;

	argv[k++] = (char *)(uintptr_t) "soak";
	argv[k++] = (char *)(uintptr_t) "part";
	argv[k++] = text(seed);
	while (*words && k < 19)
		argv[k++] = *words++;
	argv[k] = NULL;
}

pid_t part_start(char *const words[], bool is_bare)
{
	char *argv[20];
	pid_t pid;

	argv_make(argv, words);
	int err = posix_spawn(&pid, SELF, NULL, NULL, argv,
			      is_bare ? bare_environment() : environ);
	if (err)
		die("spawn: %s", strerror(err));
	return pid;
}

void part_exec(char *const words[], bool is_bare)
{
	char *argv[20];

	argv_make(argv, words);
	execve(SELF, argv, is_bare ? bare_environment() : environ);
	die("exec: %s", strerror(errno));
}

void part_wait(pid_t pid, const char *what, unsigned seconds)
{
	uint64_t end = now_us() + seconds * 1000000ull;
	int status = -1;
	pid_t r;

	while ((r = waitpid(pid, &status, WNOHANG)) != pid) {
		if (r < 0 && errno != EINTR)
			die("%s is lost: %s", what, strerror(errno));
		if (now_us() > end) {
			kill(pid, SIGKILL);
			die("%s did not end in %u s", what, seconds);
		}
		sleep_us(2000);
	}
	if (status)
		die("%s ended with status 0x%x", what, status);
}

static int part_run(int argc, char **argv)
{
	static const struct {
		const char *mode;
		int (*run)(int argc, char **argv);
	} parts[] = { { "kills", kills_part },
		      { "conns", conns_part },
		      { "many", many_part },
		      { "mix", mix_part } };

	for (size_t i = 0; argc > 1 && i < 4; i++)
		if (!strcmp(argv[0], parts[i].mode)) {
			mode = parts[i].mode;
			return parts[i].run(argc - 1, argv + 1);
		}
	die("no such part");
}

/* --- what a process holds --- */

/* An abstract name lives as long as a socket that has it. */
static bool names_inode(const char *line, unsigned long inode)
{
	unsigned long n;

	return strstr(line, " @osf") &&
	       sscanf(line, "%*s %*s %*s %*s %*s %*s %lu", &n) == 1 &&
	       n == inode;
}

static void count_name(struct holdings *h, const char *link)
{
	FILE *f = fopen("/proc/net/unix", "re");
	unsigned long inode;
	char line[512];

	if (!f)
		die("/proc/net/unix: %s", strerror(errno));
	if (sscanf(link, "socket:[%lu]", &inode) == 1)
		while (fgets(line, sizeof(line), f))
			h->n_names += names_inode(line, inode);
	fclose(f);
}

static void count_fds(struct holdings *h)
{
	DIR *d = opendir("/proc/self/fd");
	char path[300], link[256];

	if (!d)
		die("/proc/self/fd: %s", strerror(errno));
	for (struct dirent *e; (e = readdir(d));) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		ssize_t len = readlink(path, link, sizeof(link) - 1);
		if (len < 0)
			continue;
		link[len] = 0;
		bool is_bell = strstr(link, "[timerfd]") != NULL;
		h->n_fds += !is_bell;
		h->n_bells += is_bell;
		h->n_memfds += strstr(link, "memfd:") != NULL;
		count_name(h, link);
	}
	closedir(d);
}

static void count_maps(struct holdings *h)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];

	if (!f)
		die("/proc/self/maps: %s", strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		h->n_maps++;
		h->n_shared_maps +=
		    strstr(line, "memfd:") || strstr(line, "/dev/zero");
	}
	fclose(f);
}

/* Not statm, whose counters are kept per core and may be pages off. */
static void count_resident(struct holdings *h)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	unsigned long kb;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Rss: %lu kB", &kb) == 1)
			h->rss = kb * 1024;
		else if (sscanf(line, "Anonymous: %lu kB", &kb) == 1)
			h->anonymous = kb * 1024;
	if (!h->rss)
		die("/proc/self/smaps_rollup cannot be read");
	fclose(f);
}

void holdings_take(struct holdings *h)
{
	*h = (struct holdings){ 0 };
	count_resident(h);
	count_fds(h);
	count_maps(h);
}

unsigned shm_files(void)
{
	DIR *d = opendir("/dev/shm");
	unsigned n = 0;

	if (!d)
		return 0;
	for (struct dirent *e; (e = readdir(d));)
		n += strstr(e->d_name, "osf") && strncmp(e->d_name, "osf.", 4);
	closedir(d);
	return n;
}

int main(int argc, char **argv)
{
	const char *given = getenv("SOAK_SEED");

	signal(SIGPIPE, SIG_IGN);
	seed = given ? strtoull(given, NULL, 0) : now_us();
	if (argc > 3 && !strcmp(argv[1], "part")) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		seed = strtoull(argv[2], NULL, 0);
		return part_run(argc - 3, argv + 3);
	}
	mode = argc > 1 ? argv[1] : "?";
	unsigned n = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : 0;
	if (argc > 3)
		seed = strtoull(argv[3], NULL, 0);
	if (n && !strcmp(mode, "kills"))
		return kills_run(n);
	if (n && !strcmp(mode, "conns"))
		return conns_run(n);
	if (n && !strcmp(mode, "many"))
		return many_run(n);
	if (n && !strcmp(mode, "share"))
		return share_run(n);
	if (n && !strcmp(mode, "mix"))
		return mix_run(n, argv + (argc > 4 ? 4 : argc));
	die("what? the opening of soak.c has it");
}
