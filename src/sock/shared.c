/* SPDX-License-Identifier: MIT */
/* sock/shared.c - see sock/shared.h */
#include <errno.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "sock/shared.h"

/* If this many CAS fail, another process does nothing but disturb us. */
#define TRIES 1000

/* A page that was dropped before a fork does not exist in the child. */
static uint32_t epoch;

static void numbers_out(const struct sock *sk, struct shared_numbers *s)
{
	*s = (struct shared_numbers){
		.nonblock = sk->nonblock,
		.shut = sk->shut,
		.anchor_deaf = sk->anchor_deaf,
		.anchor_end = sk->anchor_end,
		.nodelay = sk->nodelay,
		.cork = sk->cork,
		.inq = sk->inq,
		.times = sk->times,
		.zc_on = sk->zc_on,
		.anchor_err = sk->anchor_err,
		.rcvlowat = sk->rcvlowat,
		.errq = sk->errq,
		.zc_next = sk->zc_next,
		.zc_done = sk->zc_done,
		.zc_kernel = sk->zc_kernel,
		.rcvtimeo_ns = sk->rcvtimeo_ns,
		.sndtimeo_ns = sk->sndtimeo_ns,
	};
}

static void numbers_in(struct sock *sk, const struct shared_numbers *s)
{
	store_rlx(&sk->nonblock, s->nonblock);
	store_rlx(&sk->shut, (uint8_t)(s->shut & (SHUT_BIT_RD | SHUT_BIT_WR)));
	store_rlx(&sk->anchor_deaf, s->anchor_deaf);
	store_rlx(&sk->anchor_end,
		  (uint8_t)(s->anchor_end <= ANCHOR_RST ? s->anchor_end
							: ANCHOR_RST));
	store_rlx(&sk->nodelay, s->nodelay);
	store_rlx(&sk->cork, s->cork);
	store_rlx(&sk->inq, s->inq);
	store_rlx(&sk->times, s->times);
	store_rlx(&sk->zc_on, s->zc_on);
	store_rlx(&sk->anchor_err, s->anchor_err >= 0 && s->anchor_err < 4096
				       ? s->anchor_err
				       : ECONNRESET);
	store_rlx(&sk->rcvlowat, s->rcvlowat > 0 ? s->rcvlowat : 1);
	store_rlx(&sk->errq, s->errq);
	store_rlx(&sk->zc_next, s->zc_next);
	store_rlx(&sk->zc_done, s->zc_done);
	store_rlx(&sk->zc_kernel, s->zc_kernel);
	store_rlx(&sk->rcvtimeo_ns, s->rcvtimeo_ns);
	store_rlx(&sk->sndtimeo_ns, s->sndtimeo_ns);
}

/* Can another process have moved a socket from mode @from to mode @to? */
static bool may_become(enum sock_mode from, uint32_t to)
{
	if (to == from || to == SOCK_KERNEL)
		return to < SOCK_SHARED;
	return (from == SOCK_CANDIDATE && to == SOCK_SHM) ||
	       (from <= SOCK_SHM && from >= SOCK_CANDIDATE &&
		to == SOCK_UPGRADING);
}

const struct sock_ops *shared_protocol(const struct sock *sk)
{
	return sock_tables[sock_mode(sk)];
}

/* Import what the previous holder left.  The caller holds the page's lock. */
int page_import(struct sock *sk, const struct shared_page *p)
{
	const volatile struct shared_numbers *from = &p->s;
	struct shared_numbers s = *from;
	uint32_t mode = load_rlx(&p->mode);

	if (!may_become(sock_mode(sk), mode))
		return -EPROTO;
	/* Another process gives it to the kernel; or it has died in the middle. */
	if (mode == SOCK_UPGRADING)
		return load_rlx(&p->n_procs) > 1 ? -EAGAIN : -EPROTO;
	numbers_in(sk, &s);
	if (mode != sock_mode(sk))
		sock_set_mode(sk, (enum sock_mode)mode);
	const struct sock_ops *ops = shared_protocol(sk);
	return ops->import ? ops->import(sk, p->conn) : 0;
}

void page_export(const struct sock *sk, struct shared_page *p)
{
	const struct sock_ops *ops = shared_protocol(sk);

	numbers_out(sk, &p->s);
	if (ops->export)
		ops->export(sk, p->conn);
	store_rlx(&p->mode, (uint32_t)sock_mode(sk));
}

static struct shared_page *page_new(void)
{
	struct shared_page *p = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	p->n_procs = p->maker_has = 1;
	return p;
}

int sock_share(struct sock *sk)
{
	struct shared_page *p = sk->page ? sk->page : page_new();

	if (!p)
		return -ENOMEM;
	GUARD(&sk->rx_lock); /* nobody begins to sleep, or ends */
	GUARD(&sk->tx_lock);
	store_rel(&sk->page, p);
	if (!sock_is_shared(sk)) {
		store_rlx(&sk->page->n_sleepers, sk->n_sleepers);
		page_export(sk, sk->page);
		fetch_or(&sk->state, SOCK_SHARED);
	}
	fetch_add(&sk->page->n_procs, 1);
	return 0;
}

/* Keep the page mapped: a thread may be waiting for its lock, and the claims
 * of our children refer to its count of holders. */
void sock_unshare(struct sock *sk)
{
	struct shared_page *p = sk->page;

	if (!sock_is_shared(sk) || load_rlx(&p->n_procs) > 1 ||
	    load_rlx(&sk->n_sleepers) ||
	    !lock_get_within(&p->lock, SHARED_LOCK_NS))
		return;
	GUARD(&sk->rx_lock); /* nobody begins to sleep */
	if (load_rlx(&p->n_procs) == 1 && !load_rlx(&sk->n_sleepers) &&
	    !page_import(sk, p)) {
		/* Those were killed in their sleep. */
		store_rlx(&p->n_sleepers, 0u);
		fetch_and(&sk->state, ~SOCK_SHARED);
	}
	lock_put(&p->lock);
}

bool shared_let_go(struct sock *sk)
{
	struct shared_page *p = sk->page;

	if (p)
		madvise(p, SHARED_BYTES, MADV_DONTFORK);
	store_rel(&sk->is_held, (uint8_t)0);
	fence_full(); /* whoever counts the last holder down looks at is_held */
	return p && load_rlx(&p->n_procs) < 0;
}

void shared_init(struct sock *sk) { sk->epoch = epoch; }
void shared_child(void) { epoch++; }

void sock_inherit(struct sock *sk, bool calls)
{
	sk->epoch = epoch;
	sk->rx_lock = sk->tx_lock = (struct lock){ 0 };
	sk->n_sleepers = 0; /* each has its parent's count */
	if (!calls) /* of the parent's other threads, which will not end here */
		sk->state &= ~SOCK_COUNT_MASK;
}

void shared_unmap(struct sock *sk)
{
	struct shared_page *p = sk->page;

	store_rel(&sk->page, NULL);
	fetch_and(&sk->state, ~SOCK_SHARED);
	if (p && sk->epoch == epoch)
		munmap(p, SHARED_BYTES);
}

void shared_is_kernels(struct sock *sk)
{
	struct shared_page *p = sk->page;

	if (p)
		store_rlx(&p->mode, (uint32_t)SOCK_KERNEL);
}

bool shared_hold(struct sock *sk)
{
	struct lock *l = &sk->page->lock;

	return (load_rlx(&l->word) & ~LOCK_WAITERS) != lock_self() &&
	       lock_get_within(l, SHARED_PATIENCE_NS);
}

bool sock_let_go(struct sock *sk, int32_t n)
{
	struct shared_page *p = sk->page;
	int32_t old;

	if (sk->epoch != epoch)
		return false;
	if (!p)
		return n == 1;
	for (int i = 0; i < TRIES; i++) {
		old = load_rlx(&p->n_procs);
		if (cas(&p->n_procs, old, old == n ? -1 : old - n))
			return old == n;
	}
	return false;
}

bool sock_leave_it(struct sock *sk)
{
	struct shared_page *p = sk->page;

	return !p || fetch_sub(&p->n_procs, 1) == 1;
}

bool sock_maker_lets_go(struct sock *sk)
{
	struct shared_page *p = sk->page;

	return sk->epoch == epoch && p && load_rlx(&p->maker_has) &&
	       xchg(&p->maker_has, (uint8_t)0);
}
