/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/ip_hops.c - next hops from tables, UDP's headers and binds, extension headers
 */
#include <errno.h>

#include "base/drop.h"
#include "ip/checksum.h"
#include "ip/hop.h"
#include "ip/udp.h"
#include "unit.h"

#define REASON(name) (-(1 + (int)DROP_##name))

static const struct ip_addr a6 = { { 0x20, 1, 0x0d, 0xb8, [15] = 1 } };
static const struct ip_addr b6 = { { 0x20, 1, 0x0d, 0xb8, [15] = 2 } };

static void the_longest_prefix_has_the_packet(void **state)
{
	const struct ip_route routes[] = {
		{ .dst = ip_addr_v4(0),
		  .prefix_len = 96,
		  .link = 1,
		  .gateway = ip_addr_v4(0x0a000001),
		  .mtu = 1500 },
		{ .dst = ip_addr_v4(0x0a000000),
		  .prefix_len = 96 + 8,
		  .link = 2,
		  .mtu = 9000 },
		{ .dst = ip_addr_v4(0x0a010200),
		  .prefix_len = 96 + 23,
		  .link = 3,
		  .metric = 5 },
		{ .dst = ip_addr_v4(0x0a010200),
		  .prefix_len = 96 + 23,
		  .link = 4,
		  .metric = 4 },
		{ .dst = a6, .prefix_len = 32, .link = 5 },
	};
	const struct ip_hops h = { .routes = routes,
				   .n_routes = ARRAY_LEN(routes) };
	static const struct {
		uint32_t addr, link;
	} expected[] = {
		{ 0x08080808, 1 }, { 0x0a000007, 2 }, { 0x0a010203, 4 },
		{ 0x0a010300, 4 }, { 0x0a010400, 2 },
	};

	for (unsigned i = 0; i < ARRAY_LEN(expected); i++) {
		struct ip_addr a = ip_addr_v4(expected[i].addr);

		assert_int_equal(hop_route(&h, &a)->link, expected[i].link);
	}
	assert_int_equal(hop_route(&h, &b6)->link, 5);
	struct ip_addr c6 = b6;
	c6.b[0] = 0x30;
	struct ip_hop hop;
	assert_int_equal(hop_find(&h, &c6, &hop), -ENETUNREACH);
}

/* A default route of IPv6 is none for IPv4, whose addresses are written in it. */
static void families_do_not_mix(void **state)
{
	const struct ip_route all6 = { .prefix_len = 0, .link = 1 };
	const struct ip_hops h = { .routes = &all6, .n_routes = 1 };
	struct ip_addr a = ip_addr_v4(0x08080808);

	assert_null(hop_route(&h, &a));
	assert_non_null(hop_route(&h, &a6));
}

static void neighbours_are_as_the_kernel_says(void **state)
{
	struct ip_neigh neighs[1000];
	struct ip_route route = { .dst = ip_addr_v4(0x0a000000),
				  .prefix_len = 96 + 8,
				  .link = 2 };
	struct ip_hops h = { &route, 1, neighs, ARRAY_LEN(neighs) };
	struct ip_hop hop;

	for (uint32_t i = 0; i < ARRAY_LEN(neighs); i++) {
		uint32_t n = (i * 7919) % 1000;

		neighs[i] = (struct ip_neigh){
			.addr = ip_addr_v4(0x0a000000 + n),
			.link = 2,
			.mac = { [4] = (uint8_t)(n >> 8), (uint8_t)n },
			.state = (uint8_t)(n % 4),
		};
	}
	hops_sort(neighs, ARRAY_LEN(neighs));
	for (uint32_t n = 0; n < ARRAY_LEN(neighs); n++) {
		static const int expected[] = {
			[NEIGH_UNKNOWN] = -EAGAIN,
			[NEIGH_GOOD] = 0,
			[NEIGH_STALE] = 0,
			[NEIGH_FAILED] = -EHOSTUNREACH,
		};
		struct ip_addr a = ip_addr_v4(0x0a000000 + n);

		assert_int_equal(hop_find(&h, &a, &hop), expected[n % 4]);
		if (expected[n % 4])
			continue;
		assert_int_equal(hop.mac[4] << 8 | hop.mac[5], n);
		assert_int_equal(hop.is_stale, n % 4 == NEIGH_STALE);
	}
	struct ip_addr far = ip_addr_v4(0x0aff0000);
	assert_int_equal(hop_find(&h, &far, &hop), -EAGAIN);
	assert_true(ip_addr_eq(&hop.addr, &far));
	/* Behind a gateway it is the gateway that is looked for. */
	route.gateway = ip_addr_v4(0x0a000001);
	assert_int_equal(hop_find(&h, &far, &hop), 0);
	assert_true(ip_addr_eq(&hop.addr, &route.gateway));
	/* The same address on another link is another neighbour. */
	route.link = 3;
	assert_int_equal(hop_find(&h, &far, &hop), -EAGAIN);
}

/* --- UDP --- */

static uint32_t datagram(uint8_t *p, bool is_v6, uint16_t sport, uint16_t dport,
			 uint32_t n)
{
	struct ip_addr src = is_v6 ? a6 : ip_addr_v4(0x0a000001);
	struct ip_addr dst = is_v6 ? b6 : ip_addr_v4(0x0a000002);
	uint32_t off = ip_build(p, &src, &dst, IP_PROTO_UDP, 0, UDP_HEAD + n);
	uint8_t *udp = p + off;

	store_be16(udp, sport);
	store_be16(udp + 2, dport);
	store_be16(udp + 4, (uint16_t)(UDP_HEAD + n));
	store_be16(udp + 6, 0);
	stream_fill(udp + UDP_HEAD, 0, n);
	struct cksum sum =
	    ip_pseudo_sum(&src, &dst, IP_PROTO_UDP, UDP_HEAD + n);
	cksum_add(&sum, udp, UDP_HEAD + n);
	store_be16(udp + 6, cksum_end(&sum));
	return off + UDP_HEAD + n;
}

static void a_datagram_is_read_or_dropped_with_a_reason(void **state)
{
	for (int is_v6 = 0; is_v6 < 2; is_v6++) {
		uint8_t p[200];
		uint32_t len = datagram(p, is_v6, 1000, 53, 31);
		struct ip_packet ip;
		struct udp_datagram d;
		uint8_t *udp = p + (is_v6 ? IPV6_HEAD : IPV4_HEAD);

		assert_int_equal(ip_parse(p, len, &ip), 0);
		assert_int_equal(ip.protocol, IP_PROTO_UDP);
		assert_int_equal(udp_parse(&ip, udp, &d), 0);
		assert_int_equal(d.sport, 1000);
		assert_int_equal(d.dport, 53);
		assert_int_equal(d.len, 31);
		udp[10] ^= 1;
		assert_int_equal(udp_parse(&ip, udp, &d), REASON(UDP_CHECKSUM));
		store_be16(udp + 6, 0);
		assert_int_equal(udp_parse(&ip, udp, &d),
				 is_v6 ? REASON(UDP_CHECKSUM) : 0);
		store_be16(udp + 4, 7);
		assert_int_equal(udp_parse(&ip, udp, &d), REASON(UDP_LENGTH));
		store_be16(udp + 4, 40);
		assert_int_equal(udp_parse(&ip, udp, &d), REASON(UDP_LENGTH));
		ip.l4_len = 7;
		assert_int_equal(udp_parse(&ip, udp, &d), REASON(SHORT));
	}
}

static void the_most_particular_bind_has_it(void **state)
{
	const struct ip_addr me = ip_addr_v4(0x0a000002);
	const struct ip_addr peer = ip_addr_v4(0x0a000001);
	struct udp_table t = { 0 };
	struct udp_bind any = { .lport = 53 };
	struct udp_bind mine = { .lport = 53, .laddr = me };
	struct udp_bind whole = {
		.lport = 53, .laddr = me, .raddr = peer, .rport = 1000
	};
	struct udp_bind again = mine, other = { .lport = 53 + UDP_BUCKETS };
	const struct ip_packet ip = { .src = peer, .dst = me };
	struct udp_datagram d = { .sport = 1000, .dport = 53 };

	assert_int_equal(udp_bind(&t, &any), 0);
	assert_int_equal(udp_bind(&t, &whole), 0);
	assert_int_equal(udp_bind(&t, &mine), 0);
	assert_int_equal(udp_bind(&t, &other), 0);
	assert_int_equal(udp_bind(&t, &again), -EADDRINUSE);
	assert_ptr_equal(udp_find(&t, &ip, &d), &whole);
	d.sport = 1001;
	assert_ptr_equal(udp_find(&t, &ip, &d), &mine);
	udp_unbind(&t, &mine);
	assert_ptr_equal(udp_find(&t, &ip, &d), &any);
	udp_unbind(&t, &any);
	assert_null(udp_find(&t, &ip, &d));
	d.dport = 53 + UDP_BUCKETS;
	assert_ptr_equal(udp_find(&t, &ip, &d), &other);
}

/* --- extension headers --- */

static int parse_with(const uint8_t *ext, uint32_t n, uint8_t first)
{
	uint8_t p[200];
	struct ip_packet k;
	uint32_t head = ip_build(p, &a6, &b6, first, 0, n);

	memcpy(p + head, ext, n);
	return ip_parse(p, head + n, &k);
}

static void extension_headers_are_the_kernels_when_they_are_whole(void **state)
{
	static const uint8_t options[] = { 0, 43, 60 };
	uint8_t ext[48] = { 0 };

	for (unsigned i = 0; i < ARRAY_LEN(options); i++) {
		memset(ext, 0, sizeof(ext));
		ext[0] = IP_PROTO_TCP;
		assert_int_equal(parse_with(ext, 40, options[i]),
				 REASON(IP_OPTIONS));
		/* One that ends behind the packet. */
		ext[1] = 5;
		assert_int_equal(parse_with(ext, 40, options[i]),
				 REASON(IP_LENGTH));
		assert_int_equal(parse_with(ext, 7, options[i]),
				 REASON(IP_LENGTH));
		/* One behind the other, and a fragment behind both. */
		ext[0] = 60;
		ext[1] = 0;
		ext[8] = 51;
		ext[9] = 1;
		ext[24] = IP_PROTO_TCP;
		assert_int_equal(parse_with(ext, 40, options[i]),
				 REASON(IP_OPTIONS));
		ext[8] = 44;
		assert_int_equal(parse_with(ext, 40, options[i]),
				 REASON(IP_FRAGMENT));
	}
	assert_int_equal(parse_with(ext, 8, 44), REASON(IP_FRAGMENT));
	assert_int_equal(parse_with(ext, 7, 44), REASON(IP_LENGTH));
	assert_int_equal(parse_with(ext, 8, 59), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_longest_prefix_has_the_packet),
		cmocka_unit_test(families_do_not_mix),
		cmocka_unit_test(neighbours_are_as_the_kernel_says),
		cmocka_unit_test(a_datagram_is_read_or_dropped_with_a_reason),
		cmocka_unit_test(the_most_particular_bind_has_it),
		cmocka_unit_test(
		    extension_headers_are_the_kernels_when_they_are_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
