/* SPDX-License-Identifier: MIT */
/*
 * sock/packets.h - what became of a socket's packets, for APIs that count them
 *
 *     count(&p.at->n_dropped, 1)  ->  table of the statistics file  ->  vma_stats
 *
 * An API counts in p.at, wherever that is: a row of the file's table, or p.own when
 * the table is full.  After a fork the child counts in a file of its own, so p.at
 * changes; p must not move while it is open.
 */
#pragma once

#include <stdbool.h>

#include "osf/stats.h"

struct packets {
	struct osf_stats_packets *at, own;
};

void packets_open(struct packets *p, int fd, bool is_udp);
void packets_close(struct packets *p);
void packets_after_fork(void); /* in the child, when it has its file */
