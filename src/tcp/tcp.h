/* SPDX-License-Identifier: MIT */
/*
 * tcp/tcp.h - TCP as a pure engine: the contract
 *
 *     frames, now  -> tcp_rx()     -+
 *     now          -> tcp_timers() -+-> state of the connections
 *     calls, now   -> tcp_send() .. -+        |
 *                                             +-> tcp_tx(): frames to be sent
 *                                             +-> tcp_next_ready(): news
 *                                             +-> tcp_next_ns(): "call me again at"
 *
 * A stack is a function of its state, the frames and the time that it is given.  It
 * owns no descriptor, thread, lock or clock, allocates nothing after tcp_stack_init(),
 * and logs nothing: what it drops it counts.  Frames begin at the IP header; they may
 * be longer than the MTU, both ways (GRO, GSO).
 *
 * All calls on one stack come from one thread at a time.  Time does not go back; an
 * instant before an earlier one is taken as that one.
 *
 * Spec: RFC 9293, 5681, 5961, 6298, 6528, 6582, 7323, 2018, 8985, 9438
 */
#pragma once

#include <sys/types.h>

#include "base/drop.h"
#include "base/extent.h"
#include "base/siphash.h"
#include "ip/hop.h"
#include "ip/tcp_head.h"

struct tcp_stack;
struct tcp_conn;
struct tcp_listener;
struct tcp_cc;

extern const struct tcp_cc tcp_newreno, tcp_cubic;

#define TCP_ADDRS_MAX 8
#define TCP_LISTENERS_MAX 64 /* few: looked through one by one */
#define TCP_FRAME_PIECES 20
#define TCP_FRAME_HEAD (IPV6_HEAD + TCP_HEAD_MAX)

enum tcp_offers {
	TCP_OFFER_TS = 1,
	TCP_OFFER_SACK = 2,
	TCP_OFFER_WSCALE = 4,
	TCP_OFFER_ALL = 7,
	TCP_OFFER_ECN = 8, /* inside: see enum tcp_ecn */
};

enum tcp_ecn {
	TCP_ECN_ACCEPT, /* if the peer asks for it */
	TCP_ECN_ASK,
	TCP_ECN_OFF,
};

/* Whether a port is chosen whose connection to the same peer is in TIME-WAIT, when
 * both had timestamps and a second has passed (tcp_tw_reuse; RFC 6191). */
enum tcp_reuse {
	TCP_REUSE_LOCAL, /* within the host */
	TCP_REUSE_ALWAYS,
	TCP_REUSE_NEVER,
};

struct tcp_ports {
	uint16_t first, last; /* 0: no matter */
};

struct tcp_config {
	struct sip_key key; /* random, and nobody else's */
	struct ip_addr addrs[TCP_ADDRS_MAX];
	uint32_t n_addrs;
	uint32_t mtu; /* bytes from the IP header on */
	/* Routes; whoever fills them keeps them.  NULL: there is one, to everywhere. */
	const struct ip_hops *hops;
	uint32_t gso_max; /* payload of a frame; at most one MSS when smaller */
	uint32_t offers;  /* enum tcp_offers, on a SYN */
	uint32_t snd_buf, rcv_buf; /* bytes, of a connection */
	/* What these may grow to as the connection needs it; 0: they stay. */
	uint32_t snd_buf_max, rcv_buf_max;
	/* Bytes of frames that received segments may hold, of all connections; 0: only
	 * each has a limit.  See rcvwin.c. */
	uint64_t rcv_mem;
	const struct tcp_cc *cc;
	uint8_t ecn;   /* enum tcp_ecn */
	uint8_t reuse; /* enum tcp_reuse */
	struct tcp_ports
	    ports; /* to choose from; 0: 32768 to 60999, as Linux */
	/* A bit for each port that is not chosen, 8192 bytes; whoever fills them keeps
	 * them.  NULL: none. */
	const uint8_t *ports_kept;
	bool is_paced; /* as by tcp_set_pacing() */
	/* No reset ends TIME-WAIT (tcp_rfc1337); else one at the edge does, as in Linux. */
	bool is_time_wait_safe;
	bool
	    has_port_sums; /* frames leave with the pseudo-header's sum alone */

	/* Limits; each is memory that is taken once. */
	uint32_t n_conns;
	uint32_t
	    n_reqsks; /* connections in SYN_RCVD, and as many in TIME_WAIT */
	/* Connections that programs have closed and peers have not (tcp_max_orphans); 0: half
	 * of all connections, and some.  Who closes one more resets it. */
	uint32_t n_orphans;
	uint32_t n_ranges; /* pieces in queues; about one a segment in flight */
	uint32_t n_extents, extent_bytes; /* for what is sent */
	/* How many blocks the pools may be given besides: see tcp_grow(). */
	uint32_t n_blocks;
};

/* A frame to be sent: a header of its own, and pieces of extents, each of which the
 * frame holds a reference of. */
struct tcp_piece {
	struct extent *ext;
	const uint8_t *data;
	uint32_t len;
};

struct tcp_frame {
	uint8_t head[TCP_FRAME_HEAD];
	uint16_t head_len; /* IP and TCP */
	uint16_t ip_len;   /* where TCP begins */
	uint16_t
	    gso_size; /* not 0: to be cut into segments of this payload; the
			    * checksum is then the pseudo-header's alone */
	uint32_t len; /* payload */
	uint32_t n_pieces;
	struct tcp_piece pieces[TCP_FRAME_PIECES];
};

enum tcp_events {
	TCP_READABLE = 1,    /* bytes, the end of the stream, or an error */
	TCP_WRITABLE = 2,    /* room for bytes */
	TCP_PEER_CLOSED = 4, /* the peer's FIN is in */
	TCP_ERROR = 8,       /* tcp_error() says which */
	TCP_HUNG_UP = 16,    /* both directions are over */
	TCP_URGENT = 32,     /* tcp_recv_urgent() has a byte */
};

enum tcp_rx_flags {
	TCP_RX_SUM_GOOD = 1, /* the port vouches for the TCP checksum */
	TCP_RX_LENT = 2,     /* no reference is taken, so no text is kept */
};

/* --- the stack --- */

/* Bytes that tcp_stack_init() needs, aligned to 64. */
size_t tcp_stack_bytes(const struct tcp_config *cfg);

/* Makes a stack of @mem, which is the caller's and stays so. */
struct tcp_stack *tcp_stack_init(void *mem, const struct tcp_config *cfg,
				 uint64_t now_ns);

/* --- pools that grow ---
 *
 * The numbers of the configuration are what a stack begins with.  It asks for no memory,
 * but can be given blocks, and gives them back; whoever has a budget decides.
 */
#define TCP_BLOCK POOL_BLOCK /* bytes of a block, and its alignment */

enum tcp_pool {
	TCP_POOL_CONNS,
	TCP_POOL_REQSKS,
	TCP_POOL_TWS,
	TCP_POOL_RANGES,
	TCP_POOL_EXTENTS,
	TCP_POOLS
};

/* The pool that runs short, of which there may be several, or -1.  To be asked when a
 * turn is over; what was short before is treated as ever: dropped, or refused. */
int tcp_wants(struct tcp_stack *s);

/* Gives a block to a pool.  Owns: @block, until tcp_shrink() gives it back, or
 * tcp_stack_fini() was called.  Return: false when n_blocks are there already */
MUST_CHECK bool tcp_grow(struct tcp_stack *s, enum tcp_pool which, void *block);

/* Return: a block that is not used and will not be wanted at once, or NULL. */
void *tcp_shrink(struct tcp_stack *s);

/* The references to the extents of others are given back; all connections are gone
 * without a word to their peers. */
void tcp_stack_fini(struct tcp_stack *s);

/**
 * tcp_rx() - a frame has come in
 * @e: holds the frame; the caller's reference stays the caller's
 * @off, @len: where in @e the IP header begins, and the frame's bytes
 *
 * Programs that read slowly can hold all the memory that a port has for frames.  Its
 * last one is given with TCP_RX_LENT, and is free again on return: opening, closing
 * and ACKs go on, and text comes again.
 */
void tcp_rx(struct tcp_stack *s, struct extent *e, uint32_t off, uint32_t len,
	    unsigned flags, uint64_t now_ns);

/* A frame that has come in, as the arguments of tcp_rx(). */
struct tcp_rx_frame {
	struct extent *ext;
	uint32_t off, len;
	unsigned flags; /* enum tcp_rx_flags */
};

/**
 * tcp_rx_batch() - several frames have come in
 *
 * As tcp_rx() of each, in their order; but while one is worked on, what the next ones
 * will touch is on its way to the cache, which with many connections is most of what a
 * frame costs.
 */
void tcp_rx_batch(struct tcp_stack *s, const struct tcp_rx_frame *f, uint32_t n,
		  uint64_t now_ns);

/* The port has no memory for another frame: all that was received out of order is
 * given up, or it might hold the memory that what fills its holes needs. */
void tcp_reclaim(struct tcp_stack *s);

/* Does what is due by @now_ns. */
void tcp_timers(struct tcp_stack *s, uint64_t now_ns);

/**
 * tcp_tx() - the next frame that is to be sent
 *
 * To be called after any other call, until it says false or the port is full.
 *
 * Owns: *@out, until tcp_frame_done()
 * Return: whether there was one
 */
bool tcp_tx(struct tcp_stack *s, struct tcp_frame *out, uint64_t now_ns);

/* Gives the frame's references back: the port has read its bytes. */
void tcp_frame_done(struct tcp_frame *f);

/* When tcp_timers() is to be called at the latest; UINT64_MAX: no need. */
uint64_t tcp_next_ns(const struct tcp_stack *s);

/* The next connection with news, or NULL.  Look with tcp_poll().  tcp_tx() makes news, too,
 * where there is a mark of tcp_set_notsent_lowat(): to be asked after it. */
struct tcp_conn *tcp_next_ready(struct tcp_stack *s);

uint64_t tcp_dropped(const struct tcp_stack *s, enum drop_reason why);

/* Pieces of queues, ranges that were sent, and the like: the most of them that a frame, a
 * timer, or another call has touched, besides those that it gave back, since this was asked
 * last.  More than TCP_WORK_MAX are never touched; what would be too much is done later. */
#define TCP_WORK_MAX 64
uint32_t tcp_most_work(struct tcp_stack *s);

/* Connections that programs have closed and that are not over, and how many were reset
 * because there were too many. */
struct tcp_orphans {
	uint32_t n;
	uint64_t n_reset;
};
struct tcp_orphans tcp_orphans(const struct tcp_stack *s);

/* --- connections --- */

/**
 * tcp_listen() - take connections to a port
 * @addr: NULL for all addresses of the stack
 * @backlog: how many may wait for tcp_accept(), 1 at least
 *
 * Return: 0, or
 *   -EADDRINUSE     another listener has the port
 *   -EADDRNOTAVAIL  no address of the stack
 *   -ENFILE         too many listeners
 */
MUST_CHECK int tcp_listen(struct tcp_stack *s, const struct ip_addr *addr,
			  uint16_t port, uint32_t backlog,
			  struct tcp_listener **out);

/* tcp_listen(); others that were made by this call may listen to the same address and
 * port, and each gets a share of the connections by a hash of the peer (SO_REUSEPORT). */
MUST_CHECK int tcp_listen_shared(struct tcp_stack *s,
				 const struct ip_addr *addr, uint16_t port,
				 uint32_t backlog, struct tcp_listener **out);

/* Connections that nobody has accepted are reset. */
void tcp_unlisten(struct tcp_listener *l, uint64_t now_ns);

/* Return: the oldest connection that waits, or NULL. */
struct tcp_conn *tcp_accept(struct tcp_listener *l);

/**
 * tcp_connect() - open a connection
 * @lport: 0 chooses one of the configuration's (RFC 6056)
 *
 * A connection of that name that is in TIME-WAIT is no obstacle if it had timestamps
 * (RFC 6191).
 *
 * Return: 0, or
 *   -EADDRNOTAVAIL  @laddr is no address of the stack, or no port is free
 *   -EADDRINUSE     such a connection is there
 *   -EAFNOSUPPORT   the addresses are of two families
 *   -ENETUNREACH    @raddr is no host's address, or there is no route to it
 *   -ENOBUFS        no memory for a connection
 */
MUST_CHECK int tcp_connect(struct tcp_stack *s, const struct ip_addr *laddr,
			   uint16_t lport, const struct ip_addr *raddr,
			   uint16_t rport, uint64_t now_ns,
			   struct tcp_conn **out);

/* tcp_connect(), the port one of @within if it is chosen (IP_LOCAL_PORT_RANGE): an end
 * that lies outside of what is configured does not count.
 * Return: as tcp_connect(), or -EINVAL: @within ends before it begins */
MUST_CHECK int tcp_connect_within(struct tcp_stack *s,
				  const struct ip_addr *laddr, uint16_t lport,
				  struct tcp_ports within,
				  const struct ip_addr *raddr, uint16_t rport,
				  uint64_t now_ns, struct tcp_conn **out);

/**
 * tcp_send() - offer bytes; what is taken is copied
 *
 * Return: bytes taken, 1 to @len, or
 *   -EAGAIN    not connected yet, the send buffer is full, or no memory
 *   -EPIPE     the sending direction was closed, or the connection is over
 *   another    the connection's error, once
 */
ssize_t tcp_send(struct tcp_conn *c, const void *buf, size_t len,
		 uint64_t now_ns);

/* @c will be sent on soon: it is fetched into the cache meanwhile, and what it refers to
 * when the calls for the next connections have come.  For programs that go through many:
 * each is named some eight connections before its turn, and may be closed by then. */
void tcp_send_soon(struct tcp_stack *s, const struct tcp_conn *c);

/* A program's bytes that are sent where they lie; the struct is the program's, too. */
struct tcp_lent {
	struct extent ext;
	struct list link;
	struct tcp_stack *stack;
	void *user; /* free for the program's use */
};

#define TCP_LENT_MAX (1u << 30)

/**
 * tcp_send_lent() - offer bytes that stay where they are
 * @data: as it is until @z comes back; @len: 1 to TCP_LENT_MAX
 *
 * All or nothing.  @z comes back by tcp_next_returned() once, when the bytes were
 * acknowledged or the connection is over, and no frame refers to them.
 *
 * Return: 0, or what tcp_send() says
 */
MUST_CHECK int tcp_send_lent(struct tcp_conn *c, struct tcp_lent *z,
			     const void *data, uint32_t len, uint64_t now_ns);

/* What was lent and is not needed any more, or NULL; after tcp_stack_fini(), too. */
struct tcp_lent *tcp_next_returned(struct tcp_stack *s);

enum tcp_send_how {
	TCP_SEND_URGENT = 1, /* the last byte is urgent (MSG_OOB) */
	TCP_SEND_MORE = 2,   /* a small segment waits for more (MSG_MORE) */
	/* If all bytes are taken: those of later calls are sent in segments of their own
	 * (MSG_EOR). */
	TCP_SEND_EOR = 4,
};

/* tcp_send(), with enum tcp_send_how. */
ssize_t tcp_send_as(struct tcp_conn *c, const void *buf, size_t len,
		    unsigned how, uint64_t now_ns);

/**
 * tcp_peek() - the next bytes that were received, where they lie
 *
 * They stay until tcp_consume().
 *
 * Return: bytes at *@data, 0 at the end of the stream, or
 *   -EAGAIN    nothing is there
 *   another    the connection's error, once
 */
ssize_t tcp_peek(struct tcp_conn *c, const uint8_t **data);

/**
 * tcp_peek_at() - bytes that were received, without passing over any (MSG_PEEK)
 * @off: behind so many that can be read
 *
 * What one read gives lies in several pieces, perhaps: from 0 on, each call begins
 * where the one before has ended.  As reading does, it stops at an urgent byte.
 *
 * Return: bytes at *@data; 0: there are no more; for @off 0, what tcp_peek() says
 */
ssize_t tcp_peek_at(struct tcp_conn *c, uint32_t off, const uint8_t **data);

/* The first @n bytes of what tcp_peek() gave are done with. */
void tcp_consume(struct tcp_conn *c, uint32_t n, uint64_t now_ns);

/**
 * tcp_recv_urgent() - the byte out of band (MSG_OOB)
 *
 * Return: 1; 0 at the end of the stream, or
 *   -EAGAIN  it was announced, and has not come
 *   -EINVAL  none was announced, it was read, or it is in line
 * Spec: RFC 6093, as Linux does it
 */
ssize_t tcp_recv_urgent(struct tcp_conn *c, uint8_t *byte, bool is_peek);

/* Whether all before the urgent byte was read (SIOCATMARK). */
bool tcp_is_at_mark(const struct tcp_conn *c);

/* SIOCINQ, SIOCOUTQ and SIOCOUTQNSD. */
uint32_t tcp_readable_bytes(const struct tcp_conn *c);
uint32_t tcp_unacked_bytes(const struct tcp_conn *c);
uint32_t tcp_unsent_bytes(const struct tcp_conn *c);

/* No more bytes will be sent: a FIN follows the last of them.
 * Return: 0, or -ENOTCONN */
int tcp_shutdown(struct tcp_conn *c, uint64_t now_ns);

/* Gives the connection back.  What was sent is delivered, then a FIN; bytes that
 * were not read, a linger of 0, and too many that wait like this, make it a reset.  @c is
 * gone. */
void tcp_close(struct tcp_conn *c, uint64_t now_ns);

/* Resets the peer, and gives the connection back.  @c is gone. */
void tcp_abort(struct tcp_conn *c, uint64_t now_ns);

/* enum tcp_events, as they are. */
unsigned tcp_poll(const struct tcp_conn *c);

/* The error, 0 or a negative errno; asked for once, it is gone. */
int tcp_error(struct tcp_conn *c);

void tcp_set_user(struct tcp_conn *c, void *user);
void *tcp_user(const struct tcp_conn *c);

/* Options; they may be set in every state. */
void tcp_set_nodelay(struct tcp_conn *c, bool is_on, uint64_t now_ns);
/* Spreads what is sent over the round trip, instead of sending it at once. */
void tcp_set_pacing(struct tcp_conn *c, bool is_on, uint64_t now_ns);
/* While on, only full segments are sent; what is less goes after a time-out. */
void tcp_set_cork(struct tcp_conn *c, bool is_on, uint64_t now_ns);
/* On: the next ACKs go at once.  Off: they wait for answers to travel with. */
void tcp_set_quickack(struct tcp_conn *c, bool is_on, uint64_t now_ns);
/* On: the urgent byte is read in its place. */
void tcp_set_oob_inline(struct tcp_conn *c, bool is_on);
/* TCP_SYNCNT; 127 at most */
void tcp_set_syn_retries(struct tcp_conn *c, uint8_t n);
/* TCP_MAXSEG: bytes of a segment without options, both ways; 0: the link's.  To be set
 * before the SYN leaves, or what the peer sends is not bounded; once both SYNs were
 * exchanged it changes nothing. */
void tcp_set_maxseg(struct tcp_conn *c, uint16_t bytes);
void tcp_set_listen_maxseg(struct tcp_listener *l, uint16_t bytes);
/* How long FIN-WAIT-2 lasts when nobody has the connection (TCP_LINGER2); 0: 60 s */
void tcp_set_fin_timeout(struct tcp_conn *c, uint16_t s);
/* No more than that waits besides what can be sent at once, and writable only when less than
 * half of it does; 0: no matter. */
void tcp_set_notsent_lowat(struct tcp_conn *c, uint32_t bytes);
/* Readable only when as many bytes are there, or the window is used up; half the buffer
 * at most. */
void tcp_set_rcv_lowat(struct tcp_conn *c, uint32_t bytes);
/* Connections are accepted when bytes have come, or after @s, which is 31 s at most;
 * 0: at once. */
void tcp_set_defer_accept(struct tcp_listener *l, uint32_t s);
/* SO_RCVBUF: bytes, 1024 at least and 1 GB at most, and no tuning any more; what was
 * promised stays promised.  What the scale can hardly express is not offered less.  Set
 * before the SYN leaves, and of a listener for those who come then, it decides the scale
 * and the first window, too; a buffer that becomes larger later has the scale that it has. */
void tcp_set_rcv_buf(struct tcp_conn *c, uint32_t bytes);
void tcp_set_listen_rcv_buf(struct tcp_listener *l, uint32_t bytes);
/* SO_SNDBUF: bytes, 2048 at least and 1 GB at most, and no tuning any more. */
void tcp_set_snd_buf(struct tcp_conn *c, uint32_t bytes);
/* No window is larger from here on (TCP_WINDOW_CLAMP); 1024 at least, 0: no matter. */
void tcp_set_window_clamp(struct tcp_conn *c, uint32_t bytes);
void tcp_set_linger(struct tcp_conn *c, bool resets); /* SO_LINGER {1, 0} */
void tcp_set_user_timeout(struct tcp_conn *c, uint32_t ms); /* 0: none */
/* @idle_s 0: off.  Every second at most, and once at least. */
void tcp_set_keepalive(struct tcp_conn *c, uint32_t idle_s, uint32_t interval_s,
		       uint32_t n_probes, uint64_t now_ns);
