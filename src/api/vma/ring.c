/* SPDX-License-Identifier: MIT */
/* api/vma/ring.c - see api/vma/ring.h */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "api/vma/below.h"
#include "api/vma/filter.h"
#include "api/vma/ring.h"
#include "api/vma/vma.h"
#include "api/vma/xbuf.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/nocancel.h"

/* Of the kernel's enum; <linux/tcp.h> and <netinet/tcp.h> do not go together. */
#define STATE_SYN_SENT 2

static struct lock lock;   /* making a ring */
static struct ring *rings; /* atomic; never freed */

/* Rings. */

struct ring *ring_get(int fd)
{
	struct ring *r = load_acq(&rings);

	while (r && load_rlx(&r->fd) != fd)
		r = r->next;
	return fd < 0 ? NULL : r;
}

static struct ring *find(uint64_t key)
{
	struct ring *r = load_acq(&rings);

	while (r && (r->key != key || load_rlx(&r->fd) < 0))
		r = r->next;
	return r;
}

/* NULL: *@err says why. */
static struct ring *make(uint64_t key, int *err)
{
	int fd, room_fd;

	*err = ring_sets(&fd, &room_fd);
	if (*err)
		return NULL;
	struct ring *r = load_acq(&rings);
	while (r && (load_rlx(&r->fd) >= 0 || !ring_enter(r)))
		r = r->next;
	bool is_new = !r;
	if (is_new)
		r = calloc(1, sizeof(*r));
	if (!r) {
		close(room_fd);
		close(fd);
		*err = -ENOMEM;
		return NULL;
	}
	if (!is_new)
		ring_clear(r); /* who has closed it was too late to enter */
	r->key = key;
	store_rlx(&r->room_fd, room_fd);
	store_rel(&r->fd, fd);
	if (is_new) {
		r->next = rings;
		store_rel(&rings, r);
	} else {
		ring_exit(r);
	}
	return r;
}

/* With @key, made if there is none. */
static struct ring *ring_with(uint64_t key, int *err)
{
	GUARD(&lock);
	struct ring *r = find(key);

	return r ? r : make(key, err);
}

int ring_default(void)
{
	int err = 0;
	struct ring *r = ring_with(0, &err);

	return r ? load_rlx(&r->fd) : err;
}
/* Joining. */

enum ring_state ring_state_of(const struct vsock *s)
{
	struct tcp_info info;
	struct sockaddr_storage peer;
	int is = 0, saved = errno;
	socklen_t len = sizeof(is), info_len = sizeof(info),
		  peer_len = sizeof(peer);
	enum ring_state state = ON_RING_IDLE;
	struct pollfd p = { .fd = s->fd };

	if (s->is_udp)
		return ON_RING_CONNECTED;
	if (!libc.getsockopt(s->fd, SOL_SOCKET, SO_ACCEPTCONN, &is, &len) && is)
		state = ON_RING_LISTENING;
	else if (!getpeername(s->fd, (struct sockaddr *)&peer, &peer_len))
		state = ON_RING_CONNECTED;
	else if (!libc.getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, &info,
				  &info_len) &&
		 info.tcpi_state == STATE_SYN_SENT)
		state = ON_RING_CONNECTING;
	else if (nocancel_poll(&p, 1, 0) > 0 && p.revents & POLLERR)
		state = ON_RING_FAILED; /* SO_ERROR stays for the program */
	errno = saved;
	return state;
}

/* Does the socket have a ring, by libvma's rules?  A TCP socket that is only bound has one
 * only if it is bound to a device, too. */
static bool may_join(const struct vsock *s, enum ring_state state)
{
	struct sockaddr_storage a = { 0 };
	socklen_t len = sizeof(a);
	char device[64];
	socklen_t device_len = sizeof(device);

	if (!s->is_udp && state != ON_RING_IDLE)
		return true;
	if (getsockname(s->fd, (struct sockaddr *)&a, &len) < 0 ||
	    !((struct sockaddr_in *)&a)->sin_port)
		return false;
	return s->is_udp ||
	       (!libc.getsockopt(s->fd, SOL_SOCKET, SO_BINDTODEVICE, device,
				 &device_len) &&
		device_len > 1);
}

void ring_note_peer(struct vsock *s)
{
	filter_find_ends(s);
	if (!s->is_udp)
		addr_of(&s->peer, &s->on_ring.peer);
}

static void join(struct ring *r, struct vsock *s)
{
	if (s->on_ring.state == ON_RING_CONNECTED)
		ring_note_peer(s);
	store_rlx(&s->on_ring.ring, r);
	ring_tell(r, s);
}

int ring_of(struct vsock *s)
{
	struct ring *r = load_rlx(&s->on_ring.ring);
	int saved = errno, err = 0;

	if (r)
		return load_rlx(&r->fd);
	enum ring_state state = ring_state_of(s);
	if (!may_join(s, state)) {
		errno = saved;
		return 0;
	}
	r = ring_with(s->ring_key, &err);
	if (!r)
		return err;
	s->on_ring.state = (uint8_t)state;
	s->on_ring.skips_room = 0;
	s->on_ring.is_short = SHORT_NEW;
	s->on_ring.is_over = 0;
	join(r, s);
	errno = saved;
	return load_rlx(&r->fd);
}

void ring_join_accepted(struct ring *r, struct vsock *s)
{
	s->on_ring.state = ON_RING_CONNECTED;
	s->on_ring.skips_room = 1;
	join(r, s);
}

/* Leaving. */

void ring_leave(struct vsock *s)
{
	struct ring *r = load_rlx(&s->on_ring.ring);
	struct epoll_event ev;
	int saved = errno;

	if (!r)
		return;
	/* A copy of the descriptor would keep it in the sets. */
	below_epoll_ctl(load_rlx(&r->fd), EPOLL_CTL_DEL, s->fd, &ev);
	below_epoll_ctl(load_rlx(&r->room_fd), EPOLL_CTL_DEL, s->fd, &ev);
	errno = saved;
	store_rlx(&s->on_ring.ring, (struct ring *)NULL);
	ring_tell(r, s);
	if (load_rlx(&r->fd) < 0 && ring_enter(r))
		ring_exit(r);
}

static void forget(struct ring *r)
{
	int room_fd = xchg(&r->room_fd, -1), saved = errno;

	store_rel(&r->fd, -1);
	if (room_fd >= 0)
		close(room_fd);
	if (ring_enter(r))
		ring_exit(r);
	errno = saved;
}

void ring_forget(int fd)
{
	struct ring *r = ring_get(fd);

	if (unlikely(r != NULL) && !load_rlx(&r->is_moving))
		forget(r);
}

void ring_forget_range(unsigned first, unsigned last)
{
	for (struct ring *r = load_acq(&rings); r; r = r->next) {
		int fd = load_rlx(&r->fd);

		if (fd >= 0 && (unsigned)fd >= first && (unsigned)fd <= last)
			forget(r);
	}
}

void ring_after_fork(void)
{
	for (struct ring *r = rings; r; r = r->next) {
		r->is_stale = 1;
		if (r->owner != (uintptr_t)pthread_self())
			r->owner = 0;
	}
}
