/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_options.c - any bytes as a TCP header, and as a packet
 *
 * The parser reads nothing outside of the bytes.  A header that it has parsed and that
 * we build again parses to the same.  A middlebox makes a packet of a packet, or leaves
 * it alone.
 */
#include "fuzz_stack.h"
#include "port/sim/middlebox.h"

static void same(const struct tcp_seg *a, const struct tcp_seg *b)
{
	assert(a->sport == b->sport && a->dport == b->dport);
	assert(seq_eq(a->seq, b->seq) && seq_eq(a->ack, b->ack));
	assert(a->flags == b->flags && a->wnd == b->wnd);
	assert(a->has_ts == b->has_ts);
	if (a->has_ts)
		assert(a->tsval == b->tsval && a->tsecr == b->tsecr);
	assert(a->n_sacks >= b->n_sacks);
	for (unsigned i = 0; i < b->n_sacks; i++)
		assert(seq_eq(a->sacks[i].from, b->sacks[i].from) &&
		       seq_eq(a->sacks[i].to, b->sacks[i].to));
	if (!(a->flags & TCP_SYN))
		return;
	assert(a->mss == b->mss && a->is_sack_ok == b->is_sack_ok);
	assert(a->wscale == b->wscale);
}

static void header(const uint8_t *p, uint32_t len)
{
	uint8_t out[TCP_HEAD_MAX + 8];
	struct tcp_seg a, b;

	if (tcp_head_parse(p, len, &a))
		return;
	assert(a.head_len >= TCP_HEAD && a.head_len <= len);
	assert(a.len == len - a.head_len);
	assert(a.n_sacks <= TCP_SACK_MAX);
	/* We write options of a SYN only on a SYN, and the others only elsewhere. */
	if (a.flags & TCP_SYN)
		a.n_sacks = 0;
	else
		a.mss = 0;
	uint32_t n = tcp_head_build(out, &a);
	assert(n >= TCP_HEAD && n <= TCP_HEAD_MAX && n % 4 == 0);
	int err = tcp_head_parse(out, n, &b);
	assert(!err);
	same(&a, &b);
}

static void boxes(const uint8_t *p, uint32_t len, uint8_t how)
{
	uint8_t copy[4 * FUZZ_RX_CAP] = { 0 }, rest[4 * FUZZ_RX_CAP],
			 made[MIDDLEBOX_MADE];
	struct ip_packet ip;
	uint32_t n = len, more;

	memcpy(copy, p, len);
	bool was_packet = !ip_parse(copy, n, &ip);
	middlebox_strip(copy, n, how);
	middlebox_clamp_mss(copy, n, 536);
	middlebox_mutate(copy, n, (uint64_t)how << 32 | how);
	middlebox_ecn(copy, n, how & 3);
	assert(!was_packet || !ip_parse(copy, n, &ip));
	more = middlebox_split(copy, &n, rest, how * 7u);
	if (more) {
		assert(!ip_parse(copy, n, &ip) && !ip_parse(rest, more, &ip));
		middlebox_merge(copy, n, sizeof(copy), rest, more);
	}
	assert(middlebox_reset(p, len, how, made) <= sizeof(made));
	assert(middlebox_too_big(p, len, 1280, how, made) <= sizeof(made));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2 || size > FUZZ_RX_CAP)
		return 0;
	if (data[0] & 1)
		header(data + 1, (uint32_t)size - 1);
	else
		boxes(data + 2, (uint32_t)size - 2, data[1]);
	return 0;
}
