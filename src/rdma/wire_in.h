/* SPDX-License-Identifier: MIT */
/* rdma/wire_in.h - what wire.c, wire_tx.c and wire_help.c share */
#pragma once

#include <netinet/in.h>

#include "rdma/wire.h"

struct wire {
	int fd;     /* UDP, bound to ROCE_PORT; shared with other processes */
	bool is_v6; /* it carries both; else IPv4 alone */
	uint32_t ifindex;
	struct lock rx_lock, tx_lock;
	uint64_t next_ns; /* wire_wake_at() */
	/* The thread. */
	bool has_helper;
	int bell;           /* an eventfd that wakes it */
	uint64_t sleeps_to; /* it wakes by itself; UINT64_MAX: not */
	uint32_t n_empty;   /* polls of the program that found nothing */
};

extern struct wire wire;

/* An address as the socket wants it. */
socklen_t wire_sockaddr(const uint8_t *addr, bool is_v6,
			struct sockaddr_storage *ss);
void wire_helper_wake(void);
