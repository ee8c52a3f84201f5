/* SPDX-License-Identifier: MIT */
/* sock/shared.c - see sock/shared.h */
#include <errno.h>
#include <poll.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "sock/shared.h"

/* A CAS that fails so often meets somebody who does nothing else. */
#define TRIES 1000

/* What was let go of before a fork has no page in the child. */
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

/* May a socket in mode @from be found in mode @to, one step of another process later? */
static bool may_become(enum sock_mode from, uint32_t to)
{
	if (to == from || to == SOCK_KERNEL)
		return to < SOCK_SHARED;
	return (from == SOCK_CANDIDATE && to == SOCK_SHM) ||
	       (from <= SOCK_SHM && from >= SOCK_CANDIDATE &&
		to == SOCK_UPGRADING);
}

static const struct sock_ops *ops_of(const struct sock *sk)
{
	return sock_tables[sock_mode(sk)];
}

/* Take over what the last one left.  The caller holds the page's lock. */
static int page_import(struct sock *sk, const struct shared_page *p)
{
	const volatile struct shared_numbers *from = &p->s;
	struct shared_numbers s = *from;
	uint32_t mode = load_rlx(&p->mode);

	if (!may_become(sock_mode(sk), mode))
		return -EPROTO;
	if (mode == SOCK_UPGRADING) /* another process gives it to the kernel */
		return -EAGAIN;
	numbers_in(sk, &s);
	if (mode != sock_mode(sk))
		sock_set_mode(sk, (enum sock_mode)mode);
	const struct sock_ops *ops = ops_of(sk);
	return ops->import ? ops->import(sk, p->conn) : 0;
}

static void page_export(const struct sock *sk, struct shared_page *p)
{
	const struct sock_ops *ops = ops_of(sk);

	numbers_out(sk, &p->s);
	if (ops->export)
		ops->export(sk, p->conn);
	store_rlx(&p->mode, (uint32_t)sock_mode(sk));
}

int sock_share(struct sock *sk)
{
	struct shared_page *p = sk->page;

	if (!p) {
		p = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			return -ENOMEM;
		GUARD(&sk->rx_lock);
		GUARD(&sk->tx_lock);
		p->n_procs = p->maker_has = 1;
		p->n_sleepers = sk->n_sleepers;
		page_export(sk, p);
		store_rel(&sk->page, p);
		fetch_or(&sk->state, SOCK_SHARED);
	}
	fetch_add(&p->n_procs, 1);
	return 0;
}

/* Once in the life of a socket: a thread may wait for the lock of the page that was its
 * first, and so that stays where it is. */
void sock_unshare(struct sock *sk)
{
	struct shared_page *p = sk->page;

	if (!p || sk->old_page || load_rlx(&p->n_procs) > 1 ||
	    load_rlx(&p->n_sleepers) ||
	    !lock_get_within(&p->lock, SHARED_LOCK_NS))
		return;
	GUARD(&sk->rx_lock); /* nobody begins to sleep */
	if (load_rlx(&p->n_procs) == 1 && !load_rlx(&p->n_sleepers) &&
	    !page_import(sk, p)) {
		sk->old_page = p;
		store_rel(&sk->page, NULL);
		fetch_and(&sk->state, ~SOCK_SHARED);
		madvise(p, SHARED_BYTES, MADV_DONTFORK);
	}
	lock_put(&p->lock);
}

void shared_let_go(struct sock *sk)
{
	sk->is_held = 0;
	if (sk->page)
		madvise(sk->page, SHARED_BYTES, MADV_DONTFORK);
}

void shared_init(struct sock *sk) { sk->epoch = epoch; }
void shared_child(void) { epoch++; }

void sock_inherit(struct sock *sk, bool calls)
{
	sk->epoch = epoch;
	sk->old_page = NULL;
	sk->rx_lock = sk->tx_lock = (struct lock){ 0 };
	if (!calls) /* of the parent's other threads, which will not end here */
		sk->state &= ~SOCK_COUNT_MASK;
}

void shared_unmap(struct sock *sk)
{
	bool is_ours = sk->epoch == epoch;
	struct shared_page *pages[2] = { is_ours ? sk->page : NULL,
					 is_ours ? sk->old_page : NULL };

	store_rel(&sk->page, NULL);
	sk->old_page = NULL;
	fetch_and(&sk->state, ~SOCK_SHARED);
	for (int i = 0; i < 2; i++)
		if (pages[i])
			munmap(pages[i], SHARED_BYTES);
}

void shared_is_kernels(struct sock *sk)
{
	struct shared_page *p = sk->page;

	if (p)
		store_rlx(&p->mode, (uint32_t)SOCK_KERNEL);
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

/*
 * One call, with the page locked.
 */

struct visit {
	struct sock *sk;
	struct shared_page *page;   /* NULL: it is not locked */
	const struct sock_ops *ops; /* of the protocol; NULL: error */
	int error;
};

static void visit_end(struct visit *v)
{
	if (!v->page)
		return;
	page_export(v->sk, v->page);
	lock_put(&v->page->lock);
}

static struct visit visit_begin(struct sock *sk, int fd)
{
	struct shared_page *p = load_acq(&sk->page);
	struct visit v = { .sk = sk, .error = -EAGAIN };

	if (!p) { /* the others have just let go */
		v.ops = sock_ops(sk);
		return v;
	}
	if (!lock_get_within(&p->lock, SHARED_LOCK_NS))
		return v;
	if (load_rlx(&sk->page) != p) {
		lock_put(&p->lock);
		v.error = -ESTALE;
		return v;
	}
	v.page = p;
	v.error = page_import(sk, p);
	if (v.error == -EPROTO) {
		ops_of(sk)->broken(sk, fd,
				   "what a process that shares it says");
		v.error = -ECONNRESET;
	} else if (!v.error && ops_of(sk)->is_ours) {
		v.ops = ops_of(sk);
	} else if (!v.error) { /* the kernel's table is next */
		v.error = -ESTALE;
	} else { /* nothing was taken, and nothing is to be given */
		v.page = NULL;
		lock_put(&p->lock);
	}
	return v;
}

#define VISIT(v, sk, fd)                                                       \
	struct visit v __attribute__((cleanup(visit_end))) =                   \
	    visit_begin((sk), (fd))

static ssize_t shared_recv(struct sock *sk, int fd, const struct iovec *iov,
			   size_t n, int flags)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->recv(sk, fd, iov, n, flags) : v.error;
}

static ssize_t shared_send(struct sock *sk, int fd, const struct iovec *iov,
			   size_t n, int flags)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->send(sk, fd, iov, n, flags) : v.error;
}

static ssize_t shared_send_file(struct sock *sk, int fd, int in, off_t *off,
				size_t n, bool nonblock)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->send_file(sk, fd, in, off, n, true) : v.error;
}

static int shared_inq(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->inq(sk, fd) : 0;
}

static int shared_outq(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->outq(sk, fd) : 0;
}

/* Locked by another process: whoever holds it changes what is ready, and tells. */
static unsigned shared_events(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	if (v.ops)
		return v.ops->events(sk, fd);
	return v.error == -ECONNRESET
		   ? POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDHUP
		   : 0;
}

static uint64_t shared_next_ns(struct sock *sk)
{
	VISIT(v, sk, -1);

	return v.ops ? v.ops->next_ns(sk) : UINT64_MAX;
}

static int shared_shutdown(struct sock *sk, int fd, int how)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->shutdown(sk, fd, how) : v.error;
}

static void shared_close(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	if (v.ops)
		v.ops->close(sk, fd);
}

static void shared_exit(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	if (v.ops)
		v.ops->exit(sk, fd);
}

static void shared_inherited(struct sock *sk)
{
	VISIT(v, sk, -1);

	if (v.ops)
		v.ops->after_fork(sk);
}

static void shared_watch(struct sock *sk, struct watch *w)
{
	VISIT(v, sk, -1);

	if (v.ops)
		v.ops->watch(sk, w);
}

static bool shared_arm(struct sock *sk, int fd, unsigned events,
		       const struct watch *w)
{
	VISIT(v, sk, fd);

	return v.ops && v.ops->arm(sk, fd, events, w);
}

static void shared_sleep_on(struct sock *sk, struct pollfd *p)
{
	VISIT(v, sk, p->fd);

	if (v.ops)
		v.ops->sleep_on(sk, p);
}

static bool shared_hint(struct sock *sk, int fd, unsigned events,
			const struct watch *w)
{
	VISIT(v, sk, fd);

	return !v.ops || v.ops->hint(sk, fd, events, w);
}

static void shared_look(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	if (v.ops)
		v.ops->look(sk, fd);
}

/* Whoever asks may take it out: that is where it is looked at. */
static bool shared_is_rung(const struct sock *sk) { return true; }

static void shared_drain(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	if (v.ops)
		v.ops->drain(sk, fd);
}

static void shared_alone(struct sock *sk)
{
	sock_unshare(sk);
	if (!sk->page && sock_ops(sk)->alone != shared_alone)
		sock_ops(sk)->alone(sk);
}

static void shared_settle(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	if (v.ops)
		v.ops->settle(sk, fd);
}

static void shared_fallback(struct sock *sk, int fd, enum osf_reason why)
{
	VISIT(v, sk, fd);

	if (v.ops)
		v.ops->fallback(sk, fd, why);
}

static int shared_fallback_now(struct sock *sk, int fd, enum osf_reason why,
			       bool gently, struct stash *stash)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->fallback_now(sk, fd, why, gently, stash)
	       : v.error == -ECONNRESET ? v.error
					: 0;
}

const struct sock_ops shared_ops = {
	.name = "shared",
	.is_ours = true,
	.recv = shared_recv,
	.send = shared_send,
	.send_file = shared_send_file,
	.inq = shared_inq,
	.outq = shared_outq,
	.events = shared_events,
	.next_ns = shared_next_ns,
	.shutdown = shared_shutdown,
	.close = shared_close,
	.exit = shared_exit,
	.after_fork = shared_inherited,
	.own_events = true,
	.watch = shared_watch,
	.arm = shared_arm,
	.sleep_on = shared_sleep_on,
	.hint = shared_hint,
	.look = shared_look,
	.is_rung = shared_is_rung,
	.drain = shared_drain,
	.alone = shared_alone,
	.settle = shared_settle,
	.fallback = shared_fallback,
	.fallback_now = shared_fallback_now,
};
