/* SPDX-License-Identifier: MIT */
/*
 * tests/packetdrill/interface.h - what the packetdrill tool asks of a shared object
 *
 * The tool loads the object and calls packetdrill_interface_init() with the text of its
 * option --so_flags.  From then on it calls through the table that this call fills in,
 * always with the table's userdata.  Socket calls return -1 and errno, as libc's.  The
 * order of the members is the tool's binary interface.
 *
 *     packetdrill --so_filename=build/libosf-packetdrill.so --so_flags=tcp_sack=0 x.pkt
 *
 * A script's assertions about TCP_INFO use the tool's own getsockopt(), which finds our
 * sockets if LD_PRELOAD names the object, too.  A script's commands set sysctls of
 * net.ipv4 on the machine, and settings.c applies them to this TCP.
 */
#pragma once

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/compiler.h"

struct packetdrill_interface {
	void *userdata;
	void (*free)(void *u);

	int (*socket)(void *u, int domain, int type, int protocol);
	int (*bind)(void *u, int fd, const struct sockaddr *a, socklen_t len);
	int (*listen)(void *u, int fd, int backlog);
	int (*accept)(void *u, int fd, struct sockaddr *a, socklen_t *len);
	int (*connect)(void *u, int fd, const struct sockaddr *a,
		       socklen_t len);

	ssize_t (*read)(void *u, int fd, void *buf, size_t len);
	ssize_t (*readv)(void *u, int fd, const struct iovec *iov, int n);
	ssize_t (*recv)(void *u, int fd, void *buf, size_t len, int flags);
	ssize_t (*recvfrom)(void *u, int fd, void *buf, size_t len, int flags,
			    struct sockaddr *a, socklen_t *alen);
	ssize_t (*recvmsg)(void *u, int fd, struct msghdr *m, int flags);

	ssize_t (*write)(void *u, int fd, const void *buf, size_t len);
	ssize_t (*writev)(void *u, int fd, const struct iovec *iov, int n);
	ssize_t (*send)(void *u, int fd, const void *buf, size_t len,
			int flags);
	ssize_t (*sendto)(void *u, int fd, const void *buf, size_t len,
			  int flags, const struct sockaddr *a, socklen_t alen);
	ssize_t (*sendmsg)(void *u, int fd, const struct msghdr *m, int flags);

	int (*fcntl)(void *u, int fd, int cmd, ...);
	int (*ioctl)(void *u, int fd, unsigned long what, ...);
	int (*close)(void *u, int fd);
	int (*shutdown)(void *u, int fd, int how);
	int (*getsockopt)(void *u, int fd, int level, int name, void *v,
			  socklen_t *len);
	int (*setsockopt)(void *u, int fd, int level, int name, const void *v,
			  socklen_t len);
	int (*poll)(void *u, struct pollfd *fds, nfds_t n, int timeout_ms);

	/* An IP packet arrives; 0 or -1. */
	int (*netdev_send)(void *u, const void *p, size_t len);
	/* The next IP packet that leaves: *len is the room, then its bytes. */
	int (*netdev_receive)(void *u, void *p, size_t *len, long long *at_us);

	int (*usleep)(void *u, useconds_t us);
	int (*gettimeofday)(void *u, struct timeval *tv, struct timezone *tz);

	int (*epoll_create)(void *u, int size);
	int (*epoll_ctl)(void *u, int epfd, int op, int fd,
			 struct epoll_event *ev);
	int (*epoll_wait)(void *u, int epfd, struct epoll_event *evs, int max,
			  int timeout_ms);
	int (*pipe)(void *u, int fds[2]);
	ssize_t (*splice)(void *u, int in, loff_t *off_in, int out,
			  loff_t *off_out, size_t len, unsigned flags);
};

/**
 * packetdrill_interface_init() - a host of our own TCP, in virtual time
 * @flags: name=value, separated by commas, or NULL: "mtu" in bytes, "limit" in seconds
 *	of virtual time after which netdev_receive() gives up, sysctls of net.ipv4,
 *	e.g. "tcp_sack=0", which then are not the machine's, and "sysctls", a folder
 *	that is looked at instead of /proc/sys/net/ipv4
 *
 * Ends the process, with a message, when a flag is none or there is no memory: the tool
 * has no way to be told.
 *
 * Context: the thread that calls is the one that lets time pass; calls of others that
 *	block wait for it.
 */
OSF_API void packetdrill_interface_init(const char *flags,
					struct packetdrill_interface *out);
