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
 * For that each process has a unix socket with a name, osf-roce/BLOCK.  Anybody may send to
 * it.  The kernel says which user the sender is, and the process drops what other users
 * send.
 *
 * No descriptor comes that way: to let go of a stranger's socket may take a minute
 * (SO_LINGER), and this is the program's thread.  From Linux 6.16 on the kernel refuses them
 * to the sender.  Before that, a process that finds a message with descriptors does not
 * receive it, and reads its mail no more.  The sockets of the port come to a socket that is
 * connected to who was asked, so that nobody else can send to it.
 */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "proto/shm/trust.h"
#include "rdma/wire_in.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif
#define MAGIC 0x65636f72u
#define QUEUE_BYTES (4 << 20)
#define ANSWER_MS 200
#define OPENING_NS NS_PER_S
#define LEFT_OPEN_MAX 16 /* sockets that strangers have sent descriptors to */

static uint32_t n_left_open; /* the caller of wire_open_port() holds a lock */

enum { MAIL_WANT = 1, MAIL_GIVE, MAIL_PACKETS };

struct mail {
	uint32_t magic, kind;
	struct roce_flow flow; /* of the bytes that follow */
	uint32_t part;
};

static socklen_t name_of(struct sockaddr_un *un, const char *what)
{
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	int n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1,
			 "osf-roce/%s", what);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)n);
}

/* A unix socket with that name, or with one of the kernel's choice.  Each message says who
 * has sent it. */
static int mail_socket(const struct sockaddr_un *un, socklen_t len,
		       bool takes_descriptors)
{
	int on = 1, off = 0,
	    fd = libc.socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
			     0);

	if (fd < 0)
		return -errno;
	if (!takes_descriptors)
		(void)libc.setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off,
				      sizeof(off));
	if (libc.setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ||
	    libc.bind(fd, (const struct sockaddr *)un, len)) {
		int err = -errno;

		libc.close(fd);
		return err;
	}
	return fd;
}

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

int wire_bind(const struct sockaddr_storage *ss, socklen_t len, bool is_shared)
{
	int on = 1, off = 0, err = 0;
	int fd = libc.socket(ss->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is_v6 = ss->ss_family == AF_INET6;

	if (fd < 0)
		return -errno;
	if (is_v6)
		err = libc.setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off,
				      sizeof(off));
	if (!err && is_shared)
		err = libc.setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on,
				      sizeof(on));
	if (err || libc.bind(fd, (const struct sockaddr *)ss, len)) {
		err = -errno;
		libc.close(fd);
		return err;
	}
	set_options(fd, is_v6);
	return fd;
}

static int bind_port(int family, bool is_shared)
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
			 is_shared);
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

static void close_all(int *fds)
{
	for (uint32_t i = 0; i < N_SOCKETS; i++) {
		if (fds[i] >= 0)
			libc.close(fds[i]);
		fds[i] = -1;
	}
}

static int make_sockets(int family, int *fds)
{
	int err = 0;

	for (uint32_t i = 0; i < N_SOCKETS; i++)
		fds[i] = -1;
	for (uint32_t i = 0; i < N_SOCKETS && !err; i++) {
		fds[i] = bind_port(family, true);
		if (fds[i] < 0)
			err = fds[i];
		/* Before the second one is there to be chosen. */
		if (!err && !i)
			err = choose_socket(fds[0]);
	}
	if (err)
		close_all(fds);
	return err;
}

/* Nobody has the port. */
static int make_if_free(int *fds)
{
	int family = AF_INET6, fd = bind_port(family, false);

	if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL) {
		family = AF_INET;
		fd = bind_port(family, false);
	}
	if (fd < 0)
		return fd;
	libc.close(fd);
	return make_sockets(family, fds);
}

/*
 * Mail.
 */

/* What the kernel says of a message, and of descriptors as many as there is room for. */
union mail_control {
	char bytes[CMSG_SPACE(sizeof(struct ucred)) +
		   CMSG_SPACE(N_SOCKETS * sizeof(int))];
	struct cmsghdr aligned;
};
#define ROOM_FOR_SENDER CMSG_SPACE(sizeof(struct ucred))

/* Does a user send it whom we trust?  *@n_fds: descriptors that have come, to @fds. */
static bool read_control(struct msghdr *msg, int *fds, size_t *n_fds)
{
	bool is_ours = false;

	*n_fds = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_CREDENTIALS) {
			struct ucred who;

			memcpy(&who, CMSG_DATA(c), sizeof(who));
			is_ours = trust_allows(who.uid);
		} else if (c->cmsg_type == SCM_RIGHTS) {
			*n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			memcpy(fds, CMSG_DATA(c), *n_fds * sizeof(int));
		}
	}
	return is_ours;
}

/* The next message, which stays there: is it of a user whom we trust, and has it
 * descriptors?  False: there is none. */
static bool look(int fd, bool *is_ours, bool *has_fds)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	union mail_control control;
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = ROOM_FOR_SENDER };
	size_t n_fds;

	if (libc.recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT) < 0)
		return false;
	*is_ours = read_control(&msg, NULL, &n_fds);
	*has_fds = msg.msg_flags & MSG_CTRUNC;
	return true;
}

/* One message.  Bytes behind its head, or -1: there is none, or it is a stranger's. */
static ssize_t receive_mail(struct mail *m, void *bytes, size_t size,
			    struct sockaddr_un *from, socklen_t *from_len)
{
	struct iovec iov[2] = { { m, sizeof(*m) }, { bytes, size } };
	struct msghdr msg = { .msg_name = from,
			      .msg_namelen = sizeof(*from),
			      .msg_iov = iov,
			      .msg_iovlen = 2 };
	bool is_ours, has_fds;

	if (wire.is_deaf || !look(wire.mail, &is_ours, &has_fds))
		return -1;
	if (has_fds) {
		store_rlx(&wire.is_deaf, true);
		libc.shutdown(wire.mail, SHUT_RD);
		return -1;
	}
	ssize_t n = libc.recvmsg(wire.mail, &msg, MSG_DONTWAIT);
	if (n < 0)
		return -1;
	if (!is_ours || n < (ssize_t)sizeof(*m) || m->magic != MAGIC ||
	    msg.msg_flags & MSG_TRUNC) {
		m->kind = 0;
		return 0;
	}
	*from_len = msg.msg_namelen;
	return n - (ssize_t)sizeof(*m);
}

static void give(const struct sockaddr_un *to, socklen_t len)
{
	struct mail m = { .magic = MAGIC, .kind = MAIL_GIVE };
	struct iovec iov = { &m, sizeof(m) };
	union {
		char bytes[CMSG_SPACE(N_SOCKETS * sizeof(int))];
		struct cmsghdr aligned;
	} control = { 0 };
	struct msghdr msg = { .msg_name = (void *)to,
			      .msg_namelen = len,
			      .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(N_SOCKETS * sizeof(int));
	memcpy(CMSG_DATA(c), wire.fds, N_SOCKETS * sizeof(int));
	(void)libc.sendmsg(wire.mail, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool wire_read_mail(uint8_t *bytes, size_t size, struct wire_packets *out)
{
	struct sockaddr_un from;
	socklen_t len = 0;
	struct mail m;
	ssize_t n = receive_mail(&m, bytes, size, &from, &len);

	out->n = 0;
	if (n < 0)
		return false;
	if (m.kind == MAIL_WANT && len > sizeof(sa_family_t))
		give(&from, len);
	if (m.kind == MAIL_PACKETS && m.part)
		*out =
		    (struct wire_packets){ m.flow, bytes, (size_t)n, m.part };
	return true;
}

static bool send_mail(const struct mail *m, const void *bytes, size_t n,
		      const char *to)
{
	struct sockaddr_un un;
	struct iovec iov[2] = { { (void *)m, sizeof(*m) },
				{ (void *)bytes, n } };
	struct msghdr msg = { .msg_name = &un,
			      .msg_namelen = name_of(&un, to),
			      .msg_iov = iov,
			      .msg_iovlen = n ? 2 : 1 };

	return libc.sendmsg(wire.mail, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

void wire_forward(const struct wire_packets *p, uint32_t block)
{
	const struct mail m = { .magic = MAGIC,
				.kind = MAIL_PACKETS,
				.flow = p->flow,
				.part = p->part };
	char name[16];

	/* If its mail is full, or it is gone, the packets are lost. */
	snprintf(name, sizeof(name), "%u", block);
	(void)send_mail(&m, p->bytes, p->n, name);
}

/*
 * Opening.
 */

/* If descriptors are queued there, to close the socket might sleep: it stays open. */
static void ask_close(int fd)
{
	bool is_ours, has_fds;
	char byte;

	libc.shutdown(fd, SHUT_RD); /* nothing more comes */
	while (look(fd, &is_ours, &has_fds)) {
		if (has_fds) {
			n_left_open++;
			return;
		}
		(void)libc.recv(fd, &byte, 1, MSG_DONTWAIT);
	}
	libc.close(fd);
}

/* A socket to which only the process with name @who can send, or -errno. */
static int ask_socket(const char *who)
{
	const struct sockaddr_un any = { .sun_family = AF_UNIX };
	struct sockaddr_un un;
	socklen_t len = name_of(&un, who);
	int fd = mail_socket(&any, sizeof(any.sun_family), true);

	if (fd >= 0 && libc.connect(fd, (struct sockaddr *)&un, len)) {
		int err = -errno;

		ask_close(fd);
		return err;
	}
	return fd;
}

/* What it has answered: true with the port's sockets in @fds. */
static bool take_answer(int fd, int *fds)
{
	struct mail m = { 0 };
	struct iovec iov = { &m, sizeof(m) };
	union mail_control control;
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	bool is_ours, has_fds;
	size_t n_fds;

	if (!look(fd, &is_ours, &has_fds) || !is_ours || !has_fds)
		return false;
	for (uint32_t i = 0; i < N_SOCKETS; i++)
		fds[i] = -1;
	if (libc.recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
		return false;
	(void)read_control(&msg, fds, &n_fds);
	if (m.magic == MAGIC && m.kind == MAIL_GIVE && n_fds == N_SOCKETS)
		return true;
	close_all(fds);
	return false;
}

/* Ask the process with name @who, which may be a stranger's. */
static bool ask(const char *who, int *fds)
{
	const struct mail want = { .magic = MAGIC, .kind = MAIL_WANT };
	int fd = n_left_open < LEFT_OPEN_MAX ? ask_socket(who) : -1;
	struct pollfd pfd = { fd, POLLIN, 0 };

	if (fd < 0)
		return false;
	bool has = libc.send(fd, &want, sizeof(want),
			     MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 &&
		   libc.poll(&pfd, 1, ANSWER_MS) > 0 && take_answer(fd, fds);
	ask_close(fd);
	return has;
}

/* Calls @visit with the name of each other process, until it returns true. */
static bool each_name(bool (*visit)(const char *who, void *arg), void *arg)
{
	static const char prefix[] = "@osf-roce/";
	FILE *f = fopen("/proc/net/unix", "re");
	char line[512], own[16];
	bool found = false;

	snprintf(own, sizeof(own), "%u", self_current->block);
	while (f && !found && fgets(line, sizeof(line), f)) {
		char *who = strstr(line, prefix);

		if (!who)
			continue;
		who += sizeof(prefix) - 1;
		who[strcspn(who, "\n")] = '\0';
		if (*who >= '0' && *who <= '9' && strcmp(who, own))
			found = visit(who, arg);
	}
	if (f)
		fclose(f);
	return found;
}

static bool ask_one(const char *who, void *fds) { return ask(who, fds); }

static bool ask_all(int *fds) { return each_name(ask_one, fds); }

static bool forward_one(const char *who, void *packets)
{
	const struct wire_packets *p = packets;
	const struct mail m = { .magic = MAGIC,
				.kind = MAIL_PACKETS,
				.flow = p->flow,
				.part = p->part };

	(void)send_mail(&m, p->bytes, p->n, who);
	return false;
}

void wire_forward_all(const struct wire_packets *p)
{
	each_name(forward_one, (void *)p);
}

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

static bool is_our_port(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	return !libc.getsockname(fd, (struct sockaddr *)&ss, &len) &&
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

/* One process at a time opens the port.  Nobody can send to the socket, or connect to it.
 * -EADDRINUSE: it has been somebody else's turn for long, perhaps a stranger's, who is not to
 * stop us. */
static int take_turn(void)
{
	uint64_t until = now_ns() + OPENING_NS;
	struct sockaddr_un un;
	socklen_t len = name_of(&un, "opening");
	int err, fd = libc.socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	while (
	    (err = libc.bind(fd, (struct sockaddr *)&un, len) ? -errno : 0) ==
		-EADDRINUSE &&
	    now_ns() < until)
		usleep(1000);
	if (!err)
		return fd;
	libc.close(fd);
	return err;
}

int wire_open_port(void)
{
	struct self *s = self_get();
	struct sockaddr_un un;
	char name[16];
	int fds[N_SOCKETS];

	if (!s)
		return -errno;
	snprintf(name, sizeof(name), "%u", s->block);
	socklen_t len = name_of(&un, name);
	if (wire.mail < 0)
		wire.mail = mail_socket(&un, len, false);
	if (wire.mail < 0)
		return wire.mail;
	int turn = take_turn();
	if (turn < 0 && turn != -EADDRINUSE)
		return turn;
	int err = make_if_free(fds);
	if (err == -EADDRINUSE && ask_all(fds))
		err = is_our_port(fds[0]) ? 0 : -EADDRINUSE;
	if (turn >= 0)
		libc.close(turn);
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
	if (wire.mail >= 0)
		libc.close(wire.mail);
}
