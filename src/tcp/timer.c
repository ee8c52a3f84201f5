/* SPDX-License-Identifier: MIT */
/*
 * tcp/timer.c - what a connection does when nothing arrives
 *
 * A connection has two deadlines: one of retransmission, of one kind at a time (enum
 * rtx_kind), and one of its life (keepalive, FIN-WAIT-2).  One timer of the wheel
 * stands for the earlier one.  When that deadline goes away, the timer stays where it
 * is (wheel.h).  delack.c has a queue of its own for delayed ACKs.
 *
 * Spec: RFC 6298, RFC 8985 section 6.3, RFC 9293 3.8.4, 3.8.6.1
 */
#include "tcp/ctl.h"
#include "tcp/pmtu.h"
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

void conn_timer_sync(struct tcp_conn *c)
{
	wheel_set(&c->stack->wheel, &c->timer, conn_deadline(c));
}

uint64_t conn_rto_ns(const struct tcp_conn *c)
{
	unsigned shift = c->n_rtx;

	if (c->state == TCP_SYN_SENT)
		shift = shift > SYN_LINEAR ? shift - SYN_LINEAR : 0;
	shift = MIN(shift, 16u);
	return MIN(conn_rto_base_ns(c) << shift, RTO_MAX_NS);
}

static void rtx_set(struct tcp_conn *c, enum rtx_kind kind, uint64_t at_ns)
{
	c->rtx_kind = (uint8_t)kind;
	c->rtx_at_ns = at_ns;
	conn_timer_sync(c);
}

/* When a time-out that begins at @ns ends. */
static uint64_t rto_deadline_from(const struct tcp_conn *c, uint64_t ns)
{
	uint64_t at_ns = ns + conn_rto_ns(c);

	if (!c->rec.is_late || !c->user_timeout_ms)
		return at_ns;
	return MIN(at_ns, c->rtx_since_ns + c->user_timeout_ms * NS_PER_MS);
}

static uint64_t rto_deadline(const struct tcp_conn *c)
{
	return rto_deadline_from(c, c->stack->now_ns);
}

static void rtx_arm(struct tcp_conn *c, enum rtx_kind kind)
{
	c->rto_at_ns = rto_deadline(c);
	rtx_set(c, kind, c->rto_at_ns);
}

/* Arms the timer for the end of a range's reordering window. */
void rtx_arm_reo(struct tcp_conn *c, uint64_t at_ns)
{
	if (c->rtx_kind != RTX_RTO || at_ns < c->rtx_at_ns)
		rtx_set(c, RTX_REO, at_ns);
}

/* Arms a tail loss probe, if one is allowed before the time-out, or else the time-out.
 * @anew: something was sent or acknowledged just now */
static void rtx_choose(struct tcp_conn *c, bool anew)
{
	uint64_t probe_ns;

	if (!tlp_may_probe(c)) {
		rtx_set(c, RTX_RTO, c->rto_at_ns);
		return;
	}
	if (!anew && c->rtx_kind == RTX_TLP)
		return;
	probe_ns = c->stack->now_ns + tlp_timeout_ns(c);
	c->rtx_kind = RTX_TLP;
	c->rtx_at_ns = MIN(probe_ns, c->rto_at_ns);
	/* The probe of a single segment waits longer, until there is a second segment. */
	wheel_set_by(&c->stack->wheel, &c->timer, conn_deadline(c),
		     c->stack->now_ns + tlp_least_ns(c));
}

static bool rtx_guards_flight(const struct tcp_conn *c)
{
	return c->rtx_kind == RTX_RTO || c->rtx_kind == RTX_REO ||
	       c->rtx_kind == RTX_TLP;
}

/* Sets the retransmission timer to what the queues need; @restart: counting from now. */
void conn_rtx_update(struct tcp_conn *c, bool restart)
{
	if (c->sent.head || c->state == TCP_SYN_SENT) {
		if (restart || !rtx_guards_flight(c)) {
			c->rto_at_ns = rto_deadline(c);
			rtx_choose(c, true);
		} else if (c->rtx_kind != RTX_REO) {
			rtx_choose(c, false);
		}
	} else if (conn_has_unsent(c) && !restart) {
		/* Something keeps bytes from being sent, and nothing is in flight whose
		 * ACK could change that. */
		if (c->rtx_kind != RTX_PERSIST)
			rtx_arm(c, RTX_PERSIST);
	} else {
		rtx_set(c, RTX_NONE, WHEEL_NEVER);
	}
}

/* A range was sent: RFC 6298 (5.1), RFC 8985 section 7.2. */
void conn_rtx_sent(struct tcp_conn *c)
{
	if (c->rtx_kind == RTX_TLP)
		rtx_choose(c, true);
	else
		conn_rtx_update(c, false);
}

/* RFC 6069 section 4.2: a router had no route for the segment that was sent again.  Its
 * loss is no sign of congestion, so take one doubling of the time-out back. */
void conn_rtx_shorten(struct tcp_conn *c)
{
	if (c->rtx_kind != RTX_RTO || !c->n_rtx)
		return;
	c->n_rtx--;
	c->rto_at_ns = rto_deadline_from(c, c->sent.head->xmit_ns);
	rtx_set(c, RTX_RTO, c->rto_at_ns);
}

/* Arms the timers of a connection that is imported.  Each fires after the time that is
 * left, or earlier if a timer that is armed now would; 0: as a timer that is armed now. */
void conn_timers_resume(struct tcp_conn *c, uint64_t rtx_left_ns,
			uint64_t life_left_ns)
{
	uint64_t now = c->stack->now_ns;

	if (c->sent.head || (rtx_left_ns && conn_has_unsent(c)))
		conn_rtx_update(c, false);
	if (rtx_left_ns && c->rtx_kind != RTX_NONE) {
		uint64_t at_ns = now + rtx_left_ns, most = rto_deadline(c);

		c->rto_at_ns = MIN(at_ns, most);
		rtx_set(c, c->rtx_kind, c->rto_at_ns);
	}
	if (life_left_ns && c->life_at_ns != WHEEL_NEVER) {
		c->life_at_ns =
		    now + MIN(life_left_ns, c->keep_idle_s * NS_PER_S);
		conn_timer_sync(c);
	}
}

static uint64_t later(uint64_t ns, uint32_t s) { return ns + s * NS_PER_S; }

static uint64_t last_rx_ns(const struct tcp_conn *c)
{
	uint64_t now = c->stack->now_ns / NS_PER_MS;

	return (now - (uint32_t)((uint32_t)now - c->last_rx_ms)) * NS_PER_MS;
}

/* A peer that has shrunk its window and repeats that in every ACK is alive.  As with a
 * zero window (RFC 9293 section 3.8.6.1), we go on as long as it answers. */
static bool is_silent(const struct tcp_conn *c)
{
	uint64_t since = last_rx_ns(c);

	since = since > c->rtx_since_ns ? since : c->rtx_since_ns;
	return c->stack->now_ns - since >= DATA_PATIENCE_NS;
}

/* R2 of RFC 9293 section 3.8.3.  Doublings that were taken back do not prolong it. */
static bool is_patience_over(const struct tcp_conn *c, uint32_t max)
{
	if (!c->snd_wnd && !(c->flags & CONN_ORPHAN))
		return is_silent(c);
	return c->n_rtx >= max ||
	       (c->soft_err && max == DATA_RETRIES &&
		c->stack->now_ns - c->rtx_since_ns >= DATA_PATIENCE_NS);
}

void conn_life_update(struct tcp_conn *c)
{
	if (c->state == TCP_FIN_WAIT_2 && c->flags & CONN_ORPHAN)
		c->life_at_ns = c->stack->now_ns +
				(c->fin_timeout_s ? c->fin_timeout_s * NS_PER_S
						  : FIN_WAIT_2_NS);
	else if (c->keep_idle_s && c->state >= TCP_ESTABLISHED)
		c->life_at_ns = later(last_rx_ns(c), c->keep_idle_s);
	else
		c->life_at_ns = WHEEL_NEVER;
	conn_timer_sync(c);
}

/* RFC 9293 section 3.10.8: send no reset, because the peer does not answer. */
static void give_up(struct tcp_conn *c)
{
	conn_fail(c, c->soft_err ? c->soft_err : -ETIMEDOUT);
}

static bool is_user_timeout(const struct tcp_conn *c, uint64_t since_ns)
{
	return c->user_timeout_ms &&
	       c->stack->now_ns - since_ns >= c->user_timeout_ms * NS_PER_MS;
}

static void syn_timeout(struct tcp_conn *c)
{
	/* The linear retries do not count, or R2 would be 11 seconds (RFC 9293,
	 * MUST-23). */
	unsigned most = c->syn_retries +
			(c->state == TCP_SYN_SENT ? (unsigned)SYN_LINEAR : 0u);

	if (c->n_rtx >= most || is_user_timeout(c, c->rtx_since_ns)) {
		give_up(c);
		return;
	}
	c->n_rtx++;
	c->flags |= CONN_SYN_RETX;
	conn_set_pending(c, TX_SYN);
	rtx_arm(c, RTX_RTO);
}

/* RFC 6298 (5.4) to (5.6), RFC 5681 section 3.1 (4). */
static void data_timeout(struct tcp_conn *c)
{
	uint32_t max = c->flags & CONN_ORPHAN ? ORPHAN_RETRIES : DATA_RETRIES;

	if (!c->rtx_since_ns)
		conn_late_since(c, c->sent.head->xmit_ns);
	if (is_patience_over(c, max) || is_user_timeout(c, c->rtx_since_ns)) {
		give_up(c);
		return;
	}
	recovery_timeout(c);
	/* A count that has no limit must not overflow. */
	if (c->snd_wnd || c->flags & CONN_ORPHAN || conn_rto_ns(c) < RTO_MAX_NS)
		c->n_rtx++;
	if (c->snd_wnd)
		pmtu_timeout(c);
	conn_set_pending(c, TX_DATA | TX_FORCE);
	rtx_arm(c, RTX_RTO);
}

/* RFC 9293 section 3.8.6.1: probe for ever, as long as the peer answers. */
static void persist_timeout(struct tcp_conn *c)
{
	uint32_t max = c->flags & CONN_ORPHAN ? ORPHAN_RETRIES : DATA_RETRIES;

	if (!c->rtx_since_ns)
		conn_late_since(c, c->stack->now_ns);
	/* A user time-out also ends a connection to a peer that answers.  And a window
	 * that never opens must not keep the memory of a connection that no program has
	 * any more. */
	if (c->n_probes >= max || is_user_timeout(c, c->rtx_since_ns) ||
	    (c->flags & CONN_ORPHAN && !c->snd_wnd &&
	     conn_rto_ns(c) >= RTO_MAX_NS)) {
		give_up(c);
		return;
	}
	if (c->snd_wnd) {
		/* The window is open: memory was missing, or the bytes can leave now.
		 * So do not probe. */
		conn_set_pending(c, TX_DATA | TX_PUSH);
	} else {
		c->n_probes++;
		c->n_rtx = (uint8_t)MIN(c->n_rtx + 1, DATA_RETRIES);
		conn_set_pending(c, TX_PROBE);
	}
	rtx_arm(c, RTX_PERSIST);
}

static void reo_timeout(struct tcp_conn *c)
{
	uint32_t lost = c->lost_bytes;
	bool is_late = c->is_rack_late;

	rtx_set(c, RTX_RTO, c->rto_at_ns);
	rack_detect(c, WORK_MAX);
	/* An earlier ACK had no work left for these ranges, and has already set cwnd. */
	if (is_late && (c->ca_state == CA_CWR || c->ca_state == CA_RECOVERY))
		c->cwnd -= MIN(c->lost_bytes - lost, c->cwnd - c->mss);
	recovery_update(c, seq_len(c->snd_una, c->snd_nxt));
	conn_set_pending(c, TX_DATA);
}

/* RFC 8985 section 7.3: the probe; a full time-out begins now. */
static void tlp_timeout(struct tcp_conn *c)
{
	if (!tlp_may_probe(c)) {
		rtx_choose(c, false);
		return;
	}
	if (!c->rtx_since_ns)
		conn_late_since(c, c->sent.head->xmit_ns);
	conn_set_pending(c, TX_DATA | TX_TLP);
	rtx_arm(c, RTX_RTO);
}

static void rtx_timeout(struct tcp_conn *c)
{
	switch (c->rtx_kind) {
	case RTX_PERSIST:
		persist_timeout(c);
		break;
	case RTX_REO:
		reo_timeout(c);
		break;
	case RTX_TLP:
		tlp_timeout(c);
		break;
	default:
		assert(c->rtx_kind == RTX_RTO);
		if (c->state == TCP_SYN_SENT || c->state == TCP_SYN_RCVD)
			syn_timeout(c);
		else
			data_timeout(c);
		break;
	}
}

/* RFC 9293 section 3.8.4: probe a silent peer. */
static void keepalive_timeout(struct tcp_conn *c)
{
	uint64_t idle_until = later(last_rx_ns(c), c->keep_idle_s);

	/* Bytes that are in flight or unsent have timers of their own. */
	bool is_asked = c->sent.head || conn_has_unsent(c);

	if (c->stack->now_ns < idle_until || is_asked) {
		if (c->stack->now_ns >= idle_until)
			idle_until = later(c->stack->now_ns, c->keep_idle_s);
		c->life_at_ns = idle_until;
		return;
	}
	if (c->user_timeout_ms
		? c->n_probes && is_user_timeout(c, last_rx_ns(c))
		: c->n_probes >= c->keep_probes) {
		tx_reset_conn(c);
		give_up(c);
		return;
	}
	c->n_probes++;
	conn_set_pending(c, TX_PROBE);
	c->life_at_ns = later(c->stack->now_ns, c->keep_interval_s);
}

static void life_timeout(struct tcp_conn *c)
{
	c->life_at_ns = WHEEL_NEVER;
	if (c->state == TCP_FIN_WAIT_2 && c->flags & CONN_ORPHAN) {
		tcp_set_state(c, TCP_CLOSED);
	} else {
		assert(c->keep_idle_s);
		keepalive_timeout(c);
	}
}

static void conn_timeout(struct tcp_conn *c)
{
	uint64_t now = c->stack->now_ns;

	work_end(&c->stack->work);
	pace_timeout(c);
	if (c->rtx_at_ns <= now)
		rtx_timeout(c);
	if (c->state != TCP_CLOSED && c->life_at_ns <= now)
		life_timeout(c);
	if (c->state != TCP_CLOSED)
		conn_timer_sync(c);
	else if (c->flags & CONN_ORPHAN)
		conn_free(c);
}

static void expiry_timeout(struct tcp_stack *s)
{
	struct tcp_reqsk *syn;
	struct tcp_tw *wait;

	while ((syn = reqsk_expired(s))) {
		if (syn->n_retries == SYNACK_RETRIES || reqsk_is_void(s, syn)) {
			reqsk_free(s, syn);
			continue;
		}
		reqsk_rearm(s, syn);
		if (reqsk_wants_synack(s, syn))
			reqsk_send(s, syn);
	}
	while ((wait = tw_expired(s)))
		tw_free(s, wait);
}

void tcp_timers(struct tcp_stack *s, uint64_t now_ns)
{
	struct tcp_conn *late;
	struct timer *t;

	stack_at(s, now_ns);
	while ((late = delack_expired(s))) {
		work_end(&s->work);
		late->flags &= ~(uint32_t)CONN_PINGPONG;
		conn_set_pending(late, TX_ACK);
	}
	while ((t = wheel_expire(&s->wheel, s->now_ns))) {
		struct tcp_conn *c = container_of(t, struct tcp_conn, timer);
		const struct timer *soon = wheel_soon(&s->wheel);

		if (soon)
			conn_fetch(container_of(soon, struct tcp_conn, timer),
				   CONN_LINES_TIMER);
		conn_timeout(c);
	}
	expiry_timeout(s);
}

uint64_t tcp_ack_due_ns(const struct tcp_stack *s) { return delack_next_ns(s); }

uint64_t tcp_next_ns(const struct tcp_stack *s)
{
	uint64_t ns = MIN(wheel_next(&s->wheel), delack_next_ns(s));

	return MIN(ns, expiry_next_ns(s));
}
