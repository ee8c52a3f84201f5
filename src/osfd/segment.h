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

/* The ACK that an engine has owed.  A disconnect makes the kernel forget it, and its
 * window probe does not stand for it: the probe's sequence number is an old one, for
 * which the peer drops the segment without a look at the ACK.  Then the peer would wait
 * for its retransmission timer, and send nothing more if it has Nagle's algorithm on. */
void ack_peer(const struct connection *c, const struct frozen *f);
