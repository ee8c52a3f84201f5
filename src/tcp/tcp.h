/* SPDX-License-Identifier: MIT */
/*
 * tcp/tcp.h - TCP as a pure engine: the stack
 *
 *     frames, now  -> tcp_rx()     -+
 *     now          -> tcp_timers() -+-> state of the connections
 *     calls, now   -> tcp_send() .. -+        |
 *                                             +-> tcp_tx(): frames to be sent
 *                                             +-> tcp_next_ready(): news
 *                                             +-> tcp_next_ns(): "call me again at"
 *
 * config.h tells what a stack is given, calls.h what a program does with connections,
 * opt.h which options they have.
 *
 * A stack is a function of its state and of the frames, the calls and the time that the
 * caller gives it.  It owns no descriptor, thread, lock or clock.  It allocates nothing
 * after tcp_stack_init(), and logs nothing: it counts what it drops.  A frame begins at
 * the IP header.  It may be longer than the MTU in both directions (GRO, GSO).
 *
 * One thread at a time may call a stack.  Time never goes back: the stack takes an
 * instant before its own time for its own time.
 *
 * Spec: RFC 9293, 5681, 5961, 6298, 6528, 6582, 7323, 2018, 8985, 9438
 */
#pragma once

#include "base/drop.h"
#include "base/extent.h"
#include "ip/frame.h"
#include "tcp/config.h"

struct tcp_stack;
struct tcp_conn;

/* --- life --- */

/* Return: the bytes that tcp_stack_init() needs, aligned to 64. */
size_t tcp_stack_bytes(const struct tcp_config *cfg);

/* Makes a stack in @mem.  The caller owns @mem, and may free it after tcp_stack_fini(). */
struct tcp_stack *tcp_stack_init(void *mem, const struct tcp_config *cfg,
				 uint64_t now_ns);

/* Ends all connections, without a segment to their peers, and releases the extents of
 * others. */
void tcp_stack_fini(struct tcp_stack *s);

/* Gives the stack one more address.  Return: 0, or -ENOSPC: it has TCP_ADDRS_MAX */
MUST_CHECK int tcp_add_addr(struct tcp_stack *s, const struct ip_addr *a);

/* --- frames that arrive --- */

/**
 * tcp_rx() - a frame has arrived
 * @e: contains the frame; the caller keeps its own reference
 * @off, @len: where in @e the IP header begins, and how long the frame is
 * @flags: enum tcp_rx_flags
 *
 * Programs that read slowly can hold all the memory that a port has for frames.  The
 * port should then pass its last frame with TCP_RX_LENT, and may reuse it on return.
 * This way connections still open, close and receive ACKs; the peer sends the payload
 * again later.
 */
void tcp_rx(struct tcp_stack *s, struct extent *e, uint32_t off, uint32_t len,
	    unsigned flags, uint64_t now_ns);

/**
 * tcp_rx_batch() - several frames have arrived
 *
 * Does what tcp_rx() does for each of them, in order.  While it works on one frame it
 * fetches into the cache what the next ones will touch.  With many connections these
 * cache misses are most of what a frame costs.
 */
void tcp_rx_batch(struct tcp_stack *s, const struct tcp_rx_frame *f, uint32_t n,
		  uint64_t now_ns);

/* Drops all bytes that were received out of order.  The port calls it when it has no
 * memory for another frame: these bytes may hold the memory that the missing segments
 * need. */
void tcp_reclaim(struct tcp_stack *s);

/* --- time --- */

/* Runs the timers that expire by @now_ns. */
void tcp_timers(struct tcp_stack *s, uint64_t now_ns);

/* Return: when to call tcp_timers() at the latest; UINT64_MAX: no need. */
uint64_t tcp_next_ns(const struct tcp_stack *s);

/* Return: when the first of the delayed ACKs is due; UINT64_MAX: there is none. */
uint64_t tcp_ack_due_ns(const struct tcp_stack *s);

/* --- frames to be sent --- */

/**
 * tcp_tx() - the next frame to send
 *
 * Call it after every other call, until it returns false or the port is full.
 *
 * Owns: *@out, until tcp_frame_done()
 * Return: whether there was one
 */
bool tcp_tx(struct tcp_stack *s, struct tcp_frame *out, uint64_t now_ns);

/* --- news and counters --- */

/* Return: the next connection with news for its program, or NULL.  tcp_poll() tells what
 * the news is.  Ask after tcp_tx(), too, because tcp_tx() makes a connection writable that
 * has tcp_set_notsent_lowat(). */
struct tcp_conn *tcp_next_ready(struct tcp_stack *s);

uint64_t tcp_dropped(const struct tcp_stack *s, enum drop_reason why);

/* The work of a call is the number of ranges, runs and half-open connections that it
 * touches, minus those that it frees.  No frame, timer or call does more than
 * TCP_WORK_MAX: it leaves the rest for later.
 * Return: the most work of one call since the last tcp_most_work() */
#define TCP_WORK_MAX 64
uint32_t tcp_most_work(struct tcp_stack *s);

struct tcp_orphans {
	uint32_t n;       /* closed by the program, and not over yet */
	uint64_t n_reset; /* that the limit has reset */
};
struct tcp_orphans tcp_orphans(const struct tcp_stack *s);

/* --- pools that grow ---
 *
 * A stack begins with the numbers of its configuration.  It never asks for memory, but
 * its owner, who knows the budget, may give it blocks and take them back.
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

/* Return: a pool (enum tcp_pool) that runs short, or -1.  Ask after all other calls.  A
 * pool that runs out makes the stack drop or refuse, as without blocks. */
int tcp_wants(struct tcp_stack *s);

/* Gives a block to a pool.  Owns: @block, until tcp_shrink() returns it or
 * tcp_stack_fini() was called.  Return: false if the stack has n_blocks already */
MUST_CHECK bool tcp_grow(struct tcp_stack *s, enum tcp_pool which, void *block);

/* Return: a block that is unused and not needed soon, or NULL. */
void *tcp_shrink(struct tcp_stack *s);
