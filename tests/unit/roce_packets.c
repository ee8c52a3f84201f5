/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/roce_packets.c - RoCEv2's packets and their ICRC
 *
 * Two packets with a known ICRC: one of a test in scapy, one that a network card sent.
 */
#include <string.h>

#include "rdma/roce/crc.h"
#include "rdma/roce/icrc.h"
#include "rdma/roce/packet.h"
#include "unit.h"

static const struct roce_flow known_flow = {
	.src = { 192, 168, 0, 7 },
	.dst = { 192, 168, 0, 7 },
	.src_port = 49152,
	.dst_port = ROCE_PORT,
};
#define KNOWN_ID 1144
static const uint8_t known[] = { 0x24, 0x60, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd3,
				 0x00, 0xcf, 0x17, 0x10, 0x46, 0x30, 0x81, 0x8b,
				 0xe2, 0x89, 0x35, 0xd9, 0x0e, 0x9a, 0x95, 0x50,
				 0x54, 0x01, 0xbe, 0x88, 0x5e, 0x50, 0x00, 0x00,
				 0x78, 0xf3, 0x53, 0xf3 };
#define N_KNOWN (sizeof(known) - ROCE_ICRC)

static uint32_t crc_of(const uint8_t *p, size_t n)
{
	return p[n] | (uint32_t)p[n + 1] << 8 | (uint32_t)p[n + 2] << 16 |
	       (uint32_t)p[n + 3] << 24;
}

static void the_icrc_is_that_of_known_packets(void **state)
{
	const struct roce_flow card = { .src = { 10, 0, 17, 1 },
					.dst = { 10, 0, 18, 1 },
					.dst_port = ROCE_PORT };
	const uint8_t cnp[32] = {
		0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18
	};
	const uint8_t want[] = { 0x82, 0xfd, 0x00, 0x2a };

	assert_int_equal(icrc(&known_flow, KNOWN_ID, known, N_KNOWN),
			 crc_of(known, N_KNOWN));
	assert_int_equal(icrc(&card, 0x718c, cnp, 28), crc_of(want, 0));
}

static void any_identification_matches_and_nothing_else(void **state)
{
	struct rng r = { .state = 1 };
	uint8_t bytes[sizeof(known)];
	uint16_t id = 0;

	assert_true(icrc_matches(&known_flow, known, N_KNOWN,
				 crc_of(known, N_KNOWN), &id));
	assert_int_equal(id, KNOWN_ID);
	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t at = rng_below(&r, N_KNOWN);
		uint32_t crc =
		    icrc(&known_flow, (uint16_t)i * 7, known, N_KNOWN);

		id = (uint16_t)rng_below(&r, 65536);
		assert_true(
		    icrc_matches(&known_flow, known, N_KNOWN, crc, &id));
		assert_int_equal(id, (uint16_t)(i * 7));
		memcpy(bytes, known, sizeof(known));
		bytes[at] ^= (uint8_t)(1u << rng_below(&r, 8));
		if (at == 4) /* congestion bits */
			continue;
		assert_false(icrc_matches(&known_flow, bytes, N_KNOWN,
					  crc_of(known, N_KNOWN), &id));
	}
}

static void a_crc_is_the_same_however_it_is_computed(void **state)
{
	struct rng r = { .state = 1 };
	uint8_t bytes[4200];
	static const uint8_t zeros[4200];

	assert_int_equal(~crc32_add(~0u, "123456789", 9), 0xcbf43926);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)rng_below(&r, 256);
	for (size_t n = 0; n < sizeof(bytes) - 16; n += 1 + n / 300) {
		const uint8_t *p = bytes + n % 16;
		uint32_t from = rng_below(&r, UINT32_MAX);
		uint32_t crc = crc32_add_by_table(from, p, n);

		assert_int_equal(crc32_add(from, p, n), crc);
		crc = crc32_add(from, zeros, n);
		assert_int_equal(crc32_undo_zeros(crc, n), from);
	}
}

static void a_known_packet_is_read(void **state)
{
	struct roce_head h;

	assert_true(roce_parse(known, sizeof(known), &h));
	assert_int_equal(h.service, ROCE_UC);
	assert_int_equal(h.op, OP_SEND_ONLY);
	assert_int_equal(h.dest_qpn, 211);
	assert_int_equal(h.psn, 13571856);
	assert_int_equal(h.pad, 2);
	assert_int_equal(h.n_payload, 18);
}

static void assert_same(const struct roce_head *a, const struct roce_head *b)
{
	assert_int_equal(a->service, b->service);
	assert_int_equal(a->op, b->op);
	assert_int_equal(a->psn, b->psn);
	if (b->service == ROCE_XRC && !roce_is_response(b->op))
		assert_int_equal(a->xrc_srqn, b->xrc_srqn);
	assert_int_equal(a->n_payload, b->n_payload);
	assert_int_equal(a->is_solicited, b->is_solicited);
	assert_int_equal(a->wants_ack, b->wants_ack);
	if (b->op == OP_COMPARE_SWAP) {
		assert_true(a->addr == b->addr && a->rkey == b->rkey &&
			    a->swap_add == b->swap_add &&
			    a->compare == b->compare);
	}
	if (b->op == OP_WRITE_ONLY_IMM)
		assert_true(a->addr == b->addr && a->length == b->length &&
			    a->imm == b->imm);
	if (b->op == OP_ATOMIC_ACK)
		assert_true(a->original == b->original &&
			    a->syndrome == b->syndrome && a->msn == b->msn);
}

static void what_is_built_is_read_again(void **state)
{
	struct rng r = { .state = 2 };
	uint8_t bytes[ROCE_MAX];

	for (uint32_t i = 0; i < 20000; i++) {
		struct roce_head out, in = {
			.service = i & 4 ? ROCE_XRC : ROCE_RC,
			.op = (uint8_t)rng_below(&r, OP_END),
			.psn = rng_below(&r, 1 << 24),
			.dest_qpn = rng_below(&r, 1 << 24),
			.addr = rng_next(&r),
			.rkey = (uint32_t)rng_next(&r),
			.length = (uint32_t)rng_next(&r),
			.swap_add = rng_next(&r),
			.compare = rng_next(&r),
			.original = rng_next(&r),
			.imm = (uint32_t)rng_next(&r),
			.syndrome = (uint8_t)rng_next(&r),
			.msn = rng_below(&r, 1 << 24),
			.xrc_srqn = rng_below(&r, 1 << 24),
			.is_solicited = i & 1,
			.wants_ack = i & 2,
		};

		if (in.op == 0x15)
			continue; /* reserved */
		in.n_payload =
		    roce_has_payload(in.op) ? rng_below(&r, 4097) : 0;
		size_t n = roce_build(&in, in.n_payload, bytes);
		n += in.n_payload + in.pad + ROCE_ICRC;
		assert_true(roce_parse(bytes, n, &out));
		assert_same(&out, &in);
	}
}

static void bytes_of_any_kind_stay_within_their_bounds(void **state)
{
	struct rng r = { .state = 3 };
	struct roce_head h;

	for (uint32_t i = 0; i < 100000; i++) {
		size_t n = rng_below(&r, 80);
		uint8_t *p = malloc(n + 1); /* a sanitizer sees its end */

		for (size_t k = 0; k < n; k++)
			p[k] = (uint8_t)rng_next(&r);
		if (n > 3) {
			p[1] &= 0xf0;
			p[2] = p[3] = 0xff;
		}
		if (roce_parse(p, n, &h))
			assert_true(h.payload >= p &&
				    h.payload + h.n_payload + ROCE_ICRC <=
					p + n);
		free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_icrc_is_that_of_known_packets),
		cmocka_unit_test(a_crc_is_the_same_however_it_is_computed),
		cmocka_unit_test(any_identification_matches_and_nothing_else),
		cmocka_unit_test(a_known_packet_is_read),
		cmocka_unit_test(what_is_built_is_read_again),
		cmocka_unit_test(bytes_of_any_kind_stay_within_their_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
