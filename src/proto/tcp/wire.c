/* SPDX-License-Identifier: MIT */
/* proto/tcp/wire.c - the process's own TCP; see proto/tcp/wire.h */
#include "proto/tcp/wire.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/idle.h"
#include "base/libc.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "base/sockopt.h"
#include "osfd/client.h"
#include "proto/tcp/conn.h"
#include "proto/tcp/grant.h"
#include "proto/tcp/judge.h"
#include "proto/tcp/past.h"
#include "sock/arena.h"
#include "tcp/calls.h"
#include "tcp/tcp.h"

/* After osfd has refused a device, or was not there. */
#define ASK_AGAIN_NS (2 * NS_PER_S)
#define CHECK_NS (200 * NS_PER_MS)
#define CHANGES_NS (20 * NS_PER_MS)
#define DRIVEN_NS (8 * NS_PER_MS)
#define LOSS_NS (20 * NS_PER_MS) /* after the ring was full */
#define LOSS_AGAIN_NS NS_PER_S   /* at most so often */
#define ANCHORS 16               /* that are looked at together */
#define SEEK_NS (10 * NS_PER_MS) /* until a new osfd is looked for */
#define SEEK_MAX_NS NS_PER_S
/* A call that needs osfd waits for so long after it has gone. */
#define WAIT_NS (5 * NS_PER_S)

struct engine *wire_engine;

static struct lock lock; /* all below */
static int idle_set_fd = -1, timer_fd = -1, changes_fd = -1, packet_fd = -1;
static uint32_t n_opened; /* numbers idle_set_fd */
static uint32_t device;
static uint32_t refused_device;
static uint64_t refused_ns;
static uint64_t timer_ns =
    UINT64_MAX; /* when timer_fd expires; read without the lock */
static uint64_t loss_ask_ns =
    UINT64_MAX;                /* when to ask peers for what was lost */
static uint64_t loss_asked_ns; /* when they were asked last */
static uint64_t waited_ns;     /* when a thread waited last, and which one */
static uint32_t waited_by;
static uint64_t other_ns; /* the same of another thread than that */
static uint32_t other_by;
static uint64_t
    held_ns; /* about when the lock was taken; 0: nobody has asked */
static struct list conns;
/* osfd has gone: since when, and when to look for the next one. */
static bool is_lost;
static uint64_t lost_ns, again_ns;
static bool has_conns_list;

void wire_lock(void)
{
	lock_get(&lock);
	held_ns = 0;
}

uint64_t wire_now(void)
{
	if (!held_ns)
		held_ns = now_ns();
	return held_ns;
}

bool wire_is_due(void)
{
	return wire_has_come() || coarse_ns() >= load_rlx(&timer_ns);
}

/*
 * osfd ends, and another one is there.
 */

static bool watch_fd(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return fd >= 0 && !libc.epoll_ctl(idle_set_fd, EPOLL_CTL_ADD, fd, &ev);
}

/* While no connection has moved, a call must sleep as if there were no port.  But the
 * program's epoll sets contain idle_set_fd until the program waits for them again, and
 * somebody may poll such a set.  So this clears the events in idle_set_fd, or sets them
 * again. */
static void watch_all(bool is_on)
{
	const int fds[] = { packet_fd, timer_fd, changes_fd, grant_fd() };
	struct epoll_event ev = { .events = is_on ? EPOLLIN : 0 };

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (fds[i] >= 0)
			libc.epoll_ctl(idle_set_fd, EPOLL_CTL_MOD, fds[i], &ev);
}

static void all_due(enum osf_reason why)
{
	for (struct list *l = conns.next; l != &conns; l = l->next)
		moved_due(container_of(l, struct moved, link), why);
}

/* Not those that a rule gives to tcp. */
static void send_back_all(void)
{
	for (struct list *l = conns.next; l != &conns; l = l->next) {
		struct moved *m = container_of(l, struct moved, link);

		if (!(load_rlx(&m->sk->flags) & SOCK_F_EAGER))
			moved_due(m, OSF_REASON_SLOWER);
	}
}

/* Return: 0, or -EIO: this osfd has gone as well */
static int adopt_all(void)
{
	for (struct list *l = conns.next; l != &conns; l = l->next) {
		struct moved *m = container_of(l, struct moved, link);

		if (grant_adopt(m) < 0) {
			if (grant_fd() < 0)
				return -EIO;
			moved_due(m, OSF_REASON_BROKEN);
		}
	}
	return 0;
}

/* Takes the frames of both packet sockets, so some frames are taken twice and none is lost.
 * *@frames: on return, the socket that the caller closes, or -1 */
static int change_ring(const struct msg_grant *g, int *frames)
{
	struct packet_ring ring = { g->slot_bytes, g->n_slots };
	int old = packet_fd;

	if (!watch_fd(*frames) || !watch_fd(grant_fd()))
		return -EMFILE;
	engine_in(wire_engine, now_ns());
	int err = engine_reopen(wire_engine, *frames, &ring);
	if (err) { /* it has closed the descriptor */
		*frames = -1;
		return err;
	}
	packet_fd = *frames;
	fds_close(old);
	return 0;
}

/* Return: 0, or a negative errno: there is none, or it does not want us */
static int seek_osfd(uint64_t now)
{
	struct reply reply = { 0 };
	struct msg_grant g;
	int frames;

	uint64_t gone_ns = MAX(now - lost_ns, SEEK_NS);

	again_ns = now + MIN(gone_ns, SEEK_MAX_NS);
	int err = grant_open(device, &g, &frames, &reply);
	if (err)
		return err;
	err = adopt_all();
	if (!err)
		err = change_ring(&g, &frames);
	if (err) {
		fds_close(frames);
		grant_end_new();
		return err;
	}
	grant_end_old();
	is_lost = false;
	if (list_is_empty(&conns))
		watch_all(false);
	for (struct list *l = conns.next; l != &conns; l = l->next)
		moved_found(container_of(l, struct moved, link));
	log_info("a new osfd has the connections");
	return 0;
}

static void be_lost(uint64_t now)
{
	is_lost = true;
	lost_ns = now;
	again_ns = now + SEEK_NS;
	for (struct list *l = conns.next; l != &conns; l = l->next)
		moved_hurry(container_of(l, struct moved, link));
}

/* osfd wants the connections back.  With the last one the grant goes. */
static void leave(uint64_t now)
{
	all_due(OSF_REASON_PORT_ENDS);
	if (!list_is_empty(&conns))
		return;
	grant_leave();
	be_lost(now);
}

static void look_at_osfd(uint64_t now)
{
	if (is_lost)
		return;
	if (!grant_is_lost()) {
		if (unlikely(grant_is_ending()))
			leave(now);
		return;
	}
	be_lost(now);
	log_info("osfd has gone; connections go on without");
}

bool wire_has_osfd(void) { return !is_lost; }

int wire_wait_for_osfd(void)
{
	int err = -EIO;

	look_at_osfd(now_ns());
	for (;;) {
		uint64_t now = now_ns();

		if (is_lost)
			err = seek_osfd(now);
		else
			return 0;
		if (!err || now - lost_ns > WAIT_NS)
			return err;
		nocancel_poll(NULL, 0, SEEK_NS / NS_PER_MS);
	}
}

/*
 * Turns.
 */

static void set_timer(void)
{
	uint64_t next = engine_next_ns(wire_engine);

	if (unlikely(is_lost) && !list_is_empty(&conns))
		next = MIN(next, again_ns);
	next = MIN(next, loss_ask_ns);
	if (likely(next >= timer_ns))
		return;
	struct itimerspec at = { .it_value = ns_timespec(MAX(next, 1u)) };
	timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
	store_rlx(&timer_ns, next);
}

static void clear_timer(uint64_t now)
{
	uint64_t ticks;

	if (likely(now < timer_ns))
		return;
	nocancel_read(timer_fd, &ticks, sizeof(ticks));
	store_rlx(&timer_ns, UINT64_MAX);
}

/* Anchors with an error, and the device's own. */
static void look_at_errors(void)
{
	struct epoll_event ev[ANCHORS];
	int n = nocancel_epoll_wait(idle_set_fd, ev, ANCHORS, 0);

	for (int i = 0; i < n; i++) {
		struct moved *m = ev[i].data.ptr;

		if (!m)
			continue;
		libc.epoll_ctl(idle_set_fd, EPOLL_CTL_DEL, m->fd, NULL);
		moved_due(m, OSF_REASON_KILLED);
	}
	/* A device that has gone down says so until it is asked. */
	if (unlikely(sockopt_int(packet_fd, SOL_SOCKET, SO_ERROR)))
		all_due(OSF_REASON_LINK);
}

void wire_tell_drops(void)
{
	struct osf_stats_totals *t = arena_totals();

	static_assert(DROP_REASONS <= ARRAY_LEN(t->n_drop), "a place for each");
	for (unsigned i = 0; i < DROP_REASONS; i++)
		store_rlx(&t->n_drop[i], tcp_dropped(engine_stack(wire_engine),
						     (enum drop_reason)i));
}

static void check_all(uint64_t now)
{
	static uint64_t checked_ns;

	if (likely(now - checked_ns < CHECK_NS))
		return;
	checked_ns = now;
	wire_tell_drops();
	look_at_osfd(now);
	look_at_errors();
	for (struct list *l = conns.next; l != &conns; l = l->next)
		moved_check(container_of(l, struct moved, link), !is_lost);
}

/* The ring has been full: each connection that has been silent since may have lost a reset. */
static void look_at_losses(uint64_t now)
{
	uint64_t soonest = MAX(now + LOSS_NS, loss_asked_ns + LOSS_AGAIN_NS);

	if (unlikely(engine_has_been_full(wire_engine)))
		loss_ask_ns = MIN(loss_ask_ns, soonest);
	if (likely(now < loss_ask_ns))
		return;
	loss_ask_ns = UINT64_MAX;
	loss_asked_ns = now;
	for (struct list *l = conns.next; l != &conns; l = l->next)
		moved_ask(container_of(l, struct moved, link),
			  LOSS_NS / NS_PER_MS);
}

void wire_turn(void)
{
	uint64_t now = wire_now();

	clear_timer(now);
	engine_in(wire_engine, now);
	look_at_losses(now);
	check_all(now);
	if (unlikely(judge_check(now)))
		send_back_all();
	if (unlikely(is_lost) && now >= again_ns && !list_is_empty(&conns))
		(void)seek_osfd(now);
	if (unlikely(engine_error(wire_engine) != 0))
		all_due(OSF_REASON_LINK);
	if (unlikely(engine_has_refused(wire_engine)))
		all_due(OSF_REASON_URGENT);
	if (unlikely(engine_has_cut(wire_engine)))
		all_due(OSF_REASON_BULK);
}

void wire_unlock(void)
{
	struct engine *e = wire_engine;
	struct tcp_conn *c;

	if (likely(e != NULL)) {
		engine_out(e, wire_now());
		while ((c = tcp_next_ready(engine_stack(e))))
			moved_news(tcp_user(c));
		set_timer();
		grant_away(tcp_ack_due_ns(engine_stack(e)));
	}
	lock_put(&lock);
}

/* Have addresses, links or routes changed?  Then the connections go back, because the
 * kernel knows where to send.  If a frame has come, that explains why a sleeper woke, so
 * then this asks the kernel only now and then. */
static void look_at_changes(void)
{
	static uint64_t asked_ns;
	uint64_t now = coarse_ns();
	char buf[8192];
	bool any = false;

	if (wire_has_come() && now - asked_ns < CHANGES_NS)
		return;
	asked_ns = now;
	while (nocancel_recv(changes_fd, buf, sizeof(buf), MSG_DONTWAIT) > 0 ||
	       errno == ENOBUFS)
		any = true;
	if (any)
		all_due(OSF_REASON_ROUTE);
}

void wire_look(void)
{
	int saved = errno;

	if (!wire_is_due())
		return;
	wire_lock();
	if (wire_engine)
		wire_turn();
	wire_unlock();
	errno = saved;
}

static void idle_look(void)
{
	int saved = errno;

	wire_lock();
	if (wire_engine) {
		look_at_changes();
		if (!wire_has_come()) {
			look_at_osfd(now_ns());
			look_at_errors();
		}
		wire_turn();
	}
	wire_unlock();
	errno = saved;
}

static int idle_watched(uint32_t *number)
{
	*number = n_opened;
	return idle_set_fd;
}

/* Without a lock: words that are not of one wait are wrong for DRIVEN_NS at most. */
static void idle_waited(void)
{
	uint32_t self = lock_self();

	if (self != load_rlx(&waited_by)) {
		store_rlx(&other_ns, load_rlx(&waited_ns));
		store_rlx(&other_by, load_rlx(&waited_by));
		store_rlx(&waited_by, self);
	}
	store_rlx(&waited_ns, coarse_ns());
}

/* Who waits for frames takes them.  Who has taken some says nothing: a thread that each frame
 * wakes may be quicker than the one that waits for them, and take them all. */
static bool is_driven(void)
{
	uint64_t last = load_rlx(&waited_by) == lock_self()
			    ? load_rlx(&other_ns)
			    : load_rlx(&waited_ns);

	return coarse_ns() < last + DRIVEN_NS;
}

/* From here on the thread is nobody that others may count on. */
static bool idle_left(void)
{
	wire_lock();
	bool driven = is_driven();

	if (driven && load_rlx(&waited_by) == lock_self()) {
		store_rlx(&waited_ns, load_rlx(&other_ns));
		store_rlx(&waited_by, load_rlx(&other_by));
	}
	if (driven)
		store_rlx(&other_ns, (uint64_t)0);
	lock_put(&lock);
	return driven;
}

static const struct idle idle_wire = { .fd = idle_watched,
				       .run = idle_look,
				       .has_come = wire_has_come,
				       .waits = idle_waited,
				       .is_driven = is_driven,
				       .leaves = idle_left };

/*
 * Opening.
 */

static int listen_to_changes(void)
{
	struct sockaddr_nl at = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR |
			     RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE |
			     RTMGRP_IPV6_ROUTE,
	};
	int fd = libc.socket(
	    AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd >= 0 && libc.bind(fd, (struct sockaddr *)&at, sizeof(at))) {
		nocancel_close(fd);
		return -1;
	}
	return fds_hide(fd);
}

static void close_all(void)
{
	int *fds[] = { &idle_set_fd, &timer_fd, &changes_fd };

	grant_close();

	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds_close(*fds[i]);
		*fds[i] = -1;
	}
	timer_ns = UINT64_MAX;
}

static int open_idle(int frames_fd)
{
	timer_fd = fds_hide(
	    timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
	idle_set_fd = fds_hide(libc.epoll_create1(EPOLL_CLOEXEC));
	changes_fd = listen_to_changes();
	n_opened++;
	return watch_fd(frames_fd) && watch_fd(timer_fd) &&
		       watch_fd(changes_fd) && watch_fd(grant_fd())
		   ? 0
		   : -EMFILE;
}

static void leaves(struct tcp_conn *c)
{
	struct moved *m = tcp_user(c);

	if (m)
		moved_say(m);
}

static int open_engine(const struct msg_grant *g, int frames)
{
	struct engine_device dev = { .mtu = g->mtu,
				     .ring = { g->slot_bytes, g->n_slots } };
	struct engine *e;
	int err = engine_open(frames, &dev, now_ns(), &e);

	if (err)
		return err;
	err = open_idle(engine_fd(e));
	if (err) {
		engine_close(e);
		return err;
	}
	if (!has_conns_list)
		list_init(&conns);
	has_conns_list = true;
	device = g->ifindex;
	packet_fd = frames;
	is_lost = false;
	engine_on_leave(e, leaves);
	store_rel(&wire_engine, e);
	return 0;
}

bool wire_is_there(bool chooses)
{
	static uint64_t asked_ns;
	static bool is_there;
	struct reply hello;
	int saved = errno;

	wire_lock();
	uint64_t now = now_ns();
	if (!wire_engine && !grant_is_asked() &&
	    (!asked_ns || now - asked_ns > ASK_AGAIN_NS)) {
		int fd = osfd_connect(&hello);

		is_there = fd >= 0;
		asked_ns = now;
		if (fd >= 0 && chooses && !past_is_shared())
			past_ask(fd);
		if (fd >= 0)
			nocancel_close(fd);
	}
	bool there = is_there || wire_engine;
	lock_put(&lock);
	errno = saved;
	return there;
}

/* While there was no connection, nobody has looked for the next osfd.  A port that was
 * there before may come again. */
static int open_again(uint32_t ifindex, uint64_t now, bool waits)
{
	if (ifindex != device)
		return -EBUSY;
	if (list_is_empty(&conns)) /* nobody has made one */
		wire_turn();
	look_at_osfd(now);
	if (is_lost && list_is_empty(&conns) &&
	    (now < again_ns || seek_osfd(now) < 0))
		return -EAGAIN;
	if (grant_is_ending())
		return -EAGAIN;
	return !is_lost && grant_wake(waits) < 0 ? -EAGAIN : 0;
}

static int open_on(uint32_t ifindex, bool waits)
{
	struct reply reply = { 0 };
	struct msg_grant g;
	int frames, err = 0;

	uint64_t now = now_ns();
	if (wire_engine)
		return open_again(ifindex, now, waits);
	if (ifindex == refused_device && now < refused_ns + ASK_AGAIN_NS)
		return -ENODEV;
	if (!grant_is_asked())
		err = grant_ask(ifindex, &reply);
	if (!err)
		err = grant_take(&g, &frames, &reply, waits);
	if (err == -EAGAIN && grant_is_asked())
		return err;
	if (!err)
		err = open_engine(&g, frames);
	if (!err) {
		log_info("a port on device %u", ifindex);
		return 0;
	}
	log_info("no port on device %u: %s", ifindex,
		 reply.err ? reply.reason : strerror(-err));
	close_all();
	refused_device = ifindex;
	refused_ns = now;
	return -ENODEV;
}

int wire_open(uint32_t ifindex)
{
	int err = open_on(ifindex, true);

	return !err && ifindex != device ? -EBUSY : err;
}

bool wire_is_waiting(void)
{
	int saved = errno;

	wire_lock();
	bool waits = grant_is_waiting();
	lock_put(&lock);
	errno = saved;
	return waits;
}

int wire_prepare(uint32_t ifindex)
{
	int saved = errno;

	wire_lock();
	int err = open_on(ifindex, false);
	lock_put(&lock);
	errno = saved;
	return err;
}

void wire_rest(void)
{
	int saved = errno;

	wire_lock();
	if (wire_engine && list_is_empty(&conns))
		grant_rest();
	lock_put(&lock);
	errno = saved;
}

/* The first connection switches idle_set_fd on; until then calls sleep as if there were no
 * port.  EPOLLERR is reported although events is 0: that is how we notice an error of the
 * anchor. */
void wire_add(struct moved *m)
{
	struct epoll_event ev = { .events = 0, .data.ptr = m };

	if (list_is_empty(&conns)) {
		watch_all(true);
		idle_set(&idle_wire);
	}
	list_add_tail(&conns, &m->link);
	libc.epoll_ctl(idle_set_fd, EPOLL_CTL_ADD, m->fd, &ev);
}

void wire_remove(struct moved *m)
{
	libc.epoll_ctl(idle_set_fd, EPOLL_CTL_DEL, m->fd, NULL);
	list_del(&m->link);
	if (list_is_empty(&conns)) {
		idle_off(&idle_wire);
		watch_all(false);
		if (judge_is_resting())
			grant_rest();
	}
}

/* With the lock, or in the child of a fork, which has none of the engine's memory. */
static void forget(void)
{
	store_rel(&wire_engine, (struct engine *)NULL);
	idle_set(NULL);
	close_all();
	fds_close(packet_fd);
	packet_fd = -1;
}

void wire_drop(void)
{
	wire_lock();
	if (wire_engine && list_is_empty(&conns)) {
		forget();
		escrow_close();
	} else if (!wire_engine) {
		grant_close(); /* one that nobody has taken */
	}
	lock_put(&lock);
}

void wire_after_fork(void)
{
	lock_inherit(&lock);
	judge_after_fork();
	if (!wire_engine)
		return grant_close(); /* one that nobody has taken */
	forget();
	escrow_after_fork();
	list_init(&conns);
}
