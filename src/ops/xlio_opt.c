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
#define VLANS 4096u /* 12 bits of a frame's tag */

static bool is_ring_logic(const void *val, socklen_t len)
{
	struct xlio_ring_alloc_logic_attr attr;

	/* libvma's struct begins in the same way. */
	if (len != sizeof(attr) &&
	    len != sizeof(struct vma_ring_alloc_logic_attr))
		return false;
	memcpy(&attr, val, sizeof(attr));
	unsigned known = len == sizeof(attr) ? RING_MASKS : VMA_RING_MASKS;
	return !(attr.comp_mask & ~known);
}

static bool is_vlan(const void *val, socklen_t len)
{
	uint32_t tag = VLANS;

	if (len == sizeof(tag))
		memcpy(&tag, val, sizeof(tag));
	return tag < VLANS;
}

bool xlio_opt_check(int level, int name, const void *val, socklen_t len,
		    int *err)
{
	bool is_logic = name == SO_XLIO_RING_ALLOC_LOGIC;

	if (level != SOL_SOCKET || (!is_logic && name != SO_XLIO_EXT_VLAN_TAG))
		return false;
	if (is_bad_ptr(val))
		*err = -EFAULT;
	else if (is_logic ? is_ring_logic(val, len) : is_vlan(val, len))
		*err = 0;
	else
		*err = -EINVAL;
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
