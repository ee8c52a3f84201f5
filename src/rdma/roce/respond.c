/* SPDX-License-Identifier: MIT */
/*
 * rdma/roce/respond.c - the responder: requests of the peer, executed and answered
 *
 * InfiniBand Architecture volume 1, section 9.7.4, in its order: is this the packet that is
 * expected, does it continue the message, is there a receive, may the peer touch the
 * memory.  The responder reports a gap once, and drops what follows until the missing
 * packet comes.
 *
 * Responses to reads and atomic operations wait in a queue, and a later acknowledgement
 * waits behind them.  The responder acknowledges a duplicate of a write or a send without
 * executing it, reads again for a duplicate of a read, and answers a duplicate of an atomic
 * operation with the result that it kept.
 */
#include <endian.h>
#include <string.h>

#include "rdma/roce/conn.h"

#define BUDGET 64u /* responses of one flush */

static void answer_with(struct roce_conn *c, uint8_t syndrome)
{
	c->rsp.is_answer_due = c->rsp.is_answer_urgent = true;
	c->rsp.syndrome = syndrome;
}

/* A packet has arrived in order: its acknowledgement may wait. */
static void acknowledge(struct roce_conn *c)
{
	struct responder *r = &c->rsp;

	if (!r->is_answer_due)
		r->is_answer_urgent = false;
	r->is_answer_due = true;
	r->syndrome = SYN_ACK;
}

static struct roce_head response(const struct roce_conn *c, uint8_t op,
				 uint32_t psn)
{
	return (struct roce_head){ .service = roce_service_of(&c->cf),
				   .op = op,
				   .dest_qpn = c->cf.dest_qpn,
				   .psn = psn,
				   .syndrome = SYN_ACK,
				   .msn = c->rsp.msn };
}

static void send_answer(struct roce_conn *c)
{
	struct responder *r = &c->rsp;
	bool is_ack = (r->syndrome & SYN_KIND) == 0;
	struct roce_head h =
	    response(c, OP_ACK, is_ack ? psn_add(r->psn, PSN_MASK) : r->psn);

	h.syndrome = r->syndrome;
	r->is_answer_due = false;
	r->answer_ns = 0;
	c->ops->send(c, &h, NULL, 0);
}

/* The peer is told why, and the connection ends. */
static void refuse(struct roce_conn *c, uint8_t syndrome,
		   enum ibv_wc_status status, enum ibv_event_type event)
{
	answer_with(c, syndrome);
	send_answer(c);
	c->has_failed = true;
	c->ops->fail(c, status, event);
}

static void refuse_request(struct roce_conn *c)
{
	refuse(c, SYN_NAK_INVALID, IBV_WC_SUCCESS, IBV_EVENT_QP_REQ_ERR);
}

static void refuse_access(struct roce_conn *c)
{
	refuse(c, SYN_NAK_ACCESS, IBV_WC_SUCCESS, IBV_EVENT_QP_ACCESS_ERR);
}

static bool is_first(uint8_t op)
{
	return op == OP_SEND_FIRST || op == OP_WRITE_FIRST ||
	       op == OP_SEND_ONLY || op == OP_SEND_ONLY_IMM ||
	       op == OP_SEND_ONLY_INV || op == OP_WRITE_ONLY ||
	       op == OP_WRITE_ONLY_IMM;
}

static bool is_last(uint8_t op)
{
	return op != OP_SEND_FIRST && op != OP_SEND_MIDDLE &&
	       op != OP_WRITE_FIRST && op != OP_WRITE_MIDDLE;
}

static bool is_write(uint8_t op)
{
	return op >= OP_WRITE_FIRST && op <= OP_WRITE_ONLY_IMM;
}

static bool has_imm(uint8_t op)
{
	return op == OP_SEND_LAST_IMM || op == OP_SEND_ONLY_IMM ||
	       op == OP_WRITE_LAST_IMM || op == OP_WRITE_ONLY_IMM;
}

static bool has_inv(uint8_t op)
{
	return op == OP_SEND_LAST_INV || op == OP_SEND_ONLY_INV;
}

/* Does it continue what has begun, with as many bytes as its place has? */
static bool fits_in(const struct roce_conn *c, const struct roce_head *h)
{
	uint8_t in = c->rsp.in;

	if (is_first(h->op)
		? in != 0
		: in != (is_write(h->op) ? REQ_WRITE : REQ_SEND) + 1)
		return false;
	if (!is_last(h->op))
		return h->n_payload == c->cf.mtu;
	return h->n_payload <= c->cf.mtu && (h->n_payload || is_first(h->op));
}

/* Where a write goes: may it, and do the lengths agree? */
enum aimed { AIM_GOOD, AIM_REQUEST, AIM_ACCESS };

static enum aimed aim(struct roce_conn *c, const struct roce_head *h)
{
	struct responder *r = &c->rsp;

	if (is_first(h->op)) {
		if (!c->ops->permits(c, IBV_ACCESS_REMOTE_WRITE))
			return AIM_REQUEST;
		r->rkey = h->rkey;
		r->addr = h->addr;
		r->left = h->length;
		if (h->length && !c->ops->may(c, h->rkey, h->addr, h->length,
					      IBV_ACCESS_REMOTE_WRITE))
			return AIM_ACCESS;
	}
	return is_last(h->op) ? r->left == h->n_payload ? AIM_GOOD : AIM_REQUEST
	       : r->left > h->n_payload ? AIM_GOOD
					: AIM_REQUEST;
}

static bool store(struct roce_conn *c, const struct roce_head *h)
{
	struct responder *r = &c->rsp;

	if (h->n_payload &&
	    !c->ops->write(c, r->rkey, r->addr, h->payload, h->n_payload))
		return false;
	r->addr += h->n_payload;
	r->left -= h->n_payload;
	return true;
}

static void arrive(struct roce_conn *c, const struct roce_head *h)
{
	struct roce_arrival a = {
		.length = c->rsp.off,
		.flags = (has_imm(h->op) ? REQ_IMM : 0u) |
			 (has_inv(h->op) ? REQ_INV : 0u) |
			 (h->is_solicited ? REQ_SOLICITED : 0u),
		.imm = has_inv(h->op) ? h->inv_rkey : h->imm,
		.is_write = is_write(h->op),
	};

	c->ops->arrived(c, &a);
}

/* A packet was executed. */
static void step(struct roce_conn *c, const struct roce_head *h)
{
	struct responder *r = &c->rsp;

	r->off += h->n_payload;
	r->in = (uint8_t)((is_write(h->op) ? REQ_WRITE : REQ_SEND) + 1);
	r->psn = psn_add(h->psn, 1);
	if (!is_last(h->op))
		return;
	r->in = 0;
	r->msn = psn_add(r->msn, 1);
	if (!is_write(h->op) || has_imm(h->op))
		arrive(c, h);
	r->off = 0;
}

static bool take_or_wait(struct roce_conn *c)
{
	if (c->ops->take(c))
		return true;
	answer_with(c, SYN_RNR | c->cf.min_rnr_timer);
	c->rsp.has_nak = true;
	return false;
}

static void on_send(struct roce_conn *c, const struct roce_head *h)
{
	if (is_first(h->op) && !take_or_wait(c))
		return;
	enum ibv_wc_status status =
	    c->ops->put(c, c->rsp.off, h->payload, h->n_payload);
	if (status != IBV_WC_SUCCESS) {
		refuse(c,
		       status == IBV_WC_LOC_LEN_ERR ? SYN_NAK_INVALID
						    : SYN_NAK_OPERATION,
		       status, IBV_EVENT_QP_FATAL);
		return;
	}
	if (has_inv(h->op) && !c->ops->invalidate(c, h->inv_rkey)) {
		refuse(c, SYN_NAK_ACCESS, IBV_WC_REM_INV_REQ_ERR,
		       IBV_EVENT_QP_ACCESS_ERR);
		return;
	}
	step(c, h);
}

static void on_write(struct roce_conn *c, const struct roce_head *h)
{
	enum aimed aimed = aim(c, h);

	if (aimed == AIM_REQUEST) {
		refuse_request(c);
		return;
	}
	if (aimed == AIM_GOOD && has_imm(h->op) && !take_or_wait(c))
		return;
	if (aimed == AIM_ACCESS || !store(c, h)) {
		refuse_access(c);
		return;
	}
	step(c, h);
}

static uint32_t packets(const struct roce_conn *c, uint32_t length)
{
	return length ? (length - 1) / c->cf.mtu + 1 : 1;
}

/* The new request's answer comes last, in place of what it repeats. */
static struct response *enqueue(struct roce_conn *c, uint32_t psn)
{
	struct responder *r = &c->rsp;

	while (r->first != r->end &&
	       psn_diff(r->queue[(r->end - 1) % ROCE_RESPONSES].psn, psn) >= 0)
		r->end--;
	if (r->end - r->first == ROCE_RESPONSES)
		return NULL;
	return &r->queue[r->end++ % ROCE_RESPONSES];
}

static bool queue_read(struct roce_conn *c, const struct roce_head *h)
{
	struct response *q = enqueue(c, h->psn);

	if (q)
		*q = (struct response){ .psn = h->psn,
					.rkey = h->rkey,
					.left = h->length,
					.srqn = h->xrc_srqn,
					.addr = h->addr,
					.msn = c->rsp.msn };
	return q != NULL;
}

static bool queue_atomic(struct roce_conn *c, uint32_t psn, uint64_t original)
{
	struct response *q = enqueue(c, psn);

	if (q)
		*q = (struct response){ .psn = psn,
					.original = original,
					.is_atomic = true,
					.msn = c->rsp.msn };
	return q != NULL;
}

static bool may_read(struct roce_conn *c, const struct roce_head *h)
{
	return !h->length || c->ops->may(c, h->rkey, h->addr, h->length,
					 IBV_ACCESS_REMOTE_READ);
}

static void on_read_request(struct roce_conn *c, const struct roce_head *h)
{
	struct responder *r = &c->rsp;

	if (!c->ops->permits(c, IBV_ACCESS_REMOTE_READ)) {
		refuse_request(c);
		return;
	}
	if (!may_read(c, h)) {
		refuse_access(c);
		return;
	}
	r->msn = psn_add(r->msn, 1);
	if (h->length > 1u << 31 || !queue_read(c, h)) {
		refuse_request(c);
		return;
	}
	r->psn = psn_add(r->psn, packets(c, h->length));
}

static void on_atomic(struct roce_conn *c, const struct roce_head *h)
{
	struct responder *r = &c->rsp;
	uint64_t was;

	if (r->end - r->first == ROCE_RESPONSES || h->addr % 8 ||
	    !c->ops->permits(c, IBV_ACCESS_REMOTE_ATOMIC)) {
		refuse_request(c);
		return;
	}
	if (!c->ops->may(c, h->rkey, h->addr, sizeof(was),
			 IBV_ACCESS_REMOTE_ATOMIC) ||
	    !c->ops->atomic(c, h->rkey, h->addr, h->op == OP_COMPARE_SWAP,
			    h->swap_add, h->compare, &was)) {
		refuse_access(c);
		return;
	}
	uint32_t i = r->n_results++ % ROCE_RESULTS;
	r->result[i].psn = h->psn;
	r->result[i].original = was;
	r->msn = psn_add(r->msn, 1);
	r->psn = psn_add(r->psn, 1);
	queue_atomic(c, h->psn, was);
}

static void repeat_atomic(struct roce_conn *c, uint32_t psn)
{
	const struct responder *r = &c->rsp;

	for (uint32_t n = MIN(r->n_results, ROCE_RESULTS); n; n--) {
		uint32_t i = (r->n_results - n) % ROCE_RESULTS;

		if (r->result[i].psn == psn) {
			queue_atomic(c, psn, r->result[i].original);
			return;
		}
	}
}

static void on_duplicate(struct roce_conn *c, const struct roce_head *h)
{
	struct responder *r = &c->rsp;

	if (h->op == OP_READ_REQUEST) {
		if (h->length <= 1u << 31 &&
		    psn_diff(psn_add(h->psn, packets(c, h->length)), r->psn) <=
			0 &&
		    may_read(c, h))
			queue_read(c, h);
	} else if (h->op == OP_COMPARE_SWAP || h->op == OP_FETCH_ADD) {
		repeat_atomic(c, h->psn);
	} else if (r->is_answer_due) {
		r->is_answer_urgent = true;
	} else {
		answer_with(c, SYN_ACK);
	}
}

static void execute(struct roce_conn *c, const struct roce_head *h)
{
	bool is_message = roce_has_payload(h->op);

	if (c->cf.is_xrc && !c->ops->has_queue(c))
		refuse_request(c);
	else if (is_message ? !fits_in(c, h) : c->rsp.in)
		refuse_request(c);
	else if (h->op == OP_READ_REQUEST)
		on_read_request(c, h);
	else if (!is_message)
		on_atomic(c, h);
	else if (is_write(h->op))
		on_write(c, h);
	else
		on_send(c, h);
}

void roce_respond(struct roce_conn *c, const struct roce_head *h)
{
	struct responder *r = &c->rsp;
	int32_t ahead = psn_diff(h->psn, r->psn);

	r->srqn = h->xrc_srqn;
	if (ahead < 0) {
		on_duplicate(c, h);
		return;
	}
	if (ahead > 0) {
		if (!r->has_nak)
			answer_with(c, SYN_NAK_SEQUENCE);
		r->has_nak = true;
		return;
	}
	r->has_nak = false;
	execute(c, h);
	if (h->wants_ack && !c->has_failed && !r->has_nak &&
	    roce_has_payload(h->op))
		acknowledge(c);
}

/*
 * What is answered.
 */

static bool send_read_part(struct roce_conn *c, struct response *q)
{
	uint8_t bytes[ROCE_MTU_MAX];
	uint32_t n = MIN(q->left, c->cf.mtu);
	bool ends = n == q->left;
	struct roce_head h =
	    response(c,
		     ends           ? q->has_begun ? OP_READ_LAST : OP_READ_ONLY
		     : q->has_begun ? OP_READ_MIDDLE
				    : OP_READ_FIRST,
		     q->psn);
	struct iovec iov = { bytes, n };

	c->rsp.srqn = q->srqn;
	if (n && !c->ops->read(c, q->rkey, q->addr, bytes, n)) {
		c->rsp.psn = q->psn;
		refuse_access(c);
		return false;
	}
	h.msn = q->msn;
	c->ops->send(c, &h, &iov, n != 0);
	q->psn = psn_add(q->psn, 1);
	q->addr += n;
	q->left -= n;
	q->has_begun = true;
	return ends;
}

static void send_atomic_answer(struct roce_conn *c, const struct response *q)
{
	struct roce_head h = response(c, OP_ATOMIC_ACK, q->psn);

	h.msn = q->msn;
	h.original = q->original;
	c->ops->send(c, &h, NULL, 0);
}

/* Whether the answer may wait.  It waits once: the next packet or poll sends it. */
static bool waits(struct roce_conn *c, uint64_t now)
{
	struct responder *r = &c->rsp;

	if (r->is_answer_urgent || !c->patience_ns || r->answer_ns)
		return false;
	r->answer_ns = now + c->patience_ns;
	return true;
}

/* The answer leaves only after the responses that it would acknowledge. */
void roce_send_late_answer(struct roce_conn *c)
{
	struct responder *r = &c->rsp;

	if (r->is_answer_due && r->answer_ns && r->first == r->end &&
	    !c->has_failed)
		send_answer(c);
}

bool roce_respond_flush(struct roce_conn *c, uint64_t now)
{
	struct responder *r = &c->rsp;

	for (uint32_t n = 0; r->first != r->end && !c->has_failed; n++) {
		struct response *q = &r->queue[r->first % ROCE_RESPONSES];

		if (n == BUDGET)
			return true;
		if (q->is_atomic)
			send_atomic_answer(c, q);
		else if (!send_read_part(c, q))
			continue;
		r->first++;
	}
	if (r->is_answer_due && !c->has_failed && !waits(c, now))
		send_answer(c);
	return false;
}

/*
 * Unreliable connections: what does not fit is dropped, up to the next message.
 */

static void drop_message(struct roce_conn *c)
{
	struct responder *r = &c->rsp;

	/* The receive is there for the next one. */
	r->in = 0;
	r->off = 0;
}

static bool execute_uc(struct roce_conn *c, const struct roce_head *h)
{
	if (!is_write(h->op)) {
		if (is_first(h->op) && !c->ops->take(c))
			return false;
		enum ibv_wc_status status =
		    c->ops->put(c, c->rsp.off, h->payload, h->n_payload);
		if (status == IBV_WC_SUCCESS)
			return true;
		c->has_failed = true;
		c->ops->fail(c, status, IBV_EVENT_QP_FATAL);
		return false;
	}
	return aim(c, h) == AIM_GOOD && store(c, h) &&
	       (!has_imm(h->op) || c->ops->take(c));
}

void roce_respond_uc(struct roce_conn *c, const struct roce_head *h)
{
	struct responder *r = &c->rsp;
	bool is_next = h->psn == r->psn;

	if ((!is_next || is_first(h->op)) && r->in)
		drop_message(c);
	r->psn = psn_add(h->psn, 1);
	if (!fits_in(c, h) || !execute_uc(c, h)) {
		if (!c->has_failed)
			drop_message(c);
		return;
	}
	step(c, h);
}
