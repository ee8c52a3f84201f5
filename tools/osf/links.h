/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/links.h - which processes hold which sockets
 *
 *     /proc/PID/fd/N -> "socket:[INODE]" -> struct links, searched both ways
 *     /proc/PID/ns/net                   -> the network namespaces that are used
 *
 * It finds only processes that the caller may see; is_all says whether these are all.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct link {
	uint64_t ino; /* of the socket */
	pid_t pid;
	int fd;
};

struct netns {
	uint64_t ino; /* its number */
	pid_t pid;    /* of a process in it */
};

struct links {
	struct link *by_ino; /* in the order of ino, pid, fd */
	struct link *by_pid; /* the same ones, in the order of pid, fd */
	size_t n;
	struct netns *netns;
	size_t n_netns;
	bool is_all; /* the descriptors of every process could be read */
};

/* What cannot be read is left out. */
void links_read(struct links *l);
void links_free(struct links *l);

/* The holders of a socket: the first of *@n neighbours, or NULL. */
const struct link *links_of(const struct links *l, uint64_t ino, size_t *n);

/* The socket under a number of a process, or 0. */
uint64_t links_ino(const struct links *l, pid_t pid, int fd);

/* The network namespace of a process, or 0 when it may not be known. */
uint64_t netns_of(pid_t pid);
