/* SPDX-License-Identifier: MIT */
/*
 * tests/script/tun.h - the kernel's TCP behind a TUN, in a network namespace of its own
 *
 *     our packets -> tun_write() -> the kernel's IP -> its TCP -> sockets of this process
 *     tun_read()  <- what the kernel sends to an address behind the TUN
 *
 * A packet begins at the IP header.  Tests that ask the kernel what TCP does use it:
 * the packet scripts, the differential test, the shared object for packetdrill.  The
 * calling process stays in the namespace until it ends, so fork first.
 *
 * It needs /dev/net/tun, and root or user namespaces.  Without them the functions
 * return -EPERM, -EACCES, -ENOENT or -ENODEV, and a test should be skipped with that
 * reason.
 */
#pragma once

#include <net/if.h>

#include "ip/ip.h"

struct tun {
	int fd;
	char name[IFNAMSIZ];
};

#define TUN_NONE ((struct tun){ .fd = -1 })

/* Moves the calling process into a new network namespace with a loopback device.
 * Without root it uses a user namespace. */
MUST_CHECK int netns_enter(void);

/* Writes a sysctl of this namespace, e.g. "net/ipv4/tcp_ecn". */
MUST_CHECK int netns_sysctl(const char *name, const char *value);

/**
 * tun_open() - make a TUN device, up, through which all addresses are reached
 * @mtu: bytes from the IP header on, 1280 at least for IPv6
 * @locals, @n: the kernel's own addresses, of either family
 *
 * Return: 0, or -EPERM, -EACCES, -ENOENT, -ENODEV: no TUN here; another errno of the kernel
 */
MUST_CHECK int tun_open(struct tun *t, uint32_t mtu,
			const struct ip_addr *locals, uint32_t n);
void tun_close(struct tun *t);

/* A packet arrives at the kernel.  Return: 0 or a negative errno. */
MUST_CHECK int tun_write(const struct tun *t, const uint8_t *p, uint32_t len);

/* Return: the bytes of the next packet that the kernel sends; -EAGAIN: none within
 * @timeout_ns; or another errno */
ssize_t tun_read(const struct tun *t, uint8_t *p, uint32_t cap,
		 uint64_t timeout_ns);
