/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/proc.c - the programs that a benchmark starts and always ends
 *
 *     proc_start() -> proc_wait_listening() -> proc_output() -> proc_stop()
 *
 * The group of a process is killed while its leader is a zombie and not yet
 * reaped: until then its number belongs to nobody else.  Should osf itself be
 * killed, the kernel sends SIGTERM to what it started.
 */
#include "osf.h"
#include "proc.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define STOP_S 3.0 /* from SIGTERM to SIGKILL */
#define STEP_MS 5  /* between two looks at something */
#define OUTPUT_MAX (4u << 20)

static volatile sig_atomic_t interrupted;

static void on_signal(int sig) { interrupted = sig; }

void proc_catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(SIGINT, &sa, NULL); /* no SA_RESTART: poll() comes back */
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
}

bool proc_is_interrupted(void) { return interrupted != 0; }

static void child_fds(const struct proc_spec *spec, int out)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	dup2(null, STDIN_FILENO);
	dup2(out >= 0 ? out : null, STDOUT_FILENO);
	if (!spec->is_loud)
		dup2(null, STDERR_FILENO);
}

static void child_env(const char *const *env)
{
	for (; env && *env; env++)
		if (strchr(*env, '='))
			putenv((char *)*env); /* putenv() does not write */
		else
			unsetenv(*env);
}

static void child_cpus(const struct proc_spec *spec)
{
	cpu_set_t set;

	if (!spec->n_cpus)
		return;
	CPU_ZERO(&set);
	for (unsigned i = 0; i < spec->n_cpus; i++)
		CPU_SET((size_t)spec->cpus[i], &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void child_user(const struct passwd *user)
{
	if (user && (initgroups(user->pw_name, user->pw_gid) < 0 ||
		     setgid(user->pw_gid) < 0 || setuid(user->pw_uid) < 0))
		_exit(EXIT_FAILURE);
}

static void child_exec(const struct proc_spec *spec, pid_t parent, int out)
{
	setpgid(0, 0);
	if (spec->netns && setns(*spec->netns, CLONE_NEWNET) < 0)
		_exit(EXIT_FAILURE);
	child_user(spec->user); /* which takes the next setting away */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
	signal(SIGPIPE, SIG_DFL);
	child_cpus(spec);
	child_fds(spec, out);
	child_env(spec->env);
	execvp(spec->argv[0], (char *const *)spec->argv);
	_exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXEC);
}

int proc_start(struct proc *p, const struct proc_spec *spec)
{
	int out[2] = { -1, -1 };
	pid_t parent = getpid();

	*p = PROC_NONE;
	if (spec->wants_output && pipe2(out, O_CLOEXEC) < 0)
		return -errno;

	pid_t pid = fork();
	int err = pid < 0 ? -errno : 0;
	if (pid == 0)
		child_exec(spec, parent, out[1]);
	if (out[1] >= 0)
		close(out[1]);
	if (err) {
		if (out[0] >= 0)
			close(out[0]);
		return err;
	}
	setpgid(pid, pid); /* whoever of the two comes first */
	p->pid = pid;
	p->out = out[0];
	return 0;
}

/* Has it ended?  It stays a zombie. */
static bool has_ended(const struct proc *p)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) <
		   0 ||
	       info.si_pid == p->pid;
}

static bool wait_until(const struct proc *p, uint64_t until_ns)
{
	while (!has_ended(p)) {
		if (now_ns() >= until_ns)
			return false;
		poll(NULL, 0, STEP_MS);
	}
	return true;
}

static uint64_t deadline(double timeout_s)
{
	return now_ns() + (uint64_t)(timeout_s * 1e9);
}

/* Ends what is left of the group, and gives the number back. */
static int reap(struct proc *p)
{
	int status = -1;

	kill(-p->pid, SIGKILL);
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (p->out >= 0)
		close(p->out);
	*p = PROC_NONE;
	return status;
}

void proc_stop(struct proc *p)
{
	if (!p->pid)
		return;
	kill(p->pid, SIGTERM);
	wait_until(p, deadline(STOP_S));
	reap(p);
}

/* Reads what there is: bytes, 0 at the end, or a negative errno. */
static ssize_t read_some(int fd, char *buf, size_t size, uint64_t until_ns)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	for (;;) {
		uint64_t now = now_ns();

		if (proc_is_interrupted())
			return -EINTR;
		if (now >= until_ns)
			return -ETIMEDOUT;
		if (poll(&pfd, 1, (int)((until_ns - now) / 1000000) + 1) <= 0)
			continue;
		ssize_t n = read(fd, buf, size);
		if (n >= 0 || errno != EINTR)
			return n < 0 ? -errno : n;
	}
}

int proc_output(struct proc *p, double timeout_s, char **text)
{
	uint64_t until_ns = deadline(timeout_s);
	char *buf = xcalloc(OUTPUT_MAX, 1); /* touched only as far as used */
	size_t len = 0;
	ssize_t n;

	*text = NULL;
	do {
		n = read_some(p->out, buf + len, OUTPUT_MAX - 1 - len,
			      until_ns);
		len += n > 0 ? (size_t)n : 0;
	} while (n > 0 && len < OUTPUT_MAX - 1);

	if (n == 0 && !wait_until(p, until_ns))
		n = -ETIMEDOUT;
	if (n > 0)
		n = -EMSGSIZE;
	if (n < 0)
		kill(-p->pid, SIGTERM); /* a moment to clean up */
	if (n < 0)
		wait_until(p, deadline(STOP_S));
	int status = reap(p);
	if (n == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
		n = -ECHILD;
	if (n < 0)
		free(buf);
	else
		*text = buf;
	return (int)n;
}

/* One of the tables of listening sockets, as proc(5) describes them. */
static bool is_listening_in(const char *path, unsigned port)
{
	char line[512];
	unsigned local, state;
	bool yes = false;
	FILE *f = fopen(path, "re");

	while (f && !yes && fgets(line, sizeof(line), f))
		yes = sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x",
			     &local, &state) == 2 &&
		      local == port && state == 0x0a /* TCP_LISTEN */;
	if (f)
		fclose(f);
	return yes;
}

int proc_wait_listening(const struct proc *p, unsigned port, double timeout_s)
{
	uint64_t until_ns = deadline(timeout_s);
	char tcp[48], tcp6[48];

	snprintf(tcp, sizeof(tcp), "/proc/%d/net/tcp", (int)p->pid);
	snprintf(tcp6, sizeof(tcp6), "/proc/%d/net/tcp6", (int)p->pid);
	while (!is_listening_in(tcp, port) && !is_listening_in(tcp6, port)) {
		if (proc_is_interrupted())
			return -EINTR;
		if (has_ended(p))
			return -ECHILD;
		if (now_ns() >= until_ns)
			return -ETIMEDOUT;
		poll(NULL, 0, STEP_MS);
	}
	return 0;
}

int port_free(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	int err = bind(fd, (struct sockaddr *)&a, len) < 0 ||
			  getsockname(fd, (struct sockaddr *)&a, &len) < 0
		      ? -errno
		      : 0;
	close(fd);
	return err ? err : ntohs(a.sin_port);
}

bool program_exists(const char *name)
{
	const char *dirs = getenv("PATH");
	char path[4096];

	if (strchr(name, '/'))
		return access(name, X_OK) == 0;
	while (dirs && *dirs) {
		size_t len = strcspn(dirs, ":");
		snprintf(path, sizeof(path), "%.*s/%s", (int)len, dirs, name);
		if (access(path, X_OK) == 0)
			return true;
		dirs += len + (dirs[len] == ':');
	}
	return false;
}
