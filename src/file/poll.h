/* SPDX-License-Identifier: MIT */
/*
 * file/poll.h - poll and select over kernel descriptors and upgraded sockets
 *
 * O(n), as in the kernel.  We check each upgraded socket here and all others
 * with one poll() of the kernel.  To sleep, one ppoll() takes all of them; an
 * upgraded socket is represented by its anchor descriptor, which the peer
 * rings.
 */
#pragma once

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/select.h>
#include <time.h>

/* Does @fd need more than the kernel's answer?  Or any of them? */
bool poll_concerns(int fd);
bool poll_concerns_us(const struct pollfd *fds, nfds_t n);
/* ppoll() for sets that do; @ts relative, NULL for ever.  Count or -errno. */
int poll_files(struct pollfd *fds, nfds_t n, const struct timespec *ts,
	       const sigset_t *mask);
/* The same question about select()'s sets; n and the pointers are the program's. */
bool select_concerns_us(int n, fd_set *const sets[3]);
/* pselect() likewise; *@ours false: nothing was done, ask the kernel. */
int select_files(int n, fd_set *r, fd_set *w, fd_set *e,
		 const struct timespec *ts, const sigset_t *mask, bool *ours);
