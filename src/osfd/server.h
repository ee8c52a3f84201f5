/* SPDX-License-Identifier: MIT */
/*
 * osfd/server.h - osfd's socket, and the programs at its other end
 *
 *     server_listen() -> name of this network namespace -> server_run(): one loop
 *
 * The name is in the abstract namespace of unix sockets, which each network namespace
 * has of its own.  Anybody may bind such a name first, so a program looks at
 * SO_PEERCRED: osfd listens as root.
 *
 * A client is a process, by its SO_PEERCRED and its pidfd.  A request takes a bounded
 * time.  A client that does not read its replies is closed, and the grants of a client
 * end when it closes its socket or dies, even where a child has copies.  The connections of
 * a dead one go on in the kernel; those of a living one, which may still send, are reset.
 */
#pragma once

#include <stdint.h>

#include "osfd/name.h"
#include "osfd/past.h"
#include "osfd/port.h"

#define CLIENTS_MAX 256
#define CLIENTS_PER_UID 128
#define STRANGERS_MAX 32 /* of users who have no port */

struct client {
	int fd, pid_fd; /* fd < 0: a free entry */
	uint32_t uid;
	uint32_t version; /* 0: has not said hello */
	bool is_told;     /* MSG_LEAVE was sent */
	/* Its last request stays unread.  Our close() would make the kernel take the
	 * answer from it (ECONNRESET), so it has time to read that. */
	bool is_refused;
	/* When the client closed its socket, or 0.  The kernel closes the socket of a
	 * killed program some moments before the program is dead. */
	uint64_t silent_ns;
};

struct server {
	int listen_fd, epoll_fd, signal_fd;
	int closer_fd;      /* see closer.h */
	bool is_on_demand;  /* ends when it has no port and no client */
	uint64_t ending_ns; /* when it was asked to end, or 0 */
	struct ports ports;
	struct pasts pasts;
	struct client client[CLIENTS_MAX];
};

/* Return: 0, -EADDRINUSE when an osfd serves this namespace already, or another errno */
MUST_CHECK int server_listen(struct server *s);

/* Makes what server_run() waits with.  Call it in the process that calls server_run(): an
 * epoll set reports the signals of the process that has added the signalfd.  Return: 0 or
 * an errno */
MUST_CHECK int server_begin(struct server *s);

/* Runs until there is nothing left to do, or until SIGTERM or SIGINT.  After a signal,
 * programs have five seconds to give their connections back; a second signal ends this
 * time.  Return: 0 or an errno */
MUST_CHECK int server_run(struct server *s);

/* Whether a client has a grant of a port that is ending. */
bool client_leaves(const struct server *s, int index);
/* Tells those that have. */
void clients_leave(struct server *s);

/**
 * server_watch_away() - a program's timer, by which it says that it may be away
 * @fd: the caller's
 *
 * Return: 0, or with a reason -EINVAL, -EEXIST or what epoll_ctl() said
 */
MUST_CHECK int server_watch_away(struct server *s, struct grant *g, int fd,
				 struct refusal *why);

/**
 * client_serve() - one request's answer (handle.c)
 * @fds: what came with the request; handle.c closes none of them
 * @out_fds: descriptors that go with the reply: none, the first, or both; else -1
 * @owned: which of them server.c closes afterwards
 */
void client_serve(struct server *s, int index, const void *buf, size_t len,
		  const int *fds, unsigned n_fds, struct reply *out,
		  int out_fds[2], bool owned[2]);
