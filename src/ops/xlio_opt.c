/* SPDX-License-Identifier: MIT */
/* ops/xlio_opt.c - see ops/xlio_opt.h */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/compiler.h"
#include "mellanox/vma_extra.h"
#include "mellanox/xlio_types.h"
#include "ops/xlio_opt.h"

#define RING_MASKS                                                             \
	(XLIO_RING_ALLOC_MASK_RING_USER_ID |                                   \
	 XLIO_RING_ALLOC_MASK_RING_INGRESS |                                   \
	 XLIO_RING_ALLOC_MASK_RING_ENGRESS)
#define VMA_RING_MASKS                                                         \
	(VMA_RING_ALLOC_MASK_RING_PROFILE_KEY |                                \
	 VMA_RING_ALLOC_MASK_RING_USER_ID | VMA_RING_ALLOC_MASK_RING_INGRESS | \
	 VMA_RING_ALLOC_MASK_RING_ENGRESS)
#define KBIT_BYTES 125ul

bool xlio_opt_ring_logic(int level, int name, const void *val, socklen_t len,
			 int *err)
{
	struct xlio_ring_alloc_logic_attr attr;

	if (level != SOL_SOCKET || name != SO_XLIO_RING_ALLOC_LOGIC)
		return false;
	if (is_bad_ptr(val)) {
		*err = -EFAULT;
		return true;
	}
	*err = -EINVAL;
	/* libvma's struct begins in the same way. */
	if (len != sizeof(attr) &&
	    len != sizeof(struct vma_ring_alloc_logic_attr))
		return true;
	memcpy(&attr, val, sizeof(attr));
	unsigned known = len == sizeof(attr) ? RING_MASKS : VMA_RING_MASKS;
	if (!(attr.comp_mask & ~known))
		*err = 0;
	return true;
}

bool xlio_opt_pacing(int level, int name, const void *val, socklen_t len,
		     unsigned long *rate)
{
	struct xlio_rate_limit_t limit;

	if (level != SOL_SOCKET || name != SO_MAX_PACING_RATE ||
	    len != sizeof(limit) || is_bad_ptr(val))
		return false;
	memcpy(&limit, val, sizeof(limit));
	*rate = limit.rate ? limit.rate * KBIT_BYTES : ULONG_MAX;
	return true;
}
