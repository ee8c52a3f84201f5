/* SPDX-License-Identifier: MIT */
/*
 * api/vma/area.h - memory of the program's, for the packets of some of its sockets
 *
 *     SO_VMA_RING_USER_MEMORY  ->  area_of()  ->  struct room  ->  area_take(): a chunk
 *
 * Sockets that name the same memory share it.  An area stays for good: the program may
 * hold packets there when all its sockets are closed.
 */
#pragma once

#include <stddef.h>
#include <sys/uio.h>

#include "base/compiler.h"

#define AREAS_MAX 1024u /* of a program */

struct area;
struct chunk;

/* Of @at.  NULL: *@err is -EINVAL (too small for a chunk, or a bad address) or -ENOMEM. */
struct area *area_of(const struct iovec *at, int *err);
/* A chunk; NULL: all are in use. */
MUST_CHECK struct chunk *area_take(struct area *a);
void area_put(struct area *a, struct chunk *c);
