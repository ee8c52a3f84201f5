/* SPDX-License-Identifier: MIT */
/*
 * tests/vma/modes.c - what sockperf does with VMA's extra API, checked byte by byte
 *
 *     modes server MODE tcp|udp PORT          answers each message with itself
 *     modes client MODE tcp|udp PORT DUMMIES  sends messages, one after the other
 *
 *     MODE    plain   recvfrom() when epoll_wait() says so
 *             filter  the callback answers, and drops the packet (--vmarxfiltercb)
 *             zcopy   recvfrom_zcopy(), packets walked by their sizes (--vmazcopyread)
 *             xtreme  completions, 1024 at once, freed before the next poll (-F x)
 *
 * DUMMIES sends with VMA_SND_FLAGS_DUMMY come before each message (--dummy-send).  A
 * message is its length, its number, and bytes that follow from both.  The client's last
 * one has the number LAST; a server ends with it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <mellanox/vma_extra.h>

#define MESSAGES 3000u
#define LAST UINT32_MAX
#define BYTES_MAX 1400u
#define FDS 1024
#define COMPLETIONS 1024

enum mode { PLAIN, FILTER, ZCOPY, XTREME };

struct head {
	uint32_t len, number;
};

/* What has come of a message on a descriptor. */
static struct part {
	uint32_t n;
	uint8_t bytes[BYTES_MAX];
} parts[FDS];

static struct vma_api_t *api;
static bool is_udp, is_over, is_server;
static uint32_t n_got; /* of a client: answers */

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "modes: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint32_t len_of(uint32_t number)
{
	return number == LAST ? sizeof(struct head)
			      : 14 + number * 7919 % (BYTES_MAX - 14);
}

static uint8_t byte_of(uint32_t number, uint32_t i)
{
	return (uint8_t)(number * 31 + i);
}

static void message(uint32_t number, uint8_t *to)
{
	struct head h = { len_of(number), number };

	memcpy(to, &h, sizeof(h));
	for (uint32_t i = sizeof(h); i < h.len; i++)
		to[i] = byte_of(number, i);
}

/* A whole message on @fd. */
static void take_message(int fd, const uint8_t *b, uint32_t len,
			 const struct sockaddr_in *from)
{
	struct head h;

	memcpy(&h, b, sizeof(h));
	need(h.len == len && len == len_of(h.number), "a message's length");
	for (uint32_t i = sizeof(h); i < len; i++)
		need(b[i] == byte_of(h.number, i), "a message's bytes");
	if (is_server)
		need(sendto(fd, b, len, 0,
			    is_udp ? (const struct sockaddr *)from : NULL,
			    is_udp ? sizeof(*from) : 0) == (ssize_t)len,
		     "sendto");
	else
		need(h.number == LAST || h.number == n_got, "the order");
	n_got++;
	is_over |= h.number == LAST;
}

/* The next @n bytes of @fd.  Messages of a stream may come in parts. */
static void take(int fd, const void *data, size_t n,
		 const struct sockaddr_in *from)
{
	const uint8_t *b = data;
	struct part *p = &parts[fd];

	need(fd < FDS, "a low descriptor");
	if (is_udp) {
		take_message(fd, b, (uint32_t)n, from);
		return;
	}
	while (n) {
		uint32_t len = sizeof(struct head);

		if (p->n >= len)
			memcpy(&len, p->bytes, sizeof(len));
		need(len <= BYTES_MAX, "a message's length");
		uint32_t more = len - p->n < n ? len - p->n : (uint32_t)n;
		memcpy(p->bytes + p->n, b, more);
		p->n += more;
		b += more;
		n -= more;
		memcpy(&len, p->bytes, sizeof(len));
		if (p->n >= sizeof(struct head) && p->n == len) {
			p->n = 0;
			take_message(fd, p->bytes, len, from);
		}
	}
}

static vma_recv_callback_retval_t on_packet(int fd, size_t n,
					    struct iovec iov[],
					    struct vma_info_t *info,
					    void *context)
{
	for (size_t i = 0; i < n; i++)
		take(fd, iov[i].iov_base, iov[i].iov_len, info->src);
	return VMA_PACKET_DROP;
}

/* Walks the packets as sockperf does: behind each other, as long as each says. */
static ssize_t take_in_place(int fd)
{
	static uint8_t buf[65536];
	struct vma_packets_t *pkts = (struct vma_packets_t *)buf;
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int flags = 0;
	int r = api->recvfrom_zcopy(fd, buf, sizeof(buf), &flags,
				    (struct sockaddr *)&from, &len);

	if (r <= 0)
		return r;
	need(flags & MSG_VMA_ZCOPY, "MSG_VMA_ZCOPY");
	uint8_t *at = (uint8_t *)pkts->pkts;
	for (size_t i = 0; i < pkts->n_packet_num; i++) {
		struct vma_packet_t *p = (struct vma_packet_t *)at;

		for (size_t j = 0; j < p->sz_iov; j++)
			take(fd, p->iov[j].iov_base, p->iov[j].iov_len, &from);
		at += offsetof(struct vma_packet_t, iov) +
		      p->sz_iov * sizeof(struct iovec);
	}
	need(!api->free_packets(fd, pkts->pkts, pkts->n_packet_num),
	     "free_packets");
	return r;
}

/* -1, 0 at the end, or else. */
static ssize_t take_ready(int fd, enum mode mode)
{
	static uint8_t buf[65536];
	struct sockaddr_in from;
	socklen_t len = sizeof(from);

	if (mode == ZCOPY)
		return take_in_place(fd);
	ssize_t n =
	    recvfrom(fd, buf, sizeof(buf), mode == FILTER ? MSG_DONTWAIT : 0,
		     (struct sockaddr *)&from, &len);
	if (n > 0)
		take(fd, buf, (size_t)n, &from);
	return n < 0 && errno == EAGAIN ? 1 : n;
}

static void prepare(int fd, enum mode mode)
{
	int on = 1;

	if (!is_udp)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (mode == FILTER)
		need(!api->register_recv_callback(fd, on_packet, NULL),
		     "register_recv_callback");
}

/* Until the last message, or the end of all connections. */
static void by_epoll(int fd, enum mode mode, bool listens)
{
	int ep = epoll_create1(0);
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	need(!epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), "epoll_ctl");
	while (!is_over) {
		int n = epoll_wait(ep, &ev, 1, 10);

		need(n >= 0, "epoll_wait");
		if (!n)
			continue;
		if (listens && ev.data.fd == fd) {
			int s = accept(fd, NULL, NULL);

			need(s >= 0, "accept");
			prepare(s, mode);
			ev = (struct epoll_event){ EPOLLIN, { .fd = s } };
			need(!epoll_ctl(ep, EPOLL_CTL_ADD, s, &ev), "epoll");
		} else if (take_ready(ev.data.fd, mode) <= 0) {
			close(ev.data.fd);
		}
	}
	close(ep);
}

/* One poll: the completions of the one before are freed first. */
static void poll_ring(int ring)
{
	static struct vma_completion_t c[COMPLETIONS];
	static int n;

	for (int i = 0; i < n; i++)
		if (c[i].events & VMA_SOCKETXTREME_PACKET)
			need(!api->socketxtreme_free_vma_packets(&c[i].packet,
								 1),
			     "socketxtreme_free_vma_packets");
	memset(c, 0, (size_t)n * sizeof(*c));
	n = api->socketxtreme_poll(ring, c, COMPLETIONS, 0);
	need(n >= 0, "socketxtreme_poll");
	for (int i = 0; i < n; i++) {
		int fd = (int)c[i].user_data;

		if (c[i].events & VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED)
			prepare(fd, XTREME);
		if (!(c[i].events & VMA_SOCKETXTREME_PACKET))
			continue;
		struct vma_buff_t *b = c[i].packet.buff_lst;
		for (; b; b = b->next)
			take(fd, b->payload, b->len, &c[i].src);
	}
}

static int ring_of(int fd)
{
	int ring = -1;

	need(api->get_socket_rings_num(fd) == 1 &&
		 api->get_socket_rings_fds(fd, &ring, 1) == 1,
	     "get_socket_rings_fds");
	return ring;
}

static void serve(int fd, enum mode mode)
{
	int ring;

	if (mode != XTREME) {
		by_epoll(fd, mode, !is_udp);
		return;
	}
	ring = ring_of(fd);
	while (!is_over)
		poll_ring(ring);
}

static void ask(int fd, enum mode mode, unsigned n_dummies)
{
	int ring = mode == XTREME ? ring_of(fd) : -1;
	uint8_t b[BYTES_MAX];

	for (uint32_t i = 0; i <= MESSAGES; i++) {
		uint32_t number = i == MESSAGES ? LAST : i;
		uint32_t len = len_of(number), before = n_got;

		message(number, b);
		for (unsigned k = 0; k < n_dummies; k++)
			need(send(fd, b, len, VMA_SND_FLAGS_DUMMY) ==
				 (ssize_t)len,
			     "a dummy send");
		need(send(fd, b, len, 0) == (ssize_t)len, "send");
		while (n_got == before)
			if (mode == XTREME)
				poll_ring(ring);
			else
				need(take_ready(fd, mode) > 0, "an answer");
	}
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "plain", "filter", "zcopy",
					     "xtreme" };
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	enum mode mode = PLAIN;
	int on = 1;

	need(argc >= 5, "words");
	alarm(60);
	while (mode < XTREME && strcmp(names[mode], argv[2]))
		mode++;
	is_server = !strcmp(argv[1], "server");
	is_udp = !strcmp(argv[3], "udp");
	a.sin_port = htons((uint16_t)atoi(argv[4]));
	api = vma_get_api();
	need(api || mode == PLAIN, "VMA's extra API");
	int fd = socket(AF_INET, is_udp ? SOCK_DGRAM : SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (is_server) {
		need(!bind(fd, (struct sockaddr *)&a, sizeof(a)), "bind");
		need(is_udp || !listen(fd, 10), "listen");
		puts("ready");
		fflush(stdout);
		if (is_udp)
			prepare(fd, mode);
		serve(fd, mode);
	} else {
		need(!connect(fd, (struct sockaddr *)&a, sizeof(a)), "connect");
		prepare(fd, mode);
		ask(fd, mode, argc > 5 ? (unsigned)atoi(argv[5]) : 0);
	}
	printf("%u messages\n", n_got);
	return 0;
}
