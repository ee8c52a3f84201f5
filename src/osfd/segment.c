/* SPDX-License-Identifier: MIT */
/* osfd/segment.c - segments from a raw socket; see segment.h */
#include "osfd/segment.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>

#include "ip/checksum.h"
#include "ip/ip.h"
#include "osfd/sockopt.h"

#define TCP_HEAD 20
#define TIMESTAMPS 12 /* two NOPs, and the option */
#define FLAGS_ACK 0x10
#define FLAGS_RST_ACK 0x14

/* A raw socket for IPv6 wants no port in its addresses. */
static void without_port(struct sockaddr_storage *ss)
{
	if (ss->ss_family == AF_INET6)
		((struct sockaddr_in6 *)ss)->sin6_port = 0;
	else
		((struct sockaddr_in *)ss)->sin_port = 0;
}

/* ::ffff:a.b.c.d is sent over IPv4. */
static void unmap(struct sockaddr_storage *ss)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;
	struct sockaddr_in in = { .sin_family = AF_INET };

	if (ss->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		return;
	memcpy(&in.sin_addr, in6->sin6_addr.s6_addr + 12, 4);
	memset(ss, 0, sizeof(*ss));
	memcpy(ss, &in, sizeof(in));
}

/* @seg: room for a header and the timestamps.  Return: the segment's length */
static uint32_t build(uint8_t seg[TCP_HEAD + TIMESTAMPS],
		      const struct connection *c, const struct frozen *f,
		      uint8_t flags)
{
	bool has_ts = f->options & FROZEN_TIMESTAMPS;
	uint32_t len = TCP_HEAD + (has_ts ? TIMESTAMPS : 0);
	uint32_t window = f->rcv_wup + f->rcv_wnd - f->rcv_nxt;
	struct ip_addr src, dst;

	memcpy(src.b, c->key.local, 16);
	memcpy(dst.b, c->key.peer, 16);
	memset(seg, 0, len);
	memcpy(seg, &c->key.local_port, 2);
	memcpy(seg + 2, &c->key.peer_port, 2);
	store_be32(seg + 4, f->snd_nxt);
	store_be32(seg + 8, f->rcv_nxt);
	seg[12] = (uint8_t)(len / 4 << 4);
	seg[13] = flags;
	if (f->options & FROZEN_WSCALE)
		window >>= f->rcv_wscale;
	store_be16(seg + 14, (uint16_t)MIN(window, (uint32_t)UINT16_MAX));
	if (has_ts) { /* nobody says what to echo; 0 is no echo */
		store_be32(seg + TCP_HEAD, 0x0101080a);
		store_be32(seg + TCP_HEAD + 4, f->timestamp);
	}
	struct cksum sum = ip_pseudo_sum(&src, &dst, IP_PROTO_TCP, len);
	cksum_add(&sum, seg, len);
	store_be16(seg + 16, cksum_end(&sum));
	return len;
}

static void send_segment(const struct connection *c, const uint8_t *seg,
			 uint32_t n)
{
	struct sockaddr_storage local = c->local, peer = c->peer;

	unmap(&local);
	unmap(&peer);
	without_port(&local);
	without_port(&peer);
	int raw = socket(peer.ss_family, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_TCP);
	if (raw < 0)
		return;
	socklen_t len = peer.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						   : sizeof(struct sockaddr_in);
	opt_set(raw, IPPROTO_IP, IP_FREEBIND, 1);
	if (bind(raw, (struct sockaddr *)&local, len) == 0)
		(void)sendto(raw, seg, n, MSG_DONTWAIT,
			     (struct sockaddr *)&peer, len);
	close(raw);
}

void reset_peer(int fd, const struct connection *c, const struct frozen *f)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	uint8_t seg[TCP_HEAD + TIMESTAMPS];

	opt_set(fd, SOL_TCP, TCP_REPAIR, TCP_REPAIR_ON);
	(void)connect(fd, &none, sizeof(none));
	opt_set(fd, SOL_TCP, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
	opt_set(fd, SOL_SOCKET, SO_DETACH_FILTER, 0);
	send_segment(c, seg, build(seg, c, f, FLAGS_RST_ACK));
}

void ack_peer(const struct connection *c, const struct frozen *f)
{
	uint8_t seg[TCP_HEAD + TIMESTAMPS];

	send_segment(c, seg, build(seg, c, f, FLAGS_ACK));
}
