/* SPDX-License-Identifier: MIT */
/*
 * group/gsock.h - what the parts of a group share: the group, a socket in it
 *
 * Sockets and groups are type-stable: a stale pointer still points at one.  A
 * callback may move its socket to another thread or mark it for destruction, so
 * every caller checks the result of call_*().
 */
#pragma once

#include "base/list.h"
#include "base/lock.h"
#include "group/buf.h"
#include "group/group.h"
#include "ops/ops.h"
#include "sock/lend.h"
#include "sock/sock_ops.h"

/* Sockets that each turn polls without a notification. */
#define HOT_MAX 8u

enum gsock_state {
	GSOCK_IDLE,
	GSOCK_CONNECTING,
	GSOCK_CONNECTED,
	GSOCK_LISTENING,
	GSOCK_FAILED,
};

struct txop;
struct txrefs;

struct gsock {
	struct group *group; /* NULL: detached */
	struct sock *sk;     /* NULL: no statistics file; then the kernel's */
	uintptr_t handle, userdata;
	int32_t fd;
	uint8_t state;
	uint8_t is_direct;   /* @lend carries it, in this group */
	uint8_t is_closing;  /* destroy was asked for */
	uint8_t has_eof;     /* CLOSED was called back */
	uint8_t hung_up;     /* the kernel said so: read to the end */
	uint8_t is_readable; /* the kernel said so, and has not been emptied */
	uint8_t is_blocked;  /* no room where the bytes go */
	uint8_t is_bound;
	uint8_t is_in_set;  /* of the group's epoll set */
	uint8_t may_lend;   /* its bytes are handed out where they lie */
	uint8_t is_copying; /* it is lent nothing for a while: lent.h */
	int32_t error; /* errno of the failure, to be called back yet or not */
	struct watch watch; /* by the group; and who else watches: nobody */
	int32_t watched[OPS_UPGRADE_FDS]; /* of an upgrade, in the set; -1 */
	int32_t hot;                      /* its place, -1 */
	uint32_t user_timeout_ms;
	uint64_t deadline_ns; /* of connecting; 0: none */
	struct list all;      /* of the group's */
	struct list work;     /* to be served in the next turn */
	struct list acks;     /* operations wait to be acknowledged */
	struct list dirty;    /* something is not flushed */
	struct list lent;     /* the application keeps what was lent */
	/* receiving, in place */
	const struct lend_ops *lend; /* NULL: its protocol has none */
	struct lend_memory *memory;  /* where it lends; NULL: nowhere */
	struct rxbuf *held_first, *held_last; /* in the stream's order */
	uint64_t received;                    /* bytes that were lent */
	const struct rxbuf *lent_first; /* as of the last look of lent.c, */
	uint64_t lent_at;               /* and what was received then */
	uint64_t lent_ns;               /* when either changed last */
	uint64_t copy_left;  /* bytes that are copied before it lends again */
	uint64_t copy_next;  /* and how many the next time */
	uint64_t starved_ns; /* there is no memory since; 0 there is */
	uint64_t ack_look;   /* the turn of the last look */
	/* sending: [first ... out) is sent, [out ... last] is not */
	struct txop *first, *out, *last;
	size_t out_done;  /* bytes of @out that are out */
	uint32_t n_comps; /* operations that are to be completed */
	uint64_t queued;  /* the stream's end so far */
	uint64_t limit;   /* flushed up to here */
	uint64_t sent;    /* out up to here */
	uint64_t acked;   /* acknowledged up to here */
	uint8_t
	    has_early; /* bytes that went before @lend may be on their way */
	struct txrefs *refs; /* once something was sent by reference */
	struct group_calls
	    calls; /* of the last group, for one that is in none */
};

struct hot {
	struct gsock *s;
	uint32_t idle; /* turns without news */
};

struct group {
	struct group_attr attr;
	uintptr_t handle;
	struct lock lock;  /* if attr.is_locked */
	uint32_t lock_tid; /* who holds it, */
	uint32_t lock_depth;
	uint32_t inside;   /* debug: the thread that is inside */
	uint32_t n_inside; /* and how deep */
	int epfd;
	int timer_fd;        /* for sleepers; -1 */
	struct ready_set rs; /* which sockets have news */
	int idle_fd;         /* of base/idle.h, in the set; -1 */
	uint32_t idle_number;
	uint32_t n_socks;
	struct list all, work, acks, dirty, lent;
	uint32_t n_connecting; /* with a deadline */
	/* this turn */
	uint32_t has_returns; /* buffers came back elsewhere */
	bool in_turn;
	bool
	    is_armed; /* somebody may sleep, and is to be notified of returns, */
	bool is_asleep;        /* and of news */
	struct gsock *current; /* whose callback runs */
	uint32_t n_events;
	uint64_t turn;
	/* looking at the kernel */
	uint32_t n_empty; /* looks in a row that found nothing */
	uint64_t looked_ns;
	uint64_t acks_looked_ns;
	uint64_t hot_turn; /* when a hot one had news last */
	uint32_t n_hot;
	struct hot hot[HOT_MAX];
	struct pool pool;
	struct txop *free_ops;
	size_t n_free_ops;
	struct group *next; /* of all groups, or of the free ones */
};

struct gsock *gsock_take(void);  /* NULL: out of memory */
void gsock_put(struct gsock *s); /* its memory, no more */
void gsocks_after_fork(void);

/* Run a callback.  True: the socket is still the group's, and valid. */
bool call_event(struct group *g, struct gsock *s, enum group_event event,
		int value);
bool call_comp(struct group *g, struct gsock *s, uintptr_t userdata);

static inline bool call_end(struct group *g, struct gsock *s)
{
	bool same = g->current == s;

	g->current = NULL;
	g->n_events++;
	return same;
}

static inline bool call_rx(struct group *g, struct gsock *s, void *data,
			   size_t len, struct rxbuf *b)
{
	g->current = s;
	g->attr.calls.rx(s->handle, s->userdata, data, len, &b->pub,
			 &g->attr.calls);
	return call_end(g, s);
}

/* The next turn serves it. */
static inline void work_add(struct gsock *s)
{
	if (s->group && list_is_empty(&s->work))
		list_add_tail(&s->group->work, &s->work);
}

static inline bool gsock_may_receive(const struct gsock *s)
{
	return s->state == GSOCK_CONNECTED && !s->is_closing;
}
