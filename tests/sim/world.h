/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/world.h - stacks, wires, programs, and a clock that is a variable
 *
 *     world_app.c   programs      <->  world.c      stacks, time  <->  world_net.c  ports,
 *     world_send.c  what they send     world_mem.c  memory             wires
 *     world_reboot.c  connect again      |
 *     world_move.c    other stacks       |
 *                                    world_check.c  invariants
 *
 * Nothing here sleeps or asks for the time, so an hour of back-off takes a millisecond.
 * Everything depends on the configuration and its seed alone.  After each step
 * world_check.c checks its invariants.  If one fails, the process prints the seed and
 * aborts.
 *
 * Each stack has one wire, on which its packets leave; the address of a packet says
 * where it arrives.  The stack SERVER listens, and all others are clients.
 *
 * In a world with moves, each host has a second stack, to which connections move and from
 * which they come back (world_move.c).  The second stack of host i is stack n + i, if
 * there are n hosts; both use the host's wire.
 */
#pragma once

#include "port/pcapng.h"
#include "port/sim/port.h"
#include "tcp/calls.h"
#include "tcp/opt.h"
#include "tcp/stack.h"

#define WORLD_PAIRS 64
#define WORLD_STACKS 4 /* hosts */
#define WORLD_STACKS_ALL (2 * WORLD_STACKS)
#define WORLD_HELD 64
#define WORLD_URGENT 256
#define WORLD_BLOCKS 6 /* of a stack, that pools may grow by */

enum side { CLIENT, SERVER };

#define TOGGLE_BUF_MIN 2000u /* bytes; of a receive buffer that is toggled */

/* What one end of a connection does: it sends its bytes and a FIN, and reads to the
 * end. */
struct end_plan {
	uint32_t n_bytes;
	uint32_t write_max; /* bytes of a call; 0: all at once */
	uint32_t read_max;
	uint64_t read_every_ns; /* 0: as soon as something is there */
	uint64_t read_from_ns;  /* reads nothing before */
	uint64_t abort_at_ns;   /* 0: never */
	uint64_t hold_ns;       /* frames that were read are kept so long */
	bool has_nodelay;
	bool closes_early; /* close() after the last byte, without reading on */
	bool lends; /* bytes are sent where they lie, about every second time */
	bool reads_inline;        /* what is urgent, too */
	uint32_t urgent_every;    /* the last of so many bytes; 0: none */
	uint64_t toggle_every_ns; /* an option changes so often; 0: never */
	uint32_t user_timeout_ms; /* 0: none */
	uint16_t keep_idle_s, keep_interval_s; /* keepalive; 0: none */
	uint8_t keep_probes;
};

struct world_config {
	uint64_t seed;
	uint32_t n_stacks; /* 0: two */
	struct tcp_config stack[WORLD_STACKS];
	struct wire_model wire[WORLD_STACKS]; /* from each of them */
	uint64_t heals_at_ns; /* from then on nothing goes wrong any more */
	uint32_t n_pairs;
	struct end_plan plan[2][WORLD_PAIRS];
	uint32_t rx_extents;
	bool carries_gso;     /* large frames arrive as they were sent */
	bool is_simultaneous; /* both ends connect */
	bool is_mutated;      /* bytes may differ: only survival is asked for */

	/* What goes wrong in hosts. */
	uint64_t stall_ns;     /* polls come up to so much late */
	uint64_t jump_ns;      /* the clock jumps ahead by up to that */
	uint64_t slip_ns;      /* stacks are told times up to that old */
	uint32_t port_frames;  /* a port with so few slots; 0: without end */
	uint64_t port_hold_ns; /* a frame stays in its slot up to so long */
	uint64_t steal_every_ns, steal_ns; /* no memory: how often, how long */
	bool has_cookies;                  /* SYNs find no memory, at times */
	bool grows;                 /* pools are given blocks, and lose them */
	uint64_t accept_every_ns;   /* 0: at once */
	uint64_t unlisten_every_ns; /* half of it nobody listens; 0: always */
	uint64_t reboot_at_ns;      /* a host forgets all; 0: none does */
	uint32_t reboot_host;
	/* How often clients connect again after all went well, each time from a port
	 * that their stack chooses.  If it is not 0, the stack chooses the first port,
	 * too. */
	uint32_t n_again;
	/* Connections move between the two stacks of their host, after up to so long;
	 * 0: there is one stack. */
	uint64_t move_every_ns;
	bool holds_ends; /* they go home in front of the peer's FIN or reset */
};

struct end {
	struct tcp_conn *conn; /* NULL: not there, or given back */
	enum side side;
	uint32_t pair;
	uint32_t round; /* how often its connection has begun anew */
	seq32 iss;      /* that it was opened with */
	uint16_t lport; /* and the port */
	uint32_t n_sent, n_got;
	uint64_t read_at_ns;
	int err; /* that ended it */
	bool was_open, is_done, got_eof, is_shut;
	bool was_shut;    /* before it began anew */
	uint64_t done_ns; /* when it was */
	uint32_t n_ended; /* how often it was told of an error or the end */
	seq32 una_seen, rcv_seen, adv_seen; /* to see that none goes back */
	uint32_t buf_seen;
	bool is_seen;
	seq32 edge_seen; /* the window's, as it was sent */
	bool is_edge_seen;
	unsigned events_seen; /* tcp_poll() when it was looked at last */
	bool was_told;        /* that there is news since */
	uint64_t toggle_at_ns;
	uint64_t move_at_ns;
	uint32_t n_moves;
	uint32_t tsval_seen; /* the last timestamp that was sent */
	bool is_tsval_seen;
	uint32_t urgent[WORLD_URGENT], n_urgent; /* where the last ones are */
};

/* A frame in a port's ring, and what its payload must be. */
struct port_slot {
	struct tcp_frame f;
	uint64_t leaves_ns;
	const struct end *end; /* NULL: nothing is known of it */
	uint32_t round, off;
};

/* A stack's port: see world_net.c. */
struct world_port {
	struct port port;
	struct world *w;
	uint32_t stack;
	struct wire_packet *in, **in_tail; /* arrived, in order */
	uint32_t replies; /* reply_head of the stack before the last reset */
	bool was_reset;
	struct port_slot slot; /* of a port without a ring */
	struct port_slot *ring;
	uint32_t head, tail; /* running freely */
};

struct world {
	struct world_config cfg;
	uint64_t now_ns, seed;
	uint32_t n_stacks; /* of all hosts */
	struct tcp_stack *stack[WORLD_STACKS_ALL];
	void *stack_mem[WORLD_STACKS_ALL];
	struct pool rx_pool[WORLD_STACKS_ALL];
	void *rx_mem[WORLD_STACKS_ALL];
	struct wire wire[WORLD_STACKS];
	struct world_port port[WORLD_STACKS_ALL];
	void *stolen[WORLD_STACKS_ALL]
		    [4]; /* lists of elements, by their first word */
	bool has_stolen;
	void *blocks[WORLD_STACKS_ALL][WORLD_BLOCKS]; /* that pools have */
	struct lent
	    *lent; /* bytes that programs send where they lie; NULL: none */
	struct tcp_listener *listener; /* NULL: nobody listens */
	uint64_t accept_at_ns, again_at_ns;
	struct end ends[2][WORLD_PAIRS];
	struct {
		struct extent *e;
		uint64_t until_ns;
	} held[WORLD_HELD];
	uint32_t n_held;
	uint64_t n_frames, n_steps;
	uint64_t n_resets;  /* that stacks have sent */
	uint64_t healed_ns; /* since when nothing goes wrong; 0: it does */
	uint64_t trace;     /* a hash of all that was sent, and when */
	/* Of each host: the ports of connections that are in its second stack, which the
	 * first one must not choose; a bit each. */
	uint8_t ports_kept[WORLD_STACKS][8192];
	uint64_t n_moves, n_images; /* images: bytes that stacks refer to */
	uint32_t most_work;         /* struct ranges that a call has touched */
	/* Called before each packet that enters a wire, if not NULL. */
	void (*before_send)(struct world *w, uint32_t mask);
	/* Called with each packet that enters a wire, if not NULL. */
	void (*on_sent)(struct world *w, int from, const uint8_t *p,
			uint32_t len);
	void *user;
	uint32_t mask;
	bool is_loud;        /* SIM_TRACE is set */
	struct pcapng *pcap; /* NULL: nothing is written */
};

/* The configuration of a stack for a few connections; IPv4 or IPv6. */
struct tcp_config world_stack(enum side side, bool is_v6);
/* One connection over 10 ms each way, without faults. */
struct world_config world_plain(uint32_t up, uint32_t down);

void world_init(struct world *w, const struct world_config *cfg);
void world_fini(struct world *w);

/* Return: false when nothing more can happen. */
bool world_step(struct world *w);

/* Runs until everything is over, or until @until_ns.  Return: whether all ends are
 * done */
bool world_run(struct world *w, uint64_t until_ns);

/* Runs until @until_ns, even if everything is over before. */
void world_run_until(struct world *w, uint64_t until_ns);

uint64_t world_random(struct world *w);

/* Return: the stack of an end; pairs are dealt to the client stacks in rotation. */
int world_host(const struct world_config *c, enum side side, uint32_t pair);

static inline uint32_t world_host_of(const struct world *w, uint32_t stack)
{
	return stack % w->cfg.n_stacks;
}

/* The time that a stack is told. */
uint64_t world_clock(struct world *w);

/* --- between the files --- */

#define WORLD_PORT 80
#define WORLD_ACTIVE_PORT 5000

/* The bytes that an end sends, from @off on; up to WORLD_CHUNK of them. */
#define WORLD_CHUNK 65536
const uint8_t *world_bytes(const struct end *e, uint32_t off);
/* The bytes that an end reads. */
const uint8_t *world_peers_bytes(const struct end *e, uint32_t off);

/* Return: as tcp_connect() */
MUST_CHECK int world_connect(struct world *w, struct end *e, uint16_t lport,
			     uint16_t rport);
void world_programs(struct world *w);
uint64_t world_programs_next(const struct world *w);
void world_release(struct world *w, uint64_t until_ns);
void world_listen(struct world *w);

/* Offers up to @n of the next bytes.  Return: as tcp_send() */
ssize_t world_send(struct world *w, struct end *e, uint32_t n);
bool world_is_urgent(const struct end *e, uint32_t off);
void world_lent_back(struct world *w);
void world_lent_fini(struct world *w);

/* Ends a connection that the client's host may have forgotten, and resets @e. */
void world_end_anew(struct world *w, struct end *e);
void world_reboot(struct world *w);
void world_again(struct world *w);
uint64_t world_again_next(const struct world *w);

/* Moves connections whose time has come. */
void world_moves(struct world *w);
void world_keep_ports(struct world *w, uint32_t host);
uint64_t world_move_next(const struct world *w, const struct end *e);
/* Brings a connection back to the stack that has opened it.  Return: whether it is there,
 * or over; if not, the program tries again */
bool world_move_home(struct world *w, struct end *e);
/* Whether the program may shut its direction first, and move the FIN home. */
bool world_may_shut_abroad(struct world *w, const struct end *e);
/* Return: the stack of @host that has the connection of a packet, or the first one. */
uint32_t world_steer(const struct world *w, uint32_t host, const uint8_t *p,
		     uint32_t len);

void world_steal(struct world *w);
void world_steal_end(struct world *w);
uint64_t world_steal_next(const struct world *w);
void world_pools(struct world *w);
void world_pools_fini(struct world *w);

void world_ports_init(struct world *w);
void world_ports_fini(struct world *w);
void world_port_forget(struct world *w, uint32_t i);
void world_frames_in(struct world *w);
void world_frames_out(struct world *w);

void world_check(struct world *w);
void world_check_news(struct world *w);

/* Return: what is left of connections that no program has, or NULL. */
const char *world_leftover(const struct world *w);
void world_check_frame(struct world *w, int from, const struct tcp_frame *f,
		       struct port_slot *known);
