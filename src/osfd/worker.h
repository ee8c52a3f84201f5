/* SPDX-License-Identifier: MIT */
/*
 * osfd/worker.h - a process of osfd's for one program: all calls on the program's sockets
 *
 *     osfd: worker_start() -> a forked process, with fewer rights -> control.h
 *     worker: the program's requests -> program_serve() -> freeze.h, held.h
 *
 * Calls on a socket that others have too may wait without end (server.h).  Then this
 * process waits, and its program, and nobody else.  No signal ends such a wait, so a worker
 * can stay until the lock is free; osfd waits for no worker.
 *
 * The worker ends when the program has closed its last socket.  It also ends when osfd
 * does; then a connection stays as it is, until the program has the next osfd adopt it.
 *
 * SO_PEERCRED and the pidfd say which process the program is.  Its grants end when it
 * closes its socket or dies, even if a child has copies of the socket.  The kernel goes on
 * with the connections of a dead program.  The worker resets those of a living one, which
 * may still send.
 */
#pragma once

#include "osfd/control.h"
#include "osfd/port.h"

/* Of one program, which connects again if it has lost its first socket. */
#define PROGRAMS_MAX 8

/* One socket of it. */
struct program {
	int fd, pid_fd;   /* fd < 0: a free entry */
	uint32_t version; /* 0: has not said hello */
	bool is_told;     /* MSG_LEAVE was sent */
	/* When the program closed its socket, or 0.  The kernel closes the socket of a
	 * killed program some moments before the program is dead. */
	uint64_t silent_ns;
	/* The request that osfd has received, and that is not served yet. */
	uint32_t n_bytes;
	uint8_t bytes[MSG_BYTES_MAX];
};

struct work {
	int osfd_fd, epoll_fd;
	unsigned n_kept; /* descriptors that stay open: see received_close() */
	struct ports *ports;
	struct program program[PROGRAMS_MAX];
};

/**
 * worker_start() - in osfd
 * @null_fd: becomes the worker's 0, 1 and 2
 * @fd: the socket to it
 * @proc_fd: its pidfd
 *
 * Return: 0 or a negative errno
 */
MUST_CHECK int worker_start(struct ports *ports, int null_fd, int *fd,
			    int *proc_fd);

/*
 * Functions that run in the worker.
 */

/* What goes to the program.  fds: -1 from the first place on that is not used; the sender
 * closes all of them. */
struct served {
	struct reply reply;
	int fds[2];
};

/* One request's answer (serve.c).  @fds: what came with it; stays the caller's */
void program_serve(struct work *w, int index, const void *buf, size_t len,
		   const int *fds, unsigned n_fds, struct served *out);

/* Has osfd serve a request.  Return: what its reply says, or -EIO */
MUST_CHECK int worker_ask(struct work *w, int index, const struct request *r,
			  struct served *out);

/* Whether a program has a grant of a port that is ending. */
bool program_leaves(const struct work *w, int index);

/**
 * worker_watch_away() - a program's timer, by which it says that it may be away
 * @fd: the caller's
 *
 * Return: 0, or with a reason -EINVAL, -EEXIST or what epoll_ctl() said
 */
MUST_CHECK int worker_watch_away(struct work *w, struct grant *g, int fd,
				 struct refusal *why);
