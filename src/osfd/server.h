/* SPDX-License-Identifier: MIT */
/*
 * osfd/server.h - osfd's socket, and the programs at its other end
 *
 *     server_listen() -> name of this network namespace -> server_run(): one loop
 *     a program that may use a port opens it -> hand_over() -> a worker serves the program
 *
 * The name is in the abstract namespace of unix sockets, and each network namespace has one
 * of its own.  Anybody may bind the name before osfd does, so a program looks at
 * SO_PEERCRED: osfd listens as root.
 *
 * Whoever holds a socket can keep its lock, by a call whose memory is a page that does not
 * come (userfaultfd, FUSE), and each call that needs the lock waits for that.  So osfd
 * itself receives no descriptor from anybody, and makes no call on a socket of a program.
 * A worker makes these calls: a process that serves this one program.
 *
 * A request takes a bounded time.  osfd closes a client that does not read its replies.
 */
#pragma once

#include <stdint.h>

#include "osfd/control.h"
#include "osfd/name.h"
#include "osfd/past.h"
#include "osfd/port.h"

#define CLIENTS_MAX 256
#define CLIENTS_PER_UID 128
#define STRANGERS_MAX 32 /* of users who have no port */
#define WORKERS_MAX CLIENTS_MAX

/* Who has no grant. */
struct client {
	int fd; /* < 0: a free entry */
	uint32_t uid;
	int pid;          /* 0: of a PID namespace that we do not see */
	uint32_t version; /* 0: has not said hello */
	/* When osfd refused its last request, or 0.  The request stays unread, so our
	 * close() would make the kernel discard the answer (ECONNRESET).  So the client
	 * first gets some time to read it. */
	uint64_t refused_ns;
};

struct worker {
	int fd; /* < 0: it has no programs, and ends */
	/* The pidfd of its process; < 0: a free entry.  The end of the process may take
	 * long, because it closes what its program has sent. */
	int proc_fd;
	int pid_fd; /* of the program */
	int pid;
	uint32_t uid;
	unsigned n_clients; /* the program's sockets that it has */
	/* When the program has died, or 0. */
	uint64_t dead_ns;
};

struct server {
	int listen_fd, epoll_fd, signal_fd;
	int closer_fd;      /* see closer.h */
	int null_fd;        /* for workers */
	bool is_on_demand;  /* ends when it has no port and no client */
	uint64_t ending_ns; /* when it was asked to end, or 0 */
	struct ports ports;
	struct pasts pasts;
	struct client client[CLIENTS_MAX];
	struct worker worker[WORKERS_MAX];
};

/* Return: 0, -EADDRINUSE when an osfd serves this namespace already, or another errno */
MUST_CHECK int server_listen(struct server *s);

/* Makes the descriptors on which server_run() waits.  Call it in the process that calls
 * server_run(): an epoll set reports the signals of the process that has added the
 * signalfd.  Return: 0 or an errno */
MUST_CHECK int server_begin(struct server *s);

/* Runs until osfd has nothing left to do, or until SIGTERM or SIGINT.  After a signal,
 * programs have five seconds to give their connections back.  A second signal ends this
 * time.  Return: 0 or an errno */
MUST_CHECK int server_run(struct server *s);

/* Tells the workers that something has changed with the ports. */
void workers_look(const struct server *s);

/* Who asks. */
struct asker {
	uint32_t uid;
	uint32_t *version;
	int worker; /* an index; -1: it has none, and no grants */
};

struct answer {
	struct reply reply;
	int fds
	    [CONTROL_FDS]; /* that go with it; -1 from the first on that does not */
	bool is_ours;      /* whoever has sent it closes the first of them */
	uint32_t number, is_lo; /* of the grant that OPEN has made */
};

/* One request's answer (handle.c). */
void client_serve(struct server *s, const struct asker *who, const void *buf,
		  size_t len, struct answer *out);
