/* SPDX-License-Identifier: MIT */
/* tests/app/lost_core.h - how long a thread could have run, and had no core */
#ifndef TESTS_LOST_CORE_H
#define TESTS_LOST_CORE_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* The number that @format takes from the start of a file; 0 if there is none. */
static inline uint64_t lost_core_read(const char *path, const char *format)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned long long number = 0;
	char text[200] = "";

	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return n > 0 && sscanf(text, format, &number) == 1 ? number : 0;
}

/* Of the machine: a virtual one stands still while its host runs others (steal). */
static inline uint64_t lost_core_steal_us(void)
{
	uint64_t ticks = lost_core_read("/proc/stat",
					"cpu %*u %*u %*u %*u %*u %*u %*u %llu");

	return ticks * 1000000u / (uint64_t)sysconf(_SC_CLK_TCK);
}

/* Of the first thread of @pid, so far, as the scheduler counts it. */
static inline uint64_t lost_core_of_us(pid_t pid)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
	return lost_core_read(path, "%*u %llu") / 1000;
}

/* Of the calling thread, and of the machine. */
static inline uint64_t lost_core_us(void)
{
	return lost_core_read("/proc/thread-self/schedstat", "%*u %llu") /
		   1000 +
	       lost_core_steal_us();
}

#endif
