/* SPDX-License-Identifier: MIT */
/*
 * osfd/control.h - what osfd and a worker say to each other
 *
 *     osfd -> CLIENT: a program's socket and pidfd, and the request that the worker has to serve
 *     worker -> ASK: a request that only osfd can serve -> osfd -> ANSWER
 *     worker -> END: one of its grants has ended; GONE: one of its programs' sockets
 *     osfd -> LOOK: the ports have changed, look at your grants
 *     worker -> LOOK: the last connection of a port that is ending has gone
 *
 * Packets of a socket pair.  The worker waits for an ANSWER; osfd never waits for a worker.
 */
#pragma once

#include "osfd/msg.h"

enum control_type {
	CONTROL_CLIENT = 1,
	CONTROL_ASK,
	CONTROL_ANSWER,
	CONTROL_END,
	CONTROL_GONE,
	CONTROL_LOOK,
};

struct control {
	uint32_t type;
	uint32_t uid, version;  /* of CLIENT */
	uint32_t grant;         /* of END */
	uint32_t number, is_lo; /* of an ANSWER to OPEN */
	uint32_t n_bytes;
	uint8_t bytes[MSG_BYTES_MAX]; /* a request, or a reply */
};

/* With an ANSWER to OPEN: the first two are for the program. */
enum {
	CONTROL_FD_PACKET,
	CONTROL_FD_LINK,
	CONTROL_FD_FLOWS,
	CONTROL_FD_PORTS,
	CONTROL_FDS,
};
