/* SPDX-License-Identifier: MIT */
/*
 * group/rx.c - delivers received bytes to the application
 *
 *     kernel -> recv() into a chunk ---------------> rx()
 *     direct -> the bytes in place ----------------> rx()
 *
 * From the kernel we copy once, into the group's memory.  A protocol that lends
 * (sock/lend.h) needs no copy: the application gets a pointer to the bytes, and
 * the peer gets the room back in stream order, once all before it was returned.
 *
 * Such a connection copies too in four cases: TCP still has bytes of the
 * stream; the application chooses where received data lies; it holds so much
 * that the protocol lends no more; or it recently kept lent pieces until the
 * stream stopped (lent.h).
 *
 * Without memory for a copy the bytes stay where they are, and the peer waits.
 * If there is still none after STARVED_NS the connection fails with ENOBUFS.
 *
 * CLOSED comes after all bytes.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/libc.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "group/ack.h"
#include "group/fail.h"
#include "group/lent.h"
#include "group/rx.h"
#include "group/set.h"
#include "group/sync.h"
#include "group/wake.h"
#include "ops/ops.h"

#define READS_A_TURN 4         /* of one socket, each up to a chunk */
#define PIECES_A_TURN 64       /* that are lent, of one socket */
#define READ_ROOM (32u * 1024) /* at least so much room for a read */
#define STARVED_NS NS_PER_S
#define DISCARD_BYTES (1u << 30)

/* Hand out the @n bytes at the end of the chunk that is being filled.  False: stop. */
static bool give_piece(struct group *g, struct gsock *s, uint8_t *at,
		       uint32_t n)
{
	if (!g->attr.calls.rx)
		return true; /* dropped */
	struct rxbuf *b = rxbuf_new(&g->pool);
	if (!b) {
		log_err("all buffers for received data are kept");
		gsock_fail(g, s, ENOBUFS);
		return false;
	}
	b->chunk = chunk_take(&g->pool, n);
	b->sock = s;
	store_rlx(&b->state, (uint32_t)RXBUF_HELD);
	return call_rx(g, s, at, n, b) && gsock_may_receive(s);
}

static ssize_t read_once(struct gsock *s, void *buf, size_t n)
{
	struct iovec iov = { buf, n };
	ssize_t r = -ESTALE;

	while (s->sk && r == -ESTALE) {
		const struct sock_ops *ops = sock_ops(s->sk);

		r = ops->recv(s->sk, s->fd, &iov, 1, MSG_DONTWAIT);
		if (r > 0 && ops->is_due(s->sk, DIR_RX))
			ops_advance(s->sk, s->fd);
	}
	if (s->sk)
		return r;
	r = nocancel_recv(s->fd, buf, n, MSG_DONTWAIT);
	return r < 0 ? -errno : r;
}

static bool ended(struct group *g, struct gsock *s)
{
	if (s->has_eof)
		return true;
	s->has_eof = 1;
	return call_event(g, s, GROUP_CLOSED, 0);
}

/* No memory to read into; perhaps the application returns some.  As rx_copy(). */
static COLD int starved(struct group *g, struct gsock *s)
{
	uint64_t now = now_ns();

	if (!s->starved_ns)
		s->starved_ns = now;
	if (now - s->starved_ns < STARVED_NS) {
		work_add(s);
		return 0;
	}
	log_err("no memory for received data, and none is returned: "
		"the connection fails");
	return gsock_fail(g, s, ENOBUFS) ? 0 : -1;
}

/* Does the protocol notify us of the end?  Then that notification may have come together
 * with these bytes. */
static bool is_told(const struct gsock *s)
{
	return s->watch.set && sock_ops(s->sk)->own_events;
}

/* One read with a copy.  1 more may be there, 0 not, -1 do not touch it. */
static int rx_copy(struct group *g, struct gsock *s)
{
	uint32_t room;
	uint8_t *at = chunk_room(&g->pool, READ_ROOM, &room);

	if (unlikely(!at))
		return starved(g, s);
	s->starved_ns = 0;
	ssize_t n = read_once(s, at, room);
	if (n == -EAGAIN || n == -EINTR) {
		gsock_sync(s);
		return n == -EINTR;
	}
	if (n < 0)
		return gsock_fail(g, s, (int)-n) ? 0 : -1;
	if (!n)
		return ended(g, s) ? 0 : -1;
	gsock_sync(s);
	if (s->is_direct)
		lend_copied(s, (size_t)n);
	if (!give_piece(g, s, at, (uint32_t)n))
		return -1;
	return n == room || s->hung_up || s->is_direct || is_told(s);
}

static bool rx_kernel(struct group *g, struct gsock *s)
{
	int more = 1;

	if (!s->is_readable || s->has_eof)
		return true;
	for (int i = 0; i < READS_A_TURN && more > 0; i++)
		more = rx_copy(g, s);
	if (more < 0)
		return false;
	if (more)
		work_add(s);
	else if (list_is_empty(&s->work))
		s->is_readable = 0;
	if (!list_is_empty(&s->acks))
		gsock_acks(g, s);
	return true;
}

/* Delivery in place. */

/* Nothing that can be lent: 1 more, 0 not, -1 gone. */
static COLD int rx_other(struct group *g, struct gsock *s)
{
	if (s->has_eof)
		return 0;
	if (!s->hung_up && s->lend->is_idle(s->sk)) {
		/* The peer holds something back: look again, till it is due. */
		if (sock_ops(s->sk)->next_ns(s->sk) != UINT64_MAX)
			work_add(s);
		gsock_sync(s); /* the peer may want to go back */
		return 0;
	}
	return rx_copy(g, s);
}

HOT static bool rx_direct(struct group *g, struct gsock *s)
{
	const struct lend_ops *lend = s->lend;

	for (int i = 0; i < PIECES_A_TURN; i++) {
		const uint8_t *data;
		int32_t n = 0;
		struct rxbuf *b = NULL;

		if (unlikely(s->held_first))
			held_release(s);
		if (likely(s->may_lend) && likely(g->attr.calls.rx) &&
		    (b = rxbuf_new(&g->pool)))
			n = lend->lend(s->sk, s->fd, &data, &b->at);
		if (unlikely(n <= 0)) {
			if (b)
				rxbuf_free(&g->pool, b);
			int more = n < 0 ? (gsock_fail(g, s, -n) ? 0 : -1)
					 : rx_other(g, s);

			if (more > 0)
				continue;
			return more == 0;
		}
		s->received += (uint32_t)n;
		held_add(s, b);
		if (!call_rx(g, s, (void *)data, (size_t)n, b) ||
		    unlikely(!gsock_may_receive(s)))
			return false;
		lend_note(g, s);
		if (likely(!lend->ready(s->sk)) && likely(!s->hung_up))
			return true;
	}
	work_add(s);
	return true;
}

bool gsock_rx(struct group *g, struct gsock *s)
{
	if (unlikely(!gsock_may_receive(s))) {
		if (s->is_closing && s->state == GSOCK_CONNECTED)
			gsock_rx_discard(s);
		return !s->is_closing;
	}
	return likely(s->is_direct) ? rx_direct(g, s) : rx_kernel(g, s);
}

/* Nobody wants it: unread bytes would make the close a reset. */
void gsock_rx_discard(struct gsock *s)
{
	static char bin[16 * 1024];
	ssize_t n = 1;

	for (int i = 0; i < 1024 && n > 0; i++) {
		const struct sock_ops *ops = s->sk ? sock_ops(s->sk) : NULL;
		/* Ours write nothing there. */
		struct iovec iov = { bin, ops && ops->is_ours ? DISCARD_BYTES
							      : sizeof(bin) };
		int flags = MSG_DONTWAIT | MSG_TRUNC;

		if (ops)
			n = ops->recv(s->sk, s->fd, &iov, 1, flags);
		else if ((n = nocancel_recv(s->fd, bin, sizeof(bin), flags)) <
			 0)
			n = -errno;
		if (n == -ESTALE)
			n = 1;
	}
	/* Nobody acknowledges any more. */
	if (n < 0 && n != -EAGAIN && n != -EINTR) {
		s->state = GSOCK_FAILED;
		work_add(s);
	}
	gsock_sync(s);
}

/* A buffer was returned to another group than the one that serves the socket: have that
 * group look at it in its next turn. */
static COLD void returned_elsewhere(struct gsock *s)
{
	struct group *owner = load_rlx(&s->group);

	if (!owner)
		return;
	/* Groups are never freed: at worst another group looks for nothing. */
	store_rlx(&owner->has_returns, 1u);
	fence_full(); /* Dekker with group_arm() */
	if (load_rlx(&owner->is_armed))
		group_wake(owner);
}

void group_take_returns(struct group *g)
{
	store_rlx(&g->has_returns, 0u);
	fence_full(); /* what is returned after this says so again */
	for (struct list *l = g->all.next; l != &g->all; l = l->next) {
		struct gsock *s = container_of(l, struct gsock, all);

		if (s->is_direct && s->held_first)
			gsock_rest(s);
	}
}

int group_buf_free(struct group *g, struct group_buf *pub)
{
	struct rxbuf *b = rxbuf_of(pub);

	if (unlikely(!b))
		return -EINVAL;
	if (b->chunk) {
		if (unlikely(load_rlx(&b->state) != RXBUF_HELD))
			return -EINVAL;
		struct chunk *c = b->chunk;

		rxbuf_free(g ? &g->pool : NULL, b);
		chunk_put(g ? &g->pool : NULL, c);
		return 0;
	}
	struct gsock *s = b->sock;
	if (likely(rxbuf_move(b, RXBUF_HELD, RXBUF_BACK))) {
		if (likely(g && load_rlx(&s->group) == g)) {
			if (b == s->held_first)
				held_release(s);
		} else {
			returned_elsewhere(s);
		}
		return 0;
	}
	struct lend_memory *memory = b->memory;
	struct lent at = b->at;
	if (!rxbuf_move(b, RXBUF_ORPHAN, RXBUF_FREE))
		return -EINVAL;
	rxbuf_free(g ? &g->pool : NULL, b);
	lend_memory_put(memory, &at);
	return 0;
}
