/* SPDX-License-Identifier: MIT */
/*
 * tests/app/stress.h - what the parts of the stress test share
 *
 *     stress.c       options, processes, totals, watchdog
 *     stress_loop.c  workers: who waits how for which connection
 *     stress_conn.c  one connection: plan, opening, steps, closing
 *     stress_block.c connections with threads of their own
 *     stress_io.c    one call that moves bytes, chosen at random
 *
 * A connection opens with a plan in the clear (who sends how much, in turns or
 * as streams, who closes first, who aborts); after it each direction is a
 * pattern (pattern.h) of the plan's length.  All choices that both ends must
 * know are in the plan; all others are each end's own.
 */
#ifndef TESTS_STRESS_H
#define TESTS_STRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MSG_MAX (1u << 20) /* bytes moved by one call at most */
#define CONNS_MAX 4096     /* open at a time in one process */
#define BATCH_MAX 256      /* connections of one worker at a time */
#define N_LISTENERS 3      /* 127.0.0.1, ::1, ::ffff:127.0.0.1 */

#define PLAN_MAGIC 0x6e616c7073667331ull

enum plan_flags {
	PLAN_TURNS = 1,        /* strictly alternating messages */
	PLAN_CLIENT_WAITS = 2, /* client closes only after the server's EOF */
	PLAN_SERVER_WAITS = 4, /* and the reverse */
	PLAN_CLIENT_ABORTS = 8,
	PLAN_SERVER_ABORTS = 16,
	PLAN_TINY = 32, /* smallest socket buffers the kernel gives */
	PLAN_STOP = 64, /* no test: report totals and end */
};

struct plan {
	uint64_t magic;
	uint64_t seed;
	uint32_t id;
	uint32_t flags;    /* enum plan_flags */
	uint64_t bytes[2]; /* by direction: 0 to the server, 1 back */
	uint64_t abort_at; /* aborter's sent bytes */
	uint32_t n_turns;
	uint32_t reserved;
};

enum kind { /* how a worker waits */
	    KIND_BLOCK,
	    KIND_LEVEL,
	    KIND_EDGE,
	    KIND_ONESHOT,
	    KIND_POLL,
	    KIND_SELECT,
	    KINDS,
};

/* One direction of one connection, seen from one end.  Owner: one thread; the
 * watchdog reads the atomics. */
struct half {
	_Atomic uint64_t off;   /* bytes moved */
	_Atomic uint64_t limit; /* bytes that may move now */
	uint64_t total;
	uint64_t key;
	_Atomic int error; /* errno that ended it, or 0 */
	_Atomic bool done; /* rx: EOF seen; tx: closed or given up */
	bool blocked;      /* the last call said EAGAIN */
	const char *call;  /* the last call, for reports */
};

struct conn {
	struct plan plan;
	size_t plan_got; /* server: bytes of plan received */
	bool is_server;
	bool nonblock;
	enum kind kind;
	_Atomic int fd; /* receives; a dup of it may send */
	_Atomic int fd_tx;
	int family;
	bool trusts_short; /* edge: a short count means "wait for the edge" */
	bool saw_rdhup;
	bool is_pending;     /* has more to do without an event */
	_Atomic bool aborts; /* this end is about to reset it */
	bool is_shut;
	uint32_t i_turn;
	uint32_t events; /* as registered; under the worker's lock */
	bool wants_rearm;
	int slot; /* in the registry */
	struct half rx, tx;
};

struct rng {
	uint64_t s;
};

/* What a thread needs to move bytes. */
struct io {
	struct rng rng;
	uint8_t *buf; /* MSG_MAX bytes */
	uint8_t *peeked;
	int pipe[2];
	int tmp; /* for sendfile */
	uint64_t tmp_off;
};

struct totals {
	uint64_t conns, rx, tx; /* of connections that nobody aborted */
	uint64_t aborted;
};

struct options {
	uint64_t seed;
	uint64_t bytes; /* per connection and direction, at most */
	unsigned seconds;
	unsigned conns; /* open at a time, over all workers */
	unsigned threads;
	unsigned rounds; /* batches per worker; 0: until seconds have passed */
	unsigned hang_s; /* without progress */
	bool no_aborts;  /* no connection is reset on purpose */
	int kind;        /* enum kind, or -1 for any */
	uint16_t port[N_LISTENERS];
	const char *rx, *tx; /* the only call to use, by name; NULL: any */
};

extern struct options opt;
extern struct totals totals;
extern pthread_mutex_t totals_lock;
extern _Atomic uint64_t progress;
extern _Atomic bool is_stopping;
extern _Atomic int stop_fd; /* server: asked for totals here */

#define load_rlx(p) atomic_load_explicit((p), memory_order_relaxed)
#define store_rlx(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)

/* stress_io.c */
uint64_t rng_next(struct rng *r);
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
	return rng_next(r) % n;
}
static inline bool rng_one_in(struct rng *r, unsigned n)
{
	return rng_next(r) % n == 0;
}
size_t rng_size(struct rng *r, size_t max); /* 1 to max, every magnitude */
void io_open(struct io *io, uint64_t seed);
void io_close(struct io *io);
/* Return: true when bytes moved or the direction ended, false on EAGAIN. */
bool io_rx(struct io *io, struct conn *c);
bool io_tx(struct io *io, struct conn *c);

/* stress_conn.c */
struct conn *conn_connect(struct io *io, uint32_t id, enum kind kind);
struct conn *conn_accepted(int fd, struct io *io, enum kind kind);
void conn_set_nonblock(struct conn *c, bool on);
bool conn_read_plan(struct io *io, struct conn *c);
void conn_turn(struct conn *c);
bool conn_may_abort(const struct conn *c);
bool conn_aborts_now(const struct conn *c);
void conn_tx_ended(struct io *io, struct conn *c);
bool conn_is_over(const struct conn *c);
void conn_finish(struct conn *c); /* judges, counts, closes, frees */
unsigned conns_open(void);
void conns_dump(void);
__attribute__((noreturn, format(printf, 2, 3))) void
conn_fail(const struct conn *c, const char *fmt, ...);
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);

/* stress_block.c */
struct block_arg {
	struct conn *c;
	uint64_t seed;
};
void *block_main(void *arg); /* a struct block_arg */

/* stress_loop.c */
struct server {
	int listener[N_LISTENERS];
	int family[N_LISTENERS];
};
void workers_start(struct server *s); /* NULL: clients */
void workers_join(bool servers);
void meddler_start(void); /* after the last workers_start() */
void meddler_stop(void);
void workers_wake(void); /* after is_stopping changed */
extern const char *const kind_names[KINDS];

#endif
