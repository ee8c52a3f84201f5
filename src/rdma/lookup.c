/* SPDX-License-Identifier: MIT */
/*
 * rdma/lookup.c - which process has a name that nobody can connect to
 *
 *     /proc/net/unix -> inode -> /proc/PID/fd of processes that we may share memory with
 *
 * Anyone may connect to the unix socket of a block of QP numbers, and fill its backlog.
 * Then the kernel's list of unix sockets says which inode has the name, and /proc/PID/fd
 * which process has that inode.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/libc.h"
#include "proto/shm/trust.h"
#include "rdma/lookup.h"
#include "rdma/self.h"

#define LISTENS 0x10000u /* __SO_ACCEPTCON */

/* A listener's name in the kernel's list. */
struct name {
	unsigned long inode;
	uint32_t block;
	uint64_t suffix; /* 0: none */
};

/* The next one.  False: there is none. */
static bool next_name(FILE *f, struct name *n)
{
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		unsigned flags;

		n->suffix = 0;
		if (sscanf(line,
			   "%*s %*s %*s %x %*s %*s %lu @osf-rdma/%u/%" SCNx64,
			   &flags, &n->inode, &n->block, &n->suffix) >= 3 &&
		    flags & LISTENS)
			return true;
	}
	return false;
}

/* A connection to that name, if we may share memory with who has it; or -errno. */
static int connect_to(uint32_t block, uint64_t suffix)
{
	struct sockaddr_un un;
	socklen_t len = self_socket_name(&un, block, suffix);
	int s = libc.socket(AF_UNIX,
			    SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (s < 0)
		return -errno;
	int err = libc.connect(s, (struct sockaddr *)&un, len)
		      ? (errno == ECONNREFUSED ? -ENOENT : -errno)
		      : trust_check(s);
	if (!err)
		return s;
	libc.close(s);
	return err;
}

/* The same of any name with a suffix, but for @own; -ENOENT. */
static int connect_to_suffixed(uint32_t block, uint64_t own)
{
	FILE *f = fopen("/proc/net/unix", "re");
	struct name n;
	int s = -ENOENT;

	while (s < 0 && next_name(f, &n))
		if (n.block == block && n.suffix && n.suffix != own)
			s = connect_to(block, n.suffix);
	if (f)
		fclose(f);
	return s;
}

int lookup_connect(uint32_t block)
{
	int s = connect_to(block, 0);
	int other = s < 0 ? connect_to_suffixed(block, 0) : -ENOENT;

	return other < 0 ? s : other;
}

bool lookup_has_other(uint32_t block, uint64_t suffix)
{
	int s = connect_to(block, 0);

	if (s < 0)
		s = connect_to_suffixed(block, suffix);
	if (s >= 0)
		libc.close(s);
	return s >= 0;
}

/* The inode of the socket that listens at @block's name; 0: there is none. */
static unsigned long inode_of(uint32_t block)
{
	FILE *f = fopen("/proc/net/unix", "re");
	unsigned long inode = 0;
	struct name n;

	while (!inode && next_name(f, &n))
		if (n.block == block)
			inode = n.inode;
	if (f)
		fclose(f);
	return inode;
}

uint32_t lookup_blocks(uint32_t *blocks, uint32_t max)
{
	FILE *f = fopen("/proc/net/unix", "re");
	struct name name;
	uint32_t n = 0;

	while (n < max && next_name(f, &name))
		blocks[n++] = name.block;
	if (f)
		fclose(f);
	return n;
}

/* Has the process whose /proc/PID/fd is @path a socket of this inode? */
static bool holds(const char *path, unsigned long inode)
{
	char want[48], target[48];
	bool found = false;
	DIR *dir = opendir(path);

	snprintf(want, sizeof(want), "socket:[%lu]", inode);
	for (struct dirent *e; dir && !found && (e = readdir(dir));) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, target,
				       sizeof(target) - 1);

		target[n > 0 ? n : 0] = '\0';
		found = !strcmp(target, want);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* A process of ours, in our user namespace. */
static bool is_trusted(const char *pid)
{
	char path[64], theirs[64], ours[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%.16s", pid);
	if (stat(path, &st) || !trust_allows(st.st_uid))
		return false;
	snprintf(path, sizeof(path), "/proc/%.16s/ns/user", pid);
	ssize_t n = readlink(path, theirs, sizeof(theirs));
	return n > 0 &&
	       readlink("/proc/self/ns/user", ours, sizeof(ours)) == n &&
	       !memcmp(theirs, ours, (size_t)n);
}

bool lookup_holds(int pid, uint32_t block)
{
	unsigned long inode = inode_of(block);
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	return inode && holds(path, inode);
}

int lookup_owner(uint32_t block)
{
	unsigned long inode = inode_of(block);
	DIR *dir = inode ? opendir("/proc") : NULL;
	int found = -ENOENT;

	for (struct dirent *e; dir && found < 0 && (e = readdir(dir));) {
		char path[64];

		if (!isdigit((unsigned char)*e->d_name) ||
		    !is_trusted(e->d_name))
			continue;
		snprintf(path, sizeof(path), "/proc/%.16s/fd", e->d_name);
		if (holds(path, inode))
			found = atoi(e->d_name);
	}
	if (dir)
		closedir(dir);
	return found;
}
