/* SPDX-License-Identifier: MIT */
/* proto/shm/trust.c - see proto/shm/trust.h */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "base/rawcall.h"
#include "proto/shm/trust.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#define GET_USER_NAMESPACE _IO(0xff, 9) /* of a pidfd: Linux 6.11 */
#define OVERFLOW_UID 65534
#define MAP_TEXT_MAX 4096

static uid_t overflow_uid(void)
{
	static uid_t known;
	char text[16] = "";

	if (known)
		return known;
	int fd = nocancel_open("/proc/sys/kernel/overflowuid",
			       O_RDONLY | O_CLOEXEC, 0);
	if (fd >= 0) {
		if (nocancel_read(fd, text, sizeof(text) - 1) < 0)
			text[0] = '\0';
		nocancel_close(fd);
	}
	uid_t uid = (uid_t)strtoul(text, NULL, 10);
	return known = uid ? uid : OVERFLOW_UID;
}

/* The numbers that users have in the namespace of @pid. */
static ssize_t map_text(const char *pid, char text[MAP_TEXT_MAX])
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%s/uid_map", pid);
	int fd = nocancel_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	ssize_t n = nocancel_read(fd, text, MAP_TEXT_MAX - 1);
	nocancel_close(fd);
	return n;
}

/* Does OSF_ALLOW_UIDS=33,1000 name @uid? */
static bool is_named(uid_t uid)
{
	const char *p = secure_getenv("OSF_ALLOW_UIDS");

	while (p && *p) {
		char *end;
		unsigned long allowed = strtoul(p, &end, 10);

		if (end == p)
			return false;
		if (allowed == uid)
			return true;
		p = *end == ',' ? end + 1 : NULL;
	}
	return false;
}

/* Where not each user has a number, the kernel calls all those without by one number.  Only the
 * first namespace has all numbers.  A process may enter another one at any time, so ask anew. */
static bool has_number(uid_t uid)
{
	char text[MAP_TEXT_MAX] = "";
	unsigned long from, to, n = 0;

	if (uid != overflow_uid())
		return true;
	return map_text("self", text) > 0 &&
	       sscanf(text, "%lu %lu %lu", &from, &to, &n) == 3 &&
	       n == UINT32_MAX;
}

bool trust_allows(uid_t uid)
{
	return (uid == geteuid() || is_named(uid)) && has_number(uid);
}

/* Sockets belong to whom the thread acts as towards file systems (setfsuid()), which is its
 * effective user unless it says otherwise.  A process that has no number may be at both ends. */
bool trust_owns(uid_t uid)
{
	return uid == geteuid() || trust_allows(uid) ||
	       uid == (uid_t)rawcall(SYS_setfsuid, -1);
}

static bool channel_cred(int channel, struct ucred *cred)
{
	socklen_t len = sizeof(*cred);

	return !libc.getsockopt(channel, SOL_SOCKET, SO_PEERCRED, cred, &len);
}

pid_t channel_pid(int channel)
{
	struct ucred cred;

	return channel_cred(channel, &cred) ? cred.pid : 0;
}

/* The user namespace of the process behind @pidfd.  0 with *@ino, or -errno. */
static int namespace_of(int pidfd, ino_t *ino)
{
	struct stat st;

	if (pidfd < 0)
		return -ENOSYS;
	int fd = libc.ioctl(pidfd, GET_USER_NAMESPACE, 0);
	if (fd < 0)
		return -errno;
	int err = libc.fstat(fd, &st) ? -errno : 0;
	nocancel_close(fd);
	*ino = st.st_ino;
	return err;
}

/* Ours, which only this process can change.  If it does so unseen, it is turned away
 * by the other side, which asks about us each time. */
static int own_namespace(ino_t *ino)
{
	static uint64_t known; /* the process, and its answer */
	uint64_t pid = (uint64_t)getpid() << 32, was = load_rlx(&known);

	if (was >> 32 << 32 == pid) {
		*ino = was & UINT32_MAX;
		return 0;
	}
	int pidfd = (int)rawcall(SYS_pidfd_open, getpid(), 0);
	int err = namespace_of(pidfd, ino);
	if (pidfd >= 0)
		nocancel_close(pidfd);
	if (!err && *ino <= UINT32_MAX)
		store_rlx(&known, pid | *ino);
	return err;
}

/* What /proc says instead, on kernels before 6.11. */
static int namespace_in_proc(pid_t pid, ino_t *ino)
{
	char path[48];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	if (stat(path, &st))
		return -errno;
	*ino = st.st_ino;
	return 0;
}

/*
 * The kernel does not show the namespace of a process that has dropped its
 * privileges, but it shows everybody its map of users.  Only who has privileges in
 * our namespace can make another one with the same map.
 */
static int compare_maps(pid_t pid)
{
	char a[MAP_TEXT_MAX], b[MAP_TEXT_MAX], number[16];

	snprintf(number, sizeof(number), "%d", (int)pid);
	ssize_t n = map_text("self", a), m = map_text(number, b);
	if (n <= 0 || m <= 0 || n >= MAP_TEXT_MAX - 1)
		return -ENOSYS;
	return n == m && !memcmp(a, b, (size_t)n) ? 0 : -EXDEV;
}

/* What the number of a process leads to: 0, -EXDEV, or -ENOSYS. */
static int compare_in_proc(int pidfd, pid_t pid)
{
	ino_t ours, theirs;
	int err;

	if (pid <= 0)
		return -ENOSYS;
	if (!namespace_in_proc(pid, &theirs) &&
	    !namespace_in_proc(getpid(), &ours))
		err = ours == theirs ? 0 : -EXDEV;
	else
		err = compare_maps(pid);
	/* If the process has ended, its number may be another's by now. */
	if (!err && pidfd >= 0 &&
	    rawcall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) == -ESRCH)
		return -ENOSYS;
	return err;
}

/* 0: in our user namespace; -EXDEV; -ENOSYS: nobody can say. */
static int compare_namespaces(int pidfd, pid_t pid)
{
	ino_t ours, theirs;

	if (namespace_of(pidfd, &theirs) || own_namespace(&ours))
		return compare_in_proc(pidfd, pid);
	return ours == theirs ? 0 : -EXDEV;
}

static int check_namespace(int channel, pid_t pid)
{
	int pidfd = -1, saved = errno;
	socklen_t len = sizeof(pidfd);
	bool has_ended = false; /* its number may be another's */

	if (libc.getsockopt(channel, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len)) {
		pidfd = -1; /* before Linux 6.5, or there is no process */
		has_ended = errno == EINVAL || errno == ESRCH;
	}
	int err = has_ended ? -ENOSYS : compare_namespaces(pidfd, pid);
	if (pidfd >= 0)
		nocancel_close(pidfd);
	errno = saved;
	return err;
}

int trust_check(int channel)
{
	struct ucred cred;

	if (!channel_cred(channel, &cred))
		return -EPERM;
	if (cred.pid == getpid() && cred.uid == geteuid())
		return 0; /* ourselves, also where we have no number */
	if (!trust_allows(cred.uid))
		return -EPERM;
	if (is_named(cred.uid) && cred.uid != overflow_uid())
		return 0;
	return check_namespace(channel, cred.pid);
}
