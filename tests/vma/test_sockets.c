/* SPDX-License-Identifier: MIT */
/*
 * tests/vma/test_sockets.c - plain socket calls of programs that use VMA's extra API
 *
 * Every socket here has a receive callback that lets all packets through, so each call
 * goes the API's way and must answer as without it.
 */
#include "vma_test.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define WAIT_MS 10000

static vma_recv_callback_retval_t let_through(int fd, size_t n,
					      struct iovec iov[],
					      struct vma_info_t *info,
					      void *context)
{
	return VMA_PACKET_RECV;
}

static int filtered(int fd)
{
	EXPECT(fd >= 0);
	EXPECT_EQ(api->register_recv_callback(fd, let_through, NULL), 0);
	return fd;
}

static int new_socket(int type) { return filtered(socket(AF_INET, type, 0)); }

static struct sockaddr_in at(const char *addr, unsigned port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port) };

	EXPECT_EQ(inet_pton(AF_INET, addr, &a.sin_addr), 1);
	return a;
}

static unsigned port_of(int fd)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);

	EXPECT_EQ(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	EXPECT_EQ(len, sizeof(a));
	return ntohs(a.sin_port);
}

static int do_bind(int fd, struct sockaddr_in a)
{
	return bind(fd, (struct sockaddr *)&a, sizeof(a));
}

static int do_connect(int fd, struct sockaddr_in a)
{
	return connect(fd, (struct sockaddr *)&a, sizeof(a));
}

static int listener(void)
{
	int fd = new_socket(SOCK_STREAM);

	EXPECT_EQ(do_bind(fd, at("127.0.0.1", 0)), 0);
	EXPECT_EQ(listen(fd, 5), 0);
	return fd;
}

/* A port where nobody listens. */
static unsigned dead_port(void)
{
	int fd = new_socket(SOCK_STREAM);

	EXPECT_EQ(do_bind(fd, at("127.0.0.1", 0)), 0);
	unsigned port = port_of(fd);
	close(fd);
	return port;
}

static void bind_answers_as_the_kernel(void)
{
	const int types[] = { SOCK_STREAM, SOCK_DGRAM };

	for (int i = 0; i < 2; i++) {
		int a = new_socket(types[i]), b = new_socket(types[i]);

		EXPECT_ERR(do_bind(a, at("192.0.2.1", 0)), EADDRNOTAVAIL);
		EXPECT_EQ(do_bind(a, at("127.0.0.1", 0)), 0);
		EXPECT_ERR(do_bind(a, at("127.0.0.1", 0)), EINVAL);
		EXPECT_ERR(do_bind(b, at("127.0.0.1", port_of(a))), EADDRINUSE);
		EXPECT_ERR(bind(b, NULL, 16), EFAULT);
		EXPECT_ERR(
		    bind(b, (struct sockaddr *)&(struct sockaddr_in){ 0 }, 4),
		    EINVAL);
		close(a);
		EXPECT_EQ(do_bind(b, at("127.0.0.1", 0)), 0);
		close(b);
	}
}

static void listen_and_accept_in_the_wrong_state(void)
{
	int tcp = new_socket(SOCK_STREAM), udp = new_socket(SOCK_DGRAM);

	EXPECT_ERR(accept(tcp, NULL, NULL), EINVAL);
	EXPECT_ERR(accept(udp, NULL, NULL), EOPNOTSUPP);
	EXPECT_ERR(listen(udp, 1), EOPNOTSUPP);
	EXPECT_ERR(recv(tcp, &(char){ 0 }, 1, 0), ENOTCONN);
	EXPECT_ERR(send(tcp, "x", 1, MSG_NOSIGNAL), EPIPE);
	EXPECT_ERR(shutdown(tcp, SHUT_RDWR), ENOTCONN);
	int l = listener();
	EXPECT_EQ(fcntl(l, F_SETFL, O_NONBLOCK), 0);
	EXPECT_ERR(accept(l, NULL, NULL), EAGAIN);
	close(l);
	close(tcp);
	close(udp);
}

/* What one epoll_wait() reports, or 0 after @ms. */
static uint32_t events(int fd, uint32_t wanted, int ms)
{
	int ep = epoll_create1(0);
	struct epoll_event ev = { .events = wanted, .data.fd = fd };

	EXPECT(ep >= 0);
	EXPECT_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), 0);
	ev.events = 0;
	int n = epoll_wait(ep, &ev, 1, ms);
	EXPECT(n == 0 || (n == 1 && ev.data.fd == fd));
	close(ep);
	return n ? ev.events : 0;
}

static void a_refused_connection_is_reported_once(void)
{
	int err = 0, fd = new_socket(SOCK_STREAM | SOCK_NONBLOCK);
	socklen_t len = sizeof(err);

	EXPECT_ERR(do_connect(fd, at("127.0.0.1", dead_port())), EINPROGRESS);
	EXPECT_EQ(events(fd, 0, WAIT_MS), EPOLLERR | EPOLLHUP);
	EXPECT_EQ(events(fd, EPOLLIN | EPOLLOUT, WAIT_MS),
		  EPOLLERR | EPOLLHUP | EPOLLIN | EPOLLOUT);
	EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	EXPECT_EQ(err, ECONNREFUSED);
	EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	EXPECT_EQ(err, 0);
	close(fd);
	fd = new_socket(SOCK_STREAM);
	EXPECT_ERR(do_connect(fd, at("127.0.0.1", dead_port())), ECONNREFUSED);
	close(fd);
}

static void a_connection_that_is_made_is_writable(void)
{
	int l = listener(), fd = new_socket(SOCK_STREAM | SOCK_NONBLOCK);
	struct sockaddr_in to = at("127.0.0.1", port_of(l));

	if (is_protocol("module")) { /* which connects at once */
		EXPECT_EQ(do_connect(fd, to), 0);
		EXPECT_EQ(events(fd, EPOLLIN | EPOLLOUT, WAIT_MS), EPOLLOUT);
	} else {
		EXPECT_ERR(do_connect(fd, to), EINPROGRESS);
		EXPECT_EQ(events(fd, EPOLLIN | EPOLLOUT, WAIT_MS), EPOLLOUT);
		EXPECT_EQ(do_connect(fd, to), 0);
	}
	EXPECT_ERR(do_connect(fd, to), EISCONN);
	EXPECT_EQ(events(l, EPOLLIN, WAIT_MS), EPOLLIN);
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int s = filtered(accept(l, (struct sockaddr *)&from, &len));
	EXPECT_EQ(len, sizeof(from));
	EXPECT_EQ(ntohs(from.sin_port), port_of(fd));
	close(fd);
	close(s);
	close(l);
}

static struct ends both_filtered(void)
{
	struct ends e = tcp_ends();

	filtered(e.tx);
	filtered(e.rx);
	return e;
}

static void the_end_of_a_stream_is_seen_by_all(void)
{
	struct ends e = both_filtered();
	char buf[8];

	EXPECT_EQ(events(e.rx, EPOLLIN | EPOLLRDHUP | EPOLLOUT, 0), EPOLLOUT);
	say(&e, "last", 4);
	EXPECT_EQ(shutdown(e.tx, SHUT_WR), 0);
	EXPECT_EQ(events(e.rx, EPOLLIN | EPOLLRDHUP, WAIT_MS) & EPOLLIN,
		  EPOLLIN);
	EXPECT_EQ(recv(e.rx, buf, sizeof(buf), 0), 4);
	EXPECT_EQ(events(e.rx, EPOLLIN | EPOLLRDHUP, WAIT_MS),
		  EPOLLIN | EPOLLRDHUP);
	struct pollfd p = { .fd = e.rx, .events = POLLIN | POLLRDHUP };
	EXPECT_EQ(poll(&p, 1, WAIT_MS), 1);
	EXPECT_EQ(p.revents, POLLIN | POLLRDHUP);
	EXPECT_EQ(recv(e.rx, buf, sizeof(buf), 0), 0);
	EXPECT_EQ(recv(e.rx, buf, sizeof(buf), 0), 0);
	EXPECT_ERR(send(e.tx, "x", 1, MSG_NOSIGNAL), EPIPE);
	EXPECT_EQ(send(e.rx, "back", 4, 0), 4);
	EXPECT_EQ(recv(e.tx, buf, sizeof(buf), 0), 4);
	close(e.rx);
	EXPECT_EQ(events(e.tx, EPOLLIN | EPOLLRDHUP, WAIT_MS),
		  EPOLLIN | EPOLLRDHUP | EPOLLHUP);
	close(e.tx);
}

static void select_poll_and_epoll_agree(void)
{
	struct ends e = both_filtered();
	struct timeval none = { 0 };
	struct pollfd p[2] = { { .fd = e.rx, .events = POLLIN | POLLOUT },
			       { .fd = -1, .events = POLLIN } };
	fd_set r, w;
	char buf[8];

	for (int has = 0; has < 2; has++) {
		FD_ZERO(&r);
		FD_ZERO(&w);
		FD_SET(e.rx, &r);
		FD_SET(e.rx, &w);
		EXPECT_EQ(select(e.rx + 1, &r, &w, NULL, &none), 1 + has);
		EXPECT_EQ(FD_ISSET(e.rx, &r) != 0, has);
		EXPECT(FD_ISSET(e.rx, &w));
		EXPECT_EQ(poll(p, 2, 0), 1);
		EXPECT_EQ(p[0].revents, POLLOUT | (has ? POLLIN : 0));
		EXPECT_EQ(p[1].revents, 0);
		EXPECT_EQ(events(e.rx, EPOLLIN | EPOLLOUT, 0),
			  EPOLLOUT | (has ? EPOLLIN : 0u));
		if (!has) {
			say(&e, "x", 1);
			EXPECT_EQ(events(e.rx, EPOLLIN, WAIT_MS), EPOLLIN);
		}
	}
	EXPECT_EQ(recv(e.rx, buf, sizeof(buf), 0), 1);
	EXPECT_EQ(events(e.rx, EPOLLIN, 0), 0);
	ends_close(&e);
}

static void edges_and_oneshots_come_once(void)
{
	struct ends e = both_filtered();
	int ep = epoll_create1(0);
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	char buf[8];

	EXPECT_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, e.rx, &ev), 0);
	EXPECT_ERR(epoll_ctl(ep, EPOLL_CTL_ADD, e.rx, &ev), EEXIST);
	say(&e, "a", 1);
	EXPECT_EQ(epoll_wait(ep, &ev, 1, WAIT_MS), 1);
	/* What says twice that bytes have come makes two edges. */
	int again = epoll_wait(ep, &ev, 1, 0);
	EXPECT(again == 0 ||
	       (again == 1 && (is_protocol("module") || is_protocol("tcp"))));
	say(&e, "b", 1);
	EXPECT_EQ(epoll_wait(ep, &ev, 1, WAIT_MS), 1);
	EXPECT_EQ(recv(e.rx, buf, 1, 0), 1);
	EXPECT_EQ(recv(e.rx, buf, 1, 0), 1);
	ev.events = EPOLLIN | EPOLLONESHOT;
	EXPECT_EQ(epoll_ctl(ep, EPOLL_CTL_MOD, e.rx, &ev), 0);
	say(&e, "c", 1);
	EXPECT_EQ(epoll_wait(ep, &ev, 1, WAIT_MS), 1);
	EXPECT_EQ(epoll_wait(ep, &ev, 1, 0), 0);
	ev.events = EPOLLIN;
	EXPECT_EQ(epoll_ctl(ep, EPOLL_CTL_MOD, e.rx, &ev), 0);
	EXPECT_EQ(epoll_wait(ep, &ev, 1, WAIT_MS), 1);
	EXPECT_EQ(epoll_ctl(ep, EPOLL_CTL_DEL, e.rx, NULL), 0);
	EXPECT_ERR(epoll_ctl(ep, EPOLL_CTL_DEL, e.rx, NULL), ENOENT);
	EXPECT_EQ(epoll_wait(ep, &ev, 1, 0), 0);
	close(ep);
	ends_close(&e);
}

static void options_are_kept_and_answered(void)
{
	const int types[] = { SOCK_STREAM, SOCK_DGRAM };
	int on = 1, got;

	for (int i = 0; i < 2; i++) {
		int fd = new_socket(types[i]);
		socklen_t len = sizeof(got);

		EXPECT_EQ(
		    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)),
		    0);
		EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &got, &len),
			  0);
		EXPECT_EQ(got, 1);
		EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_TYPE, &got, &len), 0);
		EXPECT_EQ(got, types[i]);
		EXPECT_ERR(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, NULL, 4),
			   EFAULT);
		EXPECT_ERR(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &on, 1),
			   EINVAL);
		EXPECT_ERR(setsockopt(fd, SOL_SOCKET, 9999, &on, sizeof(on)),
			   ENOPROTOOPT);
		got = 2000;
		int rc = setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &got,
				    sizeof(got));
		EXPECT_EQ(rc, types[i] == SOCK_STREAM ? 0 : -1);
		close(fd);
	}
	struct ends e = both_filtered();
	char name[16], info[4];
	socklen_t len = sizeof(name);
	EXPECT_EQ(getsockopt(e.rx, IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);
	len = sizeof(info);
	EXPECT_EQ(getsockopt(e.rx, IPPROTO_TCP, TCP_INFO, info, &len), 0);
	EXPECT_EQ(len, sizeof(info));
	EXPECT_EQ(info[0], 1); /* ESTABLISHED */
	ends_close(&e);
}

static void ring_logic_is_checked_as_by_libvma(void)
{
	struct vma_ring_alloc_logic_attr attr = {
		.comp_mask = VMA_RING_ALLOC_MASK_RING_USER_ID |
			     VMA_RING_ALLOC_MASK_RING_ENGRESS,
		.ring_alloc_logic = RING_LOGIC_PER_USER_ID,
		.user_id = 100,
		.engress = 1,
	};
	int fd = new_socket(SOCK_DGRAM);

	EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, &attr,
			     sizeof(attr)),
		  0);
	EXPECT_ERR(setsockopt(fd, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, &attr,
			      sizeof(attr) - 1),
		   EINVAL);
	attr.comp_mask = 1 << 4;
	EXPECT_ERR(setsockopt(fd, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, &attr,
			      sizeof(attr)),
		   EINVAL);
	close(fd);
}

static void udp_connects_and_sends_as_ever(void)
{
	int a = new_socket(SOCK_DGRAM), b = new_socket(SOCK_DGRAM);
	static char big[70000];
	char buf[16];

	EXPECT_EQ(do_bind(a, at("127.0.0.1", 0)), 0);
	EXPECT_EQ(do_bind(b, at("127.0.0.1", 0)), 0);
	EXPECT_ERR(send(a, "x", 1, 0), EDESTADDRREQ);
	struct sockaddr_in to = at("127.0.0.1", port_of(b));
	EXPECT_ERR(
	    sendto(a, big, sizeof(big), 0, (struct sockaddr *)&to, sizeof(to)),
	    EMSGSIZE);
	struct iovec iov[3] = { { (char *)"ab", 2 },
				{ NULL, 0 },
				{ (char *)"cd", 2 } };
	struct msghdr m = { .msg_name = &to,
			    .msg_namelen = sizeof(to),
			    .msg_iov = iov,
			    .msg_iovlen = 3 };
	EXPECT_EQ(sendmsg(a, &m, 0), 4);
	EXPECT_EQ(recv(b, buf, sizeof(buf), 0), 4);
	EXPECT(!memcmp(buf, "abcd", 4));
	EXPECT_EQ(do_connect(a, to), 0);
	EXPECT_EQ(send(a, "", 0, 0), 0);
	EXPECT_EQ(recv(b, buf, sizeof(buf), 0), 0);
	/* Only the peer's datagrams, from now on. */
	int c = new_socket(SOCK_DGRAM);
	struct sockaddr_in back = at("127.0.0.1", port_of(a));
	EXPECT_EQ(sendto(c, "no", 2, 0, (struct sockaddr *)&back, sizeof(back)),
		  2);
	EXPECT_EQ(
	    sendto(b, "yes", 3, 0, (struct sockaddr *)&back, sizeof(back)), 3);
	EXPECT_EQ(recv(a, buf, sizeof(buf), 0), 3);
	EXPECT_ERR(recv(a, buf, sizeof(buf), MSG_DONTWAIT), EAGAIN);
	close(a);
	close(b);
	close(c);
}

/* Many messages, each checked, through a pair that a fork has shared out. */
static void messages_between_processes_are_whole(void)
{
	struct ends e = both_filtered();
	uint32_t n = 20000, got;
	int status;
	pid_t pid = fork();

	if (!pid) {
		close(e.rx);
		for (uint32_t i = 0; i < n; i++)
			EXPECT_EQ(send(e.tx, &i, sizeof(i), 0), sizeof(i));
		_exit(0);
	}
	close(e.tx);
	for (uint32_t i = 0; i < n; i++) {
		if (i % 3 == 0)
			EXPECT_EQ(events(e.rx, EPOLLIN, WAIT_MS) & EPOLLIN,
				  EPOLLIN);
		EXPECT_EQ(recv(e.rx, &got, sizeof(got), MSG_WAITALL),
			  sizeof(got));
		EXPECT_EQ(got, i);
	}
	EXPECT_EQ(recv(e.rx, &got, sizeof(got), 0), 0);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	close(e.rx);
}

/* A number that was closed and is another socket's must not be taken for the old one. */
static void close_range_forgets_sockets(void)
{
	union {
		struct vma_packets_t p;
		char bytes[256];
	} buf;
	struct ends t = tcp_ends(), u = udp_ends();
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int flags = 0;

	say(&t, "x", 1);
	EXPECT_EQ(
	    api->recvfrom_zcopy(t.rx, &buf, sizeof(buf), &flags, NULL, NULL),
	    1);
	EXPECT_EQ(api->free_packets(t.rx, buf.p.pkts, 1), 0);
	EXPECT_EQ(close_range((unsigned)t.rx, (unsigned)t.rx, 0), 0);
	EXPECT_EQ(fcntl(u.rx, F_DUPFD, t.rx), t.rx);
	say(&u, "datagram", 8);
	flags = 0;
	EXPECT_EQ(api->recvfrom_zcopy(t.rx, &buf, sizeof(buf), &flags,
				      (struct sockaddr *)&from, &len),
		  8);
	EXPECT_EQ(len, sizeof(from));
	EXPECT_EQ(from.sin_port, u.tx_addr.sin_port);
	close(t.tx);
	close(t.rx);
	ends_close(&u);
}

const struct test tests_sockets[] = {
#define T(name)                                                                \
	{                                                                      \
#name, name, false                                             \
	}
	T(bind_answers_as_the_kernel),
	T(listen_and_accept_in_the_wrong_state),
	T(a_refused_connection_is_reported_once),
	T(a_connection_that_is_made_is_writable),
	T(the_end_of_a_stream_is_seen_by_all),
	T(select_poll_and_epoll_agree),
	T(edges_and_oneshots_come_once),
	T(options_are_kept_and_answered),
	T(ring_logic_is_checked_as_by_libvma),
	T(udp_connects_and_sends_as_ever),
	T(messages_between_processes_are_whole),
	T(close_range_forgets_sockets),
	{ 0 }
};
