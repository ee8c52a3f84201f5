/* SPDX-License-Identifier: MIT */
/* rdma/stranger.c - see rdma/stranger.h */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/libc.h"
#include "base/lock.h"
#include "base/nocancel.h"
#include "proto/shm/trust.h"
#include "rdma/serve.h"
#include "rdma/stranger.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif
#define THREADS_MAX 16u
#define WAITING_MAX 1024u /* what is more stays open */
#define STACK (64u * 1024)

static struct {
	struct lock lock;
	uint32_t n_threads, n_waiting;
	int waiting[WAITING_MAX];
} closer;

void stranger_refuse(int fd)
{
	int off = 0;

	(void)libc.setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
}

bool stranger_look(int fd, bool *is_ours, bool *has_fds)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr aligned;
	} control;
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct ucred who;

	/* At the end of a connection there is nobody who has sent it. */
	if (nocancel_recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT) < 0 ||
	    !msg.msg_controllen)
		return false;
	memcpy(&who, CMSG_DATA(&control.aligned), sizeof(who));
	*is_ours = control.aligned.cmsg_type == SCM_CREDENTIALS &&
		   trust_allows(who.uid);
	*has_fds = msg.msg_flags & MSG_CTRUNC;
	return true;
}

/* The next one to close; -1: there is none, and the thread has ended. */
static int next_waiting(void)
{
	GUARD(&closer.lock);
	if (!closer.n_waiting) {
		closer.n_threads--;
		return -1;
	}
	return closer.waiting[--closer.n_waiting];
}

static void *close_waiting(void *arg)
{
	int fd;

	while ((fd = next_waiting()) >= 0)
		nocancel_close(fd);
	return NULL;
}

void stranger_close_passed(int fd)
{
	GUARD(&closer.lock);
	if (closer.n_waiting == WAITING_MAX)
		return;
	closer.waiting[closer.n_waiting++] = fd;
	if (closer.n_threads < THREADS_MAX &&
	    !helper_thread(close_waiting, NULL, STACK))
		closer.n_threads++;
}

/* Has any message descriptors?  The others are thrown away. */
static bool has_descriptors(int fd)
{
	bool is_ours, has_fds;
	char byte;
	int on = 1;

	libc.setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	while (stranger_look(fd, &is_ours, &has_fds)) {
		if (has_fds)
			return true;
		(void)nocancel_recv(fd, &byte, 1, MSG_DONTWAIT);
	}
	return false;
}

static void close_one(int fd)
{
	libc.shutdown(fd, SHUT_RDWR); /* nothing more comes */
	if (has_descriptors(fd))
		stranger_close_passed(fd);
	else
		nocancel_close(fd);
}

void stranger_close(int fd)
{
	int ch, saved = errno;

	libc.shutdown(fd, SHUT_RDWR);
	/* If it is a listener, others may have connected. */
	while ((ch = nocancel_accept4(fd, NULL, NULL,
				      SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
		close_one(ch);
	close_one(fd);
	errno = saved;
}

void stranger_after_fork(void)
{
	closer.lock = (struct lock){ 0 };
	closer.n_threads = closer.n_waiting = 0;
}
