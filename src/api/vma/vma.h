/* SPDX-License-Identifier: MIT */
/*
 * api/vma/vma.h - programs written for VMA's extra API
 *
 *     getsockopt(-1, SOL_SOCKET, 2800, ...)  ->  preload/opt.c  ->  vma_getsockopt()
 *     recv(), poll(), ...  ->  preload  ->  vma_*()  ->  below.h's calls, callbacks
 *
 * preload asks vma_has() and vma_is_on() in each call, which costs a load in
 * programs that do not use this API, and calls the functions here if they say
 * so.  Those answer as libc's: -1 and errno.
 *
 * include/mellanox/vma_extra.h is the API, docs/vma.md its manual.
 */
#pragma once

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>

#include "base/atomic.h"
#include "base/compiler.h"

#define VMA_DUMMY 0x400 /* VMA_SND_FLAGS_DUMMY */

extern uint32_t vma_n_filters; /* descriptors with a receive callback */
extern bool vma_is_asked;      /* the program has the table */
extern bool vma_takes_dummies; /* that, or the library goes by libvma's name */

void vma_loaded(void);

/* Must calls that wait for several descriptors come to this API? */
static inline bool vma_is_on(void)
{
	return unlikely(load_rlx(&vma_n_filters));
}
bool vma_knows(int fd);
/* Must calls on @fd? */
static inline bool vma_has(int fd) { return vma_is_on() && vma_knows(fd); }

/* Does @fd, which is not a descriptor, name this API?  Then *@err is 0 or a negative errno. */
bool vma_getsockopt(int fd, int level, int name, void *val, socklen_t *len,
		    int *err);

/* xtreme_opt.c: an option of libvma's?  Then *@err is 0 or a negative errno. */
bool vma_setsockopt(int fd, int level, int name, const void *val, socklen_t len,
		    int *err);
/* An option was checked, with @err; SO_VMA_RING_ALLOC_LOGIC: which ring it may join. */
void vma_ring_logic(int fd, int name, const void *val, socklen_t len, int err);
bool vma_getopt(int fd, int level, int name, void *val, socklen_t *len,
		int *err);
/* The error that a look for a callback took away from the socket below; forgets it.  0: none. */
int vma_so_error(int fd);
/* @fd was bound, listens or connects: with VMA_SOCKETXTREME=1 it joins a ring. */
extern bool vma_is_xtreme;
void vma_start(void); /* the program asks for the table */
void vma_join(int fd);
/* A send on @fd has found too little room.  @has_copies: it has other numbers. */
void vma_sent_part(int fd, bool has_copies);
static inline void vma_may_join(int fd)
{
	if (unlikely(load_rlx(&vma_is_xtreme)))
		vma_join(fd);
}

/* left.c: @fd was bound, listens, or connects @to (else NULL), which rules look at. */
void vma_addressed(int fd, const struct sockaddr *to);
static inline void vma_has_address(int fd, const struct sockaddr *to)
{
	if (unlikely(load_rlx(&vma_is_asked)))
		vma_addressed(fd, to);
}

/* joined.c.  vma_made(): this process has made the socket @fd.  vma_copied(): @copy is one
 * more descriptor of the same socket.  vma_passed(), vma_passed_all(): from now on another
 * process or program may read @fd, or every socket. */
void vma_made(int fd);
void vma_copied(int fd, int copy);
void vma_passed(int fd);
void vma_passed_all(void);
static inline void vma_makes(int fd, int domain)
{
	if (unlikely(load_rlx(&vma_is_asked)) && fd >= 0 &&
	    (domain == AF_INET || domain == AF_INET6))
		vma_made(fd);
}
static inline void vma_copies(int fd, int copy)
{
	if (unlikely(load_rlx(&vma_is_asked)))
		vma_copied(fd, copy);
}
static inline void vma_passes(int fd)
{
	if (unlikely(load_rlx(&vma_is_asked)))
		vma_passed(fd);
}
static inline void vma_passes_all(void)
{
	if (unlikely(load_rlx(&vma_is_asked)))
		vma_passed_all();
}
/* FIONREAD.  False: the kernel's answer is right. */
bool vma_inq(int fd, int *n);
/* getsockopt() has succeeded: is it an option of ours? */
void vma_hide(int fd, int level, int name, void *val, socklen_t len);

/* @fd is about to be closed, or to be replaced. */
void vma_forget(int fd);
void vma_forget_range(unsigned first, unsigned last);
static inline void vma_closes(int fd)
{
	if (unlikely(load_rlx(&vma_is_asked)))
		vma_forget(fd);
}

/* recv.c: on descriptors with vma_has(). */
ssize_t vma_recv(int fd, const struct iovec *iov, size_t n, int flags);
ssize_t vma_recvfrom(int fd, void *buf, size_t n, int flags,
		     struct sockaddr *addr, socklen_t *len);
ssize_t vma_recvmsg(int fd, struct msghdr *msg, int flags);
int vma_recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags,
		 struct timespec *ts);

/* dummy.c: sends with VMA_SND_FLAGS_DUMMY, a flag that the kernel ignores, so only
 * programs that expect libvma can mean it. */
static inline bool vma_is_dummy(int flags)
{
	return unlikely(flags & VMA_DUMMY) && load_rlx(&vma_takes_dummies);
}
/* sent.c: counts a send on @fd, for which osf has no file.  @r: what the kernel returned.
 * Returns @r, and leaves errno alone. */
ssize_t vma_sent(int fd, ssize_t r);
int vma_sent_msgs(int fd, const struct mmsghdr *msgs, int n);
static inline bool vma_counts_sends(void)
{
	return unlikely(load_rlx(&vma_is_asked));
}
ssize_t vma_dummy_send(int fd, const struct msghdr *msg, int flags);
int vma_dummy_sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags);

/* wait.c: with vma_is_on(). */
int vma_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts,
	      const sigset_t *mask);
int vma_pselect(int n, fd_set *r, fd_set *w, fd_set *e,
		const struct timespec *ts, const sigset_t *mask);
int vma_epoll_pwait2(int epfd, struct epoll_event *evs, int n,
		     const struct timespec *ts, const sigset_t *mask);
/* epset.c: the kernel's, noted. */
int vma_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);
