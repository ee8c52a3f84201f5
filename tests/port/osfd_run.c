/* SPDX-License-Identifier: MIT */
/* tests/port/osfd_run.c - see osfd_run.h */
#include "osfd_run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

const char *osfd_path;
pid_t osfd_pid;

static void nothing(void) {}

void osfd_run(const struct world *w) { osfd_run_after(w, nothing); }

void osfd_run_after(const struct world *w, void (*prepare)(void))
{
	struct reply hello;

	world_enter(w, HERE);
	osfd_pid = fork();
	if (!osfd_pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also where a test fails */
		prepare();
		execl(osfd_path, "osfd", "--foreground", "--policy",
		      "/dev/null", NULL);
		_exit(127);
	}
	for (int i = 0; i < 5000; i++) {
		int fd = osfd_connect(&hello);
		if (fd >= 0) {
			close(fd);
			return;
		}
		assert_int_equal(fd, -ECONNREFUSED);
		assert_int_equal(waitpid(osfd_pid, NULL, WNOHANG), 0);
		poll(NULL, 0, 1);
	}
	fail_msg("osfd does not listen");
}

void osfd_kill(int sig)
{
	kill(osfd_pid, sig);
	assert_int_equal(waitpid(osfd_pid, NULL, 0), osfd_pid);
}

int must_connect(void)
{
	struct reply hello;
	int fd = osfd_connect(&hello);

	assert_true(fd >= 0);
	return fd;
}

int port_call(int fd, enum msg_type type, uint32_t uid, struct reply *r)
{
	struct request q = { .port = { .dev = "va", .uid = uid } };

	return osfd_call(fd, type, &q, NULL, 0, r, NULL);
}

int osfd_setup(void **world)
{
	struct reply r;

	osfd_run(*world);
	int fd = must_connect();
	assert_int_equal(port_call(fd, MSG_ADD, 0, &r), 0);
	close(fd);
	return 0;
}

int osfd_teardown(void **world)
{
	osfd_kill(SIGTERM);
	return 0;
}

void program_open(struct program *p) { program_open_at(p, "va"); }

void program_open_at(struct program *p, const char *dev)
{
	struct request q = { 0 };
	struct reply r;
	int fds[2];

	strcpy(q.port.dev, dev);
	p->osfd = must_connect();
	assert_int_equal(osfd_call(p->osfd, MSG_OPEN, &q, NULL, 0, &r, fds), 0);
	struct packet_ring ring = { r.grant.slot_bytes, r.grant.n_slots };
	assert_int_equal(packet_open(&p->port, fds[0], &ring), 0);
	p->link = fds[1];
	p->grant = r.grant.grant;
}

void program_close(struct program *p)
{
	packet_close(&p->port);
	close(p->link);
	close(p->osfd);
}

int program_freeze(struct program *p, int fd, struct reply *r)
{
	struct request q = { .freeze = { p->grant } };

	return osfd_call(p->osfd, MSG_FREEZE, &q, &fd, 1, r, NULL);
}

int program_thaw(struct program *p, int fd, const struct frozen *f)
{
	struct request q = { .thaw = { .grant = p->grant, .state = *f } };
	int fds[2] = { fd, fd }; /* there are no bytes to read */
	struct reply r;

	return osfd_call(p->osfd, MSG_THAW, &q, fds, 2, &r, NULL);
}

uint32_t n_listed(int fd, struct msg_listed *first)
{
	struct reply r;

	for (uint32_t i = 0;; i++) {
		struct request q = { .list = { i } };
		int err = osfd_call(fd, MSG_LIST, &q, NULL, 0, &r, NULL);
		if (err) {
			assert_int_equal(err, -ENOENT);
			return i;
		}
		if (i == 0)
			*first = r.listed;
	}
}

unsigned n_fds_of(pid_t pid)
{
	char path[64];
	unsigned n = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	DIR *dir = opendir(path);
	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

void osfd_forget(const struct world *w)
{
	char path[64];
	uint64_t cookie;
	socklen_t len = sizeof(cookie);

	world_enter(w, HERE);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(
	    getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len), 0);
	close(fd);
	snprintf(path, sizeof(path), "/run/osf/ports-%llu",
		 (unsigned long long)cookie);
	unlink(path);
	rmdir("/run/osf"); /* where nobody else uses it */
}

int osfd_run_group(struct world *w, const struct CMUnitTest *tests, size_t n)
{
	world_open(w);
	int failed = _cmocka_run_group_tests("osfd", tests, n, NULL, NULL);
	osfd_forget(w);
	return failed;
}
