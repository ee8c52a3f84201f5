/* SPDX-License-Identifier: MIT */
/*
 * tests/abi/proof.h - memory that ends where a structure ends
 *
 *     proof_old.c, proof_new.c -> "holds", or what does not -> proofs.py
 */
#pragma once

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "app.h"

#define PROOF_BYTE 0xa5

/* @size bytes of PROOF_BYTE, before a page that may not be touched. */
static inline void *proof_end_of_page(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *at = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || mprotect(at + page, page, PROT_NONE))
		app_fail("mmap", errno);
	return memset(at + page - size, PROOF_BYTE, size);
}

static inline void proof_need(bool is_so, const char *what)
{
	if (is_so)
		return;
	printf("does not hold: %s\n", what);
	exit(2);
}

static inline bool proof_is_untouched(const void *from, size_t size)
{
	const uint8_t *bytes = from;

	for (size_t i = 0; i < size; i++)
		if (bytes[i] != PROOF_BYTE)
			return false;
	return true;
}
