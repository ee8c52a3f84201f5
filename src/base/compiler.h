/* SPDX-License-Identifier: MIT */
/* base/compiler.h - short names for the compiler extensions that the tree uses */
#pragma once

#include <assert.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define HOT __attribute__((hot))
#define COLD __attribute__((cold, noinline))
#define MUST_CHECK __attribute__((warn_unused_result))
#define OSF_API __attribute__((visibility("default")))
#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
/* Also for functions that only prefetch.  GCC 12 believes that they have no effect, and
 * drops calls that it has not inlined before. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define CACHE_LINE 64

#define MIN(a, b)                                                              \
	({                                                                     \
		typeof(a) a_ = (a);                                            \
		typeof(b) b_ = (b);                                            \
		a_ < b_ ? a_ : b_;                                             \
	})

#define MAX(a, b)                                                              \
	({                                                                     \
		typeof(a) a_ = (a);                                            \
		typeof(b) b_ = (b);                                            \
		a_ > b_ ? a_ : b_;                                             \
	})

#define container_of(ptr, type, member)                                        \
	((type *)((char *)(ptr)-offsetof(type, member)))

/* Fetches the cache line at @p for writing, so that this core owns it by then. */
static inline void prefetch_write(const void *p)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

/* Whether the kernel would answer a pointer with EFAULT, judged by its value: the first
 * page, and addresses that no program has. */
#define is_bad_ptr(p) unlikely((uintptr_t)(p) < 4096 || (uintptr_t)(p) >> 47)

/* Assertions that are too slow for hot paths outside of tests. */
#ifdef OSF_DEBUG
#define dassert(x) assert(x)
#else
#define dassert(x) ((void)0)
#endif
