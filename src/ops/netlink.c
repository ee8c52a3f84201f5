/* SPDX-License-Identifier: MIT */
/* ops/netlink.c - see ops/netlink.h */
#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdalign.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fds.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "ops/netlink.h"

#ifndef SOL_NETLINK
#define SOL_NETLINK 270
#endif

static const int groups[] = {
	RTNLGRP_LINK,       RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR,
	RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE,  RTNLGRP_IPV4_RULE,
	RTNLGRP_IPV6_RULE,  RTNLGRP_NEXTHOP,
};

int netlink_open(void)
{
	int fd = libc.socket(
	    AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);

	return fd < 0 ? -errno : fds_hide(fd);
}

int netlink_listen(void)
{
	struct sockaddr_nl any = { .nl_family = AF_NETLINK };
	int fd = netlink_open();

	if (fd < 0)
		return fd;
	if (libc.bind(fd, (struct sockaddr *)&any, sizeof(any)) < 0) {
		int err = -errno;

		fds_close(fd);
		return err;
	}
	/* An older kernel lacks the last group. */
	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		libc.setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP,
				&groups[i], sizeof(groups[i]));
	return fd;
}

/* A request, and room for its attributes. */
struct request {
	struct nlmsghdr h;
	struct rtmsg m;
	char attrs[96];
};

static void put(struct request *r, uint16_t type, const void *data, size_t len)
{
	struct rtattr *a = (struct rtattr *)((char *)r + r->h.nlmsg_len);

	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(len);
	memcpy(RTA_DATA(a), data, len);
	r->h.nlmsg_len += (uint32_t)RTA_ALIGN(a->rta_len);
}

static bool is_v4(const struct in6_addr *a) { return IN6_IS_ADDR_V4MAPPED(a); }

static void put_addr(struct request *r, uint16_t type, const struct in6_addr *a)
{
	if (is_v4(a))
		put(r, type, &a->s6_addr[12], 4);
	else
		put(r, type, a, 16);
}

static void request_fill(struct request *r, const struct route_key *key)
{
	bool v4 = is_v4(&key->to);
	uint8_t bits = v4 ? 32 : 128;
	bool has_from =
	    !IN6_IS_ADDR_UNSPECIFIED(&key->from) && is_v4(&key->from) == v4;

	*r = (struct request){
		.h = { .nlmsg_len = NLMSG_LENGTH(sizeof(r->m)),
		       .nlmsg_type = RTM_GETROUTE,
		       .nlmsg_flags = NLM_F_REQUEST,
		       .nlmsg_seq = 1 },
		.m = { .rtm_family = v4 ? AF_INET : AF_INET6,
		       .rtm_dst_len = bits,
		       .rtm_src_len = has_from ? bits : 0 },
	};
	put_addr(r, RTA_DST, &key->to);
	if (has_from)
		put_addr(r, RTA_SRC, &key->from);
	if (key->oif)
		put(r, RTA_OIF, &key->oif, sizeof(key->oif));
	if (key->mark)
		put(r, RTA_MARK, &key->mark, sizeof(key->mark));
}

/* An address of @len bytes as struct osf_route has it; others are left out. */
static void copy_addr(uint8_t to[16], const void *from, size_t len)
{
	if (len == 16) {
		memcpy(to, from, 16);
	} else if (len == 4) {
		memset(to, 0, 10);
		memset(to + 10, 0xff, 2);
		memcpy(to + 12, from, 4);
	}
}

static void read_attr(const struct rtattr *a, struct osf_route *out)
{
	const char *data = RTA_DATA(a);
	size_t len = RTA_PAYLOAD(a);

	switch (a->rta_type & NLA_TYPE_MASK) {
	case RTA_OIF:
		if (len >= sizeof(out->ifindex))
			memcpy(&out->ifindex, data, sizeof(out->ifindex));
		break;
	case RTA_PREFSRC:
		copy_addr(out->source, data, len);
		break;
	case RTA_VIA: /* a family, then an address of it */
		if (len <= sizeof(sa_family_t))
			break;
		data += sizeof(sa_family_t);
		len -= sizeof(sa_family_t);
		/* fallthrough */
	case RTA_GATEWAY:
		if (out->kind == OSF_ROUTE_LINK)
			out->kind = OSF_ROUTE_GATEWAY;
		copy_addr(out->hop, data, len);
		break;
	default:
		break;
	}
}

static uint32_t kind_of(uint8_t type)
{
	switch (type) {
	case RTN_LOCAL:
	case RTN_ANYCAST:
		return OSF_ROUTE_LOCAL;
	case RTN_UNICAST:
		return OSF_ROUTE_LINK; /* until a gateway is met */
	default:
		return OSF_ROUTE_NONE;
	}
}

static void read_route(const struct nlmsghdr *h, const struct route_key *key,
		       struct osf_route *out)
{
	const struct rtmsg *m = NLMSG_DATA(h);
	int len = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof(*m)));

	out->kind = kind_of(m->rtm_type);
	memcpy(out->hop, &key->to, sizeof(out->hop));
	for (struct rtattr *a = RTM_RTA(m); RTA_OK(a, len);
	     a = RTA_NEXT(a, len))
		read_attr(a, out);
}

/* 0, -EAGAIN for a message that is not an answer, or the kernel's error. */
static int read_answer(const struct nlmsghdr *h, const struct route_key *key,
		       struct osf_route *out)
{
	const struct nlmsgerr *e = NLMSG_DATA(h);

	if (h->nlmsg_type == RTM_NEWROUTE &&
	    h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct rtmsg))) {
		read_route(h, key, out);
		return 0;
	}
	if (h->nlmsg_type != NLMSG_ERROR ||
	    h->nlmsg_len < NLMSG_LENGTH(sizeof(*e)))
		return -EAGAIN;
	switch (e->error) {
	case -ENETUNREACH:
	case -EHOSTUNREACH:
	case -EACCES: /* a route or a rule that prohibits */
	case -EINVAL: /* one that drops */
	case -ENODEV:
		return 0;
	default:
		return e->error ? e->error : -EPROTO;
	}
}

static int ask(int fd, const struct route_key *key, struct osf_route *out)
{
	alignas(struct nlmsghdr) char buf[4096];
	struct request r;
	int err = -EAGAIN;

	request_fill(&r, key);
	if (nocancel_send(fd, &r, r.h.nlmsg_len, 0) < 0)
		return -errno;
	while (err == -EAGAIN) { /* the kernel answers inside send() */
		ssize_t n = nocancel_recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		struct nlmsghdr *h = (struct nlmsghdr *)buf;

		if (n < 0)
			return errno == EAGAIN ? -EPROTO : -errno;
		for (; err == -EAGAIN && NLMSG_OK(h, (size_t)n);
		     h = NLMSG_NEXT(h, n))
			err = read_answer(h, key, out);
	}
	return err;
}

static bool is_own(int fd, const struct in6_addr *addr)
{
	struct route_key key = { .to = *addr };
	struct osf_route r = { 0 };

	return !ask(fd, &key, &r) && r.kind == OSF_ROUTE_LOCAL;
}

int netlink_route(int fd, const struct route_key *key, struct osf_route *out)
{
	struct osf_route found = { .size = out->size };
	struct route_key any = *key;
	int err = ask(fd, key, &found);

	/* With IP_FREEBIND the source may be an address that this host lacks.
	 * The kernel sends from it, but does not answer for it. */
	if (!err && found.kind == OSF_ROUTE_NONE &&
	    !IN6_IS_ADDR_UNSPECIFIED(&key->from) && !is_own(fd, &key->from)) {
		any.from = in6addr_any;
		err = ask(fd, &any, &found);
	}
	if (!err)
		*out = found;
	return err;
}

/* What may be sent to: known, if maybe not for long (NUD_STALE). */
#define NUD_USABLE                                                             \
	(NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_STALE | NUD_DELAY |   \
	 NUD_PROBE)

struct neigh_request {
	struct nlmsghdr h;
	struct ndmsg m;
	struct rtattr dst;
	uint8_t addr[16];
};

static int read_neigh(const struct nlmsghdr *h, uint8_t mac[6])
{
	const struct ndmsg *m = NLMSG_DATA(h);
	int len = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof(*m)));

	if (h->nlmsg_type != RTM_NEWNEIGH ||
	    h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)) ||
	    !(m->ndm_state & NUD_USABLE))
		return -EAGAIN;
	for (const struct rtattr *a =
		 (const struct rtattr *)((const char *)m +
					 NLMSG_ALIGN(sizeof(*m)));
	     RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type != NDA_LLADDR || RTA_PAYLOAD(a) != 6)
			continue;
		memcpy(mac, RTA_DATA(a), 6);
		return 0;
	}
	return -EAGAIN;
}

int netlink_neigh(int fd, uint32_t ifindex, const struct in6_addr *addr,
		  uint8_t mac[6])
{
	alignas(struct nlmsghdr) char buf[4096];
	uint16_t bytes = is_v4(addr) ? 4 : 16;
	struct neigh_request r = {
		.h = { .nlmsg_len = (uint32_t)NLMSG_LENGTH(sizeof(r.m)) +
				    RTA_LENGTH(bytes),
		       .nlmsg_type = RTM_GETNEIGH,
		       .nlmsg_flags = NLM_F_REQUEST,
		       .nlmsg_seq = 1 },
		.m = { .ndm_family = is_v4(addr) ? AF_INET : AF_INET6,
		       .ndm_ifindex = (int)ifindex },
		.dst = { .rta_len = (uint16_t)RTA_LENGTH(bytes),
			 .rta_type = NDA_DST },
	};

	memcpy(r.addr, addr->s6_addr + 16 - bytes, bytes);
	if (nocancel_send(fd, &r, r.h.nlmsg_len, 0) < 0)
		return -errno;
	ssize_t n = nocancel_recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	const struct nlmsghdr *h = (const struct nlmsghdr *)buf;
	if (n < 0)
		return -errno;
	return NLMSG_OK(h, (size_t)n) ? read_neigh(h, mac) : -EPROTO;
}

/* The device of a route: of its first hop where it has several. */
static uint32_t route_ifindex(const struct nlmsghdr *h)
{
	const struct rtmsg *m = NLMSG_DATA(h);
	int len = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof(*m)));
	uint32_t ifindex = 0;

	for (struct rtattr *a = RTM_RTA(m); RTA_OK(a, len);
	     a = RTA_NEXT(a, len)) {
		const struct rtnexthop *hop = RTA_DATA(a);

		if (a->rta_type == RTA_OIF && RTA_PAYLOAD(a) >= sizeof(ifindex))
			memcpy(&ifindex, RTA_DATA(a), sizeof(ifindex));
		else if (a->rta_type == RTA_MULTIPATH && !ifindex &&
			 RTA_PAYLOAD(a) >= sizeof(*hop))
			ifindex = (uint32_t)hop->rtnh_ifindex;
	}
	return ifindex;
}

/* Is the message long enough to have @bytes behind its header? */
static bool has(const struct nlmsghdr *h, size_t bytes)
{
	return h->nlmsg_len >= NLMSG_LENGTH(bytes);
}

static void addr_event(const struct nlmsghdr *h, struct osf_inet_event *out)
{
	const struct ifaddrmsg *m = NLMSG_DATA(h);

	if (!has(h, sizeof(*m)))
		return;
	out->ifindex = m->ifa_index;
	out->family = m->ifa_family;
}

static void link_event(const struct nlmsghdr *h, struct osf_inet_event *out)
{
	const struct ifinfomsg *m = NLMSG_DATA(h);

	if (has(h, sizeof(*m)))
		out->ifindex = (uint32_t)m->ifi_index;
}

/* Routes, rules and next hops: the family is their first byte. */
static void route_event(const struct nlmsghdr *h, struct osf_inet_event *out)
{
	const uint8_t *family = NLMSG_DATA(h);
	bool is_route =
	    h->nlmsg_type == RTM_NEWROUTE || h->nlmsg_type == RTM_DELROUTE;

	if (has(h, 1))
		out->family = *family;
	if (is_route && has(h, sizeof(struct rtmsg)))
		out->ifindex = route_ifindex(h);
}

bool netlink_event(const struct nlmsghdr *h, struct osf_inet_event *out)
{
	*out = (struct osf_inet_event){ .size = sizeof(*out) };
	switch (h->nlmsg_type) {
	case RTM_NEWADDR:
	case RTM_DELADDR:
		out->kind = h->nlmsg_type == RTM_NEWADDR ? OSF_INET_ADDR_ADD
							 : OSF_INET_ADDR_DEL;
		addr_event(h, out);
		return true;
	case RTM_NEWLINK:
	case RTM_DELLINK:
		out->kind = OSF_INET_LINK;
		link_event(h, out);
		return true;
	case RTM_NEWRULE:
	case RTM_DELRULE:
		out->kind = OSF_INET_RULE;
		route_event(h, out);
		return true;
	case RTM_NEWROUTE:
	case RTM_DELROUTE:
	case RTM_NEWNEXTHOP:
	case RTM_DELNEXTHOP:
		out->kind = OSF_INET_ROUTE;
		route_event(h, out);
		return true;
	default:
		return false;
	}
}
