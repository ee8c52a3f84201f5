/* SPDX-License-Identifier: MIT */
/* tests/app/lost_core.h - how long a thread could have run, and had no core */
#ifndef TESTS_LOST_CORE_H
#define TESTS_LOST_CORE_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* Of the calling thread, so far, as the scheduler counts it; 0 if it does not. */
static inline uint64_t lost_core_us(void)
{
	int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	unsigned long long ns = 0;
	char text[100] = "";

	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0 || sscanf(text, "%*u %llu", &ns) != 1)
		return 0;
	return ns / 1000;
}

#endif
