/* SPDX-License-Identifier: MIT */
/*
 * api/vma/below.h - the socket calls as they are without this API
 *
 *     program  ->  recv()  ->  api/vma  ->  below_recvmsg()  ->  kernel, rings, ...
 *
 * preload defines these functions and api/vma calls them.  So this API works
 * over every protocol and knows none.  They answer as libc's: -1 and errno.
 */
#pragma once

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>

ssize_t below_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t below_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t below_recvfrom(int fd, void *buf, size_t n, int flags,
		       struct sockaddr *addr, socklen_t *len);
/* One attempt at the next bytes: how many, or -errno; errno stays. */
ssize_t below_recv(int fd, void *buf, size_t n);
/* The next bytes of a stream where they lie, at most @max, until below_lent_back().
 * Return: how many; 0: they cannot be lent, call below_recv(); or -errno */
struct below_lent {
	uint32_t off;
	void *memory;
};
int32_t below_lend(int fd, uint32_t max, const uint8_t **data,
		   struct below_lent *l);
/* @fd may name another socket by now. */
void below_lent_back(int fd, const struct below_lent *l);
/* Makes no system call.  Return: 1, there may be something to receive; 0, not yet; -1, only
 * the kernel knows */
int below_is_ready(int fd);
/* For the only thread of a process, which asks again and again: receives the next bytes if
 * that takes no system call.  @one: only bytes that came as one piece, without a look at
 * what follows.  @looks: how often to look before the answer is 0.  Return: how many; 0:
 * nothing yet; -ENODATA: the end of the stream; -EAGAIN: only the kernel knows */
ssize_t below_take(int fd, void *buf, size_t n, bool one, unsigned looks);
/* May more than the kernel carry its bytes? */
bool below_serves(int fd);
/* Has a rule, or the thread that made it, left this TCP socket to the kernel? */
bool below_is_left(int fd);
int below_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts,
		const sigset_t *mask);
int below_pselect(int n, fd_set *r, fd_set *w, fd_set *e,
		  const struct timespec *ts, const sigset_t *mask);
int below_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);
int below_epoll_pwait2(int epfd, struct epoll_event *evs, int n,
		       const struct timespec *ts, const sigset_t *mask);
