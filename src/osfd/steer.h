/* SPDX-License-Identifier: MIT */
/*
 * osfd/steer.h - the BPF programs of one grant: loaded, attached, told of flows
 *
 *     device -> steer_open() -> filter_fd for packet_socket(), link_fd for the program
 *     connection -> steer_add(STEER_COPY), steer_add(STEER_OURS), steer_del()
 *
 * link_fd keeps the tc program on the device.  osfd keeps it, and gives a copy to the
 * program that the grant is for.  The kernel detaches the tc program when both have closed
 * it; steer_close() detaches it at once, whoever else has a copy.
 *
 * Owner: osfd's only thread; a worker's only thread has a part of it (steer_share()).
 * Needs CAP_BPF and CAP_NET_ADMIN.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "port/packet/steer.h"

struct bpf_object;

struct steer {
	struct bpf_object *object;
	int flows_fd, counts_fd, filter_fd;
	int ports_fd; /* what used_ports is a mapping of */
	int link_fd;  /* -1: not attached */
	uint32_t tc_id;
	uint8_t *used_ports; /* the programs', mapped */
	uint32_t *n_of_port; /* flows of each local port */
};
#define STEER_TC_NAME "steer_tc" /* of the tc program */
#define STEER_NONE ((struct steer){ .link_fd = -1 })

/**
 * steer_open() - load the programs and attach steer_tc before all others on tc ingress
 *
 * Return: 0, or
 *   -EOPNOTSUPP  the kernel has no tcx (Linux 6.6)
 *   -ERANGE      64 programs are attached to the device already
 *   or another errno of bpf()
 */
MUST_CHECK int steer_open(struct steer *s, int ifindex, uint32_t n_flows);
void steer_close(struct steer *s);

/* Makes the part that a worker has: it adds and removes flows, and does no more.  @flows_fd
 * and @ports_fd belong to @s from now on, even if this fails.  steer_drop() ends it.
 * Return: 0 or an errno */
MUST_CHECK int steer_share(struct steer *s, int flows_fd, int ports_fd);
void steer_drop(struct steer *s);

/* steer_detach() gives all frames to the kernel; the flows can still be read.
 * steer_attach() is the reverse, and returns as steer_open().  In both calls the kernel
 * waits for all of its processors. */
void steer_detach(struct steer *s);
MUST_CHECK int steer_attach(struct steer *s, int ifindex);

/* Each flow in turn: the first one for @last == NULL.  Return: false after the last */
bool steer_next(const struct steer *s, const struct steer_key *last,
		struct steer_key *key, struct steer_flow *flow);

/* The key of a connection.  @local and @peer are of the same family, AF_INET or
 * AF_INET6.  Return: 0 or -EAFNOSUPPORT */
MUST_CHECK int steer_key_of(const struct sockaddr_storage *local,
			    const struct sockaddr_storage *peer,
			    struct steer_key *out);

/* Whether an address of a key is an IPv4 one. */
bool steer_is_v4(const uint8_t addr[16]);

/* Return: 0, -E2BIG when the grant's flows are used up */
MUST_CHECK int steer_set(struct steer *s, const struct steer_key *k,
			 const struct steer_flow *flow);
/* Return: whether it was steered */
bool steer_has(const struct steer *s, const struct steer_key *k);
bool steer_del(struct steer *s, const struct steer_key *k);

/* What the programs have counted, on all CPUs. */
void steer_counts(const struct steer *s, uint64_t counts[STEER_N_COUNTS]);
