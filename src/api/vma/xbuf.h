/* SPDX-License-Identifier: MIT */
/*
 * api/vma/xbuf.h - buffers that a program gets from SocketXtreme
 *
 * The bytes lie in a room (held.h), or where the protocol has lent them (below.h).  A
 * buffer counts the program's references.  We check a pointer that the program gives back
 * before we use it.
 */
#pragma once

#include "api/vma/below.h"
#include "api/vma/held.h"
#include "mellanox/vma_extra.h"

#define XBUF_MAX (1u << 20) /* that a program has at once */

/* A buffer for the next packet, which becomes the program's by xbuf_fill(); NULL: the
 * program has too many. */
struct vma_buff_t *xbuf_take(void);
void xbuf_cancel(struct vma_buff_t *b); /* takes NULL, too */
/* For @n bytes in @c; takes over the reference. */
void xbuf_fill(struct vma_buff_t *b, struct chunk *c, const void *data,
	       uint16_t n);
/* The same for bytes of @fd that were lent. */
void xbuf_fill_lent(struct vma_buff_t *b, int fd, const struct below_lent *l,
		    const void *data, uint16_t n);
/* References after the change, or -EINVAL. */
int xbuf_ref(struct vma_buff_t *b);
/* @next: NULL, or the next of its packet. */
int xbuf_unref(struct vma_buff_t *b, struct vma_buff_t **next);
