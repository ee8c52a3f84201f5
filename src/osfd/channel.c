/* SPDX-License-Identifier: MIT */
/* osfd/channel.c - see channel.h */
#include "osfd/channel.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

int channel_send(int fd, const void *bytes, size_t len, const int *fds,
		 unsigned n_fds)
{
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(CHANNEL_FDS_MAX * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)bytes, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	assert(n_fds <= CHANNEL_FDS_MAX);
	if (n_fds) {
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		control.head = (struct cmsghdr){
			.cmsg_len = CMSG_LEN(n_fds * sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
		};
		memcpy(CMSG_DATA(&control.head), fds, n_fds * sizeof(int));
	}
	return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}
