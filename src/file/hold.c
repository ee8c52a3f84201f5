/* SPDX-License-Identifier: MIT */
/* file/hold.c - see file/hold.h */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/nocancel.h"
#include "file/hold.h"
#include "sock/arena.h"
#include "sock/shared.h"

enum { CLAIM_NOT, CLAIM_BY_FORK, CLAIM_TAKEN, CLAIM_LEFT };

#define POLL_AT_ONCE 64
#define SLAB_BYTES 16384
#define CAP_MIN 4u
#define SHARE_OF_LIMIT 8 /* of the limit of descriptors, for children */

/* Process memory.  The child has a copy, at the same address. */
struct hold {
	struct hold *next;
	struct hold *up; /* in a child: what its parent was forked with */
	int life[2];     /* the pipe: [0] the parent's, [1] the child's */
	bool has_ended;
	uint32_t n, cap;
	uint32_t next_claim;
	uint32_t
	    n_mine; /* in a child: sockets for which it keeps life[1] open */
	struct claim *claims; /* shared; as many */
	struct holding h[];
};

static struct lock lock;
static struct hold *holds; /* of our children */
static uint32_t n_holds;
static struct hold *mine;             /* what we were forked with */
static struct hold *above;            /* the next whose giver may be gone */
static __thread struct hold *forking; /* between begin and parent or child */

/* Where the next list of each kind of memory comes from. */
struct slab {
	uint8_t *at;
	size_t left;
};

static struct slab private_slab, shared_slab;
static struct hold
    *free_holds[32]; /* with their claims, by the logarithm of cap */

static void *slab_take(struct slab *s, size_t bytes, int flags)
{
	bytes = (bytes + 15) & ~(size_t)15;
	if (s->left < bytes) {
		size_t more = bytes > SLAB_BYTES ? bytes : SLAB_BYTES;
		void *at = mmap(NULL, more, PROT_READ | PROT_WRITE,
				flags | MAP_ANONYMOUS, -1, 0);

		if (at == MAP_FAILED)
			return NULL;
		*s = (struct slab){ at, more };
	}
	s->at += bytes;
	s->left -= bytes;
	return s->at - bytes;
}

static unsigned log_of(uint32_t n)
{
	return n <= CAP_MIN ? (unsigned)__builtin_ctz(CAP_MIN)
			    : 32 - (unsigned)__builtin_clz(n - 1);
}

/* Share mappings: a mapping per child would be copied at each later fork. */
static struct hold *hold_new(uint32_t n)
{
	unsigned k = log_of(n);
	uint32_t cap = 1u << k;
	GUARD(&lock);
	struct hold *h = free_holds[k];
	struct claim *claims = h ? h->claims : NULL;

	if (h) {
		free_holds[k] = h->next;
	} else {
		h = slab_take(&private_slab,
			      sizeof(*h) + cap * sizeof(struct holding),
			      MAP_PRIVATE);
		claims = slab_take(&shared_slab, cap * sizeof(struct claim),
				   MAP_SHARED);
	}
	if (!h || !claims)
		return NULL;
	*h = (struct hold){ .life = { -1, -1 }, .cap = cap, .claims = claims };
	return h;
}

/* Anything from hold_new() on.  The caller holds the lock. */
static void hold_free(struct hold *h)
{
	unsigned k = log_of(h->cap);

	fds_close(h->life[0]);
	fds_close(h->life[1]);
	h->next = free_holds[k];
	free_holds[k] = h;
}

/* Each living child costs a descriptor.  If our descriptors have to lie among
 * the program's, we use only a part of the numbers, because the program must be
 * able to open its own files. */
static bool is_crowded(void)
{
	struct rlimit rl;

	return fds_reach() != INT_MAX && !getrlimit(RLIMIT_NOFILE, &rl) &&
	       n_holds >= rl.rlim_cur / SHARE_OF_LIMIT;
}

void hold_begin(uint32_t n)
{
	int life[2];

	forking = NULL;
	struct hold *h = n && !is_crowded() ? hold_new(n) : NULL;
	if (!h)
		return;
	if (pipe2(life, O_CLOEXEC | O_NONBLOCK) < 0) {
		GUARD(&lock);
		hold_free(h);
		return;
	}
	h->life[0] = fds_hide(life[0]);
	h->life[1] = fds_hide(life[1]);
	forking = h;
}

/* One socket less needs the pipe's write end. */
static void unkeep(struct hold *h)
{
	if (fetch_sub(&h->n_mine, 1) == 1)
		fds_close(xchg(&h->life[1], -1));
}

void hold_add(struct sock *sk, struct holding *up)
{
	struct hold *h = forking;

	if (!h || h->n == h->cap)
		return;
	h->claims[h->n] = (struct claim){ .own = CLAIM_BY_FORK };
	h->h[h->n] = (struct holding){ sk, load_rlx(&sk->st->in_use),
				       &h->claims[h->n], up, h };
	h->n++;
	for (; up; up = up->up) {
		fetch_add(&up->claim->below, 1);
		fetch_add(&up->hold->n_mine, 1); /* see reap() */
	}
}

void hold_parent(void)
{
	struct hold *h = forking;

	if (!h)
		return;
	forking = NULL;
	fds_close(h->life[1]);
	h->life[1] = -1;
	GUARD(&lock);
	n_holds++;
	h->next = holds;
	store_rlx(&holds, h); /* looked at without the lock */
}

void hold_child(void)
{
	lock_inherit(&lock);
	/* The parent's other children are not ours.  We also must not use the
	 * memory in which the parent will make claims for them. */
	for (struct hold *h = holds; h; h = h->next)
		fds_close(h->life[0]);
	memset(free_holds, 0, sizeof(free_holds));
	shared_slab = (struct slab){ 0 };
	holds = NULL;
	n_holds = 0;
	for (struct hold *h = mine; h; h = h->up)
		h->n_mine = 0;
	if (!forking)
		return;
	forking->up = mine;
	mine = forking;
	fds_close(mine->life[0]);
	mine->life[0] = -1;
	above = mine;
}

struct holding *hold_claim(const struct sock *sk)
{
	struct hold *h = forking;

	/* Sockets are claimed in the order in which they were added, except
	 * those that another thread was closing. */
	for (uint32_t i = 0; h && i < h->n; i++) {
		struct holding *at = &h->h[(h->next_claim + i) % h->n];

		if (at->sk != sk || at->claim->own != CLAIM_BY_FORK)
			continue;
		at->claim->own = CLAIM_TAKEN;
		h->next_claim = (uint32_t)(at - h->h) + 1;
		for (const struct holding *u = at; u; u = u->up)
			u->hold->n_mine++;
		return at;
	}
	return NULL;
}

/* @n claims have ended: so many processes no longer hold the socket. */
static void let_go(const struct holding *at, uint32_t n)
{
	for (const struct holding *up = at->up; up; up = up->up)
		fetch_sub(&up->claim->below, n);
	if (at->sk && arena_let_go(at->sk, (int32_t)n) &&
	    shared_all_let_go(at->sk))
		sock_free(at->sk);
}

void hold_claimed(void)
{
	struct hold *h;

	/* What another thread of the parent closed just before the fork is not
	 * ours, and its count may not be mapped here.  The parent ends the claim
	 * when we end. */
	/* Mapped for good: files and the lists of our children lead here. */
	for (h = mine; h; h = h->up)
		if (!h->n_mine) {
			fds_close(h->life[1]);
			h->life[1] = -1;
		}
	forking = NULL;
}

void hold_strike(struct holding *at)
{
	if (!at)
		return;
	store_rel(&at->claim->own, (uint32_t)CLAIM_NOT);
	for (struct holding *up = at->up; up; up = up->up)
		fetch_sub(&up->claim->below, 1);
	for (struct holding *u = at; u; u = u->up)
		unkeep(u->hold);
}

void hold_unkeep(struct holding *at)
{
	for (; at; at = at->up)
		unkeep(at->hold);
}

static void forget(struct hold *h, bool (*stays)(const struct sock *sk))
{
	for (uint32_t i = 0; i < h->n; i++)
		if (h->h[i].sk && !stays(h->h[i].sk))
			h->h[i].sk = NULL;
}

void hold_forget_all_but(bool (*stays)(const struct sock *sk))
{
	GUARD(&lock);
	for (struct hold *h = holds; h; h = h->next)
		forget(h, stays);
	for (struct hold *h = mine; h; h = h->up)
		forget(h, stays);
}

void hold_leave(struct holding *at)
{
	if (!at)
		return;
	store_rel(&at->claim->own, (uint32_t)CLAIM_LEFT);
	for (struct holding *up = at->up; up; up = up->up) {
		store_rel(&up->claim->left, 1u);
		fetch_sub(&up->claim->below, 1);
	}
}

/* The claim's process and all its descendants are gone. */
static void claim_end(const struct holding *at)
{
	struct sock *sk = at->sk;
	uint32_t own = xchg(&at->claim->own, (uint32_t)CLAIM_NOT);
	uint32_t n = xchg(&at->claim->below, 0u) +
		     (own == CLAIM_BY_FORK || own == CLAIM_TAKEN);

	if (n)
		let_go(at, n);
	else if (sk && (own == CLAIM_LEFT || at->claim->left) &&
		 load_acq(&sk->st->in_use) == at->in_use &&
		 arena_let_go(sk, 0) && /* and no other process holds it */
		 shared_all_let_go(sk))
		sock_free(sk);
}

/* Our own claims include those of our children.  We kept our parent's pipe open
 * for them so far, so that our parent did not count them as ended too. */
static void reap(struct hold *h)
{
	for (uint32_t i = 0; i < h->n; i++) {
		claim_end(&h->h[i]);
		for (struct holding *up = h->h[i].up; up; up = up->up)
			unkeep(up->hold);
	}
	n_holds--;
	hold_free(h);
}

/* Which of @n have ended? */
static bool ask(struct hold **some, nfds_t n)
{
	struct pollfd p[POLL_AT_ONCE];

	for (nfds_t i = 0; i < n; i++)
		p[i] = (struct pollfd){ .fd = some[i]->life[0] };
	if (nocancel_poll(p, n, 0) <= 0)
		return false;
	for (nfds_t i = 0; i < n; i++)
		some[i]->has_ended = p[i].revents & POLLHUP;
	return true;
}

static bool ask_all(void)
{
	struct hold *some[POLL_AT_ONCE];
	bool any = false;
	nfds_t n = 0;

	for (struct hold *h = holds; h; h = h->next) {
		some[n++] = h;
		if (n == POLL_AT_ONCE || !h->next) {
			any |= ask(some, n);
			n = 0;
		}
	}
	return any;
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
	if (!ask_all())
		return;
	for (struct hold **p = &holds, *h; (h = *p);) {
		if (!h->has_ended) {
			p = &h->next;
			continue;
		}
		store_rlx(p, h->next);
		reap(h);
	}
}

/* The process that forked us with @at is gone without releasing the socket. */
static void let_go_above(const struct holding *at)
{
	const struct holding *up = at->up;
	struct sock *sk = at->sk;

	if (!sk || load_acq(&sk->st->in_use) != at->in_use)
		return;
	if (up) {
		/* If it had parted from the socket, its own parent counts it. */
		if (up->sk && cas(&up->claim->own, (uint32_t)CLAIM_TAKEN,
				  (uint32_t)CLAIM_NOT))
			let_go(up, 1);
	} else if (sock_maker_lets_go(sk) && arena_let_go(sk, 1) &&
		   shared_all_let_go(sk)) {
		sock_free(sk);
	}
}

static bool is_claimed(const struct claim *c)
{
	uint32_t own = load_rlx(&c->own);

	return own == CLAIM_BY_FORK || own == CLAIM_TAKEN ||
	       load_rlx(&c->below);
}

static bool is_orphan(const struct hold *h)
{
	struct pollfd p = { .fd = load_rlx(&h->life[1]) };

	/* If another thread closes it meanwhile, we no longer poll it. */
	return p.fd >= 0 && nocancel_poll(&p, 1, 0) > 0 &&
	       p.revents & POLLERR && load_acq(&h->life[1]) == p.fd;
}

void hold_reap_above(void)
{
	struct hold *h;

	while ((h = load_rlx(&above)) && is_orphan(h)) {
		for (uint32_t i = 0; i < h->n; i++)
			if (is_claimed(&h->claims[i]))
				let_go_above(&h->h[i]);
		store_rlx(&above, h->up);
	}
}

static bool names(const struct hold *h, const struct sock *sk)
{
	for (uint32_t i = h->n; i-- > 0;)
		if (h->h[i].sk == sk && is_claimed(&h->claims[i]))
			return true;
	return false;
}

void hold_reap_of(const struct sock *sk)
{
	if (!load_rlx(&holds))
		return;
	GUARD(&lock);
	/* The youngest first: a server closes what it has just given to a child. */
	for (struct hold **p = &holds, *h; (h = *p);) {
		if (!names(h, sk)) {
			p = &h->next;
			continue;
		}
		ask(&h, 1);
		if (!h->has_ended)
			return;
		store_rlx(p, h->next);
		reap(h);
	}
}
