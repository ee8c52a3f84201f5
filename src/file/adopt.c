/* SPDX-License-Identifier: MIT */
/*
 * file/adopt.c - sockets that the program inherits at its start, or is passed
 *
 * inetd, systemd or a shell's redirection may pass a TCP connection.  Its other
 * end may be waiting to upgrade it, so treat ours as the accepting end.
 * Announce an inherited listener like any other, and one that comes by SCM_RIGHTS:
 * a server that takes over from an older one gets its listeners so (HAProxy's reload).
 * Connections that come by SCM_RIGHTS stay with the kernel.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/fds.h"
#include "base/libc.h"
#include "file/epoll.h"
#include "file/file.h"
#include "ops/ops.h"

#define ADOPT_MAX 256

static int int_option(int fd, int name)
{
	int v = -1;
	socklen_t len = sizeof(v);

	return libc.getsockopt(fd, SOL_SOCKET, name, &v, &len) < 0 ? -1 : v;
}

/* What was adopted so far, to find the same description again under another number. */
static struct {
	int fd;
	uint64_t ino;
} adopted[ADOPT_MAX];
static int n_adopted;

/* A copy of an adopted descriptor shares its file. */
static bool is_copy(int fd, uint64_t ino)
{
	for (int i = 0; i < n_adopted; i++) {
		struct file *f =
		    adopted[i].ino == ino ? file_get_any(adopted[i].fd) : NULL;

		if (!f)
			continue;
		file_install(fd, f, file_is_passthrough(adopted[i].fd));
		file_put(f);
		return true;
	}
	return false;
}

/* May osf serve @fd? */
static bool is_tcp(int fd, struct ops_family *family)
{
	return int_option(fd, SO_PROTOCOL) == IPPROTO_TCP &&
	       ops_family(int_option(fd, SO_DOMAIN), int_option(fd, SO_TYPE),
			  IPPROTO_TCP, family);
}

static struct file *new_file(int fd, const struct ops_family *family)
{
	struct file *f = file_new_sock(fd);

	if (!f)
		return NULL;
	f->sk->adopted = 1;
	int fl = libc.fcntl(fd, F_GETFL);
	f->sk->w->nonblock = fl >= 0 && fl & O_NONBLOCK;
	ops_created(f->sk, family);
	return f;
}

static void adopt(int fd)
{
	struct ops_family family;
	struct sockaddr_storage peer, local;
	socklen_t plen = sizeof(peer), llen = sizeof(local);
	struct stat st;

	if (!is_tcp(fd, &family) || libc.fstat(fd, &st) ||
	    is_copy(fd, st.st_ino))
		return;
	struct file *f = new_file(fd, &family);
	if (!f)
		return;
	adopted[n_adopted].fd = fd;
	adopted[n_adopted++].ino = st.st_ino;
	if (int_option(fd, SO_ACCEPTCONN) == 1) {
		ops_listening(f->sk, fd, 0, false);
		file_pass(f);
	} else if (!getpeername(fd, (struct sockaddr *)&peer, &plen) &&
		   !getsockname(fd, (struct sockaddr *)&local, &llen)) {
		ops_accepted(f->sk, fd, f->sk, (struct sockaddr *)&peer);
		f->sk->w->times = int_option(fd, SO_TIMESTAMP) == 1 ||
				  int_option(fd, SO_TIMESTAMPNS) == 1 ||
				  int_option(fd, SO_TIMESTAMPING) > 0;
		/* We cannot learn how many sends the kernel has numbered. */
		if (int_option(fd, SO_ZEROCOPY) == 1)
			ops_keep_kernel(f->sk, OSF_REASON_ZEROCOPY);
		file_sync(f, fd);
	}
}

void file_adopt_listener(int fd)
{
	struct ops_family family;
	int saved = errno;

	if (!table_load(fd) && int_option(fd, SO_ACCEPTCONN) == 1 &&
	    is_tcp(fd, &family)) {
		struct file *f = new_file(fd, &family);

		if (f) {
			ops_listening(f->sk, fd, 0, false);
			file_pass(f);
		}
	}
	errno = saved;
}

void file_adopt(void)
{
	int saved = errno;
	DIR *d = opendir("/proc/self/fd");
	int fds[ADOPT_MAX], n = 0;

	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d)) && n < ADOPT_MAX;) {
		int fd = atoi(e->d_name);

		if (e->d_name[0] != '.' && fd != dirfd(d) && !fds_is_ours(fd) &&
		    !table_load(fd))
			fds[n++] = fd;
	}
	closedir(d);
	while (n--)
		adopt(fds[n]);
	errno = saved;
}
