/* SPDX-License-Identifier: MIT */
/*
 * tests/port/world.h - two network namespaces of the test's own, joined by a veth pair
 *
 *     HERE  va  10.9.0.1  fd09::1  ----  vb  10.9.0.2  fd09::2  THERE
 *
 * One process looks into both: world_enter() chooses where the sockets that it opens
 * next belong.  The namespaces have no names; they are gone when the process ends.
 * Needs root: world_open() ends the process with status 77 where it may not.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "port/packet/packet.h"

enum place { HERE, THERE };

struct world {
	int ns[2];
	int ifindex[2];
	uint8_t mac[2][6];
};

void world_open(struct world *w);
void world_enter(const struct world *w, enum place where);
void must_run(const char *fmt, ...) PRINTF(1, 2);

/* The address of a place; @port in host order. */
struct sockaddr_storage world_addr(enum place where, bool is_v6, uint16_t port);
socklen_t addr_len(const struct sockaddr_storage *a);

/* An established connection of the two kernels; @client connects, the other accepts. */
struct pair {
	int end[2];                          /* HERE, THERE */
	struct sockaddr_storage local, peer; /* as HERE sees it */
};
void pair_open(const struct world *w, bool is_v6, enum place client,
	       struct pair *p);
void pair_close(struct pair *p);

/* How many tcx programs are at ingress of the device HERE.  (Older bpftools show none.) */
unsigned n_tcx(const struct world *w);
/* How many instructions the kernel's verifier has followed in the only one of them. */
uint32_t tcx_verified(const struct world *w);

/* The next frame, waited for up to 5 s; false when none came. */
bool port_wait(struct packet_port *p, struct packet_frame *out);

/* Offsets in a frame of TCP over IPv4 or IPv6 without options. */
static inline uint32_t tcp_at(bool is_v6) { return is_v6 ? 54 : 34; }
