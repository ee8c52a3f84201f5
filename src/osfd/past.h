/* SPDX-License-Identifier: MIT */
/*
 * osfd/past.h - a page of memory for each program of each user
 *
 *     MSG_PAST, with a number that names a command line -> pasts_page() -> a memfd
 *
 * Processes of one user that run the same command line share a page.  They write into it
 * whether their connections gained by moving, and the next process reads it
 * (proto/tcp/past.h).  osfd keeps the page while no such process runs, and never looks into
 * it.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"

#define PAST_BYTES 4096
/* A user's page that was asked for longest ago makes room for another one of the same user. */
#define PASTS_PER_UID 32
#define PASTS_MAX 256

struct past_page {
	int fd; /* 0: a free entry */
	uint32_t uid;
	uint64_t program;
	uint64_t asked; /* by pasts.n_asked */
};

struct pasts {
	struct past_page page[PASTS_MAX];
	uint64_t n_asked;
};

/* Return: a descriptor that stays osfd's, -ENOSPC: other users have all pages, or another
 * negative errno */
MUST_CHECK int pasts_page(struct pasts *p, uint32_t uid, uint64_t program);
