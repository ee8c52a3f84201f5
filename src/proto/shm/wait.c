/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/wait.c - how a blocking call sleeps
 *
 *     sock/wait.c  ->  shm_is_ready(), then shm_sleep(): on the anchor
 *
 * The best sleep is the kernel's own recv() on the anchor.  A doorbell, the
 * peer's end, the receive timeout, shutdown() by another thread, and a signal
 * with or without SA_RESTART end it exactly as they would end the
 * application's own call.
 *
 * A cheaper sleep polls the anchor and the thread's bell, if the peer can ring
 * the bell: the bell tells of bytes, the anchor of everything else.
 *
 * Another thread may give the connection back to the kernel meanwhile
 * (proto/shm/fallback.c).  Then no doorbell comes any more, and a relay may read the
 * anchor.  So that thread rings the bells of all threads (sleepers_wake()), and a
 * process with threads sleeps on the anchor and the bell.  Another process that
 * holds the connection cannot ring: a thread that waits for room looks now and then.
 *
 * If recv() would return at once, or end in another way than it should, the
 * call naps: it polls, and blocks all signals except during the poll, so that
 * it misses none.
 *
 * The caller holds no lock, and looks again when we return 0.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "base/clock.h"
#include "base/idle.h"
#include "base/libc.h"
#include "base/bell.h"
#include "proto/shm/shm.h"
#include "sock/wait.h"

#define PENDING_TICK_NS (5 * NS_PER_MS)
#define PENDING_WAIT_NS (50 * NS_PER_MS)

/* Another thread may have shut the direction down before it could see that we are about to
 * sleep. */
static bool is_shut(const struct sock *sk, uint8_t bit)
{
	return load_rlx(&sk->w->shut) & bit;
}

static bool rx_ready(struct sock *sk)
{
	sock_refresh(sk);
	if (unlikely(is_shut(sk, SHUT_BIT_RD) || load_rlx(&sk->is_kept) ||
		     load_rlx(&shm_w(sk)->rx_back)))
		return true;
	if (likely(!load_rlx(&shm_w(sk)->rx_tcp)))
		return ring_rx_ready(&shm_of(sk)->rx);
	return readahead_bytes(sk) ||
	       (load_acq(&shm_peer(sk)->flags) & SEG_TX_RING &&
		shm_of(sk)->rx_tcp_left <= 0);
}

/* Compare the tail with its value when there was no room.  Other threads may
 * have seen the new tail already, and may have used the space. */
static bool tx_ready(struct sock *sk)
{
	sock_refresh(sk);
	if (unlikely(is_shut(sk, SHUT_BIT_WR) || load_rlx(&sk->is_kept)))
		return true;
	if (unlikely(shm_has_fallen_back(sk)))
		return !shm_is_unsettled(sk);
	if (unlikely(!load_rlx(&shm_w(sk)->tx_ring)))
		return true;
	if (load_rlx(shm_of(sk)->tx.tail_pub) !=
	    load_rlx(&shm_of(sk)->tx_full_at))
		return true;
	return load_rlx(&shm_of(sk)->tx_full_ns) &&
	       shm_stretch_ns(sk) <= now_ns();
}

HOT int shm_is_ready(struct sock *sk, int dir)
{
	if (unlikely(load_rlx(&sk->is_kept))) /* shm_sleep() knows how */
		return -1;
	if (dir == DIR_TX)
		return load_rlx(&shm_w(sk)->tx_ring) ? tx_ready(sk) : -1;
	sock_refresh(sk);
	if (load_rlx(&shm_w(sk)->rx_tcp) || load_rlx(&shm_w(sk)->rx_back))
		return -1;
	return ring_rx_ready(&shm_of(sk)->rx);
}

/* A call that naps, with or without the anchor. */
struct napper {
	struct sock *sk;
	int fd, dir;
	bool is_blind;        /* no ring shows what it waits for */
	struct pollfd fds[2]; /* the anchor, and the thread's bell */
};

/* What other threads of this process ring, or -1. */
static int own_bell(void)
{
	return is_single_threaded() ? -1 : bell_own_fd(bell_mine());
}

static bool nap_is_over(void *arg)
{
	const struct napper *me = arg;

	return load_rlx(&me->sk->w->anchor_end) != ANCHOR_OPEN ||
	       (!me->is_blind &&
		(me->dir == DIR_RX ? rx_ready(me->sk) : tx_ready(me->sk)));
}

static void nap_woke(void *arg)
{
	const struct napper *me = arg;

	if (me->fds[1].revents)
		bell_hush(bell_mine());
	anchor_ask(me->sk, me->fd);
	if (unlikely(load_rlx(&shm_w(me->sk)->rx_tcp)) && me->dir == DIR_TX &&
	    !me->is_blind)
		shm_readahead_fill(me->sk, me->fd, 0);
}

/* Nap until @me's ring is ready or the anchor shows one of @events. */
static int nap_for(struct napper *me, short events, uint64_t deadline_ns,
		   uint64_t tick_ns, bool restarts)
{
	me->fds[0] = (struct pollfd){ .fd = me->fd, .events = events };
	me->fds[1] = (struct pollfd){ .fd = own_bell(), .events = POLLIN };
	return nap(&(struct nap){ .fds = me->fds,
				  .n_fds = !events             ? 0
					   : me->fds[1].fd < 0 ? 1
							       : 2,
				  .is_over = nap_is_over,
				  .woke = nap_woke,
				  .arg = me,
				  .deadline_ns = deadline_ns,
				  .tick_ns = tick_ns,
				  .restarts = restarts });
}

/* Sleep in the kernel's recv(), which ends as the application's would. */
static int recv_sleep(struct sock *sk, int fd)
{
	char byte;
	ssize_t r = libc.recv(fd, &byte, 1, MSG_PEEK);

	if (!r)
		anchor_fin(sk);
	return r < 0 ? -errno : 0;
}

/*
 * The same if no other thread can be in here.  Then we may read the doorbell
 * at once.  If the process were killed with a doorbell unread, the kernel
 * would reset the connection.
 */
static int recv_bell(struct sock *sk, int fd)
{
	char byte;
	ssize_t r = libc.recv(fd, &byte, 1, 0);

	if (!r)
		anchor_fin(sk);
	if (r > 0)
		store_rlx(&shm_of(sk)->bells_drained,
			  shm_of(sk)->bells_drained + 1);
	return r < 0 ? -errno : 0;
}

/* What of the anchor's ends a sleep.  A call that has bytes also ends before an urgent byte. */
static short rx_wants(const struct call_wait *w)
{
	return POLLIN | POLLRDHUP | (w->partial ? POLLPRI : 0);
}

/* Nap if the kernel's recv() would not sleep, or not end as it should. */
static int rx_nap(struct sock *sk, int fd, const struct call_wait *w,
		  bool awake, uint64_t held)
{
	struct napper me = { .sk = sk,
			     .fd = fd,
			     .dir = DIR_RX,
			     .is_blind = awake && shm_w(sk)->rx_tcp };
	uint64_t end = MIN(w->deadline_ns, held), tick_ns = NS_PER_MS;

	if (me.is_blind) /* its bytes do not end a nap */
		end = MIN(end, now_ns() + NS_PER_MS);
	if (!awake && !waiter_restarts(w)) /* else ppoll() ends at any signal */
		tick_ns = UINT64_MAX;
	int err = nap_for(&me, awake ? 0 : rx_wants(w), end, tick_ns,
			  waiter_restarts(w));
	return err == -EAGAIN && end < w->deadline_ns ? 0 : err;
}

/* poll() has returned @revents for the anchor, and the bell is silent again. */
static void look_after_bell(struct sock *sk, int fd, short revents)
{
	struct timespec ms = { .tv_nsec = NS_PER_MS };

	if (!revents) { /* then it has not ended */
		store_rlx(&sk->looked_ns, coarse_ns());
		return;
	}
	anchor_ask(sk, fd);
	if (revents == POLLERR && load_rlx(&sk->w->anchor_end) == ANCHOR_OPEN)
		/* An unread zerocopy completion does not end the sleep of a
		 * blocking call. */
		libc.ppoll(NULL, 0, &ms, NULL);
}

/* Sleep on bell and anchor until @until_ns.  1: one of them woke us; 0;
 * -errno. */
static int bell_sleep_once(struct sock *sk, int fd, const struct call_wait *w,
			   uint64_t until_ns)
{
	uint32_t bell = bell_mine();
	struct pollfd p[] = {
		{ .fd = fd, .events = POLLIN | POLLRDHUP },
		{ .fd = bell_own_fd(bell), .events = POLLIN },
	};
	struct timespec ts = { 0 };
	uint64_t now = until_ns == UINT64_MAX ? 0 : now_ns();

	if (now < until_ns)
		ts = ns_timespec(until_ns - now);
	int r = libc.ppoll(p, 2, until_ns == UINT64_MAX ? NULL : &ts, NULL);
	if (r < 0)
		return -errno;
	if (p[1].revents)
		bell_hush(bell);
	/* Another thread, or a handler, has closed it. */
	if (p[0].revents & POLLNVAL)
		return wait_fd(sk, fd, w->seen) == fd ? -EBADF : 1;
	look_after_bell(sk, fd, p[0].revents);
	return r > 0;
}

static int bell_sleep(struct sock *sk, int fd, const struct call_wait *w)
{
	uint64_t until_ns = w->deadline_ns;

	if (!bell_is_private(bell_mine()))
		until_ns = MIN(until_ns, now_ns() + BELL_LOOK_NS);
	return MIN(bell_sleep_once(sk, fd, w, until_ns), 0);
}

/* What ends the kernel's recv(), or another thread.  A candidate that goes back to the kernel
 * needs no relay. */
static int anchor_sleep(struct sock *sk, int fd, const struct call_wait *w)
{
	bool listens = own_bell() >= 0 && sock_mode(sk) != SOCK_PENDING;
	int err = listens ? bell_sleep(sk, fd, w) : -EINVAL;

	return err == -EINVAL ? recv_sleep(sk, fd) : err;
}

/* A process whose limit of descriptors is too low by now may not poll() two of them:
 * then the peer is to ring the anchor. */
static int bell_or_anchor(struct sock *sk, int fd, const struct call_wait *w)
{
	int err = bell_sleep(sk, fd, w);

	if (likely(err != -EINVAL))
		return err;
	store_rlx(&shm_me(sk)->rx_anchor, shm_ring_how(sk));
	fence_full();
	return rx_ready(sk) ? 0 : recv_sleep(sk, fd);
}

/* A call that waits. */
struct ring_wait {
	struct wait wait;
	struct sock *sk;
	int fd;
	const struct call_wait *call;
	bool is_asleep; /* counted as a thread that sleeps on the anchor */
	bool others;    /* sleep there, too */
	bool has_bell;  /* is armed by this call */
};

static struct ring_wait *ring_of(struct wait *w)
{
	return container_of(w, struct ring_wait, wait);
}

static void ring_begin(struct wait *w)
{
	struct ring_wait *r = ring_of(w);
	struct sock *sk = r->sk;
	bool rx = r->call->dir == DIR_RX;

	r->others = anchor_sleep_begin(sk, r->fd, !rx);
	r->is_asleep = true;
	r->has_bell = rx && !r->others && !r->call->partial &&
		      !sk->w->anchor_deaf && shm_arm_bell(sk, r->fd);
	if (!rx)
		store_rlx(&shm_me(sk)->tx_anchor, 1u);
	else if (!r->has_bell)
		store_rlx(&shm_me(sk)->rx_anchor, shm_ring_how(sk));
	fence_full();
}

static void ring_end(struct wait *w)
{
	struct ring_wait *r = ring_of(w);

	if (r->has_bell)
		shm_disarm_bell(r->sk);
	if (r->is_asleep)
		anchor_sleep_end(r->sk, r->call->dir == DIR_TX);
	r->has_bell = r->is_asleep = false;
}

static bool ring_look(struct wait *w)
{
	const struct ring_wait *r = ring_of(w);

	return r->call->dir == DIR_RX ? rx_ready(r->sk) : tx_ready(r->sk);
}

static int rx_sleep(const struct ring_wait *r)
{
	struct sock *sk = r->sk;
	uint64_t held = shm_next_ns(sk);
	/* The anchor would not let us sleep if it is shut, or if it holds a
	 * doorbell for another thread. */
	bool awake = sk->w->anchor_deaf ||
		     (r->others && load_rlx(&shm_of(sk)->bells_drained) !=
				       load_rlx(&shm_peer(sk)->bells));

	if (r->has_bell && (held != UINT64_MAX || idle_is_on())) {
		store_rlx(&shm_me(sk)->rx_anchor, shm_ring_how(sk));
		fence_full(); /* the nap looks before it sleeps */
	}
	if (awake || r->call->partial || held != UINT64_MAX || idle_is_on())
		return rx_nap(sk, r->fd, r->call, awake, held);
	if (r->has_bell)
		return bell_or_anchor(sk, r->fd, r->call);
	if (sock_is_alone(sk) && !shm_w(sk)->rx_tcp && shm_w(sk)->tx_ring)
		return recv_bell(sk, r->fd);
	return anchor_sleep(sk, r->fd, r->call);
}

static int tx_sleep(const struct ring_wait *r)
{
	struct sock *sk = r->sk;
	struct napper how = { .sk = sk, .fd = r->fd, .dir = DIR_TX };
	bool restarts = waiter_restarts(r->call);
	bool awake = shm_w(sk)->rx_tcp || sk->w->anchor_deaf || r->others;

	uint64_t end = MIN(r->call->deadline_ns, shm_stretch_ns(sk));
	if (load_rlx(&sk->page) || (!sock_is_alone(sk) && own_bell() < 0))
		end = MIN(end, now_ns() + BELL_LOOK_NS);
	bool is_early = end < r->call->deadline_ns;

	if (!awake && !idle_is_on()) {
		if (sock_is_alone(sk) && restarts &&
		    !load_rlx(&sk->w->rcvtimeo_ns) && !is_early)
			return recv_sleep(sk, r->fd);
		int err = bell_sleep_once(sk, r->fd, r->call, end);
		if (err != -EINVAL)
			return MIN(err, 0);
	}
	int err = nap_for(&how, awake ? 0 : POLLIN | POLLRDHUP, end,
			  awake || restarts ? NS_PER_MS : UINT64_MAX, restarts);
	return err == -EAGAIN && is_early ? 0 : err;
}

/* A reset may only be the kernel's answer to a doorbell of ours that nobody read. */
static bool has_rung(const struct sock *sk)
{
	return shm_of(sk)->seg && load_acq(&shm_me(sk)->bells);
}

/*
 * The sleep ended with an error, which the kernel reports once.  Keep it, because bytes may
 * lie in the ring before it.  Unless another thread has just ended the candidate, so that
 * the kernel carries the connection: then only this call can report it.
 */
static COLD int sleep_failed(struct sock *sk, int err)
{
	/* A candidate ends under the lock.  It does not end while another process
	 * keeps the half. */
	bool has_half = sock_take_tx(sk);
	bool is_kept = sock_is_ours(sk) || has_rung(sk);
	int r = is_kept && anchor_note(sk, -err) ? 0 : err;

	if (likely(has_half))
		sock_unlock_tx(sk);
	return r;
}

static int ring_sleep(struct wait *w, const struct timespec *left)
{
	const struct ring_wait *r = ring_of(w);

	count(&r->sk->st->n_sleeps, 1);
	int err = r->call->dir == DIR_RX ? rx_sleep(r) : tx_sleep(r);
	bool ended = err && err != -EINTR && err != -EAGAIN;
	return unlikely(ended) ? sleep_failed(r->sk, err) : err;
}

/*
 * Waiting while the kernel carries this direction.  Or nobody carries it, because the peer
 * may still be putting back what it has not read.  There is nobody to be told that this
 * thread sleeps.
 */

static void nobody_told(struct wait *w) {}
static bool looks_asleep(struct wait *w) { return false; } /* nap() looks */

/* The thread that has given the connection away may have rung before this one had a bell. */
static bool has_left(struct wait *w) { return !sock_is_ours(ring_of(w)->sk); }

/* base/idle.h's descriptor does not end the kernel's recv(). */
static int rx_sleep_tcp(const struct ring_wait *r)
{
	struct napper me = {
		.sk = r->sk, .fd = r->fd, .dir = DIR_RX, .is_blind = true
	};
	bool restarts = waiter_restarts(r->call);

	if (likely(!idle_is_on() && !r->call->partial))
		return anchor_sleep(r->sk, r->fd, r->call);
	return nap_for(&me, rx_wants(r->call), r->call->deadline_ns,
		       restarts ? NS_PER_MS : UINT64_MAX, restarts);
}

/* Wait for room in the kernel's buffer; check a candidate now and then. */
static int tx_sleep_tcp(const struct ring_wait *r)
{
	bool restarts = waiter_restarts(r->call);
	struct napper me = { .sk = r->sk,
			     .fd = r->fd,
			     .dir = DIR_TX,
			     .is_blind = !shm_is_unsettled(r->sk) };
	uint64_t end = r->call->deadline_ns;

	if (!me.is_blind)
		return nap_for(&me, 0, end, NS_PER_MS, restarts);
	end = MIN(end, now_ns() + PENDING_WAIT_NS);
	int err = nap_for(&me, POLLOUT, end, PENDING_TICK_NS, restarts);
	return err == -EAGAIN ? 0 : err;
}

static int tcp_sleep(struct wait *w, const struct timespec *left)
{
	const struct ring_wait *r = ring_of(w);

	return r->call->dir == DIR_RX ? rx_sleep_tcp(r) : tx_sleep_tcp(r);
}

static const struct wait_ops by_ring = { .begin = ring_begin,
					 .look = ring_look,
					 .sleep = ring_sleep,
					 .end = ring_end };
static const struct wait_ops by_tcp = { .begin = nobody_told,
					.look = has_left,
					.sleep = tcp_sleep,
					.end = nobody_told };

/*
 * Another holder has stopped inside a call.  It wakes nobody when it goes on.
 */

static bool kept_is_over(void *arg)
{
	const struct ring_wait *r = arg;

	sock_refresh(r->sk);
	return !load_rlx(&r->sk->is_kept) || !shm_is_kept(r->sk, r->fd);
}

static void kept_woke(void *arg) {}

static int kept_sleep(struct wait *w, const struct timespec *left)
{
	struct ring_wait *r = ring_of(w);

	return nap(&(struct nap){ .is_over = kept_is_over,
				  .woke = kept_woke,
				  .arg = r,
				  .deadline_ns = r->call->deadline_ns,
				  .tick_ns = NS_PER_MS,
				  .restarts = waiter_restarts(r->call) });
}

static const struct wait_ops by_holder = { .begin = nobody_told,
					   .look = looks_asleep,
					   .sleep = kept_sleep,
					   .end = nobody_told };

int shm_sleep(struct sock *sk, int fd, const struct call_wait *w)
{
	(void)own_bell(); /* from now on others can ring it */
	bool is_kept = load_rlx(&sk->is_kept);
	bool is_tcp = w->dir == DIR_RX
			  ? shm_w(sk)->rx_back
			  : !shm_w(sk)->tx_ring || shm_is_unsettled(sk);
	struct ring_wait r = { .wait = { .ops = is_kept  ? &by_holder
						: is_tcp ? &by_tcp
							 : &by_ring,
					 .deadline_ns = w->deadline_ns,
					 .seen = w->seen,
					 .restarts = waiter_restarts(w) },
			       .sk = sk,
			       .fd = wait_fd(sk, fd, w->seen),
			       .call = w };
	int err = wait_step(&r.wait);

	if (!is_tcp && !is_kept)
		anchor_clear(sk, wait_fd(sk, fd, w->seen));
	return err;
}

static bool is_ignored(int sig)
{
	struct sigaction sa;

	if (libc.sigaction(sig, NULL, &sa) < 0 || sa.sa_handler == SIG_IGN)
		return true;
	return sa.sa_handler == SIG_DFL && (sig == SIGCHLD || sig == SIGCONT ||
					    sig == SIGURG || sig == SIGWINCH);
}

/* Is a signal pending whose handler would have ended the sleep if we had not blocked it? */
static bool has_signal(const sigset_t *mask)
{
	sigset_t due;

	if (sigpending(&due))
		return false;
	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(&due, sig) == 1 &&
		    sigismember(mask, sig) == 0 && !is_ignored(sig))
			return true;
	return false;
}

/* close() must not stop half way, so handlers run when the wait is over. */
COLD void shm_linger(struct sock *sk, int fd, int seconds)
{
	uint64_t end = now_ns() + (uint64_t)seconds * NS_PER_S;
	sigset_t all, mask;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	while (
	    shm_outq(sk, fd) > 0 && now_ns() < end && !has_signal(&mask) &&
	    load_rlx(&sk->w->anchor_end) == ANCHOR_OPEN &&
	    !(load_rlx(&shm_peer(sk)->flags) & (SEG_CLOSED | SEG_FALLBACK))) {
		struct timespec tick = { .tv_nsec = NS_PER_MS };

		libc.ppoll(NULL, 0, &tick, NULL);
		anchor_ask(sk, fd);
	}
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
}
