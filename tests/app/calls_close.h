/* SPDX-License-Identifier: MIT */
/* tests/app/calls_close.h - what the scenarios of calls_close.c and calls_shut.c share */
#ifndef TESTS_CALLS_CLOSE_H
#define TESTS_CALLS_CLOSE_H

#include "calls.h"

/* One recv() or send() that does not wait, of bytes of the stream. */
void recv_now(struct ctx *x, const char *what, size_t len);
void send_now(struct ctx *x, const char *what, size_t len);
void so_error(struct ctx *x, const char *what);
/* What poll(), epoll and select() say now. */
void all_states(struct ctx *x, const char *what);

#endif
