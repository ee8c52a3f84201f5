/* SPDX-License-Identifier: MIT */
/*
 * base/atomic.h - atomic operations with short names that include their order
 *
 * They work on plain objects, so the layout of structs in shared memory does not depend
 * on _Atomic.  A comment beside each store_rel() names the load_acq() that it pairs
 * with.
 */
#pragma once

#include <stdbool.h>
#include <sys/single_threaded.h>

#define load_rlx(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define load_acq(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define load_seq(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define store_rlx(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define store_rel(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define xchg(p, v) __atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST)
#define fetch_add(p, v) __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST)
#define fetch_sub(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_SEQ_CST)
#define fetch_or(p, v) __atomic_fetch_or((p), (v), __ATOMIC_SEQ_CST)
#define fetch_and(p, v) __atomic_fetch_and((p), (v), __ATOMIC_SEQ_CST)
#define fence_full() __atomic_thread_fence(__ATOMIC_SEQ_CST)

#define cas(p, expected, v)                                                    \
	({                                                                     \
		typeof(*(p)) exp_ = (expected);                                \
		__atomic_compare_exchange_n((p), &exp_, (v), false,            \
					    __ATOMIC_SEQ_CST,                  \
					    __ATOMIC_RELAXED);                 \
	})

/* Counts for statistics.  An increment may get lost between two writers; that costs
 * less than an atomic one. */
#define count(p, n) store_rlx((p), load_rlx(p) + (n))

/* True while this process has one thread: atomics can then be plain. */
static inline bool is_single_threaded(void) { return __libc_single_threaded; }

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#endif
}
