/* SPDX-License-Identifier: MIT */
/*
 * rdma/roce/crc.h - Ethernet's CRC-32, forwards and backwards
 *
 * The register is not inverted here, neither at the start nor at the end.  Long runs of
 * bytes are folded by carry-less multiplication where the processor has it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint32_t crc32_add(uint32_t crc, const void *p, size_t n);
/* The register as it was before the last @n bytes, which were zero.  @n < 65536. */
uint32_t crc32_undo_zeros(uint32_t crc, size_t n);
/* crc32_add() without that multiplication, for tests and other processors. */
uint32_t crc32_add_by_table(uint32_t crc, const void *p, size_t n);
