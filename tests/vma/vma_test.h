/* SPDX-License-Identifier: MIT */
/*
 * tests/vma/vma_test.h - what the tests of VMA's extra API share
 *
 * One source, run once per protocol by run.py: OSF_VMA_TEST says which.  Each test runs
 * in a process of its own.
 */
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mellanox/vma_extra.h>

#define EXPECT(x) expect((x), #x, __FILE__, __LINE__)
#define EXPECT_EQ(a, b)                                                        \
	expect_eq((long long)(a), (long long)(b), #a, #b, __FILE__, __LINE__)
#define EXPECT_ERR(call, err)                                                  \
	do {                                                                   \
		errno = 0;                                                     \
		EXPECT_EQ((call), -1);                                         \
		EXPECT_EQ(errno, err);                                         \
	} while (0)

void expect(bool ok, const char *what, const char *file, int line);
void expect_eq(long long a, long long b, const char *sa, const char *sb,
	       const char *file, int line);

extern struct vma_api_t *api; /* NULL without osf */
bool is_protocol(const char *name);

/* Two ends of one kind, connected over 127.0.0.1. */
struct ends {
	int tx, rx;
	struct sockaddr_in tx_addr, rx_addr;
};
struct ends tcp_ends(void); /* over shm if that is the protocol */
struct ends udp_ends(void);
void ends_close(struct ends *e);
void say(const struct ends *e, const void *data, size_t n);

/* Runs @run over TCP and over UDP. */
void over_both(void (*run)(struct ends *e));

struct test {
	const char *name;
	void (*run)(void);
	bool is_bare; /* runs without osf, too */
};
extern const struct test tests_table[], tests_callback[], tests_zcopy[],
    tests_control[], tests_xtreme[], tests_rings[], tests_fuzz[],
    tests_members[], tests_joined[], tests_sockets[], tests_perf[],
    tests_lent[], tests_udp[], tests_inside[];
