/* SPDX-License-Identifier: MIT */
/*
 * sock/linger.h - how close() must end a connection: the anchor's SO_LINGER
 *
 * The kernel closes the anchor, so the anchor has the option.  When we close a
 * connection whose bytes are ours, we ask the anchor for its value.
 */
#pragma once

#include <stdbool.h>

/* Seconds that close() waits until all is sent; 0: reset; -1: neither. */
int linger_s(int fd);
/* The same, for a close() that comes now.  @is_unread: the program has left bytes unread, so
 * the connection is reset, as the kernel would do, and the anchor is told to. */
int linger_at_close(int fd, bool is_unread);
