/* SPDX-License-Identifier: MIT */
/* tests/unit/tcp_delack.c - ACKs that wait: in their order, once, and never too long */
#include "tcp_kit.h"

#define MANY 40
#define MS NS_PER_MS

static struct kit k;
static struct kit_frame f;

/* A connection, and what the kit knows of its peer. */
struct one {
	struct tcp_conn *c;
	seq32 seq, ack;
	uint16_t rport;
};

static struct one ones[MANY];

static void begin(uint32_t n_conns, uint32_t n)
{
	struct tcp_config cfg = kit_config(false);
	void *block = aligned_alloc(TCP_BLOCK, TCP_BLOCK);

	cfg.n_conns = n_conns;
	cfg.n_reqsks = MANY;
	cfg.n_blocks = 1;
	kit_init(&k, &cfg);
	assert_true(tcp_grow(k.s, TCP_POOL_CONNS, block));
	for (uint32_t i = 0; i < n; i++) {
		k.rport = (uint16_t)(KIT_PEER_PORT + i);
		k.seq = (seq32){ KIT_PEER_ISS };
		struct tcp_conn *c = kit_accepted(&k);

		ones[i] = (struct one){ c, k.seq, k.ack, k.rport };
	}
	kit_drain(&k);
}

static void end(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		tcp_abort(ones[i].c, k.now);
	kit_drain(&k);
	assert_int_equal(k.s->delacks.n, 0);
	tcp_unlisten(k.listener, k.now);
	free(tcp_shrink(k.s));
	kit_fini(&k);
	memset(&k, 0, sizeof(k));
}

/* A small segment arrives, which alone is not acknowledged at once. */
static void arrive(struct one *o)
{
	k.rport = o->rport;
	k.seq = o->seq;
	k.ack = o->ack;
	tcp_set_quickack(o->c, false, k.now);
	kit_in(&k, TCP_ACK, "abc", 3);
	o->seq = k.seq;
}

/* What is sent carries the ACK. */
static void answer(struct one *o)
{
	k.ack = o->ack;
	assert_int_equal(tcp_send(o->c, "x", 1, k.now), 1);
	assert_true(kit_out(&k, &f));
	assert_int_equal(f.len, 1);
	o->ack = k.ack;
	/* Its ACK, or Nagle would hold the next one. */
	k.rport = o->rport;
	k.seq = o->seq;
	kit_in(&k, TCP_ACK, NULL, 0);
}

static void expect_ack_of(const struct one *o)
{
	assert_true(kit_out(&k, &f));
	assert_int_equal(f.len, 0);
	assert_int_equal(f.seg.flags, TCP_ACK);
	assert_int_equal(f.seg.dport, o->rport);
	assert_true(seq_eq(f.seg.ack, o->seq));
}

static void they_leave_in_the_order_in_which_bytes_came(void **state)
{
	begin(4, 3);
	for (unsigned i = 0; i < 3; i++) {
		arrive(&ones[2 - i]);
		kit_wait(&k, 10 * MS);
	}
	kit_expect_none(&k);
	kit_wait(&k, 10 * MS);
	expect_ack_of(&ones[2]);
	kit_expect_none(&k);
	kit_wait(&k, 9 * MS);
	kit_expect_none(&k);
	assert_true(tcp_next_ns(k.s) <= k.now + MS);
	kit_wait(&k, 1 * MS);
	expect_ack_of(&ones[1]);
	kit_wait(&k, 10 * MS);
	expect_ack_of(&ones[0]);
	kit_expect_none(&k);
	end(3);
}

static void one_that_travelled_with_bytes_does_not_go_again(void **state)
{
	begin(4, 2);
	arrive(&ones[0]);
	arrive(&ones[1]);
	answer(&ones[0]);
	kit_wait(&k, 41 * MS);
	expect_ack_of(&ones[1]);
	kit_expect_none(&k);
	end(2);
}

/* More have left than the ring has places, while the first one waits. */
static void those_that_have_left_make_room(void **state)
{
	begin(4, 4);
	arrive(&ones[0]);
	kit_wait(&k, 1 * MS);
	arrive(&ones[3]);
	for (unsigned i = 0; i < 5 * k.s->delacks.n_slots; i++) {
		arrive(&ones[1 + i % 2]);
		answer(&ones[1 + i % 2]);
	}
	assert_true(k.s->delacks.n < k.s->delacks.n_slots + 1);
	kit_wait(&k, 39 * MS);
	expect_ack_of(&ones[0]);
	kit_expect_none(&k);
	kit_wait(&k, 1 * MS);
	expect_ack_of(&ones[3]);
	kit_expect_none(&k);
	end(4);
}

/* Connections in blocks have no places of their own. */
static void without_a_place_they_do_not_wait(void **state)
{
	uint32_t n_slots;

	begin(2, MANY);
	n_slots = k.s->delacks.n_slots;
	assert_true(n_slots < MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		arrive(&ones[i]);
		if (i < n_slots)
			kit_expect_none(&k);
		else
			expect_ack_of(&ones[i]);
	}
	kit_wait(&k, 40 * MS);
	for (uint32_t i = 0; i < n_slots; i++)
		expect_ack_of(&ones[i]);
	kit_expect_none(&k);
	end(MANY);
}

/* The ring's end and its begin are neighbours. */
static void a_ring_goes_round(void **state)
{
	begin(4, 3);
	for (unsigned i = 0; i < 100; i++) {
		struct one *o = &ones[i % 3], *other = &ones[(i + 1) % 3];

		arrive(o);
		kit_wait(&k, 5 * MS);
		arrive(other);
		if (i % 4 == 0) {
			answer(o);
			kit_expect_none(&k);
		} else {
			kit_wait(&k, 35 * MS);
			expect_ack_of(o);
		}
		kit_wait(&k, 40 * MS);
		expect_ack_of(other);
		kit_expect_none(&k);
	}
	end(3);
}

static void who_is_gone_sends_none(void **state)
{
	begin(4, 3);
	arrive(&ones[0]);
	arrive(&ones[1]);
	arrive(&ones[2]);
	tcp_abort(ones[1].c, k.now);
	assert_int_equal(kit_drain(&k), 1);
	ones[1] = ones[2];
	kit_wait(&k, 40 * MS);
	expect_ack_of(&ones[0]);
	expect_ack_of(&ones[1]);
	kit_expect_none(&k);
	end(2);
}

/* The program reads a segment, and does not answer. */
static void read_one(struct one *o, uint8_t flags, bool is_pingpong)
{
	tcp_set_quickack(o->c, !is_pingpong, k.now);
	o->c->n_quick = 0;
	k.seq = o->seq;
	kit_in(&k, TCP_ACK | flags, "abc", 3);
	o->seq = k.seq;
	kit_expect_none(&k);
	tcp_consume(o->c, 3, k.now);
}

/* Linux: tcp_cleanup_rbuf(). */
static void what_was_pushed_is_acknowledged_when_it_is_read(void **state)
{
	begin(4, 1);
	arrive(
	    &ones[0]); /* the first bytes are acknowledged at once otherwise */
	answer(&ones[0]);
	tcp_consume(ones[0].c, 3, k.now);
	read_one(&ones[0], TCP_PSH, false);
	expect_ack_of(&ones[0]);
	read_one(&ones[0], TCP_PSH, true); /* an answer is likely */
	kit_expect_none(&k);
	kit_wait(&k, 40 * MS);
	expect_ack_of(&ones[0]);
	read_one(&ones[0], 0, false);
	kit_expect_none(&k);
	end(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_leave_in_the_order_in_which_bytes_came),
		cmocka_unit_test(
		    one_that_travelled_with_bytes_does_not_go_again),
		cmocka_unit_test(those_that_have_left_make_room),
		cmocka_unit_test(without_a_place_they_do_not_wait),
		cmocka_unit_test(a_ring_goes_round),
		cmocka_unit_test(
		    what_was_pushed_is_acknowledged_when_it_is_read),
		cmocka_unit_test(who_is_gone_sends_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
