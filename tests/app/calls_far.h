/* SPDX-License-Identifier: MIT */
/* tests/app/calls_far.h - what calls.c and calls_far.c share: connections, streams, and
 * the far end's loop */
#ifndef TESTS_CALLS_FAR_H
#define TESTS_CALLS_FAR_H

#include "calls.h"

#define TURN_BYTES 16

/* calls.c */
const char *errno_name(int err);
/* The bytes of a stream from offset @off on: are they right, or fill them in. */
bool stream_ok(uint64_t off, const char *p, size_t len);
void stream_make(uint64_t off, char *p, size_t len);

/* calls_far.c: on the loopback of @family: 4, 6, or 'm', a v6 socket that talks v4. */
int listen_at(int family);
int connect_at(int family, int port);
int accept_at(int listener);
int port_of(int fd);
/* A thread's function; @far_ctl: the descriptor on which it gets commands. */
void *far_main(void *far_ctl);

#endif
