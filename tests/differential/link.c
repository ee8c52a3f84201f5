/* SPDX-License-Identifier: MIT */
/*
 * tests/differential/link.c - makes Linux send one segment at a time
 *
 * With large frames Linux waits to fill one, and cuts its queue at other places.  That
 * depends on devices, not on TCP.  A device that takes one segment per frame avoids it.
 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "differential.h"

/* Return: 0 or a negative errno. */
int link_without_gso(const char *name)
{
	struct {
		struct nlmsghdr head;
		struct ifinfomsg info;
		struct rtattr attr;
		uint32_t value;
	} req = {
		.head = { .nlmsg_len = sizeof(req),
			  .nlmsg_type = RTM_NEWLINK,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK },
		.info = { .ifi_index = (int)if_nametoindex(name) },
		.attr = { .rta_len = sizeof(struct rtattr) + 4,
			  .rta_type = IFLA_GSO_MAX_SEGS },
		.value = 1,
	};
	struct {
		struct nlmsghdr head;
		struct nlmsgerr err;
	} answer = { 0 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (send(fd, &req, sizeof(req), 0) < 0 ||
	    recv(fd, &answer, sizeof(answer), 0) < 0)
		err = -errno;
	else
		err = answer.err.error;
	close(fd);
	return err;
}
