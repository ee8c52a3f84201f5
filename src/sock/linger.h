/* SPDX-License-Identifier: MIT */
/*
 * sock/linger.h - how close() is to end a connection: the anchor's SO_LINGER
 *
 * The kernel closes the anchor, so the option is the anchor's, and who closes a
 * connection whose bytes are ours asks what it says.
 */
#pragma once

/* Seconds for which close() waits until all is sent; 0: it resets; -1: neither. */
int linger_s(int fd);
/* close() is to reset. */
void linger_reset(int fd);
