/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/run_port.c - "osf run --port DEV": a port for one command
 *
 *     osfd, started if none runs -> DEV is a port -> CMD, as USER -> the port goes
 *
 * The port stays if it was there before, or if other programs use it by then.
 */
#include "osf.h"
#include "port.h"
#include "run.h"
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "osfd/client.h"

static int call(enum msg_type type, const char *dev, uid_t uid,
		struct reply *reply)
{
	struct request r = { .port = { .uid = uid } };
	struct reply hello;
	int fd = type == MSG_ADD ? osfd_reach(&hello) : osfd_connect(&hello);

	if (fd < 0)
		return fd;
	memcpy(r.port.dev, dev, strnlen(dev, MSG_DEV_MAX - 1));
	int err = osfd_call(fd, type, &r, NULL, 0, reply, NULL);
	close(fd);
	return err;
}

static bool has_port(const char *dev, uid_t uid)
{
	struct reply hello, r = { 0 };
	int fd = osfd_connect(&hello);
	bool found = false;

	for (uint32_t i = 0; fd >= 0 && !found; i++) {
		struct request q = { .list = { i } };

		if (osfd_call(fd, MSG_LIST, &q, NULL, 0, &r, NULL))
			break;
		found = r.listed.port.uid == uid &&
			strncmp(r.listed.port.dev, dev, MSG_DEV_MAX) == 0;
	}
	if (fd >= 0)
		close(fd);
	return found;
}

int run_user(const char *name, struct run_as *out)
{
	const struct passwd *pw = name ? getpwnam(name) : getpwuid(getuid());

	if (name && !pw) {
		complain("run: there is no user '%s'", name);
		return -ENOENT;
	}
	*out = (struct run_as){ .uid = pw ? pw->pw_uid : getuid(),
				.gid = pw ? pw->pw_gid : getgid(),
				.name = name ? pw->pw_name : NULL };
	return 0;
}

int run_become(const struct run_as *as)
{
	if (!as->name)
		return 0;
	if (initgroups(as->name, as->gid) || setgid(as->gid) ||
	    setuid(as->uid)) {
		complain("run: cannot become %s: %s", as->name,
			 strerror(errno));
		return -EPERM;
	}
	return 0;
}

int run_port_begin(const char *dev, const struct run_as *as, bool *is_new)
{
	struct reply reply = { 0 };

	*is_new = !has_port(dev, as->uid);
	int err = *is_new ? call(MSG_ADD, dev, as->uid, &reply) : 0;
	if (!err)
		return setenv("OSF_TCP", "1", 1) ? -ENOMEM : 0;
	complain("run: %s is no port: %s", dev,
		 reply.reason[0] ? reply.reason : strerror(-err));
	return err;
}

void run_port_end(const char *dev, const struct run_as *as)
{
	struct reply reply;

	(void)call(MSG_DEL, dev, as->uid, &reply);
}
