/* SPDX-License-Identifier: MIT */
/* osfd/channel.h - sends packets, and descriptors with them; received.h is the other way */
#pragma once

#include <stddef.h>

#define CHANNEL_FDS_MAX 4

/* Never waits.  Return: 0, -EAGAIN: who is to read it does not, or another errno */
int channel_send(int fd, const void *bytes, size_t len, const int *fds,
		 unsigned n_fds);
