/* SPDX-License-Identifier: MIT */
/*
 * tests/script/backend.h - a TCP under test: socket calls, a wire, and a clock
 *
 *     calls, packets in -> struct backend -> results, packets out
 *
 * There are two back ends.  backend_kernel() is Linux behind a TUN, in real time.
 * backend_engine() is src/tcp in virtual time.  Tests that do the same things to both
 * use them: the packet scripts, the differential test, and the shared object for
 * packetdrill.
 *
 * Sockets are numbers and never block.  A call returns what the system call returns, or
 * a negative errno.  Structures, levels, names and flags are Linux's.
 *
 * Time counts in nanoseconds from the opening of the back end.  A packet begins at the
 * IP header and has at most one MTU.  One thread uses a back end.  A process has at
 * most one of each kind, because the kernel's one stays in its namespace.
 */
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include "ip/ip.h"

#define BACKEND_PACKET_MAX 65536

/* The peer of a socket, unless a test names another. */
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
	/* Return: revents as they are now; it never waits. */
	int (*poll)(void *b, int fd, short events);
	int (*getpeername)(void *b, int fd, struct sockaddr *a, socklen_t *len);

	/* Takes the connection out of its stack and puts it back, as if it had been
	 * elsewhere.  Return: 0 or a negative errno */
	int (*move)(void *b, int fd);

	/* A packet arrives.  Return: 0 or a negative errno. */
	int (*inject)(void *b, const uint8_t *p, uint32_t len);
	/* The next packet that is sent before @until_ns, and when that was.  Return:
	 * its bytes; 0: there is none, and the time is @until_ns */
	ssize_t (*receive)(void *b, uint8_t *p, uint32_t cap, uint64_t until_ns,
			   uint64_t *at_ns);
	uint64_t (*now)(void *b);
	/* Replaces our IPv4 or IPv6 address by @a.  Only the engine can, before the
	 * first connection. */
	void (*set_local)(void *b, const struct ip_addr *a);
	/* Changes a setting for what is opened from now on; for buffers at once.  Only
	 * the engine can.  Return: 0 or -EINVAL, as backend_engine() */
	int (*set)(void *b, const struct backend_setting *s);
	/* Keeps packets that are sent meanwhile for receive(). */
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
