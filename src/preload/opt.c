/* SPDX-License-Identifier: MIT */
/*
 * preload/opt.c - socket options, shutdown, names
 *
 * The anchor holds the options, so the kernel answers for nearly all of them.  A
 * few are ours while we move the bytes: those that would delay or swallow
 * doorbells, the timeouts, and what only the kernel can do, which takes the
 * connection back to it.
 */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>

#include "api/api.h"
#include "base/clock.h"
#include "file/epoll.h"
#include "ops/ops.h"
#include "ops/xlio_opt.h"
#include "preload/edge.h"
#include "preload/times.h"
#include "proto/shm/shm.h"

#ifndef TCP_AO_ADD_KEY
#define TCP_AO_ADD_KEY 38
#endif

static int shut(int fd, int how)
{
	CALL(c) = { .file = file_get(fd) };
	int saved = errno;

	if (likely(!c.file) || c.file->kind != FILE_SOCK)
		return libc.shutdown(fd, how);
	struct sock *sk = c.file->sk;
	while (sock_mode(sk) == SOCK_UPGRADING)
		cpu_relax();
	if (sock_mode(sk) == SOCK_YOUNG) {
		/* A half-closed connection is not worth moving. */
		if (ops_pin(sk, OSF_REASON_HALF_CLOSED))
			file_pass(c.file);
		return libc.shutdown(fd, how);
	}
	if (sock_mode(sk) == SOCK_KERNEL)
		return libc.shutdown(fd, how);
	int r = shm_shutdown(sk, fd, how);
	file_settle(c.file, fd);
	file_touched(c.file, 0);
	if (r == -ESTALE)
		return libc.shutdown(fd, how);
	return (int)libc_ret(r, saved);
}

OSF_API int shutdown(int fd, int how)
{
	bool past = goes_past(fd);
	int r = shut(fd, how);

	if (unlikely(past))
		inbox_went_past();
	return r;
}

/* Options that only the kernel's data path has; the reason to record. */
static enum osf_reason kernel_only(int level, int name)
{
	if (level == SOL_SOCKET) {
		switch (name) {
		case SO_OOBINLINE:
			return OSF_REASON_URGENT;
		case SO_PEEK_OFF:
		case SO_ATTACH_FILTER:
		case SO_ATTACH_BPF:
			return OSF_REASON_OPTION;
		default:
			return OSF_REASON_NONE;
		}
	}
	if (level == IPPROTO_TCP)
		switch (name) {
		case TCP_ULP:
			return OSF_REASON_ULP;
		case TCP_REPAIR:
		case TCP_MD5SIG:
		case TCP_MD5SIG_EXT:
		case TCP_AO_ADD_KEY:
			return OSF_REASON_OPTION;
		default:
			break;
		}
	return OSF_REASON_NONE;
}

/* From now on the kernel tells when a byte was sent, and counts bytes.  To be told when
 * one came needs nothing yet: see preload/times.c. */
static bool is_sent_times(int level, int name, const void *val, socklen_t len)
{
	uint32_t v;

	if (level != SOL_SOCKET ||
	    (name != SO_TIMESTAMPING && name != SO_TIMESTAMPING_NEW) ||
	    is_bad_ptr(val) || len < sizeof(v))
		return false;
	memcpy(&v, val, sizeof(v));
	return v & TIMES_SENT;
}

/* The kernel's own MSG_PEEK counts what SO_PEEK_OFF says, on the connection that
 * carries the stream: so TCP has to carry it from now on. */
static void leave_rings(struct file *f, int fd)
{
	struct sock *sk = f->sk;

	file_hand_over(fd, OSF_REASON_OPTION);
	lock_get(&sk->rx_lock);
	lock_get(&sk->tx_lock);
	if (sock_mode(sk) == SOCK_SHM && shm_of(sk)->recalled)
		sock_set_mode(sk, SOCK_KERNEL);
	lock_put(&sk->tx_lock);
	lock_put(&sk->rx_lock);
	file_settle(f, fd);
}

static uint64_t timeval_ns(const void *val)
{
	struct timeval tv;

	memcpy(&tv, val, sizeof(tv));
	return (uint64_t)tv.tv_sec * NS_PER_S +
	       (uint64_t)tv.tv_usec * NS_PER_US;
}

/* The kernel bounds the value, and makes room for it; but a doorbell is one byte. */
static int set_rcvlowat(struct sock *sk, int fd, int v)
{
	int one = 1;
	socklen_t len = sizeof(v);

	libc.setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &v, len);
	if (!libc.getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &v, &len))
		store_rlx(&sk->rcvlowat, v);
	if (!shm_of(sk)->recalled)
		libc.setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
	return 1;
}

/* What waits for more is sent. */
static void flush(struct sock *sk, int fd)
{
	if (!load_rlx(&shm_of(sk)->held_bytes))
		return;
	sock_lock(sk, &sk->tx_lock);
	if (shm_of(sk)->tx_ring)
		shm_flush(sk, fd);
	sock_unlock(sk, &sk->tx_lock);
}

/* Options that must not reach the anchor, or not as they are.  1: done. */
static int set_ours(struct sock *sk, int fd, int level, int name,
		    const void *val, socklen_t len)
{
	int v;

	if (is_bad_ptr(val) || len < sizeof(v))
		return 0;
	memcpy(&v, val, sizeof(v));
	if (level == IPPROTO_TCP && name == TCP_NODELAY) {
		store_rlx(&sk->nodelay, (uint8_t)(v != 0));
		if (v)
			flush(sk, fd);
		return 1;
	}
	if (level == IPPROTO_TCP && name == TCP_CORK) {
		store_rlx(&sk->cork, (uint8_t)(v != 0));
		if (!v)
			flush(sk, fd);
		return 1;
	}
	return level == SOL_SOCKET && name == SO_RCVLOWAT
		   ? set_rcvlowat(sk, fd, v)
		   : 0;
}

/* Options that both of us need to know. */
static void set_both(struct sock *sk, int fd, int level, int name,
		     const void *val, socklen_t len)
{
	if (level == IPPROTO_TCP && name == TCP_INQ)
		store_rlx(&sk->inq, *(const int *)val != 0);
	if (level != SOL_SOCKET)
		return;
	if (name == SO_RCVTIMEO && len >= sizeof(struct timeval))
		store_rlx(&sk->rcvtimeo_ns, timeval_ns(val));
	else if (name == SO_SNDTIMEO && len >= sizeof(struct timeval))
		store_rlx(&sk->sndtimeo_ns, timeval_ns(val));
	else if (name == SO_SNDBUF || name == SO_SNDBUFFORCE)
		shm_sndbuf_changed(sk, fd);
}

/* An option without effect: only the descriptor can be wrong, or (@err) the value. */
static COLD int set_nothing(int fd, int err)
{
	int type, saved = errno;
	socklen_t len = sizeof(type);

	if (libc.getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0)
		return -1;
	return (int)libc_ret(err, saved);
}

OSF_API int setsockopt(int fd, int level, int name, const void *val,
		       socklen_t len)
{
	CALL(c) = { .file = file_get(fd) };
	unsigned long rate;
	int err;

	if (unlikely(xlio_opt_pacing(level, name, val, len, &rate))) {
		val = &rate;
		len = sizeof(rate);
	}
	if (unlikely(xlio_opt_ring_logic(level, name, val, len, &err)))
		return set_nothing(fd, err);
	if (likely(!c.file) || c.file->kind != FILE_SOCK)
		return libc.setsockopt(fd, level, name, val, len);
	struct sock *sk = c.file->sk;
	int saved = errno;
	bool sent_times = is_sent_times(level, name, val, len);
	enum osf_reason reason =
	    sent_times ? OSF_REASON_OPTION : kernel_only(level, name);
	/* What the upgrade takes over must not change beneath it. */
	bool ours = !call_enter(&c);
	if (ours && set_ours(sk, fd, level, name, val, len) &&
	    !shm_of(sk)->recalled)
		return 0;
	if (ours && sent_times)
		shm_take_back(sk, fd, reason); /* the last doorbell has none */
	if (ours && level == SOL_SOCKET && name == SO_PEEK_OFF)
		leave_rings(c.file, fd);
	int r = libc.setsockopt(fd, level, name, val, len);
	call_leave(&c);
	if (r < 0)
		return r;
	if (level == SOL_SOCKET && name == SO_ZEROCOPY)
		errq_zerocopy_changed(sk, fd);
	if (times_are_of(level, name))
		times_changed(sk, fd);
	if (reason == OSF_REASON_NONE && ours)
		set_both(sk, fd, level, name, val, len);
	else if (reason != OSF_REASON_NONE && ops_pin(sk, reason))
		file_pass(c.file);
	else if (reason != OSF_REASON_NONE && is_ours(sk))
		shm_take_back(sk, fd, reason);
	errno = saved;
	return r;
}

static bool peer_has_shut(const struct sock *sk)
{
	return load_rlx(&shm_of(sk)->rx_eof) ||
	       load_acq(&shm_peer(sk)->flags) & SEG_TX_FIN;
}

/* The stream has ended in both directions.  The kernel's socket would be closed by
 * now; the anchor may not be, for its FINs are held back. */
static bool is_over(const struct sock *sk)
{
	return sock_mode(sk) == SOCK_SHM && load_rlx(&sk->shut) & SHUT_BIT_WR &&
	       peer_has_shut(sk);
}

/* TCP_INFO's counters go on where the kernel's stopped.  Doorbells are no bytes of the
 * stream. */
static void add_to_info(struct sock *sk, int fd, void *val, socklen_t len)
{
	int waiting = shm_of(sk)->tx_ring ? shm_outq(sk, fd) : 0;
	int unread =
	    shm_of(sk)->rx_tcp || shm_of(sk)->rx_back ? 0 : shm_inq(sk, fd);
	struct tcp_info ti;
	size_t n = MIN((size_t)len, sizeof(ti));

	memset(&ti, 0, sizeof(ti));
	memcpy(&ti, val, n);
	if (is_over(sk))
		ti.tcpi_state = 7; /* CLOSE */
	else if (ti.tcpi_state == 1 && peer_has_shut(sk))
		ti.tcpi_state = 8; /* CLOSE_WAIT */
	else if (ti.tcpi_state == 1 && sk->shut & SHUT_BIT_WR)
		ti.tcpi_state = 5; /* FIN_WAIT2 */
	uint64_t sent = sk->st->tx_bytes_shm - (uint64_t)MAX(waiting, 0) -
			load_rlx(&shm_me(sk)->bells);
	if (shm_of(sk)->tx_ring && !waiting)
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

/* The error that the stream ended with; -1: the kernel knows. */
static int so_error(int fd)
{
	CALL(c) = { .file = file_get(fd) };

	return c.file && c.file->kind == FILE_SOCK && file_is_ours(fd)
		   ? anchor_so_error(c.file->sk, fd)
		   : -1;
}

OSF_API int getsockopt(int fd, int level, int name, void *restrict val,
		       socklen_t *restrict len)
{
	int our_err = -1;

	if (unlikely(level == SOL_SOCKET && name == SO_ERROR && table_load(fd)))
		our_err = so_error(fd);
	int r = libc.getsockopt(fd, level, name, val, len), err;

	if (unlikely(r < 0 && fd < 0) &&
	    api_getsockopt(fd, level, name, val, len, &err))
		return (int)libc_ret(err, 0);
	if (likely(r < 0 || !table_load(fd)))
		return r;
	if (unlikely(our_err >= 0)) {
		memcpy(val, &our_err, MIN((size_t)*len, sizeof(our_err)));
		return r;
	}
	CALL(c) = { .file = file_get(fd) };
	if (!c.file || c.file->kind != FILE_SOCK || !val || !len ||
	    !file_is_ours(fd))
		return r;
	struct sock *sk = c.file->sk;
	int v;
	if (level == IPPROTO_TCP && name == TCP_INFO && shm_of(sk)->seg) {
		add_to_info(sk, fd, val, *len);
		return r;
	}
	if (level == IPPROTO_TCP && name == TCP_NODELAY)
		v = sk->nodelay;
	else if (level == IPPROTO_TCP && name == TCP_CORK)
		v = sk->cork;
	else if (level == SOL_SOCKET && name == SO_RCVLOWAT)
		v = load_rlx(&sk->rcvlowat);
	else
		return r;
	memcpy(val, &v, MIN((size_t)*len, sizeof(v)));
	return r;
}

OSF_API int getpeername(int fd, struct sockaddr *restrict addr,
			socklen_t *restrict len)
{
	CALL(c) = { .file = file_get(fd) };

	if (unlikely(c.file != NULL) && c.file->kind == FILE_SOCK &&
	    is_over(c.file->sk)) {
		errno = ENOTCONN;
		return -1;
	}
	return libc.getpeername(fd, addr, len);
}
