/* SPDX-License-Identifier: MIT */
/*
 * group/ref.c - sending by reference, and when the application gets its memory
 * back
 *
 *     place in shared memory? -> peer has mapped it? -> whole pages: REF, else a copy
 *
 * Only whole pages go by reference.  The peer gets a copy of the partial page
 * at either end, because the rest of that page may hold other data.  An
 * operation is complete when the peer has released all of its references.
 *
 * If the connection ends and the peer lives on, it may still read the pages.
 * Then we leave those pages to it (memory_give_away()), and the application
 * goes on with copies.  We do the same if the peer releases nothing for
 * STILL_NS while operations wait for completion: the peer may be keeping a
 * whole message whose rest we do not send until then.  Pages of the program's
 * own mappings cannot be given away, so their operations wait, and an orderly
 * close waits for them.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "group/memory.h"
#include "group/ref.h"
#include "sock/region.h"

#define QUEUE_MIN 64u
/* How long a close waits for the peer to release its references. */
#define END_NS (10 * NS_PER_MS)
/* How long the peer may return nothing, and in how many looks the clock is looked at. */
#define STILL_NS (100 * NS_PER_MS)
#define STILL_LOOKS 64u

struct sent_ref {
	const uint8_t *data;
	uint32_t len;
};

/* References are counted modulo 2^32.  The peer still has those from n_done to
 * n_sent.  We do not wait for those before n_left (n_left is n_done or later):
 * we have given their pages to the peer. */
struct txrefs {
	uint32_t n_sent, n_done, n_left;
	bool is_off;       /* the peer keeps what it gets: it is sent copies */
	uint32_t looks;    /* since n_done moved, */
	uint64_t still_ns; /* which was then; 0: lately */
	uint32_t cap;      /* of @q, a power of two */
	struct sent_ref *q;
	uint64_t end_ns; /* deadline of the close; 0: none yet */
};

static bool refs_open(struct gsock *s)
{
	struct txrefs *r = calloc(1, sizeof(*r));

	s->refs = r;
	return r != NULL;
}

/* Room for one more in the queue: 1; 0: no memory; -ECONNRESET. */
static int queue_reserve(struct gsock *s)
{
	struct txrefs *r = s->refs;

	if (likely(r->n_sent - r->n_done < r->cap))
		return 1;
	/* Without completions nobody has looked at n_done. */
	int err = refs_look(s);
	if (err)
		return err;
	if (r->n_sent - r->n_done < r->cap)
		return 1;
	uint32_t cap = r->cap ? 2 * r->cap : QUEUE_MIN;
	struct sent_ref *q = malloc(cap * sizeof(*q));
	if (!q)
		return 0;
	for (uint32_t i = r->n_done; i != r->n_sent; i++)
		q[i & (cap - 1)] = r->q[i & (r->cap - 1)];
	free(r->q);
	r->q = q;
	r->cap = cap;
	return 1;
}

size_t ref_lead(const uint8_t *data, size_t len)
{
	size_t lead = -(uintptr_t)data & (MEMORY_PAGE - 1);

	return len < lead + REF_MIN ? len : lead;
}

ssize_t gsock_put_ref(struct gsock *s, const struct txop *op, size_t done)
{
	const uint8_t *data = op->data + done;
	size_t left = (op->len - done) & ~(size_t)(MEMORY_PAGE - 1);
	uint32_t len = (uint32_t)MIN(left, (size_t)LEND_REF_MAX);
	struct place at;

	if (s->refs && unlikely(s->refs->is_off))
		return 0;
	if (!memory_place(op->key, data, len, &at) ||
	    (!s->refs && !refs_open(s)))
		return 0;
	ssize_t n = queue_reserve(s);
	if (unlikely(n <= 0))
		return n;
	struct txrefs *r = s->refs;
	n = s->lend->send_ref(s->sk, s->fd, at.region, at.off, len);
	if (n > 0)
		r->q[r->n_sent++ & (r->cap - 1)] =
		    (struct sent_ref){ data, len };
	return n;
}

uint32_t refs_sent(const struct gsock *s) { return s->refs->n_sent; }

/* Can all pages in use be given away to the peer? */
static bool is_all_to_be_left(const struct txrefs *r)
{
	for (uint32_t i = r->n_left; i != r->n_sent; i++)
		if (!memory_can_be_given(r->q[i & (r->cap - 1)].data))
			return false;
	return true;
}

static void leave_all(struct txrefs *r)
{
	for (uint32_t i = r->n_left; i != r->n_sent; i++)
		memory_give_away(r->q[i & (r->cap - 1)].data,
				 r->q[i & (r->cap - 1)].len);
	r->n_left = r->n_sent;
}

static void came_back(struct txrefs *r)
{
	if ((int32_t)(r->n_done - r->n_left) > 0)
		r->n_left = r->n_done;
	r->looks = 0;
	r->still_ns = 0;
}

/* Nothing came back since the last look. */
static COLD void look_at_clock(struct txrefs *r)
{
	uint64_t now = now_ns();

	r->looks = 0;
	if (!r->still_ns) {
		r->still_ns = now;
	} else if (now - r->still_ns >= STILL_NS && is_all_to_be_left(r)) {
		leave_all(r);
		r->is_off = true;
	}
}

/* Look again; -ECONNRESET: the peer lies. */
int refs_look(struct gsock *s)
{
	struct txrefs *r = s->refs;
	uint32_t was = r->n_done;

	if (!s->sk || r->n_done == r->n_sent)
		return 0;
	int err = s->lend->refs_done(s->sk, s->fd, r->n_sent, &r->n_done);
	if (r->n_done != was)
		came_back(r);
	else if (!r->is_off && unlikely(++r->looks >= STILL_LOOKS))
		look_at_clock(r);
	return err;
}

bool refs_are_out(const struct gsock *s)
{
	return s->refs && s->refs->n_left != s->refs->n_sent;
}

bool ref_is_done(const struct gsock *s, uint32_t n_sent)
{
	/* At most 2^31 are under way. */
	return (int32_t)(s->refs->n_left - n_sent) >= 0;
}

bool refs_delay_end(struct gsock *s)
{
	if (!refs_are_out(s) || refs_look(s) || !refs_are_out(s))
		return false;
	uint64_t now = now_ns();
	if (!s->refs->end_ns)
		s->refs->end_ns = now + END_NS;
	return now < s->refs->end_ns || !is_all_to_be_left(s->refs);
}

bool refs_are_waited_for(const struct gsock *s)
{
	return s->is_closing && s->state == GSOCK_CONNECTED &&
	       s->sent == s->queued && refs_are_out(s);
}

void refs_end(struct gsock *s)
{
	struct txrefs *r = s->refs;

	if (!r || !s->sk)
		return;
	refs_look(s);
	if (r->n_done != r->n_sent && s->lend->peer_reads(s->sk))
		leave_all(r);
	r->n_done = r->n_left = r->n_sent;
}

void refs_free(struct gsock *s)
{
	if (!s->refs)
		return;
	free(s->refs->q);
	free(s->refs);
	s->refs = NULL;
}
