/* SPDX-License-Identifier: MIT */
/*
 * tcp/rcvq.c - the bytes that were received: in order, and out of order
 *
 *     [rcvq: read from its head ...] rcv_nxt  [oooq: by seq, with gaps]  rcv_adv
 *
 * A piece keeps a reference to the frame that it came in; bytes are not copied.  Where
 * pieces overlap, the bytes that came first stay.  There is room for all of [rcv_nxt,
 * rcv_adv): the window never promises more than the buffer has.
 *
 * Pieces out of order without a gap between them are a run.  The first piece of a run
 * knows the last one, and runs.c finds the first ones.  A FIN ends a run.  When the
 * hole before the first run is filled, the whole run moves to rcvq at once.
 */
#include "tcp/rcv.h"
#include "tcp/stack.h"

#define PRUNE_LOOKS 16
#define SMALL_PART 4 /* a small piece fills less of its frame */

static uint32_t charge_of(const struct extent *e)
{
	return e->cap + (uint32_t)(sizeof(*e) + sizeof(struct range));
}

void rcv_piece_free(struct tcp_conn *c, struct range *r)
{
	c->rcv_mem -= charge_of(r->ext);
	c->stack->rcv_mem -= charge_of(r->ext);
	extent_put(r->ext);
	pool_put(&c->stack->pool_ranges, r);
}

static COLD void oooq_drop(struct tcp_conn *c)
{
	if (!c->oooq)
		return;
	runs_drop(c);
	while (c->oooq) {
		struct range *r = c->oooq;

		c->oooq = r->next;
		c->ooo_bytes -= r->len;
		rcv_piece_free(c, r);
	}
}

/* When little memory is left, connections that hold more than their share drop what is
 * out of order (RFC 2018 section 8).  Each call looks at a few connections. */
static COLD void prune_others(const struct tcp_conn *but)
{
	struct tcp_stack *s = but->stack;

	if (s->rcv_mem <= s->cfg.rcv_mem / 8 * 7)
		return;
	for (unsigned i = 0; i < PRUNE_LOOKS && !list_is_empty(&s->ooo); i++) {
		struct tcp_conn *c =
		    container_of(s->ooo.next, struct tcp_conn, ooo_link);

		list_del(&c->ooo_link);
		list_add_tail(&s->ooo, &c->ooo_link);
		if (c != but && c->rcv_mem > rcv_mem_max(c))
			oooq_drop(c);
	}
}

static struct range *piece_new(struct tcp_conn *c, const struct arrival *a,
			       seq32 from, seq32 to)
{
	struct range *r = pool_get(&c->stack->pool_ranges);

	if (!r)
		return NULL;
	*r = (struct range){ .ext = extent_get(a->ext),
			     .off = a->off + seq_len(a->seg.seq, from),
			     .len = seq_len(from, to),
			     .seq = from };
	c->rcv_mem += charge_of(r->ext);
	c->stack->rcv_mem += charge_of(r->ext);
	if (c->stack->cfg.rcv_mem)
		prune_others(c);
	return r;
}

/* RFC 2018 section 8 allows it: the sender still has these bytes. */
void tcp_reclaim(struct tcp_stack *s)
{
	while (!list_is_empty(&s->ooo))
		oooq_drop(container_of(s->ooo.next, struct tcp_conn, ooo_link));
}

void rcvq_free(struct tcp_conn *c)
{
	while (c->rcvq.head) {
		struct range *r = c->rcvq.head;

		c->rcvq.head = r->next;
		rcv_piece_free(c, r);
	}
	c->rcvq.tail = NULL;
	c->rcvq_bytes = 0;
	oooq_drop(c);
}

/* Takes the piece with the bytes before rcv_nxt of a connection that is imported. */
void rcvq_resume(struct tcp_conn *c, struct range *r)
{
	c->rcvq.head = c->rcvq.tail = r;
	c->rcvq_bytes = r->len;
	c->rcv_mem += charge_of(r->ext);
	c->stack->rcv_mem += charge_of(r->ext);
}

/* Takes the peer's FIN, which is next.  Bytes behind it are not part of the stream. */
void rcvq_end(struct tcp_conn *c)
{
	conn_rcv_advance(c, 1);
	c->flags |= CONN_FIN_RCVD;
	/* A FIN may lie one beyond the window. */
	c->rcv_adv = seq_max(c->rcv_adv, c->rcv_nxt);
	oooq_drop(c);
}

/* Appends the pieces @first to @last, with @bytes, to the bytes in order. */
static void append(struct tcp_conn *c, struct range *first, struct range *last,
		   uint32_t bytes)
{
	last->next = NULL;
	if (c->rcvq.tail)
		c->rcvq.tail->next = first;
	else
		c->rcvq.head = first;
	c->rcvq.tail = last;
	c->rcvq_bytes += bytes;
	conn_rcv_advance(c, bytes);
	if (last->flags & RANGE_FIN)
		rcvq_end(c);
}

/* RFC 2883 section 4: of bytes that were there before, report the first part. */
static COLD void seen_add(struct tcp_sack *seen, seq32 from, seq32 to)
{
	dassert(seq_lt(from, to));
	if (!seq_lt(seen->from, seen->to))
		*seen = (struct tcp_sack){ from, to };
	else if (seq_eq(seen->to, from))
		seen->to = to;
}

/* Reports a piece out of order that has arrived again, or its first part. */
static COLD void note_again(struct tcp_conn *c, const struct range *r)
{
	if (!(c->flags & CONN_DSACK))
		c->dsack = (struct tcp_sack){ r->seq, r->seq };
	if (seq_eq(r->seq, c->rcv_nxt))
		return;
	seen_add(&c->dsack, r->seq, seq_min(c->rcv_nxt, range_end(r)));
	c->flags |= CONN_DSACK;
}

/* Moves the first run to rcvq, without the bytes that have arrived twice. */
static COLD void run_merge(struct tcp_conn *c)
{
	struct range *r = c->oooq, *last = r->last, *others = last->next;
	uint32_t have = 0;

	run_gone(c, r);
	r->last = NULL;
	for (struct range *next; r != others; r = next) {
		have = seq_len(r->seq, c->rcv_nxt);
		note_again(c, r);
		if (have < r->len || (have == r->len && r->flags & RANGE_FIN))
			break;
		next = r->next;
		c->ooo_bytes -= r->len;
		rcv_piece_free(c, r);
	}
	c->oooq = others;
	if (r == others)
		return;
	c->ooo_bytes -= seq_len(r->seq, range_end(last));
	r->seq = c->rcv_nxt;
	r->off += have;
	r->len -= have;
	append(c, r, last, seq_len(r->seq, range_end(last)));
}

/* Moves all runs that are in order now. */
static void merge(struct tcp_conn *c)
{
	if (!c->oooq || seq_lt(c->rcv_nxt, c->oooq->seq))
		return;
	runs_cut(c, c->rcv_nxt);
	while (c->oooq && seq_le(c->oooq->seq, c->rcv_nxt))
		run_merge(c);
}

static uint8_t *behind(const struct range *r)
{
	return r->ext->data + r->off + r->len;
}

/* The last piece if it is a copy of ours with room for @len more bytes, else NULL. */
static COLD struct range *copy_tail(const struct tcp_conn *c, uint32_t len)
{
	struct range *r = c->rcvq.tail;

	if (!r || r->ext->pool != &c->stack->pool_extents ||
	    r->flags & RANGE_FIN || r->ext->refs != 1 ||
	    r->ext->cap - r->off - r->len < len)
		return NULL;
	return r;
}

/* Copies a small piece behind the last one, so that we need not keep its frame. */
static COLD bool add_copied(struct tcp_conn *c, const struct arrival *a)
{
	struct pool *p = &c->stack->pool_extents;
	uint32_t len = a->seg.len;
	struct range *r = copy_tail(c, len);

	if (!r) {
		struct extent *e = p->n_free > p->n / 2 ? extent_new(p) : NULL;
		struct arrival copy = { .seg = a->seg, .ext = e };

		if (!e)
			return false;
		r = e->cap >= len ? piece_new(c, &copy, a->seg.seq, a->seg.seq)
				  : NULL;
		extent_put(e);
		if (!r)
			return false;
		append(c, r, r, 0);
	}
	memcpy(behind(r), a->ext->data + a->off, len);
	r->len += len;
	c->rcvq_bytes += len;
	conn_rcv_advance(c, len);
	merge(c);
	return true;
}

/* Whether we may keep another frame; drops bytes out of order to make room. */
static bool has_memory(struct tcp_conn *c, const struct arrival *a)
{
	uint32_t max = rcv_mem_max(c), more = charge_of(a->ext);

	if (c->rcv_mem + more > max)
		oooq_drop(c);
	return c->rcv_mem + more <= max || !c->rcvq.head;
}

static bool add_in_order(struct tcp_conn *c, const struct arrival *a)
{
	bool is_small = a->seg.len < a->ext->cap / SMALL_PART &&
			c->rcv_mem > rcv_mem_max(c) / 2;

	if (is_small && !(a->seg.flags & TCP_FIN) && add_copied(c, a))
		return true;
	if (!has_memory(c, a)) {
		drop(c->stack, DROP_RCV_MEMORY);
		return false;
	}
	seq32 end = seq_add(a->seg.seq, a->seg.len);
	struct range *r = piece_new(c, a, a->seg.seq, end);

	/* The next bytes must get a range.  Otherwise two ends that both lack ranges would
	 * wait for each other for ever. */
	if (!r && c->oooq) {
		oooq_drop(c);
		r = piece_new(c, a, a->seg.seq, end);
	}
	if (!r) {
		drop(c->stack, DROP_NODE_POOL);
		return false;
	}
	if (a->seg.flags & TCP_FIN)
		r->flags |= RANGE_FIN;
	append(c, r, r, r->len);
	merge(c);
	return true;
}

static COLD bool may_add_piece(struct tcp_conn *c, const struct arrival *a)
{
	const struct pool *p = &c->stack->pool_ranges;

	if (c->n_ooo >= OOO_MAX) {
		drop(c->stack, DROP_OOO_LIMIT);
		return false;
	}
	if (c->rcv_mem + charge_of(a->ext) > rcv_mem_max(c) / 4 * 3) {
		drop(c->stack, DROP_RCV_MEMORY);
		return false;
	}
	/* The last ranges of the pool are reserved for bytes in order, and for splits. */
	if (p->n_free < p->n / 8) {
		drop(c->stack, DROP_NODE_POOL);
		return false;
	}
	return true;
}

static seq32 run_end(const struct range *run) { return range_end(run->last); }

/* Puts @r behind @run, or first if @run is NULL.  It extends @run, or begins a run of
 * its own; the next run joins it if there is no gap.  Return: the run that contains
 * @r. */
static COLD struct range *run_add(struct tcp_conn *c, struct range *run,
				  struct range *r)
{
	struct range **link = run ? &run->last->next : &c->oooq, *next;
	bool is_end = run && seq_eq(run_end(run), r->seq) &&
		      !(run->last->flags & RANGE_FIN);

	r->next = next = *link;
	*link = r;
	run = is_end ? run : r;
	run->last = r;
	if (next && seq_eq(range_end(r), next->seq) &&
	    !(r->flags & RANGE_FIN)) {
		run->last = next->last;
		if (is_end)
			run_remove(c, next);
		else
			run_replace(c, next, run);
		next->last = NULL;
	} else if (!is_end) {
		run_insert(c, run);
	}
	run_came(c, run);
	return run;
}

/*
 * Fills the gaps between the pieces that are there:
 *
 *     there    [----]      [---]
 *     arrives     [==============)
 *     added          [====]     [)
 */
static COLD bool add_out_of_order(struct tcp_conn *c, const struct arrival *a)
{
	struct tcp_sack seen = { a->seg.seq, a->seg.seq };
	seq32 at = a->seg.seq, end = seq_add(at, a->seg.len);
	struct range *run = run_find(c, at);
	bool is_new = false;

	while (seq_lt(at, end)) {
		if (run && seq_lt(at, run_end(run))) {
			run_came(c, run);
			seen_add(&seen, at, seq_min(run_end(run), end));
			at = run_end(run);
			continue;
		}
		struct range *next = run ? run->last->next : c->oooq;
		seq32 stop = next ? seq_min(end, next->seq) : end;
		struct range *fresh = NULL;
		if (!is_new || c->stack->work.n < WORK_FILL)
			fresh = may_add_piece(c, a) ? piece_new(c, a, at, stop)
						    : NULL;
		if (!fresh)
			return is_new;
		if (seq_eq(stop, end) && a->seg.flags & TCP_FIN)
			fresh->flags |= RANGE_FIN;
		run = run_add(c, run, fresh);
		c->ooo_bytes += fresh->len;
		is_new = true;
		at = stop;
	}
	if (seq_lt(seen.from, seen.to)) {
		c->dsack = seen;
		c->flags |= CONN_DSACK;
	}
	return is_new;
}

/* Takes the text of a segment, which lies in the window, and its FIN if the FIN is in
 * order or follows text.  Return: whether something was new and was kept. */
bool rcvq_add(struct tcp_conn *c, const struct arrival *a)
{
	dassert(seq_le(c->rcv_nxt, a->seg.seq));
	dassert(seq_le(seq_add(a->seg.seq, a->seg.len), c->rcv_adv));
	if (a->is_lent) {
		drop(c->stack, DROP_FRAME_POOL);
		return false;
	}
	if (seq_eq(a->seg.seq, c->rcv_nxt))
		return add_in_order(c, a);
	return add_out_of_order(c, a);
}

/* RFC 2018 section 4: the block with the latest bytes is first.  A duplicate precedes
 * it (RFC 2883).  Return: how many blocks */
uint32_t rcvq_blocks(const struct tcp_conn *c, struct tcp_sack *out)
{
	uint32_t max = c->flags & CONN_TS ? TCP_SACK_MAX - 1 : TCP_SACK_MAX;
	const struct range *run = NULL;
	uint32_t n = 0;

	if (!(c->flags & CONN_SACK))
		return 0;
	if (c->flags & CONN_DSACK)
		out[n++] = c->dsack;
	while (n < max && (run = run_by_age(c, run)))
		out[n++] = (struct tcp_sack){ run->seq, run_end(run) };
	return n;
}
