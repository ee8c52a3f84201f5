/* SPDX-License-Identifier: MIT */
/*
 * base/chaos.h - atomic operations and raw system calls that wait at random
 *
 *     load_acq(p)   is   CHAOS(); v = __atomic_load_n(p, __ATOMIC_ACQUIRE); CHAOS(); v
 *
 * For `make chaos` alone (-Dchaos=true): the compiler then includes this file in front
 * of each source of libosf.so, so in any other build it changes nothing.  What goes
 * wrong only if a thread is stopped between two of its steps takes weeks to show by
 * itself, because those steps are nanoseconds apart.  Here they are up to 20 ms apart.
 *
 *     OSF_CHAOS=SEED[,RATE[,FOCUS[,FOCUS_RATE[,MAX_US]]]]
 *
 * One of FOCUS places in the source is chosen by SEED, and waits once in FOCUS_RATE
 * times; all others wait once in RATE times, up to MAX_US.  Without OSF_CHAOS nothing
 * waits.  SEED repeats the choice of places; the times are the machine's.
 */
#pragma once

#include <stdint.h>

#include "base/rawcall.h"

/* What chaos() has decided about one place in the source. */
enum chaos_place { PLACE_NEW, PLACE_NEVER, PLACE_USUAL, PLACE_FOCUS };

void chaos(uint8_t *place, const char *file, int line);

#define CHAOS()                                                                \
	({                                                                     \
		static uint8_t place_;                                         \
		chaos(&place_, __FILE__, __LINE__);                            \
	})
#define CHAOS_VALUE(operation)                                                 \
	({                                                                     \
		CHAOS();                                                       \
		__auto_type value_ = operation;                                \
		CHAOS();                                                       \
		value_;                                                        \
	})

/* A macro's own name in its text is not replaced again: it is the operation. */
#define rawcall6(...) CHAOS_VALUE(rawcall6(__VA_ARGS__))
#define __atomic_load_n(...) CHAOS_VALUE(__atomic_load_n(__VA_ARGS__))
#define __atomic_exchange_n(...) CHAOS_VALUE(__atomic_exchange_n(__VA_ARGS__))
#define __atomic_fetch_add(...) CHAOS_VALUE(__atomic_fetch_add(__VA_ARGS__))
#define __atomic_fetch_sub(...) CHAOS_VALUE(__atomic_fetch_sub(__VA_ARGS__))
#define __atomic_fetch_or(...) CHAOS_VALUE(__atomic_fetch_or(__VA_ARGS__))
#define __atomic_fetch_and(...) CHAOS_VALUE(__atomic_fetch_and(__VA_ARGS__))
#define __atomic_compare_exchange_n(...)                                       \
	CHAOS_VALUE(__atomic_compare_exchange_n(__VA_ARGS__))
#define __atomic_store_n(...)                                                  \
	({                                                                     \
		CHAOS();                                                       \
		__atomic_store_n(__VA_ARGS__);                                 \
		CHAOS();                                                       \
	})
#define __atomic_thread_fence(...)                                             \
	({                                                                     \
		CHAOS();                                                       \
		__atomic_thread_fence(__VA_ARGS__);                            \
		CHAOS();                                                       \
	})
