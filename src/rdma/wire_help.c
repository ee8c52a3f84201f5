/* SPDX-License-Identifier: MIT */
/*
 * rdma/wire_help.c - the thread that answers other hosts while the program does not poll
 *
 * While the program polls, the program receives by itself, and the thread sleeps for a
 * millisecond at a time.  Otherwise the thread sleeps in poll(), until a packet comes or a
 * queue pair's deadline expires.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/libc.h"
#include "rdma/serve.h"
#include "rdma/wire_in.h"

#define POLLS_MANY 16u /* in a millisecond: the program receives soon enough */
#define NAP_NS NS_PER_MS
#define STACK (256u * 1024)

static struct lock starting;

void wire_helper_wake(void)
{
	uint64_t one = 1;
	int saved = errno, fd = wire.bell;

	if (load_acq(&wire.has_helper) && fd >= 0 &&
	    libc.write(fd, &one, sizeof(one)) < 0)
		errno = saved;
	errno = saved;
}

/* Say until when, and look once more: a deadline may have come before. */
static int timeout_ms(void)
{
	store_rlx(&wire.sleeps_to, UINT64_MAX);
	fence_full();
	uint64_t next = load_rlx(&wire.next_ns), now = now_ns();
	if (!next)
		return -1;
	store_rlx(&wire.sleeps_to, next);
	return next <= now ? 0 : (int)((next - now) / NS_PER_MS) + 1;
}

static void sleep_for_packets(int ms)
{
	struct pollfd fds[6] = { { wire.fd, POLLIN, 0 },
				 { wire.bell, POLLIN, 0 },
				 { load_rlx(&wire.is_deaf) ? -1 : wire.mail,
				   POLLIN, 0 },
				 { wire.fds[0], POLLIN, 0 },
				 { wire.bridge_fd, POLLIN, 0 },
				 { wire.group_set, POLLIN, 0 } };
	uint64_t n;

	if (libc.poll(fds, ARRAY_LEN(fds), ms) > 0 && fds[1].revents)
		(void)!libc.read(wire.bell, &n, sizeof(n));
	store_rlx(&wire.sleeps_to, 0);
}

/* Packets wake nobody meanwhile: to wake a thread costs their sender, too. */
static void nap_while_polled(void)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	uint32_t seen;

	do {
		seen = load_rlx(&wire.n_polls);
		nanosleep(&nap, NULL);
	} while (load_rlx(&wire.n_polls) - seen > POLLS_MANY);
}

static void *run(void *arg)
{
	uint64_t since = now_ns();
	uint32_t seen = load_rlx(&wire.n_polls);

	for (;;) {
		sleep_for_packets(timeout_ms());
		/* False: a thread of the program is receiving. */
		bool is_mine = wire_progress(true);
		if (is_mine && now_ns() - since < NAP_NS)
			continue;
		if (!is_mine || load_rlx(&wire.n_polls) - seen > POLLS_MANY)
			nap_while_polled();
		since = now_ns();
		seen = load_rlx(&wire.n_polls);
	}
	return NULL;
}

void wire_help(void)
{
	GUARD(&starting);
	if (wire.has_helper)
		return;
	wire.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wire.bell < 0 || helper_thread(run, NULL, STACK))
		return; /* the program's own calls do what they can */
	store_rel(&wire.has_helper, true);
}
