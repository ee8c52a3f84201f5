/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/readahead.c - bytes of TCP that nobody has read yet
 *
 *     TCP, up to the peer's K  ->  readahead  ->  rx.c
 *
 * After an upgrade the peer's stream continues in the ring, but what it sent
 * by TCP before stays in the kernel until the program reads it.  If the
 * program does not read for a while, TCP's window stays closed.  Then neither
 * a doorbell nor the FIN of a killed peer arrives, and a thread that waits for
 * room in the ring waits for ever.  So a thread that is about to sleep takes
 * these bytes out of the kernel.  K bounds them, or READAHEAD_MAX while K is
 * unknown.
 *
 * Children forked later share this memory, and the positions in it.  If
 * several processes already hold the socket, nothing is taken out.
 *
 * Lock: rx.
 */
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "proto/shm/shm.h"
#include "sock/shared.h"

static bool has_memory(struct sock *sk)
{
	if (shm_of(sk)->readahead)
		return true;
	if (sock_procs(sk) > 1)
		return false;
	void *map = mmap(NULL, READAHEAD_MAX, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return false;
	madvise(map, READAHEAD_MAX, MADV_DONTDUMP);
	shm_of(sk)->readahead = map;
	return true;
}

void readahead_free(struct sock *sk)
{
	if (shm_of(sk)->readahead)
		munmap(shm_of(sk)->readahead, READAHEAD_MAX);
	shm_of(sk)->readahead = NULL;
	shm_of(sk)->readahead_pos = shm_of(sk)->readahead_end = 0;
}

/*
 * Take up to @max bytes from the kernel.  Until we know K, a doorbell could
 * look like data.  So look first, and take what was there only if K is still
 * unknown.  Return 0 if nothing was taken and the caller must look again, or
 * -errno.
 */
static ssize_t take(struct sock *sk, int fd, size_t max, bool known)
{
	uint8_t *to = shm_of(sk)->readahead + shm_of(sk)->readahead_end;
	ssize_t r =
	    nocancel_recv(fd, to, max, MSG_DONTWAIT | (known ? 0 : MSG_PEEK));

	if (r <= 0)
		return r < 0 ? -errno : -ENODATA;
	if (known)
		return r;
	if (load_acq(&shm_peer(sk)->flags) & SEG_TX_RING)
		return 0;
	r = nocancel_recv(fd, to, (size_t)r, MSG_DONTWAIT);
	return r < 0 ? -errno : r;
}

void readahead_fill_locked(struct sock *sk, int fd)
{
	while (sock_mode(sk) == SOCK_SHM && shm_w(sk)->rx_tcp) {
		bool known = shm_rx_is_known(sk);

		if (known && shm_of(sk)->rx_tcp_left < 0)
			return; /* a liar: whoever reads will say so */
		if (shm_of(sk)->readahead_pos == shm_of(sk)->readahead_end)
			shm_of(sk)->readahead_pos = shm_of(sk)->readahead_end =
			    0;
		size_t max = READAHEAD_MAX - shm_of(sk)->readahead_end;
		if (known)
			max = MIN(max, (size_t)shm_of(sk)->rx_tcp_left);
		if (!max || !has_memory(sk))
			return;
		ssize_t r = take(sk, fd, max, known);
		if (r < 0) {
			if (r != -ENODATA)
				anchor_note(sk, (int)-r);
			return;
		}
		store_rlx(&shm_of(sk)->readahead_end,
			  shm_of(sk)->readahead_end + (uint32_t)r);
		shm_of(sk)->rx_tcp_base += (uint64_t)r;
		shm_of(sk)->rx_tcp_left -= known ? r : 0;
	}
}

/* Does another thread sleep until there are bytes?  Only bytes in the kernel
 * wake it. */
static bool others_wait(const struct sock *sk, uint32_t n_own)
{
	return load_rlx(&sk->w->n_sleepers) - load_rlx(&sk->w->n_tx_sleepers) >
	       n_own;
}

COLD void shm_readahead_fill(struct sock *sk, int fd, uint32_t n_own)
{
	int saved = errno, n = 0;

	/* A program that asks and waits for its answer has read everything: allocate
	 * nothing. */
	if (sock_mode(sk) != SOCK_SHM || libc.ioctl(fd, FIONREAD, &n) < 0 ||
	    !n) {
		errno = saved;
		return;
	}
	if (sock_take_rx(sk)) {
		if (!others_wait(sk, n_own))
			readahead_fill_locked(sk, fd);
		sock_unlock_rx(sk);
	}
	errno = saved;
}

size_t readahead_read(struct sock *sk, struct iov_cursor *c, size_t want,
		      int flags)
{
	size_t n = MIN(want, (size_t)readahead_bytes(sk));

	if (flags & MSG_TRUNC)
		cursor_skip(c, n);
	else
		cursor_put(c, shm_of(sk)->readahead + shm_of(sk)->readahead_pos,
			   n);
	if (flags & MSG_PEEK)
		return n;
	store_rlx(&shm_of(sk)->readahead_pos,
		  shm_of(sk)->readahead_pos + (uint32_t)n);
	count(&sk->st->rx_bytes_inet, n);
	return n;
}
