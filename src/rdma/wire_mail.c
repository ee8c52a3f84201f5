/* SPDX-License-Identifier: MIT */
/*
 * rdma/wire_mail.c - the processes that share RoCEv2's port find each other, and hand packets on
 *
 *     a new process -> MAIL_HELLO to all names -> MAIL_HERE from each process of our user
 *                   -> MAIL_WANT to one of them -> MAIL_GIVE with the port's sockets
 *     wire_forward() -> MAIL_PACKETS to the process that has the block
 *
 * Each process has a unix datagram socket with a name, osf-roce/ and a random number.  Nobody
 * can take such a name in advance.  The kernel's list of unix sockets shows the names, and
 * strangers may add some of their own.  So a name means nothing until its owner has sent us
 * mail, because the kernel says which user the sender of mail is.  From then on we keep a
 * socket that is connected to the owner: when the owner ends, that socket does not lead to a
 * process that takes the name afterwards.  Each owner has a socket of its own also because what
 * somebody does not read takes room of the sender's.
 *
 * Anybody may send to us, and what other users send is dropped.  No descriptor comes that way:
 * to let go of a stranger's socket may take a minute (SO_LINGER), and this is the program's
 * thread.  From Linux 6.16 on the kernel refuses them to the sender.  Before that, a process
 * that finds a message with descriptors does not receive it, and reads its mail no more.  The
 * sockets of the port come to a socket that is connected to who was asked, so that nobody else
 * can send to it.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/libc.h"
#include "rdma/stranger.h"
#include "rdma/wire_in.h"

#define MAGIC 0x66636f72u
#define PREFIX "osf-roce/"
#define N_DIGITS 16
#define ANSWER_MS 200
#define AGAIN_NS (100 * NS_PER_MS) /* between two searches of a process */
#define N_KNOWN 128u

enum { MAIL_WANT = 1, MAIL_GIVE, MAIL_PACKETS, MAIL_HELLO, MAIL_HERE };

struct mail {
	uint32_t magic, kind;
	uint64_t number; /* the sender's name */
	uint32_t block;  /* and its QP numbers */
	uint32_t part;
	struct roce_flow flow; /* of the bytes that follow */
};

/* A process of our user, and a socket that is connected to it. */
struct known {
	uint64_t number; /* its name; 0: none */
	uint32_t block;
	int fd;
};

/* Under rx_lock. */
static struct {
	uint64_t number; /* our name */
	uint32_t block;
	uint32_t next;
	uint64_t looked_ns;
	struct known known[N_KNOWN];
} post;

static socklen_t name_of(struct sockaddr_un *un, uint64_t number)
{
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	int n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1,
			 PREFIX "%0*" PRIx64, N_DIGITS, number);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)n);
}

/* The number in a name; 0: it is no name of ours. */
static uint64_t number_in(const char *name)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = name + strlen(PREFIX);

	return !strncmp(name, PREFIX, strlen(PREFIX)) &&
		       strspn(at, digits) == N_DIGITS
		   ? strtoull(at, NULL, 16)
		   : 0;
}

/* A unix socket with that name, or with one of the kernel's choice.  Each message says who
 * has sent it. */
static int mail_socket(const struct sockaddr_un *un, socklen_t len,
		       bool takes_descriptors)
{
	int on = 1, fd = libc.socket(
			AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (!takes_descriptors)
		stranger_refuse(fd);
	if (libc.setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ||
	    libc.bind(fd, (const struct sockaddr *)un, len)) {
		int err = -errno;

		libc.close(fd);
		return err;
	}
	return fd;
}

int mail_open(uint32_t block)
{
	struct sockaddr_un un;

	if (wire.mail >= 0)
		return 0;
	post.block = block;
	if (getrandom(&post.number, sizeof(post.number), 0) !=
	    sizeof(post.number))
		return -errno;
	socklen_t len = name_of(&un, post.number);
	int fd = mail_socket(&un, len, false);
	if (fd < 0)
		return fd;
	wire.mail = fd;
	return 0;
}

static void forget(struct known *k)
{
	if (k->number)
		libc.close(k->fd);
	k->number = 0;
}

void mail_close(void)
{
	if (wire.mail < 0)
		return;
	libc.close(wire.mail);
	wire.mail = -1;
	for (uint32_t i = 0; i < N_KNOWN; i++)
		forget(&post.known[i]);
}

/*
 * Who is there.
 */

static struct known *find(uint32_t block)
{
	for (uint32_t i = 0; i < N_KNOWN; i++)
		if (post.known[i].number && post.known[i].block == block)
			return &post.known[i];
	return NULL;
}

/* A place for a process; the place of the one that has been there for longest, if all are
 * taken. */
static struct known *place_for(uint32_t block)
{
	struct known *k = find(block);

	for (uint32_t i = 0; !k && i < N_KNOWN; i++)
		if (!post.known[i].number)
			k = &post.known[i];
	return k ? k : &post.known[post.next++ % N_KNOWN];
}

/* The process with that name has sent us mail.  NULL: it has ended. */
static struct known *learn(uint64_t number, uint32_t block)
{
	struct known *k = place_for(block);
	struct sockaddr_un un;
	socklen_t len = name_of(&un, number);

	if (k->number == number && k->block == block)
		return k;
	forget(k);
	int fd =
	    libc.socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return NULL;
	if (libc.connect(fd, (struct sockaddr *)&un, len)) {
		libc.close(fd);
		return NULL;
	}
	*k = (struct known){ number, block, fd };
	return k;
}

/* By @fd, to @to or to whom @fd is connected. */
static bool send_mail(int fd, struct mail *m, const void *bytes, size_t n,
		      const struct sockaddr_un *to, socklen_t len)
{
	struct iovec iov[2] = { { m, sizeof(*m) }, { (void *)bytes, n } };
	struct msghdr msg = { .msg_name = (void *)to,
			      .msg_namelen = len,
			      .msg_iov = iov,
			      .msg_iovlen = n ? 2 : 1 };

	m->magic = MAGIC;
	m->number = post.number;
	m->block = post.block;
	return libc.sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/* Says by *@fd who we are.  If strangers keep so many messages that it has no room for more,
 * another socket takes its place. */
static void greet(int *fd, uint64_t number)
{
	struct mail m = { .kind = MAIL_HELLO };
	struct sockaddr_un un;
	socklen_t len = name_of(&un, number);

	for (int i = 0; i < 2; i++) {
		if (*fd < 0)
			*fd =
			    libc.socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (*fd < 0 || send_mail(*fd, &m, NULL, 0, &un, len) ||
		    errno != EAGAIN)
			return;
		libc.close(*fd);
		*fd = -1;
	}
}

/* How many names there are besides ours; all get a MAIL_HELLO. */
static uint32_t greet_all(void)
{
	FILE *f = fopen("/proc/net/unix", "re");
	int fd = -1;
	char line[512];
	uint32_t n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, "@" PREFIX);
		uint64_t number = at ? number_in(at + 1) : 0;

		if (!number || number == post.number)
			continue;
		n++;
		greet(&fd, number);
	}
	if (f)
		fclose(f);
	if (fd >= 0)
		libc.close(fd);
	post.looked_ns = now_ns();
	return n;
}

static void look_again(void)
{
	if (now_ns() - post.looked_ns >= AGAIN_NS)
		(void)greet_all();
}

static uint32_t count_known(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < N_KNOWN; i++)
		n += post.known[i].number != 0;
	return n;
}

/* Until all have answered.  Strangers do not, and processes that are stopped. */
bool mail_greet(void)
{
	struct pollfd pfd = { wire.mail, POLLIN, 0 };
	uint32_t n = greet_all();
	uint64_t until = now_ns() + ANSWER_MS * NS_PER_MS, now;
	struct wire_packets none;
	uint8_t byte;

	while (count_known() < n && (now = now_ns()) < until)
		if (libc.poll(&pfd, 1, (int)((until - now) / NS_PER_MS) + 1) >
		    0)
			(void)wire_read_mail(&byte, sizeof(byte), &none);
	return n > 0;
}

/*
 * What comes.
 */

/* What the kernel says of a message, and of descriptors as many as there is room for. */
union mail_control {
	char bytes[CMSG_SPACE(sizeof(struct ucred)) +
		   CMSG_SPACE(N_SOCKETS * sizeof(int))];
	struct cmsghdr aligned;
};

/* How many descriptors have come, to @fds? */
static size_t read_control(struct msghdr *msg, int *fds)
{
	size_t n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	}
	return n;
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

	if (wire.is_deaf || !stranger_look(wire.mail, &is_ours, &has_fds))
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

/* The port's sockets, if we have them. */
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

	if (wire.fd < 0 || len <= sizeof(sa_family_t))
		return;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(N_SOCKETS * sizeof(int));
	memcpy(CMSG_DATA(c), wire.fds, N_SOCKETS * sizeof(int));
	(void)libc.sendmsg(wire.mail, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void meet(const struct mail *from)
{
	struct mail here = { .kind = MAIL_HERE };
	struct known *k =
	    from->number ? learn(from->number, from->block) : NULL;

	if (k && from->kind == MAIL_HELLO)
		(void)send_mail(k->fd, &here, NULL, 0, NULL, 0);
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
	if (m.kind == MAIL_WANT)
		give(&from, len);
	if (m.kind == MAIL_HELLO || m.kind == MAIL_HERE)
		meet(&m);
	if (m.kind == MAIL_PACKETS && m.part)
		*out =
		    (struct wire_packets){ m.flow, bytes, (size_t)n, m.part };
	return true;
}

/*
 * Packets for others.
 */

/* If its mail is full, the packets are lost.  If it has ended, we forget it. */
static void hand_on(struct known *k, const struct wire_packets *p)
{
	struct mail m = { .kind = MAIL_PACKETS,
			  .flow = p->flow,
			  .part = p->part };

	if (!send_mail(k->fd, &m, p->bytes, p->n, NULL, 0) && errno != EAGAIN &&
	    errno != ENOBUFS)
		forget(k);
}

void wire_forward(const struct wire_packets *p, uint32_t block)
{
	struct known *k = find(block);

	if (k)
		hand_on(k, p);
	else
		look_again();
}

void wire_forward_all(const struct wire_packets *p)
{
	for (uint32_t i = 0; i < N_KNOWN; i++)
		if (post.known[i].number)
			hand_on(&post.known[i], p);
	look_again();
}

/*
 * The port's sockets.
 */

/* A socket to which only that process can send, or -errno. */
static int ask_socket(uint64_t number)
{
	const struct sockaddr_un any = { .sun_family = AF_UNIX };
	struct sockaddr_un un;
	socklen_t len = name_of(&un, number);
	int fd = mail_socket(&any, sizeof(any.sun_family), true);

	if (fd >= 0 && libc.connect(fd, (struct sockaddr *)&un, len)) {
		int err = -errno;

		stranger_close(fd);
		return err;
	}
	return fd;
}

/* Descriptors that are of no use.  What is no socket of the port may take long to close. */
static void drop_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (wire_is_port(fds[i]))
			libc.close(fds[i]);
		else
			stranger_close_passed(fds[i]);
}

static bool are_port(const int *fds, size_t n)
{
	size_t i = 0;

	while (i < n && wire_is_port(fds[i]))
		i++;
	return n == N_SOCKETS && i == n;
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
	int got[N_SOCKETS];

	if (!stranger_look(fd, &is_ours, &has_fds) || !is_ours || !has_fds ||
	    libc.recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
		return false;
	size_t n = read_control(&msg, got);
	if (m.magic != MAGIC || m.kind != MAIL_GIVE || !are_port(got, n)) {
		drop_all(got, n);
		return false;
	}
	memcpy(fds, got, sizeof(got));
	return true;
}

static bool ask(uint64_t number, int *fds)
{
	struct mail want = { .kind = MAIL_WANT };
	int fd = ask_socket(number);
	struct pollfd pfd = { fd, POLLIN, 0 };

	if (fd < 0)
		return false;
	bool has = send_mail(fd, &want, NULL, 0, NULL, 0) &&
		   libc.poll(&pfd, 1, ANSWER_MS) > 0 && take_answer(fd, fds);
	stranger_close(fd);
	return has;
}

bool mail_ask_port(int *fds)
{
	for (uint32_t i = 0; i < N_KNOWN; i++)
		if (post.known[i].number && ask(post.known[i].number, fds))
			return true;
	return false;
}
