/* SPDX-License-Identifier: MIT */
/*
 * tcp/conn.h - struct tcp_conn: what the engine knows of one connection
 *
 * The struct is seven cache lines that segments touch, and a cold part behind them.  The
 * fields lie in the order in which a segment needs them, so a connection that only
 * receives touches four lines.
 *
 * What the modules do to a connection is declared in their own headers: rcv.h, snd.h,
 * recovery.h, timer.h, pmtu.h, open.h, ctl.h.
 *
 * Owner: the stack, which belongs to one group.
 */
#pragma once

#include <stddef.h>

#include "base/list.h"
#include "base/wheel.h"
#include "ip/tcp_head.h"
#include "tcp/cc.h"
#include "tcp/flow.h"
#include "tcp/limits.h"
#include "tcp/range.h"
#include "tcp/recovery.h"
#include "tcp/state.h"

struct tcp_stack;
struct tcp_listener;

enum conn_flags {
	CONN_TS = 1 << 0, /* both ends agreed on timestamps */
	CONN_SACK = 1 << 1,
	CONN_WSCALE = 1 << 2,
	CONN_ORPHAN = 1 << 3,   /* the program has closed it */
	CONN_SHUT_WR = 1 << 4,  /* a FIN follows snd_end */
	CONN_FIN_SENT = 1 << 5, /* it was sent: snd_nxt includes the FIN */
	CONN_FIN_RCVD = 1 << 6, /* rcv_nxt includes the peer's FIN */
	CONN_NODELAY = 1 << 7,
	CONN_LINGER_0 = 1 << 8,
	CONN_CWND_LIMITED = 1 << 9, /* cwnd alone kept bytes from being sent */
	CONN_REORDERS = 1 << 10,    /* the path was seen to reorder */
	CONN_SYN_RETX = 1 << 11,    /* our SYN or SYN-ACK was sent again */
	CONN_IN_TABLE = 1 << 12,
	CONN_DSACK = 1 << 13,       /* the next ACK reports a duplicate */
	CONN_ECN = 1 << 14,         /* both ends agreed on RFC 3168 */
	CONN_ECT_OFF = 1 << 15,     /* the path drops packets with ECT */
	CONN_ECN_ECHO = 1 << 16,    /* our ACKs carry ECE */
	CONN_CWR_PENDING = 1 << 17, /* our next data carries CWR */
	CONN_PACED = 1 << 18,
	CONN_PACE_WAITS = 1 << 19, /* something waits for pace_at_ns */
	CONN_MTU_LOW = 1 << 20,    /* the path may carry more than the MSS */
	CONN_PROBE_LOST = 1 << 21, /* a probe of the path's MTU alone is lost */
	CONN_URG_IN = 1 << 22,     /* urg_state is not URG_NONE */
	CONN_URG_OUT = 1 << 23,    /* snd_up is ahead of snd_una */
	CONN_OOB_INLINE = 1 << 24,
	CONN_CORK = 1 << 25,
	CONN_MORE = 1 << 26,        /* as a cork, until the next send or ACK */
	CONN_PUSH_ALL = 1 << 27,    /* Nagle and cork spare what waits now */
	CONN_PINGPONG = 1 << 28,    /* answers are likely to carry our ACKs */
	CONN_RCV_BUF_SET = 1 << 29, /* the program chose the buffer's size */
	CONN_FIN_ALONE = 1 << 30,   /* a FIN without text came, at fin_at */
	CONN_SND_BUF_SET = 1u << 31,
};

/*
 * How many lines a segment touches, which is what a connection costs that is in no cache:
 *
 *     bytes arrive, we acknowledge them, the program reads    lines 1 to 4
 *     an ACK arrives; we send bytes                           lines 1 to 7
 */
struct tcp_conn {
	/* 1: what judges every segment that arrives. */
	alignas(CACHE_LINE) struct flow flow;
	seq32 rcv_nxt;
	seq32 rcv_adv; /* right edge of the window; never moves back */
	seq32 last_ack_sent;
	uint32_t rcvq_bytes; /* in order, not read yet */
	/* A word of its own: a load of flags and state together would stall behind a
	 * store to one of them. */
	uint32_t flags; /* enum conn_flags */
	uint32_t ts_recent;
	uint8_t state; /* enum tcp_state; tcp_set_state() alone writes it */
	uint8_t tx_pending; /* enum tx_pending */
	uint8_t snd_wscale : 4, rcv_wscale : 4;
	bool is_ts_us : 1;    /* our timestamps count microseconds */
	bool holds_end : 1;   /* tcp_hold_end() */
	bool was_pushed : 1;  /* the last bytes had PSH */
	uint8_t held_end : 2; /* enum tcp_end */
	uint32_t rcv_buf;     /* bytes; see rcvwin.c */
	uint32_t rcv_mem;     /* bytes of memory that received pieces use */

	/* 2: the sending side, which every segment acknowledges; deadlines. */
	alignas(CACHE_LINE) seq32 snd_una;
	seq32 snd_nxt; /* the highest number that was ever sent, plus 1 */
	seq32 snd_end; /* the last byte that the program gave, plus 1 */
	seq32 snd_wl1, snd_wl2;
	uint32_t snd_wnd, max_wnd; /* bytes */
	uint32_t lost_bytes;       /* of the ranges that were sent */
	uint32_t ts_off;
	uint32_t last_rx_ms;
	uint32_t delack_slot;    /* index in the ring, plus 1; 0: none */
	uint32_t wnd_clamp;      /* bytes; 0: none */
	uint64_t life_at_ns;     /* when timer.c looks next; or WHEEL_NEVER */
	uint32_t cwnd, ssthresh; /* bytes */

	/* 3: the receive queues, and small fields of both sides. */
	alignas(CACHE_LINE) struct queue rcvq; /* bytes in order */
	struct range *oooq; /* bytes out of order, by seq; see runs.c */
	struct tcp_stack *stack;
	struct tcp_listener *listener; /* until tcp_accept() */
	uint16_t mss; /* payload of a full segment without SACK blocks */
	uint8_t ca_state, rtx_kind;
	uint8_t n_rtx, n_probes;
	uint8_t n_quick; /* ACKs that we still send at once */
	uint8_t n_dupacks;
	int16_t err; /* negative errno */
	int16_t
	    soft_err; /* negative errno: the cause that a time-out reports */
	uint32_t rcv_rtt_us, rcv_space_us; /* a round trip; when it began */
	uint32_t last_data_rx_ms;

	/* 4: links in lists, and counters. */
	alignas(CACHE_LINE) struct list pending_link;
	struct list ready_link;          /* or in its listener's queue */
	uint32_t n_in, n_out, n_data_in; /* segments */
	uint16_t rcv_wraps;              /* how often rcv_nxt has passed 0 */
	uint16_t rcv_mss;       /* payload of the largest segment received */
	uint32_t ts_recent_s;   /* when ts_recent was last seen */
	uint32_t rcv_rtt_tsecr; /* see rcvwin.c */
	uint64_t last_tx_ns;    /* of a SYN, bytes or a FIN; 0: none */

	/* 5: what is in flight. */
	alignas(CACHE_LINE) struct timer timer;
	uint64_t rtx_at_ns; /* WHEEL_NEVER: not armed */
	struct queue
	    sent; /* ranges, by seq, without gaps: snd_una to snd_nxt */

	/* 6: what the program gave us to send; round trips. */
	alignas(CACHE_LINE) struct queue sndq; /* bytes, snd_una to snd_end */
	struct list flight; /* ranges, in the order in which they were sent */
	uint32_t srtt_8us;  /* eighths of a microsecond; 0: no sample yet */
	uint32_t rttvar_us, rto_us;
	uint32_t half_rtt_us; /* see min_rtt_sample() */
	uint64_t rto_at_ns;   /* of the RTO, while an earlier timer is armed */
	seq32 flight_seq;     /* see flight_seen() */
	uint32_t flight_max;  /* bytes */

	/* 7: what an ACK without loss only writes or compares. */
	alignas(CACHE_LINE) uint64_t rack_xmit_ns; /* RFC 8985's RACK.xmit_ts */
	const struct tcp_cc *cc;
	uint32_t rack_rtt_us;
	uint32_t min_rtt_us;
	seq32 rack_end, recover;
	uint32_t cwnd_used;    /* the most in flight since cwnd_used_ms */
	uint32_t cwnd_used_ms; /* when cwnd was last used up */
	uint32_t n_data_out;   /* segments */
	uint32_t sacked_bytes; /* of the ranges that were sent */
	seq32 snd_sml;         /* end of the last small segment (Minshall) */
	uint32_t chrono_start_ms, busy_ms; /* chrono.c */
	struct tcp_recovery rec; /* only its first bytes lie on this line */

	/* Cold. */
	/* Lost ranges.  again: those that were sent again and got lost again; lost: the
	 * others. */
	struct list lost, again;
	struct range
	    *lost_at; /* after a time-out: the first lost range or later */
	struct range *sack_hints[SACK_HINTS]; /* where blocks are looked for */
	seq32 lost_end; /* what the last time-out took for lost ends here */
	uint32_t era;   /* see sent.c */
	uint32_t again_out, again_lost; /* bytes sent again: in flight, lost */
	struct list ooo_link;           /* in the stack's list ooo */
	uint32_t ooo_root, ooo_newest;  /* see runs.c */
	uint64_t rtx_since_ns;          /* first time-out of the oldest range */
	uint64_t pace_at_ns;            /* when the next frame may go */
	uint32_t n_again;               /* segments that were sent again */
	uint32_t rwnd_ms, sndbuf_ms;    /* chrono.c */
	uint32_t n_reno_sacks;
	uint16_t snd_wraps; /* how often snd_una has passed 0 */
	uint16_t n_ooo;     /* runs out of order */
	seq32 iss, irs;
	seq32 fin_at;
	seq32 sack_high; /* the highest byte that was SACKed, plus 1 */
	uint32_t ooo_bytes;
	struct tcp_sack sacks_known[SACKS_KNOWN]; /* of the last ACK */
	struct tcp_sack dsack;
	struct list all_link;
	uint32_t challenge_ms; /* of the last challenge ACK; 0: none */
	uint32_t user_timeout_ms;
	uint16_t keep_idle_s, keep_interval_s;
	uint8_t keep_probes;
	uint8_t n_sacks_known : 2;
	uint8_t urg_state : 2; /* enum urg_state */
	bool is_era_lost : 1;  /* ranges of earlier eras are lost */
	bool is_rack_late : 1; /* RACK has more ranges to mark lost */
	uint16_t mss_max;      /* payload of a segment that both ends take */
	uint16_t path_mtu, mtu_high; /* see pmtu.c */
	uint16_t mtu_probe;          /* size of the probe in flight, or 0 */
	uint16_t maxseg;             /* of TCP_MAXSEG; 0: none */
	uint32_t mtu_probe_s;        /* no probe before this second */
	seq32 urg_seq; /* the urgent byte that the peer announced */
	seq32 snd_up;  /* the urgent byte that we announce, plus 1 */
	uint8_t urg_byte, syn_retries;
	uint16_t fin_timeout_s; /* of FIN-WAIT-2; 0: FIN_WAIT_2_NS */
	uint32_t rcv_lowat, notsent_lowat;
	uint32_t snd_buf;     /* valid with CONN_SND_BUF_SET */
	uint32_t rcv_space;   /* bytes read in a round trip; in SYN-SENT: our
			     * SYN's window, see rcv_promise() */
	seq32 rcv_copied;     /* the byte with which that round trip began */
	uint32_t n_dsacks;    /* segments that the peer received twice */
	uint64_t again_bytes; /* bytes that were sent again, in all */
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

/* Fetches the first lines of a connection, or of a half-open one, into the cache. */
static inline void conn_fetch(const void *conn, uint32_t n_lines)
{
	for (uint32_t i = 0; i < n_lines; i++)
		__builtin_prefetch((const uint8_t *)conn + i * CACHE_LINE, 1);
}
