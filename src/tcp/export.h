/* SPDX-License-Identifier: MIT */
/*
 * tcp/export.h - takes an established connection out of a stack, or puts one into it
 *
 *     tcp_export() -> struct tcp_image, and the bytes of both queues -> tcp_forget()
 *     struct tcp_image, and the bytes of both queues -> tcp_import()
 *
 * A connection can leave its stack and go on elsewhere: in another stack, or in the
 * kernel.  struct tcp_image has what the other one has to know.  The fields are what
 * Linux gives and takes by TCP_REPAIR, and what its TCP_INFO tells.  The peer notices
 * nothing.  Until the import, the caller keeps the peer's segments from both stacks, so
 * that neither answers them.
 *
 * What does not move:
 *
 *   - bytes that were received out of order, and what the peer has SACKed.  Both ends
 *     keep such bytes until they are acknowledged (RFC 2018 section 8), so the peer
 *     sends the former again, and its next ACK repeats the latter
 *   - ts_recent, which the kernel does not tell: until the first segment arrives, we
 *     echo 0 and take no timestamp for old
 *   - the boundaries of MSG_MORE and MSG_EOR, ICMP errors, what the congestion control
 *     has learned besides its window, and an urgent mark (tcp_export() refuses)
 *
 * The bytes that were sent and not acknowledged count as sent, as in Linux: the peer's
 * ACKs for them may still arrive, and the retransmission timer sends them again.
 *
 * The files are export.c and import.c.
 *
 * Owner: the caller owns the image, which has no pointers.
 */
#pragma once

#include "base/extent.h"
#include "base/seq.h"
#include "ip/ip.h"

struct tcp_conn;
struct tcp_stack;

/* The source of each field in Linux is behind the colon.  0 is a legal value of all fields
 * from "the path" on, and means "unknown" or "none". */
struct tcp_image {
	struct ip_addr laddr, raddr;
	uint16_t lport, rport; /* host order */

	/* --- numbers --- */
	/* The first byte that the peer has not acknowledged: TCP_QUEUE_SEQ of
	 * TCP_SEND_QUEUE, less SIOCOUTQ. */
	seq32 snd_una;
	/* The first byte that is lost and was not sent again: SIOCOUTQ does not tell, so
	 * snd_una if something is lost, or else snd_nxt. */
	seq32 snd_lost;
	/* The first byte that was never sent: the same, less SIOCOUTQNSD. */
	seq32 snd_nxt;
	/* Behind the last byte that the program gave: TCP_QUEUE_SEQ of TCP_SEND_QUEUE.
	 * A FIN does not count. */
	seq32 snd_end;
	/* Behind the last byte that arrived in order: TCP_QUEUE_SEQ of TCP_RECV_QUEUE.
	 * A FIN does not count. */
	seq32 rcv_nxt;
	uint32_t n_unread;     /* bytes before rcv_nxt: SIOCINQ */
	bool is_shut : 1;      /* the program has shut its direction */
	bool is_peer_shut : 1; /* the peer's FIN has arrived, at rcv_nxt */

	/* --- windows, bytes: TCP_REPAIR_WINDOW --- */
	seq32 snd_wl1;    /* the segment that brought snd_wnd */
	uint32_t snd_wnd; /* the peer's window, from snd_una on */
	uint32_t max_wnd; /* the largest that the peer has offered */
	uint32_t rcv_wnd; /* our window, from rcv_wup on */
	seq32 rcv_wup;    /* what our last segment has acknowledged */

	/* --- what both SYNs have agreed on: TCP_REPAIR_OPTIONS --- */
	uint16_t mss_clamp; /* bytes of a segment with its options */
	uint8_t snd_wscale; /* of the peer's windows */
	uint8_t rcv_wscale; /* of ours */
	bool has_wscale : 1, has_sack : 1, has_ts : 1;
	bool has_ecn : 1;     /* tcpi_options; TCP_REPAIR cannot set it */
	bool is_ecn_echo : 1; /* our ACKs have to carry ECE; not readable */

	/* --- TCP_TIMESTAMP: see tcp_image_set_timestamp() --- */
	bool is_ts_us : 1; /* microseconds instead of milliseconds */
	uint32_t tsval;    /* the next timestamp: none before was larger */

	/* --- the path: TCP_INFO --- */
	uint32_t cwnd;     /* bytes: tcpi_snd_cwnd * tcpi_snd_mss */
	uint32_t ssthresh; /* bytes; 0: none yet */
	bool is_lossy : 1; /* tcpi_ca_state is Recovery or Loss */
	uint32_t rtt_us, rttvar_us, min_rtt_us;
	uint32_t rto_us; /* tcpi_rto, without its doublings */
	uint32_t rcv_rtt_us;
	uint16_t rcv_mss;  /* bytes of the peer's segments */
	uint16_t path_mtu; /* bytes, from the IP header on */

	/* --- time --- */
	uint8_t n_backoffs; /* doublings of the RTO: tcpi_backoff */
	uint8_t n_probes;   /* that nobody has answered: tcpi_probes */
	/* Until the RTO, or the next probe of a closed window; not readable. */
	uint32_t rtx_left_us;
	/* For how long the peer has not answered a retransmission; not readable. */
	uint64_t late_us;
	uint32_t tx_ms_ago;      /* tcpi_last_data_sent */
	uint32_t rx_ms_ago;      /* tcpi_last_ack_recv, or a later segment */
	uint32_t data_rx_ms_ago; /* tcpi_last_data_recv */
	uint32_t keep_left_ms;   /* until keepalive acts; not readable */

	/* --- what the program has set: getsockopt() --- */
	bool has_nodelay : 1, has_cork : 1, is_oob_inline : 1;
	bool resets_on_close : 1; /* SO_LINGER of 0 */
	bool is_paced : 1;
	bool is_rcv_buf_set : 1, is_snd_buf_set : 1;
	uint32_t rcv_buf; /* bytes; 0: the stack's */
	uint32_t snd_buf; /* bytes, with is_snd_buf_set */
	uint32_t wnd_clamp, rcv_lowat, notsent_lowat; /* bytes */
	uint32_t user_timeout_ms;
	uint16_t keep_idle_s; /* 0: no keepalive */
	uint16_t keep_interval_s;
	uint8_t keep_probes;
	uint16_t maxseg;        /* TCP_MAXSEG */
	uint16_t fin_timeout_s; /* TCP_LINGER2 */

	/* --- what TCP_INFO counts --- */
	uint64_t bytes_acked, bytes_received, again_bytes;
	uint32_t n_in, n_out, n_data_in, n_data_out, n_again; /* segments */
};

/**
 * tcp_export() - what somebody else needs to go on with a connection
 *
 * The connection does not change, and its stack goes on with it until tcp_forget().
 *
 * Return: 0, or
 *   -EINVAL  the connection is not established, the peer has acknowledged our FIN, or the
 *            program has not accepted the connection
 *   -EBUSY   an urgent byte is under way, or was not read past; or tcp_image_is_young()
 */
MUST_CHECK int tcp_export(const struct tcp_conn *c, struct tcp_image *out,
			  uint64_t now_ns);

/* Of struct tcp_image, what each segment changes. */
struct tcp_numbers {
	seq32 snd_una, snd_nxt, snd_end, rcv_nxt;
	uint32_t n_unread;
	seq32 snd_wl1;
	uint32_t snd_wnd, max_wnd;
	seq32 rcv_wup;
	uint32_t rcv_wnd;
	uint32_t tsval; /* no segment before has a larger one */
};

/* The same numbers as tcp_export(), of an established connection.  Cheap. */
void tcp_export_numbers(const struct tcp_conn *c, struct tcp_numbers *out);

/* Copies the bytes from snd_una to snd_end, @cap at most.  Return: how many */
uint32_t tcp_export_queued(const struct tcp_conn *c, void *buf, uint32_t cap);

/* Copies the bytes that the program has not read, @cap at most.  Return: how many */
uint32_t tcp_export_unread(const struct tcp_conn *c, void *buf, uint32_t cap);

/* Whether nothing is under way and both queues of sent bytes are empty: all was
 * acknowledged, by both ends.  tcp_set_quickack() makes an ACK leave that waits. */
bool tcp_is_quiet(const struct tcp_conn *c);

/* What of the peer's may end a connection here, the weakest first. */
enum tcp_end {
	TCP_END_NONE,
	TCP_END_STRANGE, /* a segment that ip_parse() leaves to the kernel */
	TCP_END_FIN,
	TCP_END_RESET,
};

/**
 * tcp_hold_end() - keep the peer's FIN or reset for whoever takes the connection over
 *
 * On: while the connection is ESTABLISHED, a FIN that is next, or a reset, changes nothing,
 * and the engine does not acknowledge it.  The connection becomes ready, and tcp_held_end()
 * returns what was held.  It also becomes ready when the peer sends a segment that ip_parse()
 * leaves to the kernel, and the engine goes on; the peer sends that segment again.  Off: the
 * engine handles what it held.  The caller has to turn it off if tcp_export() refuses: the
 * urgent byte for which it refuses may wait for an ACK, and a peer that has reset the
 * connection sends none.  A connection holds nothing before this call.
 */
void tcp_hold_end(struct tcp_conn *c, bool is_on, uint64_t now_ns);
enum tcp_end tcp_held_end(const struct tcp_conn *c);

/* Ends the connection without a word to the peer.  @c is invalid on return. */
void tcp_forget(struct tcp_conn *c, uint64_t now_ns);

/**
 * tcp_import() - go on with a connection
 * @queued: the bytes from snd_una to snd_end; NULL: there are none
 * @unread: the bytes before rcv_nxt; NULL: there are none
 *
 * The image may have any values.  The stack takes references to the extents, whose bytes
 * must not change until both are put; extent_lend() makes one of any memory.
 *
 * Return: 0, or
 *   -EINVAL         the image contradicts itself, or an extent is too small
 *   -EADDRNOTAVAIL  laddr is no address of the stack
 *   -EADDRINUSE     the stack has such a connection
 *   -EBUSY          tcp_image_is_young()
 *   -ENOBUFS        no memory for a connection
 */
MUST_CHECK int tcp_import(struct tcp_stack *s, const struct tcp_image *x,
			  struct extent *queued, struct extent *unread,
			  uint64_t now_ns, struct tcp_conn **out);

/* Whether the peer may not know yet that the connection is open, because it has lost our
 * ACK.  The peer may have answered by a SYN cookie, of which a part is in its timestamp.
 * We could not echo this timestamp, and so the peer would misread our windows. */
static inline bool tcp_image_is_young(const struct tcp_image *x)
{
	return x->has_ts && !x->bytes_acked && !x->bytes_received;
}

/* Sets tsval from what getsockopt(TCP_TIMESTAMP) has returned.  Linux replaces the lowest
 * bit: 1 for microseconds, 0 for milliseconds (or a kernel without microseconds).  So
 * the true value may be larger by one. */
static inline void tcp_image_set_timestamp(struct tcp_image *x, uint32_t value)
{
	x->is_ts_us = value & 1;
	x->tsval = value | 1;
}

/* Return: what setsockopt(TCP_TIMESTAMP) has to be given, so that no timestamp steps
 * back. */
static inline uint32_t tcp_image_timestamp(const struct tcp_image *x)
{
	return x->is_ts_us ? x->tsval | 1 : (x->tsval + 1) & ~(uint32_t)1;
}
