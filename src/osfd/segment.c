/* SPDX-License-Identifier: MIT */
/* osfd/segment.c - segments from a raw socket; see segment.h */
#include "osfd/segment.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "ip/checksum.h"
#include "ip/ip.h"
#include "osfd/sockopt.h"

#define TCP_HEAD 20
#define TIMESTAMPS 12 /* two NOPs, and the option */
#define SEGMENT_MAX (TCP_HEAD + TIMESTAMPS + 1)
#define FLAGS_ACK 0x10
#define FLAGS_RST_ACK 0x14
#define FLAGS_FIN_ACK 0x11

/* An address of a raw socket, which has no port. */
static socklen_t raw_addr(const uint8_t addr[16], struct sockaddr_storage *ss)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ss;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;
	struct ip_addr a;

	memset(ss, 0, sizeof(*ss));
	memcpy(a.b, addr, 16);
	if (ip_addr_is_v4(&a)) {
		in->sin_family = AF_INET;
		memcpy(&in->sin_addr, addr + 12, 4);
		return sizeof(*in);
	}
	in6->sin6_family = AF_INET6;
	memcpy(&in6->sin6_addr, addr, 16);
	return sizeof(*in6);
}

/* Builds a segment.  @seg: room for a header, the timestamps and @n_bytes, which are 0.
 * @f: snd_nxt is the sequence number.  Return: the segment's length */
static uint32_t build(uint8_t seg[SEGMENT_MAX], const struct steer_key *k,
		      const struct frozen *f, uint8_t flags, uint32_t n_bytes)
{
	bool has_ts = f->options & FROZEN_TIMESTAMPS;
	uint32_t head = TCP_HEAD + (has_ts ? TIMESTAMPS : 0);
	uint32_t len = head + n_bytes;
	uint32_t window = f->rcv_wup + f->rcv_wnd - f->rcv_nxt;
	struct ip_addr src, dst;

	memcpy(src.b, k->local, 16);
	memcpy(dst.b, k->peer, 16);
	memset(seg, 0, len);
	memcpy(seg, &k->local_port, 2);
	memcpy(seg + 2, &k->peer_port, 2);
	store_be32(seg + 4, f->snd_nxt);
	store_be32(seg + 8, f->rcv_nxt);
	seg[12] = (uint8_t)(head / 4 << 4);
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

/* @scope: the device of a link-local address */
static void send_segment(const struct steer_key *k, uint32_t scope,
			 const struct frozen *f, uint8_t flags,
			 uint32_t n_bytes)
{
	uint8_t seg[SEGMENT_MAX];
	struct sockaddr_storage local, peer;
	socklen_t len = raw_addr(k->local, &local);
	uint32_t n = build(seg, k, f, flags, n_bytes);

	raw_addr(k->peer, &peer);
	if (peer.ss_family == AF_INET6) {
		((struct sockaddr_in6 *)&local)->sin6_scope_id = scope;
		((struct sockaddr_in6 *)&peer)->sin6_scope_id = scope;
	}
	int raw = socket(peer.ss_family, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_TCP);
	if (raw < 0)
		return;
	opt_set(raw, IPPROTO_IP, IP_FREEBIND, 1);
	if (bind(raw, (struct sockaddr *)&local, len) == 0)
		(void)sendto(raw, seg, n, MSG_DONTWAIT,
			     (struct sockaddr *)&peer, len);
	close(raw);
}

static uint32_t scope_of(const struct connection *c)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&c->peer;

	return in6->sin6_family == AF_INET6 ? in6->sin6_scope_id : 0;
}

void reset_peer(int fd, const struct connection *c, const struct frozen *f)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	opt_set(fd, SOL_TCP, TCP_REPAIR, TCP_REPAIR_ON);
	(void)connect(fd, &none, sizeof(none));
	opt_set(fd, SOL_TCP, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
	opt_set(fd, SOL_SOCKET, SO_DETACH_FILTER, 0);
	send_segment(&c->key, scope_of(c), f, FLAGS_RST_ACK, 0);
}

void ack_peer(const struct connection *c, const struct frozen *f)
{
	send_segment(&c->key, scope_of(c), f, FLAGS_ACK, 0);
}

void ask_peer(const struct connection *c, const struct frozen *f,
	      uint32_t n_unacked)
{
	struct frozen old = *f;

	old.snd_nxt -= n_unacked + 1;
	send_segment(&c->key, scope_of(c), &old, FLAGS_ACK, 1);
}

void wake_peer(const struct steer_key *key, uint32_t snd_nxt)
{
	struct frozen f = { .snd_nxt = snd_nxt - 1 };

	send_segment(key, 0, &f, FLAGS_ACK, 0);
}

/* A whole packet from the peer to us, without timestamps, which nobody knows. */
static uint32_t build_from_peer(uint8_t *p, const struct steer_key *k,
				const struct frozen *f, uint32_t ack,
				uint8_t flags)
{
	uint8_t *seg;
	struct ip_addr src, dst;

	memcpy(src.b, k->peer, 16);
	memcpy(dst.b, k->local, 16);
	uint32_t ip_len = ip_build(p, &src, &dst, IP_PROTO_TCP, 0, TCP_HEAD);
	seg = p + ip_len;
	memset(seg, 0, TCP_HEAD);
	memcpy(seg, &k->peer_port, 2);
	memcpy(seg + 2, &k->local_port, 2);
	store_be32(seg + 4, f->rcv_nxt);
	store_be32(seg + 8, ack);
	seg[12] = TCP_HEAD / 4 << 4;
	seg[13] = flags;
	store_be16(seg + 14,
		   (uint16_t)MIN(f->snd_wnd >> f->snd_wscale, 65535u));
	struct cksum sum = ip_pseudo_sum(&src, &dst, IP_PROTO_TCP, TCP_HEAD);
	cksum_add(&sum, seg, TCP_HEAD);
	store_be16(seg + 16, cksum_end(&sum));
	return ip_len + TCP_HEAD;
}

static void send_from_peer(const struct connection *c, const struct frozen *f,
			   uint32_t n_unacked, uint8_t flags)
{
	uint8_t packet[IPV6_HEAD + TCP_HEAD];
	struct sockaddr_storage to;
	socklen_t len = raw_addr(c->key.local, &to);
	bool is_v6 = to.ss_family == AF_INET6;
	uint32_t n =
	    build_from_peer(packet, &c->key, f, f->snd_nxt - n_unacked, flags);

	if (is_v6)
		((struct sockaddr_in6 *)&to)->sin6_scope_id = scope_of(c);
	int raw = socket(to.ss_family, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
	if (raw < 0)
		return;
	opt_set(raw, is_v6 ? IPPROTO_IPV6 : IPPROTO_IP,
		is_v6 ? IPV6_HDRINCL : IP_HDRINCL, 1);
	/* If bind() fails, the address no longer belongs to this host.  A segment with the
	 * peer's address as its source must not leave for the host that has the address
	 * now. */
	if (bind(raw, (struct sockaddr *)&to, len) == 0)
		(void)sendto(raw, packet, n, MSG_DONTWAIT,
			     (struct sockaddr *)&to, len);
	close(raw);
}

void end_by_peer(const struct connection *c, const struct frozen *f,
		 uint32_t n_unacked)
{
	send_from_peer(c, f, n_unacked,
		       f->flags & FROZEN_PEER_RESET ? FLAGS_RST_ACK
						    : FLAGS_FIN_ACK);
}

void window_by_peer(const struct connection *c, const struct frozen *f,
		    uint32_t n_unacked)
{
	send_from_peer(c, f, n_unacked, FLAGS_ACK);
}
