/* SPDX-License-Identifier: MIT */
/*
 * file/leave.c - the process goes on with the kernel alone
 *
 *     prctl(PR_SET_SECCOMP), seccomp()  ->  file_leave()  ->  the filter is on
 *
 * A program that limits its own system calls allows the calls that it makes
 * itself.  osf makes other calls: a thread that sleeps on a ring polls, an
 * upgrade makes sockets, a close asks for byte counts.  A filter may kill the
 * process for any of them.  So before the filter is on, each connection goes
 * back to the kernel, each epoll set gets the program's own entries, and the
 * table forgets all files.  From then on each call of the program is one call
 * of libc's.  osf makes no call of its own any more, not even at a fork or at
 * the end of the process.
 */
#include <errno.h>

#include "base/idle.h"
#include "base/log.h"
#include "file/epoll.h"
#include "file/file.h"
#include "ops/ops.h"
#include "sock/sock_ops.h"

/* Nothing of the connection is left here: what the peer sends is TCP's. */
static void give_back(int fd, enum osf_reason why)
{
	struct file *f = file_get_any(fd);

	if (!f)
		return;
	if (f->kind == FILE_SOCK) {
		file_hand_over(fd, why);
		sock_ops(f->sk)->retire(f->sk);
		file_sync(f, fd);
	}
	file_put(f);
}

/* Parents go on counting us among the holders of what they gave us, until we end. */
static void forget(int fd)
{
	struct file *f = file_get_any(fd);

	if (!f)
		return;
	f->unshared = NULL;
	file_forget(fd);
	file_put(f);
}

static void restore_set(int fd)
{
	struct file *f = file_get_any(fd);

	if (f && f->kind == FILE_EPOLL)
		epoll_restore(f);
	if (f)
		file_put(f);
}

void file_leave(enum osf_reason why)
{
	int saved = errno;

	if (file_has_left())
		return;
	file_unshare();
	if (xchg(&file_has_left_all, true))
		return;
	log_info("the program limits its system calls: all stays with the "
		 "kernel");
	ops_leave_all(why);
	idle_set(NULL);
	for (int fd = file_next(0); fd >= 0; fd = file_next(fd + 1))
		give_back(fd, why);
	for (int fd = file_next(0); fd >= 0; fd = file_next(fd + 1))
		restore_set(fd);
	for (int fd = file_next(0); fd >= 0; fd = file_next(fd + 1))
		forget(fd);
	errno = saved;
}
