/* SPDX-License-Identifier: MIT */
/*
 * rdma/roce/request.c - the requester: which packets it sends, and when it sends them again
 *
 *     una_psn <= next_psn <= top_psn, and next_psn - una_psn <= window
 *
 * `next` is the request that holds next_psn.  Going back sets both to the oldest packet
 * that is not acknowledged; a request keeps its PSNs for as long as it lives.
 */
#include <string.h>

#include "rdma/roce/conn.h"

#define N_IOV 32
#define WINDOW_START 32u
#define ASK_EVERY 16u /* packets, within a long message */
#define READ_PART 16u /* packets */
#define UNIT_NS 4096u
#define RNR_STEP_NS 10000u

uint64_t roce_rnr_ns(uint32_t code)
{
	static const uint16_t steps[32] = {
		65535, 1,    2,    3,     4,     6,     8,     12,
		16,    24,   32,   48,    64,    96,    128,   192,
		256,   384,  512,  768,   1024,  1536,  2048,  3072,
		4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152
	};

	return (uint64_t)steps[code % 32] * RNR_STEP_NS;
}

void roce_init(struct roce_conn *c, const struct roce_ops *ops,
	       const struct roce_config *cf, struct roce_wr *wr, uint32_t mask)
{
	memset(c, 0, sizeof(*c));
	c->ops = ops;
	c->cf = *cf;
	c->req.wr = wr;
	c->req.mask = mask;
	c->req.window = WINDOW_START;
	c->req.retries = cf->retry_cnt;
	c->req.rnr_retries = cf->rnr_retry;
}

void roce_set_psn(struct roce_conn *c, uint32_t sq_psn)
{
	struct requester *r = &c->req;

	r->una_psn = r->next_psn = r->top_psn = sq_psn & PSN_MASK;
}

void roce_expect_psn(struct roce_conn *c, uint32_t rq_psn)
{
	c->rsp.psn = rq_psn & PSN_MASK;
}

static uint32_t packets(const struct roce_conn *c, uint32_t length)
{
	return length ? (length - 1) / c->cf.mtu + 1 : 1;
}

static bool is_outstanding(const struct requester *r)
{
	return r->una_psn != r->next_psn;
}

/* A peer that has not answered gets more time with each try: its host may be busy.  Section
 * 9.7.6.1.3 allows four times what the program has asked for. */
static uint64_t resend_after(const struct roce_conn *c)
{
	uint32_t n_tried = c->cf.retry_cnt - c->req.retries;

	return (uint64_t)UNIT_NS << (c->cf.timeout + MIN(n_tried, 2u));
}

void roce_arm(struct roce_conn *c, uint64_t now)
{
	struct requester *r = &c->req;

	r->resend_ns = is_outstanding(r) && c->cf.timeout && !c->cf.is_uc
			   ? now + resend_after(c)
			   : 0;
}

void roce_go_back(struct roce_conn *c)
{
	struct requester *r = &c->req;

	r->next = r->una;
	r->next_psn = r->una_psn;
	r->n_reads = r->n_unasked = 0;
	r->is_stuck = false;
	r->window = MAX(r->window / 2, WINDOW_MIN);
	r->n_grown = 0;
}

void roce_fail_request(struct roce_conn *c, enum ibv_wc_status status)
{
	struct requester *r = &c->req;

	c->has_failed = true;
	c->ops->done(c, r->una, status);
}

void roce_retry(struct roce_conn *c)
{
	struct requester *r = &c->req;

	if (!r->retries) {
		roce_fail_request(c, IBV_WC_RETRY_EXC_ERR);
		return;
	}
	r->retries--;
	roce_go_back(c);
}

/* The parts that read and atomic requests have of all others. */
static uint8_t opcode_of(const struct roce_wr *w, bool is_first, bool is_last)
{
	bool is_write = w->kind == REQ_WRITE;
	uint8_t op;

	if (is_first && is_last)
		op = is_write ? OP_WRITE_ONLY : OP_SEND_ONLY;
	else if (is_first)
		op = is_write ? OP_WRITE_FIRST : OP_SEND_FIRST;
	else if (is_last)
		op = is_write ? OP_WRITE_LAST : OP_SEND_LAST;
	else
		op = is_write ? OP_WRITE_MIDDLE : OP_SEND_MIDDLE;
	if (is_last && w->flags & REQ_IMM)
		return op + 1;
	if (is_last && w->flags & REQ_INV)
		return is_first ? OP_SEND_ONLY_INV : OP_SEND_LAST_INV;
	return op;
}

static struct roce_head head_of(const struct roce_conn *c,
				const struct roce_wr *w, uint8_t op)
{
	return (struct roce_head){ .service = roce_service_of(&c->cf),
				   .op = op,
				   .dest_qpn = c->cf.dest_qpn,
				   .psn = c->req.next_psn,
				   .addr = w->addr,
				   .rkey = w->rkey,
				   .length = w->length,
				   .swap_add = w->swap_add,
				   .compare = w->compare,
				   .xrc_srqn = w->srqn };
}

/* A request failed here that is not the oldest: the others come first. */
static bool stick(struct roce_conn *c, enum ibv_wc_status status)
{
	c->req.is_stuck = true;
	c->req.stuck = status;
	if (c->req.una == c->req.next)
		roce_fail_request(c, status);
	return false;
}

/* Now and then, and before the window closes. */
static bool wants_answer(struct requester *r)
{
	return ++r->n_unasked >= ASK_EVERY ||
	       (uint32_t)psn_diff(r->next_psn, r->una_psn) + 1 >= r->window;
}

/* One packet of a send or a write. */
static bool send_part(struct roce_conn *c, struct roce_wr *w, uint32_t k)
{
	struct requester *r = &c->req;
	struct iovec iov[N_IOV];
	uint32_t off = k * c->cf.mtu, n = MIN(w->length - off, c->cf.mtu);
	bool is_last = k + 1 == w->n_psns;
	struct roce_head h = head_of(c, w, opcode_of(w, !k, is_last));
	int n_iov = c->ops->gather(c, r->next, off, n, iov);

	if (n_iov < 0)
		return stick(c, IBV_WC_LOC_PROT_ERR);
	h.imm = w->imm;
	h.inv_rkey = w->imm;
	h.is_solicited = is_last && w->flags & REQ_SOLICITED;
	h.wants_ack = !c->cf.is_uc && (is_last || wants_answer(r));
	if (h.wants_ack)
		r->n_unasked = 0;
	c->ops->send(c, &h, iov, n_iov);
	r->next_psn = psn_add(r->next_psn, 1);
	return true;
}

/* How many packets to ask for at once, from the @k-th on.  When we ask for a part again, it
 * ends where it ended before.  So the peer has executed all of what we ask for, or nothing. */
static uint32_t read_part(const struct roce_wr *w, uint32_t k)
{
	return MIN(w->n_psns, (k / READ_PART + 1) * READ_PART) - k;
}

static bool send_read(struct roce_conn *c, struct roce_wr *w, uint32_t k)
{
	struct requester *r = &c->req;
	uint32_t n = read_part(w, k), off = k * c->cf.mtu;
	struct roce_head h = head_of(c, w, OP_READ_REQUEST);

	h.addr += off;
	h.length = k + n == w->n_psns ? w->length - off : n * c->cf.mtu;
	h.wants_ack = true;
	r->n_reads++;
	c->ops->send(c, &h, NULL, 0);
	r->next_psn = psn_add(r->next_psn, n);
	return true;
}

static bool send_atomic(struct roce_conn *c, struct roce_wr *w)
{
	struct roce_head h =
	    head_of(c, w, w->kind == REQ_SWAP ? OP_COMPARE_SWAP : OP_FETCH_ADD);

	h.wants_ack = true;
	c->req.n_reads++;
	c->ops->send(c, &h, NULL, 0);
	c->req.next_psn = psn_add(c->req.next_psn, 1);
	return true;
}

/* Reads and atomic operations that have been asked for, and what waits for them. */
static bool must_wait(const struct roce_conn *c, const struct roce_wr *w)
{
	const struct requester *r = &c->req;

	uint32_t used = (uint32_t)psn_diff(r->next_psn, r->una_psn);
	uint32_t k = (uint32_t)psn_diff(r->next_psn, w->psn);

	if (w->flags & REQ_FENCE && r->n_reads && !k)
		return true;
	if (w->kind == REQ_READ && used && used + read_part(w, k) > r->window)
		return true;
	return roce_is_answered(w) && r->n_reads >= MAX(c->cf.max_rd_atomic, 1);
}

/* Not a packet of its own: when the requests before it have been sent. */
static bool do_here(struct roce_conn *c, const struct roce_wr *w)
{
	struct requester *r = &c->req;

	if (r->next == r->n_known) {
		if (w->flags & REQ_FENCE && r->n_reads)
			return false;
		int status = c->ops->local(c, r->next);

		if (status != IBV_WC_SUCCESS)
			return status > 0 &&
			       stick(c, (enum ibv_wc_status)status);
		r->n_known++;
	}
	if (r->next++ == r->una)
		roce_finish(c);
	return true;
}

static bool send_next(struct roce_conn *c)
{
	struct requester *r = &c->req;
	struct roce_wr *w = roce_wr_at(c, r->next);

	if (w->kind == REQ_LOCAL)
		return do_here(c, w);
	if (r->next == r->n_known) {
		w->psn = r->next_psn;
		w->n_psns = roce_is_answered(w) && w->kind != REQ_READ
				? 1
				: packets(c, w->length);
		r->n_known++;
	}
	if (must_wait(c, w))
		return false;
	uint32_t k = (uint32_t)psn_diff(r->next_psn, w->psn);
	bool is_sent = w->kind == REQ_READ   ? send_read(c, w, k)
		       : roce_is_answered(w) ? send_atomic(c, w)
					     : send_part(c, w, k);
	if (!is_sent)
		return false;
	if (psn_diff(r->next_psn, r->top_psn) > 0)
		r->top_psn = r->next_psn;
	if (r->next_psn == psn_add(w->psn, w->n_psns))
		r->next++;
	return true;
}

/* An unreliable message is over when it is sent. */
static void complete_uc(struct roce_conn *c)
{
	struct requester *r = &c->req;

	while (r->una != r->next && !c->has_failed)
		c->ops->done(c, r->una++, IBV_WC_SUCCESS);
	r->una_psn = r->next_psn;
}

void roce_send(struct roce_conn *c, uint32_t head, uint64_t now)
{
	struct requester *r = &c->req;
	bool was_outstanding = is_outstanding(r);
	uint32_t from = r->next_psn;

	r->head = head;
	if (c->has_failed || r->rnr_ns)
		return;
	while (r->next != r->head && !r->is_stuck && !c->has_failed &&
	       (uint32_t)psn_diff(r->next_psn, r->una_psn) < r->window) {
		if (!send_next(c))
			break;
		if (c->cf.is_uc)
			complete_uc(c);
	}
	if (r->next_psn != from)
		roce_send_late_answer(c);
	if (!was_outstanding)
		roce_arm(c, now);
}

void roce_tick(struct roce_conn *c, uint64_t now)
{
	struct requester *r = &c->req;

	if (c->has_failed)
		return;
	if (c->rsp.answer_ns && now >= c->rsp.answer_ns)
		roce_send_late_answer(c);
	if (r->rnr_ns && now >= r->rnr_ns) {
		r->rnr_ns = 0;
		roce_send(c, r->head, now);
	} else if (r->resend_ns && now >= r->resend_ns) {
		r->has_lost = false;
		roce_retry(c);
		r->resend_ns = 0;
		roce_send(c, r->head, now);
	}
}

uint64_t roce_deadline(const struct roce_conn *c)
{
	uint64_t at = c->req.rnr_ns ? c->req.rnr_ns : c->req.resend_ns;
	uint64_t late = c->rsp.answer_ns;

	if (c->has_failed)
		return 0;
	return late && (!at || late < at) ? late : at;
}

void roce_receive(struct roce_conn *c, const struct roce_head *h, uint64_t now)
{
	if (c->has_failed || h->service != roce_service_of(&c->cf))
		return;
	if (c->cf.is_uc)
		roce_respond_uc(c, h);
	else if (roce_is_response(h->op))
		roce_answer(c, h, now);
	else
		roce_respond(c, h);
}

bool roce_flush(struct roce_conn *c, uint64_t now)
{
	if (c->has_failed)
		return false;
	bool has_more = !c->cf.is_uc && roce_respond_flush(c, now);

	roce_send(c, c->req.head, now);
	return has_more;
}
