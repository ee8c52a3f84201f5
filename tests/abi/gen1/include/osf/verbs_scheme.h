/* SPDX-License-Identifier: MIT */
/*
 * osf/verbs_scheme.h - how programs, library and drivers of different ages work
 *                      together
 *
 *     program  --osf_f()-->  lib_f  --library-->  drv_f  --driver-->
 *
 * A program, libosf.so and a driver (osf/verbs_driver.h) are each compiled with
 * the headers of their own day.  Any of the three may be the oldest.  Three
 * rules make that work; docs/extending.md applies them step by step.
 *
 * Calls.  A new call adds no symbol.  Its inline function in osf/verbs_api.h
 * goes through a pointer in the context, and the context grows upwards, towards
 * lower addresses, so that what older code knows stays where it was:
 *
 *     lower addresses    a page that nobody may touch
 *                        drv_f2, lib_f2    generation 2
 *                        drv_f1, lib_f1    generation 1
 *                        has_ex, sz
 *                        struct osf_context
 *     higher addresses   the driver's own data
 *
 * sz is the size that the library gave the structure down to the end of struct
 * osf_context.  Who uses a pointer first asks whether sz reaches it.  The
 * context of a driver from before this scheme is a plain struct osf_context;
 * its abi_compat is not OSF_ABI_EXTENDED, and osf_get_ctx_ex() returns NULL.
 *
 * Structures end in a comp_mask and the fields that were added since.  Each
 * added field has a bit.  In an input, the writer sets the bits of the fields
 * that it filled in; the reader answers -EINVAL to a bit that it does not know,
 * and reads no field whose bit is not set.  In an output, the call is told the
 * size of the structure; it writes no byte behind that, and sets the bits of the
 * fields that it filled in.  Bit 31 is not a field: it says that the structure
 * has a comp_mask2 for more.
 *
 * Arrays.  The call is told the size of an element, which is the distance from
 * one to the next.
 */
#ifndef OSF_VERBS_SCHEME_H
#define OSF_VERBS_SCHEME_H

#include <stddef.h>
#include <stdint.h>

/* In osf_context.abi_compat: the context is the end of a struct
 * osf_context_ex. */
#define OSF_ABI_EXTENDED ((void *)UINTPTR_MAX)

/* In a comp_mask: the structure has a comp_mask2. */
#define OSF_COMP_MASK2 (UINT32_C(1) << 31)

/* Does the library know this member of struct osf_context_ex?  Not to be read
 * or written otherwise. */
#define OSF_CTX_HAS(ctx_ex, member)                                            \
	((ctx_ex)->sz >= sizeof(struct osf_context_ex) -                       \
			     offsetof(struct osf_context_ex, member))

/* Does a structure of @size bytes have this member? */
#define OSF_SIZE_HAS(size, type, member)                                       \
	((size) >= offsetof(type, member) + sizeof(((type *)0)->member))

/* Element @i of an array whose elements lie @stride bytes apart. */
#define OSF_ELEMENT(type, array, i, stride)                                    \
	((type *)(void *)((char *)(uintptr_t)(array) + (size_t)(i) * (stride)))

#endif
