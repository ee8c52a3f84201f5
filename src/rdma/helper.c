/* SPDX-License-Identifier: MIT */
/*
 * rdma/helper.c - a thread that executes what others ask for, where they may not do so
 *
 *     an initiator -> a byte in our pipe -> this thread -> rx_run() of all queue pairs
 *
 * RDMA means that the owner of the memory need not call anything.  Where the kernel lets
 * initiators reach this process's memory there is no thread, because nobody needs one.
 * Otherwise a process has one thread.  It starts with the first connection if the process
 * can tell that others cannot reach it (Yama, not dumpable), or else when a call of the
 * program finds the first request.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/libc.h"
#include "rdma/serve.h"
#include "rdma/users.h"

#define ROUNDS 1000 /* milliseconds, after a byte, with something left to do */
#define STACK (128u * 1024)

static struct lock starting;

static bool is_restricted_by_yama(void)
{
	const char *value = secure_getenv("OSF_RDMA_PTRACER");
	int fd = libc.open("/proc/sys/kernel/yama/ptrace_scope",
			   O_RDONLY | O_CLOEXEC);
	char c = '0';

	if (fd < 0)
		return false;
	if (libc.read(fd, &c, 1) != 1)
		c = '0';
	libc.close(fd);
	return c > '1' || (c == '1' && !(value && !strcmp(value, "1")));
}

/* By a filter of system calls, which our peers may share. */
static bool is_filtered(void)
{
	char here = 0, there = 0;
	struct iovec a = { &here, 1 }, b = { &there, 1 };

	return process_vm_readv(getpid(), &a, 1, &b, 1, 0) < 0;
}

static bool is_due(void)
{
	const char *value = secure_getenv("OSF_RDMA_REACH");

	return (value && !strcmp(value, "0")) || is_restricted_by_yama() ||
	       is_filtered() || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1;
}

static void *run(void *arg)
{
	struct self *s = arg;
	struct pollfd pfd = { s->helper[0], POLLIN, 0 };
	char bytes[64];
	int rounds = 0;

	for (;;) {
		bool has_more = users_progress() && rounds > 0;

		pfd.revents = 0;
		if (libc.poll(&pfd, 1, has_more ? 1 : -1) < 0)
			continue;
		rounds = pfd.revents ? ROUNDS : rounds - 1;
		if (pfd.revents &&
		    libc.read(s->helper[0], bytes, sizeof(bytes)) < 0)
			sched_yield();
	}
	return NULL;
}

int helper_thread(void *(*run_it)(void *), void *arg, size_t stack_bytes)
{
	pthread_attr_t attr;
	sigset_t all, was;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, stack_bytes);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	int err = pthread_create(&thread, &attr, run_it, arg);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	pthread_attr_destroy(&attr);
	return err;
}

void helper_start(void)
{
	struct self *s = self_current;

	if (!s || load_acq(&s->has_helper))
		return;
	GUARD(&starting);
	if (s->has_helper)
		return;
	store_rel(&s->has_helper, true); /* one try */
	if (pipe2(s->helper, O_CLOEXEC | O_NONBLOCK))
		return;
	if (helper_thread(run, s, STACK)) {
		libc.close(s->helper[0]);
		libc.close(s->helper[1]);
		return;
	}
	store_rel(&s->dir->helper, s->helper[1] + 1);
}

void helper_start_if_due(void)
{
	static bool is_known, due;

	if (!load_acq(&is_known)) {
		store_rlx(&due, is_due());
		store_rel(&is_known, true);
	}
	if (load_rlx(&due))
		helper_start();
}

bool helper_ring(struct remote *r)
{
	int32_t theirs = load_acq(&r->peer->dir->helper) - 1;
	int saved = errno,
	    fd = theirs < 0 ? -1 : remote_bell(r, BELL_HELPER, theirs);
	/* EAGAIN: it is full, and so readable. */
	bool is_rung =
	    fd >= 0 && (libc.write(fd, "", 1) == 1 || errno == EAGAIN);

	errno = saved;
	return is_rung;
}
