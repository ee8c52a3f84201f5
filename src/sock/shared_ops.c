/* SPDX-License-Identifier: MIT */
/*
 * sock/shared_ops.c - the table of a socket that several processes hold
 *
 *     shared_ops.recv()  ->  lock the page, import  ->  the protocol's recv()
 *                        ->  export, unlock
 *
 * Each operation is one visit to the page; see sock/shared.h.  Nobody sleeps there: sleep()
 * and sendmsg() go to the protocol without it.  What the others do while a thread sleeps
 * may take away or bring what it waits for without waking it, so it looks again every
 * LOOK_NS.
 */
#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "sock/shared.h"
#include "sock/wait.h"

#define LOOK_NS (10 * NS_PER_MS)

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

static bool is_inside(const struct shared_page *p)
{
	return (load_rlx(&p->lock.word) & ~LOCK_WAITERS) == lock_self();
}

static struct visit visit_begin(struct sock *sk, int fd, uint64_t patience_ns)
{
	struct shared_page *p = load_acq(&sk->page);
	struct visit v = { .sk = sk, .error = -EAGAIN };

	if (unlikely(is_inside(
		p))) { /* an operation of the protocol's calls another */
		v.ops =
		    shared_protocol(sk)->is_ours ? shared_protocol(sk) : NULL;
		v.error = -ESTALE;
		return v;
	}
	if (!lock_get_within(&p->lock, patience_ns))
		return v;
	if (!sock_is_shared(sk)) { /* the others have just let go */
		lock_put(&p->lock);
		v.error = -ESTALE;
		return v;
	}
	v.page = p;
	v.error = page_import(sk, p);
	if (v.error == -EPROTO) {
		shared_protocol(sk)->reset(
		    sk, fd, "what a process that shares it says");
		v.error = -ECONNRESET;
	} else if (!v.error && shared_protocol(sk)->is_ours) {
		v.ops = shared_protocol(sk);
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
	    visit_begin((sk), (fd), SHARED_LOCK_NS)

/* For what has to be done: whoever is inside may have lost its core. */
#define VISIT_SURELY(v, sk, fd)                                                \
	struct visit v __attribute__((cleanup(visit_end))) =                   \
	    visit_begin((sk), (fd), SHARED_PATIENCE_NS)

/* Take over what the others have done.  0 or what a visit fails with. */
static int shared_refresh(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	return v.ops ? 0 : v.error;
}

/* Locked by another process: whoever holds it changes what is ready, and tells. */
static unsigned events_without(const struct visit *v)
{
	return v->error == -ECONNRESET
		   ? POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDHUP
		   : 0;
}

/* Of the kernel's tables, whose turn is next. */
static int shared_enter(struct sock *sk) { return -ESTALE; }
static void shared_leave(struct sock *sk, int dir, ssize_t n) {}
static bool shared_is_due(const struct sock *sk, int dir) { return false; }

static void shared_went_past(void) { sock_tables[SOCK_KERNEL]->went_past(); }

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
				size_t n)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->send_file(sk, fd, in, off, n) : v.error;
}

/* They may sleep, in the kernel: the page is visited before, for what they look at. */
static ssize_t shared_recvmsg(struct sock *sk, int fd, struct msghdr *msg,
			      int flags)
{
	int err = shared_refresh(sk, fd);

	return err ? err : shared_protocol(sk)->recvmsg(sk, fd, msg, flags);
}

static ssize_t shared_sendmsg(struct sock *sk, int fd, const struct msghdr *msg,
			      int flags)
{
	sock_ops(sk)->fallback(sk, fd, OSF_REASON_OPTION);
	int err = shared_refresh(sk, fd);

	return err ? err : shared_protocol(sk)->sendmsg(sk, fd, msg, flags);
}

static void shared_error_later(struct sock *sk, int err)
{
	VISIT(v, sk, -1);

	if (v.ops)
		v.ops->error_later(sk, err);
}

/* As of the last visit: the call that this lets go on will see. */
static int shared_is_ready(struct sock *sk, int dir)
{
	const struct sock_ops *ops = shared_protocol(sk);

	return ops->is_ours ? ops->is_ready(sk, dir) : 1;
}

static bool never(void *arg) { return false; }
static void woke(void *arg) {}

/* Another process is inside, or gives the connection to the kernel.  If it never ends,
 * the call still ends as any other that sleeps. */
static int sleep_outside(const struct call_wait *w)
{
	bool restarts = waiter_restarts(w);
	uint64_t end = MIN(w->deadline_ns, now_ns() + NS_PER_MS);

	if (handlers_ran(w->seen, restarts))
		return -EINTR;
	int err = nap(&(struct nap){ .is_over = never,
				     .woke = woke,
				     .deadline_ns = end,
				     .tick_ns = UINT64_MAX,
				     .restarts = restarts });
	return err == -EAGAIN && end < w->deadline_ns ? 0 : err;
}

static int shared_sleep(struct sock *sk, int fd, const struct call_wait *w)
{
	struct call_wait part = *w;
	uint64_t now = now_ns();
	int err = shared_refresh(sk, fd);

	if (err == -EAGAIN)
		return sleep_outside(w);
	if (err)
		return err == -ESTALE ? 0 : err;
	part.deadline_ns = MIN(w->deadline_ns, now + LOOK_NS);
	/* The limit is ours: handlers with SA_RESTART still end no call. */
	bool goes_on = waiter_restarts(w) && !handlers_ran(w->seen, true);
	if (goes_on)
		part.seen = handlers_seen();
	err = shared_protocol(sk)->sleep(sk, fd, &part);
	if (err == -EINTR && goes_on && handlers_ran(part.seen, false) &&
	    !handlers_ran(w->seen, true))
		return 0;
	return err == -EAGAIN && now_ns() < w->deadline_ns ? 0 : err;
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

static unsigned shared_events(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->events(sk, fd) : events_without(&v);
}

static unsigned shared_look(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->look(sk, fd) : events_without(&v);
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

	return v.ops ? v.ops->arm(sk, fd, events, w) : false;
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

	return v.ops ? v.ops->hint(sk, fd, events, w) : true;
}

/* Whoever asks may take it out: that is where it is looked at. */
static bool shared_is_rung(const struct sock *sk) { return true; }

static void shared_drain(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	if (v.ops)
		v.ops->drain(sk, fd);
}

static uint64_t shared_next_ns(struct sock *sk)
{
	VISIT(v, sk, -1);

	return v.ops ? v.ops->next_ns(sk) : UINT64_MAX;
}

static bool shared_opt_changed(struct sock *sk, int fd, int level, int name)
{
	VISIT_SURELY(v, sk, fd);

	return v.ops ? v.ops->opt_changed(sk, fd, level, name) : false;
}

static void shared_async_changed(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	if (v.ops)
		v.ops->async_changed(sk, fd);
}

static void shared_tcp_info(struct sock *sk, int fd, void *info, size_t len)
{
	VISIT(v, sk, fd);

	if (v.ops)
		v.ops->tcp_info(sk, fd, info, len);
}

static int shared_so_error(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->so_error(sk, fd) : -1;
}

static bool shared_is_over(const struct sock *sk)
{
	return shared_protocol(sk)->is_over(sk);
}

static bool shared_is_before_mark(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	return v.ops ? v.ops->is_before_mark(sk, fd) : false;
}

static int shared_disconnect(struct sock *sk, int fd,
			     const struct sockaddr *addr, socklen_t len)
{
	VISIT_SURELY(v, sk, fd);

	return v.ops ? v.ops->disconnect(sk, fd, addr, len) : v.error;
}

static int shared_shutdown(struct sock *sk, int fd, int how)
{
	VISIT_SURELY(v, sk, fd);

	return v.ops ? v.ops->shutdown(sk, fd, how) : v.error;
}

static void shared_close(struct sock *sk, int fd)
{
	VISIT_SURELY(v, sk, fd);

	if (v.ops)
		v.ops->close(sk, fd);
}

static void shared_exit(struct sock *sk, int fd)
{
	VISIT_SURELY(v, sk, fd);

	if (v.ops)
		v.ops->exit(sk, fd);
}

static void shared_after_fork(struct sock *sk)
{
	VISIT(v, sk, -1);

	if (v.ops)
		v.ops->after_fork(sk);
}

static void shared_alone(struct sock *sk)
{
	sock_unshare(sk);
	if (!sock_is_shared(sk))
		sock_ops(sk)->alone(sk);
}

static void shared_settle(struct sock *sk, int fd)
{
	VISIT(v, sk, fd);

	if (v.ops)
		v.ops->settle(sk, fd);
}

static void shared_passed(struct sock *sk, int fd)
{
	VISIT_SURELY(v, sk, fd);

	if (v.ops)
		v.ops->passed(sk, fd);
}

static void shared_anchor_moved(struct sock *sk, int from, int to)
{
	VISIT_SURELY(v, sk, to);

	if (v.ops)
		v.ops->anchor_moved(sk, from, to);
}

static void shared_reset(struct sock *sk, int fd, const char *why)
{
	VISIT(v, sk, fd);

	if (v.ops)
		v.ops->reset(sk, fd, why);
}

/* True: done, or it cannot be; false: the socket has another table. */
static bool fallback_tried(struct sock *sk, int fd, enum osf_reason why)
{
	VISIT_SURELY(v, sk, fd);

	if (v.ops)
		v.ops->fallback(sk, fd, why);
	return v.ops || v.error != -ESTALE;
}

static void shared_fallback(struct sock *sk, int fd, enum osf_reason why)
{
	if (!fallback_tried(sk, fd, why))
		sock_ops(sk)->fallback(sk, fd, why);
}

static int fallback_try_now(struct sock *sk, int fd, enum osf_reason why,
			    bool gently, struct stash *stash)
{
	VISIT_SURELY(v, sk, fd);

	if (v.ops)
		return v.ops->fallback_now(sk, fd, why, gently, stash);
	return v.error;
}

static int shared_fallback_now(struct sock *sk, int fd, enum osf_reason why,
			       bool gently, struct stash *stash)
{
	int r = fallback_try_now(sk, fd, why, gently, stash);

	if (r == -ESTALE)
		return sock_ops(sk)->fallback_now(sk, fd, why, gently, stash);
	return r == -EAGAIN ? 0 : r;
}

static void shared_retire(struct sock *sk)
{
	VISIT(v, sk, -1);

	if (v.ops)
		v.ops->retire(sk);
}

const struct sock_ops shared_ops = {
	.name = "shared",
	.is_ours = true,
	.own_events = true,
	.recv = shared_recv,
	.send = shared_send,
	.send_file = shared_send_file,
	.recvmsg = shared_recvmsg,
	.sendmsg = shared_sendmsg,
	.error_later = shared_error_later,
	.is_ready = shared_is_ready,
	.sleep = shared_sleep,
	.enter = shared_enter,
	.leave = shared_leave,
	.is_due = shared_is_due,
	.went_past = shared_went_past,
	.inq = shared_inq,
	.outq = shared_outq,
	.events = shared_events,
	.look = shared_look,
	.watch = shared_watch,
	.arm = shared_arm,
	.sleep_on = shared_sleep_on,
	.hint = shared_hint,
	.is_rung = shared_is_rung,
	.drain = shared_drain,
	.next_ns = shared_next_ns,
	.opt_changed = shared_opt_changed,
	.async_changed = shared_async_changed,
	.tcp_info = shared_tcp_info,
	.so_error = shared_so_error,
	.is_over = shared_is_over,
	.is_before_mark = shared_is_before_mark,
	.disconnect = shared_disconnect,
	.shutdown = shared_shutdown,
	.close = shared_close,
	.exit = shared_exit,
	.after_fork = shared_after_fork,
	.alone = shared_alone,
	.settle = shared_settle,
	.passed = shared_passed,
	.anchor_moved = shared_anchor_moved,
	.reset = shared_reset,
	.fallback = shared_fallback,
	.fallback_now = shared_fallback_now,
	.retire = shared_retire,
};
