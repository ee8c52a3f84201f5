/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/inbox_news.c - what a peer posts, the lane's waiter drains, once
 *
 * A process's own inboxes, attached to a second time as its peers do.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/libc.h"
#include "proto/shm/inbox.h"
#include "proto/shm/segment.h"
#include "unit.h"

static uintptr_t seen[64];
static unsigned n_seen;

static unsigned n_behind; /* the first that was */

static void news(struct watch *owner, unsigned events, bool is_behind,
		 void *arg)
{
	assert_ptr_equal(arg, seen);
	assert_int_equal(events, READY_ANY);
	if (n_seen < ARRAY_LEN(seen))
		seen[n_seen] = (uintptr_t)owner;
	if (is_behind)
		n_behind = n_seen;
	n_seen++;
}

static bool drain(uint32_t lane)
{
	n_seen = 0;
	n_behind = UINT_MAX;
	return inbox_drain(lane, news, seen);
}

/* Our inbox for a peer that is this process, and as that would see it. */
static struct peer_inbox self;

static uint32_t own_tag(void)
{
	static uint32_t tag;

	if (!tag)
		tag = inbox_get(geteuid(), getpid());
	assert_true(tag);
	return tag;
}

static int attach(uint32_t tag, struct peer_inbox **to)
{
	int fd = inbox_fd_get(tag);

	inbox_fd_put();
	return inbox_attach(fd, to);
}

static bool post(uint32_t slot)
{
	self.in = inbox_of(own_tag());
	return inbox_post(&self, slot);
}

static void *owner(uintptr_t n) { return (void *)n; }

static void a_slot_posted_is_drained_once(void **state)
{
	uint32_t lane = lane_open();
	uint32_t slot = slot_open(lane, own_tag(), owner(64));
	struct inbox *in = inbox_of(own_tag());

	assert_non_null(in);
	assert_false(drain(lane));
	assert_false(post(slot));
	assert_false(post(slot));
	assert_true(lane_has_news(&in->lane[lane]));
	assert_true(drain(lane));
	assert_int_equal(n_seen, 1);
	assert_int_equal(seen[0], 64);
	assert_false(lane_has_news(&in->lane[lane]));
	assert_false(drain(lane));
	slot_close(slot);
	lane_close(lane);
}

static void only_a_sleeping_waiter_is_rung_and_only_once(void **state)
{
	uint32_t lane = lane_open();
	uint32_t slot = slot_open(lane, own_tag(), owner(64));
	struct inbox *in = inbox_of(own_tag());

	store_rlx(&in->lane[lane].sleeping, 1u);
	assert_true(post(slot));
	assert_false(post(slot));
	drain(lane);
	slot_close(slot);
	lane_close(lane);
}

static void a_waiter_that_naps_is_met_and_not_rung(void **state)
{
	uint32_t lane = lane_open(), met = bell_sleepers_met();
	uint32_t slot = slot_open(lane, own_tag(), owner(64));
	struct inbox *in = inbox_of(own_tag());

	assert_false(post(slot));
	assert_int_equal(bell_sleepers_met(), met);
	assert_true(drain(lane));
	store_rlx(&in->lane[lane].sleeping, LANE_NAPS);
	assert_false(post(slot));
	assert_int_equal(bell_sleepers_met(), met + 1);
	assert_true(drain(lane)); /* by itself */
	slot_close(slot);
	lane_close(lane);
}

/* Two threads wait for one set: one is about to nap while the other begins to sleep. */
static void a_nap_leaves_a_sleeper_to_be_rung(void **state)
{
	uint32_t lane = lane_open();
	struct lane *l = &inbox_of(own_tag())->lane[lane];

	lane_nap(l);
	assert_int_equal(l->sleeping, LANE_NAPS);
	store_rlx(&l->sleeping, LANE_ASLEEP);
	lane_nap(l);
	assert_int_equal(l->sleeping, LANE_ASLEEP);
	store_rlx(&l->sleeping, LANE_AWAKE);
	lane_close(lane);
}

static void *post_from_a_worker(void *slot)
{
	post(*(uint32_t *)slot);
	return NULL;
}

/* One thread polls, another one answers: what that one meets counts for the first, too. */
static void sleepers_that_another_thread_meets_count(void **state)
{
	uint32_t lane = lane_open(), met = bell_sleepers_met();
	uint32_t slot = slot_open(lane, own_tag(), owner(64));
	pthread_t worker;

	store_rlx(&inbox_of(own_tag())->lane[lane].sleeping, LANE_NAPS);
	assert_int_equal(
	    pthread_create(&worker, NULL, post_from_a_worker, &slot), 0);
	pthread_join(worker, NULL);
	assert_int_not_equal(bell_sleepers_met(), met);
	drain(lane);
	slot_close(slot);
	lane_close(lane);
}

static void lanes_hear_of_their_own_only(void **state)
{
	uint32_t one = lane_open(), two = lane_open();
	uint32_t slot = slot_open(one, own_tag(), owner(64));

	assert_int_not_equal(one, two);
	post(slot);
	assert_false(drain(two));
	assert_true(drain(one));
	slot_close(slot);
	lane_close(one);
	lane_close(two);
}

static void news_of_a_closed_slot_is_nobodys(void **state)
{
	uint32_t lane = lane_open();
	uint32_t slot = slot_open(lane, own_tag(), owner(64));

	post(slot);
	slot_close(slot);
	assert_false(drain(lane));
	assert_int_equal(n_seen, 0);
	assert_int_equal(slot_open(lane, own_tag(), owner(65)),
			 slot); /* used again */
	lane_close(lane);
}

static void a_lane_is_full_at_its_last_slot(void **state)
{
	uint32_t lane = lane_open();
	uint32_t last = SLOT_NONE;

	for (uint32_t i = 0; i < LANE_SLOTS; i++) {
		last = slot_open(lane, own_tag(), owner(i + 1));
		assert_int_not_equal(last, SLOT_NONE);
	}
	assert_int_equal(slot_open(lane, own_tag(), owner(1)), SLOT_NONE);
	post(last);
	assert_true(drain(lane));
	assert_int_equal(seen[0], LANE_SLOTS);
	slot_close(last);
	assert_int_equal(slot_open(lane, own_tag(), owner(1)), last);
	lane_close(lane);
}

static void news_comes_in_the_order_of_posts(void **state)
{
	static const unsigned order[] = { 40, 3, 63, 0, 20 };
	uint32_t lane = lane_open(), slot[64];

	for (unsigned i = 0; i < 64; i++)
		slot[i] = slot_open(lane, own_tag(), owner(i + 1));
	for (unsigned i = 0; i < ARRAY_LEN(order); i++)
		post(slot[order[i]]);
	post(slot[3]); /* not drained, it keeps its place */
	assert_true(drain(lane));
	assert_int_equal(n_seen, ARRAY_LEN(order));
	for (unsigned i = 0; i < n_seen; i++)
		assert_int_equal(seen[i], order[i] + 1);
	for (unsigned i = 64; i--;)
		post(slot[i]);
	assert_true(drain(lane));
	assert_int_equal(n_seen, 64);
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(seen[i], 64 - i);
	for (unsigned i = 0; i < 64; i++)
		slot_close(slot[i]);
	lane_close(lane);
}

static void tickets_wrap(void **state)
{
	uint32_t lane = lane_open();
	uint32_t one = slot_open(lane, own_tag(), owner(1)),
		 two = slot_open(lane, own_tag(), owner(2));

	inbox_of(own_tag())->lane[lane].ticket = UINT32_MAX;
	assert_false(drain(lane));
	post(two);
	post(one);
	assert_true(drain(lane));
	assert_int_equal(seen[0], 2);
	assert_int_equal(seen[1], 1);
	slot_close(one);
	slot_close(two);
	lane_close(lane);
}

static void what_comes_behind_tcp_is_told_once(void **state)
{
	struct peer_inbox *peer;
	uint32_t lane = lane_open();
	uint32_t one = slot_open(lane, own_tag(), owner(1)),
		 two = slot_open(lane, own_tag(), owner(2));

	assert_int_equal(attach(own_tag(), &peer), 0);
	post(two);
	inbox_went_past();
	post(one);
	assert_true(drain(lane));
	assert_int_equal(seen[1], 1);
	assert_int_equal(n_behind, 1);
	post(one);
	assert_true(drain(lane));
	assert_int_equal(n_behind, UINT_MAX);
	inbox_went_past();
	post(one);
	assert_true(drain(lane));
	assert_int_equal(n_behind, 0);
	inbox_went_past();
	inbox_of(own_tag())->lane[lane].asked_ns =
	    UINT64_MAX; /* it knows already */
	post(one);
	assert_true(drain(lane));
	assert_int_equal(n_behind, UINT_MAX);
	inbox_detach(peer);
	slot_close(one);
	slot_close(two);
	lane_close(lane);
}

static void more_than_the_log_holds_is_told_of_all_the_same(void **state)
{
	static uint32_t slot[LANE_LOG + 100];
	uint32_t lane = lane_open(), n = ARRAY_LEN(slot);

	for (unsigned i = 0; i < n; i++)
		slot[i] = slot_open(lane, own_tag(), owner(i + 1));
	for (unsigned i = n; i--;)
		post(slot[i]);
	assert_true(drain(lane));
	assert_int_equal(n_seen, n);
	assert_int_equal(seen[0], n - 99); /* by slot, the log begins later */
	for (unsigned i = 0; i < n; i++)
		slot_close(slot[i]);
	lane_close(lane);
}

/* Of two threads that find that something went past, the one with the earlier ticket may
 * come second. */
static void the_earliest_ticket_behind_tcp_counts(void **state)
{
	uint32_t lane = lane_open();
	struct lane *l = &inbox_of(own_tag())->lane[lane];
	uint32_t slot[2];
	struct peer_inbox *to;

	for (unsigned i = 0; i < 2; i++)
		slot[i] = slot_open(lane, own_tag(), owner(i + 1));
	assert_int_equal(attach(own_tag(), &to), 0);
	l->ticket = 5;
	inbox_went_past();
	inbox_post(to, slot[0]);
	l->ticket = 3;
	inbox_post(to, slot[1]);
	l->ticket = 6;
	assert_true(drain(lane));
	assert_int_equal(n_seen, 2);
	assert_int_equal(seen[0], 2);
	assert_int_equal(n_behind, 0);
	inbox_detach(to);
	for (unsigned i = 0; i < 2; i++)
		slot_close(slot[i]);
	lane_close(lane);
}

/* Whatever a peer writes, each slot is told of once. */
static void tickets_may_be_anything(void **state)
{
	uint32_t lane = lane_open();
	struct lane *l = &inbox_of(own_tag())->lane[lane];
	uint32_t slot[40];

	for (unsigned i = 0; i < 40; i++)
		slot[i] = slot_open(lane, own_tag(), owner(i + 1));
	for (unsigned k = 0; k < 100; k++) {
		bool met[40] = { false };

		for (unsigned i = 0; i < 40; i++)
			post(slot[i]);
		for (unsigned i = 0; i < LANE_LOG; i += k + 1)
			l->log[i] = (uint16_t)(i * k * 0x9e37u);
		l->recent[k % LANE_RECENT] = (uint16_t)k;
		l->ticket += k % 3 ? k * 0x9e3779b9u : 1;
		l->behind = BEHIND | (l->ticket + k - 50);
		assert_true(drain(lane));
		assert_int_equal(n_seen, 40);
		for (unsigned i = 0; i < 40; i++) {
			assert_false(met[seen[i] - 1]);
			met[seen[i] - 1] = true;
		}
	}
	for (unsigned i = 0; i < 40; i++)
		slot_close(slot[i]);
	lane_close(lane);
}

static void lanes_run_out_and_come_back(void **state)
{
	uint32_t lanes[INBOX_LANES + 1], n = 0;

	while ((lanes[n] = lane_open()) != LANE_NONE)
		assert_true(++n <= INBOX_LANES);
	assert_int_equal(n, INBOX_LANES);
	assert_int_equal(slot_open(LANE_NONE, own_tag(), owner(1)), SLOT_NONE);
	lane_close(lanes[7]);
	assert_int_equal(lane_open(), lanes[7]);
	while (n)
		lane_close(lanes[--n]);
	lane_close(LANE_NONE);
	slot_close(SLOT_NONE);
}

static void a_new_lane_has_no_old_news(void **state)
{
	uint32_t lane = lane_open();
	uint32_t slot = slot_open(lane, own_tag(), owner(64));

	post(slot);
	slot_close(slot);
	lane_close(lane);
	assert_int_equal(lane_open(), lane);
	slot = slot_open(lane, own_tag(), owner(64));
	assert_false(lane_has_news(&inbox_of(own_tag())->lane[lane]));
	slot_close(slot);
	lane_close(lane);
}

/* Slots come from a stranger: what is no slot is left to the anchor. */
static void a_slot_that_cannot_be_is_not_written(void **state)
{
	assert_true(post(slot_make(INBOX_LANES, 0)));
	assert_true(post(slot_make(0, LANE_SLOTS)));
	assert_true(post(SLOT_NONE));
	assert_true(post(UINT32_MAX - 1));
}

/* The own inbox as a peer has it, with a copy of this thread's bell. */
static void attach_with_bell(struct peer_inbox **to)
{
	assert_int_equal(attach(own_tag(), to), 0);
	int fd = dup(bell_fd_get(bell_mine(), getpid()));

	bell_fd_put();
	assert_int_equal(inbox_keep_bell(*to, bell_mine(), fd, getpid()), 0);
}

static bool was_rung(void)
{
	struct pollfd p = { .fd = bell_own_fd(bell_mine()), .events = POLLIN };
	bool rung = poll(&p, 1, 0) == 1;

	bell_hush(bell_mine());
	return rung;
}

static void a_lane_is_rung_by_its_bell_if_it_has_one(void **state)
{
	struct peer_inbox *to;
	uint32_t lane = lane_open();
	uint32_t slot = slot_make(lane, 0);

	if (bell_mine() == BELL_NONE)
		skip();
	attach_with_bell(&to);
	assert_false(inbox_ring(to, slot));
	inbox_of(own_tag())->lane[lane].bell1 = bell_mine() + 1;
	assert_true(inbox_ring(to, slot));
	assert_true(was_rung());
	inbox_of(own_tag())->lane[lane].bell1 =
	    UINT32_MAX; /* a peer's nonsense */
	assert_false(inbox_ring(to, slot));
	assert_false(inbox_ring(to, SLOT_NONE));
	assert_false(was_rung());
	inbox_detach(to);
	lane_close(lane);
}

static void of_several_peers_only_the_first_rings(void **state)
{
	struct peer_inbox *to;
	uint32_t bell = bell_mine();

	if (bell == BELL_NONE)
		skip();
	attach_with_bell(&to);
	inbox_of(own_tag())->bell[bell].sleeping = 1;
	assert_true(inbox_ring_only(to, bell));
	assert_true(was_rung());
	assert_true(inbox_ring_only(to, bell));
	assert_false(was_rung());
	inbox_of(own_tag())->bell[bell].sleeping = 1;
	assert_true(inbox_ring_only(to, bell));
	assert_true(was_rung());
	assert_false(inbox_ring_only(to, (bell + 1) % BELLS)); /* no copy */
	assert_false(inbox_ring_only(to, BELL_NONE));
	inbox_detach(to);
}

static void a_peer_is_mapped_once(void **state)
{
	struct inbox *own = inbox_of(own_tag());
	struct peer_inbox *one, *two;
	uint32_t lane = lane_open();
	uint32_t slot = slot_open(lane, own_tag(), owner(64));

	assert_int_equal(attach(own_tag(), &one), 0);
	assert_int_equal(attach(own_tag(), &two), 0);
	assert_ptr_equal(one, two);
	assert_ptr_not_equal(one->in, own);
	inbox_detach(one);
	inbox_post(two, slot); /* still mapped */
	assert_true(drain(lane));
	inbox_detach(two);
	inbox_detach(NULL);
	slot_close(slot);
	lane_close(lane);
}

static bool is_mapped(void *at)
{
	unsigned char in_core;

	return !mincore(at, 1, &in_core);
}

static void the_last_peer_stays_mapped_until_another_was_the_last(void **state)
{
	uint32_t tag = inbox_get(1000, 81);
	struct peer_inbox *to;

	assert_int_equal(attach(own_tag(), &to), 0);
	struct peer_inbox *first = to;
	struct inbox *at = to->in;
	inbox_detach(to);
	assert_true(is_mapped(at));
	assert_int_equal(attach(own_tag(), &to), 0);
	assert_ptr_equal(to, first);
	assert_ptr_equal(to->in, at);
	inbox_detach(to);

	assert_int_equal(attach(tag, &to), 0);
	assert_ptr_not_equal(to->in, at);
	assert_true(is_mapped(at));
	inbox_detach(to);
	assert_false(is_mapped(at));
	inbox_put(tag);
}

/* What a child maps: its parent's peers, as long as they have connections. */
static bool forgets_its_parents(struct peer_inbox *used, void *idle)
{
	void *at = used->in;

	post_after_fork();
	if (is_mapped(idle) || !is_mapped(at))
		return false;
	inbox_detach(used);
	return !is_mapped(at);
}

static void a_child_keeps_no_peer_of_its_parent(void **state)
{
	uint32_t tag = inbox_get(1000, 82);
	struct peer_inbox *used, *idle;
	int status;

	assert_int_equal(attach(own_tag(), &idle), 0);
	assert_int_equal(attach(tag, &used), 0);
	struct inbox *at = idle->in;
	inbox_detach(idle);
	pid_t child = fork();
	if (!child)
		_exit(!forgets_its_parents(used, at));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(is_mapped(at));
	inbox_detach(used);
	inbox_put(tag);
}

static void what_could_shrink_is_not_mapped(void **state)
{
	struct peer_inbox *in;
	int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int pipes[2];

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, sizeof(struct inbox)), 0);
	assert_int_equal(inbox_attach(fd, &in), -EBADMSG);
	close(fd);

	void *map;
	assert_int_equal(sealed_create("short", 4096, &map, &fd), 0);
	assert_int_equal(inbox_attach(fd, &in), -EBADMSG);
	munmap(map, 4096);
	close(fd);

	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(inbox_attach(pipes[0], &in), -EBADMSG);
	close(pipes[0]);
	close(pipes[1]);
}

/* I1: whoever drains the bit also sees what was written before the post. */
#define POSTS 200000u
#define POSTERS 8u

static uint32_t letters[POSTERS];
static uint32_t read_up_to[POSTERS];
static uint32_t slots[POSTERS];

static void *post_all(void *arg)
{
	for (uint32_t i = 1; i <= POSTS; i++) {
		for (uint32_t k = 0; k < POSTERS; k++) {
			store_rlx(&letters[k], i);
			inbox_post(arg, slots[k]);
		}
	}
	return NULL;
}

static void read_letter(struct watch *p, unsigned events, bool is_behind,
			void *arg)
{
	uintptr_t k = (uintptr_t)p - 1;

	read_up_to[k] = load_rlx(&letters[k]);
}

static void no_news_is_lost_between_threads(void **state)
{
	struct peer_inbox *in;
	uint32_t lane = lane_open();
	pthread_t thread;

	assert_int_equal(attach(own_tag(), &in), 0);
	for (uint32_t k = 0; k < POSTERS; k++)
		slots[k] = slot_open(lane, own_tag(), owner(k + 1));
	assert_int_equal(pthread_create(&thread, NULL, post_all, in), 0);
	for (unsigned idle = 0, done = 0; done < POSTERS && idle < 1u << 30;) {
		if (!inbox_drain(lane, read_letter, NULL)) {
			idle++;
			sched_yield();
			continue;
		}
		done = 0;
		for (uint32_t k = 0; k < POSTERS; k++)
			done += read_up_to[k] == POSTS;
	}
	pthread_join(thread, NULL);
	inbox_detach(in);
	for (uint32_t k = 0; k < POSTERS; k++)
		slot_close(slots[k]);
	lane_close(lane);
}

/* --- several peers --- */

static void what_a_peer_writes_concerns_no_other(void **state)
{
	uint32_t a = inbox_get(1000, 71), b = inbox_get(1000, 72);
	uint32_t lane = lane_open(), i = 0, n = 0;
	uint32_t bad = slot_open(lane, a, owner(1));
	uint32_t good = slot_open(lane, b, owner(2));
	struct peer_inbox *from_a, *from_b;

	assert_int_not_equal(a, b);
	assert_int_equal(inbox_get(1000, 72), b);
	assert_int_equal(attach(a, &from_a), 0);
	assert_int_equal(attach(b, &from_b), 0);
	for (struct lane *l; (l = lane_next(lane, &i)); n++)
		l->sleeping = 1;
	assert_int_equal(n, 2);
	inbox_post(from_b, slot_public(good));
	memset(from_a->in, 0, sizeof(struct inbox));
	assert_true(drain(lane));
	assert_int_equal(n_seen, 1);
	assert_int_equal(seen[0], 2);
	slot_in(good)->sleeping = 1;
	memset(from_a->in, 0, sizeof(struct inbox));
	assert_true(inbox_post(from_b, slot_public(good))); /* is to ring */
	memset(from_a->in, 0xff, sizeof(struct inbox));
	assert_true(drain(lane));
	assert_int_equal(n_seen, 2); /* each once, whoever lies */
	inbox_detach(from_a);
	inbox_detach(from_b);
	slot_close(bad);
	slot_close(good);
	lane_close(lane);
	inbox_put(a);
	inbox_put(b);
	inbox_put(b);
}

static void later_peers_share_one_for_each_user(void **state)
{
	uint32_t tags[INBOXES_PRIVATE], shared[3], n = 0;

	/* One is for this process. */
	while (n < INBOXES_PRIVATE - 1) {
		tags[n] = inbox_get(1000, (pid_t)(100 + n));
		for (uint32_t i = 0; i < n; i++)
			assert_int_not_equal(tags[i], tags[n]);
		n++;
	}
	for (int i = 0; i < 3; i++)
		shared[i] = inbox_get(i < 2 ? 1000 : 1001, 500 + i);
	assert_true(shared[0] && shared[2]);
	assert_int_equal(shared[0], shared[1]);
	assert_int_not_equal(shared[0], shared[2]);
	inbox_put(tags[3]);
	uint32_t later = inbox_get(1000, 600); /* there is room again */
	assert_int_not_equal(later, shared[0]);
	inbox_put(later);
	for (uint32_t i = 0; i < n; i++)
		if (i != 3)
			inbox_put(tags[i]);
	for (int i = 0; i < 3; i++)
		inbox_put(shared[i]);
}

/* Sooner or later its place goes to another, with memory that nobody else has. */
static void a_former_peer_writes_to_nobody(void **state)
{
	uint32_t tag = inbox_get(1000, 71), next = 0, lane = lane_open();
	struct inbox *at = inbox_of(tag);
	struct peer_inbox *former;

	assert_int_equal(attach(tag, &former), 0);
	inbox_put(tag);
	for (uint32_t i = 0; inbox_of(tag); i++) {
		assert_true(i < INBOXES);
		inbox_put(next);
		next = inbox_get(2000, (pid_t)(1000 + i));
	}
	assert_ptr_equal(inbox_of(next), at);
	uint32_t slot = slot_open(lane, next, owner(1));
	former->in->lane[lane].summary[0] = 1;
	former->in->lane[lane].bits[0] = 1;
	assert_false(drain(lane));
	slot_close(slot);
	lane_close(lane);
	inbox_detach(former);
	inbox_put(next);
}

/* Pointers to what the parent frees are no owners in the child. */
static void a_childs_lane_forgets_the_parents_owners(void **state)
{
	uint32_t lane = lane_open(), slot[3];
	int status;

	for (int i = 0; i < 3; i++)
		slot[i] = slot_open(lane, own_tag(), owner(i + 1));
	pid_t pid = fork();
	if (!pid) {
		inbox_after_fork();
		uint32_t tag = inbox_get(geteuid(), getpid());
		uint32_t own = lane_open();
		slot_open(own, tag, owner(40));
		inbox_of(tag)->lane[own].summary[0] = 1;
		inbox_of(tag)->lane[own].bits[0] = UINT64_MAX;
		drain(own);
		_exit(n_seen == 1 && seen[0] == 40 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (int i = 0; i < 3; i++)
		slot_close(slot[i]);
	lane_close(lane);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slot_posted_is_drained_once),
		cmocka_unit_test(only_a_sleeping_waiter_is_rung_and_only_once),
		cmocka_unit_test(a_waiter_that_naps_is_met_and_not_rung),
		cmocka_unit_test(a_nap_leaves_a_sleeper_to_be_rung),
		cmocka_unit_test(sleepers_that_another_thread_meets_count),
		cmocka_unit_test(lanes_hear_of_their_own_only),
		cmocka_unit_test(news_of_a_closed_slot_is_nobodys),
		cmocka_unit_test(a_lane_is_full_at_its_last_slot),
		cmocka_unit_test(news_comes_in_the_order_of_posts),
		cmocka_unit_test(tickets_wrap),
		cmocka_unit_test(what_comes_behind_tcp_is_told_once),
		cmocka_unit_test(the_earliest_ticket_behind_tcp_counts),
		cmocka_unit_test(
		    more_than_the_log_holds_is_told_of_all_the_same),
		cmocka_unit_test(tickets_may_be_anything),
		cmocka_unit_test(lanes_run_out_and_come_back),
		cmocka_unit_test(a_new_lane_has_no_old_news),
		cmocka_unit_test(a_slot_that_cannot_be_is_not_written),
		cmocka_unit_test(a_lane_is_rung_by_its_bell_if_it_has_one),
		cmocka_unit_test(of_several_peers_only_the_first_rings),
		cmocka_unit_test(a_peer_is_mapped_once),
		cmocka_unit_test(
		    the_last_peer_stays_mapped_until_another_was_the_last),
		cmocka_unit_test(a_child_keeps_no_peer_of_its_parent),
		cmocka_unit_test(what_could_shrink_is_not_mapped),
		cmocka_unit_test(no_news_is_lost_between_threads),
		cmocka_unit_test(what_a_peer_writes_concerns_no_other),
		cmocka_unit_test(later_peers_share_one_for_each_user),
		cmocka_unit_test(a_former_peer_writes_to_nobody),
		cmocka_unit_test(a_childs_lane_forgets_the_parents_owners),
	};

	libc_resolve();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
