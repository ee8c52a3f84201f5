/* SPDX-License-Identifier: MIT */
/* sock/others.c - see sock/others.h */
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/libc.h"
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

/* Read the segment instead of mapping it, because its owner may shrink it. */
static bool is_in_segment(int fd, const struct ends *e)
{
	struct osf_stats_header h;
	struct osf_stats_sock s;

	if (pread(fd, &h, OSF_STATS_HEADER_MIN, 0) !=
		(ssize_t)OSF_STATS_HEADER_MIN ||
	    h.magic != OSF_STATS_MAGIC ||
	    h.version >> 16 != OSF_STATS_VERSION >> 16 ||
	    h.sock_size < OSF_STATS_SOCK_MIN)
		return false;
	off_t at = h.header_size;
	for (uint32_t n = h.n_socks; n; n--, at += h.sock_size) {
		if (pread(fd, &s, OSF_STATS_SOCK_MIN, at) !=
		    (ssize_t)OSF_STATS_SOCK_MIN)
			return false;
		if (s.in_use && s.proto == OSF_PROTO_SHM &&
		    s.local_port == e->local_port &&
		    s.peer_port == e->peer_port)
			return true;
	}
	return false;
}

static bool segment_has(int dir, const char *name, const struct ends *e)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool found = fd >= 0 && is_in_segment(fd, e);

	if (fd >= 0)
		libc.close(fd);
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
