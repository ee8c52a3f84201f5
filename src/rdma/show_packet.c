/* SPDX-License-Identifier: MIT */
/*
 * rdma/show_packet.c - the tap of this process; see rdma/show.h
 *
 * A frame is Ethernet's header without addresses, as on a loopback interface, then IP, UDP and the
 * packet.
 */
#include <endian.h>
#include <errno.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <string.h>

#include "base/libc.h"
#include "ip/checksum.h"
#include "port/tap.h"
#include "rdma/show.h"

#define DEVICE "osf0"

#define HEAD_MAX                                                               \
	(sizeof(struct ether_header) + sizeof(struct ip6_hdr) +                \
	 sizeof(struct udphdr))

static const uint64_t never;
const uint64_t *show_until = &never;

static struct {
	struct lock lock;
	struct tap tap;
	bool is_on;
	uint32_t n_times; /* that somebody began to read */
} show = { .tap = TAP_NONE };

void show_open(void)
{
	int saved = errno;

	if (!tap_open(&show.tap, DEVICE, program_invocation_short_name))
		show_until = &show.tap.head->until_ns;
	errno = saved;
}

void show_after_fork(void)
{
	show_until = &never;
	show.lock = (struct lock){ 0 };
	show.is_on = false;
	if (show.tap.fd >= 0)
		libc.close(show.tap.fd);
	show.tap = TAP_NONE;
}

uint32_t show_begin(void)
{
	GUARD(&show.lock);
	bool is_on = show.tap.head && tap_is_due(&show.tap);

	if (is_on && !show.is_on)
		show.n_times += 1 + (show.n_times == UINT32_MAX);
	show.is_on = is_on;
	return is_on ? show.n_times : 0;
}

/* UDP's, with the pseudo header before it. */
static uint16_t checksum(const struct roce_flow *f, const struct udphdr *udp,
			 const uint8_t *p, size_t n)
{
	uint32_t bytes = f->is_v6 ? 16 : 4;
	struct cksum sum = { 0 };

	cksum_add(&sum, f->src, bytes);
	cksum_add(&sum, f->dst, bytes);
	cksum_add16(&sum, IPPROTO_UDP);
	cksum_add16(&sum, be16toh(udp->len));
	cksum_add(&sum, udp, sizeof(*udp));
	cksum_add(&sum, p, (uint32_t)n);
	uint16_t all = cksum_end(&sum);
	return all ? all : 0xffff;
}

static uint8_t *put(uint8_t *to, const void *from, size_t n)
{
	memcpy(to, from, n);
	return to + n;
}

static uint8_t *put_v4(const struct roce_flow *f, uint16_t id, size_t n,
		       uint8_t *p)
{
	struct iphdr ip = { .version = 4,
			    .ihl = sizeof(ip) / 4,
			    .tot_len = htobe16((uint16_t)(sizeof(ip) + n)),
			    .id = htobe16(id),
			    .frag_off = htobe16(IP_DF),
			    .ttl = 64,
			    .protocol = IPPROTO_UDP };
	struct cksum sum = { 0 };

	memcpy(&ip.saddr, f->src, sizeof(ip.saddr));
	memcpy(&ip.daddr, f->dst, sizeof(ip.daddr));
	cksum_add(&sum, &ip, sizeof(ip));
	ip.check = htobe16(cksum_end(&sum));
	return put(p, &ip, sizeof(ip));
}

static uint8_t *put_v6(const struct roce_flow *f, size_t n, uint8_t *p)
{
	struct ip6_hdr ip = { 0 };

	ip.ip6_flow = htobe32(6u << 28);
	ip.ip6_plen = htobe16((uint16_t)n);
	ip.ip6_nxt = IPPROTO_UDP;
	ip.ip6_hlim = 64;
	memcpy(&ip.ip6_src, f->src, sizeof(ip.ip6_src));
	memcpy(&ip.ip6_dst, f->dst, sizeof(ip.ip6_dst));
	return put(p, &ip, sizeof(ip));
}

/* In front of @n bytes from @p on.  How many. */
static size_t put_head(const struct roce_flow *f, uint16_t id, const uint8_t *p,
		       size_t n, uint8_t *to)
{
	const struct ether_header ether = {
		.ether_type = htobe16(f->is_v6 ? ETHERTYPE_IPV6 : ETHERTYPE_IP)
	};
	struct udphdr udp = { .source = htobe16(f->src_port),
			      .dest = htobe16(f->dst_port),
			      .len = htobe16((uint16_t)(sizeof(udp) + n)) };

	udp.check = htobe16(checksum(f, &udp, p, n));
	uint8_t *at = put(to, &ether, sizeof(ether));
	at = f->is_v6 ? put_v6(f, sizeof(udp) + n, at)
		      : put_v4(f, id, sizeof(udp) + n, at);
	return (size_t)(put(at, &udp, sizeof(udp)) - to);
}

void show_packet(bool is_out, const struct roce_flow *f, uint16_t id,
		 const uint8_t *p, size_t n)
{
	int saved = errno;
	uint8_t head[HEAD_MAX];
	const struct iovec iov[2] = { { head, put_head(f, id, p, n, head) },
				      { (void *)p, n } };

	lock_get(&show.lock);
	if (show.tap.head)
		tap_frame(&show.tap, is_out ? TAP_OUT : TAP_IN, iov, 2);
	lock_put(&show.lock);
	errno = saved;
}
