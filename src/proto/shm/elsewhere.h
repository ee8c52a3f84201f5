/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/elsewhere.h - descriptors of strangers, handled in a process of their own
 *
 * A close() may sleep for as long as the maker of the file likes: the file may be a
 * socket that lingers, or lie on a file system of the peer's.  Any close() of a file also
 * drops the POSIX locks that the process has on that file, and freeing a gigabyte of
 * memory takes 40 ms.  So the program's threads never close a descriptor that may be
 * anything.  A short-lived process with a copy of the descriptor table does it.  Its
 * parent ends at once, so the program can neither wait for it nor learn of its end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"

/* Close a unix socket of ours, whatever a stranger has queued there. */
void discard_channel(int fd);
/* The same of one that listens: strangers may have connected, and queued something, that
 * nobody has accepted.  Nobody else may have a descriptor of it that is to be used. */
void discard_listener(int fd);
/* Unmap memory that a peer may have filled: who lets go of it last frees its pages. */
void discard_map(void *map, size_t bytes);
/* Let go of a descriptor that a peer sent.  Sealed memory and timers are closed.
 * Another file is not closed but kept, because to close it might sleep, or drop
 * locks of the program. */
void discard_passed(int fd);
struct msghdr;
/* recvmsg() that does not wait, on a channel.  The descriptors go to @fds, which has room
 * for as many as a message has; files, which are of no use to us, are kept, and their
 * places are -1. */
ssize_t receive_passed(int channel, struct msghdr *msg, int *fds,
		       size_t *n_fds);
/* Have so many been kept, or wait to be closed, that no more may be received?  The
 * latter passes. */
bool discard_is_full(void);

/*
 * The other end of a connection, which a process of its own holds for us.  Each call on that
 * socket waits while a thread of the peer is inside a send() on it, and the peer can make
 * such a send() wait for a page of its buffer without end.  So all calls together wait for
 * 3 ms at most of such sleep.  A call that has not answered by then takes place later: the
 * number of its bytes, an int32_t, comes over the channel.
 */
struct far_end {
	int channel; /* to that process; < 0: there is none */
	pid_t pid;
	uint64_t asleep_ns; /* for how long we have waited while it slept */
};

/* The other end of @fd's connection, which process @pid has as its descriptor @their_fd.
 * All three are checked.  Return: 0 with *@out, or -1 */
int far_open(int fd, pid_t pid, int their_fd, struct far_end *out);
/* As send() that does not wait: how many bytes, or -errno.  -EOWNERDEAD: the process has
 * died, and nobody knows; -ETIMEDOUT: later. */
ssize_t far_send(struct far_end *far, const void *bytes, size_t n);
/* As shutdown() of the writing side.  Return: 0, -EOWNERDEAD or -ETIMEDOUT. */
MUST_CHECK int far_shut(struct far_end *far);
void far_close(struct far_end *far);
