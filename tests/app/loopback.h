/* SPDX-License-Identifier: MIT */
/*
 * tests/app/loopback.h - addresses on 127.0.0.1, and the ports of sockets there
 */
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

static inline struct sockaddr_in local_addr(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr =
					 htonl(INADDR_LOOPBACK) };
}

/* Of the socket, or of its peer. */
static inline uint16_t port_of(int fd, bool of_peer)
{
	struct sockaddr_in a = { 0 };
	socklen_t len = sizeof(a);

	if (of_peer)
		getpeername(fd, (void *)&a, &len);
	else
		getsockname(fd, (void *)&a, &len);
	return ntohs(a.sin_port);
}
