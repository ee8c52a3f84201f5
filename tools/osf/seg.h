/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/seg.h - snapshots of statistics files (osf/stats.h)
 *
 *     fd -> seg_read() -> struct seg, checked -> stat, run --stats, bench
 *
 * A segment was written by another program: a file that is short, changes
 * length or lies about its sizes gives an error and never a fault, because it
 * is copied with pread() and not mapped.
 */
#pragma once
#include "base/drop.h"
#include "osf/stats.h"
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define SEG_WHY_MAX 128
#define SEG_PIDS_MAX 8
#define SEG_NAME_MAX 64

struct seg_sock {
	uint32_t idx; /* entry number, for matching two snapshots */
	struct osf_stats_sock s;
	bool has_bytes;  /* bytes over the kernel are all there */
	bool has_ops;    /* calls are */
	unsigned reason; /* s.reason, or what look.h found to be truer */

	/* The rest is look.h's to fill. */
	bool is_gone; /* nobody holds it any more */
	pid_t pids[SEG_PIDS_MAX];
	unsigned n_pids; /* holders, which may be more than fit; 0: not known */
	pid_t peer_pid;
	char peer_program[SEG_NAME_MAX];
	unsigned peer_reason; /* why the peer's osf keeps it there; or NONE */
	uint64_t ino;
};

/* One process at one instant.  All text in it is printable ASCII. */
struct seg {
	struct osf_stats_header head;
	struct seg_sock *socks; /* the open ones */
	size_t n_socks;
	size_t n_gone;     /* of them, those that nobody holds */
	pid_t found_pid;   /* its number here; 0: found in a directory */
	uint64_t taken_ns; /* CLOCK_MONOTONIC */
	dev_t dev;
	ino_t ino; /* tells whether two descriptors are one segment */
};

/* Closed and open sockets together. */
struct seg_sums {
	struct osf_stats_totals t; /* n_reason, n_uncounted too */
	uint64_t n_open;
};

/* What the segments of one user have cost so far: see seg_read(). */
struct seg_cost {
	uid_t uid;
	uint64_t n_bytes, n_socks; /* looked at; kept */
};

struct seg_list {
	struct seg *segs;
	size_t n;
	struct seg_cost *costs; /* a line for each user */
	size_t n_costs;
	unsigned n_bad; /* files that were not segments */
	bool is_quiet;  /* do not complain about those */
};

/**
 * seg_read() - take a snapshot
 * @costs: the list's, for the bounds on what one user's segments may cost
 * @why: SEG_WHY_MAX bytes; filled on error with what is wrong with the file
 *
 * A user must not be able to make another user's command read and keep any amount
 * of memory.  So there is a limit for all segments that belong to one user, far
 * above what a million sockets need.  The caller's own segments have no limit.
 *
 * Return: 0, or
 *   -EAGAIN     its process has not written the header yet
 *   -EBADMSG    not a segment, or one whose sizes contradict each other
 *   -EPROTONOSUPPORT  a version this command does not know
 *   -E2BIG      its user's segments are too large
 *   -EIO and others   as pread(2)
 * Owns: seg_free() frees what @seg holds.
 */
int seg_read(struct seg *seg, int fd, struct seg_list *costs, char *why);
void seg_free(struct seg *seg);

/* Adds what @seg's process did to @sums. */
void seg_sums_add(struct seg_sums *sums, const struct seg *seg);

/* Reads every file of DIR whose name ends in .osf.  Return: 0, or a negative errno if DIR
 * itself cannot be read */
int seg_list_dir(struct seg_list *l, const char *dir);

/* Of segments that were found in a directory: which processes run? */
void seg_list_running(struct seg_list *l);

/* Reads the segment that process @pid has open, if any.  Return: 0, or a negative errno if
 * the caller may not see its descriptors */
int seg_list_pid(struct seg_list *l, pid_t pid);

/* Is @inner the number that process @pid has in its own pid namespace?  /proc/PID/status
 * has all its numbers, the innermost last. */
bool seg_is_own_pid(pid_t pid, uint32_t inner);

/* Every process whose descriptors may be seen. */
int seg_list_all(struct seg_list *l);
void seg_list_free(struct seg_list *l);

/* Sums up what all processes that left a segment in @dir did; @n_segs may be NULL. */
struct seg_sums seg_dir_sums(const char *dir, size_t *n_segs);

/* Names from the numbers of osf/stats.h, for numbers from anywhere. */
const char *seg_proto_name(const struct osf_stats_sock *s);
const char *seg_reason_name(unsigned reason); /* "no_peer" */
const char *seg_reason_text(unsigned reason); /* "the peer does not ..." */
/* What would change it, or NULL. */
const char *seg_reason_advice(unsigned reason);

/* The same for frames that our own TCP has dropped: the places of n_drop. */
const char *seg_drop_name(unsigned reason); /* "paws" */
const char *seg_drop_text(unsigned reason);

/* An endpoint as text: "127.0.0.1:80", "[::1]:80", "*" for none. */
#define SEG_ADDR_MAX 64
void seg_addr_text(const struct osf_stats_sock *s, bool is_peer, char *out);
