/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_greeting.c - what others say before memory is shared, any bytes
 *
 *     first byte -> which kind of message; the rest -> its bytes
 *       a greeting over a unix connection, with descriptors   hello_recv()
 *       the kernel's answer about the other end               other_end_ask()
 *
 * Besides not crashing, this holds:
 *   I1  a greeting that is taken has our magic and version, and at most HELLO_FDS
 *       descriptors
 *   I2  every descriptor that came is in the result, or closed
 *   I3  an answer is 0 or an error that other_end.h names
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/libc.h"
#include "proto/shm/elsewhere.h"
#include "proto/shm/notice.h"
#include "proto/shm/other_end.h"
#include "proto/shm/rendezvous.h"
#include "proto/shm/segment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int pair[2], passed[2];

static void send_greeting(const uint8_t *data, size_t n, unsigned n_fds)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(8 * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)data, n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	int *fds = (int *)CMSG_DATA(&control.align);

	if (n_fds) {
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		control.align = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						  .cmsg_type = SCM_RIGHTS,
						  .cmsg_len = CMSG_LEN(
						      n_fds * sizeof(int)) };
		for (unsigned i = 0; i < n_fds; i++)
			fds[i] = passed[i & 1];
	}
	ssize_t sent = sendmsg(pair[0], &msg, MSG_DONTWAIT);
	assert(sent == (ssize_t)n);
}

static int lowest_free(void)
{
	int fd = fcntl(pair[0], F_DUPFD, 0);

	close(fd);
	return fd;
}

static void try_greeting(const uint8_t *data, size_t n)
{
	unsigned n_fds = n ? data[0] % 9 : 0;
	int fds[HELLO_FDS], before = lowest_free();
	struct hello h;

	if (n < 2)
		return;
	send_greeting(data + 1, n - 1, n_fds);
	int err = hello_recv(pair[1], &h, fds);
	if (!err) {
		assert(h.magic == HELLO_MAGIC && h.version == SEG_VERSION);
		assert(n_fds <= HELLO_FDS);
	}
	for (unsigned i = 0; i < HELLO_FDS; i++) {
		assert((fds[i] >= 0) == (!err && i < n_fds));
		discard_passed(fds[i]);
	}
	assert(lowest_free() == before);
}

/* The kernel's answers, as the script has them. */
static const uint8_t *answer;
static size_t n_answer;
static uint32_t asked;

static ssize_t fake_send(int fd, const void *buf, size_t n, int flags)
{
	memcpy(&asked, (const char *)buf + 8, sizeof(asked));
	return (ssize_t)n;
}

/* A part of the script each time; the number of the question mostly right. */
static ssize_t fake_recv(int fd, void *buf, size_t n, int flags)
{
	size_t len = n_answer > 600 ? 600 : n_answer;

	if (len > n)
		len = n;
	if (len)
		memcpy(buf, answer, len);
	if (len >= 12 && ((const uint8_t *)buf)[8] != 0xff)
		memcpy((char *)buf + 8, &asked, sizeof(asked));
	answer += len;
	n_answer -= len;
	return (ssize_t)len;
}

static void try_answer(const uint8_t *data, size_t n)
{
	struct libc saved = libc;
	struct other_end e = { 0 };
	struct sockaddr_in at = { .sin_family = AF_INET };
	static int tcp[2];

	if (!tcp[0]) {
		socklen_t len = sizeof(at);
		int l = socket(AF_INET, SOCK_STREAM, 0);

		tcp[0] = socket(AF_INET, SOCK_STREAM, 0);
		at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		bind(l, (void *)&at, len);
		listen(l, 1);
		getsockname(l, (void *)&at, &len);
		connect(tcp[0], (void *)&at, len);
		tcp[1] = accept(l, NULL, NULL);
		close(l);
	}
	answer = data;
	n_answer = n;
	libc.send = fake_send;
	libc.recv = fake_recv;
	int err = other_end_ask(tcp[0], &e);
	libc = saved;
	assert(!err || err == -ENOENT || err == -EAGAIN || err == -EOPNOTSUPP);
}

static void begin(void)
{
	libc_resolve();
	socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
	passed[0] = memfd_create("greeting", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	fcntl(passed[0], F_ADD_SEALS,
	      F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	passed[1] = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (!pair[1])
		begin();
	if (n && data[0] & 1)
		try_greeting(data + 1, n - 1);
	else if (n)
		try_answer(data + 1, n - 1);
	return 0;
}
