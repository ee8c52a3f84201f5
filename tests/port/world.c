/* SPDX-License-Identifier: MIT */
/* tests/port/world.c - two network namespaces and a veth pair; see world.h */
#include "world.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "osfd/steer.h"

#define TCX_INGRESS 46

static const char *const device[] = { "va", "vb" };

static void die(const char *what)
{
	perror(what);
	exit(1);
}

void must_run(const char *fmt, ...)
{
	char cmd[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	fflush(NULL);
	if (system(cmd) != 0) {
		fprintf(stderr, "failed: %s\n", cmd);
		exit(1);
	}
}

static int new_namespace(void)
{
	if (unshare(CLONE_NEWNET) < 0) {
		printf("skip: no network namespace can be made: %s\n",
		       strerror(errno));
		exit(77);
	}
	int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die("/proc/self/ns/net");
	return fd;
}

void world_enter(const struct world *w, enum place where)
{
	if (setns(w->ns[where], CLONE_NEWNET) < 0)
		die("setns");
}

static void learn_device(struct world *w, enum place where)
{
	struct ifreq req = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strcpy(req.ifr_name, device[where]);
	if (fd < 0 || ioctl(fd, SIOCGIFHWADDR, &req) < 0)
		die("SIOCGIFHWADDR");
	memcpy(w->mac[where], req.ifr_hwaddr.sa_data, 6);
	w->ifindex[where] = (int)if_nametoindex(device[where]);
	close(fd);
}

/* An old kernel, or no right to load BPF programs, is no failure of ours. */
static void must_steer(const struct world *w)
{
	struct steer s;
	int err = steer_open(&s, w->ifindex[HERE], 1);

	if (err == -EOPNOTSUPP || err == -EPERM) {
		printf("skip: no BPF programs on tcx (Linux 6.6, root): %s\n",
		       strerror(-err));
		exit(77);
	}
	if (!err)
		steer_close(&s);
}

void world_open(struct world *w)
{
	w->ns[HERE] = new_namespace();
	w->ns[THERE] = new_namespace();
	world_enter(w, HERE);
	must_run("ip link add va type veth peer name vb netns /proc/%d/fd/%d",
		 getpid(), w->ns[THERE]);
	for (enum place at = HERE; at <= THERE; at++) {
		world_enter(w, at);
		must_run("ip link set lo up && ip addr add 10.9.0.%d/24 dev %s "
			 "&& ip addr add fd09::%d/64 dev %s nodad && "
			 "ip link set %s up",
			 at + 1, device[at], at + 1, device[at], device[at]);
		learn_device(w, at);
	}
	/* The neighbours know each other, so that no test waits for that. */
	for (enum place at = HERE; at <= THERE; at++) {
		const uint8_t *m = w->mac[!at];
		world_enter(w, at);
		for (int v6 = 0; v6 < 2; v6++)
			must_run("ip neigh replace %s%d dev %s lladdr "
				 "%02x:%02x:%02x:%02x:%02x:%02x",
				 v6 ? "fd09::" : "10.9.0.", !at + 1, device[at],
				 m[0], m[1], m[2], m[3], m[4], m[5]);
	}
	world_enter(w, HERE);
	must_steer(w);
}

struct sockaddr_storage world_addr(enum place where, bool is_v6, uint16_t port)
{
	struct sockaddr_storage ss = { 0 };
	struct sockaddr_in *in = (void *)&ss;
	struct sockaddr_in6 *in6 = (void *)&ss;

	if (is_v6) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		inet_pton(AF_INET6, where == HERE ? "fd09::1" : "fd09::2",
			  &in6->sin6_addr);
	} else {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		inet_pton(AF_INET, where == HERE ? "10.9.0.1" : "10.9.0.2",
			  &in->sin_addr);
	}
	return ss;
}

socklen_t addr_len(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					: sizeof(struct sockaddr_in);
}

void pair_open(const struct world *w, bool is_v6, enum place client,
	       struct pair *p)
{
	struct sockaddr_storage at = world_addr(!client, is_v6, 0);
	socklen_t len = addr_len(&at), size = sizeof(p->local);
	int family = at.ss_family;

	world_enter(w, !client);
	int l = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (l < 0 || bind(l, (void *)&at, len) < 0 || listen(l, 1) < 0 ||
	    getsockname(l, (void *)&at, &len) < 0)
		die("listen");
	world_enter(w, client);
	p->end[client] = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (p->end[client] < 0 || connect(p->end[client], (void *)&at, len) < 0)
		die("connect");
	p->end[!client] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	if (p->end[!client] < 0 ||
	    getsockname(p->end[HERE], (void *)&p->local, &size) < 0)
		die("accept");
	size = sizeof(p->peer);
	if (getpeername(p->end[HERE], (void *)&p->peer, &size) < 0)
		die("getpeername");
	close(l);
}

void pair_close(struct pair *p)
{
	close(p->end[HERE]);
	close(p->end[THERE]);
}

static unsigned tcx_ids(const struct world *w, uint32_t *ids, uint32_t max)
{
	uint32_t n = max, flags = 0;

	world_enter(w, HERE);
	if (bpf_prog_query(w->ifindex[HERE], (enum bpf_attach_type)TCX_INGRESS,
			   0, &flags, ids, &n) < 0)
		die("bpf_prog_query");
	return n;
}

unsigned n_tcx(const struct world *w)
{
	uint32_t ids[64];

	return tcx_ids(w, ids, ARRAY_LEN(ids));
}

uint32_t tcx_verified(const struct world *w)
{
	struct bpf_prog_info info = { 0 };
	uint32_t id, len = sizeof(info);

	if (tcx_ids(w, &id, 1) != 1)
		die("not one tcx program");
	int fd = bpf_prog_get_fd_by_id(id);
	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		die("bpf_obj_get_info_by_fd");
	close(fd);
	return info.verified_insns;
}

bool port_wait(struct packet_port *p, struct packet_frame *out)
{
	uint64_t end = now_ns() + 5 * NS_PER_S;

	while (!packet_rx(p, out)) {
		struct pollfd pfd = { .fd = p->fd, .events = POLLIN };

		if (now_ns() > end || poll(&pfd, 1, 1000) < 0)
			return false;
	}
	return true;
}
