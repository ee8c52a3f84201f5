/* SPDX-License-Identifier: MIT */
/*
 * tools/vma_stats/vma_stats.h - the parts of vma_stats, alias xlio_stats
 *
 *     main.c      options, and turns of one interval each
 *       |
 *       |                   index.c: look-ups of what others have written
 *       +-> find.c      the process that is meant, and its statistics file
 *       +-> rows.c      its sockets: the file, and what the kernel says of them
 *       +-> zero.c      what they had counted when somebody said -z
 *       +-> show_*.c    views 1 and 2, 3, 4, 5
 *       +-> control.c   what is written into a program: -l, -D, -S
 *
 * The numbers are those of osf/stats.h, which osf stat shows, too; the options and
 * the form are libvma's, because scripts read them.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "../osf/osf.h"
#include "../osf/seg.h"
#include "index.h"

enum view { VIEW_BASIC = 1, VIEW_MEDIUM, VIEW_FULL, VIEW_GROUPS, VIEW_NETSTAT };

/* libvma's levels of its log. */
enum vma_level {
	VMA_LEVEL_NONE = -1,
	VMA_LEVEL_ERROR = 1,
	VMA_LEVEL_INFO = 3,
	VMA_LEVEL_DEBUG = 5,
};

struct options {
	pid_t pid;        /* 0: not said */
	const char *name; /* NULL: not said */
	const char *dir;
	bool forbids_clean, is_zeroing, wants_deltas;
	unsigned interval_s;
	unsigned long cycles; /* 0: without end */
	enum view view;
	bool has_level, has_details, has_dump;
	int level, details, dump_fd, dump_level;
	/* Descriptors that are wanted: pairs of first and last; none: all. */
	int (*ranges)[2];
	size_t n_ranges;
};
bool is_wanted_fd(const struct options *o, int fd);

/* "vmastat: " or "xliostat: " in front: what the command is called. */
extern const char *own_name;
void tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void tell_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- find.c ---- */

/* A process, and a snapshot of its statistics. */
struct process {
	pid_t pid;
	struct seg_list list, all; /* its own; everybody's, for peers */
	struct seg *seg;           /* in @list */
	struct seg later;          /* the same after @all, or empty */
	int fd;                    /* the file itself, or -1 */
	struct osf_stats_packets *packets;
	size_t n_packets;
	struct osf_stats_log log;
	bool has_log;
	struct index ends; /* of @all: struct ends_key -> its number */
};

/* All that may be looked at, or the one that is meant.  Return: how many. */
size_t find_processes(const struct options *o, pid_t **pids);
/* Return: 0 or a negative errno; process_free() in any case. */
int process_read(struct process *p, pid_t pid, bool writes);
void process_free(struct process *p);
bool process_runs(pid_t pid);

/* ---- rows.c ---- */

/* What the views show of one direction and one carrier. */
struct counts {
	uint64_t packets, bytes, eagains, errors;
};

/* All numbers here only grow, and -z takes them back to 0. */
struct counters {
	struct counts rx, tx;       /* offloaded */
	struct counts os_rx, os_tx; /* the kernel's */
	uint64_t n_hits, n_misses;  /* waits that polling ended; that slept */
	uint64_t n_dropped, dropped_bytes, n_dummies;
};

struct row {
	int fd;
	bool is_udp, is_offloaded, is_blocking, is_multicast_loop;
	uint32_t idx, in_use; /* of the entry in the file; 0: none */
	uint64_t ino;
	uint8_t state;               /* as in /proc/net/tcp */
	struct in6_addr local, peer; /* IPv4 as v4-mapped */
	uint16_t local_port, peer_port;
	struct in_addr multicast_if;
	uint64_t rx_queue, tx_queue, rx_most, rx_limit; /* bytes */
	uint64_t n_lent;                                /* packets */
	struct counters c;
	uint64_t retransmits;
	struct in_addr *groups;
	size_t n_groups;
};

struct rows {
	struct row *rows;
	size_t n;
	uint64_t taken_ns;
	uint64_t n_tcp, n_all; /* for the view of all */
	struct index by_id;    /* struct row_id -> its number */
};

/* What says that a row is the same as one of another turn. */
struct row_id {
	uint64_t ino; /* UDP; else 0 */
	uint32_t idx, in_use, is_udp, unused;
};
static inline struct row_id row_id_of(const struct row *row)
{
	return (struct row_id){ row->is_udp ? row->ino : 0, row->idx,
				row->in_use, row->is_udp, 0 };
}

void rows_read(struct rows *r, const struct options *o, struct process *p);
void rows_free(struct rows *r);
struct row *rows_find(const struct rows *r, const struct row *like);
/* @now less @before, of @c, for each second. */
struct counters counters_less(const struct counters *now,
			      const struct counters *before, double seconds);
#define ROW_ADDR_MAX 64
void row_addr(const struct in6_addr *a, uint16_t port, char *out);

/* ---- kernel.c ---- */

/* Adds what the kernel says to rows that have a socket of @p's, and rows for UDP. */
void kernel_look(struct rows *r, const struct process *p, bool wants_groups);
/* O_* of @fd of process @pid; 0: not known. */
unsigned fd_flags(pid_t pid, int fd);
/* A descriptor of what @fd of process @pid is, or -1. */
int fd_copy(pid_t pid, int fd);

/* ---- zero.c ---- */

/* From now on the rows count from 0.  Return: 0, or a negative errno. */
int zero_now(const struct options *o, const struct process *p,
	     const struct rows *r);
/* Takes off what they had at the last zero_now(). */
void zero_apply(const struct options *o, const struct process *p,
		struct rows *r);
/* Removes files of processes that have ended. */
void zero_clean(const struct options *o);

/* ---- control.c ---- */

/* Return: a level of libvma's log, or @otherwise. */
int level_parse(const char *s, int otherwise);
const char *level_name(int level);
int control_log(const struct options *o, const struct process *p);
int control_dump(const struct options *o, const struct process *p,
		 const struct rows *r);

/* ---- views ---- */

/* @before: the last turn's, for -d 2; NULL for totals. */
struct shown {
	const struct options *o;
	const struct process *p;
	const struct rows *now, *before;
	unsigned *n_lines; /* since the last headings */
};
/* How a row is shown: its totals, or its changes. */
struct counters shown_counters(const struct shown *s, const struct row *row);
void show_table(const struct shown *s);
void show_full(const struct shown *s);
void show_groups(const struct shown *s);
void show_netstat(const struct shown *s);
void netstat_head(void);
void print_full(FILE *f, const struct row *row, const struct counters *c,
		const char *per);
