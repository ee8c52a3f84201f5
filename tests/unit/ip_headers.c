/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/ip_headers.c - headers that are written are read as what they were
 *
 * And any bytes are read as something that lies inside of them, or not at all.
 */
#include "base/drop.h"
#include "ip/checksum.h"
#include "ip/gso.h"
#include "ip/icmp.h"
#include "ip/tcp_head.h"
#include "unit.h"

static const struct ip_addr src6 = { { 0x20, 1, 0x0d, 0xb8, [15] = 1 } };
static const struct ip_addr dst6 = { { 0x20, 1, 0x0d, 0xb8, [15] = 2 } };

/* A whole segment; returns its length. */
static uint32_t make(uint8_t *p, bool is_v6, const struct tcp_seg *s)
{
	struct ip_addr src = is_v6 ? src6 : ip_addr_v4(0x0a000001);
	struct ip_addr dst = is_v6 ? dst6 : ip_addr_v4(0x0a000002);
	uint32_t ip_len = is_v6 ? IPV6_HEAD : IPV4_HEAD;
	uint8_t *tcp = p + ip_len;
	uint32_t head = tcp_head_build(tcp, s), len = head + s->len;

	stream_fill(tcp + head, 0, s->len);
	struct cksum sum = ip_pseudo_sum(&src, &dst, IP_PROTO_TCP, len);
	cksum_add(&sum, tcp, len);
	store_be16(tcp + 16, cksum_end(&sum));
	assert_int_equal(ip_build(p, &src, &dst, IP_PROTO_TCP, 0, len), ip_len);
	return ip_len + len;
}

/* RFC 1071 section 3: the example's sum is ddf2. */
static void the_checksum_is_that_of_the_rfc(void **state)
{
	static const uint8_t data[] = { 0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7 };

	for (uint32_t cut = 0; cut <= sizeof(data); cut++) {
		struct cksum sum = { 0 };

		cksum_add(&sum, data, cut);
		cksum_add(&sum, data + cut, (uint32_t)sizeof(data) - cut);
		assert_int_equal(cksum_end(&sum), (uint16_t)~0xddf2);
	}
}

/* Field by field: between them there may be anything. */
static void same_header(const struct tcp_seg *a, const struct tcp_seg *b)
{
	assert_int_equal(a->sport, b->sport);
	assert_int_equal(a->dport, b->dport);
	assert_int_equal(a->seq.v, b->seq.v);
	assert_int_equal(a->ack.v, b->ack.v);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->wnd, b->wnd);
	assert_int_equal(a->urg, b->urg);
	assert_int_equal(a->len, b->len);
	assert_int_equal(a->mss, b->mss);
	assert_int_equal(a->wscale, b->wscale);
	assert_int_equal(a->is_sack_ok, b->is_sack_ok);
	assert_int_equal(a->has_ts, b->has_ts);
	assert_int_equal(a->n_sacks, b->n_sacks);
	assert_int_equal(a->tsval, b->tsval);
	assert_int_equal(a->tsecr, b->tsecr);
	assert_memory_equal(a->sacks, b->sacks, a->n_sacks * sizeof(*a->sacks));
}

static void what_was_written_is_read(void **state)
{
	struct rng r = { 1 };
	uint8_t buf[2000];

	for (int i = 0; i < 20000; i++) {
		struct tcp_seg s = { .sport = (uint16_t)rng_next(&r),
				     .dport = (uint16_t)rng_next(&r),
				     .seq = { (uint32_t)rng_next(&r) },
				     .ack = { (uint32_t)rng_next(&r) },
				     .flags = (uint8_t)rng_next(&r),
				     .wnd = (uint16_t)rng_next(&r),
				     .len = rng_below(&r, 1400),
				     .wscale = TCP_NO_WSCALE,
				     .has_ts = rng_below(&r, 2) };
		struct ip_packet ip;
		struct tcp_seg got;
		bool is_v6 = rng_below(&r, 2);

		if (s.has_ts) {
			s.tsval = (uint32_t)rng_next(&r);
			s.tsecr = (uint32_t)rng_next(&r);
		}
		if (s.flags & TCP_SYN) {
			s.mss = (uint16_t)rng_next(&r);
			s.is_sack_ok = rng_below(&r, 2);
			s.wscale = rng_below(&r, 2) ? 7 : TCP_NO_WSCALE;
		} else {
			s.n_sacks = (uint8_t)rng_below(&r, 4);
			for (unsigned k = 0; k < s.n_sacks; k++)
				s.sacks[k].from.v = (uint32_t)rng_next(&r);
		}
		uint32_t len = make(buf, is_v6, &s);
		assert_int_equal(ip_parse(buf, len, &ip), 0);
		assert_int_equal(ip.is_v6, is_v6);
		assert_true(tcp_sum_is_good(&ip, buf + ip.l4_off));
		assert_int_equal(
		    tcp_head_parse(buf + ip.l4_off, ip.l4_len, &got), 0);
		same_header(&s, &got);
	}
}

/* Linux's order, which packet scripts compare byte for byte. */
static void options_stand_in_linuxs_order(void **state)
{
	static const uint8_t syn[] = { 2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0,
				       0, 1, 0, 0,    0, 2, 1, 3,  3, 7 };
	static const uint8_t without_ts[] = { 2, 4, 5, 0xb4, 1, 1,
					      4, 2, 1, 3,    3, 7 };
	struct tcp_seg s = { .flags = TCP_SYN,
			     .mss = 1460,
			     .wscale = 7,
			     .is_sack_ok = true,
			     .has_ts = true,
			     .tsval = 1,
			     .tsecr = 2 };
	uint8_t buf[TCP_HEAD_MAX];

	assert_int_equal(tcp_head_build(buf, &s), TCP_HEAD + sizeof(syn));
	assert_memory_equal(buf + TCP_HEAD, syn, sizeof(syn));
	s.has_ts = false;
	assert_int_equal(tcp_head_build(buf, &s),
			 TCP_HEAD + sizeof(without_ts));
	assert_memory_equal(buf + TCP_HEAD, without_ts, sizeof(without_ts));
}

static void every_flipped_bit_is_noticed(void **state)
{
	struct tcp_seg s = { .flags = TCP_ACK,
			     .len = 33,
			     .has_ts = true,
			     .wscale = TCP_NO_WSCALE },
		       got;
	uint8_t buf[200];
	uint32_t len = make(buf, false, &s);

	for (uint32_t bit = 0; bit < len * 8; bit++) {
		struct ip_packet ip;

		buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
		bool is_taken =
		    !ip_parse(buf, len, &ip) && ip.protocol == IP_PROTO_TCP &&
		    !tcp_head_parse(buf + ip.l4_off, ip.l4_len, &got) &&
		    tcp_sum_is_good(&ip, buf + ip.l4_off);
		assert_false(is_taken);
		buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

static void an_option_over_the_end_drops_the_segment(void **state)
{
	struct tcp_seg s = { .flags = TCP_SYN, .mss = 1460, .wscale = 7 }, got;
	uint8_t buf[TCP_HEAD_MAX];
	uint32_t len = tcp_head_build(buf, &s);

	buf[len - 2] = 4;
	assert_int_equal(tcp_head_parse(buf, len, &got),
			 -(1 + (int)DROP_TCP_OPTIONS));
	buf[len - 2] = 0;
	assert_int_equal(tcp_head_parse(buf, len, &got),
			 -(1 + (int)DROP_TCP_OPTIONS));
}

static void a_large_frame_is_cut_into_its_segments(void **state)
{
	struct tcp_seg s = { .flags = TCP_ACK | TCP_PSH | TCP_FIN,
			     .seq = { 0xfffffff0 },
			     .len = 3500,
			     .wscale = TCP_NO_WSCALE };
	static uint8_t buf[4000], out[1500];
	const uint32_t head = IPV4_HEAD + TCP_HEAD;

	make(buf, false, &s);
	for (uint32_t i = 0; i < 4; i++) {
		struct ip_packet ip;
		struct tcp_seg got;
		uint32_t n = gso_segment(buf, IPV4_HEAD, head, buf + head, 3500,
					 1000, i, out);

		assert_int_equal(ip_parse(out, n, &ip), 0);
		assert_true(tcp_sum_is_good(&ip, out + ip.l4_off));
		assert_int_equal(
		    tcp_head_parse(out + ip.l4_off, ip.l4_len, &got), 0);
		assert_int_equal(got.seq.v, s.seq.v + i * 1000);
		assert_int_equal(got.len, i < 3 ? 1000 : 500);
		assert_int_equal(got.flags, i < 3 ? TCP_ACK : s.flags);
		assert_int_equal(stream_differs(out + head, i * 1000, got.len),
				 got.len);
	}
}

static void an_icmp_error_tells_what_it_quotes(void **state)
{
	struct ip_addr src = ip_addr_v4(0x0a000001),
		       dst = ip_addr_v4(0x0a000002);
	uint8_t buf[IPV4_HEAD + 8] = { 3, 4, [6] = 5, [7] = 0 };
	uint8_t *quoted = buf + 8;
	struct ip_packet ip = { .l4_len = sizeof(buf) + 8 };
	uint8_t all[sizeof(buf) + 8];
	struct icmp_error e;
	struct cksum sum = { 0 };

	ip_build(quoted, &src, &dst, IP_PROTO_TCP, 0, 1000);
	memcpy(all, buf, sizeof(buf));
	store_be16(all + sizeof(buf), 1234);
	store_be16(all + sizeof(buf) + 2, 80);
	store_be32(all + sizeof(buf) + 4, 77);
	cksum_add(&sum, all, sizeof(all));
	store_be16(all + 2, cksum_end(&sum));
	assert_int_equal(icmp_parse(&ip, all, &e), 0);
	assert_int_equal(e.kind, ICMP_TOO_BIG);
	assert_int_equal(e.mtu, 1280);
	assert_int_equal(e.sport, 1234);
	assert_int_equal(e.dport, 80);
	assert_int_equal(e.seq.v, 77);
	assert_true(ip_addr_eq(&e.src, &src));
	all[30] ^= 1;
	assert_int_equal(icmp_parse(&ip, all, &e),
			 -(1 + (int)DROP_ICMP_CHECKSUM));
}

/* The others have no ports where the first one has them. */
static void an_icmp_error_about_a_later_fragment_is_nobodys(void **state)
{
	static const struct {
		uint16_t fragment;
		int err;
	} quotes[] = {
		{ 0x4000, 0 },
		{ 0x2000, 0 }, /* more follow */
		{ 0x0001, -(1 + (int)DROP_ICMP_OTHER) },
		{ 0x3fff, -(1 + (int)DROP_ICMP_OTHER) },
	};
	struct ip_addr src = ip_addr_v4(0x0a000001),
		       dst = ip_addr_v4(0x0a000002);
	uint8_t all[8 + IPV4_HEAD + 8] = { 3, 1 };
	struct ip_packet ip = { .l4_len = sizeof(all) };

	ip_build(all + 8, &src, &dst, IP_PROTO_TCP, 0, 1000);
	for (size_t i = 0; i < ARRAY_LEN(quotes); i++) {
		struct icmp_error e;
		struct cksum sum = { 0 };

		store_be16(all + 8 + 6, quotes[i].fragment);
		store_be16(all + 2, 0);
		cksum_add(&sum, all, sizeof(all));
		store_be16(all + 2, cksum_end(&sum));
		assert_int_equal(icmp_parse(&ip, all, &e), quotes[i].err);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_checksum_is_that_of_the_rfc),
		cmocka_unit_test(what_was_written_is_read),
		cmocka_unit_test(options_stand_in_linuxs_order),
		cmocka_unit_test(every_flipped_bit_is_noticed),
		cmocka_unit_test(an_option_over_the_end_drops_the_segment),
		cmocka_unit_test(a_large_frame_is_cut_into_its_segments),
		cmocka_unit_test(an_icmp_error_tells_what_it_quotes),
		cmocka_unit_test(
		    an_icmp_error_about_a_later_fragment_is_nobodys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
