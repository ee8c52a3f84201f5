/* SPDX-License-Identifier: MIT */
/*
 * osfd/segment.h - segments that the kernel's socket cannot be made to send
 *
 * The sequence number is the one that the peer expects next, so it accepts the segment.
 * Spec: RFC 9293 sections 3.5.3 and 3.10.7.4, RFC 5961 section 3.2
 */
#pragma once

#include "osfd/freeze.h"

/* Ends a connection that could not be restored: closes the kernel's socket without a
 * segment, and sends the peer a reset.  The kernel's socket may be connected again or not,
 * depending on the step that failed. */
void reset_peer(int fd, const struct connection *c, const struct frozen *f);

/* Makes the peer of a dead program find out that nobody serves the connection.  The
 * program's engine may have sent more since the connection was frozen, so we do not know
 * the sequence number that the peer expects.  But @snd_nxt is an old one.  The peer answers
 * a segment with an old number by an ACK.  The kernel has no socket for that ACK, so it
 * answers with a reset that has the number of the ACK.  Spec: RFC 9293 sections 3.10.7.4
 * and 3.5.2 */
void wake_peer(const struct steer_key *key, uint32_t snd_nxt);

/* Sends the ACK that the engine still had to send.  A disconnect makes the
 * kernel forget that ACK.  The kernel's window probe does not replace it: the
 * probe has an old sequence number, and the peer drops a segment with an old
 * number before it looks at its ACK.  Without this ACK the peer would wait for
 * its retransmission timer, and with Nagle's algorithm it would send nothing
 * more. */
void ack_peer(const struct connection *c, const struct frozen *f);

/* Asks the peer for an ACK, by a byte of the stream that the peer has acknowledged long
 * ago, as an old keepalive does.  A probe without a byte is not enough: a peer answers at
 * most one of them in 500 ms, and may have answered another one just now.  It always
 * answers a segment with a byte. */
void ask_peer(const struct connection *c, const struct frozen *f,
	      uint32_t n_unacked);

/* Sends our kernel the segment with which the peer has ended the connection.
 * The engine has seen that segment and has not taken it.  Otherwise the peer
 * would repeat a FIN only after its retransmission timer, and would never
 * repeat a reset.  The segment has the peer's address, and the number that our
 * kernel expects next. */
void end_by_peer(const struct connection *c, const struct frozen *f,
		 uint32_t n_unacked);
/* Tells it the peer's window once more, by a segment that is the peer's: see thaw(). */
void window_by_peer(const struct connection *c, const struct frozen *f,
		    uint32_t n_unacked);
