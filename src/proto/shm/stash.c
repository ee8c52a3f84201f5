/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/stash.c - what a fallback takes out of TCP and the ring, and puts back
 *
 * See proto/shm/fallback.c for when, and for what the peer may do meanwhile.  The caller
 * holds both locks of the socket.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "proto/shm/fallback.h"
#include "proto/shm/region.h"
#include "proto/shm/shm.h"

#define STASH_MIN (64u * 1024)

uint64_t stash_vain_ns;

/* Wait until there is something to read at @fd.  False: not in time. */
static bool await_bytes(int fd, uint64_t until_ns)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (;;) {
		uint64_t now = now_ns();
		struct timespec ts =
		    ns_timespec(now < until_ns ? until_ns - now : 0);
		int n = nocancel_ppoll(&p, 1, &ts, NULL);

		if (n > 0 && p.revents != POLLERR)
			return true;
		if (now >= until_ns) {
			store_rlx(&stash_vain_ns, now);
			return false;
		}
		if (n > 0) { /* the error queue; no bytes yet */
			ts = ns_timespec(TICK_NS);
			nocancel_ppoll(NULL, 0, &ts, NULL);
		}
	}
}

/* Where @n more bytes may be written, or NULL. */
static uint8_t *stash_room(struct stash *st, size_t n)
{
	size_t cap = st->cap ? st->cap : STASH_MIN;

	while (cap < st->n + n)
		cap *= 2;
	if (cap > st->cap) {
		void *more =
		    st->data ? mremap(st->data, st->cap, cap, MREMAP_MAYMOVE)
			     : mmap(NULL, cap, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (more == MAP_FAILED)
			return NULL;
		st->data = more;
		st->cap = cap;
	}
	return st->data + st->n;
}

/* Read up to *@left bytes from TCP into @st, or discard them if @st is NULL.
 * -ENODATA: the connection ended first; -ETIMEDOUT. */
static int take_tcp(int fd, struct stash *st, int64_t *left, uint64_t until_ns)
{
	size_t want = MIN((size_t)*left, (size_t)STASH_MIN);
	uint8_t bin[256], *to = st ? stash_room(st, want) : bin;

	if (!to)
		return -ENOMEM;
	if (!await_bytes(fd, until_ns))
		return -ETIMEDOUT;
	ssize_t r = nocancel_recv(fd, to, st ? want : MIN(want, sizeof(bin)),
				  MSG_DONTWAIT);
	if (r <= 0)
		return r < 0 && errno == EAGAIN ? 0 : -ENODATA;
	*left -= r;
	if (st)
		st->n += (size_t)r;
	return 0;
}

/* Stash what we read from TCP earlier and the program has not read. */
static int stash_readahead(struct sock *sk, struct stash *st)
{
	uint32_t n = readahead_bytes(sk);
	uint8_t *to = n ? stash_room(st, n) : NULL;

	if (!n)
		return 0;
	if (!to)
		return -ENOMEM;
	memcpy(to, shm_of(sk)->readahead + shm_of(sk)->readahead_pos, n);
	st->n += n;
	st->is_late = true; /* TCP may have what follows already */
	readahead_free(sk);
	return 0;
}

/* Stash the TCP bytes that come before the ring.  Wait for them, because the peer has sent
 * them, unless the connection has ended: then the next reader gets its end from the kernel.
 * The bytes that have not come in time, or that no kernel holds, are the gap. */
static int stash_tcp(struct sock *sk, int fd, struct stash *st,
		     uint64_t until_ns)
{
	int64_t *left = &shm_of(sk)->rx_tcp_left;
	int err = 0;

	while (!err && *left > 0 && st->n < READAHEAD_MAX)
		err = take_tcp(fd, st, left, until_ns);
	st->n_first = st->n;
	if (err == -ENODATA)
		return 0;
	st->n_gap = (uint64_t)*left;
	return err == -ETIMEDOUT ? 0 : err;
}

/* Add the next record before @cut.  Its length; 0: *@mark stands there, or it is
 * the cut; -errno. */
static int32_t stash_record(struct sock *sk, struct stash *st, uint32_t cut,
			    enum ring_mark *mark)
{
	struct ring_rx *rx = &shm_of(sk)->rx;
	bool is_here = !(cut & SEG_CUT_SECOND) == !shm_rx_area(sk);
	uint32_t end = cut & ~(uint32_t)(SEG_CUT_IS | SEG_CUT_SECOND);
	const uint8_t *data = rx->data + rx->pos;
	int32_t n = (int32_t)(rx->len - rx->pos);

	*mark = RING_NONE;
	if (!rx->len)
		n = ring_next_before(rx, is_here ? end : UINT32_MAX, &data,
				     mark);
	if (n > 0 && !rx->refs &&
	    st->n - st->n_first + (size_t)n > shm_ring_bytes(sk))
		return -EPROTO;
	if (!n && *mark == RING_NONE && !(is_here && rx->off == end))
		return -EPROTO; /* the records end before it */
	if (n <= 0)
		return n;
	uint8_t *to = stash_room(st, (size_t)n);
	if (!to)
		return -ENOMEM;
	memcpy(to, data, (size_t)n);
	st->n += (size_t)n;
	ring_skip(rx, (uint32_t)n);
	return n;
}

/* Stash what the ring has up to @cut.  An honest peer cannot put more into it than
 * it has room for, while we take nothing out. */
static int stash_ring(struct sock *sk, struct stash *st, uint32_t cut)
{
	enum ring_mark mark;

	if (!(cut & SEG_CUT_IS))
		return -EPROTO;
	for (uint32_t lines = shm_ring_bytes(sk) / RING_ALIGN;; lines--) {
		int32_t n = stash_record(sk, st, cut, &mark);

		if (n < 0 || !lines)
			return n < 0 ? n : -EPROTO;
		if (!n && mark == RING_MOVE)
			shm_rx_move(sk);
		else if (!n && (mark != RING_MAP || shm_rx_map(sk)))
			break;
	}
	st->has_end = mark == RING_FIN;
	st->is_late |= mark == RING_BACK;
	return 0;
}

/* Discard each doorbell that was counted.  Those that have not come in time are
 * left to the relay. */
static void sync_bells(struct sock *sk, int fd, struct stash *st,
		       uint64_t until_ns)
{
	while (!anchor_drain_all(sk, fd)) {
		if (!st->n_gap && await_bytes(fd, until_ns))
			continue;
		st->rung = &shm_peer(sk)->bells;
		st->n_drained = shm_of(sk)->bells_drained;
		return;
	}
}

/* All of the stash is in the peer's socket, or will be: pass the end of the stream on by
 * TCP, too. */
static void put_end(struct far_end *other, struct stash *st)
{
	bool is_late = st->has_end && far_shut(other);

	*st = (struct stash){ .data = st->data,
			      .cap = st->cap,
			      .has_end = is_late };
}

/* The peer keeps its socket busy.  A relay delivers the stash, and throws away what comes by
 * TCP in its place. */
static void put_later(struct far_end *other, struct stash *st, size_t put)
{
	st->n_skip = (uint32_t)put;
	st->writer1 = other->channel + 1;
	other->channel = -1;
}

int stash_put_back(int fd, struct far_end *other, struct stash *st,
		   uint64_t until_ns)
{
	size_t put = 0;

	while (put < st->n) {
		ssize_t r = far_send(other, st->data + put, st->n - put);

		if (r == -ETIMEDOUT)
			put_later(other, st, put);
		if (r == -ETIMEDOUT || r == -EOWNERDEAD)
			return r == -ETIMEDOUT ? 0 : -EOWNERDEAD;
		if (r <= 0)
			break;
		put += (size_t)r;
	}
	if (put == st->n) {
		put_end(other, st);
	} else {
		int64_t again = (int64_t)put;

		while (again > 0 && !take_tcp(fd, NULL, &again, until_ns))
			;
		st->n_skip = (uint32_t)again;
	}
	return 0;
}

/* Stash what comes from the peer, as far as TCP does not bring it. */
int stash_rx(struct sock *sk, int fd, struct stash *st, uint64_t until_ns)
{
	uint32_t cut = shm_cut_rx(sk);
	int err = 0;

	if (shm_w(sk)->rx_tcp)
		err = stash_readahead(sk, st);
	st->n_first = st->n;
	if (!err && shm_w(sk)->rx_tcp &&
	    load_acq(&shm_peer(sk)->flags) & SEG_TX_RING) { /* S1 */
		if (shm_of(sk)->rx_tcp_left < 0)
			err = shm_rx_learn(sk);
		if (!err)
			err = stash_tcp(sk, fd, st, until_ns);
		if (!err)
			store_rlx(&shm_w(sk)->rx_tcp, (uint8_t)0);
	}
	/* While TCP still carries the stream, the ring is empty and no
	 * doorbell was rung. */
	if (err || shm_w(sk)->rx_tcp)
		return err;
	if (!shm_w(sk)->rx_back && !shm_w(sk)->rx_eof)
		err = stash_ring(sk, st, cut);
	if (!err)
		sync_bells(sk, fd, st, until_ns);
	return err;
}
