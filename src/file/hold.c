/* SPDX-License-Identifier: MIT */
/* file/hold.c - see file/hold.h */
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/libc.h"
#include "base/lock.h"
#include "file/hold.h"
#include "sock/arena.h"

enum { HELD_NOT, HELD_BY_FORK, HELD_CLAIMED };

struct hold {
	struct hold *next;
	int life[2]; /* the pipe: [0] the parent's, [1] the child's */
	uint32_t n, cap;
	uint32_t next_claim;
	struct holding h[];
};

static struct lock lock;
static struct hold *holds;            /* of our children */
static __thread struct hold *forking; /* between begin and parent or child */

static size_t hold_bytes(uint32_t n)
{
	return sizeof(struct hold) + n * sizeof(struct holding);
}

void hold_begin(uint32_t n)
{
	int life[2];

	forking = NULL;
	if (!n || pipe2(life, O_CLOEXEC | O_NONBLOCK) < 0)
		return;
	struct hold *h = mmap(NULL, hold_bytes(n), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (h == MAP_FAILED) {
		libc.close(life[0]);
		libc.close(life[1]);
		return;
	}
	h->life[0] = fds_hide(life[0]);
	h->life[1] = fds_hide(life[1]);
	h->cap = n;
	forking = h;
}

void hold_add(struct sock *sk)
{
	struct hold *h = forking;

	if (h && h->n < h->cap)
		h->h[h->n++] = (struct holding){ sk, HELD_BY_FORK };
}

void hold_parent(void)
{
	struct hold *h = forking;

	if (!h)
		return;
	forking = NULL;
	fds_close(h->life[1]);
	GUARD(&lock);
	h->next = holds;
	store_rlx(&holds, h); /* looked at without the lock */
}

void hold_child(void)
{
	lock = (struct lock){ 0 };
	/* The parent's other children are not ours. */
	for (struct hold *h = holds, *next; h; h = next) {
		next = h->next;
		fds_close(h->life[0]);
		munmap(h, hold_bytes(h->cap));
	}
	holds = NULL;
	if (forking)
		fds_close(forking->life[0]);
}

struct holding *hold_claim(const struct sock *sk)
{
	struct hold *h = forking;

	/* Asked for in the order in which they were added, but for those that
	 * another thread was closing. */
	for (uint32_t i = 0; h && i < h->n; i++) {
		struct holding *at = &h->h[(h->next_claim + i) % h->n];

		if (at->sk != sk || at->held != HELD_BY_FORK)
			continue;
		at->held = HELD_CLAIMED;
		h->next_claim = (uint32_t)(at - h->h) + 1;
		return at;
	}
	return NULL;
}

static void let_go(struct holding *at)
{
	if (fetch_sub(&at->sk->n_procs, 1) == 1)
		sock_free(at->sk);
}

void hold_claimed(void)
{
	struct hold *h = forking;

	for (uint32_t i = 0; h && i < h->n; i++)
		if (cas(&h->h[i].held, (uint32_t)HELD_BY_FORK,
			(uint32_t)HELD_NOT))
			let_go(&h->h[i]);
	forking = NULL; /* stays mapped, and its pipe open, till we end */
}

void hold_strike(struct holding *at)
{
	if (at)
		store_rel(&at->held, (uint32_t)HELD_NOT);
}

static bool has_ended(const struct hold *h)
{
	struct pollfd p = { .fd = h->life[0] };

	return libc.poll(&p, 1, 0) > 0 && p.revents & POLLHUP;
}

bool hold_any(void)
{
	if (likely(!load_rlx(&holds)))
		return false;
	hold_reap();
	return load_rlx(&holds);
}

void hold_reap(void)
{
	if (!load_rlx(&holds))
		return;
	GUARD(&lock);
	for (struct hold **p = &holds, *h; (h = *p);) {
		if (!has_ended(h)) {
			p = &h->next;
			continue;
		}
		store_rlx(p, h->next);
		for (uint32_t i = 0; i < h->n; i++)
			if (xchg(&h->h[i].held, (uint32_t)HELD_NOT))
				let_go(&h->h[i]);
		fds_close(h->life[0]);
		munmap(h, hold_bytes(h->cap));
	}
}
