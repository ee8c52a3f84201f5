/* SPDX-License-Identifier: MIT */
/* proto/shm/handshake.c - what both sides of an upgrade do; see proto/shm/upgrade.h */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/libc.h"
#include "proto/shm/elsewhere.h"
#include "proto/shm/inbox.h"
#include "proto/shm/trust.h"
#include "proto/shm/upgrade.h"
#include "sock/arena.h"
#include "sock/linger.h"
#include "sock/opt.h"

/* The anchor carries doorbells from now on.  Each doorbell must leave at once
 * (TCP_NODELAY), and one byte must be enough to wake a reader (SO_RCVLOWAT). */
void upgrade_prepare_anchor(struct sock *sk, int fd)
{
	int one = 1, zero = 0;

	opt_read(sk, fd);
	if (sk->w->cork)
		libc.setsockopt(fd, IPPROTO_TCP, TCP_CORK, &zero, sizeof(zero));
	if (!sk->w->nodelay)
		libc.setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one,
				sizeof(one));
	if (sk->w->rcvlowat > 1)
		libc.setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
	shm_sndbuf_changed(sk, fd);
	errq_zerocopy_changed(sk, fd);
}

/* Point both rings into the segment, for the side in shm_of(sk)->side. */
void upgrade_init_rings(struct sock *sk, struct seg *seg, uint32_t ring_size)
{
	unsigned side = shm_of(sk)->side;

	shm_of(sk)->seg = seg;
	ring_tx_init(&shm_of(sk)->tx, seg_ring(seg, side, ring_size), ring_size,
		     &seg->side[!side].tail);
	ring_tx_window(&shm_of(sk)->tx, MIN(ring_size / 2, RING_WINDOW));
	ring_tx_areas(&shm_of(sk)->tx, shm_of(sk)->tx.base + ring_size / 2,
		      &seg->side[!side].tail2, ring_size / 2);
	shm_of(sk)->bulk_bytes = 0;
	shm_of(sk)->n_bulk_slow = 0;
	ring_rx_init(&shm_of(sk)->rx, seg_ring(seg, !side, ring_size),
		     ring_size, &seg->side[side].tail);
	store_rlx(&shm_w(sk)->rx_tcp, (uint8_t)1);
	shm_of(sk)->rx_tcp_left = -1;
	store_rlx(&shm_w(sk)->tx_ring, (uint8_t)0);
	sk->looked_ns = coarse_ns();
	/* A thread may already sleep in the kernel on the anchor: ask the peer
	 * to ring. */
	store_rlx(&seg->side[side].rx_anchor, shm_ring_how(sk));
}

enum osf_reason upgrade_reason(int err)
{
	switch (err) {
	case -EPERM:
		return OSF_REASON_OTHER_UID;
	case -EXDEV:
		return OSF_REASON_OTHER_USERNS;
	case -ENOSYS:
		return OSF_REASON_HIDDEN_USERNS;
	case -EOPNOTSUPP:
		return OSF_REASON_NO_PROOF;
	case -EPROTONOSUPPORT:
		return OSF_REASON_VERSION;
	case -EUCLEAN:
		return OSF_REASON_COUNTS;
	case -ENOENT:
	case -EPIPE: /* it was there, and has gone */
		return OSF_REASON_PEER_KERNEL;
	case -ENOTCONN:
		return OSF_REASON_UNCONNECTED;
	case -EBADMSG:
	case -EPROTO:
		return OSF_REASON_BROKEN;
	default:
		return OSF_REASON_NO_MEMORY;
	}
}

void upgrade_done(struct sock *sk)
{
	sk->st->proto = OSF_PROTO_SHM;
	sk->st->since_ns = clock_ns(CLOCK_REALTIME);
	sock_set_reason(sk, OSF_REASON_UPGRADED);
	count(&arena_totals()->n_upgraded, 1);
	sock_set_mode(sk, SOCK_SHM);
}

int upgrade_decline(struct sock *sk, int err)
{
	sock_set_reason(sk, upgrade_reason(err));
	sock_set_mode(sk, SOCK_KERNEL);
	return err;
}

/* What the peer may read once our flags say SEG_TX_RING: the stream continues in
 * the ring after @tcp_bytes. */
void upgrade_say_tx(struct sock *sk, int fd, uint64_t tcp_bytes)
{
	struct seg_side *me = shm_me(sk);

	me->tcp_bytes = tcp_bytes;
	me->pid = (uint32_t)getpid();
	me->anchor_fd = fd;
}

/* Send the first @n of @fds, and the bell of the calling thread, which is the
 * thread that will probably wait for this connection. */
int upgrade_say_hello(uint32_t inbox_tag, int channel, int fds[HELLO_FDS],
		      int n)
{
	struct hello h = { .magic = HELLO_MAGIC,
			   .version = SEG_VERSION,
			   .size = sizeof(h),
			   .pid = (uint32_t)getpid(),
			   .n_needed = (uint16_t)n };
	uint32_t bell = bell_mine();
	int fd = bell_fd_get(bell, channel_pid(channel));

	memcpy(h.inbox_id, inbox_of(inbox_tag)->id, sizeof(h.inbox_id));
	if (fd >= 0) {
		h.bell1 = (uint16_t)(bell + 1);
		fds[n++] = fd;
	}
	int err = hello_send(channel, &h, fds, n);
	bell_fd_put();
	return err;
}

/* Our inbox for the process at the other end of @channel; 0: none. */
uint32_t upgrade_inbox_for(int channel)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (libc.getsockopt(channel, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return 0;
	return inbox_get(cred.uid, cred.pid);
}

/* If @h brought the peer's bell, keep it. */
void upgrade_keep_bell(struct sock *sk, const struct hello *h, int *fds,
		       int channel)
{
	int *fd = h->n_needed < HELLO_FDS ? &fds[h->n_needed] : NULL;

	struct itimerspec at;

	/* The last fails at once on whatever is no timerfd. */
	if (!h->bell1 || !fd || *fd < 0 || !shm_of(sk)->peer_inbox ||
	    timerfd_gettime(*fd, &at))
		return;
	if (!inbox_keep_bell(shm_of(sk)->peer_inbox, h->bell1 - 1u, *fd,
			     channel_pid(channel)))
		store_rlx(&shm_me(sk)->has_bell1, h->bell1);
	*fd = -1;
}

uint32_t upgrade_says(int fd)
{
	return (shm_config.lends ? SEG_LENDS : 0u) |
	       (linger_s(fd) ? 0u : SEG_RESETS);
}

void upgrade_close_fds(int fds[HELLO_FDS])
{
	for (int i = 0; i < HELLO_FDS; i++)
		discard_passed(fds[i]);
}

/* The program sees its own rate, not our number. */
void upgrade_hide_rate(struct sock *sk)
{
	const struct notice *n = &shm_of(sk)->notice;

	sk->rate_was = n->was;
	store_rel(&sk->rate_shown, notice_rate(n));
}
