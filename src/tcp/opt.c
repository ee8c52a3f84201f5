/* SPDX-License-Identifier: MIT */
/*
 * tcp/opt.c - the state that a program asks for, and its options (calls.h, opt.h)
 *
 * Options are fields and flags that other files read.  A setter also sets what is
 * pending if the option lets something be sent.
 */
#include "tcp/calls.h"
#include "tcp/ctl.h"
#include "tcp/opt.h"
#include "tcp/rcv.h"
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

/* The bytes that tcp_peek() would return one call after the other, up to an urgent
 * byte. */
uint32_t tcp_readable_bytes(const struct tcp_conn *c)
{
	seq32 at = conn_copied(c), end = seq_add(at, c->rcvq_bytes);

	/* The urgent byte may not have arrived, or its number may be that of the FIN. */
	if (!(c->flags & CONN_URG_IN) || c->flags & CONN_OOB_INLINE ||
	    !seq_lt(c->urg_seq, end))
		return c->rcvq_bytes;
	return seq_eq(c->urg_seq, at) ? c->rcvq_bytes - 1
				      : seq_len(at, c->urg_seq);
}

uint32_t tcp_unacked_bytes(const struct tcp_conn *c)
{
	/* After the ACK of our FIN, snd_una is one ahead of snd_end. */
	return c->state >= TCP_ESTABLISHED && seq_lt(c->snd_una, c->snd_end)
		   ? seq_len(c->snd_una, c->snd_end)
		   : 0;
}

uint32_t tcp_unsent_bytes(const struct tcp_conn *c)
{
	return c->state >= TCP_ESTABLISHED && seq_lt(c->snd_nxt, c->snd_end)
		   ? seq_len(c->snd_nxt, c->snd_end)
		   : 0;
}

static bool has_room(const struct tcp_conn *c)
{
	return snd_space(c) &&
	       (!c->rec.has_lowat ||
		tcp_unsent_bytes(c) < (c->notsent_lowat + 1) / 2);
}

/* A program that waits for more bytes than the window admits would wait for ever. */
static bool is_readable(const struct tcp_conn *c)
{
	uint32_t n = tcp_readable_bytes(c);

	return n && (n >= c->rcv_lowat || rcv_window_is_used_up(c));
}

unsigned tcp_poll(const struct tcp_conn *c)
{
	bool is_over = c->state == TCP_CLOSED;
	bool is_fin = c->flags & CONN_FIN_RCVD;
	unsigned ev = 0;

	if (is_readable(c) || is_fin || is_over)
		ev |= TCP_READABLE;
	if (is_over || (c->state >= TCP_ESTABLISHED &&
			(c->flags & CONN_SHUT_WR || has_room(c))))
		ev |= TCP_WRITABLE;
	if (c->urg_state == URG_HERE)
		ev |= TCP_URGENT;
	if (is_fin || is_over)
		ev |= TCP_PEER_CLOSED;
	if (is_over || (is_fin && c->flags & CONN_SHUT_WR))
		ev |= TCP_HUNG_UP;
	if (c->err)
		ev |= TCP_ERROR;
	return ev;
}

int tcp_error(struct tcp_conn *c) { return take_error(c); }
void tcp_set_user(struct tcp_conn *c, void *user) { c->user = user; }
void *tcp_user(const struct tcp_conn *c) { return c->user; }

void tcp_set_nodelay(struct tcp_conn *c, bool is_on, uint64_t now_ns)
{
	stack_at(c->stack, now_ns);
	c->flags &= ~(uint32_t)CONN_NODELAY;
	if (is_on) {
		/* TCP_NODELAY sends waiting bytes even from under a cork. */
		c->flags |= CONN_NODELAY | CONN_PUSH_ALL;
		conn_set_pending(c, TX_DATA);
	}
}

void tcp_set_cork(struct tcp_conn *c, bool is_on, uint64_t now_ns)
{
	stack_at(c->stack, now_ns);
	c->flags &= ~(uint32_t)(CONN_CORK | CONN_MORE);
	if (is_on)
		c->flags |= CONN_CORK;
	else
		conn_set_pending(c, TX_DATA);
}

void tcp_set_quickack(struct tcp_conn *c, bool is_on, uint64_t now_ns)
{
	stack_at(c->stack, now_ns);
	c->flags &= ~(uint32_t)CONN_PINGPONG;
	if (!is_on) {
		c->flags |= CONN_PINGPONG;
		return;
	}
	c->n_quick = QUICK_ACKS;
	if (c->delack_slot)
		conn_set_pending(c, TX_ACK);
}

void tcp_ask_silent(struct tcp_conn *c, uint32_t silent_ms, uint64_t now_ns)
{
	stack_at(c->stack, now_ns);
	if (c->state >= TCP_ESTABLISHED &&
	    now_ms(c->stack) - c->last_rx_ms >= silent_ms)
		conn_set_pending(c, TX_ACK);
}

void tcp_set_syn_retries(struct tcp_conn *c, uint8_t n)
{
	c->syn_retries = (uint8_t)MIN(n, (uint8_t)SYN_RETRIES_MAX);
}

void tcp_set_maxseg(struct tcp_conn *c, uint16_t bytes)
{
	if (c->state == TCP_SYN_SENT)
		c->maxseg = bytes;
}

void tcp_set_listen_maxseg(struct tcp_listener *l, uint16_t bytes)
{
	l->maxseg = bytes;
}

void tcp_set_fin_timeout(struct tcp_conn *c, uint16_t s)
{
	c->fin_timeout_s = s;
}

void tcp_set_snd_buf(struct tcp_conn *c, uint32_t bytes)
{
	bytes = MIN(bytes, 1u << 30);
	c->snd_buf = bytes > SND_BUF_MIN ? bytes : SND_BUF_MIN;
	c->flags |= CONN_SND_BUF_SET;
	conn_news(c);
}

void tcp_set_window_clamp(struct tcp_conn *c, uint32_t bytes)
{
	c->wnd_clamp = bytes && bytes < RCV_BUF_MIN ? RCV_BUF_MIN : bytes;
}

void tcp_set_notsent_lowat(struct tcp_conn *c, uint32_t bytes)
{
	c->notsent_lowat = MIN(bytes, 1u << 30);
	c->rec.has_lowat = bytes;
	conn_news(c);
}

void tcp_set_rcv_lowat(struct tcp_conn *c, uint32_t bytes)
{
	uint32_t buf = c->rcv_buf ? c->rcv_buf : c->stack->cfg.rcv_buf;

	c->rcv_lowat = MIN(bytes, buf / 2);
}

void tcp_set_defer_accept(struct tcp_listener *l, uint32_t s)
{
	uint32_t after_s = 1;

	/* Round up to a retry of the SYN-ACK: these happen after 1, 3, 7 .. seconds. */
	for (l->n_defer = 0; s && l->n_defer < SYNACK_RETRIES; l->n_defer++) {
		if (after_s >= s)
			break;
		after_s = after_s * 2 + 1;
	}
	/* The last retry asks for bytes once more; then an ACK alone opens. */
	l->n_defer += s && l->n_defer < SYNACK_RETRIES;
}

void tcp_set_pacing(struct tcp_conn *c, bool is_on, uint64_t now_ns)
{
	stack_at(c->stack, now_ns);
	if (is_on) {
		c->flags |= CONN_PACED;
		return;
	}
	c->flags &= ~(uint32_t)(CONN_PACED | CONN_PACE_WAITS);
	conn_set_pending(c, TX_DATA);
}

void tcp_set_linger(struct tcp_conn *c, bool resets)
{
	c->flags &= ~(uint32_t)CONN_LINGER_0;
	c->flags |= resets ? CONN_LINGER_0 : 0u;
}

void tcp_set_user_timeout(struct tcp_conn *c, uint32_t ms)
{
	c->user_timeout_ms = ms;
}

void tcp_set_keepalive(struct tcp_conn *c, uint32_t idle_s, uint32_t interval_s,
		       uint32_t n_probes, uint64_t now_ns)
{
	stack_at(c->stack, now_ns);
	interval_s = interval_s ? interval_s : 1;
	n_probes = n_probes ? n_probes : 1;
	c->keep_idle_s = (uint16_t)MIN(idle_s, (uint32_t)UINT16_MAX);
	c->keep_interval_s = (uint16_t)MIN(interval_s, (uint32_t)UINT16_MAX);
	c->keep_probes = (uint8_t)MIN(n_probes, (uint32_t)UINT8_MAX);
	if (c->state != TCP_CLOSED)
		conn_life_update(c);
}
