/* SPDX-License-Identifier: MIT */
/*
 * tests/script/backend.h - a TCP under test: calls of sockets, a wire, and a clock
 *
 *     calls, packets in -> struct backend -> results, packets out
 *
 * Two of them: backend_kernel() is Linux behind a TUN, in real time; backend_engine() is
 * src/tcp in virtual time.  For all tests that play the same things to both: the packet
 * scripts, the differential test, and the shared object for packetdrill.
 *
 * Sockets are always non-blocking, and numbers.  All calls return what the system call
 * returns, or a negative errno.  Structures, levels, names and flags are Linux's.
 *
 * Time is in nanoseconds since the back end was opened.  Packets begin at the IP header;
 * at most one MTU is sent in each.  One thread, one back end of a kind in a process at
 * most: the kernel's has a namespace that stays.
 */
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include "ip/ip.h"

#define BACKEND_PACKET_MAX 65536

/* Whom a socket calls, unless a test wishes otherwise. */
#define LOCAL_V4 0xc0a80001u               /* 192.168.0.1 */
#define REMOTE_V4 0xc0000201u              /* 192.0.2.1, behind the wire */
struct ip_addr backend_local(bool is_v6);  /* fd3d:fa7b:d17d::1 */
struct ip_addr backend_remote(bool is_v6); /* 2001:db8::1 */

struct backend_setting {
	const char *name;  /* of a sysctl in net.ipv4, e.g. "tcp_ecn" */
	const char *value; /* as it is written there */
};

struct backend_config {
	uint32_t mtu;
	const struct backend_setting *settings;
	uint32_t n_settings;
};

struct backend_ops {
	int (*socket)(void *b, int domain, int type, int protocol);
	int (*bind)(void *b, int fd, const struct sockaddr *a, socklen_t len);
	int (*listen)(void *b, int fd, int backlog);
	int (*accept)(void *b, int fd);
	int (*connect)(void *b, int fd, const struct sockaddr *a,
		       socklen_t len);
	ssize_t (*send)(void *b, int fd, const void *buf, size_t len,
			int flags);
	ssize_t (*recv)(void *b, int fd, void *buf, size_t len, int flags);
	int (*shutdown)(void *b, int fd, int how);
	int (*close)(void *b, int fd);
	int (*setsockopt)(void *b, int fd, int level, int name, const void *v,
			  socklen_t len);
	int (*getsockopt)(void *b, int fd, int level, int name, void *v,
			  socklen_t *len);
	int (*ioctl)(void *b, int fd, unsigned long what, int *arg);
	/* revents, as they are; nothing is waited for. */
	int (*poll)(void *b, int fd, short events);
	int (*getpeername)(void *b, int fd, struct sockaddr *a, socklen_t *len);

	/* A packet arrives.  Return: 0 or a negative errno. */
	int (*inject)(void *b, const uint8_t *p, uint32_t len);
	/* The next packet that is sent until the instant, and when that was.
	 * Return: its bytes, 0 when there is none (it is @until_ns then). */
	ssize_t (*receive)(void *b, uint8_t *p, uint32_t cap, uint64_t until_ns,
			   uint64_t *at_ns);
	uint64_t (*now)(void *b);
	/* @a takes the place of our own address of its family; before the first
	 * connection, and with the engine alone. */
	void (*set_local)(void *b, const struct ip_addr *a);
	/* A setting of what is opened from now on, and of buffers at once; of the engine
	 * alone.
	 * Return: 0 or -EINVAL, as of backend_engine(). */
	int (*set)(void *b, const struct backend_setting *s);
	/* Packets that are sent meanwhile are kept for receive(). */
	void (*wait_until)(void *b, uint64_t at_ns);
	void (*free)(void *b);
};

struct backend {
	const char *name;
	const struct backend_ops *ops;
	void *self;
};

/**
 * backend_kernel(), backend_engine() - make one
 *
 * The kernel's takes this process into a namespace: fork first.
 *
 * Return: 0, or
 *   -EPERM, -EACCES, -ENOENT, -ENODEV  no TUN or namespace here: skip, and say so
 *   -EINVAL                            a setting that it does not know
 */
MUST_CHECK int backend_kernel(struct backend *b,
			      const struct backend_config *cfg);
MUST_CHECK int backend_engine(struct backend *b,
			      const struct backend_config *cfg);
