/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/stat.h - the parts of "osf stat"
 *
 *     stat.c finds segments -> stat_print_*(now, before) -> standard output
 */
#pragma once
#include "seg.h"
#include <stdbool.h>

struct stat_view {
	const struct seg_list *now;
	const struct seg_list *before; /* for rates; NULL on the first turn */
	bool is_watching;              /* has columns of rates */
	bool wants_closed;             /* sums over closed sockets too */
};

void stat_print_table(const struct stat_view *v);
void stat_print_tabs(const struct stat_view *v);
void stat_print_json(const struct stat_view *v);

/* The same process in @before, or NULL. */
const struct seg *stat_before(const struct stat_view *v, const struct seg *seg);

/* Bytes per second that a socket received and sent since @before. */
struct stat_rate {
	uint64_t rx, tx;
};
struct stat_rate stat_rate(const struct seg *now, const struct seg *before,
			   const struct seg_sock *sock);
