/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/far.h - the two programs of a test between hosts: a TCP connection says whose turn
 * it is, and what is meant
 */
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>

#define GID_INDEX 1 /* the IPv4 address */
#define TIMEOUT 14
#define RETRIES 7
#define RNR_RETRIES 7 /* for ever: the receive may come later */
#include "ends.h"

static int to_other;

static inline void tell(const struct address *a)
{
	CHECK(send(to_other, a, sizeof(*a), 0) == (ssize_t)sizeof(*a));
}

static inline struct address hear(void)
{
	struct address a;

	CHECK(recv(to_other, &a, sizeof(a), MSG_WAITALL) == (ssize_t)sizeof(a));
	return a;
}

static inline void meet(int port, const char *address)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port) };
	int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

	if (address) {
		CHECK(inet_pton(AF_INET, address, &in.sin_addr) == 1);
		CHECK(!connect(fd, (struct sockaddr *)&in, sizeof(in)));
		to_other = fd;
		return;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	CHECK(!bind(fd, (struct sockaddr *)&in, sizeof(in)) && !listen(fd, 1));
	to_other = accept(fd, NULL, NULL);
	CHECK(to_other >= 0);
}
