/* SPDX-License-Identifier: MIT */
/* osfd/channel.h - sends packets, and descriptors with them; received.h is the other way */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#define CHANNEL_FDS_MAX 4

union channel_control {
	struct cmsghdr head;
	char buf[CMSG_SPACE(CHANNEL_FDS_MAX * sizeof(int))];
};

/* Has @msg carry descriptors; @c is its control message, and lives as long. */
static inline void channel_attach(struct msghdr *msg, union channel_control *c,
				  const int *fds, unsigned n_fds)
{
	assert(n_fds <= CHANNEL_FDS_MAX);
	if (!n_fds)
		return;
	memset(c, 0, sizeof(*c));
	c->head.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
	c->head.cmsg_level = SOL_SOCKET;
	c->head.cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(&c->head), fds, n_fds * sizeof(int));
	msg->msg_control = c->buf;
	msg->msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
}

/* Never waits.  Return: 0, -EAGAIN: who is to read it does not, or another errno */
int channel_send(int fd, const void *bytes, size_t len, const int *fds,
		 unsigned n_fds);
