/* SPDX-License-Identifier: MIT */
/* tests/app/calls_poll.h - what scenarios of poll, select and epoll share (see calls.h) */
#ifndef TESTS_CALLS_POLL_H
#define TESTS_CALLS_POLL_H

#include <signal.h>

#include "calls.h"

/* Receives what is there of @len bytes. */
void recv_got(struct ctx *x, size_t len);
/* select() on @fd.  @which: bits for reading, writing and exceptions.  Return: the
 * milliseconds that are left. */
int sel(int fd, int which, int ms, const char *what);
/* Return: the mask that was. */
sigset_t block_alarm(void);

#endif
