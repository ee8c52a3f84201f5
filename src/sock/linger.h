/* SPDX-License-Identifier: MIT */
/*
 * sock/linger.h - how close() must end a connection: the anchor's SO_LINGER
 *
 * The kernel closes the anchor, so the anchor has the option.  When we close a
 * connection whose bytes are ours, we ask the anchor for its value.
 */
#pragma once

/* Seconds that close() waits until all is sent; 0: reset; -1: neither. */
int linger_s(int fd);
/* Make close() reset the connection. */
void linger_reset(int fd);
