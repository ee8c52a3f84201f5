/* SPDX-License-Identifier: MIT */
/*
 * tests/packetdrill/test_peer.c - the other end of the wire; see test_interface.h
 */
#include "test_interface.h"

#include <arpa/inet.h>

#include "ip/checksum.h"

#define PEER_ISS 7000u

void peer_send(struct peer *p, unsigned flags, uint32_t len)
{
	static uint8_t buf[4096];
	bool is_syn = flags & TCP_SYN;
	struct tcp_seg seg = { .sport = p->rport,
			       .dport = p->lport,
			       .seq = p->nxt,
			       .ack = flags & TCP_ACK ? p->una : (seq32){ 0 },
			       .flags = (uint8_t)flags,
			       .wnd = 60000,
			       .urg = flags & TCP_URG ? (uint16_t)len : 0,
			       .len = len,
			       .mss = is_syn ? 1000 : 0,
			       .is_sack_ok = is_syn,
			       .wscale = TCP_NO_WSCALE };
	uint32_t ip_len = ip_head_len(&p->remote);
	uint8_t *tcp = buf + ip_len;
	uint32_t head = tcp_head_build(tcp, &seg);
	struct cksum sum =
	    ip_pseudo_sum(&p->remote, &p->local, IP_PROTO_TCP, head + len);

	ip_build(buf, &p->remote, &p->local, IP_PROTO_TCP, 0, head + len);
	for (uint32_t i = 0; i < len; i++)
		tcp[head + i] = (uint8_t)('a' + i % 26);
	cksum_add(&sum, tcp, head + len);
	store_be16(tcp + 16, cksum_end(&sum));
	p->nxt = seq_add(p->nxt, seg_span(&seg));
	EXPECT_EQ(pd.netdev_send(U, buf, ip_len + head + len), 0);
}

/* The next packet, which must be the connection's. */
struct tcp_seg peer_receive(struct peer *p, long long *at_us)
{
	static uint8_t buf[65536];
	struct ip_packet ip;
	struct tcp_seg seg;
	size_t len = sizeof(buf);
	long long at;

	EXPECT_EQ(pd.netdev_receive(U, buf, &len, at_us ? at_us : &at), 0);
	EXPECT_EQ(ip_parse(buf, (uint32_t)len, &ip), 0);
	EXPECT_EQ(tcp_sum_is_good(&ip, buf + ip.l4_off), 1);
	EXPECT_EQ(tcp_head_parse(buf + ip.l4_off, ip.l4_len, &seg), 0);
	EXPECT_EQ(ip_addr_eq(&ip.dst, &p->remote), 1);
	EXPECT_EQ(seg.dport, p->rport);
	p->local = ip.src;
	if (!(seg.flags & TCP_RST))
		p->una = seq_add(seg.seq, seg_span(&seg));
	return seg;
}

long long now_us(void)
{
	struct timeval tv;

	EXPECT_EQ(pd.gettimeofday(U, &tv, NULL), 0);
	return tv.tv_sec * 1000000ll + tv.tv_usec;
}

struct sockaddr_in v4(const char *addr, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port) };

	EXPECT_EQ(inet_pton(AF_INET, addr, &a.sin_addr), 1);
	return a;
}

struct sockaddr_in6 v6(const char *addr, uint16_t port)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6,
				  .sin6_port = htons(port) };

	EXPECT_EQ(inet_pton(AF_INET6, addr, &a.sin6_addr), 1);
	return a;
}

int listen_v4(void)
{
	struct sockaddr_in a = v4(LOCAL, PORT);
	int on = 1, fd = pd.socket(U, AF_INET, SOCK_STREAM, IPPROTO_TCP);

	EXPECT_EQ(fd >= 0, 1);
	EXPECT_EQ(
	    pd.setsockopt(U, fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	EXPECT_EQ(pd.bind(U, fd, (struct sockaddr *)&a, sizeof(a)), 0);
	EXPECT_EQ(pd.listen(U, fd, 1), 0);
	return fd;
}

/* A peer opens a connection to the listener.  Return: what accept() gives. */
int serve(int listener, struct peer *p)
{
	static uint16_t rport = 20000;
	struct sockaddr_in from;
	socklen_t len = sizeof(from);

	*p = (struct peer){ .local = ip_addr_v4(0xc0a84d03),
			    .remote = ip_addr_v4(0xc0000201),
			    .lport = PORT,
			    .rport = rport++,
			    .nxt = { PEER_ISS } };
	peer_send(p, TCP_SYN, 0);
	struct tcp_seg seg = peer_receive(p, NULL);
	EXPECT_EQ(seg.flags, TCP_SYN | TCP_ACK);
	EXPECT_EQ(seg.ack.v, PEER_ISS + 1);
	EXPECT_EQ(seg.mss, 1460);
	peer_send(p, TCP_ACK, 0);
	int fd = pd.accept(U, listener, (struct sockaddr *)&from, &len);
	EXPECT_EQ(fd >= 0, 1);
	EXPECT_EQ(len, sizeof(from));
	EXPECT_EQ(ntohs(from.sin_port), p->rport);
	EXPECT_EQ(ntohl(from.sin_addr.s_addr), 0xc0000201);
	return fd;
}

/* A socket opens a connection to the peer. */
int call(struct peer *p)
{
	struct sockaddr_in a = v4("192.0.2.1", PORT);
	int fd = pd.socket(U, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	*p = (struct peer){ .local = ip_addr_v4(0xc0a84d03),
			    .remote = ip_addr_v4(0xc0000201),
			    .rport = PORT,
			    .nxt = { PEER_ISS } };
	EXPECT_ERR(pd.connect(U, fd, (struct sockaddr *)&a, sizeof(a)),
		   EINPROGRESS);
	struct tcp_seg seg = peer_receive(p, NULL);
	EXPECT_EQ(seg.flags, TCP_SYN);
	p->lport = seg.sport;
	EXPECT_ERR(pd.connect(U, fd, (struct sockaddr *)&a, sizeof(a)),
		   EALREADY);
	peer_send(p, TCP_SYN | TCP_ACK, 0);
	EXPECT_EQ(peer_receive(p, NULL).flags, TCP_ACK);
	EXPECT_EQ(pd.connect(U, fd, (struct sockaddr *)&a, sizeof(a)), 0);
	EXPECT_ERR(pd.connect(U, fd, (struct sockaddr *)&a, sizeof(a)),
		   EISCONN);
	return fd;
}
