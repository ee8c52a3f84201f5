/* SPDX-License-Identifier: MIT */
/* tests/vma/xtreme.h - what the tests of SocketXtreme share */
#pragma once

#include "vma_test.h"

#include <sys/epoll.h>

#define RESET (EPOLLIN | EPOLLERR | EPOLLHUP | EPOLLRDHUP)
#define NEW_CONNECTION VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED
#define PACKET VMA_SOCKETXTREME_PACKET

/* Its ring, which it must have. */
int ring_of(int fd);
/* A listener at 127.0.0.1, and its ring. */
int listener(struct sockaddr_in *at, int *ring);
/* A socket that connects to @at, without waiting. */
int connecting(const struct sockaddr_in *at);
/* The next completion of the ring; waits for it. */
struct vma_completion_t next(int ring);
/* That of the next packet: its bytes are @data. */
struct vma_completion_t next_packet(int ring, const void *data, size_t n);
/* There is nothing for a while. */
void nothing(int ring);
/* A ring's new connection to @at, and the end of it that asked, on no ring. */
struct ends xtreme_ends(int ring, const struct sockaddr_in *at);
