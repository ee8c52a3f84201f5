/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/notice.h - a number on a TCP socket, which proves who holds the socket
 *
 *     holder of one end                          holder of the other end
 *     binds a unix socket to the name of N
 *     notice_put(): N on its TCP socket    ->    notice_read(): N
 *                                                connects to the name of N
 *
 * Only a process that has the descriptor can put a number on a socket, and the
 * kernel shows the number to everybody in the network namespace.  A unix name is
 * one socket's at a time.  So whoever is behind the name of N has the descriptor
 * of the TCP socket that shows N.  Nothing secret is passed, no descriptor
 * changes hands, and no byte is sent.
 *
 * That holds while the name is bound for as long as the number is shown: take the
 * number away first, then close the unix socket.
 *
 * The number is a value of SO_MAX_PACING_RATE from 2^62 on, in bytes a second,
 * which slows down nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#define NOTICE_BITS 60

struct notice {
	uint64_t number; /* 0: none is put up */
	uint64_t was;    /* the program's rate */
	uint64_t cookie; /* of the socket */
	int32_t fd;      /* a descriptor of it, as far as we know */
};

/* A new random number, which is not 0; 0: the kernel gave none. */
uint64_t notice_number(void);
/* Put @number on the socket @fd.  0, or -EOPNOTSUPP. */
MUST_CHECK int notice_put(struct notice *n, int fd, uint64_t number);
/* The rate by which the number is shown; 0: none is. */
uint64_t notice_rate(const struct notice *n);
/* Take it away, unless the program has set a rate meanwhile.  False: @n->fd is not
 * the socket any more, so the number is still there. */
bool notice_remove(struct notice *n);
struct other_end;
/* What does the other end of @fd's connection show?  0 with *@who; -ENOENT: nothing;
 * -EXDEV: it is not in this network namespace; -EPERM: it is another user's, who is not
 * asked; -EAGAIN; -EOPNOTSUPP: the kernel does not say. */
MUST_CHECK int notice_read(int fd, struct other_end *who, uint64_t *number);
/* And now?  -EAGAIN: it is not that socket any more. */
MUST_CHECK int notice_read_again(int fd, struct other_end *who,
				 uint64_t *number);
