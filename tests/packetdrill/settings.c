/* SPDX-License-Identifier: MIT */
/*
 * tests/packetdrill/settings.c - the sysctls of this TCP are the machine's
 *
 *     a script's commands -> /proc/sys/net/ipv4 -> what is opened from now on
 *
 * Scripts set sysctls by commands that the tool runs, of the network namespace in which it
 * runs.  What the engine knows of them is read whenever a socket is made, listens or
 * connects.  What a flag says is not read, nor are values that the engine does not have
 * (another congestion control): it keeps what it has.
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

/* By a flag. */
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

		/* A value that it does not have changes nothing. */
		if (!(h->settings_kept & 1u << i) &&
		    file_read(dir, names[i], value, sizeof(value)))
			h->b.ops->set(h->b.self, &s);
	}
	close(dir);
}
