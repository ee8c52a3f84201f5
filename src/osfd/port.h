/* SPDX-License-Identifier: MIT */
/*
 * osfd/port.h - the ports of a namespace, and the grants that programs have of them
 *
 *     osf port add -> port_add() -> a line of the policy
 *     a program    -> grant_open() -> a packet socket and a link
 *     its end      -> grant_close() -> nothing is steered any more
 *
 * A port is a device and a user.  A grant is one program's use of a port: its packet
 * socket, its BPF programs, its connections.  All tables have fixed sizes, so a program
 * cannot make osfd allocate.
 *
 * osfd opens and closes grants.  The worker of the program (worker.h) has each of them too, and
 * gives it flows.  Both see the table of ports, which osfd alone writes, and the table of uses.
 *
 * Owner: osfd's only thread; a worker's only thread has a struct ports of its own.
 */
#pragma once

#include <stdbool.h>

#include "osfd/msg.h"
#include "osfd/steer.h"
#include "osfd/use.h"
#include "port/packet/packet.h"

#define PORTS_MAX 64
/* tcx takes 64 programs of a device; some are left to others. */
#define PORT_GRANTS_MAX 48
#define GRANTS_MAX 256
#define GRANTS_PER_CLIENT 4
#define FORMER_MAX GRANTS_MAX

struct port {
	struct msg_port is; /* dev[0] == 0: a free entry */
	/* osfd asks its programs to give their connections back, and gives them no others.
	 * When there are no connections left, the port goes. */
	bool is_ending;
	uint32_t n_grants;
	/* Of grants that have ended: how many connections of dead programs osfd gave to the
	 * kernel, and how many it reset. */
	uint64_t n_thawed, n_reset;
	/* counts: of grants that have ended.  n_dropped: frames that found a ring full, of
	 * all grants. */
	uint64_t counts[STEER_N_COUNTS], n_dropped;
};

struct held;

struct grant {
	struct port *port; /* NULL: a free entry */
	struct ports *ports;
	struct steer steer;
	uint32_t number; /* of its entry in the table of uses */
	uint32_t n_flows;
	int ifindex;
	bool is_lo;
	/* Its ring gets no frames, because it has had no flow for a while.  After each such
	 * pause it takes twice as long until the next one. */
	bool is_deaf;
	uint64_t idle_ns,
	    patience_ns; /* since when it has no flow; how long that lasts */
	int owner;       /* the worker's index; in a worker, the client's */
	bool is_resting; /* MSG_REST */
	bool
	    is_told; /* osfd knows that an ending port's connections have gone */
	/* The program's packet socket, or -1.  osfd reads n_dropped from it, a call that
	 * waits for nothing. */
	int frames_fd;
	int escrow_fd;
	struct held *held; /* held.c: ESCROW_SLOTS of them, or NULL */
	/* The program's timer, or -1: see MSG_AWAY; and the epoll set that watches it. */
	int away_fd, away_set_fd;
	uint64_t away_ns; /* when osfd has looked last */
};

/* "all" and the device's own, either of which is enough. */
enum { LO_LOCALNET, LO_LOCALNET_ALL, LO_LOCAL, LO_LOCAL_ALL, LO_N_CONF };

struct ports {
	struct port *port; /* PORTS_MAX */
	struct use *use;   /* one for each grant */
	uint32_t n_opened; /* grants, ever */
	struct grant grant[GRANTS_MAX];
	int state_fd; /* where the policy is kept for the next start, or -1 */
	int query_fd; /* an inet socket, to ask about devices */
	int route_fd; /* an rtnetlink socket */
	int lo_fd[LO_N_CONF]; /* sysctls, see device_takes(); -1: not there */
	/* tc programs of an osfd that ran before, which its programs keep. */
	uint32_t former[FORMER_MAX], n_former;
};

/* A refusal in words, for the reply. */
struct refusal {
	char text[MSG_REASON_MAX];
};
void refuse(struct refusal *why, const char *fmt, ...) PRINTF(2, 3);
/* What the reply to a request says of it. */
void reply_end(struct reply *out, uint16_t type, int err, struct refusal *why);

/* Return: the shorter of two waits; -1 is a wait without end. */
static inline int sooner_ms(int a, int b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* Opens what port_add() asks devices with; before osfd confines itself. */
MUST_CHECK int ports_init(struct ports *ps, int state_fd);

/**
 * port_add() - let a user have connections over a device
 *
 * Adding a port that is there changes its number of flows.
 * Return: 0, or with a reason
 *   -ENODEV      no such device, or not one with Ethernet headers
 *   -EBUSY       programs of others are on its tc, and MSG_BESIDE is not given
 *   -ENOSPC      PORTS_MAX
 */
MUST_CHECK int port_add(struct ports *ps, const struct msg_port *p,
			struct refusal *why);

/* Removes a port, and ends its grants.  Return: 0, or with a reason -ENOENT, or -EBUSY
 * while connections run over it: then the port is ending, and the caller tells its programs */
MUST_CHECK int port_del(struct ports *ps, const struct msg_port *p,
			struct refusal *why);
/* Has a user a port of its own? */
bool ports_has(const struct ports *ps, uint32_t uid);
/* All ports are ending. */
void ports_end(struct ports *ps);
/* Removes the ports that are ending and have no connection left.  Return: whether others
 * are ending */
bool ports_sweep(struct ports *ps);

/* The port at an index of those that are there.  NULL: there are no more */
struct port *port_at(struct ports *ps, uint32_t index);
/* How many connections run over it. */
uint32_t port_n_used(const struct ports *ps, const struct port *p);
/* What a port counts. */
struct port_sums {
	uint64_t counts[STEER_N_COUNTS]; /* what it has kept from the kernel */
	uint64_t n_thawed, n_reset, n_dropped;
};
void port_sum(struct ports *ps, struct port *p, struct port_sums *out);
/* Which port a user may have of a device: its own, or for root anybody's; or NULL. */
struct port *port_for(const struct ports *ps, const char *dev, uint32_t uid);

/**
 * grant_open() - let a client use a device
 * @fds: the packet socket, which is the caller's, and the link, which is not
 *
 * Return: 0, or with a reason -EACCES, -ENOSPC, -ENODEV or what the kernel said
 */
MUST_CHECK int grant_open(struct ports *ps, const char *dev, uint32_t uid,
			  int owner, struct msg_grant *out, int fds[2],
			  struct refusal *why);

/* Gives all frames to the kernel.  If connections are still frozen, their peers learn that
 * nobody serves them any more (segment.h). */
void grant_close(struct grant *g);

/* In a new worker: ends what it has of osfd's grants. */
void grants_forget(struct ports *ps);
/* In a worker: takes a grant that osfd has opened.  The descriptors belong to the grant
 * from now on, even if this fails.  Return: 0 or an errno */
struct grant_part {
	struct msg_grant is;
	uint32_t number;
	bool is_lo;
	int frames_fd, flows_fd, ports_fd;
};
MUST_CHECK int grant_share(struct ports *ps, const struct grant_part *p,
			   int owner);
/* In a worker: ends its part of a grant.  The table of held connections must be empty. */
void grant_drop(struct grant *g);
bool grant_has_ended(const struct grant *g);

/* The grant that a client names, or NULL. */
struct grant *grant_of(struct ports *ps, uint32_t id, int owner);

/* Gives a grant a flow.  @snd_nxt: the sequence number at which it was frozen, or 0.  Return: 0,
 * -ENOSPC when the port has no more flows, -EAGAIN while the grant rests, or another -errno */
MUST_CHECK int grant_steer(struct grant *g, const struct steer_key *k,
			   enum steer_mode mode, uint32_t snd_nxt);
void grant_unsteer(struct grant *g, const struct steer_key *k);
/* MSG_REST and MSG_WAKE, osfd's part.  While it rests the grant has no flows, and no link.
 * Return: 0, or with a reason -EBUSY for a grant with flows, or what the kernel said */
MUST_CHECK int grant_rest(struct grant *g, struct refusal *why);
MUST_CHECK int grant_wake(struct grant *g, struct refusal *why);
/* The worker's part: whether the ring gets frames.  Only a worker calls it, because the
 * program has the packet socket, too, and could make the call wait.  Return: 0, or what the
 * kernel said */
int grant_listen(struct grant *g, bool is_on);
/* Stops the frames of one grant that has had no flow for long enough, until its next flow.
 * Return: after how many milliseconds to call this again, or -1 */
int grants_rest(struct ports *ps);

/* device.c - what a device is, and who else has programs on it. */
struct device {
	int ifindex;
	uint32_t mtu;
	bool is_lo;
};
MUST_CHECK int device_find(const struct ports *ps, const char *name,
			   struct device *out, struct refusal *why);
/* Does the kernel accept frames from lo between two of its own addresses?  If not, what our
 * TCP sends to the kernel's TCP is lost.  Return: 0, or -EADDRNOTAVAIL with a reason */
MUST_CHECK int device_takes(const struct ports *ps, const struct grant *g,
			    int fd, struct refusal *why);
MUST_CHECK int device_is_free(const struct ports *ps, const struct device *d,
			      struct refusal *why);
