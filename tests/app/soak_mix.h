/* SPDX-License-Identifier: MIT */
/*
 * tests/app/soak_mix.h - one end of a stream, and what all processes of the mix
 * share
 *
 * An end is a descriptor and a few numbers.  Any thread or process that has these
 * can continue the stream: a forked child, this program executed again (its
 * arguments are the numbers), or a process that was passed the descriptor (the
 * message has the numbers).  The shared memory is a memfd that stays open, under one
 * number, in every process.
 */
#ifndef TESTS_SOAK_MIX_H
#define TESTS_SOAK_MIX_H

#include "soak.h"

#define SHARED_FD 195
#define ADOPTER_FD(i) (196 + (int)(i)) /* where ends are passed to it */
#define N_ADOPTERS 3                   /* the last has no library */
#define FREE_FDS 190                   /* descriptors below are anybody's */
#define N_SLOTS 4096
#define HOPS_MAX 8 /* from process to process */

struct end {
	int fd;
	uint32_t id;
	uint32_t side; /* 0 connected, 1 accepted */
	uint32_t hops;
	uint64_t rx_off, tx_off;
	bool is_shut, saw_end;
	bool is_bare;  /* this process has no library */
	bool is_alone; /* this process has nothing else to do */
};

enum event {
	EVENT_DUP,
	EVENT_FORK_BACK, /* a child moves some bytes, then we again */
	EVENT_FORK_OVER, /* a child has it from here on */
	EVENT_EXEC,      /* fork, and the child executes this program */
	EVENT_SPAWN,
	EVENT_PASS,      /* to an adopter */
	EVENT_PASS_BACK, /* to oneself */
	EVENT_PROGRAM,   /* another program inherits it for a moment */
	EVENTS,
};

/* For reports: the last things that happened to an end. */
#define NOTES 32
struct note {
	uint64_t us, rx_off, tx_off;
	int pid, fd, what; /* an enum event; EVENTS: nothing but a call */
	int call;
};

/* For reports: where an end was seen last. */
struct slot {
	_Atomic int pid; /* 0: over */
	_Atomic uint32_t id, side;
	_Atomic uint64_t rx_off, tx_off;
	_Atomic int call; /* enum call of soak_end.c */
	_Atomic uint32_t n_notes;
	struct note notes[NOTES];
};

struct shared {
	_Atomic uint64_t bytes; /* moved: progress */
	_Atomic uint32_t next_id;
	_Atomic uint32_t n_live, n_over; /* ends */
	_Atomic uint32_t n_signals;
	_Atomic uint32_t n_events[EVENTS];
	uint32_t events;    /* bits: those that happen */
	bool no_bare;       /* no program goes on without the library */
	bool is_calm;       /* no signals */
	_Atomic bool stops; /* no new connections */
	_Atomic bool ended; /* nothing is left: processes end */
	_Atomic int failed; /* FAILED: somebody has said why */
	struct slot slots[N_SLOTS];
};

extern struct shared *shared;

void shared_map(void); /* in every process, first */
void signals_start(uint64_t salt);
/* Moves bytes until the end is over, or somebody else's. */
void end_run(struct end *e);
/* @argv: what follows "end" */
int end_part(int argc, char **argv);
const char *call_name(int call);
const char *event_name(int what);
void notes_print(uint32_t id);

#endif
