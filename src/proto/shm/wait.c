/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/wait.c - a blocking call that can do nothing now
 *
 *     shm_recv(), shm_send()  ->  spin  ->  asleep in the kernel, on the anchor
 *
 * The best sleep is the kernel's own recv() on the anchor: the doorbell, the peer's
 * end, the receive timeout, shutdown() by another thread, and a signal with or
 * without SA_RESTART all end it as they would end the application's own call.
 * A cheaper one is a poll of the anchor and of the thread's bell, where the peer can
 * ring it: the bell is for bytes, the anchor for all else.
 * Where that call would not sleep, or would end otherwise, it is a nap: a poll with
 * the signals held back while nobody sleeps, so that none is missed.
 *
 * The caller holds no lock, and looks again when we return 0.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "base/clock.h"
#include "base/libc.h"
#include "base/spin.h"
#include "base/unwind.h"
#include "proto/shm/bell.h"
#include "proto/shm/shm.h"
#define CANDIDATE_TICK_NS (5 * NS_PER_MS)
#define CANDIDATE_WAIT_NS (50 * NS_PER_MS)

static bool rx_ready(void *arg)
{
	struct sock *sk = arg;

	if (likely(!load_rlx(&shm_of(sk)->rx_tcp)))
		return ring_rx_ready(&shm_of(sk)->rx);
	return backlog_bytes(sk) ||
	       (load_acq(&shm_peer(sk)->flags) & SEG_TX_RING &&
		shm_of(sk)->rx_tcp_left <= 0);
}

/* Others may have looked at the tail since, and even have used what it freed: so it is
 * compared with what it was when there was no room. */
struct tx_seen {
	const uint32_t *tail_pub;
	uint32_t tail;
};

static bool tx_ready(void *arg)
{
	const struct tx_seen *seen = arg;

	return load_rlx(seen->tail_pub) != seen->tail;
}

static bool never(void *arg) { return false; }

struct nap {
	bool (*ready)(void *arg);
	void *arg;
	uint64_t deadline_ns;
	uint64_t tick_ns; /* look again this often */
	short events;     /* of the anchor, that end it too */
	bool restarts;    /* not ended by a handler with SA_RESTART */
};

/* Let handlers of signals run that came while all were blocked.  -EINTR if one of
 * them ends the call. */
static int handlers_run(const sigset_t *mask, const sigset_t *all,
			bool restarts)
{
	bool any = false;
	sigset_t due;
	int err = 0;

	if (sigpending(&due))
		return 0;
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction sa;

		if (sigismember(&due, sig) != 1 ||
		    sigismember(mask, sig) == 1 || sigaction(sig, NULL, &sa))
			continue;
		any = true;
		if (sa.sa_handler != SIG_DFL && sa.sa_handler != SIG_IGN &&
		    !(restarts && sa.sa_flags & SA_RESTART))
			err = -EINTR;
	}
	if (any) {
		pthread_sigmask(SIG_SETMASK, mask, NULL);
		pthread_sigmask(SIG_SETMASK, all, NULL);
	}
	return err;
}

static int nap_once(struct sock *sk, int fd, const struct nap *n,
		    const sigset_t *mask, uint64_t now)
{
	struct pollfd p = { .fd = fd, .events = n->events };
	uint64_t left = MIN(n->deadline_ns - now, n->tick_ns);
	struct timespec ts = ns_timespec(left);
	int r = libc.ppoll(&p, n->events != 0, left == UINT64_MAX ? NULL : &ts,
			   n->restarts ? NULL : mask);

	if (r > 0 && p.revents == POLLERR) {
		/* An unread completion ends no sleep of a blocking call. */
		ts = ns_timespec(MIN(left, NS_PER_MS));
		r = libc.ppoll(NULL, 0, &ts, n->restarts ? NULL : mask);
	}
	if (r < 0)
		return -errno;
	anchor_look(sk, fd);
	if (unlikely(load_rlx(&shm_of(sk)->rx_tcp)) && n->ready == tx_ready)
		shm_backlog_fill(sk, fd, 0);
	return r;
}

/* 0, -EINTR, or -EAGAIN at the deadline. */
static COLD int nap(struct sock *sk, int fd, const struct nap *n)
{
	sigset_t all, mask;
	int r = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	while (!r && !n->ready(n->arg) &&
	       load_rlx(&sk->anchor_end) == ANCHOR_OPEN) {
		uint64_t now = now_ns();

		if (now >= n->deadline_ns)
			r = -EAGAIN;
		else
			r = nap_once(sk, fd, n, &mask, now);
		if (!r && n->restarts)
			r = handlers_run(&mask, &all, true);
	}
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	return MIN(r, 0);
}

/* One who sleeps on the anchor, however it ends. */
struct sleeper {
	struct unwind u;
	struct sock *sk;
	bool waits_for_room;
	bool has_bell; /* is armed by it */
};

static void sleeper_end(struct unwind *u)
{
	struct sleeper *s = (struct sleeper *)u;

	if (s->waits_for_room)
		fetch_sub(&shm_of(s->sk)->n_tx_sleepers, 1);
	if (s->has_bell)
		shm_disarm_bell(s->sk);
	anchor_sleep_end(s->sk);
}

/* True if others sleep there already. */
static bool sleeper_begin(struct sleeper *s, int fd)
{
	bool others = anchor_sleep_begin(s->sk, fd);

	if (s->waits_for_room)
		fetch_add(&shm_of(s->sk)->n_tx_sleepers, 1);
	unwind_push(&s->u, sleeper_end);
	return others;
}

/* The kernel's recv(), which answers like the call that it stands for. */
static int recv_sleep(struct sock *sk, int fd)
{
	char byte;
	ssize_t r = libc.recv(fd, &byte, 1, MSG_PEEK);

	if (!r)
		anchor_fin(sk);
	return r < 0 ? -errno : 0;
}

/*
 * The same for the only one who can be in here, and so may take the doorbell at
 * once.  One that is left unread when the process is killed makes the kernel reset
 * the connection.
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

static uint64_t deadline_after(uint64_t timeout_ns)
{
	return timeout_ns ? now_ns() + timeout_ns : UINT64_MAX;
}

/* poll() has said @revents of the anchor, and the bell is hushed. */
static void look_after_bell(struct sock *sk, int fd, short revents)
{
	struct timespec ms = { .tv_nsec = NS_PER_MS };

	if (!revents) { /* then it has not ended */
		store_rlx(&sk->looked_ns, coarse_ns());
		return;
	}
	anchor_look(sk, fd);
	if (revents == POLLERR && load_rlx(&sk->anchor_end) == ANCHOR_OPEN)
		/* An unread completion ends no sleep of a blocking call. */
		libc.ppoll(NULL, 0, &ms, NULL);
}

/* By the bell and the anchor.  A handler that we know of may have run: the caller is to
 * go on if it has SA_RESTART. */
static int bell_sleep_once(struct sock *sk, int fd, uint64_t ns)
{
	uint32_t bell = bell_mine();
	struct pollfd p[] = {
		{ .fd = fd, .events = POLLIN | POLLRDHUP },
		{ .fd = bell_own_fd(bell), .events = POLLIN },
	};
	struct timespec ts = ns_timespec(ns);
	int r = libc.ppoll(p, 2, ns == UINT64_MAX ? NULL : &ts, NULL);

	if (r < 0)
		return -errno;
	if (p[0].revents & POLLNVAL) /* a handler has closed it */
		return -EBADF;
	if (p[1].revents)
		bell_hush(bell);
	look_after_bell(sk, fd, p[0].revents);
	return r;
}

static int bell_sleep(struct sock *sk, int fd, bool restarts,
		      struct handlers_seen seen)
{
	uint64_t deadline_ns = deadline_after(load_rlx(&sk->rcvtimeo_ns));
	uint64_t look_ns =
	    bell_is_private(bell_mine()) ? UINT64_MAX : BELL_LOOK_NS;
	int r;

	do {
		uint64_t ns = UINT64_MAX;

		if (deadline_ns != UINT64_MAX) {
			uint64_t now = now_ns();

			if (now >= deadline_ns)
				return -EAGAIN;
			ns = deadline_ns - now;
		}
		r = bell_sleep_once(sk, fd, MIN(ns, look_ns));
	} while (!r && !rx_ready(sk));
	if (r == -EINTR && restarts && handlers_ran(seen, false) &&
	    !handlers_ran(seen, true))
		return 0;
	return MIN(r, 0);
}

/* @partial: bytes have been moved already, so any signal ends the call. */
static int rx_sleep(struct sock *sk, int fd, bool partial,
		    struct handlers_seen seen)
{
	struct nap n = { .ready = rx_ready,
			 .arg = sk,
			 .tick_ns = NS_PER_MS,
			 .restarts = !partial && !load_rlx(&sk->rcvtimeo_ns) };
	UNWIND(struct sleeper, me) = { .sk = sk };
	bool others = sleeper_begin(&me, fd);
	int err = 0;

	me.has_bell =
	    !others && !partial && !sk->anchor_deaf && shm_arm_bell(sk);
	if (!me.has_bell)
		store_rlx(&shm_me(sk)->rx_anchor, shm_ring_how(sk));
	fence_full();
	uint64_t held = shm_is_held(sk) ? shm_held_until(sk) : UINT64_MAX;
	/* Shut, or with a doorbell in it that is somebody else's, the anchor
	 * would not let us sleep. */
	bool awake = sk->anchor_deaf ||
		     (others && load_rlx(&shm_of(sk)->bells_drained) !=
				    load_rlx(&shm_peer(sk)->bells));
	if (rx_ready(sk)) {
		;
	} else if (handlers_ran(seen, n.restarts)) {
		return -EINTR;
	} else if (awake || partial || held != UINT64_MAX) {
		store_rlx(&shm_me(sk)->rx_anchor, shm_ring_how(sk));
		fence_full();
		n.deadline_ns = deadline_after(load_rlx(&sk->rcvtimeo_ns));
		if (!awake) {
			n.events = POLLIN | POLLRDHUP;
			n.tick_ns = n.restarts ? NS_PER_MS : UINT64_MAX;
		} else if (shm_of(sk)
			       ->rx_tcp) { /* its bytes do not end a nap */
			n.deadline_ns =
			    MIN(n.deadline_ns, now_ns() + NS_PER_MS);
			n.ready = never;
		}
		bool till_due = held < n.deadline_ns;
		n.deadline_ns = MIN(n.deadline_ns, held);
		count(&sk->st->n_sleeps, 1);
		err = nap(sk, fd, &n);
		if (err == -EAGAIN && (n.ready == never || till_due))
			err = 0;
	} else if (me.has_bell) {
		count(&sk->st->n_sleeps, 1);
		err = bell_sleep(sk, fd, n.restarts, seen);
	} else {
		count(&sk->st->n_sleeps, 1);
		err = sock_is_alone(sk) && !shm_of(sk)->rx_tcp &&
			      shm_of(sk)->tx_ring
			  ? recv_bell(sk, fd)
			  : recv_sleep(sk, fd);
	}
	return err && anchor_note(sk, -err) ? 0 : err;
}

int shm_wait_rx(struct sock *sk, int fd, bool partial,
		struct handlers_seen seen)
{
	uint64_t start = now_ns();

	if (!shm_of(sk)->rx_tcp && !shm_of(sk)->rx_back &&
	    spin_until(rx_ready, sk, UINT64_MAX)) {
		count(&sk->st->n_spins, 1);
		return 0;
	}
	if (shm_of(sk)->rx_back) { /* plain TCP: its own readiness is enough */
		bool restarts = !partial && !load_rlx(&sk->rcvtimeo_ns);

		return handlers_ran(seen, restarts) ? -EINTR
						    : recv_sleep(sk, fd);
	}
	int err = rx_sleep(sk, fd, partial, seen);
	anchor_clear(sk, fd);
	if (!err)
		spin_learn(now_ns() - start);
	return err;
}

static int tx_sleep(struct sock *sk, int fd, struct tx_seen *tail,
		    uint64_t deadline_ns, bool partial,
		    struct handlers_seen seen)
{
	struct nap n = { .ready = tx_ready,
			 .arg = tail,
			 .deadline_ns = deadline_ns,
			 .tick_ns = NS_PER_MS,
			 .restarts = !partial && deadline_ns == UINT64_MAX };
	UNWIND(struct sleeper, me) = { .sk = sk, .waits_for_room = true };
	bool others = sleeper_begin(&me, fd);
	int err = 0;

	store_rlx(&shm_me(sk)->tx_anchor, 1u);
	fence_full();
	bool awake = shm_of(sk)->rx_tcp || sk->anchor_deaf || others;
	if (tx_ready(tail)) {
		;
	} else if (handlers_ran(seen, n.restarts)) {
		return -EINTR;
	} else if (awake || !n.restarts || load_rlx(&sk->rcvtimeo_ns)) {
		if (!awake) {
			n.events = POLLIN | POLLRDHUP;
			n.tick_ns = UINT64_MAX;
		}
		if (!awake && n.restarts) /* else ppoll() ends at any signal */
			n.tick_ns = NS_PER_MS;
		count(&sk->st->n_sleeps, 1);
		err = nap(sk, fd, &n);
	} else {
		count(&sk->st->n_sleeps, 1);
		err = recv_sleep(sk, fd);
	}
	return err && anchor_note(sk, -err) ? 0 : err;
}

/* Room in the kernel's buffer; a candidate is looked at again now and then. */
static int tx_sleep_tcp(struct sock *sk, int fd, uint64_t deadline_ns,
			bool partial)
{
	struct nap n = { .ready = never,
			 .deadline_ns =
			     MIN(deadline_ns, now_ns() + CANDIDATE_WAIT_NS),
			 .tick_ns = CANDIDATE_TICK_NS,
			 .events = POLLOUT,
			 .restarts = !partial && deadline_ns == UINT64_MAX };
	int err = nap(sk, fd, &n);

	return err == -EAGAIN ? 0 : err;
}

int shm_wait_tx(struct sock *sk, int fd, uint32_t tail, uint64_t deadline_ns,
		bool partial, struct handlers_seen seen)
{
	struct tx_seen at = { load_rlx(&shm_of(sk)->tx.tail_pub), tail };
	uint64_t start = now_ns();

	if (start >= deadline_ns)
		return -EAGAIN;
	if (!shm_of(sk)->tx_ring && handlers_ran(seen, false) &&
	    (partial || deadline_ns != UINT64_MAX || handlers_ran(seen, true)))
		return -EINTR;
	if (!shm_of(sk)->tx_ring)
		return tx_sleep_tcp(sk, fd, deadline_ns, partial);
	if (spin_until(tx_ready, &at, deadline_ns)) {
		count(&sk->st->n_spins, 1);
		return 0;
	}
	int err = tx_sleep(sk, fd, &at, deadline_ns, partial, seen);
	anchor_clear(sk, fd);
	if (!err)
		spin_learn(now_ns() - start);
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

/* Signals that would have ended a sleep, had they not all been blocked. */
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

/* close() cannot be left half done: so handlers run when the wait is over. */
COLD void shm_linger(struct sock *sk, int fd, int seconds)
{
	uint64_t end = now_ns() + (uint64_t)seconds * NS_PER_S;
	sigset_t all, mask;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	while (shm_outq(sk, fd) > 0 && now_ns() < end && !has_signal(&mask) &&
	       load_rlx(&sk->anchor_end) == ANCHOR_OPEN &&
	       !(load_rlx(&shm_peer(sk)->flags) & (SEG_CLOSED | SEG_RECALL))) {
		struct timespec tick = { .tv_nsec = NS_PER_MS };

		libc.ppoll(NULL, 0, &tick, NULL);
		anchor_look(sk, fd);
	}
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
}
