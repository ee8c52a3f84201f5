/* SPDX-License-Identifier: MIT */
/*
 * tests/script/run.h - the state of a script that is being played, for run.c and record.c
 */
#pragma once

#include "script.h"

#define FLOWS 64

struct run {
	const struct script *script;
	const struct backend *b;
	const struct run_options *opt;
	struct sockets sockets;
	uint64_t last_ns; /* when the event before happened */
	struct flow_map flows[FLOWS];
	uint32_t n_flows, first; /* the flow of packets without a port */
};

/* Gets the next packet in the script's numbers.  @want: what the event expects, from
 * which we learn a flow's first numbers, or NULL.  Return: 1; 0 when no packet comes in
 * time; -1 when it is malformed, which was reported */
int run_next_packet(struct run *r, const struct event *e,
		    const struct packet *want, uint64_t until_ns,
		    struct packet *got, uint64_t *at_ns);
bool run_inject(struct run *r, const struct event *e);

/* connect() begins a flow; its SYN tells our port. */
void run_note_connect(struct run *r);

/* Whether the packet belongs to another flow than the script's first one. */
bool run_is_other_flow(const struct run *r, const struct packet *got);

/* record.c */
bool script_record(struct run *r);
