/* SPDX-License-Identifier: MIT */
/*
 * osfd/beyond.c - see beyond.h
 *
 * The netlink sockets stay open, because opening one takes longer than asking.  The kernel
 * sends an answer to the socket that asked, where any process that has the socket could
 * read it.  So a forked process opens sockets of its own.  It does not close the inherited
 * numbers, because by then they may belong to other descriptors.
 */
#include "osfd/beyond.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/sock_diag.h>
#include <linux/xfrm.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "osfd/msg.h"
#include "osfd/sockopt.h"

/* Newer than some headers. */
#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif
#define AO_INFO 40
#define AO_INFO_BYTES 128
#define DIAG_MD5SIG 18

#define ANSWER_BYTES 8192
#define NETLINK_MAX 32 /* protocols; MAX_LINKS of the kernel */
#define NAT_BITS (IPS_SRC_NAT | IPS_DST_NAT)

union packet {
	char bytes[ANSWER_BYTES];
	struct nlmsghdr head;
};

static struct nlmsghdr *question(union packet *p, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(p->bytes);

	h->nlmsg_type = type;
	h->nlmsg_flags = NLM_F_REQUEST | flags;
	return h;
}

/* Return: a netlink socket of this process, or a negative errno */
static int socket_of(int protocol)
{
	static struct {
		int fd;
		pid_t owner;
	} open_at[NETLINK_MAX];
	pid_t self = getpid();

	if (open_at[protocol].owner == self)
		return open_at[protocol].fd;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	if (fd < 0)
		return -errno;
	open_at[protocol].fd = fd;
	open_at[protocol].owner = self;
	return fd;
}

/*
 * Asks the kernel, and reads its answer into the same packet.
 *
 * Return: 0; -ENOENT: there is no such thing, or the kernel lacks the part that would know
 * it; or another errno
 */
static int ask(int protocol, union packet *p)
{
	static uint32_t n_asked;
	int fd = socket_of(protocol);

	if (fd < 0)
		return fd == -EPROTONOSUPPORT ? -ENOENT : fd;
	uint32_t seq = p->head.nlmsg_seq = ++n_asked;
	if (send(fd, p, p->head.nlmsg_len, 0) < 0)
		return -errno;
	do { /* what is left of a question before */
		ssize_t n = recv(fd, p, sizeof(*p), 0);
		if (n < 0)
			return -errno;
		if (!mnl_nlmsg_ok(&p->head, (int)n))
			return -EPROTO;
	} while (p->head.nlmsg_seq != seq);
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(&p->head);
	return p->head.nlmsg_type == NLMSG_ERROR ? e->error : 0;
}

/* The first attribute of a kind behind a message's own head, or NULL. */
static const struct nlattr *attr_of(const union packet *p, unsigned head,
				    uint16_t type)
{
	const struct nlattr *a;

	mnl_attr_for_each(a, &p->head,
			  head) if (mnl_attr_get_type(a) == type) return a;
	return NULL;
}

/*
 * Conntrack.
 */

static struct nlmsghdr *about_flow(union packet *p, uint16_t type,
				   uint16_t flags, const struct steer_key *k)
{
	bool v4 = steer_is_v4(k->local);
	struct nlmsghdr *h =
	    question(p, (uint16_t)(NFNL_SUBSYS_CTNETLINK << 8 | type), flags);
	struct nfgenmsg *nf = mnl_nlmsg_put_extra_header(h, sizeof(*nf));

	nf->nfgen_family = v4 ? AF_INET : AF_INET6;
	nf->version = NFNETLINK_V0;
	struct nlattr *tuple = mnl_attr_nest_start(h, CTA_TUPLE_ORIG);
	struct nlattr *ip = mnl_attr_nest_start(h, CTA_TUPLE_IP);
	unsigned at = v4 ? 12 : 0;
	mnl_attr_put(h, v4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, 16 - at,
		     k->local + at);
	mnl_attr_put(h, v4 ? CTA_IP_V4_DST : CTA_IP_V6_DST, 16 - at,
		     k->peer + at);
	mnl_attr_nest_end(h, ip);
	struct nlattr *proto = mnl_attr_nest_start(h, CTA_TUPLE_PROTO);
	mnl_attr_put_u8(h, CTA_PROTO_NUM, IPPROTO_TCP);
	mnl_attr_put_u16(h, CTA_PROTO_SRC_PORT, k->local_port);
	mnl_attr_put_u16(h, CTA_PROTO_DST_PORT, k->peer_port);
	mnl_attr_nest_end(h, proto);
	mnl_attr_nest_end(h, tuple);
	return h;
}

static int be_liberal(const struct steer_key *k)
{
	static const struct nf_ct_tcp_flags liberal = {
		.flags = IP_CT_TCP_FLAG_BE_LIBERAL,
		.mask = IP_CT_TCP_FLAG_BE_LIBERAL,
	};
	union packet p;
	struct nlmsghdr *h = about_flow(&p, IPCTNL_MSG_CT_NEW, NLM_F_ACK, k);
	struct nlattr *info = mnl_attr_nest_start(h, CTA_PROTOINFO);
	struct nlattr *tcp = mnl_attr_nest_start(h, CTA_PROTOINFO_TCP);

	mnl_attr_put(h, CTA_PROTOINFO_TCP_FLAGS_ORIGINAL, sizeof(liberal),
		     &liberal);
	mnl_attr_put(h, CTA_PROTOINFO_TCP_FLAGS_REPLY, sizeof(liberal),
		     &liberal);
	mnl_attr_nest_end(h, tcp);
	mnl_attr_nest_end(h, info);
	int err = ask(NETLINK_NETFILTER, &p);
	return err == -ENOENT ? 0 : err;
}

/* A kernel without ctnetlink says EINVAL. */
static int check_conntrack(const struct steer_key *k, struct refusal *why)
{
	union packet p;

	about_flow(&p, IPCTNL_MSG_CT_GET, 0, k);
	int err = ask(NETLINK_NETFILTER, &p);
	if (err)
		return err == -ENOENT || err == -EINVAL ? 0 : err;
	const struct nlattr *status =
	    attr_of(&p, sizeof(struct nfgenmsg), CTA_STATUS);
	if (status && ntohl(mnl_attr_get_u32(status)) & NAT_BITS) {
		refuse(why, "conntrack translates its addresses");
		return -MSG_E_NAT;
	}
	return be_liberal(k);
}

/*
 * IPsec.
 */

static int check_ipsec(struct refusal *why)
{
	union packet p;
	struct xfrmu_spdinfo n;

	struct nlmsghdr *h = question(&p, XFRM_MSG_GETSPDINFO, 0);
	mnl_nlmsg_put_extra_header(h, sizeof(uint32_t));
	int err = ask(NETLINK_XFRM, &p);
	if (err)
		return err == -ENOENT ? 0 : err;
	const struct nlattr *info =
	    attr_of(&p, sizeof(uint32_t), XFRMA_SPD_INFO);
	if (!info || mnl_attr_get_payload_len(info) < sizeof(n))
		return -EPROTO;
	memcpy(&n, mnl_attr_get_payload(info), sizeof(n));
	if (!n.incnt && !n.outcnt && !n.inscnt && !n.outscnt)
		return 0;
	refuse(why, "IPsec has policies in this network namespace");
	return -MSG_E_IPSEC;
}

/*
 * Signatures.
 */

static int has_md5(int fd, const struct steer_key *k)
{
	bool v4 = steer_is_v4(k->local);
	unsigned at = v4 ? 12 : 0;
	union packet p;

	struct nlmsghdr *h = question(&p, SOCK_DIAG_BY_FAMILY, 0);
	struct inet_diag_req_v2 *r = mnl_nlmsg_put_extra_header(h, sizeof(*r));
	r->sdiag_family = v4 ? AF_INET : AF_INET6;
	r->sdiag_protocol = IPPROTO_TCP;
	r->idiag_ext = 1 << (INET_DIAG_INFO - 1); /* keys come with that */
	r->id.idiag_sport = k->local_port;
	r->id.idiag_dport = k->peer_port;
	memcpy(r->id.idiag_src, k->local + at, 16 - at);
	memcpy(r->id.idiag_dst, k->peer + at, 16 - at);
	r->id.idiag_if = (uint32_t)opt_get(fd, SOL_SOCKET, SO_BINDTOIFINDEX);
	r->id.idiag_cookie[0] = r->id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	int err = ask(NETLINK_SOCK_DIAG, &p);
	if (err)
		return err == -ENOENT ? 0 : err;
	return attr_of(&p, sizeof(struct inet_diag_msg), DIAG_MD5SIG) != NULL;
}

static bool has_ao(int fd)
{
	char info[AO_INFO_BYTES] = { 0 };
	socklen_t len = sizeof(info);

	return getsockopt(fd, SOL_TCP, AO_INFO, info, &len) == 0;
}

static int check_signature(int fd, const struct steer_key *k,
			   struct refusal *why)
{
	int has = has_ao(fd) ? 1 : has_md5(fd, k);

	if (has <= 0)
		return has;
	refuse(why, "its segments are signed");
	return -MSG_E_SIGNED;
}

int beyond_check(int fd, const struct connection *c, struct refusal *why)
{
	int err = check_ipsec(why);

	if (!err)
		err = check_signature(fd, &c->key, why);
	if (!err)
		err = check_conntrack(&c->key, why);
	if (err && !why->text[0])
		refuse(why, "netlink does not say what else it has: %s",
		       strerror(-err));
	return err;
}
