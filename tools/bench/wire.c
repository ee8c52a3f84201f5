/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/wire.c - two network namespaces, a veth pair between them, and ports
 *
 *     unshare() twice -> ip link, ip addr -> osfd, osf port add -> SIGTERM to osfd
 *
 * osfd runs in the foreground as a child of ours, so that it ends with us even when
 * somebody kills us.
 */
#include "osf.h"
#include "wire.h"
#include "port.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "osfd/name.h"

#define STEP_S 10.0
#define LOOK_MS 5

static int fail(char *why, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int fail(char *why, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, WHY_MAX, fmt, ap);
	va_end(ap);
	return err;
}

/* A program in a namespace, until it ends. */
static int step(const int *netns, char *why, const char *const *argv)
{
	struct proc_spec spec = {
		.argv = argv,
		.env = (const char *const[]){ "LD_PRELOAD", NULL },
		.netns = netns,
		.wants_output = true,
		.is_loud = true,
	};
	struct proc p;
	char *text = NULL;
	int err = proc_start(&p, &spec);

	if (!err)
		err = proc_output(&p, STEP_S, &text);
	free(text);
	return err ? fail(why, err, "%s %s %s: %s", argv[0], argv[1], argv[2],
			  err == -ECHILD ? "failed" : strerror(-err))
		   : 0;
}

/* This process has one thread, and is in its own namespace again at the end. */
static int make_namespaces(struct wire *w, char *why)
{
	int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int err = own < 0 ? -errno : 0;

	for (int i = 0; !err && i < WIRE_PLACES; i++) {
		if (unshare(CLONE_NEWNET) < 0)
			err = -errno;
		else
			w->netns[i] =
			    open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
		if (!err && w->netns[i] < 0)
			err = -errno;
		if (setns(own, CLONE_NEWNET) < 0)
			err = -errno;
	}
	if (own >= 0)
		close(own);
	return err ? fail(why, err, "no network namespaces: %s", strerror(-err))
		   : 0;
}

static int start_device(const struct wire *w, int place, const char *dev,
			const char *addr, char *why)
{
	const int *in = &w->netns[place];
	int err = step(in, why,
		       (const char *const[]){ "ip", "addr", "add", addr, "dev",
					      dev, NULL });

	if (!err)
		err = step(in, why,
			   (const char *const[]){ "ip", "link", "set", "lo",
						  "up", NULL });
	if (!err)
		err = step(in, why,
			   (const char *const[]){ "ip", "link", "set", dev,
						  "up", NULL });
	return err;
}

static int make_devices(const struct wire *w, char *why)
{
	char other[64];

	snprintf(other, sizeof(other), "/proc/%d/fd/%d", (int)getpid(),
		 w->netns[WIRE_AT_SERVER]);
	int err = step(
	    &w->netns[WIRE_AT_CLIENT], why,
	    (const char *const[]){ "ip", "link", "add", WIRE_CLIENT_DEVICE,
				   "type", "veth", "peer", "name",
				   WIRE_SERVER_DEVICE, "netns", other, NULL });
	if (!err)
		err = start_device(w, WIRE_AT_CLIENT, WIRE_CLIENT_DEVICE,
				   "10.98.0.2/24", why);
	if (!err)
		err = start_device(w, WIRE_AT_SERVER, WIRE_SERVER_DEVICE,
				   WIRE_SERVER "/24", why);
	return err;
}

int wire_open(struct wire *w, bool needs_osfd, char *why)
{
	char osfd[PATH_MAX];

	*w = WIRE_CLOSED;
	if (geteuid())
		return fail(why, -EPERM,
			    "needs root, to make network namespaces and ports");
	if (!program_exists("ip"))
		return fail(why, -ENOENT,
			    "no ip; install the package iproute2");
	if (needs_osfd && osfd_find(osfd) < 0)
		return fail(why, -ENOENT,
			    "no osfd; building it takes libbpf and clang");
	int err = make_namespaces(w, why);
	if (!err)
		err = make_devices(w, why);
	if (err)
		wire_close(w);
	return err;
}

void wire_close(struct wire *w)
{
	wire_ports_del(w);
	for (int i = 0; i < WIRE_PLACES; i++)
		if (w->netns[i] >= 0)
			close(w->netns[i]);
	*w = WIRE_CLOSED;
}

/* The flag SO_ACCEPTCON, in the table that proc(5) describes. */
static bool has_osfd(const struct proc *p)
{
	char path[48], line[256];
	bool yes = false;

	snprintf(path, sizeof(path), "/proc/%d/net/unix", (int)p->pid);
	FILE *f = fopen(path, "re");
	while (f && !yes && fgets(line, sizeof(line), f))
		yes = strstr(line, " 00010000 ") && strstr(line, "@" OSFD_NAME);
	if (f)
		fclose(f);
	return yes;
}

static int start_osfd(struct wire *w, int place, char *why)
{
	char path[PATH_MAX];
	struct proc *p = &w->osfd[place];
	struct proc_spec spec = {
		.argv = (const char *const[]){ path, "--foreground", "--policy",
					       "/dev/null", NULL },
		.env = (const char *const[]){ "LD_PRELOAD", NULL },
		.netns = &w->netns[place],
		.is_loud = true,
	};
	uint64_t until_ns = now_ns() + (uint64_t)(STEP_S * 1e9);
	int err = osfd_find(path);

	if (!err)
		err = proc_start(p, &spec);
	while (!err && !has_osfd(p)) {
		if (proc_is_interrupted())
			err = -EINTR;
		else if (now_ns() > until_ns)
			err = -ETIMEDOUT;
		poll(NULL, 0, LOOK_MS);
	}
	return err ? fail(why, err, "osfd does not start: %s", strerror(-err))
		   : 0;
}

int wire_ports_add(struct wire *w, const char *self, char *why)
{
	static const char *const devices[WIRE_PLACES] = {
		[WIRE_AT_CLIENT] = WIRE_CLIENT_DEVICE,
		[WIRE_AT_SERVER] = WIRE_SERVER_DEVICE,
	};
	int err = 0;

	for (int i = 0; !err && i < WIRE_PLACES; i++) {
		err = start_osfd(w, i, why);
		if (!err)
			err = step(&w->netns[i], why,
				   (const char *const[]){ self, "port", "add",
							  devices[i], NULL });
	}
	return err;
}

void wire_ports_del(struct wire *w)
{
	for (int i = 0; i < WIRE_PLACES; i++)
		proc_stop(&w->osfd[i]);
}

const int *wire_place(const struct wire *w, bool is_server)
{
	return w ? &w->netns[is_server ? WIRE_AT_SERVER : WIRE_AT_CLIENT]
		 : NULL;
}
