/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/peer_calls.c - what a call costs on a descriptor that is not ours
 *
 * One byte through a pipe, one number through an eventfd, one byte of /dev/zero:
 * read() and write() go through osf's entry points, which must pass them on at once.
 */
#include "osf.h"
#include "peer.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CALLS 1000 /* in one measurement; the median over many counts */

/* Writes @len bytes to one descriptor and reads them from the other. */
static uint64_t calls_ticks(int to, int from, size_t len)
{
	uint64_t value = 1, before = tick_now();

	for (unsigned i = 0; i < CALLS / 2; i++)
		if (write(to, &value, len) != (ssize_t)len ||
		    read(from, &value, len) != (ssize_t)len)
			peer_die("read or write");
	return tick_now() - before;
}

int peer_passthrough(int argc, char **args)
{
	struct times pipe_times, event_times;
	int pipe_fds[2], event = eventfd(0, EFD_CLOEXEC);

	if (event < 0 || pipe(pipe_fds) < 0)
		peer_die("pipe");
	times_init(&pipe_times);
	times_init(&event_times);

	uint64_t until_ns = now_ns() + (uint64_t)(atof(args[0]) * 1e9);
	while (now_ns() < until_ns) {
		times_add(&pipe_times,
			  calls_ticks(pipe_fds[1], pipe_fds[0], 1));
		times_add(&event_times, calls_ticks(event, event, 8));
	}
	double pipe_ns = times_median_ns(&pipe_times) / CALLS;
	double event_ns = times_median_ns(&event_times) / CALLS;
	printf("pipe %.3f\neventfd %.3f\nns %.3f\n", pipe_ns, event_ns,
	       (pipe_ns + event_ns) / 2);
	times_fini(&pipe_times);
	times_fini(&event_times);
	return 0;
}

/* The cheapest read() there is: what osf adds to it shows best. */
int peer_read_zero(int argc, char **args)
{
	struct times times;
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	char byte;

	if (zero < 0)
		peer_die("/dev/zero");
	times_init(&times);
	uint64_t until_ns = now_ns() + (uint64_t)(atof(args[0]) * 1e9);
	while (now_ns() < until_ns) {
		uint64_t before = tick_now();

		for (unsigned i = 0; i < CALLS; i++)
			if (read(zero, &byte, 1) != 1)
				peer_die("read");
		times_add(&times, tick_now() - before);
	}
	printf("ns %.3f\n", times_median_ns(&times) / CALLS);
	times_fini(&times);
	return 0;
}
