/* SPDX-License-Identifier: MIT */
/* proto/tcp/grant.c - see proto/tcp/grant.h */
#include "proto/tcp/grant.h"

#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/libc.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "osfd/client.h"
#include "proto/tcp/conn.h"
#include "tcp/export.h"

/* From when an ACK is due to when osfd sends it: time for a turn of our own. */
#define AWAY_NS (40 * NS_PER_MS)

static int osfd_fd = -1, link_fd = -1, old_link_fd = -1, queue_fd = -1;
static uint32_t number;
static bool is_shared;   /* osfd has the escrow */
static int away_fd = -1; /* a timer that osfd has, too; -1: it has none */
static uint64_t away_ns; /* when it expires, or has expired */
static bool is_ending;   /* osfd wants the connections back */
/* A request whose answer nobody has read yet: OPEN, REST or WAKE; MSG_NONE: there is none. */
static enum msg_type asked = MSG_NONE;
static bool is_resting, cannot_rest;

int grant_fd(void) { return osfd_fd; }

static void lose(void)
{
	fds_close(osfd_fd);
	osfd_fd = -1;
	is_shared = is_ending = is_resting = false;
	asked = MSG_NONE;
	fds_close(away_fd);
	away_fd = -1;
}

void grant_leave(void) { lose(); }
bool grant_is_ending(void) { return is_ending; }

/* What osfd has answered.  Without an answer it has gone. */
static int heard(int err, const struct reply *reply)
{
	if (reply->flags & REPLY_LEAVE)
		is_ending = true;
	if (!err || reply->err)
		return err;
	lose();
	return -EIO;
}

/* The answer to what was asked, if it is there or the caller @waits; else -EAGAIN. */
static int answer(struct reply *reply, int got[2], bool waits)
{
	int err = osfd_answer(osfd_fd, reply, got, waits);

	if (err == -EAGAIN && !reply->err)
		return err;
	asked = MSG_NONE;
	return heard(err, reply);
}

static void end_link(void)
{
	fds_close(link_fd);
	link_fd = -1;
}

/* The answer to REST or WAKE, if one of them was asked.  Return: 0, or -EAGAIN: not yet */
static int settle(bool waits)
{
	enum msg_type type = asked;
	struct reply reply;
	int got[2];

	if (likely(type != MSG_REST && type != MSG_WAKE))
		return 0;
	int err = answer(&reply, got, waits);
	if (asked != MSG_NONE)
		return err;
	if (type == MSG_REST) {
		is_resting = !err;
		cannot_rest = err;
		if (!err)
			end_link();
	} else if (!err) {
		is_resting = false;
		link_fd = fds_hide(got[0]);
	} else { /* its device has gone, or the like: OPEN will tell */
		lose();
	}
	return 0;
}

static void ask_later(enum msg_type type)
{
	struct request r = { .rest = { number } };

	asked = type;
	if (osfd_ask(osfd_fd, type, &r, NULL, 0) < 0)
		lose();
}

void grant_rest(void)
{
	if (osfd_fd >= 0 && !asked && !is_resting && !cannot_rest)
		ask_later(MSG_REST);
}

int grant_wake(bool waits)
{
	int err = settle(waits);

	if (!err && is_resting) {
		ask_later(MSG_WAKE);
		err = settle(waits);
	}
	return !err && osfd_fd < 0 ? -EIO : err;
}

/* All that it says by itself is MSG_LEAVE. */
bool grant_is_lost(void)
{
	struct reply r;

	if (osfd_fd >= 0 && settle(false) < 0)
		return false;
	if (osfd_fd < 0)
		return true;
	ssize_t n = nocancel_recv(osfd_fd, &r, sizeof(r), MSG_DONTWAIT);
	if (n > 0)
		is_ending = true;
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		lose();
	return osfd_fd < 0;
}

/* With an answer, @reply->err is set where this fails. */
static int ask(enum msg_type type, struct request *r, const int *fds,
	       unsigned n_fds, struct reply *reply, int got[2])
{
	(void)settle(true);
	*reply = (struct reply){ 0 };
	return heard(osfd_fd < 0
			 ? -EIO
			 : osfd_call(osfd_fd, type, r, fds, n_fds, reply, got),
		     reply);
}

static int name_of(uint32_t ifindex, char dev[MSG_DEV_MAX])
{
	struct ifreq req = { .ifr_ifindex = (int)ifindex };
	int s = libc.socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (s < 0)
		return -errno;
	int err = libc.ioctl(s, SIOCGIFNAME, &req) < 0 ? -errno : 0;
	nocancel_close(s);
	memcpy(dev, req.ifr_name, MSG_DEV_MAX - 1);
	return err;
}

/* An osfd that does not know it gets no slots later. */
static void share_escrow(void)
{
	struct request r = { .escrow = { number } };
	struct reply reply = { 0 };
	int fd = escrow_open();
	int err = fd < 0 ? fd : ask(MSG_ESCROW, &r, &fd, 1, &reply, NULL);

	is_shared = !err;
	if (err)
		log_info("no escrow: %s",
			 reply.err ? reply.reason : strerror(-err));
}

/* Without an escrow, or with an osfd that does not know it, there is none. */
static void share_timer(void)
{
	struct request r = { .type = MSG_AWAY, .away = { number } };
	struct reply reply = { 0 };

	if (!is_shared)
		return;
	away_fd = fds_hide(
	    timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
	away_ns = 0;
	if (away_fd < 0 || !ask(MSG_AWAY, &r, &away_fd, 1, &reply, NULL))
		return;
	log_info("no delayed ACKs: %s", reply.reason);
	fds_close(away_fd);
	away_fd = -1;
}

bool grant_acknowledges(const struct moved *m)
{
	return away_fd >= 0 && m->escrow.slot;
}

void grant_away(uint64_t due_ns)
{
	if (likely(due_ns <= away_ns) || due_ns == UINT64_MAX || away_fd < 0)
		return;
	away_ns = due_ns + AWAY_NS;
	struct itimerspec at = { .it_value = ns_timespec(away_ns) };
	timerfd_settime(away_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

int grant_ask(uint32_t ifindex, struct reply *reply)
{
	struct request r = { .type = MSG_OPEN };
	int err = name_of(ifindex, r.port.dev);

	if (err)
		return err;
	if (queue_fd < 0)
		queue_fd = fds_hide(memfd_create("osf-tcp", MFD_CLOEXEC));
	if (queue_fd < 0)
		return -EMFILE;
	lose();
	osfd_fd = fds_hide(osfd_connect(reply));
	if (osfd_fd < 0) {
		err = osfd_fd;
		osfd_fd = -1;
		return err;
	}
	asked = MSG_OPEN;
	err = osfd_ask(osfd_fd, MSG_OPEN, &r, NULL, 0);
	if (err)
		lose();
	return err;
}

bool grant_is_asked(void) { return asked == MSG_OPEN; }

bool grant_is_waiting(void)
{
	struct pollfd p = { .fd = osfd_fd, .events = POLLIN };

	return asked != MSG_NONE && nocancel_poll(&p, 1, 0) == 0;
}

int grant_take(struct msg_grant *out, int *frames, struct reply *reply,
	       bool waits)
{
	int got[2];
	int err = answer(reply, got, waits);

	if (asked != MSG_NONE)
		return err;
	if (!err && got[0] < 0)
		err = -EIO;
	if (err) {
		lose();
		return err;
	}
	number = reply->grant.grant;
	old_link_fd = link_fd;
	link_fd = fds_hide(got[1]);
	*frames = fds_hide(got[0]);
	*out = reply->grant;
	share_escrow();
	share_timer();
	return 0;
}

int grant_open(uint32_t ifindex, struct msg_grant *out, int *frames,
	       struct reply *reply)
{
	int err = grant_ask(ifindex, reply);

	return err ? err : grant_take(out, frames, reply, true);
}

void grant_end_old(void)
{
	fds_close(old_link_fd);
	old_link_fd = -1;
}

void grant_end_new(void)
{
	fds_close(link_fd);
	link_fd = old_link_fd;
	old_link_fd = -1;
	lose();
}

void grant_close(void)
{
	grant_end_old();
	lose();
	fds_close(link_fd);
	fds_close(queue_fd);
	link_fd = queue_fd = -1;
}

static uint32_t slot_of(const struct moved *m)
{
	return is_shared ? m->escrow.slot : 0;
}

int grant_freeze(struct moved *m)
{
	struct reply reply;

	escrow_take(&m->escrow);
	struct request r = { .freeze = { number, slot_of(m) } };
	int err = ask(MSG_FREEZE, &r, &m->fd, 1, &reply, NULL);
	if (err == -EBADF) { /* the port was removed while nobody used it */
		is_ending = true;
		err = -EAGAIN;
	}
	if (err)
		log_dbg("fd %d: not frozen: %s", m->fd,
			reply.err ? reply.reason : strerror(-err));
	else
		m->frozen = reply.frozen;
	return err;
}

int grant_thaw(struct moved *m, const struct image_queues *q, const void *bytes)
{
	struct request r = { .thaw = { .grant = number,
				       .n_unread = q->n_unread,
				       .n_unacked = q->n_unacked,
				       .n_unsent = q->n_unsent,
				       .state = m->frozen,
				       .slot = slot_of(m) } };
	size_t n = (size_t)q->n_unread + q->n_unacked + q->n_unsent;
	int fds[2] = { m->fd, queue_fd };
	struct reply reply;

	if (n && nocancel_pwrite(queue_fd, bytes, n, 0) != (ssize_t)n)
		return -ENOSPC;
	int err = ask(MSG_THAW, &r, fds, 2, &reply, NULL);
	if (err)
		log_info("fd %d: not thawed: %s", m->fd,
			 reply.err ? reply.reason : strerror(-err));
	return err;
}

int grant_adopt(struct moved *m)
{
	struct request r = { .adopt = { .grant = number,
					.snd_nxt = m->frozen.snd_nxt,
					.state = m->frozen } };
	struct image_queues q;
	struct tcp_image x;
	struct reply reply;

	/* Without the timestamp of now it could not be given back for us. */
	if (tcp_export(m->c, &x, now_ns()) == 0) {
		frozen_of_image(&x, &r.adopt.state, &q);
		r.adopt.slot = slot_of(m);
	}
	int err = ask(MSG_ADOPT, &r, &m->fd, 1, &reply, NULL);
	if (err)
		log_info("fd %d: not adopted: %s", m->fd,
			 reply.err ? reply.reason : strerror(-err));
	return err;
}

int grant_undo(struct moved *m)
{
	struct request r = { .undo = { number } };
	struct reply reply;

	return ask(MSG_UNDO, &r, &m->fd, 1, &reply, NULL);
}
