/* SPDX-License-Identifier: MIT */
/* sock/family.c - see sock/family.h */
#include <errno.h>
#include <poll.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "sock/family.h"

/* A CAS that fails so often meets somebody who does nothing else. */
#define TRIES 1000

/* What was let go of before a fork has no page in the child. */
static uint32_t epoch;

static void numbers_out(const struct sock *sk, struct sock_shared *s)
{
	*s = (struct sock_shared){
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

static void numbers_in(struct sock *sk, const struct sock_shared *s)
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
static int family_import(struct sock *sk, const struct family *f)
{
	const volatile struct sock_shared *from = &f->s;
	struct sock_shared s = *from;
	uint32_t mode = load_rlx(&f->mode);

	if (!may_become(sock_mode(sk), mode))
		return -EPROTO;
	numbers_in(sk, &s);
	if (mode != sock_mode(sk))
		sock_set_mode(sk, (enum sock_mode)mode);
	const struct sock_ops *ops = ops_of(sk);
	return ops->import ? ops->import(sk, f->conn) : 0;
}

static void family_export(const struct sock *sk, struct family *f)
{
	const struct sock_ops *ops = ops_of(sk);

	numbers_out(sk, &f->s);
	if (ops->export)
		ops->export(sk, f->conn);
	store_rlx(&f->mode, (uint32_t)sock_mode(sk));
}

int sock_share(struct sock *sk)
{
	struct family *f = sk->family;

	if (!f) {
		f = mmap(NULL, FAMILY_BYTES, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (f == MAP_FAILED)
			return -ENOMEM;
		GUARD(&sk->rx_lock);
		GUARD(&sk->tx_lock);
		f->n_procs = f->maker_has = 1;
		family_export(sk, f);
		store_rel(&sk->family, f);
		fetch_or(&sk->state, SOCK_SHARED);
	}
	fetch_add(&f->n_procs, 1);
	return 0;
}

/* Once in the life of a socket: a thread may wait for the lock of the page that was its
 * first, and so that stays where it is. */
void sock_unshare(struct sock *sk)
{
	struct family *f = sk->family;

	if (!f || sk->old_family || load_rlx(&f->n_procs) > 1 ||
	    !lock_get_within(&f->lock, FAMILY_LOCK_NS))
		return;
	if (load_rlx(&f->n_procs) == 1 && !family_import(sk, f)) {
		sk->old_family = f;
		store_rel(&sk->family, NULL);
		fetch_and(&sk->state, ~SOCK_SHARED);
		madvise(f, FAMILY_BYTES, MADV_DONTFORK);
	}
	lock_put(&f->lock);
}

void family_let_go(struct sock *sk)
{
	sk->is_held = 0;
	if (sk->family)
		madvise(sk->family, FAMILY_BYTES, MADV_DONTFORK);
}

void family_init(struct sock *sk) { sk->epoch = epoch; }
void family_child(void) { epoch++; }

void sock_inherit(struct sock *sk, bool calls)
{
	sk->epoch = epoch;
	sk->old_family = NULL;
	sk->rx_lock = sk->tx_lock = (struct lock){ 0 };
	if (!calls) /* of the parent's other threads, which will not end here */
		sk->state &= ~SOCK_COUNT_MASK;
}

void family_unmap(struct sock *sk)
{
	bool is_ours = sk->epoch == epoch;
	struct family *pages[2] = { is_ours ? sk->family : NULL,
				    is_ours ? sk->old_family : NULL };

	store_rel(&sk->family, NULL);
	sk->old_family = NULL;
	fetch_and(&sk->state, ~SOCK_SHARED);
	for (int i = 0; i < 2; i++)
		if (pages[i])
			munmap(pages[i], FAMILY_BYTES);
}

bool sock_let_go(struct sock *sk, int32_t n)
{
	struct family *f = sk->family;
	int32_t old;

	if (sk->epoch != epoch)
		return false;
	if (!f)
		return n == 1;
	for (int i = 0; i < TRIES; i++) {
		old = load_rlx(&f->n_procs);
		if (cas(&f->n_procs, old, old == n ? -1 : old - n))
			return old == n;
	}
	return false;
}

bool sock_leave_it(struct sock *sk)
{
	struct family *f = sk->family;

	return !f || fetch_sub(&f->n_procs, 1) == 1;
}

bool sock_maker_lets_go(struct sock *sk)
{
	struct family *f = sk->family;

	return sk->epoch == epoch && f && load_rlx(&f->maker_has) &&
	       xchg(&f->maker_has, (uint8_t)0);
}

/*
 * One call, with the page locked.
 */

struct visit {
	struct sock *sk;
	struct family *f;           /* NULL: it is not locked */
	const struct sock_ops *ops; /* of the protocol; NULL: error */
	int error;
};

static void visit_end(struct visit *v)
{
	if (!v->f)
		return;
	family_export(v->sk, v->f);
	lock_put(&v->f->lock);
}

static struct visit visit_begin(struct sock *sk, int fd)
{
	struct family *f = load_acq(&sk->family);
	struct visit v = { .sk = sk, .error = -EAGAIN };

	if (!f) { /* the others have just let go */
		v.ops = sock_ops(sk);
		return v;
	}
	if (!lock_get_within(&f->lock, FAMILY_LOCK_NS))
		return v;
	if (load_rlx(&sk->family) != f) {
		lock_put(&f->lock);
		v.error = -ESTALE;
		return v;
	}
	v.f = f;
	v.ops = ops_of(sk);
	if (!family_import(sk, f)) {
		v.ops = ops_of(sk);
		if (v.ops->is_ours)
			return v;
		v.error = -ESTALE; /* the kernel's table is next */
	} else {
		v.ops->broken(sk, fd, "what a process that shares it says");
		v.error = -ECONNRESET;
	}
	v.ops = NULL;
	return v;
}

#define VISIT(v, sk, fd)                                                       \
	struct visit v __attribute__((cleanup(visit_end))) =                   \
	    visit_begin((sk), (fd))

static ssize_t family_recv(struct sock *sk, int fd, const struct iovec *iov,
			   size_t n, int flags)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->recv(sk, fd, iov, n, flags) : v.error;
}

static ssize_t family_send(struct sock *sk, int fd, const struct iovec *iov,
			   size_t n, int flags)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->send(sk, fd, iov, n, flags) : v.error;
}

static ssize_t family_send_file(struct sock *sk, int fd, int in, off_t *off,
				size_t n, bool nonblock)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->send_file(sk, fd, in, off, n, true) : v.error;
}

static int family_inq(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->inq(sk, fd) : 0;
}

static int family_outq(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->outq(sk, fd) : 0;
}

/* Locked by another process: whoever holds it changes what is ready, and tells. */
static unsigned family_events(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	if (v.ops)
		return v.ops->events(sk, fd);
	return v.error == -ECONNRESET
		   ? POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDHUP
		   : 0;
}

static uint64_t family_next_ns(struct sock *sk)
{
	VISIT(v, sk, -1);

	return v.ops ? v.ops->next_ns(sk) : UINT64_MAX;
}

static int family_shutdown(struct sock *sk, int fd, int how)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->shutdown(sk, fd, how) : v.error;
}

static void family_close(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	if (v.ops)
		v.ops->close(sk, fd);
}

static void family_exit(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	if (v.ops)
		v.ops->exit(sk, fd);
}

static void family_inherited(struct sock *sk)
{
	VISIT(v, sk, -1);

	if (v.ops)
		v.ops->after_fork(sk);
}

static void family_fallback(struct sock *sk, int fd, enum osf_reason why)
{
	VISIT(v, sk, fd);

	if (v.ops)
		v.ops->fallback(sk, fd, why);
}

static int family_fallback_now(struct sock *sk, int fd, enum osf_reason why,
			       bool gently, struct stash *stash)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->fallback_now(sk, fd, why, gently, stash)
	       : v.error == -ECONNRESET ? v.error
					: 0;
}

const struct sock_ops family_ops = {
	.name = "shared",
	.is_ours = true,
	.recv = family_recv,
	.send = family_send,
	.send_file = family_send_file,
	.inq = family_inq,
	.outq = family_outq,
	.events = family_events,
	.next_ns = family_next_ns,
	.shutdown = family_shutdown,
	.close = family_close,
	.exit = family_exit,
	.after_fork = family_inherited,
	.fallback = family_fallback,
	.fallback_now = family_fallback_now,
};
