/* SPDX-License-Identifier: MIT */
/* osfd/channel.c - see channel.h */
#include "osfd/channel.h"

#include <errno.h>

int channel_send(int fd, const void *bytes, size_t len, const int *fds,
		 unsigned n_fds)
{
	union channel_control control;
	struct iovec iov = { (void *)bytes, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	channel_attach(&msg, &control, fds, n_fds);
	return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}
