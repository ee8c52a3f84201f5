/* SPDX-License-Identifier: MIT */
/*
 * rdma/wire_port.c - UDP port 4791, which all processes of a user share
 *
 *     packet -> the kernel's choice by the QP number -> one of N_SOCKETS
 *            -> the process whose block of numbers that socket stands for
 *            -> or, by wire_forward(), another one whose block has the same socket
 *
 * The sockets are one group of SO_REUSEPORT.  A classic BPF program chooses the socket by
 * the number's block, and its answer is a position in the group.  If a process closed a
 * socket of the group, the positions of others would change.  So every process has all of
 * the sockets, and they live for as long as any process does: the first process makes them,
 * and each later one asks a process that has them (SCM_RIGHTS).  A process reads the socket
 * of its own block, and the thread of each also reads socket 0, whose packets are for
 * special numbers.
 *
 * The first process binds the port alone, then lets its other sockets into the group.  So
 * the kernel says who is first, and no process waits for another one's turn.
 */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <string.h>

#include "base/clock.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "rdma/wire_in.h"

#define QUEUE_BYTES (4 << 20)
#define OPENING_NS NS_PER_S

/*
 * The sockets.
 */

static void set(int fd, int level, int name, int value)
{
	/* Errors do not matter: without one of these options the device is slower, or a
	 * message that is too long for the path fails. */
	(void)libc.setsockopt(fd, level, name, &value, sizeof(value));
}

static void set_options(int fd, bool is_v6)
{
	set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	set(fd, SOL_SOCKET, SO_RCVBUF, QUEUE_BYTES);
	set(fd, SOL_SOCKET, SO_SNDBUF, QUEUE_BYTES);
	set(fd, IPPROTO_UDP, UDP_GRO, 1);
	set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	set(fd, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
	if (!is_v6) {
		set(fd, IPPROTO_IP, IP_PKTINFO, 1);
		return;
	}
	set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
	set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
	set(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0);
	set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)wire.ifindex);
}

int wire_bind(const struct sockaddr_storage *ss, socklen_t len,
	      int (*before)(int fd))
{
	int off = 0, err = 0;
	int fd = libc.socket(ss->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is_v6 = ss->ss_family == AF_INET6;

	if (fd < 0)
		return -errno;
	if (is_v6 &&
	    libc.setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)))
		err = -errno;
	if (!err && before)
		err = before(fd);
	if (!err && libc.bind(fd, (const struct sockaddr *)ss, len))
		err = -errno;
	if (err) {
		libc.close(fd);
		return err;
	}
	set_options(fd, is_v6);
	return fd;
}

static int bind_port(int family, int (*before)(int fd))
{
	struct sockaddr_storage ss = { 0 };
	struct sockaddr_in *in = (void *)&ss;
	struct sockaddr_in6 *in6 = (void *)&ss;

	if (family == AF_INET)
		*in = (struct sockaddr_in){ .sin_family = AF_INET,
					    .sin_port = htons(ROCE_PORT) };
	else
		*in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
					      .sin6_port = htons(ROCE_PORT) };
	return wire_bind(&ss, family == AF_INET ? sizeof(*in) : sizeof(*in6),
			 before);
}

/* The socket for a QP number; choose_socket() says it to the kernel. */
static uint32_t socket_of(uint32_t block)
{
	return block ? 1 + block % (N_SOCKETS - 1) : 0;
}

/* A QP number is three bytes from the fifth on; its block is the high 14 bits. */
static int choose_socket(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 5),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, QPN_BITS - 8),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0),
		BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, N_SOCKETS - 1),
		BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 1),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog program = { ARRAY_LEN(code), code };

	return libc.setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF,
			       &program, sizeof(program))
		   ? -errno
		   : 0;
}

static int set_shared(int fd, int is_shared)
{
	return libc.setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &is_shared,
			       sizeof(is_shared))
		   ? -errno
		   : 0;
}

int wire_share(int fd) { return set_shared(fd, 1); }

/* The first socket gets its group and the program that chooses.  But it is bound as one that
 * shares the port with nobody. */
static int begin_group(int fd)
{
	int err = set_shared(fd, 1);

	if (!err)
		err = choose_socket(fd);
	return err ? err : set_shared(fd, 0);
}

static void close_all(int *fds)
{
	for (uint32_t i = 0; i < N_SOCKETS; i++) {
		if (fds[i] >= 0)
			libc.close(fds[i]);
		fds[i] = -1;
	}
}

/* -EADDRINUSE: somebody has the port. */
static int make_sockets(int *fds)
{
	int family = AF_INET6, err;

	for (uint32_t i = 0; i < N_SOCKETS; i++)
		fds[i] = -1;
	fds[0] = bind_port(family, begin_group);
	if (fds[0] == -EAFNOSUPPORT || fds[0] == -EADDRNOTAVAIL) {
		family = AF_INET;
		fds[0] = bind_port(family, begin_group);
	}
	err = fds[0] < 0 ? fds[0] : wire_share(fds[0]);
	for (uint32_t i = 1; i < N_SOCKETS && !err; i++) {
		fds[i] = bind_port(family, wire_share);
		err = fds[i] < 0 ? fds[i] : 0;
	}
	if (err)
		close_all(fds);
	return err;
}

/*
 * Opening.
 */

/* For one datagram recvmsg() is quicker: recvmmsg() also looks for a second one, and a
 * program that waits for one answer has no second one. */
int wire_recv(int fd, struct mmsghdr *to, int at_most)
{
	if (at_most > 1)
		return nocancel_recvmmsg(fd, to, (unsigned)at_most,
					 MSG_DONTWAIT);
	ssize_t n = nocancel_recvmsg(fd, &to->msg_hdr, MSG_DONTWAIT);
	if (n < 0)
		return -1;
	to->msg_len = (unsigned)n;
	return 1;
}

bool wire_is_port(int fd)
{
	int protocol = 0;
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss), protocol_len = sizeof(protocol);

	return !libc.getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol,
				&protocol_len) &&
	       protocol == IPPROTO_UDP &&
	       !libc.getsockname(fd, (struct sockaddr *)&ss, &len) &&
	       (ss.ss_family == AF_INET6 || ss.ss_family == AF_INET) &&
	       ((struct sockaddr_in *)&ss)->sin_port == htons(ROCE_PORT);
}

static bool is_v6_socket(int fd)
{
	int family = AF_INET;
	socklen_t len = sizeof(family);

	libc.getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len);
	return family == AF_INET6;
}

/* Makes the sockets, or gets them.  A process that has just bound the port answers when its
 * thread runs, and one that answers no more may have ended. */
static int get_sockets(int *fds)
{
	uint64_t until = now_ns() + OPENING_NS;
	int err;

	while ((err = make_sockets(fds)) == -EADDRINUSE) {
		bool is_anybody = mail_greet();

		if (mail_ask_port(fds))
			return 0;
		if (!is_anybody || now_ns() > until)
			return -EADDRINUSE;
	}
	return err;
}

int wire_open_port(void)
{
	struct self *s = self_get();
	int fds[N_SOCKETS];

	if (!s)
		return -errno;
	int err = mail_open(s->block);
	if (!err)
		err = get_sockets(fds);
	if (err)
		return err;
	wire.is_v6 = is_v6_socket(fds[0]);
	memcpy(wire.fds, fds, sizeof(wire.fds));
	wire.fd = fds[socket_of(s->block)];
	return 0;
}

void wire_close_port(void)
{
	if (wire.fd >= 0)
		close_all(wire.fds);
	mail_close();
}
