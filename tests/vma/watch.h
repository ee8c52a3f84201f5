/* SPDX-License-Identifier: MIT */
/* tests/vma/watch.h - a receive callback that writes down what it sees */
#pragma once

#include "vma_test.h"

#include <time.h>

#define HELD 64

/* What the callback has seen.  The first byte of a packet says what becomes of it:
 * d, h or anything else, which is received. */
struct seen {
	unsigned n;
	int fd;
	void *context;
	size_t size, iov_size, info_size, queued;
	size_t bytes; /* so far; atomic */
	struct sockaddr_in src, dst;
	struct timespec sw;
	struct {
		struct vma_packet_t head;
		struct iovec iov;
	} held[HELD];
	unsigned n_held;
	void (*inside)(int fd);
	bool is_over; /* atomic */
};
extern struct seen seen;

vma_recv_callback_retval_t watch(int fd, size_t n_iov, struct iovec iov[],
				 struct vma_info_t *info, void *context);
/* @e's receiving end has that callback, and nothing has been seen. */
void begin(struct ends *e);
/* The next receive has just @text. */
void reads(int fd, const char *text);
