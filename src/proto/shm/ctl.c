/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/ctl.c - what is queued (FIONREAD, SIOCOUTQ), and the end of a connection whose
 * peer breaks the protocol
 *
 * None of these waits for a peer.  If another process keeps a half, it is said to hold a
 * byte, so that the program asks again (sock.is_kept).
 */
#include <errno.h>
#include <limits.h>
#include <linux/sockios.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/libc.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "proto/shm/tx.h"
#include "sock/arena.h"
#include "sock/idle.h"
#include "sock/shared.h"

void shm_broken(struct sock *sk, int fd, const char *why)
{
	struct sockaddr unspec = { .sa_family = AF_UNSPEC };

	if (load_rlx(&shm_w(sk)->rx_broken))
		return;
	log_err(
	    "fd %d: the peer broke the segment's protocol: %s; connection reset",
	    fd, why);
	sock_set_reason(sk, OSF_REASON_BROKEN);
	count(&arena_totals()->n_broken, 1);
	store_rlx(&shm_w(sk)->rx_broken, (uint8_t)1);
	SOCK_PUT(sk, anchor_end, (uint8_t)ANCHOR_RST);
	fetch_or(&shm_me(sk)->flags, SEG_CLOSED);
	/* connect(AF_UNSPEC) resets and leaves the descriptor the program's. */
	nocancel_connect(fd, &unspec, sizeof(unspec));
}

static int inq_locked(struct sock *sk, int fd)
{
	enum ring_mark mark;
	int n = 0;

	if (sock_mode(sk) == SOCK_KERNEL)
		return libc.ioctl(fd, FIONREAD, &n) < 0 ? -errno : n;
	if (shm_is_corked(sk))
		shm_uncork(sk);
	int in_ring = (int)ring_rx_bytes(&shm_of(sk)->rx, INT32_MAX, &mark);
	if (!shm_w(sk)->rx_tcp && !shm_w(sk)->rx_back) {
		if (mark != RING_BACK)
			return in_ring;
		if (!in_ring) {
			store_rlx(&shm_w(sk)->rx_back, (uint8_t)1);
			shm_note_back(sk);
		}
	}
	anchor_drain(sk, fd);
	if (libc.ioctl(fd, FIONREAD, &n) < 0)
		return -errno;
	if (shm_w(sk)->rx_back)
		return n;
	if (!shm_w(sk)->rx_tcp)
		return in_ring + n; /* TCP goes on behind the mark */
	int held = (int)readahead_bytes(sk);
	if (n < shm_of(sk)->rx_tcp_left)
		return held + n; /* more is on its way before the ring */
	return held + (int)shm_of(sk)->rx_tcp_left + in_ring;
}

int shm_inq(struct sock *sk, int fd)
{
	int n = 0, looks = 0;

	/* Doorbells are not bytes of the stream.  While TCP has both, count
	 * only the stream's. */
	while (shm_w(sk)->rx_tcp && !shm_rx_sync(sk, fd) &&
	       shm_of(sk)->rx_tcp_left < 0 && looks++ < SHM_LOOKS_MAX) {
		if (load_rlx(&shm_w(sk)->rx_broken))
			return 0;
		if (libc.ioctl(fd, FIONREAD, &n) < 0)
			return -errno;
		if (sock_mode(sk) == SOCK_KERNEL ||
		    !(load_acq(&shm_peer(sk)->flags) & SEG_TX_RING))
			return n + (int)readahead_bytes(sk);
	}
	if (unlikely(!sock_look_rx(sk)))
		return 1; /* as poll() says; recv() gets EAGAIN */
	n = inq_locked(sk, fd);
	sock_unlock_rx(sk);
	return n;
}

static int outq_of_ring(const struct shm_conn *c)
{
	uint32_t used = ring_tx_used(&c->tx);

	return used > c->tx.size / 2 ? (int)(used - c->tx.size / 2)
				     : (int)c->corked_bytes;
}

size_t shm_room(struct sock *sk, int fd)
{
	size_t n = 0;

	if (unlikely(!sock_look_tx(sk)))
		return 0;
	if (!shm_w(sk)->tx_ring)
		n = idle_room(fd);
	else if (ring_tx_refresh(&shm_of(sk)->tx)) /* the send tells it */
		n = PIPE_BUF;
	else if (!tx_is_full(sk)) /* one record */
		n = MIN(ring_tx_room(&shm_of(sk)->tx), TX_CHUNK);
	sock_unlock_tx(sk);
	return n;
}

/*
 * The kernel's SIOCOUTQ counts what the other host has not acknowledged, and a
 * receiving kernel acknowledges what its buffer can hold.  The ring stands for
 * both buffers, so its older half counts as acknowledged.
 */
int shm_outq(struct sock *sk, int fd)
{
	int n = 0;

	if (unlikely(!sock_look_tx(sk)))
		return 1; /* what another process is just writing */
	if (!shm_w(sk)->tx_ring)
		n = libc.ioctl(fd, SIOCOUTQ, &n) < 0 ? -errno : n;
	else if (!ring_tx_refresh(&shm_of(sk)->tx))
		n = outq_of_ring(shm_of(sk));
	sock_unlock_tx(sk);
	return n;
}
