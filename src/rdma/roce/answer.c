/* SPDX-License-Identifier: MIT */
/*
 * rdma/roce/answer.c - the requester: what the peer answers
 *
 * InfiniBand Architecture volume 1, section 9.7.5.  An acknowledgement is cumulative, and
 * so is a response: all packets before it have arrived.  A read is over when all of its
 * bytes are here.  If the peer acknowledges what comes after a read, responses were lost:
 * the read is asked for again from the first missing packet on.
 */
#include "rdma/roce/conn.h"

#define RNR_FOREVER 7

static void grow(struct requester *r, uint32_t n)
{
	r->n_grown += n;
	if (r->n_grown < r->window)
		return;
	r->n_grown = 0;
	r->window = MIN(r->window + 2, WINDOW_MAX);
}

static void progress(struct roce_conn *c, uint32_t psn, uint64_t now)
{
	struct requester *r = &c->req;

	grow(r, (uint32_t)psn_diff(psn, r->una_psn));
	r->una_psn = psn;
	/* What was to be sent again has arrived after all. */
	if (psn_diff(r->next_psn, psn) < 0)
		r->next_psn = psn;
	r->retries = c->cf.retry_cnt;
	r->rnr_retries = c->cf.rnr_retry;
	r->has_lost = false;
	roce_arm(c, now);
}

void roce_finish(struct roce_conn *c)
{
	struct requester *r = &c->req;

	do {
		uint32_t i = r->una++;

		if ((int32_t)(r->next - r->una) < 0)
			r->next = r->una;
		c->ops->done(c, i, IBV_WC_SUCCESS);
	} while (!c->has_failed && (int32_t)(r->n_known - r->una) > 0 &&
		 roce_wr_at(c, r->una)->kind == REQ_LOCAL);
	if (r->is_stuck && r->una == r->next && !c->has_failed)
		roce_fail_request(c, r->stuck);
}

/* A response is missing: ask again, once for each that is missing; then time does it. */
static void mend_gap(struct roce_conn *c)
{
	struct requester *r = &c->req;

	if (r->next_psn == r->una_psn ||
	    (r->has_lost && r->lost_psn == r->una_psn))
		return;
	r->has_lost = true;
	r->lost_psn = r->una_psn;
	roce_go_back(c);
}

/* All packets before @psn have arrived.  False: not all, there was a response between. */
static bool advance(struct roce_conn *c, uint32_t psn, uint64_t now)
{
	struct requester *r = &c->req;

	while (psn_diff(psn, r->una_psn) > 0 && !c->has_failed) {
		struct roce_wr *w = roce_wr_at(c, r->una);
		uint32_t end = psn_add(w->psn, w->n_psns);

		if (roce_is_answered(w)) {
			mend_gap(c);
			return false;
		}
		if (psn_diff(psn, end) < 0) {
			progress(c, psn, now);
			return true;
		}
		progress(c, end, now);
		roce_finish(c);
	}
	return !c->has_failed;
}

static enum ibv_wc_status status_of(uint8_t syndrome)
{
	return syndrome == SYN_NAK_INVALID  ? IBV_WC_REM_INV_REQ_ERR
	       : syndrome == SYN_NAK_ACCESS ? IBV_WC_REM_ACCESS_ERR
					    : IBV_WC_REM_OP_ERR;
}

static void on_rnr(struct roce_conn *c, const struct roce_head *h, uint64_t now)
{
	struct requester *r = &c->req;

	/* It was sent again, or not yet: a duplicate. */
	if (r->rnr_ns || r->next_psn == r->una_psn)
		return;
	if (c->cf.rnr_retry != RNR_FOREVER && !r->rnr_retries--) {
		roce_fail_request(c, IBV_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	uint32_t window = r->window;
	roce_go_back(c);
	r->window = window; /* nothing was lost */
	r->resend_ns = 0;
	r->rnr_ns = now + roce_rnr_ns(h->syndrome & 0x1f);
}

static void on_ack(struct roce_conn *c, const struct roce_head *h, uint64_t now)
{
	struct requester *r = &c->req;

	if ((h->syndrome & SYN_KIND) == 0) {
		advance(c, psn_add(h->psn, 1), now);
		return;
	}
	/* It names the packet that was not accepted. */
	if (!advance(c, h->psn, now) || r->una_psn != h->psn)
		return;
	if ((h->syndrome & SYN_KIND) == SYN_RNR) {
		on_rnr(c, h, now);
	} else if (h->syndrome == SYN_NAK_SEQUENCE) {
		if (r->next_psn != r->una_psn)
			roce_retry(c);
		roce_arm(c, now);
	} else if ((h->syndrome & SYN_KIND) == (SYN_NAK_SEQUENCE & SYN_KIND)) {
		roce_fail_request(c, status_of(h->syndrome));
	}
}

/* The bytes that this response has to have. */
static uint32_t length_at(const struct roce_conn *c, const struct roce_wr *w,
			  uint32_t k)
{
	return k + 1 == w->n_psns ? w->length - k * c->cf.mtu : c->cf.mtu;
}

static void on_read(struct roce_conn *c, const struct roce_head *h,
		    struct roce_wr *w, uint64_t now)
{
	struct requester *r = &c->req;
	uint32_t k = (uint32_t)psn_diff(h->psn, w->psn);

	if (w->kind != REQ_READ || h->n_payload != length_at(c, w, k)) {
		roce_fail_request(c, IBV_WC_BAD_RESP_ERR);
		return;
	}
	if (!c->ops->scatter(c, r->una, k * c->cf.mtu, h->payload,
			     h->n_payload)) {
		roce_fail_request(c, IBV_WC_LOC_PROT_ERR);
		return;
	}
	if ((h->op == OP_READ_LAST || h->op == OP_READ_ONLY) && r->n_reads)
		r->n_reads--;
	progress(c, psn_add(h->psn, 1), now);
	if (k + 1 == w->n_psns)
		roce_finish(c);
}

static void on_atomic(struct roce_conn *c, const struct roce_head *h,
		      struct roce_wr *w, uint64_t now)
{
	struct requester *r = &c->req;

	if (w->kind != REQ_SWAP && w->kind != REQ_ADD) {
		roce_fail_request(c, IBV_WC_BAD_RESP_ERR);
		return;
	}
	if (!c->ops->scatter(c, r->una, 0, &h->original, sizeof(h->original))) {
		roce_fail_request(c, IBV_WC_LOC_PROT_ERR);
		return;
	}
	if (r->n_reads)
		r->n_reads--;
	progress(c, psn_add(h->psn, 1), now);
	roce_finish(c);
}

void roce_answer(struct roce_conn *c, const struct roce_head *h, uint64_t now)
{
	struct requester *r = &c->req;

	/* Of what was never sent, or has been answered before. */
	if (psn_diff(h->psn, r->una_psn) < 0 ||
	    psn_diff(h->psn, r->top_psn) >= 0)
		return;
	if (h->op == OP_ACK) {
		on_ack(c, h, now);
		return;
	}
	if (!advance(c, h->psn, now) || r->una_psn != h->psn)
		return;
	struct roce_wr *w = roce_wr_at(c, r->una);
	if (h->op == OP_ATOMIC_ACK)
		on_atomic(c, h, w, now);
	else
		on_read(c, h, w, now);
}
