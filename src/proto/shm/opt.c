/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/opt.c - options and states of which the anchor knows only a part
 *
 *     sock/opt.c, preload/opt.c  ->  table.c  ->  options, TCP_INFO, marks
 */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "proto/shm/shm.h"
#include "sock/linger.h"

/* Send the bytes that wait for more. */
static void flush(struct sock *sk, int fd)
{
	if (!load_rlx(&shm_of(sk)->corked_bytes))
		return;
	if (!sock_take_tx(sk)) {
		shm_leave_due(sk, fd, SHM_DUE_FLUSH);
		return;
	}
	if (shm_w(sk)->tx_ring)
		shm_flush(sk, fd);
	sock_unlock_tx(sk);
}

static void sndbuf_changed(struct sock *sk, int fd)
{
	if (!sock_take_tx(sk)) {
		shm_leave_due(sk, fd, SHM_DUE_SNDBUF);
		return;
	}
	shm_sndbuf_changed(sk, fd);
	sock_unlock_tx(sk);
}

/* Also before the segment is there: upgrade_says() tells it then. */
static void linger_changed(struct sock *sk, int fd)
{
	if (!shm_of(sk)->seg)
		return;
	if (linger_s(fd))
		fetch_and(&shm_me(sk)->flags, ~(uint32_t)SEG_RESETS);
	else
		fetch_or(&shm_me(sk)->flags, SEG_RESETS);
}

bool shm_opt_changed(struct sock *sk, int fd, int level, int name)
{
	int one = 1;

	if (level == IPPROTO_TCP) {
		if ((name == TCP_NODELAY && load_rlx(&sk->w->nodelay)) ||
		    (name == TCP_CORK && !load_rlx(&sk->w->cork)))
			flush(sk, fd);
	} else if (name == SO_RCVLOWAT && !shm_w(sk)->fell_back) {
		/* A doorbell is one byte, so one byte must wake. */
		libc.setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
	} else if (name == SO_SNDBUF || name == SO_SNDBUFFORCE) {
		sndbuf_changed(sk, fd);
	} else if (name == SO_LINGER) {
		linger_changed(sk, fd);
	}
	return !shm_w(sk)->fell_back;
}

/* Give the anchor the options that the application has set. */
void anchor_restore(const struct sock *sk, int fd)
{
	int nodelay = sk->w->nodelay, cork = sk->w->cork,
	    lowat = sk->w->rcvlowat;

	libc.setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, sizeof(int));
	if (cork)
		libc.setsockopt(fd, IPPROTO_TCP, TCP_CORK, &cork, sizeof(int));
	if (lowat > 1)
		libc.setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &lowat,
				sizeof(int));
}

/* The kernel sends SIGIO when the peer rings. */
void shm_async_changed(struct sock *sk, int fd)
{
	shm_arm(sk, fd, POLLIN, ARM_ANCHOR);
}

/* Only when the ring is read and the doorbells are gone can it be next. */
bool shm_is_before_mark(struct sock *sk, int fd)
{
	return shm_inq(sk, fd) > 0 && !shm_w(sk)->rx_back;
}

static bool peer_has_shut(const struct sock *sk)
{
	return load_rlx(&shm_w(sk)->rx_eof) ||
	       load_rlx(&shm_w(sk)->peer_died) ||
	       load_acq(&shm_peer(sk)->flags) & SEG_TX_FIN;
}

/* The stream has ended in both directions.  The kernel would have closed its
 * socket, but the anchor may still be open, because we hold its FINs back. */
bool shm_is_over(const struct sock *sk)
{
	return sock_mode(sk) == SOCK_SHM &&
	       load_rlx(&sk->w->shut) & SHUT_BIT_WR && peer_has_shut(sk);
}

/* Continue TCP_INFO's counters from the kernel's.  Do not count doorbells. */
void shm_tcp_info(struct sock *sk, int fd, void *val, size_t len)
{
	int waiting = shm_w(sk)->tx_ring ? shm_outq(sk, fd) : 0;
	int unread =
	    shm_w(sk)->rx_tcp || shm_w(sk)->rx_back ? 0 : shm_inq(sk, fd);
	struct tcp_info ti;
	size_t n = MIN(len, sizeof(ti));

	memset(&ti, 0, sizeof(ti));
	memcpy(&ti, val, n);
	if (shm_is_over(sk))
		ti.tcpi_state = 7; /* CLOSE */
	else if (ti.tcpi_state == 1 && peer_has_shut(sk))
		ti.tcpi_state = 8; /* CLOSE_WAIT */
	else if (ti.tcpi_state == 1 && sk->w->shut & SHUT_BIT_WR)
		ti.tcpi_state = 5; /* FIN_WAIT2 */
	uint64_t sent = sk->st->tx_bytes_shm - (uint64_t)MAX(waiting, 0) -
			load_rlx(&shm_me(sk)->bells);
	if (shm_w(sk)->tx_ring && !waiting)
		ti.tcpi_unacked = 0;
	ti.tcpi_notsent_bytes += (uint32_t)MAX(waiting, 0);
	ti.tcpi_bytes_acked += sent;
	ti.tcpi_bytes_sent += sent;
	ti.tcpi_bytes_received += sk->st->rx_bytes_shm +
				  (uint64_t)MAX(unread, 0) -
				  load_rlx(&shm_of(sk)->bells_drained);
	ti.tcpi_segs_out += (uint32_t)sk->st->tx_ops;
	ti.tcpi_segs_in += (uint32_t)sk->st->rx_ops;
	ti.tcpi_data_segs_out += (uint32_t)sk->st->tx_ops;
	ti.tcpi_data_segs_in += (uint32_t)sk->st->rx_ops;
	memcpy(val, &ti, n);
}

/* The program disconnects.  Nobody here reads any more, and the peer sees the
 * reset on its anchor. */
int shm_disconnect(struct sock *sk, int fd, const struct sockaddr *addr,
		   socklen_t len)
{
	if (sock_mode(sk) == SOCK_SHM)
		fetch_or(&shm_me(sk)->flags, SEG_CLOSED);
	if (nocancel_connect(fd, addr, len) < 0)
		return -errno;
	sock_set_reason(sk, OSF_REASON_OPTION);
	sock_set_mode(sk, SOCK_KERNEL);
	return 0;
}

void shm_retire(struct sock *sk)
{
	if (!sock_take_mode(sk, SOCK_SHM))
		return;
	if (shm_w(sk)->fell_back)
		sock_set_mode(sk, SOCK_KERNEL);
	sock_unlock_both(sk);
}
