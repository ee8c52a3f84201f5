/* SPDX-License-Identifier: MIT */
/* osfd/closer.c - see closer.h */
#include "osfd/closer.h"

#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "osfd/channel.h"
#include "osfd/confine.h"

#define N_THREADS 8 /* that may sleep at a time */
#define ROOM 65536u /* descriptors that wait for a thread */
#define OTHER_FDS 32u
#define OSFD 3
#define QUEUE_BYTES (1 << 20)

static struct {
	pthread_mutex_t lock;
	pthread_cond_t is_more, is_less;
	unsigned n, room;
	int fd[ROOM];
} waiting = { .lock = PTHREAD_MUTEX_INITIALIZER,
	      .is_more = PTHREAD_COND_INITIALIZER,
	      .is_less = PTHREAD_COND_INITIALIZER };

/*
 * Code that runs in the other process.
 */

/* A thread that begins makes calls that the filter refuses. */
static pthread_barrier_t all_run;

static void *close_them(void *arg)
{
	pthread_barrier_wait(&all_run);
	for (;;) {
		pthread_mutex_lock(&waiting.lock);
		while (!waiting.n)
			pthread_cond_wait(&waiting.is_more, &waiting.lock);
		int fd = waiting.fd[--waiting.n];
		pthread_cond_signal(&waiting.is_less);
		pthread_mutex_unlock(&waiting.lock);
		close(fd);
	}
	return NULL;
}

static void let_wait(int fd)
{
	pthread_mutex_lock(&waiting.lock);
	while (waiting.n == waiting.room)
		pthread_cond_wait(&waiting.is_less, &waiting.lock);
	waiting.fd[waiting.n++] = fd;
	pthread_cond_signal(&waiting.is_more);
	pthread_mutex_unlock(&waiting.lock);
}

/* One packet.  Return: false when osfd has ended; @fd: what came with it, or -1 */
static bool next(int osfd, int *fd)
{
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };
	ssize_t n = recvmsg(osfd, &msg, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;

	*fd = -1;
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	return n > 0;
}

/* osfd sends a descriptor, then closes its own, and its next packet says so.  Until then
 * close() here would not be the last one, and osfd's would be.  So the descriptor waits
 * here for the next packet. */
static void serve(int osfd)
{
	int held = -1, fd;

	while (next(osfd, &fd)) {
		if (held >= 0)
			let_wait(held);
		held = fd;
	}
}

/* osfd alone ends this process: a signal to all of its group does not. */
static void run(int osfd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct rlimit rl = { 0 };
	pthread_t thread;

	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	prctl(PR_SET_NAME, "osfd-closer");
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	dup2(osfd, OSFD);
	close_range(OSFD + 1, ~0u, 0);
	getrlimit(RLIMIT_NOFILE, &rl);
	waiting.room = (unsigned)MIN(rl.rlim_cur - OTHER_FDS, (rlim_t)ROOM);
	capng_clear(CAPNG_SELECT_BOTH);
	bool is_good = null >= 0 && rl.rlim_cur > 2 * OTHER_FDS &&
		       capng_apply(CAPNG_SELECT_BOTH) == 0;
	pthread_barrier_init(&all_run, NULL, N_THREADS + 1);
	for (int i = 0; is_good && i < N_THREADS; i++)
		is_good = !pthread_create(&thread, NULL, close_them, NULL);
	if (!is_good)
		return;
	pthread_barrier_wait(&all_run);
	if (confine_closer() == 0)
		serve(OSFD);
}

/*
 * Code that runs in osfd.
 */

int closer_start(void)
{
	int pair[2], bytes = QUEUE_BYTES;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
	pid_t pid = fork();
	int err = pid < 0 ? -errno : 0;
	if (!pid) {
		close(pair[0]);
		run(pair[1]);
		_exit(0);
	}
	close(pair[1]);
	if (err)
		close(pair[0]);
	return err ? err : pair[0];
}

void closer_close(int closer, int fd)
{
	if (channel_send(closer, "", 1, &fd, 1) < 0)
		return;
	close(fd);
	(void)channel_send(closer, "", 1, NULL, 0);
}
