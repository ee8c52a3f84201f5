/* SPDX-License-Identifier: MIT */
/*
 * file/epoll.h - epoll over kernel descriptors and upgraded sockets together
 *
 * The program's epoll descriptor stays a kernel epoll set, and every descriptor
 * stays in it.  When a socket is upgraded, the kernel's set reports the events of
 * its anchor to us (edge-triggered, with our tag instead of the program's data),
 * and we compute the socket's events here.  Notifications (sock/ready.h) and
 * the anchor's events both put the socket on the ready list.
 *
 * Lock: epoll.lock, then the socket's rx and tx.
 */
#pragma once

#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>

#include "file/file.h"

struct epoll *epoll_new(int fd);
/* The program has closed the set's descriptor, and still has a duplicate: use the anchor. */
void epoll_moved(struct file *fe);
/* There was no descriptor left for an anchor: use the duplicate that the program has. */
void epoll_adopt(struct file *fe, int epfd);
void epoll_free(struct epoll *ep);

/* epoll_ctl() when either descriptor has a file.  0 or -errno. */
int epoll_file_ctl(int epfd, struct file *fe, int op, int fd,
		   struct epoll_event *ev);
/* epoll_pwait2(), @ts relative or NULL for ever.  Count or -errno. */
int epoll_file_wait(int epfd, struct file *fe, struct epoll_event *evs, int max,
		    const struct timespec *ts, const sigset_t *mask);

/* @f was upgraded: serve it in the sets it is in. */
void epoll_merge_sock(struct file *f);
/* @f's description goes away. */
void epoll_forget_sock(struct file *f);
/* The kernel's set is the program's own again: no tags, no anchors, no bell. */
void epoll_restore(struct file *fe);
/* Does the set have upgraded sockets (or may it)? */
bool epoll_is_merged(const struct file *fe);
/* When bytes that a peer holds back will make the set ready; UINT64_MAX: never. */
uint64_t epoll_corked_until(const struct file *fe);
/* Would epoll_wait() return something of ours now? */
bool epoll_has_ready(struct file *fe);
/* Has its kernel set anything for the program, besides events of anchors? */
bool epoll_kernel_ready(struct file *fe);
/* Somebody waits for the set through the kernel (poll, another set). */
void epoll_sleeping(struct file *fe);
/* Before a fork: the child will have the kernel's set, too. */
void epoll_before_fork(struct file *fe);
void epoll_after_fork(struct file *fe);
