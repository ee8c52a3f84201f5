/* SPDX-License-Identifier: MIT */
/*
 * tests/vma/test_perf.c - ping-pong and throughput as measuring programs do them
 *
 *     client process  ->  numbered messages  ->  server process, which answers by
 *                                                a callback, zero copy or recv()
 *
 * sockperf's ways: the server waits in recv(), select(), poll() or epoll_wait(); answers
 * come from inside the callback, which then drops the packet; the client makes dummy
 * sends between its messages.  Each answer is checked.
 */
#include "vma_test.h"

#include <poll.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>

#define MESSAGES 1500u
#define STREAMED 4000u
#define DUMMIES 3

enum how { BY_CALLBACK, BY_ZCOPY, BY_RECV };
enum wait { IN_RECV, IN_SELECT, IN_POLL, IN_EPOLL, WAITS };

struct message {
	uint32_t number;
	uint8_t wants_answer, is_last;
	char fill[58];
};

/* What a server has of a stream: the bytes of a message that is not whole yet. */
struct server {
	int fd;
	bool is_udp, is_done;
	uint32_t n_seen;
	size_t n_part;
	struct message part;
};

static void answer(struct server *s, const struct sockaddr_in *from)
{
	const struct message *m = &s->part;

	EXPECT_EQ(m->number, s->n_seen++);
	s->is_done |= m->is_last;
	if (!m->wants_answer)
		return;
	ssize_t n = s->is_udp
			? sendto(s->fd, m, sizeof(*m), 0,
				 (const struct sockaddr *)from, sizeof(*from))
			: send(s->fd, m, sizeof(*m), 0);
	EXPECT_EQ(n, sizeof(*m));
}

static void take(struct server *s, const char *data, size_t n,
		 const struct sockaddr_in *from)
{
	while (n) {
		size_t part = sizeof(s->part) - s->n_part;

		part = part < n ? part : n;
		memcpy((char *)&s->part + s->n_part, data, part);
		s->n_part = (s->n_part + part) % sizeof(s->part);
		data += part;
		n -= part;
		if (!s->n_part)
			answer(s, from);
	}
}

static vma_recv_callback_retval_t on_packet(int fd, size_t n,
					    struct iovec iov[],
					    struct vma_info_t *info,
					    void *context)
{
	struct server *s = context;

	for (size_t i = 0; i < n; i++)
		take(s, iov[i].iov_base, iov[i].iov_len, info->src);
	/* The last one is let through, so that the receiving call returns. */
	return s->is_done ? VMA_PACKET_RECV : VMA_PACKET_DROP;
}

static void wait_in(enum wait where, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct epoll_event ev = { .events = EPOLLIN };
	static int ep;
	fd_set r;

	switch (where) {
	case IN_SELECT:
		FD_ZERO(&r);
		FD_SET(fd, &r);
		EXPECT_EQ(select(fd + 1, &r, NULL, NULL, NULL), 1);
		return;
	case IN_POLL:
		EXPECT_EQ(poll(&p, 1, -1), 1);
		return;
	case IN_EPOLL:
		if (!ep) {
			ep = epoll_create1(0);
			EXPECT_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), 0);
		}
		EXPECT_EQ(epoll_wait(ep, &ev, 1, -1), 1);
		return;
	default:
		return;
	}
}

static void serve_zcopy(struct server *s)
{
	static char buf[4096];
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int flags = 0;
	int n = api->recvfrom_zcopy(s->fd, buf, sizeof(buf), &flags,
				    (struct sockaddr *)&from, &len);
	struct vma_packets_t *all = (void *)buf;
	char *at = (char *)all->pkts;

	EXPECT(n > 0 && flags & MSG_VMA_ZCOPY);
	for (size_t i = 0; i < all->n_packet_num; i++) {
		struct vma_packet_t *p = (void *)at;

		for (size_t j = 0; j < p->sz_iov; j++)
			take(s, p->iov[j].iov_base, p->iov[j].iov_len, &from);
		at += offsetof(struct vma_packet_t, iov) +
		      p->sz_iov * sizeof(p->iov[0]);
	}
	EXPECT_EQ(api->free_packets(s->fd, all->pkts, all->n_packet_num), 0);
}

static void serve_recv(struct server *s)
{
	static char buf[4096];
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	ssize_t n = recvfrom(s->fd, buf, sizeof(buf), 0,
			     (struct sockaddr *)&from, &len);

	EXPECT(n > 0);
	if (!s->is_done) /* else its callback has had it */
		take(s, buf, (size_t)n, &from);
}

static void serve(const struct ends *e, bool is_udp, enum how how,
		  enum wait where)
{
	struct server s = { .fd = e->rx, .is_udp = is_udp };

	if (how == BY_CALLBACK)
		EXPECT_EQ(api->register_recv_callback(e->rx, on_packet, &s), 0);
	while (!s.is_done) {
		wait_in(where, e->rx);
		if (how == BY_ZCOPY)
			serve_zcopy(&s);
		else
			serve_recv(&s);
	}
	EXPECT_EQ(s.n_seen, MESSAGES + STREAMED + 1);
}

static void send_one(int fd, uint32_t number, bool wants_answer, bool is_last)
{
	struct message m = { .number = number,
			     .wants_answer = wants_answer,
			     .is_last = is_last };

	EXPECT_EQ(send(fd, &m, sizeof(m), 0), sizeof(m));
}

static void expect_answer(int fd, uint32_t number)
{
	struct message m;

	EXPECT_EQ(recv(fd, &m, sizeof(m), MSG_WAITALL), sizeof(m));
	EXPECT_EQ(m.number, number);
}

/* Every hundredth message of the stream is answered, so that no datagram is lost. */
static void ask(int fd)
{
	static char bytes[1000];
	uint32_t i = 0;

	for (; i < MESSAGES; i++) {
		for (int j = 0; j < DUMMIES; j++)
			EXPECT_EQ(
			    send(fd, bytes, sizeof(bytes), VMA_SND_FLAGS_DUMMY),
			    sizeof(bytes));
		send_one(fd, i, true, false);
		expect_answer(fd, i);
	}
	for (; i < MESSAGES + STREAMED; i++) {
		send_one(fd, i, i % 100 == 99, false);
		if (i % 100 == 99)
			expect_answer(fd, i);
	}
	send_one(fd, i, true, true);
	expect_answer(fd, i);
}

static void run(enum how how, bool is_udp, enum wait where)
{
	struct ends e = is_udp ? udp_ends() : tcp_ends();
	int status;
	pid_t pid = fork();

	if (!pid) {
		close(e.rx);
		ask(e.tx);
		_exit(0);
	}
	close(e.tx);
	serve(&e, is_udp, how, where);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	close(e.rx);
}

#define IN_ALL_WAYS(name, how, is_udp)                                         \
	static void name(void)                                                 \
	{                                                                      \
		for (int where = 0; where < WAITS; where++) {                  \
			int status;                                            \
			pid_t pid = fork();                                    \
                                                                               \
			if (!pid) {                                            \
				run(how, is_udp, (enum wait)where);            \
				_exit(0);                                      \
			}                                                      \
			EXPECT_EQ(waitpid(pid, &status, 0), pid);              \
			EXPECT_EQ(status, 0);                                  \
		}                                                              \
	}
IN_ALL_WAYS(a_stream_is_answered_from_its_callback, BY_CALLBACK, false)
IN_ALL_WAYS(a_stream_is_answered_from_zero_copy, BY_ZCOPY, false)
IN_ALL_WAYS(a_stream_is_answered_between_dummies, BY_RECV, false)
IN_ALL_WAYS(datagrams_are_answered_from_the_callback, BY_CALLBACK, true)
IN_ALL_WAYS(datagrams_are_answered_from_zero_copy, BY_ZCOPY, true)
IN_ALL_WAYS(datagrams_are_answered_between_dummies, BY_RECV, true)

const struct test tests_perf[] = {
#define T(name)                                                                \
	{                                                                      \
#name, name, false                                             \
	}
	T(a_stream_is_answered_from_its_callback),
	T(a_stream_is_answered_from_zero_copy),
	T(a_stream_is_answered_between_dummies),
	T(datagrams_are_answered_from_the_callback),
	T(datagrams_are_answered_from_zero_copy),
	T(datagrams_are_answered_between_dummies),
	{ 0 }
};
