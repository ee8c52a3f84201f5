/* SPDX-License-Identifier: MIT */
/*
 * tcp/open.h - connections before they are established, and after they are over
 *
 *     open.c      segments for a listener, or for nobody
 *     cookie.c    SYN cookies
 *     reqsk.c     a half-open connection, after Linux's request_sock
 *     timewait.c  a connection in TIME-WAIT
 *     expiry.c    making and freeing these two, and when they time out
 *
 * A struct tcp_reqsk and a struct tcp_tw are one cache line each; a whole connection is
 * a dozen.
 *
 * Owner: the stack's pools.
 */
#pragma once

#include "base/seq.h"
#include "tcp/flow.h"

struct tcp_conn;
struct tcp_listener;
struct tcp_seg;
struct arrival;

/* A passive open that waits for the ACK of its SYN-ACK. */
struct tcp_reqsk {
	struct flow flow;
	seq32 iss, irs;
	uint32_t ts_recent;
	uint32_t expires_ms;
	uint32_t prev, next; /* in the list of its retry: index + 1 */
	uint32_t challenge_ms;
	uint16_t mss;                       /* the peer's */
	uint16_t wnd;                       /* of our SYN-ACK, bytes */
	uint8_t wscale : 4, rcv_wscale : 4; /* the peer's; ours */
	uint8_t offers;   /* enum tcp_offers: what both ends have */
	uint8_t listener; /* index */
	uint8_t n_retries : 4;
	bool is_acked : 1; /* only bytes are missing (TCP_DEFER_ACCEPT) */
};
static_assert(sizeof(struct tcp_reqsk) <= CACHE_LINE, "a reqsk is one line");

struct tcp_tw {
	struct flow flow;
	seq32 snd_nxt, rcv_nxt;
	uint32_t ts_recent;
	uint32_t expires_ms;
	uint32_t prev, next; /* in the list of all: index + 1 */
	uint32_t challenge_ms;
	uint32_t ts_off;
	bool has_ts, is_ts_us;
};
static_assert(sizeof(struct tcp_tw) <= CACHE_LINE, "a timewait is one line");

/* Elements of one pool in the order in which they time out. */
struct expiry_list {
	uint32_t head, tail; /* index + 1 */
};

/* --- open.c --- */

void open_rx(struct tcp_stack *s, struct arrival *a, seq32 iss_min,
	     bool has_min);
bool port_is_listened(struct tcp_stack *s, uint8_t laddr, uint16_t port);
struct tcp_listener *listener_find(struct tcp_stack *s,
				   const struct arrival *a);
bool has_conn_room(struct tcp_stack *s, const struct tcp_listener *l);
void conn_from_reqsk(struct tcp_stack *s, const struct tcp_reqsk *was,
		     struct arrival *a);
void reqsk_send(struct tcp_stack *s, const struct tcp_reqsk *req);

/* --- cookie.c --- */

uint32_t cookie_make(struct tcp_stack *s, struct tcp_reqsk *req);
bool cookie_read(struct tcp_stack *s, const struct tcp_seg *seg,
		 struct tcp_reqsk *req);
bool cookie_is_likely(const struct tcp_listener *l);

/* --- reqsk.c --- */

void reqsk_rx(struct tcp_stack *s, struct tcp_reqsk *req, struct arrival *a);
bool reqsk_is_void(struct tcp_stack *s, const struct tcp_reqsk *req);
bool reqsk_wants_synack(const struct tcp_stack *s, const struct tcp_reqsk *req);

/* --- timewait.c --- */

void conn_enter_time_wait(struct tcp_conn *c);
void tw_rx(struct tcp_stack *s, struct tcp_tw *tw, struct arrival *a);

/* --- expiry.c --- */

struct tcp_reqsk *reqsk_new(struct tcp_stack *s, const struct tcp_reqsk *is);
void reqsk_free(struct tcp_stack *s, struct tcp_reqsk *req);
void reqsk_rearm(struct tcp_stack *s, struct tcp_reqsk *req);
struct tcp_reqsk *reqsk_expired(struct tcp_stack *s);
struct tcp_tw *tw_new(struct tcp_stack *s);
void tw_free(struct tcp_stack *s, struct tcp_tw *tw);
void tw_rearm(struct tcp_stack *s, struct tcp_tw *tw);
struct tcp_tw *tw_expired(struct tcp_stack *s);
uint64_t expiry_next_ns(const struct tcp_stack *s);
