/* SPDX-License-Identifier: MIT */
/*
 * tcp/state.c - changes the state of a connection; nothing else assigns conn->state
 *
 * tcp_set_state() updates what depends on the state: the flow table, the queues, the
 * timers, and the news for the program.
 */
#include "tcp/ctl.h"
#include "tcp/rcv.h"
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

static const uint16_t may_follow[] = {
#define B(name) (1u << TCP_##name)
#define S(name, next) [TCP_##name] = next,
#include "tcp/state.def"
#undef S
#undef B
};

const char *tcp_state_name(enum tcp_state st)
{
	static const char *const names[] = {
#define S(name, next) #name,
#include "tcp/state.def"
#undef S
	};
	return names[st];
}

bool tcp_state_may_follow(enum tcp_state from, enum tcp_state to)
{
	return may_follow[from] & 1u << to;
}

/* The connection sends nothing more, and no segment finds it.  The program can still
 * read what it has received. */
static void conn_dies(struct tcp_conn *c)
{
	assert(c->flags & CONN_IN_TABLE);
	flow_del(c->stack, &c->flow);
	c->flags &= ~(uint32_t)CONN_IN_TABLE;
	sent_free(c);
	chrono_set(c, CHRONO_UNSPEC);
	c->snd_end = c->snd_nxt = c->snd_una;
	c->tx_pending = 0;
	list_del(&c->pending_link);
	c->flags &= ~(uint32_t)CONN_PACE_WAITS;
	c->rtx_kind = RTX_NONE;
	c->rtx_at_ns = c->life_at_ns = WHEEL_NEVER;
	delack_end(c);
	wheel_disarm(&c->stack->wheel, &c->timer);
}

void tcp_set_state(struct tcp_conn *c, enum tcp_state to)
{
	assert(tcp_state_may_follow(c->state, to));
	c->stack->transitions[c->state][to]++;
	c->state = (uint8_t)to;
	if (to == TCP_CLOSED)
		conn_dies(c);
	else
		conn_life_update(c);
	conn_news(c);
}

/* Each range that is not SACKed is on the right list. */
static void check_lists(const struct tcp_conn *c, uint32_t n_left)
{
	const struct list *const lists[] = { &c->flight, &c->lost, &c->again };

	for (unsigned i = 0; i < ARRAY_LEN(lists); i++)
		for (const struct list *l = lists[i]->next; l != lists[i];
		     l = l->next, n_left--) {
			const struct range *r =
			    container_of(l, struct range, link);

			assert(!(r->flags & RANGE_SACKED));
			assert(range_is_lost(c, r) == (i > 0));
		}
	assert(!n_left);
}

/* @at: the number with which the first range begins */
static void check_sent(const struct tcp_conn *c, seq32 at)
{
	uint32_t sacked = 0, lost = 0, n_listed = 0, again_out = 0, again = 0;
	bool was_sacked = false, is_first_lost = true;

	for (const struct range *r = c->sent.head; r; r = r->next) {
		bool is_sacked = r->flags & RANGE_SACKED;
		bool is_lost = range_is_lost(c, r),
		     is_retx = r->flags & RANGE_RETX;

		assert(seq_eq(r->seq, at));
		assert(r->len);
		assert(!is_sacked || !was_sacked);
		was_sacked = is_sacked;
		n_listed += !is_sacked;
		sacked += is_sacked ? r->len : 0;
		lost += is_lost ? r->len : 0;
		again += is_lost && is_retx ? r->len : 0;
		again_out += !is_sacked && !is_lost && is_retx ? r->len : 0;
		if (r == c->lost_at)
			is_first_lost = false;
		at = seq_add(at, r->len);
	}
	assert(seq_eq(at, c->snd_nxt));
	assert(sacked == c->sacked_bytes);
	assert(lost == c->lost_bytes);
	assert(again == c->again_lost);
	assert(again_out == c->again_out);
	assert(!c->lost_at || !is_first_lost);
	check_lists(c, n_listed);
}

static void check_received(const struct tcp_conn *c)
{
	uint32_t bytes = 0, ooo = 0, n_runs = 0;
	const struct range *last = NULL, *before = NULL;
	seq32 at = c->rcv_nxt;

	for (const struct range *r = c->rcvq.head; r; r = r->next)
		bytes += r->len;
	assert(bytes == c->rcvq_bytes);
	for (const struct range *r = c->oooq; r; r = r->next) {
		bool is_next = before && seq_eq(at, r->seq);
		bool touches = is_next && !(before->flags & RANGE_FIN);

		assert(is_next || seq_lt(at, r->seq));
		assert(!r->last == touches);
		before = r;
		if (r->last) {
			assert(!last || last->next == r);
			last = r->last;
			n_runs++;
		}
		at = seq_add(r->seq, r->len);
		assert(r != last || !r->next || r->next->last);
		ooo += r->len;
	}
	assert(ooo == c->ooo_bytes);
	assert(n_runs == c->n_ooo);
	assert(!c->ooo_root == !n_runs && !c->ooo_newest == !n_runs);
	assert(list_is_empty(&c->ooo_link) == !n_runs);
	int32_t work = c->stack->work.n;
	assert(!n_runs || run_last(c)->last == last);
	c->stack->work.n = work; /* a check does not count as work */
	assert(seq_le(at, c->rcv_adv));
	/* A mark is forgotten when the program has read past it. */
	if (c->flags & CONN_URG_IN && !(c->flags & CONN_ORPHAN))
		assert(seq_le(conn_copied(c), c->urg_seq));
}

static void check_send_queue(const struct tcp_conn *c)
{
	uint32_t bytes = 0;

	for (const struct range *r = c->sndq.head; r; r = r->next) {
		assert(r->len && r->off + r->len + r->room <= r->ext->cap);
		bytes += r->len;
	}
	if (seq_le(c->snd_una, c->snd_end))
		assert(bytes == seq_len(c->snd_una, c->snd_end));
	else
		assert(!bytes);
}

/* Everything that must hold between calls. */
void conn_check(const struct tcp_conn *c)
{
	assert(seq_le(c->snd_una, c->snd_nxt));
	assert(c->timer.at_ns <= c->timer.due_ns);
	if (c->delack_slot)
		assert(c->stack->delacks.ring[c->delack_slot - 1].conn == c);
	assert(c->rec.is_late == (c->rtx_since_ns != 0));
	check_received(c);
	if (c->state == TCP_CLOSED) {
		assert(!timer_is_lying(&c->timer));
		assert(!c->delack_slot);
		assert(!c->tx_pending);
		assert(!(c->flags & CONN_IN_TABLE));
		assert(!c->sndq.head);
		return;
	}
	assert(c->flags & CONN_IN_TABLE);
	assert(c->timer.due_ns <= conn_deadline(c));
	assert((c->rtx_kind == RTX_NONE) == (c->rtx_at_ns == WHEEL_NEVER));
	if (c->state == TCP_SYN_SENT || c->state == TCP_SYN_RCVD) {
		/* The timer belongs to the SYN; only a FIN may follow it. */
		assert(c->rtx_kind == RTX_RTO);
		assert(!c->sndq.head);
		check_sent(c, seq_add(c->iss, 1));
		return;
	}
	check_sent(c, c->snd_una);
	check_send_queue(c);
	if (!seq_eq(c->snd_una, c->snd_nxt))
		assert(c->rec.chrono != CHRONO_UNSPEC);
	else if (!conn_has_unsent(c))
		assert(c->rec.chrono == CHRONO_UNSPEC);
	/* A timer guards what is in flight. */
	if (c->sent.head)
		assert(c->rtx_kind == RTX_RTO || c->rtx_kind == RTX_REO ||
		       c->rtx_kind == RTX_TLP);
}
