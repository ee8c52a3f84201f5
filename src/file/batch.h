/* SPDX-License-Identifier: MIT */
/*
 * file/batch.h - should a wait nap, so that news comes in batches?
 *
 *     epoll_wait() is about to sleep   ->  batch_naps()
 *     it reports a connection's event  ->  batch_add()
 *
 * A peer that wakes a thread on another core often spends more time on that than on the
 * request itself.  A client that sleeps as soon as it has taken all answers makes a busy
 * server pay that price again and again.  So such a client naps: it sleeps for a moment
 * without being woken, and then finds several answers at once.
 *
 * Meanwhile no peer may have to wait for us.  So a wait naps only if since the last sleep
 *
 *     - BATCH_MIN connections had news: else there is nothing to save;
 *     - no connection had news twice: else the peer had answered all that we had asked;
 *     - no peer slept when a thread of this process had news for it.
 *
 * The batch that follows a nap is judged in the same way.  If it was too small, or the peer
 * had to wait, the next waits sleep until they are woken, and more of them each time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BATCH_MIN 4u
#define BATCH_PAUSE 4u
#define BATCH_PAUSE_MAX 256u

/* Of a set, whose lock guards it; the zeroed struct is a valid one. */
struct batch {
	uint32_t number;  /* of the batch that is being collected */
	uint32_t n;       /* events in it */
	bool has_twice;   /* of one connection */
	bool follows_nap; /* it was collected after one */
	uint32_t n_met;   /* bell_sleepers_met() when it began */
	uint16_t pause;   /* the last one, in sleeps */
	uint16_t left;    /* of it */
};

/* An event of a connection is reported; @last: the connection's, 0 in the beginning. */
static inline void batch_add(struct batch *b, uint32_t *last)
{
	b->n++;
	b->has_twice |= *last == b->number + 1;
	*last = b->number + 1;
}

/*
 * Nobody wakes a thread that naps, so a nap must end soon.  How long it really lasts is up to
 * the kernel: to it comes the timer slack of the thread, and without high-resolution timers
 * all that is left of a jiffy.  So naps are measured, and when some in a row end late, this
 * process takes none for NAPS_OFF_NS.
 */
#define NAP_LATE_NS UINT64_C(300000)
#define NAPS_LATE_MAX 3u
#define NAPS_OFF_NS UINT64_C(10000000000)

/* Of a process; threads use it without a lock, and a lost count does no harm. */
struct naps {
	uint32_t n_late;    /* in a row */
	uint64_t off_until; /* 0: they are not off */
};

/* A nap from @from to @to was ended by its time alone. */
void naps_took(struct naps *p, uint64_t from, uint64_t to);
bool naps_are_off(struct naps *p, uint64_t now);

/* The thread is about to sleep; @n_met: bell_sleepers_met().  True: it is to nap. */
bool batch_naps(struct batch *b, uint32_t n_met);
