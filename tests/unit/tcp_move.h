/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_move.h - a connection that leaves a stack and goes on in another one
 *
 *     begin()  ->  take_out(), put_in(); or move()  ->  end()
 *
 * The peer is the kit's, and must see one connection.
 */
#pragma once

#include "tcp/export.h"
#include "tcp_kit.h"

static struct kit k;
static struct tcp_stack *other; /* where the connection is not */
static void *other_mem;
static struct tcp_conn *c;

static inline void stream_check(const uint8_t *buf, uint64_t off, size_t n)
{
	assert_int_equal(stream_differs(buf, off, n), n);
}

/* What a moving connection takes along. */
static struct tcp_image x;
static uint8_t queued_bytes[1 << 18], unread_bytes[1 << 18];
static struct extent queued, unread;
static unsigned n_put;

static inline void put(struct extent *e)
{
	assert_int_equal(e->refs, 0);
	n_put++;
}

static inline void begin_as(const struct tcp_config *cfg)
{
	struct tcp_config second = *cfg;

	kit_init(&k, cfg);
	second.key.k[0] = 99;
	other_mem = aligned_alloc(64, tcp_stack_bytes(&second));
	other = tcp_stack_init(other_mem, &second, k.now);
}

static inline void end(void)
{
	tcp_abort(c, k.now);
	kit_drain(&k);
	tcp_stack_fini(other);
	free(other_mem);
	kit_fini(&k);
}

/* Takes the connection out of its stack. */
static inline void take_out(void)
{
	assert_int_equal(tcp_export(c, &x, k.now), 0);
	uint32_t n = seq_len(x.snd_una, x.snd_end);

	/* The old stack may still refer to the bytes of the last move. */
	static uint8_t sent[sizeof(queued_bytes)], got[sizeof(unread_bytes)];
	assert_int_equal(tcp_export_queued(c, sent, sizeof(sent)), n);
	assert_int_equal(tcp_export_unread(c, got, sizeof(got)), x.n_unread);
	tcp_forget(c, k.now);
	memcpy(queued_bytes, sent, n);
	memcpy(unread_bytes, got, x.n_unread);
	kit_expect_none(&k);
}

/* Puts it into the other stack, with which the peer talks from then on. */
static inline int put_in(void)
{
	uint32_t n = seq_len(x.snd_una, x.snd_end);
	struct tcp_stack *s = k.s;
	void *mem = k.mem;

	extent_lend(&queued, queued_bytes, n, put);
	extent_lend(&unread, unread_bytes, x.n_unread, put);
	n_put = 0;
	int err = tcp_import(other, &x, n ? &queued : NULL,
			     x.n_unread ? &unread : NULL, k.now, &c);
	extent_put(&queued);
	extent_put(&unread);
	if (err) {
		assert_int_equal(n_put, 2);
		return err;
	}
	assert_int_equal(n_put, !n + !x.n_unread);
	k.s = other;
	k.mem = other_mem;
	other = s;
	other_mem = mem;
	kit_check(&k);
	return 0;
}

static inline void move(void)
{
	take_out();
	assert_int_equal(put_in(), 0);
}

/* The peer's next bytes arrive, and the program reads them. */
static inline void read_some(uint32_t n)
{
	static uint8_t buf[KIT_RX_CAP];
	const uint8_t *data;

	memset(buf, 'x', n);
	kit_in(&k, TCP_ACK, buf, n);
	assert_int_equal(tcp_peek(c, &data), n);
	assert_memory_equal(data, buf, n);
	tcp_consume(c, n, k.now);
}

static inline void begin(void)
{
	struct tcp_config cfg = kit_config(false);

	begin_as(&cfg);
	k.tsval = 1000;
	c = kit_established(&k);
	/* The peer knows that the connection is open. */
	read_some(1);
	kit_drain(&k);
}
