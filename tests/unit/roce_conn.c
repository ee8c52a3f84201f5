/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/roce_conn.c - two ends of a RoCE connection, over a wire that loses,
 * duplicates and reorders packets, in virtual time
 *
 * Both ends send, write, read and add to each other all the time.  What holds:
 *   I1  messages arrive complete, once, in order
 *   I2  a write's bytes are there when it completes; a read's are right
 *   I3  an atomic operation is executed once, whatever is sent again
 *   I4  all completes, in order, within a bounded time
 *   I5  what takes effect here alone does so once, in its turn
 */
#include <string.h>

#include "rdma/roce/conn.h"
#include "unit.h"

#define N_WR 32u
#define SLOT 16384u
#define MTU 256u
#define KEY 77u
#define QUEUE 99u /* of XRC */
#define STEP UINT64_C(1000)
#define LIMIT_NS UINT64_C(600000000000)

struct packet {
	uint64_t at, order;
	bool is_there;
	uint32_t n;
	uint8_t bytes[ROCE_MAX];
};

struct end {
	struct roce_conn c;
	struct roce_wr wr[N_WR];
	struct end *peer;
	struct packet in[512];
	uint8_t memory[N_WR * SLOT]; /* the peer writes here */
	uint8_t still[SLOT];         /* and reads from here */
	uint64_t counter;
	uint32_t head, done, n_adds;
	uint32_t
	    last_here; /* the latest request that took effect here alone, + 1 */
	uint32_t got[N_WR];
	/* Sends of this end, as the other one has to see them. */
	struct {
		uint32_t length, imm, at;
	} sent[4096];
	uint32_t n_sent, n_arrived, credits;
	enum ibv_wc_status status, local;
	enum ibv_event_type event;
	bool has_failed;
};

static struct {
	struct rng rng;
	uint32_t lost, doubled, late; /* of 1000 */
	uint64_t now, n_packets;
	bool has_receives;
	bool denies_all;
	bool is_honest; /* what is complete has been executed */
	struct end end[2];
} w;

static bool happens(uint32_t of_1000)
{
	return rng_below(&w.rng, 1000) < of_1000;
}

static struct end *end_of(struct roce_conn *c) { return c->owner; }

static void transmit(struct end *to, const uint8_t *bytes, uint32_t n)
{
	for (uint32_t i = 0; i < ARRAY_LEN(to->in); i++) {
		struct packet *p = &to->in[i];

		if (p->is_there)
			continue;
		p->is_there = true;
		p->at = w.now +
			STEP * (10 +
				(happens(w.late) ? rng_below(&w.rng, 100) : 0));
		p->order = w.n_packets++;
		p->n = n;
		memcpy(p->bytes, bytes, n);
		return;
	}
}

static void op_send(struct roce_conn *c, struct roce_head *h,
		    const struct iovec *iov, int n)
{
	uint8_t bytes[ROCE_MAX] = { 0 };
	uint32_t n_payload = 0;

	for (int i = 0; i < n; i++)
		n_payload += (uint32_t)iov[i].iov_len;
	size_t at = roce_build(h, n_payload, bytes);
	for (int i = 0; i < n; i++) {
		memcpy(bytes + at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	at += h->pad + ROCE_ICRC;
	if (!happens(w.lost))
		transmit(end_of(c)->peer, bytes, (uint32_t)at);
	if (happens(w.doubled))
		transmit(end_of(c)->peer, bytes, (uint32_t)at);
}

static int op_gather(struct roce_conn *c, uint32_t i, uint32_t off, uint32_t n,
		     struct iovec *iov)
{
	static uint8_t bytes[MTU];

	stream_fill(bytes, i + off, n);
	iov[0] = (struct iovec){ bytes, n };
	return n ? 1 : 0;
}

static bool op_scatter(struct roce_conn *c, uint32_t i, uint32_t off,
		       const void *from, uint32_t n)
{
	struct end *e = end_of(c);
	const struct roce_wr *wr = roce_wr_at(c, i);

	assert_int_equal(off, e->got[i % N_WR]);
	e->got[i % N_WR] += n;
	if (wr->kind == REQ_READ) {
		assert_int_equal(stream_differs(from, off, n), n);
	} else {
		uint64_t was;

		memcpy(&was, from, sizeof(was));
		assert_int_equal(was, e->n_adds);
	}
	return true;
}

static void op_done(struct roce_conn *c, uint32_t i, enum ibv_wc_status status)
{
	struct end *e = end_of(c);
	const struct roce_wr *wr = roce_wr_at(c, i);

	assert_int_equal(i, e->done);
	e->done++;
	if (status != IBV_WC_SUCCESS) {
		e->status = status;
		e->has_failed = true;
		return;
	}
	if (wr->kind == REQ_WRITE && w.is_honest)
		assert_int_equal(
		    stream_differs(e->peer->memory + wr->addr, i, wr->length),
		    wr->length);
	if (wr->kind == REQ_READ)
		assert_int_equal(e->got[i % N_WR], wr->length);
	if (wr->kind == REQ_ADD)
		e->n_adds++;
	if (wr->kind == REQ_LOCAL)
		assert_true((int32_t)(e->last_here - i) > 0);
}

static bool op_has_queue(struct roce_conn *c) { return c->rsp.srqn == QUEUE; }

static bool op_take(struct roce_conn *c)
{
	struct end *e = end_of(c);

	if (!e->credits)
		return false;
	e->credits--;
	return true;
}

static enum ibv_wc_status op_put(struct roce_conn *c, uint32_t off,
				 const void *from, uint32_t n)
{
	struct end *e = end_of(c);
	uint32_t at = e->peer->sent[e->n_arrived % 4096].at;

	if (off + n > SLOT)
		return IBV_WC_LOC_LEN_ERR;
	assert_int_equal(stream_differs(from, at + off, n), n);
	return IBV_WC_SUCCESS;
}

static void op_arrived(struct roce_conn *c, const struct roce_arrival *a)
{
	struct end *e = end_of(c);
	uint32_t i = e->n_arrived++ % 4096;

	assert_int_equal(a->imm, e->peer->sent[i].imm);
	if (!a->is_write)
		assert_int_equal(a->length, e->peer->sent[i].length);
}

static bool op_permits(struct roce_conn *c, uint32_t access)
{
	return !w.denies_all;
}

static bool op_may(struct roce_conn *c, uint32_t rkey, uint64_t addr,
		   uint32_t n, uint32_t access)
{
	return rkey == KEY && addr <= N_WR * SLOT && n <= N_WR * SLOT - addr;
}

static bool op_write(struct roce_conn *c, uint32_t rkey, uint64_t addr,
		     const void *from, uint32_t n)
{
	memcpy(end_of(c)->memory + addr, from, n);
	return true;
}

static bool op_read(struct roce_conn *c, uint32_t rkey, uint64_t addr, void *to,
		    uint32_t n)
{
	memcpy(to, end_of(c)->still + addr, n);
	return true;
}

static bool op_atomic(struct roce_conn *c, uint32_t rkey, uint64_t addr,
		      bool is_swap, uint64_t swap_add, uint64_t compare,
		      uint64_t *was)
{
	struct end *e = end_of(c);

	*was = e->counter;
	if (!is_swap)
		e->counter += swap_add;
	else if (e->counter == compare)
		e->counter = swap_add;
	return true;
}

/* Now and then it has to be asked again. */
static int op_local(struct roce_conn *c, uint32_t i)
{
	struct end *e = end_of(c);

	assert_true((int32_t)(i - e->last_here) >= 0 &&
		    (int32_t)(i - e->done) >= 0);
	if (happens(300))
		return -1;
	e->last_here = i + 1;
	return IBV_WC_SUCCESS;
}

static bool op_invalidate(struct roce_conn *c, uint32_t rkey) { return true; }

static void op_fail(struct roce_conn *c, enum ibv_wc_status status,
		    enum ibv_event_type event)
{
	struct end *e = end_of(c);

	e->local = status;
	e->event = event;
	e->has_failed = true;
}

static const struct roce_ops ops = {
	.send = op_send,
	.gather = op_gather,
	.scatter = op_scatter,
	.done = op_done,
	.has_queue = op_has_queue,
	.take = op_take,
	.put = op_put,
	.arrived = op_arrived,
	.permits = op_permits,
	.may = op_may,
	.write = op_write,
	.read = op_read,
	.atomic = op_atomic,
	.local = op_local,
	.invalidate = op_invalidate,
	.fail = op_fail,
};

static void begin(uint64_t seed, bool is_uc)
{
	struct roce_config cf = { .is_uc = is_uc,
				  .mtu = MTU,
				  .dest_qpn = 5,
				  .timeout = 10,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .min_rnr_timer = 2,
				  .max_rd_atomic = 4 };
	uint32_t psn = 0xffff00;

	memset(&w, 0, sizeof(w));
	w.rng.state = seed;
	w.now = STEP;
	w.has_receives = w.is_honest = true;
	for (int i = 0; i < 2; i++) {
		struct end *e = &w.end[i];

		e->peer = &w.end[!i];
		stream_fill(e->still, 0, SLOT);
		roce_init(&e->c, &ops, &cf, e->wr, N_WR - 1);
		e->c.owner = e;
		roce_set_psn(&e->c, psn);
		roce_expect_psn(&e->c, psn);
	}
}

static void post(struct end *e, struct roce_wr wr)
{
	uint32_t i = e->head++;

	if (wr.kind == REQ_SEND ||
	    (wr.kind == REQ_WRITE && wr.flags & REQ_IMM)) {
		uint32_t n = e->n_sent++ % 4096;

		wr.imm = wr.flags & REQ_IMM ? i : 0;
		e->sent[n].length = wr.length;
		e->sent[n].imm = wr.imm;
		e->sent[n].at = i;
	}
	e->got[i % N_WR] = 0;
	*roce_wr_at(&e->c, i) = wr;
	roce_send(&e->c, e->head, w.now);
}

static struct roce_wr any_request(struct end *e, bool is_uc)
{
	uint32_t kinds = is_uc ? 2 : 6;
	struct roce_wr wr = { .kind = (uint8_t)rng_below(&w.rng, kinds),
			      .rkey = KEY,
			      .length = happens(300) ? rng_below(&w.rng, SLOT)
						     : rng_below(&w.rng, 300) };

	if (wr.kind == REQ_WRITE)
		wr.addr = e->head % N_WR * SLOT;
	if (wr.kind < REQ_READ && happens(300))
		wr.flags |= REQ_IMM;
	if (happens(100))
		wr.flags |= REQ_FENCE;
	if (is_uc && happens(200))
		wr.kind = REQ_LOCAL;
	if (wr.kind == REQ_SWAP || wr.kind == REQ_ADD) {
		wr.length = 8;
		wr.kind = REQ_ADD;
		wr.swap_add = 1;
	}
	return wr;
}

static struct packet *earliest(struct end *e)
{
	struct packet *found = NULL;

	for (uint32_t i = 0; i < ARRAY_LEN(e->in); i++) {
		struct packet *p = &e->in[i];

		if (p->is_there &&
		    (!found || p->at < found->at ||
		     (p->at == found->at && p->order < found->order)))
			found = p;
	}
	return found;
}

static void deliver(struct end *e)
{
	struct packet *p;
	struct roce_head h;
	bool any = false;

	while ((p = earliest(e)) && p->at <= w.now) {
		p->is_there = false;
		assert_true(roce_parse(p->bytes, p->n, &h));
		roce_receive(&e->c, &h, w.now);
		any = true;
	}
	while (any && roce_flush(&e->c, w.now))
		;
}

/* One microsecond, or up to whatever comes next. */
static void step(void)
{
	uint64_t next = UINT64_MAX;

	for (int i = 0; i < 2; i++) {
		struct end *e = &w.end[i];

		if (w.has_receives && e->credits < 4 && happens(100))
			e->credits++;
		deliver(e);
		roce_tick(&e->c, w.now);
		roce_send(&e->c, e->head, w.now); /* as each poll does */
	}
	for (int i = 0; i < 2; i++) {
		struct end *e = &w.end[i];
		uint64_t at = roce_deadline(&e->c);

		if (at)
			next = MIN(next, at);
		const struct packet *p = earliest(e);
		if (p)
			next = MIN(next, p->at);
	}
	w.now = MAX(w.now + STEP, next == UINT64_MAX ? 0 : next);
	assert_true(w.now < LIMIT_NS);
}

static void run(uint32_t n_requests, bool is_uc)
{
	uint32_t left[2] = { n_requests, n_requests };

	while (left[0] || left[1] || w.end[0].done != w.end[0].head ||
	       w.end[1].done != w.end[1].head) {
		for (int i = 0; i < 2; i++) {
			struct end *e = &w.end[i];

			if (left[i] && e->head - e->done < N_WR &&
			    happens(500)) {
				post(e, any_request(e, is_uc));
				left[i]--;
			}
		}
		step();
		for (int i = 0; i < 2; i++)
			if (w.end[i].has_failed)
				fail_msg(
				    "end %d, status %d, here %d, event %d, of seed state %lx",
				    i, w.end[i].status, w.end[i].local,
				    w.end[i].event, (unsigned long)w.rng.state);
	}
}

static void all_arrives_over_a_wire_of_any_kind(void **state)
{
	static const uint32_t kinds[][3] = { { 0, 0, 0 },    { 10, 0, 0 },
					     { 0, 50, 0 },   { 0, 0, 100 },
					     { 30, 30, 30 }, { 80, 20, 200 } };

	for (uint32_t k = 0; k < ARRAY_LEN(kinds); k++)
		for (uint64_t seed = 1; seed <= 8; seed++) {
			begin(seed * 100 + k, false);
			w.lost = kinds[k][0];
			w.doubled = kinds[k][1];
			w.late = kinds[k][2];
			w.end[seed % 2].c.patience_ns = seed / 2 * 7 * STEP;
			run(300, false);
			for (int i = 0; i < 2; i++) {
				struct end *e = &w.end[i];

				assert_int_equal(e->n_arrived, e->peer->n_sent);
				assert_int_equal(e->counter, e->peer->n_adds);
			}
		}
}

static void an_unreliable_connection_over_a_good_wire_loses_nothing(void **s)
{
	begin(1, true);
	w.is_honest = false;
	w.end[0].credits = w.end[1].credits = UINT32_MAX;
	w.has_receives = false;
	run(500, true);
	for (int i = 0; i < 40; i++)
		step();
	for (int i = 0; i < 2; i++)
		assert_int_equal(w.end[i].n_arrived, w.end[!i].n_sent);
}

static void fails_with(struct roce_wr wr, enum ibv_wc_status status)
{
	struct end *e = &w.end[0];

	post(e, wr);
	while (!e->has_failed)
		step();
	assert_int_equal(e->status, status);
	assert_int_equal(e->done, e->head);
}

static void errors_are_those_of_the_specification(void **state)
{
	const struct roce_wr write = { .kind = REQ_WRITE,
				       .rkey = 1,
				       .length = 9 };
	const struct roce_wr read = { .kind = REQ_READ,
				      .rkey = 1,
				      .length = 9 };
	const struct roce_wr send = { .kind = REQ_SEND, .length = 9 };
	const struct roce_wr large = { .kind = REQ_SEND, .length = SLOT + 1 };
	const struct roce_wr elsewhere = { .kind = REQ_SEND,
					   .length = 9,
					   .srqn = QUEUE + 1 };

	begin(1, false);
	fails_with(write, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(w.end[1].event, IBV_EVENT_QP_ACCESS_ERR);
	begin(2, false);
	fails_with(read, IBV_WC_REM_ACCESS_ERR);
	const struct roce_wr denied[] = {
		{ .kind = REQ_WRITE },
		{ .kind = REQ_READ, .rkey = KEY, .length = 9 },
		{ .kind = REQ_ADD, .rkey = KEY, .length = 8 },
	};
	for (uint32_t i = 0; i < ARRAY_LEN(denied); i++) {
		begin(20 + i, false);
		w.denies_all = true;
		fails_with(denied[i], IBV_WC_REM_INV_REQ_ERR);
		assert_int_equal(w.end[1].event, IBV_EVENT_QP_REQ_ERR);
	}
	begin(3, false);
	fails_with(large, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(w.end[1].local, IBV_WC_LOC_LEN_ERR);
	begin(6, false);
	w.end[0].c.cf.is_xrc = w.end[1].c.cf.is_xrc = true;
	fails_with(elsewhere, IBV_WC_REM_INV_REQ_ERR);
	begin(4, false);
	w.has_receives = false;
	w.end[0].c.cf.rnr_retry = w.end[0].c.req.rnr_retries = 3;
	fails_with(send, IBV_WC_RNR_RETRY_EXC_ERR);
	begin(5, false);
	w.lost = 1000;
	fails_with(send, IBV_WC_RETRY_EXC_ERR);
	/* A first try and seven more: 4.096 us times 2^10, twice and then four times as long. */
	assert_in_range(w.now, 27 * 4194304, 28 * 4194304);
}

/* Packets on their way to @e. */
static uint32_t n_coming(const struct end *e)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ARRAY_LEN(e->in); i++)
		n += e->in[i].is_there;
	return n;
}

static void an_acknowledgement_waits_for_a_request(void **state)
{
	const struct roce_wr send = { .kind = REQ_SEND, .length = 9 };
	struct end *a = &w.end[0], *b = &w.end[1];

	begin(1, false);
	a->credits = b->credits = 10;
	b->c.patience_ns = 50 * STEP;
	/* It leaves right behind the request: so one call of the kernel sends both. */
	post(a, send);
	w.now += 10 * STEP;
	deliver(b);
	assert_int_equal(n_coming(a), 0);
	post(b, send);
	assert_int_equal(n_coming(a), 2);
	w.now += 10 * STEP;
	deliver(a);
	assert_int_equal(a->done, 1);
	deliver(b);
	assert_int_equal(b->done, 0);
	/* Nobody answers: it leaves when its time is over. */
	w.now += 10 * STEP;
	deliver(b);
	post(a, send);
	w.now += 10 * STEP;
	deliver(b);
	assert_int_equal(n_coming(a), 0);
	w.now = roce_deadline(&b->c);
	roce_tick(&b->c, w.now);
	assert_int_equal(n_coming(a), 1);
	/* What arrives next takes it along, and a packet that comes twice is not kept waiting. */
	w.now += 10 * STEP;
	deliver(a);
	assert_int_equal(a->done, 2);
	post(a, send);
	w.now += 10 * STEP;
	deliver(b);
	post(a, send);
	w.now += 10 * STEP;
	deliver(b);
	assert_int_equal(n_coming(a), 1);
	w.now += 10 * STEP;
	deliver(a);
	assert_int_equal(a->done, 4);
	w.doubled = 1000;
	post(a, send);
	w.now += 10 * STEP;
	deliver(b);
	assert_true(n_coming(a) >= 1);
}

static void a_peer_that_says_anything_harms_nobody(void **state)
{
	for (uint64_t seed = 1; seed <= 400; seed++) {
		struct end *e = &w.end[0];

		begin(seed, false);
		w.is_honest = false;
		e->credits = 1000;
		for (int i = 0; i < 20; i++)
			post(e, any_request(e, false));
		for (int i = 0; i < 300; i++) {
			struct roce_head h = {
				.op = (uint8_t)rng_below(&w.rng, OP_END),
				.psn = psn_add(0xffff00, rng_below(&w.rng, 40)),
				.syndrome = (uint8_t)rng_below(&w.rng, 100),
				.rkey = KEY,
				.length = rng_below(&w.rng, 1000),
				.wants_ack = happens(500),
				.addr = rng_below(&w.rng, 2000) & ~7u,
				.payload = e->still,
				.n_payload = 0,
			};

			if (h.op >= OP_READ_FIRST && h.op <= OP_READ_ONLY)
				continue; /* its bytes are checked above */
			if (h.op == OP_ATOMIC_ACK || h.op < OP_WRITE_FIRST)
				continue;
			roce_receive(&e->c, &h, w.now);
			roce_flush(&e->c, w.now);
			roce_tick(&e->c, w.now += STEP * 100);
			assert_true(e->done <= e->head);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_arrives_over_a_wire_of_any_kind),
		cmocka_unit_test(
		    an_unreliable_connection_over_a_good_wire_loses_nothing),
		cmocka_unit_test(an_acknowledgement_waits_for_a_request),
		cmocka_unit_test(errors_are_those_of_the_specification),
		cmocka_unit_test(a_peer_that_says_anything_harms_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
