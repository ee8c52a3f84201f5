/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/ctl.c - what is queued (FIONREAD, SIOCOUTQ), fallback with the peer's help,
 * and the end of a connection whose peer breaks the protocol
 */
#include <errno.h>
#include <linux/sockios.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/libc.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "proto/shm/shm.h"
#include "sock/arena.h"
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

int shm_inq(struct sock *sk, int fd)
{
	enum ring_mark mark;
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
	SOCK_LOOK_RX(sk);
	if (sock_mode(sk) == SOCK_KERNEL)
		return libc.ioctl(fd, FIONREAD, &n) < 0 ? -errno : n;
	if (shm_is_corked(sk))
		shm_uncork(sk, false);
	int in_ring = (int)ring_rx_bytes(&shm_of(sk)->rx, INT32_MAX, &mark);
	if (!shm_w(sk)->rx_tcp && !shm_w(sk)->rx_back) {
		if (in_ring || mark != RING_BACK)
			return in_ring;
		store_rlx(&shm_w(sk)->rx_back, (uint8_t)1);
		shm_note_back(sk);
	}
	if (shm_w(sk)->rx_back)
		anchor_drain(sk, fd);
	if (libc.ioctl(fd, FIONREAD, &n) < 0)
		return -errno;
	if (shm_w(sk)->rx_back)
		return n;
	int held = (int)readahead_bytes(sk);
	if (n < shm_of(sk)->rx_tcp_left)
		return held + n; /* more is on its way before the ring */
	return held + (int)shm_of(sk)->rx_tcp_left + in_ring;
}

/*
 * The kernel's SIOCOUTQ counts what the other host has not acknowledged, and a
 * receiving kernel acknowledges what its buffer can hold.  The ring stands for
 * both buffers, so its older half counts as acknowledged.
 */
int shm_outq(struct sock *sk, int fd)
{
	int n = 0;
	SOCK_GUARD_TX(sk);

	if (!shm_w(sk)->tx_ring)
		return libc.ioctl(fd, SIOCOUTQ, &n) < 0 ? -errno : n;
	if (ring_tx_refresh(&shm_of(sk)->tx))
		return 0;
	uint32_t used = ring_tx_used(&shm_of(sk)->tx);
	if (used > shm_of(sk)->tx.size / 2)
		return (int)(used - shm_of(sk)->tx.size / 2);
	return (int)shm_of(sk)->corked_bytes;
}

/*
 * Fall back to the kernel.  Our direction ends with a BACK mark and continues
 * in TCP.  We ask the peer to do the same at its next call.
 */
void shm_fallback(struct sock *sk, int fd, enum osf_reason reason)
{
	if (!sock_lock_mode(sk, SOCK_SHM))
		return;
	if (shm_has_fallen_back(sk)) {
		shm_tx_fell_back(sk, fd, 0);
	} else if (shm_w(sk)->tx_ring && !shm_of(sk)->tx_fin) {
		fetch_or(&shm_me(sk)->flags, SEG_WANT_BACK);
		anchor_back(sk, fd);
		sock_set_reason(sk, reason != OSF_REASON_NONE
					? reason
					: OSF_REASON_PEER_BACK);
		shm_note_back(sk);
		count(&arena_totals()->n_fallbacks, 1);
	}
	sock_unlock_both(sk);
}
