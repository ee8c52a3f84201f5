/* SPDX-License-Identifier: MIT */
/*
 * tcp/conn.h - what a connection is, and what the engine's files share
 *
 * A connection is seven cache lines, of which one whose bytes only come touches four, and
 * a cold part.  Before a passive open establishes it, and in TIME-WAIT, it is a mini of 64
 * bytes.  All of them begin with a struct flow, by which arriving segments find them
 * (flow.h).
 *
 * Owner: the stack, which is one group's.
 */
#pragma once

#include <errno.h>

#include "base/clock.h"
#include "base/wheel.h"
#include "tcp/cc.h"
#include "tcp/flow.h"
#include "tcp/recovery.h"
#include "tcp/tcp.h"
#include "tcp/work.h"

enum tcp_state {
#define S(name, next) TCP_##name,
#include "tcp/state.def"
#undef S
	TCP_STATES
};

/* Linux's numbers, unless an RFC is named. */
#define RTO_INITIAL_NS (1 * NS_PER_S)   /* RFC 6298 (2.1) */
#define RTO_AFTER_SYN_NS (3 * NS_PER_S) /* RFC 6298 (5.7) */
#define RTO_MIN_NS (200 * NS_PER_MS)
#define RTO_MAX_NS (120 * NS_PER_S)
#define SYN_RETRIES 6
#define SYN_RETRIES_MAX 127
#define SYN_LINEAR 4 /* retries before the time-out doubles */
#define SYN_SOON_NS (8 * NS_PER_MS)
#define SYNACK_RETRIES 5
#define DATA_RETRIES 15
#define DATA_PATIENCE_NS (924600 * NS_PER_MS) /* what these take at least */
#define ORPHAN_RETRIES 8
#define TIME_WAIT_NS (60 * NS_PER_S)
#define FIN_WAIT_2_NS (60 * NS_PER_S) /* of a connection that was closed */
#define DELACK_NS (40 * NS_PER_MS)
#define QUICK_ACKS 16
#define CHALLENGE_NS (500 * NS_PER_MS) /* between answers to what is wrong */
#define INITIAL_WINDOW 10              /* segments; RFC 6928 */
#define MSS_MIN 48                     /* CVE-2019-11479 */
#define OOO_MAX 1024                   /* runs out of order */
#define SACKS_KNOWN 3
#define SACK_HINTS 3
#define DUP_THRESH 3 /* RFC 5681 */
#define PAWS_S (24 * 24 * 3600u)
#define TX_REPLIES 256 /* a power of two */
#define PATHS_KNOWN 64 /* a power of two */
#define SOON 4         /* a power of two */
#define RCV_BUF_MIN 1024u
#define TS_BYTES 12 /* of options, with two NOPs */
#define SND_BUF_MIN 2048u
#define PORT_FIRST 32768u
#define PORT_LAST 60999u

enum tx_pending {
	TX_ACK = 1,
	TX_DATA = 2, /* look whether anything may be sent */
	TX_SYN = 4,
	TX_PROBE = 8,  /* of a window or of the peer's life */
	TX_FORCE = 16, /* the next range that is lost goes whatever cwnd says */
	TX_PUSH = 32,  /* a small segment goes whatever the window says */
	TX_TLP = 64,   /* the tail is probed, whatever cwnd says */
};

enum conn_flags {
	CONN_TS = 1 << 0, /* timestamps were agreed */
	CONN_SACK = 1 << 1,
	CONN_WSCALE = 1 << 2,
	CONN_ORPHAN = 1 << 3,  /* the program has closed it */
	CONN_SHUT_WR = 1 << 4, /* a FIN follows snd_end */
	CONN_FIN_SENT =
	    1 << 5, /* ... and has been sent; snd_nxt is behind it */
	CONN_FIN_RCVD = 1 << 6, /* rcv_nxt is behind the peer's FIN */
	CONN_NODELAY = 1 << 7,
	CONN_LINGER_0 = 1 << 8,
	CONN_CWND_LIMITED = 1 << 9, /* cwnd alone has held bytes back */
	CONN_REORDERS = 1 << 10,    /* the path was seen to reorder */
	CONN_SYN_RETX = 1 << 11,
	CONN_IN_TABLE = 1 << 12,
	CONN_DSACK = 1 << 13,       /* the next ACK tells of a duplicate */
	CONN_ECN = 1 << 14,         /* RFC 3168 was agreed */
	CONN_ECT_OFF = 1 << 15,     /* what is marked does not get through */
	CONN_ECN_ECHO = 1 << 16,    /* the peer is told of congestion */
	CONN_CWR_PENDING = 1 << 17, /* ... and by us, that cwnd fell */
	CONN_PACED = 1 << 18,
	CONN_PACE_WAITS = 1 << 19, /* something waits for pace_at_ns */
	CONN_MTU_LOW = 1 << 20,    /* the path may carry more than the MSS */
	CONN_PROBE_LOST = 1 << 21, /* and nothing else is lost */
	CONN_URG_IN = 1 << 22,     /* urg_state is not URG_NONE */
	CONN_URG_OUT = 1 << 23,    /* snd_up is ahead of snd_una */
	CONN_OOB_INLINE = 1 << 24,
	CONN_CORK = 1 << 25,
	CONN_MORE = 1 << 26,        /* as a cork, until the next send or ACK */
	CONN_PUSH_ALL = 1 << 27,    /* what was given so far is not held back */
	CONN_PINGPONG = 1 << 28,    /* ACKs are likely to travel with answers */
	CONN_RCV_BUF_SET = 1 << 29, /* the program chose the buffer's size */
	CONN_FIN_ALONE = 1 << 30,   /* a FIN without text came, at fin_at */
	CONN_SND_BUF_SET = 1u << 31,
};

/* Of the byte at urg_seq. */
enum urg_state {
	URG_NONE,
	URG_AHEAD, /* has not arrived */
	URG_HERE,
	URG_READ,
};

enum ca_state {
	CA_OPEN,
	CA_CWR,      /* the peer has told of congestion, until ... */
	CA_RECOVERY, /* something is lost, until snd_una is at recover */
	CA_LOSS,     /* the same, after a time-out */
};

/* What a connection waits for: see chrono.c. */
enum chrono {
	CHRONO_UNSPEC,       /* there is nothing to be sent, or under way */
	CHRONO_BUSY,         /* for the path: the congestion window, ACKs */
	CHRONO_RWND_LIMITED, /* for the peer's window */
	CHRONO_SNDBUF_LIMITED, /* for room for more, all that was given being under way */
};

/* Which of them the retransmission timer is; there is one. */
enum rtx_kind {
	RTX_NONE,
	RTX_RTO,
	RTX_REO, /* RACK's reordering window is over */
	RTX_TLP, /* the tail is to be probed */
	RTX_PERSIST,
};

/*
 * Which lines a segment touches, and so what a connection costs that no cache has:
 *
 *     bytes that come, their ACK, the program's read    1 to 4
 *     an ACK; bytes that are sent                       1 to 7
 */
struct tcp_conn {
	/* 1: what every segment that arrives is judged by. */
	alignas(CACHE_LINE) struct flow flow;
	seq32 rcv_nxt;
	seq32 rcv_adv; /* right edge of the window; never moves back */
	seq32 last_ack_sent;
	uint32_t rcvq_bytes; /* in order, not read yet */
	/* Not in one word with the state: to be compared as one, it would have to wait
	 * for what was just stored to either. */
	uint32_t flags; /* enum conn_flags */
	uint32_t ts_recent;
	uint8_t state; /* enum tcp_state; tcp_set_state() alone writes it */
	uint8_t tx_pending; /* enum tx_pending */
	uint8_t snd_wscale, rcv_wscale;
	uint32_t rcv_buf; /* bytes; see rcvwin.c */
	uint32_t rcv_mem; /* that pieces received hold */

	/* 2: the other way, whose state each segment tells of; when to look again. */
	alignas(CACHE_LINE) seq32 snd_una;
	seq32 snd_nxt; /* nothing behind it was ever sent */
	seq32 snd_end; /* behind the last byte that the program gave */
	seq32 snd_wl1, snd_wl2;
	uint32_t snd_wnd, max_wnd; /* bytes */
	uint32_t lost_bytes;       /* of the ranges that were sent */
	uint32_t ts_off;
	uint32_t last_rx_ms;
	uint32_t delack_slot;    /* of the ring, plus 1; 0: none waits */
	uint32_t wnd_clamp;      /* bytes; 0: none */
	uint64_t life_at_ns;     /* WHEEL_NEVER: not at all */
	uint32_t cwnd, ssthresh; /* bytes */

	/* 3: what was received, and small things of both ways. */
	alignas(CACHE_LINE) struct queue rcvq; /* bytes in order */
	struct range *oooq; /* by seq; what touches is a run */
	struct tcp_stack *stack;
	struct tcp_listener
	    *listener; /* that it was opened by, until accepted */
	uint16_t mss;  /* payload of a full segment without SACK */
	uint8_t ca_state, rtx_kind;
	uint8_t n_rtx, n_probes;
	uint8_t n_quick; /* ACKs that are still sent at once */
	uint8_t n_dupacks;
	int16_t err;      /* negative errno */
	int16_t soft_err; /* negative errno: what a time-out is told as */
	uint32_t rcv_rtt_us, rcv_space_us; /* a round trip, and its begin */
	uint32_t last_data_rx_ms;

	/* 4: whose turn it is, and what is only counted. */
	alignas(CACHE_LINE) struct list pending_link;
	struct list ready_link;          /* or in its listener's queue */
	uint32_t n_in, n_out, n_data_in; /* segments */
	uint16_t rcv_wraps;     /* how often the numbers have passed 0 */
	uint16_t rcv_mss;       /* of the segments that come, as far as known */
	uint32_t ts_recent_s;   /* when ts_recent was last seen */
	uint32_t rcv_rtt_tsecr; /* see rcvwin.c */
	uint64_t last_tx_ns;    /* of a SYN, bytes or a FIN; 0: none */

	/* 5: what is under way. */
	alignas(CACHE_LINE) struct timer timer;
	uint64_t rtx_at_ns; /* WHEEL_NEVER: not armed */
	struct queue
	    sent; /* ranges, by seq, without gaps: snd_una to snd_nxt */

	/* 6: what was given to be sent; round trips. */
	alignas(CACHE_LINE) struct queue sndq; /* bytes, snd_una to snd_end */
	struct list flight;                    /* ranges, by time */
	uint32_t srtt_8us; /* eighths of a microsecond; 0: no sample yet */
	uint32_t rttvar_us, rto_us;
	uint32_t half_rtt_us; /* see min_rtt_sample() */
	uint64_t rto_at_ns;   /* while the timer is an earlier one */
	seq32 flight_seq;     /* see flight_seen() */
	uint32_t flight_max;  /* bytes */

	/* 7: what goes well is only noted, or looked at, here. */
	alignas(CACHE_LINE) uint64_t rack_xmit_ns; /* of the youngest segment
						    * that arrived */
	const struct tcp_cc *cc;
	uint32_t rack_rtt_us;
	uint32_t min_rtt_us;
	seq32 rack_end, recover;
	uint32_t cwnd_used;    /* the most in flight ... */
	uint32_t cwnd_used_ms; /* ... since then, when it was all of cwnd */
	uint32_t n_data_out;   /* segments */
	uint32_t sacked_bytes; /* of the ranges that were sent */
	seq32 snd_sml;         /* behind the last small segment: Minshall */
	uint32_t chrono_start_ms, busy_ms; /* chrono.c */
	struct tcp_recovery rec;           /* of it, the first bytes */

	/* Cold. */
	/* Ranges: what was lost for the first time, or by a time-out; and what was sent
	 * again, and lost again since. */
	struct list lost, again;
	struct range
	    *lost_at; /* after a time-out: nothing lost lies before it */
	struct range *sack_hints[SACK_HINTS]; /* where blocks are looked for */
	seq32 lost_end; /* where that ends which the time-out took for lost */
	uint32_t era;   /* see sent.c */
	uint32_t again_out, again_lost; /* bytes sent again: in flight, lost */
	struct list ooo_link;           /* of those with bytes out of order */
	uint32_t ooo_root, ooo_newest;  /* see runs.c */
	uint64_t rtx_since_ns; /* when the oldest range was first timed out */
	uint64_t pace_at_ns;   /* when the next frame may go */
	uint32_t n_again;      /* segments that were sent again */
	uint32_t rwnd_ms, sndbuf_ms; /* chrono.c */
	uint32_t n_reno_sacks;
	uint16_t snd_wraps;
	uint16_t n_ooo; /* runs out of order */
	seq32 iss, irs;
	seq32 fin_at;
	seq32 sack_high; /* behind the highest byte that was SACKed */
	uint32_t ooo_bytes;
	struct tcp_sack sacks_known[SACKS_KNOWN]; /* of the last ACK */
	struct tcp_sack dsack;
	struct list all_link;
	uint32_t
	    challenge_ms; /* of the last answer to what is wrong; 0: none */
	uint32_t user_timeout_ms;
	uint16_t keep_idle_s, keep_interval_s;
	uint8_t keep_probes;
	uint8_t n_sacks_known : 2;
	uint8_t urg_state : 2;
	bool is_era_lost : 1;  /* what was noted in no later era is lost */
	bool is_rack_late : 1; /* more is lost than could be marked at once */
	uint16_t mss_max;      /* payload of a segment that both ends take */
	uint16_t path_mtu, mtu_high; /* see pmtu.c */
	uint16_t mtu_probe;          /* size of the probe under way, or 0 */
	uint16_t maxseg;             /* of TCP_MAXSEG; 0: none */
	uint32_t mtu_probe_s;        /* no probe before it */
	seq32 urg_seq, snd_up;       /* the byte; behind ours */
	uint8_t urg_byte, syn_retries;
	uint16_t fin_timeout_s; /* of FIN-WAIT-2; 0: FIN_WAIT_2_NS */
	uint32_t rcv_lowat, notsent_lowat;
	uint32_t snd_buf; /* if CONN_SND_BUF_SET */
	uint32_t
	    rcv_space;     /* read in a round trip; before: see rcv_promise() */
	seq32 rcv_copied;  /* where that began */
	uint32_t n_dsacks; /* segments that the peer has had twice */
	uint64_t again_bytes; /* sent a second time */
	void *user;
	union tcp_cc_state cc_state;
};
#define CONN_LINES_RX 4
#define CONN_LINES_TIMER 5
#define CONN_LINES_TX 7
static_assert(offsetof(struct tcp_conn, timer) == CONN_LINES_RX * CACHE_LINE,
	      "what receives has its lines");
static_assert(offsetof(struct tcp_conn, rec) + TCP_RECOVERY_HOT <=
		  CONN_LINES_TX * CACHE_LINE,
	      "and so has what sends");
static_assert(sizeof(struct tcp_conn) <= 832, "an idle connection is small");

struct tcp_listener {
	struct tcp_stack *stack;
	struct list accept; /* oldest first */
	uint32_t n_accept, backlog;
	uint32_t n_reqsks;   /* minis that came by it */
	uint64_t cookie_ns;  /* when the last cookie was given; 0: none */
	int16_t laddr;       /* index, or -1 for all */
	uint16_t port;       /* 0: free, when n_reqsks is 0, too */
	bool is_shared;      /* with others of the kind */
	uint16_t maxseg;     /* of its connections */
	uint32_t rcv_buf;    /* the same; 0: the configuration's */
	uint32_t cookie_buf; /* what cookies were told of it */
	uint8_t n_defer;     /* retries for which an ACK alone does not open */
};

/* A segment that belongs to no whole connection. */
struct tcp_reply {
	struct ip_addr raddr;
	uint8_t laddr;
	struct tcp_seg seg;
};

struct expiry_list {
	uint32_t head, tail; /* index + 1 */
};

/* What a path was found to carry, for those who come after; see pmtu.c. */
struct path_known {
	struct ip_addr raddr;
	uint32_t until_s;
	uint16_t mtu; /* 0: free */
	bool is_cut_allowed;
};

/* An ACK that waits; delack.c. */
struct delack {
	struct tcp_conn *conn; /* NULL: struck out */
	uint64_t at_ns;
};

struct delack_queue {
	struct delack *ring;
	uint32_t n_slots, head, n; /* the struck ones are counted */
	/* While it is made dense: entries that were looked at, and those that stay. */
	uint32_t n_seen, n_kept;
	bool is_swept;
};

struct tcp_stack {
	struct tcp_config cfg;
	uint64_t now_ns;
	uint32_t now_ms; /* the same */
	struct work work;
	struct wheel wheel;
	struct delack_queue delacks;
	struct list pending, ready, conns;
	struct list returned; /* what was lent, and is not needed any more */
	uint32_t n_blocks;    /* that the pools have grown by */
	struct pool pool_conns, pool_reqsks, pool_tws, pool_ranges,
	    pool_extents;
	struct expiry_list reqsks[SYNACK_RETRIES + 1], tws;
	struct flow_bucket *buckets;
	uint32_t n_buckets;
	uint32_t reply_head, reply_tail; /* running freely */
	uint32_t port_hint;
	uint32_t port_skips; /* choices that begin with the odd ports */
	uint32_t n_cuttable; /* packets that routers may cut: numbers them */
	struct path_known paths[PATHS_KNOWN];
	/* Connections that will be sent on, the last ones; see tcp_send_soon(). */
	const struct tcp_conn *soon[SOON];
	uint32_t n_soon;  /* runs freely */
	uint64_t rcv_mem; /* that pieces received hold, of all connections */
	struct tcp_orphans orphans;
	uint32_t n_runs; /* that ever began: see runs.c */
	struct list ooo; /* connections with bytes out of order */
	struct tcp_reply replies[TX_REPLIES];
	struct tcp_listener listeners[TCP_LISTENERS_MAX];
	uint64_t drops[DROP_REASONS];
	uint32_t transitions[TCP_STATES][TCP_STATES]; /* from, to: how often */
};

/* What one ACK has told so far. */
struct ack_told {
	/* Of the first and the last of the ranges that were sent once (Karn); 0: none.
	 * The first has waited for a delayed ACK, which a time-out must do, too. */
	uint64_t rtt_ns, last_rtt_ns;
	uint32_t delivered; /* bytes that were acknowledged or SACKED */
	uint32_t sacked;    /* of them */
	bool is_original;   /* of those sent before the episode, and once */
	bool is_dup;        /* nothing is new: no byte, number nor window */
	bool
	    is_reordered; /* something has come behind what was sent after it */
};

/* What a segment brings besides its header. */
struct arrival {
	struct tcp_seg seg;
	struct extent *ext;
	uint32_t off; /* of the payload */
	const struct ip_addr *raddr;
	uint8_t laddr;
	uint8_t ecn;  /* of the IP header */
	bool is_lent; /* TCP_RX_LENT */
};

static inline uint32_t clip_us(uint64_t ns)
{
	return (uint32_t)MIN(ns / NS_PER_US, (uint64_t)UINT32_MAX);
}

/* What the round trips say, without what is backed off: see conn_rto_ns(). */
static inline uint64_t conn_rto_base_ns(const struct tcp_conn *c)
{
	return c->rto_us * NS_PER_US;
}

static inline uint64_t conn_srtt_ns(const struct tcp_conn *c)
{
	return c->srtt_8us * (NS_PER_US / 8);
}

static inline seq32 range_end(const struct range *r)
{
	return seq_add(r->seq, r->len);
}

/* Of a range that was sent; see sent.c. */
static inline bool range_is_lost(const struct tcp_conn *c,
				 const struct range *r)
{
	if (!c->lost_bytes || r->flags & RANGE_SACKED)
		return false;
	return r->era == c->era ? r->flags & RANGE_LOST : c->is_era_lost;
}

/* The first lines of a connection, or of a mini, will be touched. */
static inline void conn_fetch(const void *conn, uint32_t n_lines)
{
	for (uint32_t i = 0; i < n_lines; i++)
		__builtin_prefetch((const uint8_t *)conn + i * CACHE_LINE, 1);
}

/* The last of what was given and of what was sent will be touched: what comes next is
 * linked to it. */
static inline void conn_fetch_tails(const struct tcp_conn *c)
{
	__builtin_prefetch(c->sent.tail, 1);
	__builtin_prefetch(c->sndq.tail, 1);
}

static inline void drop(struct tcp_stack *s, enum drop_reason why)
{
	s->drops[why]++;
}

/* What each call begins with. */
static inline void stack_at(struct tcp_stack *s, uint64_t now_ns)
{
	work_end(&s->work);
	if (now_ns <= s->now_ns)
		return;
	s->now_ns = now_ns;
	s->now_ms = (uint32_t)(now_ns / NS_PER_MS);
}

static inline uint32_t now_ms(const struct tcp_stack *s) { return s->now_ms; }

static inline uint32_t now_sec(const struct tcp_stack *s)
{
	return (uint32_t)(s->now_ns / NS_PER_S);
}

/* The earliest of the deadlines that the connection's timer stands for. */
static inline uint64_t conn_deadline(const struct tcp_conn *c)
{
	uint64_t first = c->life_at_ns;

	if (c->rtx_kind)
		first = MIN(first, c->rtx_at_ns);
	if (c->flags & CONN_PACE_WAITS)
		first = MIN(first, c->pace_at_ns);
	return first;
}

/* Bytes that are believed to be on their way. */
static inline uint32_t conn_pipe(const struct tcp_conn *c)
{
	uint32_t out =
	    seq_len(c->snd_una, c->snd_nxt) - c->sacked_bytes - c->lost_bytes;

	if (c->flags & CONN_SACK)
		return out;
	uint64_t left = (uint64_t)c->n_reno_sacks * c->mss;
	return left < out ? out - (uint32_t)left : 0;
}

static inline void conn_una_set(struct tcp_conn *c, seq32 to)
{
	if (to.v < c->snd_una.v)
		c->snd_wraps++;
	c->snd_una = to;
}

static inline void conn_rcv_advance(struct tcp_conn *c, uint32_t n)
{
	seq32 to = seq_add(c->rcv_nxt, n);

	if (to.v < c->rcv_nxt.v)
		c->rcv_wraps++;
	c->rcv_nxt = to;
}

/* The number of the next byte that the program reads. */
static inline seq32 conn_copied(const struct tcp_conn *c)
{
	return seq_sub(c->rcv_nxt,
		       c->rcvq_bytes + !!(c->flags & CONN_FIN_RCVD));
}

static inline bool conn_may_send(const struct tcp_conn *c)
{
	return c->state == TCP_ESTABLISHED || c->state == TCP_CLOSE_WAIT;
}

/* Since when the peer has not acknowledged what it should have; 0: it has. */
static inline void conn_late_since(struct tcp_conn *c, uint64_t ns)
{
	c->rtx_since_ns = ns;
	c->rec.is_late = ns != 0;
}

/* Whether bytes, or a FIN, have not been sent yet. */
static inline bool conn_has_unsent(const struct tcp_conn *c)
{
	return seq_lt(c->snd_nxt, c->snd_end) ||
	       (c->flags & (CONN_SHUT_WR | CONN_FIN_SENT)) == CONN_SHUT_WR;
}

/* state.c */
const char *tcp_state_name(enum tcp_state st);
bool tcp_state_may_follow(enum tcp_state from, enum tcp_state to);
void tcp_set_state(struct tcp_conn *c, enum tcp_state to);
void conn_check(const struct tcp_conn *c);

/* flow.c: the table of flows, and minis */
uint32_t flow_iss(struct tcp_stack *s, const struct flow *f);
uint32_t flow_cookie(struct tcp_stack *s, const struct flow *f, uint64_t which);
uint32_t path_hash(struct tcp_stack *s, const struct ip_addr *raddr);
uint32_t flow_share(struct tcp_stack *s, const struct flow *f, uint32_t n);
uint32_t flow_ts_off(struct tcp_stack *s, const struct flow *f);
struct flow *flow_find(struct tcp_stack *s, uint8_t laddr, uint16_t lport,
		       const struct ip_addr *raddr, uint16_t rport);
uint64_t flow_hash(const struct tcp_stack *s, uint8_t laddr, uint16_t lport,
		   const struct ip_addr *raddr, uint16_t rport);
struct flow *flow_find_hashed(struct tcp_stack *s, uint64_t hash, uint8_t laddr,
			      uint16_t lport, const struct ip_addr *raddr,
			      uint16_t rport);
void flow_fetch_bucket(struct tcp_stack *s, uint64_t hash);
struct flow *flow_likely(struct tcp_stack *s, uint64_t hash);
void flow_add(struct tcp_stack *s, struct flow *f);
void flow_del(struct tcp_stack *s, struct flow *f);
struct tcp_reqsk *reqsk_new(struct tcp_stack *s, const struct tcp_reqsk *is);
void reqsk_free(struct tcp_stack *s, struct tcp_reqsk *req);
void reqsk_rearm(struct tcp_stack *s, struct tcp_reqsk *req);
struct tcp_tw *tw_new(struct tcp_stack *s);
void tw_free(struct tcp_stack *s, struct tcp_tw *tw);
void tw_rearm(struct tcp_stack *s, struct tcp_tw *tw);
struct tcp_reqsk *reqsk_expired(struct tcp_stack *s);
struct tcp_tw *tw_expired(struct tcp_stack *s);
uint64_t expiry_next_ns(const struct tcp_stack *s);

/* open.c: passive opens, TIME-WAIT, and segments for nobody */
void open_rx(struct tcp_stack *s, struct arrival *a, seq32 iss_min,
	     bool has_min);
void reqsk_rx(struct tcp_stack *s, struct tcp_reqsk *req, struct arrival *a);
void tw_rx(struct tcp_stack *s, struct tcp_tw *tw, struct arrival *a);
bool reqsk_is_void(struct tcp_stack *s, const struct tcp_reqsk *req);
bool port_is_listened(struct tcp_stack *s, uint8_t laddr, uint16_t port);
bool reqsk_wants_synack(const struct tcp_stack *s, const struct tcp_reqsk *req);
void reqsk_send(struct tcp_stack *s, const struct tcp_reqsk *req);
void conn_enter_time_wait(struct tcp_conn *c);

/* cookie.c: opens without a mini */
uint32_t cookie_make(struct tcp_stack *s, struct tcp_reqsk *req);
bool cookie_read(struct tcp_stack *s, const struct tcp_seg *seg,
		 struct tcp_reqsk *req);
bool cookie_is_likely(const struct tcp_listener *l);

/* rx.c: what a segment does to a connection */
void conn_rx(struct tcp_conn *c, struct arrival *a);

/* rcvq.c: the receive queues */
bool rcvq_add(struct tcp_conn *c, const struct arrival *a);
uint32_t rcvq_blocks(const struct tcp_conn *c, struct tcp_sack *out);
void rcvq_free(struct tcp_conn *c);
void rcvq_end(struct tcp_conn *c);
void rcv_piece_free(struct tcp_conn *c, struct range *r);

/* runs.c: what came out of order, by its numbers and by its age */
void run_came(struct tcp_conn *c, struct range *r);
void run_insert(struct tcp_conn *c, struct range *r);
void run_gone(struct tcp_conn *c, struct range *r);
void run_remove(struct tcp_conn *c, struct range *r);
void run_replace(struct tcp_conn *c, struct range *run, struct range *r);
void runs_cut(struct tcp_conn *c, seq32 seq);
void runs_drop(struct tcp_conn *c);
struct range *run_find(const struct tcp_conn *c, seq32 at);
struct range *run_last(const struct tcp_conn *c);
const struct range *run_by_age(const struct tcp_conn *c, const struct range *r);

/* Return: how many blocks the next segment tells of; most of nothing. */
static inline uint32_t rcvq_sacks(const struct tcp_conn *c,
				  struct tcp_sack *out)
{
	return c->oooq || c->flags & CONN_DSACK ? rcvq_blocks(c, out) : 0;
}

/* rcvwin.c: how much the peer may send */
uint32_t rcv_mem_max(const struct tcp_conn *c);
void rcv_window_update(struct tcp_conn *c);
bool rcv_window_is_news(const struct tcp_conn *c);
bool rcv_window_is_used_up(const struct tcp_conn *c);
uint8_t rcv_scale(const struct tcp_stack *s, uint32_t set);
uint32_t rcv_first(const struct tcp_stack *s, uint32_t set, uint32_t mss);
void rcv_promise(struct tcp_conn *c);
void rcv_tune_init(struct tcp_conn *c);
void rcv_tune(struct tcp_conn *c);
void rcv_rtt_sample(struct tcp_conn *c, const struct tcp_seg *seg);

/* ack.c: what an ACK says about what was sent */
void ack_rx(struct tcp_conn *c, const struct tcp_seg *seg);
uint64_t timestamp_rtt(const struct tcp_conn *c, const struct tcp_seg *seg);
void rtt_sample(struct tcp_conn *c, uint64_t rtt_ns, uint64_t last_ns);

/* urg.c: the urgent pointer */
void urg_rx(struct tcp_conn *c, const struct arrival *a);
void urg_passed(struct tcp_conn *c);
bool urg_hides_next(const struct tcp_conn *c);
bool urg_is_ahead(const struct tcp_conn *c);
uint32_t urg_limit(struct tcp_conn *c, uint32_t len);
bool urg_pointer(const struct tcp_conn *c, seq32 seq, uint16_t *out);

/* icmp.c */
void icmp_rx(struct tcp_stack *s, const struct ip_packet *ip,
	     const uint8_t *l4);

/* pmtu.c: how much fits the path */
void pmtu_init(struct tcp_conn *c);
void pmtu_sync(struct tcp_conn *c);
void pmtu_too_big(struct tcp_conn *c, uint32_t mtu);
void pmtu_timeout(struct tcp_conn *c);
uint32_t pmtu_probe_size(struct tcp_conn *c, uint32_t bytes);
void pmtu_probe_sent(struct tcp_conn *c);
void pmtu_probe_arrived(struct tcp_conn *c);
void pmtu_probe_lost(struct tcp_conn *c);

/* sent.c: the ranges that were sent */
void sent_acked(struct tcp_conn *c, seq32 ack, struct ack_told *t);
void sent_sacked(struct tcp_conn *c, const struct tcp_seg *seg,
		 struct ack_told *t);
bool sent_may_split(const struct tcp_conn *c);
bool sent_split(struct tcp_conn *c, struct range *r, seq32 at);
void sent_split_there(struct tcp_conn *c, struct range *r, seq32 at,
		      struct range *piece);
bool range_is_probe(const struct tcp_conn *c, const struct range *r);
void range_again(struct tcp_conn *c, struct range *r);
void sndq_acked(struct tcp_conn *c, seq32 ack);
void sent_free(struct tcp_conn *c);

/* lost.c: which of them are lost */
void range_uncount(struct tcp_conn *c, const struct range *r, uint32_t bytes);
struct range *sent_first_lost(struct tcp_conn *c);
void sent_mark_lost(struct tcp_conn *c, struct range *r);
void sent_mark_all_lost(struct tcp_conn *c);
void sent_unmark_lost(struct tcp_conn *c);

/* rack.c: RACK-TLP */
void rack_detect(struct tcp_conn *c, int32_t work_max);
void rack_duplicate(struct tcp_conn *c);
void rack_recovered(struct tcp_conn *c);
bool tlp_may_probe(const struct tcp_conn *c);
uint64_t tlp_timeout_ns(const struct tcp_conn *c);
uint64_t tlp_least_ns(const struct tcp_conn *c);
void tlp_sent(struct tcp_conn *c, bool is_retx);
bool tlp_acked(struct tcp_conn *c, const struct tcp_seg *seg, bool is_dup,
	       bool has_dsack);

/* recovery.c: the window when something was lost */
void recovery_rx(struct tcp_conn *c, const struct tcp_seg *seg, uint32_t acked,
		 const struct ack_told *t);
void recovery_update(struct tcp_conn *c, uint32_t flight);
void recovery_timeout(struct tcp_conn *c);
void recovery_retx(struct tcp_conn *c, const struct range *r);

/* ecn.c */
uint8_t ecn_offer(const struct tcp_stack *s, const struct tcp_seg *seg);
uint8_t ecn_syn_flags(const struct tcp_conn *c);
void ecn_syn_rx(struct tcp_conn *c, const struct tcp_seg *seg);
void ecn_rx(struct tcp_conn *c, const struct arrival *a);
uint8_t ecn_tx(struct tcp_conn *c, const struct range *r, uint32_t bytes,
	       struct tcp_seg *seg);
void ecn_timeout(struct tcp_conn *c);

/* pace.c */
uint64_t pace_rate(const struct tcp_conn *c);
bool pace_may_send(struct tcp_conn *c);
uint32_t pace_frame(const struct tcp_conn *c, uint32_t n, uint32_t room);
void pace_sent(struct tcp_conn *c, uint32_t bytes);
void pace_timeout(struct tcp_conn *c);

/* tx.c */
void conn_set_pending(struct tcp_conn *c, unsigned what);
void conn_set_pending_data(struct tcp_conn *c);
uint32_t conn_sendable(const struct tcp_conn *c);
uint32_t conn_tsval(const struct tcp_conn *c);

/* frame.c */
struct range *sndq_next(const struct tcp_conn *c);
struct range *range_piece(const struct tcp_conn *c, const struct range *r);
uint32_t frame_gather(struct tcp_frame *f, struct range **at, seq32 seq,
		      uint32_t len);
uint32_t record_bytes(struct tcp_conn *c, const struct range *r, uint32_t all);
void frame_finish(const struct tcp_stack *s, struct tcp_frame *f, uint8_t laddr,
		  const struct ip_addr *raddr, const struct tcp_seg *seg,
		  uint8_t ecn);

/* reply.c */
void tx_reply(struct tcp_stack *s, const struct tcp_reply *r);
void tx_reset_for(struct tcp_stack *s, const struct arrival *a);
void tx_reset_conn(struct tcp_conn *c);

/* timer.c */
void conn_timer_sync(struct tcp_conn *c);
void conn_rtx_update(struct tcp_conn *c, bool restart);
void conn_rtx_sent(struct tcp_conn *c);
void conn_rtx_shorten(struct tcp_conn *c);
void rtx_arm_reo(struct tcp_conn *c, uint64_t at_ns);
void conn_life_update(struct tcp_conn *c);
uint64_t conn_rto_ns(const struct tcp_conn *c);

/* delack.c: ACKs that wait */
uint32_t delack_slots(uint32_t n_conns);
void delack_begin(struct tcp_conn *c);
void delack_strike(struct tcp_conn *c);
struct tcp_conn *delack_expired(struct tcp_stack *s);
uint64_t delack_next_ns(const struct tcp_stack *s);

static inline void delack_end(struct tcp_conn *c)
{
	if (c->delack_slot)
		delack_strike(c);
}

/* chrono.c: for TCP_INFO */
void chrono_change(struct tcp_conn *c, enum chrono what);
void chrono_acked(struct tcp_conn *c);

static inline void chrono_set(struct tcp_conn *c, enum chrono what)
{
	if (c->rec.chrono != what)
		chrono_change(c, what);
}

/* lend.c */
void grow_init(struct tcp_stack *s, struct pool_block **table);

/* ctl.c */
struct tcp_conn *conn_new(struct tcp_stack *s, const struct flow *f);
void conn_free(struct tcp_conn *c);
void conn_news(struct tcp_conn *c);
void conn_fail(struct tcp_conn *c, int err);
void conn_set_options(struct tcp_conn *c, uint32_t offers, uint16_t peer_mss,
		      uint8_t wscale);
void conn_established(struct tcp_conn *c, const struct tcp_seg *seg);

/* bytes.c */
uint32_t snd_space(const struct tcp_conn *c);
uint32_t snd_lowat_space(const struct tcp_conn *c, uint32_t room);
bool sndq_has_ranges(const struct tcp_stack *s);
void sndq_append(struct tcp_conn *c, struct range *r);
ssize_t send_refusal(struct tcp_conn *c);
int take_error(struct tcp_conn *c);
void rcvq_shift(struct tcp_conn *c, uint32_t n_bytes);

/* stack.c */
int stack_addr(const struct tcp_stack *s, const struct ip_addr *a);
uint32_t stack_mtu(const struct tcp_stack *s, const struct ip_addr *raddr);
uint16_t stack_mss(const struct tcp_stack *s, const struct ip_addr *raddr,
		   uint16_t maxseg);
