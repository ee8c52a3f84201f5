/* SPDX-License-Identifier: MIT */
/*
 * tests/packetdrill/settings.c - applies the machine's sysctls to this TCP
 *
 *     a script's commands -> /proc/sys/net/ipv4 -> what is opened from now on
 *
 * The tool runs a script's commands in its own network namespace.  We read the sysctls
 * that the engine knows whenever a socket is made, listens or connects.  We do not read
 * one that a flag has set.  Values that the engine does not have, such as another
 * congestion control, change nothing.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "host.h"

static const char *const names[] = {
	"ip_local_port_range",
	"tcp_congestion_control",
	"tcp_ecn",
	"tcp_fin_timeout",
	"tcp_min_tso_segs",
	"tcp_rmem",
	"tcp_sack",
	"tcp_timestamps",
	"tcp_tw_reuse",
	"tcp_window_scaling",
	"tcp_wmem",
};
static_assert(ARRAY_LEN(names) <= 32, "a bit each");

/* A flag has set it. */
void settings_keep(struct host *h, const char *name)
{
	for (unsigned i = 0; i < ARRAY_LEN(names); i++)
		if (!strcmp(names[i], name))
			h->settings_kept |= 1u << i;
}

/* Return: false if there is none */
static bool file_read(int dir, const char *name, char *buf, size_t size)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	ssize_t n = read(fd, buf, size - 1);
	close(fd);
	buf[n > 0 ? n : 0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	return n > 0;
}

void settings_look(struct host *h)
{
	char value[64];
	int dir = open(h->sysctls, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return;
	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		struct backend_setting s = { names[i], value };

		/* A value that the engine does not have changes nothing. */
		if (!(h->settings_kept & 1u << i) &&
		    file_read(dir, names[i], value, sizeof(value)))
			h->b.ops->set(h->b.self, &s);
	}
	close(dir);
}
