/* SPDX-License-Identifier: MIT */
/* api/vma/vsock.c - see api/vma/vsock.h */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "api/vma/epset.h"
#include "api/vma/joined.h"
#include "api/vma/ring.h"
#include "api/vma/vma.h"
#include "api/vma/vsock.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "base/libc.h"
#include "base/lock.h"

#define PAGE (1u << VSOCK_PAGE_BITS)
#define FIRST_TRY 64u /* datagrams: joined_try() is not for those with few */

struct vsock **vsock_pages[VSOCK_PAGES];
uint32_t vma_n_filters;

static struct lock lock;  /* all, and making one */
static struct vsock *all; /* never freed: a look-up may touch any */
static uint32_t last_number;
static int fd_end;
static bool is_prepared;

static struct vsock **slot_make(int fd)
{
	struct vsock **slot = vsock_slot(fd);

	if (slot || (unsigned)fd >= VSOCK_PAGES << VSOCK_PAGE_BITS)
		return slot;
	void *page = mmap(NULL, PAGE * sizeof(*slot), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return NULL;
	store_rel(&vsock_pages[fd >> VSOCK_PAGE_BITS], page);
	return vsock_slot(fd);
}

struct vsock *vsock_get(int fd)
{
	struct vsock **slot = vsock_slot(fd);

	if (is_single_threaded()) {
		struct vsock *s = slot ? *slot : NULL;

		if (s)
			s->n_refs++;
		return s;
	}
	for (;;) {
		struct vsock *s = slot ? load_acq(slot) : NULL;

		if (!s)
			return NULL;
		uint32_t n = load_rlx(&s->n_refs);
		if (!n || !cas(&s->n_refs, n, n + 1))
			continue;
		if (likely(load_acq(slot) == s))
			return s;
		vsock_put(s);
	}
}

void vsock_put(struct vsock *s)
{
	if (is_single_threaded() ? --s->n_refs : fetch_sub(&s->n_refs, 1u) != 1)
		return;
	joined_close(s);
	vsock_lies_in(s, NULL, false);
	room_close(&s->room);
	packets_close(&s->packets);
	if (s->spare)
		held_cancel(s->spare);
	s->spare = 0;
	store_rel(&s->fd, -1); /* free, for take_free() */
}

bool vsock_is_inet(int fd, bool *is_udp)
{
	int domain = 0, protocol = 0, saved = errno;
	socklen_t len = sizeof(int), len2 = len;
	bool is =
	    !libc.getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) &&
	    !libc.getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len2) &&
	    (domain == AF_INET || domain == AF_INET6) &&
	    (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP);

	errno = saved;
	*is_udp = protocol == IPPROTO_UDP;
	return is;
}

int vsock_fd_end(void) { return load_rlx(&fd_end); }

/* Threads that the child does not have may have had receive locks. */
static void after_fork(void)
{
	for (struct vsock *s = all; s; s = s->next) {
		if (!s->owner || s->owner == (uintptr_t)pthread_self())
			continue;
		pthread_mutex_init(&s->rx_mutex, NULL);
		s->owner = 0;
	}
	ring_after_fork();
}

static struct vsock *take_free(void)
{
	struct vsock *s = all;

	if (!is_prepared && pthread_atfork(NULL, NULL, after_fork))
		return NULL;
	is_prepared = true;
	while (s && load_acq(&s->fd) != -1)
		s = s->next;
	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	pthread_mutex_init(&s->rx_mutex, NULL);
	s->next = all;
	all = s;
	return s;
}

static struct vsock *make(int fd, bool is_udp, bool is_left, int *err)
{
	*err = -ENOMEM;
	held_start();
	GUARD(&lock);
	struct vsock **slot = slot_make(fd), *s;
	if (slot && *slot)
		return vsock_get(fd); /* another thread was faster */
	s = slot ? take_free() : NULL;
	if (!s)
		return NULL;
	s->number = ++last_number;
	s->is_left = is_left;
	s->fd = fd;
	s->is_udp = is_udp;
	s->is_closed = s->has_dst = s->is_counted = false;
	s->callback = NULL;
	s->accepted = 0;
	s->err = 0;
	s->times = 0;
	s->until_try = is_udp ? FIRST_TRY : 0;
	s->was_empty = true;
	packets_open(&s->packets, fd, is_udp);
	s->peer.ss_family = s->local.ss_family = AF_UNSPEC;
	s->has_user_data = false;
	s->ring_key = 0;
	s->on_ring = (struct on_ring){ 0 };
	if (fd >= fd_end)
		store_rlx(&fd_end, fd + 1);
	store_rel(&s->n_refs, is_left ? 1u : 2u);
	store_rel(slot, s);
	if (!is_left)
		return s;
	*err = -EINVAL;
	return NULL;
}

struct vsock *vsock_make(int fd, int *err)
{
	bool is_udp;
	struct vsock *s = vsock_get(fd);

	*err = -EINVAL;
	if (s && unlikely(load_rlx(&s->is_left))) {
		vsock_put(s);
		return NULL;
	}
	if (s || !vsock_is_inet(fd, &is_udp))
		return s;
	return make(fd, is_udp, left_is(fd, is_udp), err);
}

struct vsock *vsock_make_accepted(int fd, int *err)
{
	return make(fd, false, false, err);
}

void vsock_leave(struct visit *v)
{
	visit_lock_rx(v);
	store_rlx(&v->s->is_left, true);
	vsock_set_callback(v->s, NULL, NULL);
	ring_leave(v->s);
}

void vsock_set_callback(struct vsock *s, vma_recv_callback_t callback,
			void *context)
{
	/* Without a callback, calls find in the socket what the callback had accepted.  If
	 * a callback unregisters itself, it accepts its packet after that. */
	if (!callback || !load_rlx(&s->callback))
		s->accepted = 0;
	s->context = context;
	store_rlx(&s->callback, callback);
	if (callback && !s->is_closed) {
		vsock_count(s);
		return;
	}
	vsock_uncount(s);
}

void vsock_count(struct vsock *s)
{
	if (!xchg(&s->is_counted, true))
		fetch_add(&vma_n_filters, 1u);
}

void vsock_uncount(struct vsock *s)
{
	if (!s->err && !load_rlx(&s->callback) && !joined_is_on(s) &&
	    xchg(&s->is_counted, false))
		fetch_sub(&vma_n_filters, 1u);
}

void vsock_count_error(struct vsock *s, ssize_t err)
{
	struct osf_stats_packets *p = load_acq(&s->packets.at);

	if (s->is_udp)
		count(err == -EAGAIN ? &p->rx_eagains : &p->rx_errors, 1);
}

void vsock_for_each(void (*each)(struct vsock *s))
{
	GUARD(&lock);
	for (struct vsock *s = all; s; s = s->next)
		if (load_rlx(&s->n_refs))
			each(s);
}

void vma_passed_all(void)
{
	joined_forget(0, UINT32_MAX);
	fence_full();
	vsock_for_each(joined_forbid);
}

void vma_forget(int fd)
{
	struct vsock **slot = vsock_slot(fd);
	struct vsock *s = slot ? xchg(slot, (struct vsock *)NULL) : NULL;

	epset_forget(fd);
	ring_forget(fd);
	joined_forget((unsigned)fd, (unsigned)fd);
	left_forget((unsigned)fd, (unsigned)fd);
	if (!s)
		return;
	store_rlx(&s->callback, (vma_recv_callback_t)NULL);
	store_rlx(&s->is_closed, true);
	if (xchg(&s->is_counted, false))
		fetch_sub(&vma_n_filters, 1u);
	ring_leave(s);
	vsock_put(s);
}

void vma_forget_range(unsigned first, unsigned last)
{
	for (unsigned p = first >> VSOCK_PAGE_BITS; p < VSOCK_PAGES; p++) {
		if (p > last >> VSOCK_PAGE_BITS)
			break;
		if (!load_rlx(&vsock_pages[p]))
			continue;
		for (unsigned i = 0; i < PAGE; i++) {
			unsigned fd = p << VSOCK_PAGE_BITS | i;

			if (fd >= first && fd <= last && *vsock_slot((int)fd))
				vma_forget((int)fd);
		}
	}
	ring_forget_range(first, last);
	joined_forget(first, last);
	left_forget(first, last);
}

/* Waits for a thread that was alone when it took the receive lock, and so took no mutex. */
static COLD void await_unlocked(struct vsock *s)
{
	const struct timespec nap = { .tv_nsec = NS_PER_MS / 10 };

	while (load_acq(&s->owner)) {
		pthread_mutex_unlock(&s->rx_mutex);
		nanosleep(&nap, NULL);
		pthread_mutex_lock(&s->rx_mutex);
	}
}

bool visit_lock_rx(struct visit *v)
{
	uintptr_t me = (uintptr_t)pthread_self();

	if (load_rlx(&v->s->owner) == me)
		return false;
	v->has_mutex = !is_single_threaded();
	if (v->has_mutex) {
		pthread_mutex_lock(&v->s->rx_mutex);
		if (unlikely(load_acq(&v->s->owner) != 0))
			await_unlocked(v->s);
	}
	store_rlx(&v->s->owner, me);
	v->has_rx_lock = true;
	return true;
}

void visit_unlock_rx(struct visit *v)
{
	v->has_rx_lock = false;
	store_rel(&v->s->owner, (uintptr_t)0);
	if (v->has_mutex)
		pthread_mutex_unlock(&v->s->rx_mutex);
}

void visit_end(struct unwind *u)
{
	struct visit *v = (struct visit *)u;

	if (v->has_rx_lock)
		visit_unlock_rx(v);
	if (v->s)
		vsock_put(v->s);
}
