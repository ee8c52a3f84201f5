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
	bool is_wide;                  /* nothing is cut to the terminal */
	bool is_verbose;               /* our own TCP's figures, too */
	const struct stat_ports *ports;
};

/* The ports of this network namespace, as its osfd tells them (stat_ports.c). */
struct stat_ports {
	struct msg_listed *listed;
	size_t n;
};
void stat_ports_read(struct stat_ports *p); /* no osfd: none */
void stat_ports_free(struct stat_ports *p);
struct screen;
void stat_ports_print(const struct stat_ports *p, const struct screen *screen);
struct cJSON;
void stat_ports_json(const struct stat_ports *p, struct cJSON *top);

void stat_print_table(const struct stat_view *v);
void stat_print_tabs(const struct stat_view *v);
void stat_print_json(const struct stat_view *v);

/* All processes of one name.  @is_first: @now's segment @i is the first of them. */
struct stat_program {
	const char *name;
	size_t n_processes;
	struct seg_sums sums;
};
bool stat_is_first(const struct stat_view *v, size_t i);
struct stat_program stat_program(const struct stat_view *v, size_t i);

/* Whose row it is: the owner's, if he still holds it, else another holder's. */
pid_t stat_row_pid(const struct seg *seg, const struct seg_sock *sock);
/* Is it to be shown?  Rows that nobody holds are not. */
bool stat_is_shown(const struct stat_view *v, const struct seg_sock *sock);

/* The same process in @before, or NULL. */
const struct seg *stat_before(const struct stat_view *v, const struct seg *seg);

/* Bytes per second that a socket received and sent since @before. */
struct stat_rate {
	uint64_t rx, tx;
};
struct stat_rate stat_rate(const struct seg *now, const struct seg *before,
			   const struct seg_sock *sock);
