/* SPDX-License-Identifier: MIT */
/*
 * base/bell.h - one cheap call that wakes a thread of another process
 *
 *     sleeper:  bell_mine(), sleeps on bell_own_fd()
 *                    | bell_fd_get(): a copy of the descriptor, once, with a hello
 *     waker:    bell_keep()  ->  bell_ring()
 *
 * A bell is a timerfd whose timer never runs.  TFD_IOC_SET_TICKS (timerfd_create(2))
 * makes it readable and wakes whoever sleeps on it, under one spinlock of the kernel.
 * It costs less than half of a byte by TCP.  A set with EPOLLET reports each ring, and
 * nobody has to read anything.
 *
 * What the other holders of a copy can do:
 *   - The call knows no O_NONBLOCK and takes no mutex, and there is no queue: no holder
 *     can make another one wait, or fill the bell.
 *   - Any holder can ring for nothing.  A sleeper looks, and sleeps again.
 *   - Any holder can take a ring back before the sleeper has woken.  So a thread sleeps
 *     without a limit only on a bell that one process has, whose ring it is
 *     (bell_is_private()); otherwise it looks up now and then.
 *
 * Each thread has a bell of its own, from its first need on.  The bells of threads that
 * have ended go to new ones.  A kernel without CONFIG_CHECKPOINT_RESTORE has no such
 * call; then there are no bells, and peers ring by TCP.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/compiler.h"

#define BELLS 64u /* of a process */
#define BELL_NONE UINT32_MAX

/* Another holder of the bell may withdraw a ring before its thread wakes.  So the thread
 * looks for news after this time at the latest. */
#define BELL_LOOK_NS (100 * UINT64_C(1000000))

/* The calling thread's; BELL_NONE: the kernel has none, or there are no descriptors. */
uint32_t bell_mine(void);
/* To sleep on; -1 when it had to be closed.  Read it never: another holder may have
 * cleared O_NONBLOCK. */
int bell_own_fd(uint32_t bell);
/* Withdraw what has been rung. */
void bell_hush(uint32_t bell);
/* Wake the thread of this process that sleeps on it. */
void bell_ring_own(uint32_t bell);
/* The same for all threads: something has changed that each may wait for. */
void bells_ring_own(void);
/* Whether one process at most has a copy. */
bool bell_is_private(uint32_t bell);

/* The descriptor to pass to process @to; it stays open until it is put back.  -EMFILE:
 * it was closed; is to be put back, too. */
int bell_fd_get(uint32_t bell, pid_t to);
void bell_fd_put(void);

/* Closes all bells, because the program needs the descriptors.  Return: whether there were
 * any. */
bool bells_spare_fds(void);
void bells_after_fork(void);

/* The bells that one peer process has passed to us. */
struct peer_bells {
	int32_t fd1[BELLS]; /* our copy's number, plus 1; 0: none */
	pid_t pid;          /* who passed the first; 0: nobody */
	bool is_doubted;    /* two processes claim to be this peer */
};

/* Keep @fd as bell @bell of the peer: @fd is ours to close from now on.  @pid: who has
 * passed it, by the kernel's word.  One caller at a time.  0, -EBADMSG (it is no bell),
 * -EPERM (another process passed the others), -EMFILE. */
MUST_CHECK int bell_keep(struct peer_bells *of, uint32_t bell, int fd,
			 pid_t pid);
/* Is it there to be rung? */
bool bell_is_kept(const struct peer_bells *of, uint32_t bell);
/* Wakes the thread that sleeps on the bell.  Return: false: it cannot be rung.  Never
 * waits. */
bool bell_ring(const struct peer_bells *of, uint32_t bell);
/* A thread of this process had news for a peer whose thread slept: it woke that thread, or
 * left it alone because it only naps (file/batch.h).  The count is one for all threads, since
 * often one thread polls and others answer; it changes, but some of many may be missed. */
void bell_met_sleeper(void);
uint32_t bell_sleepers_met(void);
/* Closes our copies.  Return: whether there were any. */
bool bells_forget(struct peer_bells *of);
