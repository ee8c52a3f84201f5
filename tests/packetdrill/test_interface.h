/* SPDX-License-Identifier: MIT */
/*
 * tests/packetdrill/test_interface.h - the object as the tool sees it, and a peer
 *
 * test_interface.c loads it and runs the tests; test_peer.c is the other end of the wire.
 */
#pragma once

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "interface.h"

#undef IP_TTL /* the system's: that of ip.h is ours */
#include "ip/tcp_head.h"

extern struct packetdrill_interface pd;
#define U pd.userdata

#define EXPECT_EQ(got, want)                                                   \
	do {                                                                   \
		long long got_ = (long long)(got), want_ = (long long)(want);  \
		if (got_ != want_) {                                           \
			fprintf(                                               \
			    stderr,                                            \
			    "%s:%d: %s is %lld, not %s, %lld (errno %d)\n",    \
			    __FILE__, __LINE__, #got, got_, #want, want_,      \
			    errno);                                            \
			abort();                                               \
		}                                                              \
	} while (0)

#define EXPECT_ERR(call, err)                                                  \
	do {                                                                   \
		errno = 0;                                                     \
		EXPECT_EQ(call, -1);                                           \
		EXPECT_EQ(errno, err);                                         \
	} while (0)

#define LOCAL "192.168.77.3"
#define LOCAL_V6 "fd3d:fa7b:d17d::77"
#define PORT 8080

/* The peer of one connection: its numbers, and the stack's as it has seen them. */
struct peer {
	struct ip_addr local, remote;
	uint16_t lport, rport;
	seq32 nxt, una; /* the peer's next byte; the stack's next */
};

/* test_peer.c */
void peer_send(struct peer *p, unsigned flags, uint32_t len);
struct tcp_seg peer_receive(struct peer *p, long long *at_us);
long long now_us(void);
struct sockaddr_in v4(const char *addr, uint16_t port);
struct sockaddr_in6 v6(const char *addr, uint16_t port);
int listen_v4(void);
int serve(int listener, struct peer *p);
int call(struct peer *p);

/* test_calls.c */
void test_bytes(void);
void test_errors(void);
void test_options(void);
void test_families(void);
void test_no_buffer(void);
void test_inq(void);
void test_splice(void);
void test_ends(void);

/* test_wait.c */
void test_clock(void);
void test_poll(void);
void test_epoll(void);
void test_begins_later(void);
void test_blocking(void);
void test_linger(void);
