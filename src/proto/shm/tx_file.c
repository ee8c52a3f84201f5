/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/tx_file.c - sendfile(): a file's bytes into the connection
 *
 *     file  ->  read() straight into the ring, or through TCP; see proto/shm/tx.c
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "proto/shm/tx.h"

#define FILE_BY_TCP (-INT_MAX) /* inside this file */

/* sendfile(): read the file straight into the ring. */
static ssize_t file_to_ring(struct sock *sk, int fd, int in, off_t *off,
			    size_t n)
{
	uint32_t len = (uint32_t)MIN(n, (size_t)TX_CHUNK), at;

	if (unlikely(shm_of(sk)->corked_bytes))
		tx_held_begin(sk, fd, n);
	if (tx_is_full(sk) &&
	    (ring_tx_refresh(&shm_of(sk)->tx), tx_is_full(sk))) {
		shm_flush(sk, fd);
		return -EAGAIN;
	}
	uint8_t *to = ring_reserve(&shm_of(sk)->tx, &len, &at);

	if (!to) {
		shm_flush(sk, fd);
		return len ? -EPROTO : -EAGAIN;
	}
	ssize_t r = off ? nocancel_pread(in, to, len, *off)
			: nocancel_read(in, to, len);
	if (r <= 0) {
		r = r < 0 ? -errno : 0;
		shm_flush(sk, fd);
		return r;
	}
	/* Where the payload begins depends on its length. */
	if (ring_payload_off((uint32_t)r) != ring_payload_off(len))
		memmove(shm_of(sk)->tx.base + at +
			    ring_payload_off((uint32_t)r),
			to, (size_t)r);
	ring_commit(&shm_of(sk)->tx, at, (uint32_t)r);
	if (unlikely(shm_of(sk)->corked_bytes))
		shm_flush(sk, fd);
	else
		shm_notify_data(sk, fd);
	if (shm_has_fallen_back(sk)) {
		ssize_t lost = shm_tx_fell_back(sk, fd, (size_t)r);

		if (lost < 0)
			return lost;
		if (!off && lost)
			lseek(in, -lost, SEEK_CUR);
		r -= lost;
		if (!r)
			return FILE_BY_TCP;
	}
	if (r == TX_CHUNK)
		tx_bulk_count(sk, TX_CHUNK);
	if (off)
		*off += r;
	count(&sk->st->tx_bytes_shm, (uint64_t)r);
	return r;
}

/* The same while the kernel still carries the stream. */
static COLD ssize_t file_to_tcp(struct sock *sk, int fd, int in, off_t *off,
				size_t n)
{
	char buf[16 * 1024];

	n = MIN(n, sizeof(buf));
	ssize_t r =
	    off ? nocancel_pread(in, buf, n, *off) : nocancel_read(in, buf, n);
	if (r <= 0)
		return r < 0 ? -errno : 0;
	struct iov_cursor c = { &(struct iovec){ buf, (size_t)r }, 1, 0 };
	ssize_t sent = tx_tcp(sk, fd, &c, (size_t)r, 0);
	if (off)
		*off += sent > 0 ? sent : 0;
	else if (sent < r)
		lseek(in, (sent > 0 ? sent : 0) - r, SEEK_CUR);
	return sent;
}

/* As in the kernel, a file without more bytes is no error, however the connection has ended. */
static bool is_read_out(int in, const off_t *off)
{
	off_t at = off ? *off : lseek(in, 0, SEEK_CUR);
	char byte;

	return at >= 0 && !nocancel_pread(in, &byte, 1, at);
}

static COLD ssize_t file_to_nobody(struct sock *sk, int fd, int in, off_t *off,
				   size_t n)
{
	shm_reset_due(sk, fd);
	if (shm_has_fallen_back(sk) && !sk->is_lost) {
		ssize_t lost = shm_tx_fell_back(sk, fd, 0);

		return lost < 0 ? lost : FILE_BY_TCP;
	}
	if (is_read_out(in, off))
		return 0;
	int err = shm_is_broken(sk) ? -EPIPE : anchor_error(sk);

	if (!err && shm_w(sk)->peer_died > PEER_READ_ALL)
		err = -EPIPE;
	if (err)
		return err;
	fetch_or(&shm_me(sk)->flags, SEG_TX_LATE);
	ssize_t r = libc.sendfile(fd, in, off, n);
	return r < 0 ? -errno : r;
}

ssize_t shm_send_file(struct sock *sk, int fd, int in, off_t *off, size_t n)
{
	ssize_t r;

	do {
		int err = tx_begin(sk, fd);
		if (err)
			return err;
		sock_changes_tx(sk);
		if (sk->w->shut & SHUT_BIT_WR)
			r = is_read_out(in, off) ? 0 : tx_is_shut(sk, fd);
		else if (sk->is_lost)
			r = file_to_nobody(sk, fd, in, off, n);
		else if (!shm_w(sk)->tx_ring)
			r = file_to_tcp(sk, fd, in, off, n);
		else if (tx_nobody_reads(sk, fd))
			r = file_to_nobody(sk, fd, in, off, n);
		else
			r = file_to_ring(sk, fd, in, off, n);
		tx_end(sk, fd, r);
	} while (r == FILE_BY_TCP);
	return r;
}
