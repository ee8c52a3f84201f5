/* SPDX-License-Identifier: MIT */
/*
 * osfd/segment.h - segments that the kernel's socket cannot be made to send
 *
 * The sequence number is the one that the peer expects next, so it accepts the segment.
 * Spec: RFC 9293 sections 3.5.3 and 3.10.7.4, RFC 5961 section 3.2
 */
#pragma once

#include "osfd/freeze.h"

/* Ends a connection that could not be restored.  The kernel's socket may stand before or
 * behind its new connect(): it is closed without a word, and the peer gets a reset. */
void reset_peer(int fd, const struct connection *c, const struct frozen *f);

/* Lets the peer of a connection whose program has died find out.  The program's engine may
 * have sent more since the connection was frozen, so the number that the peer expects is
 * not known; an old one is, from before @snd_nxt.  The peer answers a segment with an old
 * number by an ACK, and the kernel, which has no socket for that, by a reset with the
 * number that the ACK names.  Spec: RFC 9293 sections 3.10.7.4 and 3.5.2 */
void wake_peer(const struct steer_key *key, uint32_t snd_nxt);

/* The ACK that an engine has owed.  A disconnect makes the kernel forget it, and its
 * window probe does not stand for it: the probe's sequence number is an old one, for
 * which the peer drops the segment without a look at the ACK.  Then the peer would wait
 * for its retransmission timer, and send nothing more if it has Nagle's algorithm on. */
void ack_peer(const struct connection *c, const struct frozen *f);

/* The segment with which the peer has ended the connection, for our kernel: the engine has
 * seen it and has not taken it.  Otherwise the peer would repeat a FIN only after its
 * retransmission timer, and a reset never.  It comes from the peer's address, with the
 * number that our kernel expects next. */
void end_by_peer(const struct connection *c, const struct frozen *f,
		 uint32_t n_unacked);
