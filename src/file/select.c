/* SPDX-License-Identifier: MIT */
/*
 * file/select.c - select() is poll() in another notation; see file/poll.h
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/idle.h"
#include "file/poll.h"

#define ON_STACK 64

#define SEL_IN (POLLRDNORM | POLLRDBAND | POLLIN | POLLHUP | POLLERR)
#define SEL_OUT (POLLWRBAND | POLLWRNORM | POLLOUT | POLLERR)
#define SEL_EX POLLPRI

static bool in_set(int fd, const fd_set *s)
{
	/* Past FD_SETSIZE too: programs do allocate larger ones. */
	return s && s->fds_bits[fd / NFDBITS] >> (fd % NFDBITS) & 1;
}

static void set_bit(int fd, fd_set *s)
{
	s->fds_bits[fd / NFDBITS] |= (fd_mask)(1UL << (fd % NFDBITS));
}

static void clear_set(fd_set *s, int n)
{
	if (s)
		memset(s, 0,
		       (size_t)((n + NFDBITS - 1) / NFDBITS) * sizeof(fd_mask));
}

static short wanted(int fd, const fd_set *r, const fd_set *w, const fd_set *e)
{
	return (short)((in_set(fd, r) ? POLLIN : 0) |
		       (in_set(fd, w) ? POLLOUT : 0) |
		       (in_set(fd, e) ? POLLPRI : 0));
}

bool select_concerns_us(int n, fd_set *const sets[3])
{
	for (int i = 0; i < 3; i++)
		if (n < 0 || (sets[i] && is_bad_ptr(sets[i])))
			return false;
	if (idle_is_on())
		return true;
	for (int fd = 0; fd < n; fd++)
		if (wanted(fd, sets[0], sets[1], sets[2]) && poll_concerns(fd))
			return true;
	return false;
}

int select_files(int n, fd_set *r, fd_set *w, fd_set *e,
		 const struct timespec *ts, const sigset_t *mask, bool *ours)
{
	struct pollfd on_stack[ON_STACK], *fds = on_stack;
	nfds_t n_fds = 0, concern = idle_is_on();

	*ours = false;
	for (int fd = 0; fd < n; fd++) {
		if (!wanted(fd, r, w, e))
			continue;
		n_fds++;
		concern += poll_concerns(fd);
	}
	if (!concern)
		return 0;
	*ours = true;
	if (n_fds > ON_STACK && !(fds = malloc(n_fds * sizeof(*fds))))
		return -ENOMEM;
	n_fds = 0;
	for (int fd = 0; fd < n; fd++) {
		short want = wanted(fd, r, w, e);

		if (want)
			fds[n_fds++] =
			    (struct pollfd){ .fd = fd, .events = want };
	}
	int n_ready = poll_files(fds, n_fds, ts, mask);
	for (nfds_t i = 0; n_ready > 0 && i < n_fds; i++)
		if (fds[i].revents & POLLNVAL)
			n_ready = -EBADF;
	if (n_ready >= 0) {
		clear_set(r, n);
		clear_set(w, n);
		clear_set(e, n);
		n_ready = 0;
		for (nfds_t i = 0; i < n_fds; i++) {
			short re = fds[i].revents, ev = fds[i].events;

			if (ev & POLLIN && re & SEL_IN)
				set_bit(fds[i].fd, r), n_ready++;
			if (ev & POLLOUT && re & SEL_OUT)
				set_bit(fds[i].fd, w), n_ready++;
			if (ev & POLLPRI && re & SEL_EX)
				set_bit(fds[i].fd, e), n_ready++;
		}
	}
	if (fds != on_stack)
		free(fds);
	return n_ready;
}
