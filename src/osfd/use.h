/* SPDX-License-Identifier: MIT */
/*
 * osfd/use.h - how many flows a grant has: written by its worker, read by all of osfd
 *
 *     grant_open() -> use_begin() -> a number
 *     worker: a flow -> use_take(); it ends -> use_give()
 *     osfd: a port without flows is removed -> use_end_unused(); the worker's end -> use_end()
 *
 * The entries are in memory that osfd shares with its workers.  osfd never uses a grant's
 * number again.  The number lies in the same word as the count, so that a worker cannot
 * give a flow to a grant that osfd has just ended.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct use {
	uint64_t
	    word; /* the number, 32 bits; how many flows, 32 bits; 0: no grant */
	uint32_t port; /* an index; osfd writes it */
	/* Connections of its program after death: given to the kernel, and reset. */
	uint64_t n_thawed, n_reset;
};

void use_begin(struct use *u, uint32_t number, uint32_t port);
/* Return: false where the grant has ended */
bool use_take(struct use *u, uint32_t number);
void use_give(struct use *u, uint32_t number);
uint32_t use_n(const struct use *u);
bool use_is(const struct use *u, uint32_t number);
void use_end(struct use *u);
/* Return: false where the grant has flows; then nothing has changed */
bool use_end_unused(struct use *u, uint32_t number);
