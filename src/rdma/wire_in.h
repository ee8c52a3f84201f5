/* SPDX-License-Identifier: MIT */
/* rdma/wire_in.h - what wire.c, wire_tx.c and wire_help.c share */
#pragma once

#include <netinet/in.h>

#include "rdma/wire.h"

#define N_SOCKETS 8u

struct wire {
	int fds
	    [N_SOCKETS]; /* UDP, bound to ROCE_PORT; all processes have them */
	int fd;          /* of these, the one with packets for this process */
	int mail;        /* unix: from other processes (wire_mail.c) */
	bool is_deaf;    /* descriptors came there: it is not read any more */
	bool is_v6;      /* it carries both; else IPv4 alone */
	uint32_t ifindex;
	int group_set; /* epoll: sockets of groups (wire_group.c); -1: none */
	const struct wire_bridge *bridge;
	int bridge_fd;
	struct lock rx_lock, tx_lock;
	uint64_t next_ns; /* wire_wake_at() */
	/* The thread. */
	bool has_helper;
	int bell;           /* an eventfd that wakes it */
	uint64_t sleeps_to; /* it wakes by itself; UINT64_MAX: not */
	uint32_t n_polls;   /* of the program */
	uint32_t n_empty;   /* of them, those that found nothing */
};

extern struct wire wire;

/* Packets of one size, the last one may be shorter, that came together. */
struct wire_packets {
	struct roce_flow flow;
	const uint8_t *bytes;
	size_t n;
	uint32_t part;
};

/* wire_port.c: makes the sockets, or gets them from another process.  Return: 0;
 * -EADDRINUSE: a stranger has the port, or no process that shares it answers; or another
 * -errno */
MUST_CHECK int wire_open_port(void);
void wire_close_port(void);
/* Receives at most @at_most datagrams, each into a header of @to.  Return: how many; -1:
 * see errno */
int wire_recv(int fd, struct mmsghdr *to, int at_most);
/* Is it a socket of UDP port ROCE_PORT? */
bool wire_is_port(int fd);

/* wire_mail.c: other processes that have the port.  The caller holds rx_lock. */
/* Ready to be found by others, under @block.  It may be ready already. */
MUST_CHECK int mail_open(uint32_t block);
void mail_close(void);
/* Finds out who the others are, and tells them of us.  False: there is nobody. */
bool mail_greet(void);
/* The sockets of the port, from one of them. */
MUST_CHECK bool mail_ask_port(int *fds);
/* To all processes but this one. */
void wire_forward_all(const struct wire_packets *p);
/* To the process with @block's numbers. */
void wire_forward(const struct wire_packets *p, uint32_t block);
/* A message of another process; its packets, if it has some.  False: there is none. */
bool wire_read_mail(uint8_t *bytes, size_t size, struct wire_packets *out);

/* An address as the socket wants it. */
socklen_t wire_sockaddr(const uint8_t *addr, bool is_v6,
			struct sockaddr_storage *ss);
void wire_helper_wake(void);
/* A socket with our options, bound to that address after @before, if there is one; -errno. */
MUST_CHECK int wire_bind(const struct sockaddr_storage *ss, socklen_t len,
			 int (*before)(int fd));
/* Before bind(): other sockets of the user may have the same port. */
MUST_CHECK int wire_share(int fd);
void wire_group_after_fork(void);
