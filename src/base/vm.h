/* SPDX-License-Identifier: MIT */
/*
 * base/vm.h - large mappings of which little is in use
 *
 * Any thread may call it; there is no state.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

/**
 * map_sparse() - mmap() for memory that stays empty until it is used
 *
 * The kernel would give a program that locks its memory (mlockall(2)) every
 * page of a mapping at once, and would write every page into a core dump.  A
 * mapping with PROT_NONE avoids both, also when the program locks its memory
 * later.  use_sparse() makes parts of it usable.
 *
 * Return: as mmap(): MAP_FAILED and errno.
 */
static inline void *map_sparse(size_t bytes, int prot, int flags, int fd)
{
	void *at = mmap(NULL, bytes, PROT_NONE, flags | MAP_NORESERVE, fd, 0);

	if (at == MAP_FAILED)
		return at;
	munlock(at,
		bytes); /* nothing could be read yet, so nothing was filled */
	madvise(at, bytes, MADV_DONTDUMP);
	if (prot != PROT_NONE && mprotect(at, bytes, prot)) {
		int err = errno;

		munmap(at, bytes);
		errno = err;
		return MAP_FAILED;
	}
	return at;
}

/* Makes whole pages writable, and part of core dumps.  Return: false if memory is
 * short. */
static inline bool use_sparse(void *at, size_t bytes)
{
	if (mprotect(at, bytes, PROT_READ | PROT_WRITE))
		return false;
	madvise(at, bytes, MADV_DODUMP);
	return true;
}
