/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/cut.c - the peer has recalled the connection: what it had not read
 *
 *     the peer sets FALLBACK      nothing goes by TCP: it may be putting bytes back
 *     the peer sets CUT         what stands behind the cut goes by TCP, then all else
 *
 * The writer's half of proto/shm/fallback.c.  Between the two flags a peer needs
 * milliseconds, unless it loses its core.  Meanwhile send() answers as if the peer's
 * window were closed, and later looks go on.  A call that has put bytes into the ring
 * before it found FALLBACK waits for the cut.  If it waits in vain it has taken them;
 * and if the cut shows that the peer has not read them, a later look sends them from
 * the ring, before anything else.
 *
 * Lock: tx.
 */
#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/libc.h"
#include "proto/shm/shm.h"

#define CUT_TICK_NS (100 * NS_PER_US)
#define CUT_WAIT_NS (500 * NS_PER_MS)

/* Our own ring, read from @off as the peer would have done. */
static struct ring_rx own_ring(const struct sock *sk, uint32_t off)
{
	bool in_second = shm_of(sk)->tx.other < shm_of(sk)->tx.base;

	/* The size of the memory from @base on. */
	return (struct ring_rx){ .base = shm_of(sk)->tx.base,
				 .size = in_second ? shm_of(sk)->tx.area_bytes
						   : shm_ring_bytes(sk),
				 .off = off };
}

/* The peer had not read the last @n bytes before the head of our ring, at its
 * cut.  Their call has returned: TCP has to bring them before anything else. */
static void owe(struct sock *sk, uint32_t cut, uint32_t n)
{
	shm_of(sk)->tx_owed = 0;
	shm_of(sk)->again_off = cut;
	shm_of(sk)->again_pos = 0;
	shm_of(sk)->again_left = n;
}

/* Send the next of these bytes.  How many, or -errno. */
static ssize_t send_again(struct sock *sk, int fd)
{
	struct shm_conn *c = shm_of(sk);
	struct ring_rx rest = own_ring(sk, c->again_off);
	const uint8_t *data;
	enum ring_mark mark;
	int32_t n = ring_peek(&rest, &data, &mark);

	if (n <= 0 || (uint32_t)n <= c->again_pos) {
		shm_broken(sk, fd, "what it had not read");
		return -ECONNRESET;
	}
	uint32_t most = MIN((uint32_t)n - c->again_pos, c->again_left);
	ssize_t r = libc.send(fd, data + c->again_pos, most,
			      MSG_DONTWAIT | MSG_NOSIGNAL);
	if (r <= 0)
		return r < 0 ? -errno : -EAGAIN;
	c->again_off = rest.off;
	c->again_pos += (uint32_t)r;
	c->again_left -= (uint32_t)r;
	if (c->again_pos == (uint32_t)n) {
		c->again_off = rest.next;
		c->again_pos = 0;
	}
	return r;
}

int shm_tx_again(struct sock *sk, int fd)
{
	if (likely(!shm_of(sk)->again_left))
		return 0;
	while (shm_of(sk)->again_left) {
		ssize_t r = send_again(sk, fd);

		if (r < 0)
			return (int)r;
	}
	if (shm_of(sk)->tx_fin)
		libc.shutdown(fd, SHUT_WR);
	return 0;
}

/* How much of our ring had the peer not read, by its @cut?  @most: what is
 * possible. */
static ssize_t count_unread(struct sock *sk, int fd, uint32_t cut, size_t most)
{
	struct ring_rx rest = own_ring(sk, cut);
	enum ring_mark mark;

	if (rest.off % RING_ALIGN == 0 && rest.off <= rest.size - RING_ALIGN) {
		uint32_t n = ring_rx_bytes(&rest, INT32_MAX, &mark);

		if (n <= most)
			return (ssize_t)n;
	}
	shm_broken(sk, fd, "the cut");
	return -ECONNRESET;
}

/* A call has put bytes into the ring.  Nobody else would send them by TCP if the program
 * now waits for an answer, so wait until the peer says where it stopped.  It borrows our
 * descriptor in a process of its own meanwhile, which takes milliseconds. */
static void await_cut(struct sock *sk, int fd)
{
	struct timespec tick = { .tv_nsec = CUT_TICK_NS };
	uint64_t end = now_ns() + CUT_WAIT_NS;

	while (shm_awaits_cut(sk) && now_ns() < end) {
		anchor_ask(sk, fd);
		if (load_rlx(&sk->w->anchor_end) != ANCHOR_OPEN)
			return;
		libc.ppoll(NULL, 0, &tick, NULL);
	}
}

ssize_t shm_tx_fell_back(struct sock *sk, int fd, size_t mine)
{
	uint32_t owed = shm_of(sk)->tx_owed;

	shm_release(sk);
	if (!shm_w(sk)->tx_ring)
		return 0;
	if (mine)
		await_cut(sk, fd);
	if (shm_awaits_cut(sk)) {
		anchor_ask(sk, fd);
		if (load_rlx(&sk->w->anchor_end) != ANCHOR_OPEN)
			return -ECONNRESET;
		shm_of(sk)->tx_owed = owed + (uint32_t)mine;
		return mine ? 0 : -EAGAIN;
	}
	uint32_t cut = load_rlx(&shm_peer(sk)->cut);
	ssize_t n = count_unread(sk, fd, cut, mine + owed);
	if (n < 0)
		return n;
	anchor_silence(sk);
	if (sk->st->reason == OSF_REASON_UPGRADED)
		sock_set_reason(sk, OSF_REASON_PEER_BACK);
	shm_note_back(sk);
	if (owed) {
		owe(sk, cut, (uint32_t)n);
		n = 0;
	}
	if (shm_of(sk)->again_left)
		shm_tx_again(sk, fd);
	else if (shm_of(sk)->tx_fin)
		libc.shutdown(fd, SHUT_WR); /* the mark may be unseen */
	return n;
}
