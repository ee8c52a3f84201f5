/* SPDX-License-Identifier: MIT */
/*
 * rdma/wire_group.c - datagrams of other hosts to groups
 *
 * A group of the device is a multicast group of IP: its GID is the address.  A process has
 * a socket for each group that it is a member of, bound to the group's address.  The kernel
 * gives every such socket of the host a copy, so no process has to forward packets.  The
 * sockets that all processes share get no copy (IP_MULTICAST_ALL).  What this host sends
 * does not come back (IP_MULTICAST_LOOP), because members on this host have it already
 * (mcast.c).
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/libc.h"
#include "rdma/mcast.h"
#include "rdma/wire_in.h"

/* Under rx_lock. */
static struct group {
	union ibv_gid gid;
	int fd;
	uint32_t n; /* members in this process; 0: none */
} groups[N_MCASTS];

static struct group *find(const union ibv_gid *gid)
{
	for (uint32_t i = 0; i < N_MCASTS; i++)
		if (gid ? groups[i].n &&
			      !memcmp(&groups[i].gid, gid, sizeof(*gid))
			: !groups[i].n)
			return &groups[i];
	return NULL;
}

static int join(int fd, const struct roce_flow *f)
{
	struct ip_mreqn v4 = { .imr_ifindex = (int)wire.ifindex };
	struct ipv6_mreq v6 = { .ipv6mr_interface = wire.ifindex };

	memcpy(&v4.imr_multiaddr, f->dst, 4);
	memcpy(&v6.ipv6mr_multiaddr, f->dst, 16);
	return f->is_v6 ? libc.setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP,
					  &v6, sizeof(v6))
			: libc.setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP,
					  &v4, sizeof(v4));
}

/* The descriptor, or -1. */
static int open_group(const union ibv_gid *gid)
{
	struct sockaddr_storage ss;
	struct epoll_event ev = { .events = EPOLLIN };
	struct roce_flow f;
	int fd = -1;

	if (wire.group_set < 0)
		wire.group_set = libc.epoll_create1(EPOLL_CLOEXEC);
	if (wire.group_set < 0 || !wire_flow(gid, gid, &f))
		return -1;
	socklen_t len = wire_sockaddr(f.dst, f.is_v6, &ss);
	fd = wire_bind(&ss, len, wire_share);
	if (fd < 0)
		return -1;
	ev.data.fd = fd;
	if (!join(fd, &f) &&
	    !libc.epoll_ctl(wire.group_set, EPOLL_CTL_ADD, fd, &ev))
		return fd;
	libc.close(fd);
	return -1;
}

void wire_group_join(const union ibv_gid *gid)
{
	if (device_is_alone() || wire_open())
		return;
	GUARD(&wire.rx_lock);
	struct group *g = find(gid);
	if (!g) {
		int fd = open_group(gid);

		g = fd < 0 ? NULL : find(NULL);
		if (!g && fd >= 0)
			libc.close(fd);
		if (!g)
			return;
		*g = (struct group){ .gid = *gid, .fd = fd };
		wire_helper_wake(); /* it sleeps without the set */
	}
	g->n++;
}

void wire_group_leave(const union ibv_gid *gid)
{
	GUARD(&wire.rx_lock);
	struct group *g = find(gid);

	if (g && !--g->n)
		libc.close(g->fd);
}

void wire_group_after_fork(void)
{
	for (uint32_t i = 0; i < N_MCASTS; i++)
		if (groups[i].n)
			libc.close(groups[i].fd);
	memset(groups, 0, sizeof(groups));
}
