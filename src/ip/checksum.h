/* SPDX-License-Identifier: MIT */
/*
 * ip/checksum.h - the Internet checksum, over pieces of any length
 *
 * The sum is kept as it is on the wire: a piece that begins at an odd offset is
 * summed as if it began at an even one, and its sum is turned around.
 * Spec: RFC 1071
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cksum {
	uint32_t sum; /* folded to 16 bits after each piece */
	bool is_odd;  /* an odd number of bytes so far */
};

void cksum_add(struct cksum *c, const void *data, uint32_t len);

/* Adds a number of 16 bits in host order; only at even offsets. */
void cksum_add16(struct cksum *c, uint16_t v);

/* The field's value in host order. */
uint16_t cksum_end(const struct cksum *c);
