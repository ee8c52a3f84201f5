/* SPDX-License-Identifier: MIT */
/*
 * group/gsock.h - what the parts of a group share: the group, a socket in it
 *
 * Sockets and groups are type-stable: a pointer to one that has gone still points at
 * one.  A callback may take the socket that it is about away to another thread, or
 * mark it for destruction: whoever called back looks at the answer of call_*().
 */
#pragma once

#include "base/list.h"
#include "base/lock.h"
#include "group/buf.h"
#include "group/group.h"
#include "ops/ops.h"
#include "sock/lend.h"
#include "sock/sock_ops.h"

/* Sockets that are looked at in each turn, news or not: nobody need tell of them. */
#define HOT_MAX 8u
/* A hot one without news for so many turns gives its place to one with news. */
#define HOT_IDLE_TURNS 1024u

enum gsock_state {
	GSOCK_IDLE,
	GSOCK_CONNECTING,
	GSOCK_CONNECTED,
	GSOCK_LISTENING,
	GSOCK_FAILED,
};

/* A send operation, or one of its places. */
struct txop {
	struct txop *next;
	const uint8_t *data;
	size_t len;
	uint64_t end;       /* of the stream, with it */
	uintptr_t userdata; /* 0: no completion */
	struct chunk
	    *copy;       /* that holds the data; NULL: the application does */
	uint32_t key;    /* of registered memory; 0: none */
	uint32_t n_refs; /* the socket's, with the last of this one */
	uint8_t may_ref; /* it lies where a peer may read it */
	uint8_t has_refs;
};

struct gsock {
	struct group *group; /* NULL: detached */
	struct sock *sk; /* NULL: no statistics segment; then the kernel's */
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
	uint32_t slot; /* in the group's lane */
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
	/* sending: [first ... out) is out, [out ... last] is to go */
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
	int timer_fd; /* for sleepers; -1 */
	uint32_t lane;
	uint32_t n_socks;
	struct list all, work, acks, dirty, lent;
	uint32_t n_connecting; /* with a deadline */
	/* this turn */
	uint32_t has_returns; /* buffers came back elsewhere */
	bool in_turn;
	bool is_armed; /* somebody may sleep, and is to be told of returns */
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

/* wait.c: something stands in the group's set, for who sleeps there */
void group_ring(const struct group *g);
/* group.c: the same, from any thread, if there is still such a group */
void group_wake(struct group *g);

/* turn.c */
void work_add(struct gsock *s);
bool call_event(struct group *g, struct gsock *s, enum group_event event,
		int value);
bool call_comp(struct group *g, struct gsock *s, uintptr_t userdata);
bool call_rx(struct group *g, struct gsock *s, void *data, size_t len,
	     struct rxbuf *b);
void hot_add(struct group *g, struct gsock *s);
void hot_drop(struct gsock *s);
/* What the switch has decided about the connection takes effect. */
void gsock_settle(struct gsock *s);

/* In an entry of the epoll set: it is an upgrade's, not the connection's. */
#define SET_UPGRADE (UINT64_C(1) << 63)

/* open.c */
int set_add(struct gsock *s);
void set_watch(struct gsock *s); /* what tells of the next step of an upgrade */
void set_drop(struct gsock *s);
void gsock_established(struct group *g, struct gsock *s);
void gsock_accept(struct group *g, struct gsock *s);
void gsock_unlist(struct gsock *s); /* from all of the group's lists */
void gsock_put(struct gsock *s);    /* its memory, no more */
void gsocks_after_fork(void);

/* end.c */
bool gsock_fail(struct group *g, struct gsock *s, int err);
bool gsock_close_step(struct group *g, struct gsock *s); /* true: it is gone */
/* It ends now: completions and TERMINATED are called back.  @g may be NULL. */
void gsock_terminate(struct group *g, struct gsock *s);
void gsock_discard(struct gsock *s); /* nobody has heard of it */

/* rx.c: false: do not touch the socket any more */
bool gsock_rx(struct group *g, struct gsock *s);
void gsock_rx_discard(struct gsock *s);
void held_release(struct gsock *s);
void held_part(struct rxbuf *b); /* it keeps where it is lent, not the socket */
void held_orphan(struct gsock *s);
void gsock_rest(struct gsock *s); /* what came back goes to the peer now */
void group_take_returns(struct group *g);

/* lent.c */
void lend_begin(struct gsock *s);            /* @lend has the stream now */
void lend_copied(struct gsock *s, size_t n); /* so many bytes were not lent */
void turn_lent(struct group *g);

/* tx.c: what has been flushed goes out as far as there is room; 0 or -errno */
int gsock_push(struct group *g, struct gsock *s);
void gsock_acks(struct group *g, struct gsock *s); /* ask, and complete */
bool gsock_complete(struct group *g, struct gsock *s);
void txq_drop(struct gsock *s); /* forget, without completions */
void txops_fini(struct group *g);
void txops_after_fork(void);

/*
 * ref.c: sending by reference.
 */

#define REF_MIN 4096u /* bytes; fewer are copied */

/* Of @len bytes at @data, those that are to be copied before whole pages begin; all of
 * them if there is too little of those. */
size_t ref_lead(const uint8_t *data, size_t len);
/* From @done on, where a page begins: the bytes that went, 0 send a copy, -ECONNRESET. */
ssize_t gsock_put_ref(struct gsock *s, const struct txop *op, size_t done);
uint32_t refs_sent(const struct gsock *s);
int refs_look(struct gsock *s);           /* 0, -ECONNRESET */
bool refs_are_out(const struct gsock *s); /* as of the last look */
bool ref_is_done(const struct gsock *s, uint32_t n_sent);
bool refs_hold_up_end(struct gsock *s);
/* Is that all that its end waits for? */
bool refs_are_waited_for(const struct gsock *s);
void refs_end(struct gsock *s); /* the memory is the application's again */
void refs_free(struct gsock *s);

static inline bool gsock_may_receive(const struct gsock *s)
{
	return s->state == GSOCK_CONNECTED && !s->is_closing;
}
