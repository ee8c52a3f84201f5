/* SPDX-License-Identifier: MIT */
/*
 * osfd/main.c - osfd: the one part of osf that has privileges
 *
 *     arguments -> closer -> socket -> policy -> into the background -> confined -> server_run()
 *                                                                          -> workers
 *
 * One osfd serves one network namespace: the one that it was started in.  What needs
 * files or names of users happens before it confines itself.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "osfd/closer.h"
#include "osfd/confine.h"
#include "osfd/held.h"
#include "osfd/policy.h"
#include "osfd/server.h"
#include "osfd/state.h"

#define POLICY_PATH "/etc/osf/ports"
#define POLICY_BYTES 65536

const char *argp_program_version = "osfd " OSF_VERSION;

struct options {
	const char *policy;
	bool is_foreground, is_on_demand;
};

static const struct argp_option options[] = {
	{ "policy", 'p', "FILE", 0,
	  "Ports to begin with, one a line (" POLICY_PATH ")", 0 },
	{ "foreground", 'f', NULL, 0, "Do not go into the background", 0 },
	{ "on-demand", 'd', NULL, 0, "End when the last port is removed", 0 },
	{ 0 },
};

static error_t parse_opt(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'p':
		o->policy = arg;
		return 0;
	case 'f':
		o->is_foreground = true;
		return 0;
	case 'd':
		o->is_on_demand = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_opt,
	.doc = "The daemon that lets programs move TCP connections to ports.\v"
	       "osfd(8) describes it; osf-port(8) adds and removes ports.",
};

static int complain(const char *what, int err)
{
	fprintf(stderr, "osfd: %s: %s\n", what, strerror(-err));
	return EXIT_FAILURE;
}

static bool user_of(const char *name, uint32_t *uid)
{
	const struct passwd *pw = getpwnam(name);

	if (pw)
		*uid = pw->pw_uid;
	return pw != NULL;
}

/* What is wrong with a line of the policy. */
static const char *line_error(int err)
{
	switch (err) {
	case -ENOENT:
		return "there is no such user";
	case -ENOSPC:
		return "there are too many ports";
	default:
		return "this does not say a port";
	}
}

/* Adds the ports of a file.  @is_kept: the file was found at a start after a crash, and the
 * earlier osfd has looked at the devices when it added the ports. */
static int policy_read(struct ports *ps, int fd, const char *path, bool is_kept)
{
	static char text[POLICY_BYTES];
	static struct msg_port list[PORTS_MAX];
	struct refusal why;
	unsigned line;
	ssize_t len = pread(fd, text, sizeof(text), 0);

	if (len < 0)
		return -errno;
	/* The end of what was read may be another line's beginning. */
	if (len == (ssize_t)sizeof(text))
		return -EFBIG;
	int n =
	    policy_parse(text, (size_t)len, user_of, list, PORTS_MAX, &line);
	if (n < 0) {
		fprintf(stderr, "osfd: %s:%u: %s\n", path, line, line_error(n));
		return is_kept ? 0 : -EINVAL;
	}
	for (int i = 0; i < n; i++) {
		list[i].flags = is_kept ? MSG_BESIDE : 0;
		if (port_add(ps, &list[i], &why) < 0)
			fprintf(stderr, "osfd: %s: %s\n", list[i].dev,
				why.text);
	}
	return 0;
}

static int ports_load(struct server *s, const struct options *o)
{
	char path[128];
	int err = ports_init(&s->ports, -1);
	if (err)
		return err;
	int state = state_open(s->ports.query_fd, path, sizeof(path));
	if (state < 0)
		return state;
	err = policy_read(&s->ports, state, path, true);
	if (err)
		return err;
	s->ports.state_fd = state;

	const char *policy = o->policy ? o->policy : POLICY_PATH;
	int fd = open(policy, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return o->policy ? -errno : 0;
	err = policy_read(&s->ports, fd, policy, false);
	close(fd);
	return err;
}

/* The parent ends when the child listens, so that who started osfd may connect. */
static int go_into_background(void)
{
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid)
		_exit(EXIT_SUCCESS);
	setsid();
	if (chdir("/") < 0)
		return -errno;
	int null = open("/dev/null", O_RDWR);
	if (null < 0)
		return -errno;
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
	return 0;
}

/* Who starts osfd may have a lock or a pipe open, which osfd must not keep, or lack one of
 * the first three descriptors, whose number must be nothing else's. */
static void have_three_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	close_range(STDERR_FILENO + 1, ~0u, 0);
}

int main(int argc, char **argv)
{
	static struct server s;
	struct options o = { 0 };

	have_three_descriptors();
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	s.is_on_demand = o.is_on_demand;
	held_init();
	s.closer_fd = closer_start();
	if (s.closer_fd < 0)
		return complain("no closer", s.closer_fd);
	int err = server_listen(&s);
	if (err == -EADDRINUSE)
		return complain("this network namespace has one already", err);
	if (err)
		return complain("no socket", err);
	err = ports_load(&s, &o);
	if (err)
		return complain("no ports", err);
	if (!o.is_foreground) {
		err = go_into_background();
		if (err)
			return complain("cannot go into the background", err);
	}
	s.null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (s.null_fd < 0)
		return complain("no /dev/null", -errno);
	err = server_begin(&s);
	if (!err)
		err = confine();
	if (!err)
		err = server_run(&s);
	/* An orderly end: the next osfd begins with the policy alone. */
	if (!err && s.ports.state_fd >= 0)
		err = ftruncate(s.ports.state_fd, 0);
	return err ? complain("ends", err) : EXIT_SUCCESS;
}
