/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/tap.h - the programs whose frames "osf tap" writes
 *
 *     /proc/PID/fd/N -> "/memfd:osf-tap (deleted)" -> struct tap_source
 */
#pragma once
#include "port/tap.h"
#include <stddef.h>
#include <sys/types.h>

/* A program's tap. */
struct tap_source {
	struct tap_reader reader;
	dev_t dev;
	ino_t ino;
	pid_t pid;
	char name[64]; /* "redis-server (1234)" */
	uint32_t interface;
	bool has_ended; /* its process */
	bool is_liar;   /* nothing more is read of it */
};

struct tap_sources {
	const char *dev;   /* only of this device; NULL: of any */
	const pid_t *pids; /* only of these processes */
	size_t n_pids;     /* 0: of all */
	struct tap_source *of;
	size_t n;
	unsigned
	    n_denied; /* named processes whose descriptors cannot be seen */
};

/* Adds those that are there and not known yet. */
void tap_sources_find(struct tap_sources *s);
/* Forgets the programs that had ended at the last call.  One that ends later stays until
 * the next call, so that the caller can read its last frames. */
void tap_sources_check(struct tap_sources *s);
void tap_sources_free(struct tap_sources *s);
