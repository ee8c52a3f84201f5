/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/ready.c - connect the rings' news to our ready sets, and ask for news
 *
 *     watch()  ->  gives the set a lane of the inbox, the socket a slot in it
 *     a peer's inbox_post()  ->  ready_drain()
 *     shm_arm(), shm_arm_bell()  ->  words that the peer looks at when it has news
 *
 * Each side of a segment names one slot, to which its peer posts.  So if one
 * ready set watches a socket, the peer posts to that set's lane.  If several
 * sets or several processes watch it, the peer rings the anchor instead.
 */
#include <poll.h>
#include <sys/epoll.h>

#include "proto/shm/inbox.h"
#include "proto/shm/shm.h"
#include "sock/ready.h"
#include "sock/shared.h"

static_assert(READY_WORDS == LANE_WORDS / 64, "a set looks at the summary");
static_assert(READY_PLACES >= INBOXES, "of each inbox");

HOT static bool feed_drain(struct ready_set *rs, ready_news *news, void *arg)
{
	return inbox_drain(rs->lane, news, arg);
}

static void lane_sleep(struct lane *l, const struct ready_set *rs)
{
	store_rlx(&l->bell1, load_rlx(&rs->bell1));
	xchg(&l->sleeping, LANE_ASLEEP); /* and a fence */
}

static void feed_sleep(struct ready_set *rs, bool naps)
{
	uint32_t i = 0;

	for (struct lane *l; (l = lane_next(rs->lane, &i));) {
		if (naps)
			lane_nap(l);
		else
			lane_sleep(l, rs);
	}
}

static void lanes_say(struct ready_set *rs, uint32_t how)
{
	uint32_t i = 0;

	for (struct lane *l; (l = lane_next(rs->lane, &i));)
		store_rlx(&l->sleeping, how);
	fence_full();
}

/* If a thread has begun to sleep since @others_sleep was found out, LANE_AWAKE may have
 * overwritten its LANE_ASLEEP: peers would not wake it. */
static void feed_awake(struct ready_set *rs, bool others_sleep)
{
	lanes_say(rs, others_sleep ? LANE_ASLEEP : LANE_AWAKE);
	if (unlikely(!others_sleep && load_rlx(&rs->n_sleepers)))
		lanes_say(rs, LANE_ASLEEP);
}

static void feed_asked(struct ready_set *rs, uint64_t now_ns)
{
	uint32_t i = 0;

	for (struct lane *l; (l = lane_next(rs->lane, &i));)
		store_rlx(&l->asked_ns, now_ns);
}

static void feed_forget(struct sock *sk, struct watch *w)
{
	if (shm_of(sk)->seg)
		store_rel(&shm_me(sk)->slot, SLOT_NONE);
	slot_close(w->slot);
	w->slot = READY_SLOT_NONE;
}

static void feed_close(struct ready_set *rs) { lane_close(rs->lane); }

static const struct ready_feed inbox_feed = {
	.drain = feed_drain,
	.sleep = feed_sleep,
	.awake = feed_awake,
	.asked = feed_asked,
	.forget = feed_forget,
	.close = feed_close,
};

static bool feed_open(struct ready_set *rs)
{
	if (rs->by_fd)
		return false;
	if (rs->feed)
		return true;
	uint32_t lane = lane_open();
	if (lane == LANE_NONE)
		return false;
	ready_feed_open(rs, &inbox_feed, lane);
	return true;
}

void shm_watch(struct sock *sk, struct watch *w)
{
	bool has_feed = feed_open(w->set);

	if (!shm_of(sk)->seg || !shm_has_inbox(sk))
		return;
	if (w->next) {
		for (struct watch *o = w->next; o; o = o->next)
			watch_by_fd(sk, o);
		return;
	}
	if (!has_feed)
		return;
	w->slot = slot_open(w->set->lane, shm_of(sk)->inbox_tag, w);
	if (w->slot != SLOT_NONE &&
	    ready_feed_more(w->set, slot_in(w->slot)->summary))
		lane_sleep(slot_in(w->slot), w->set);
	store_rel(&shm_me(sk)->slot, slot_public(w->slot));
	w->is_notified = w->slot != SLOT_NONE;
	/* Arm the slot now, so that its first news has a ticket.  The waiter
	 * fences and looks before it sleeps. */
	if (w->is_notified)
		store_rlx(&shm_me(sk)->rx_inbox, 1u);
}

void shm_tell_self(struct sock *sk)
{
	uint32_t slot = load_rlx(&shm_me(sk)->slot);

	if (slot != SLOT_NONE)
		inbox_tell_self(shm_of(sk)->inbox_tag, slot);
}

/* Tell the peer about space that we freed silently: it may wait for that while
 * we wait for it. */
void shm_tell_of_space(struct sock *sk, int fd)
{
	if (load_rlx(&shm_w(sk)->rx_tcp) ||
	    (!sk->page && load_rlx(&shm_of(sk)->rx.published) ==
			      load_rlx(&shm_of(sk)->rx.off)))
		return;
	if (unlikely(!sock_look_rx(sk))) {
		shm_leave_due(sk, fd, SHM_DUE_SPACE);
		return;
	}
	if (sock_is_ours(sk) &&
	    shm_of(sk)->rx.published != shm_of(sk)->rx.off) {
		sock_changes_rx(sk);
		if (ring_publish(&shm_of(sk)->rx))
			shm_notify_space(sk, fd);
	}
	sock_unlock_rx(sk);
}

bool shm_has_inbox(const struct sock *sk)
{
	return inbox_of(shm_of(sk)->inbox_tag);
}

/* The peer has copies of the bells of one process: the one whose inbox it
 * maps. */
static bool peer_has_bell(const struct sock *sk, uint32_t bell)
{
	return bell_own_fd(bell) >= 0 &&
	       load_rlx(&shm_peer(sk)->has_bell1) == bell + 1 &&
	       shm_has_inbox(sk);
}

bool shm_arm_bell(struct sock *sk, int fd)
{
	uint32_t bell = bell_mine(), *word = &shm_me(sk)->rx_bell1;
	uint32_t was = load_rlx(word), how = bell + 1;

	if (load_rlx(&shm_w(sk)->rx_tcp) || sock_procs(sk) > 1 ||
	    shm_ring_how(sk) != RING_ONCE || !peer_has_bell(sk, bell) ||
	    (was && (was & ~RING_ONLY_ONE) != bell + 1)) /* another thread's */
		return false;
	/* The word that all peers can clear is for who looks up now and then. */
	if (!bell_is_private(bell)) {
		how |= RING_ONLY_ONE;
		store_rlx(&inbox_of(shm_of(sk)->inbox_tag)->bell[bell].sleeping,
			  1u);
	}
	if (!cas(word, was, how))
		return false;
	fence_full(); /* Dekker; the caller looks next */
	shm_tell_of_space(sk, fd);
	return true;
}

void shm_disarm_bell(struct sock *sk)
{
	uint32_t bell = bell_mine(), *word = &shm_me(sk)->rx_bell1;
	uint32_t was = load_rlx(word);

	if ((was & ~RING_ONLY_ONE) == bell + 1)
		cas(word, was, 0u);
	struct inbox *in = inbox_of(shm_of(sk)->inbox_tag);
	if (bell < BELLS && in)
		store_rlx(&in->bell[bell].sleeping, 0u);
}

void shm_arm(struct sock *sk, int fd, unsigned events, enum shm_arm how)
{
	struct seg_side *me = shm_me(sk);

	uint32_t *rx = how == ARM_INBOX ? &me->rx_inbox : &me->rx_anchor;
	uint32_t *tx = how == ARM_INBOX ? &me->tx_inbox : &me->tx_anchor;
	bool fresh = false;

	/* A slot that is already armed needs no fence: an exchange has cleared
	 * its bit before the caller's next look. */
	if (events & POLLIN && (how == ARM_ANCHOR || !load_rlx(rx))) {
		store_rlx(rx, how == ARM_ANCHOR ? shm_ring_how(sk) : 1u);
		fresh = true;
	}
	if (events & POLLOUT) {
		store_rlx(tx, 1u);
		fresh = true;
	}
	if (fresh)
		fence_full(); /* Dekker; the caller looks next */
	if (events & POLLIN)
		shm_tell_of_space(sk, fd);
}

bool shm_arm_for(struct sock *sk, int fd, unsigned events,
		 const struct watch *w)
{
	bool is_notified = w && w->is_notified;

	shm_arm(sk, fd, events, is_notified ? ARM_INBOX : ARM_ANCHOR);
	if (unlikely(load_rlx(&shm_w(sk)->rx_tcp)))
		shm_readahead_fill(sk, fd, !w);
	/* Nobody posts what arrives by TCP. */
	return is_notified && !load_rlx(&shm_w(sk)->rx_tcp) &&
	       !load_rlx(&shm_w(sk)->rx_back);
}

bool shm_anchor_event(struct sock *sk, int fd, unsigned events,
		      const struct watch *w)
{
	bool ends = events & (POLLHUP | POLLERR | POLLRDHUP);

	if (ends)
		anchor_ask(sk, fd);
	/* Unread doorbells in the anchor might hide its next edge.  But
	 * somebody who polls the anchor from outside needs them, unless that
	 * is a set that contains this set alone, and this set reports
	 * only what is new. */
	bool tells_news =
	    events & EPOLLET && w == sk->watches.first && !w->next;
	if (w->is_notified || tells_news || !(shm_events(sk, fd) & POLLIN))
		anchor_clear(sk, fd);
	/* A doorbell is news only if the peer rang it instead of posting.  Bytes that
	 * TCP brings behind the ring are never posted. */
	return ends || !load_rlx(&shm_me(sk)->rx_inbox) ||
	       load_acq(&shm_peer(sk)->flags) & SEG_TX_BACK; /* S2 */
}
