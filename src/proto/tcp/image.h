/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/image.h - a connection as osfd describes it, and as the engine has it
 *
 *     freeze: struct frozen, TCP_INFO of the anchor -> struct tcp_image -> tcp_import()
 *     tcp_export() -> struct tcp_image -> struct frozen, lengths of queues -> thaw
 *
 * struct frozen has what only TCP_REPAIR tells, in the kernel's units.  The program reads
 * the rest from its own descriptor.
 *
 * Owner: the caller; neither struct has pointers.
 */
#pragma once

#include "osfd/frozen.h"
#include "tcp/export.h"

/* What a thaw is given beside struct frozen: bytes of each part of the queues. */
struct image_queues {
	uint32_t n_unread, n_unacked, n_unsent;
};

/**
 * image_of_frozen() - the state from which the engine goes on
 * @fd: the anchor, frozen
 *
 * Return: 0, or a negative errno
 */
MUST_CHECK int image_of_frozen(const struct frozen *f, int fd,
			       struct tcp_image *out);

/**
 * frozen_of_image() - the state from which the kernel goes on
 * @f: as freeze had it; what the engine does not change stays
 */
void frozen_of_image(const struct tcp_image *x, struct frozen *f,
		     struct image_queues *q);
