/* SPDX-License-Identifier: MIT */
/* sock/others.c - see sock/others.h */
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "osf/stats.h"
#include "sock/others.h"

struct ends {
	uint16_t local_port, peer_port;
};

static uint16_t port_of(const struct sockaddr_storage *ss)
{
	return ntohs(ss->ss_family == AF_INET6
			 ? ((const struct sockaddr_in6 *)ss)->sin6_port
			 : ((const struct sockaddr_in *)ss)->sin_port);
}

static bool ends_of(int fd, struct ends *e)
{
	struct sockaddr_storage local = { 0 }, peer = { 0 };
	socklen_t llen = sizeof(local), plen = sizeof(peer);

	if (getsockname(fd, (struct sockaddr *)&local, &llen) ||
	    getpeername(fd, (struct sockaddr *)&peer, &plen) ||
	    (local.ss_family != AF_INET && local.ss_family != AF_INET6))
		return false;
	*e = (struct ends){ port_of(&local), port_of(&peer) };
	return true;
}

/* More than a process has sockets, and sizes that no version of it will have. */
#define SOCKS_MAX (1u << 20)
#define SOCK_BYTES_MAX 1024u

static bool is_believable(const struct osf_stats_header *h)
{
	return h->magic == OSF_STATS_MAGIC &&
	       h->version >> 16 == OSF_STATS_VERSION >> 16 &&
	       h->sock_size >= OSF_STATS_SOCK_MIN &&
	       h->sock_size <= SOCK_BYTES_MAX && h->n_socks <= SOCKS_MAX;
}

/* Is one of the @n entries at @at, @step bytes apart, the connection? */
static bool are_ends_in(const uint8_t *at, size_t n, size_t step,
			const struct ends *e)
{
	struct osf_stats_sock s;

	for (; n; n--, at += step) {
		memcpy(&s, at, OSF_STATS_SOCK_MIN);
		if (s.in_use && s.proto == OSF_PROTO_SHM &&
		    s.local_port == e->local_port &&
		    s.peer_port == e->peer_port)
			return true;
	}
	return false;
}

/* Read the segment instead of mapping it, because its owner may shrink it. */
static bool is_in_segment(int fd, const struct ends *e)
{
	struct osf_stats_header h;
	struct stat st;
	uint8_t some[16 * SOCK_BYTES_MAX];

	if (libc.fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    pread(fd, &h, OSF_STATS_HEADER_MIN, 0) !=
		(ssize_t)OSF_STATS_HEADER_MIN ||
	    !is_believable(&h))
		return false;
	off_t at = h.header_size;
	uint32_t max = sizeof(some) / h.sock_size;
	for (uint32_t left = h.n_socks, n; left; left -= n) {
		n = MIN(left, max);
		ssize_t bytes = (ssize_t)(n * h.sock_size);
		if (pread(fd, some, (size_t)bytes, at) != bytes)
			return false;
		if (are_ends_in(some, n, h.sock_size, e))
			return true;
		at += bytes;
	}
	return false;
}

static bool segment_has(int dir, const char *name, const struct ends *e)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool found = fd >= 0 && is_in_segment(fd, e);

	if (fd >= 0)
		nocancel_close(fd);
	return found;
}

/* A memfd of the name, or DIR/PID.N.osf. */
static bool is_segment(int dir, const char *name)
{
	char to[256];
	ssize_t n = readlinkat(dir, name, to, sizeof(to) - 1);

	if (n < 4)
		return false;
	to[n] = '\0';
	return !strcmp(to, "/memfd:" OSF_STATS_MEMFD " (deleted)") ||
	       !strcmp(to + n - 4, ".osf");
}

bool others_carry(pid_t pid, int fd)
{
	char path[32];
	struct ends e;
	bool found = false;

	if (!ends_of(fd, &e))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *d = opendir(path);
	for (struct dirent *at; d && !found && (at = readdir(d));)
		found = is_segment(dirfd(d), at->d_name) &&
			segment_has(dirfd(d), at->d_name, &e);
	if (d)
		closedir(d);
	return found;
}
