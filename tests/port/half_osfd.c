/* SPDX-License-Identifier: MIT */
/* tests/port/half_osfd.c - see half_osfd.h */
#include "half_osfd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "osfd/name.h"
#include "osfd/steer.h"
#include "unit.h"

#define CLIENTS 16
#define FLOWS 64
#define MTU 1500

static int listen_here(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	socklen_t len =
	    offsetof(struct sockaddr_un, sun_path) + sizeof(OSFD_NAME);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(un.sun_path + 1, OSFD_NAME, sizeof(OSFD_NAME) - 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&un, len), 0);
	assert_int_equal(listen(fd, CLIENTS), 0);
	return fd;
}

/* @fds: two, or NULL. */
static void answer(int to, struct reply *r, const int *fds)
{
	struct iovec iov = { r, sizeof(*r) };
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(2 * sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(2 * sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fds) {
		memcpy(CMSG_DATA(&control.head), fds, 2 * sizeof(int));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control.buf);
	}
	(void)sendmsg(to, &msg, MSG_NOSIGNAL);
}

/* The grant has a link, which the program keeps. */
static void make_grant(int to, struct reply *r, int ifindex)
{
	struct packet_ring ring = packet_ring_for(MTU);
	struct steer s;

	if (steer_open(&s, ifindex, FLOWS) < 0)
		_exit(1);
	int fds[2] = { packet_socket(ifindex, &ring, s.filter_fd), s.link_fd };
	if (fds[0] < 0)
		_exit(1);
	r->grant = (struct msg_grant){ .ifindex = (uint32_t)ifindex,
				       .mtu = MTU,
				       .slot_bytes = ring.slot_bytes,
				       .n_slots = ring.n_slots,
				       .n_flows = FLOWS };
	answer(to, r, fds);
}

/* Descriptors that come with a request are dropped by the kernel.  Return: whether the
 * client is still there */
static bool serve(int fd, int ifindex, enum msg_type last)
{
	struct request q;
	struct reply r = { .magic = MSG_MAGIC, .version = MSG_VERSION };

	if (recv(fd, &q, sizeof(q), 0) <= 0)
		return false;
	if (q.type == last)
		_exit(0);
	r.type = q.type;
	if (q.type == MSG_OPEN) {
		make_grant(fd, &r, ifindex);
		return true;
	}
	if (q.type == MSG_HELLO)
		r.hello = (struct msg_hello){ MSG_VERSION, MSG_VERSION_MIN };
	else
		r.err = -EPROTONOSUPPORT;
	answer(fd, &r, NULL);
	return true;
}

static void be_osfd(int l, int ifindex, enum msg_type last)
{
	struct pollfd fds[CLIENTS] = { { l, POLLIN, 0 } };
	nfds_t n = 1;

	while (poll(fds, n, -1) > 0) {
		for (nfds_t i = 1; i < n; i++)
			if (fds[i].revents &&
			    !serve(fds[i].fd, ifindex, last)) {
				close(fds[i].fd);
				fds[i] = fds[--n];
			}
		if (fds[0].revents && n < CLIENTS)
			fds[n++] =
			    (struct pollfd){ accept(l, NULL, NULL), POLLIN, 0 };
	}
	_exit(1);
}

pid_t half_osfd_run(const struct world *w, enum msg_type last)
{
	world_enter(w, HERE);
	int l = listen_here();
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_osfd(l, w->ifindex[HERE], last);
	}
	close(l);
	return pid;
}
