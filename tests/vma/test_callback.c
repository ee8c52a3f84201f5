/* SPDX-License-Identifier: MIT */
/* tests/vma/test_callback.c - receive callbacks: DROP, RECV, HOLD in each call */
#include "watch.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <sys/wait.h>

static void sees_what_arrives_on(struct ends *e)
{
	begin(e);
	say(e, "received", 8);
	reads(e->rx, "received");
	EXPECT_EQ(seen.n, 1);
	EXPECT_EQ(seen.fd, e->rx);
	EXPECT(seen.context == &seen);
	EXPECT_EQ(seen.size, 8);
	EXPECT_EQ(seen.iov_size, 8);
	EXPECT_EQ(seen.info_size, 80);
	EXPECT_EQ(seen.queued, 0);
	EXPECT(!memcmp(&seen.src, &e->tx_addr, sizeof(seen.src)));
	EXPECT_EQ(seen.dst.sin_port, e->rx_addr.sin_port);
	EXPECT_EQ(seen.dst.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
}

static void the_callback_sees_what_arrives(void)
{
	over_both(sees_what_arrives_on);
}

/* Each call that reads, on bytes and datagrams that come one after another. */
enum { READ, READV, RECV, RECVFROM, RECVMSG, RECVMMSG, CALLS };

static ssize_t read_by(int call, int fd, char *buf, size_t n, int flags)
{
	struct iovec iov[2] = { { buf, 1 }, { buf + 1, n - 1 } };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = iov, .msg_iovlen = 2 } };
	struct sockaddr_in from;
	socklen_t len = sizeof(from);

	switch (call) {
	case READ:
		return read(fd, buf, n);
	case READV:
		return readv(fd, iov, 2);
	case RECV:
		return recv(fd, buf, n, flags);
	case RECVFROM:
		return recvfrom(fd, buf, n, flags, (struct sockaddr *)&from,
				&len);
	case RECVMSG:
		return recvmsg(fd, &m.msg_hdr, flags);
	default:
		return recvmmsg(fd, &m, 1, flags, NULL) == 1 ? (int)m.msg_len
							     : -1;
	}
}

static void decides_in_each_call_on(struct ends *e)
{
	char buf[64];

	begin(e);
	for (int call = 0; call < CALLS; call++) {
		EXPECT_EQ(fcntl(e->rx, F_SETFL, O_NONBLOCK), 0);
		EXPECT_ERR(read_by(call, e->rx, buf, sizeof(buf), 0), EAGAIN);
		say(e, "drop", 4);
		EXPECT_ERR(read_by(call, e->rx, buf, sizeof(buf), 0), EAGAIN);
		say(e, "hold", 4);
		EXPECT_ERR(read_by(call, e->rx, buf, sizeof(buf), 0), EAGAIN);
		EXPECT_EQ(seen.n_held, call + 1);
		EXPECT_EQ(fcntl(e->rx, F_SETFL, 0), 0);
		say(e, "keep", 4);
		errno = 7;
		EXPECT_EQ(read_by(call, e->rx, buf, sizeof(buf), 0), 4);
		EXPECT_EQ(errno, 7);
		EXPECT(!memcmp(buf, "keep", 4));
	}
	EXPECT_EQ(seen.n, 3 * CALLS);
	for (unsigned i = 0; i < seen.n_held; i++) {
		EXPECT_EQ(seen.held[i].iov.iov_len, 4);
		EXPECT(!memcmp(seen.held[i].iov.iov_base, "hold", 4));
		EXPECT_EQ(api->free_packets(e->rx, &seen.held[i].head, 1), 0);
	}
}

static void it_decides_in_each_receiving_call(void)
{
	over_both(decides_in_each_call_on);
}

/* Each call that waits. */
enum { POLL, PPOLL, SELECT, PSELECT, EPOLL, EPOLL_EDGE, EPOLL_ONE, WAITS };

static int epoll_by(int ep, int fd, int ms)
{
	struct epoll_event ev = { 0 };
	int n = epoll_wait(ep, &ev, 1, ms);

	EXPECT(n <= 0 || (ev.events == EPOLLIN && ev.data.fd == fd));
	return n;
}

static int wait_by(int how, int ep, int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	switch (how) {
	case POLL:
		return poll(&p, 1, ms);
	case PPOLL:
		return ppoll(&p, 1, &ts, NULL);
	case SELECT:
		return select(fd + 1, &set, NULL, NULL, &tv);
	case PSELECT:
		return pselect(fd + 1, &set, NULL, NULL, &ts, NULL);
	default:
		return epoll_by(ep, fd, ms);
	}
}

static void arm(int how, int ep, int op, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	if (how == EPOLL_EDGE)
		ev.events |= EPOLLET;
	if (how == EPOLL_ONE)
		ev.events |= EPOLLONESHOT;
	if (how >= EPOLL)
		EXPECT_EQ(epoll_ctl(ep, op, fd, &ev), 0);
}

static void decides_in_each_wait_on(struct ends *e)
{
	char buf[8];

	begin(e);
	for (int how = 0; how < WAITS; how++) {
		int ep = epoll_create1(0);

		arm(how, ep, EPOLL_CTL_ADD, e->rx);
		EXPECT_EQ(wait_by(how, ep, e->rx, 0), 0);
		say(e, "drop", 4);
		EXPECT_EQ(wait_by(how, ep, e->rx, 30), 0);
		say(e, "hold", 4);
		/* As with libvma, what is held ends a poll() and a select(). */
		EXPECT_EQ(wait_by(how, ep, e->rx, how < EPOLL ? 5000 : 30),
			  how < EPOLL);
		EXPECT_EQ(wait_by(how, ep, e->rx, 0), 0);
		EXPECT_EQ(recv(e->rx, buf, 8, MSG_DONTWAIT), -1);
		EXPECT_EQ(seen.n, 3 * how + 2);
		EXPECT_EQ(seen.n_held, how + 1);
		say(e, "keep", 4);
		EXPECT_EQ(wait_by(how, ep, e->rx, 5000), 1);
		EXPECT_EQ(seen.n, 3 * how + 3);
		EXPECT_EQ(recv(e->rx, buf, 8, 0), 4);
		EXPECT(!memcmp(buf, "keep", 4));
		EXPECT_EQ(seen.n, 3 * how + 3); /* once per packet */
		EXPECT_EQ(wait_by(how, ep, e->rx, 0), 0);
		close(ep);
	}
	for (unsigned i = 0; i < seen.n_held; i++)
		EXPECT(!memcmp(seen.held[i].iov.iov_base, "hold", 4));
}

static void it_decides_in_each_call_that_waits(void)
{
	over_both(decides_in_each_wait_on);
}

/* A set that was there before the program asked for the API. */
static void an_older_epoll_set_is_known(void)
{
	struct ends e = udp_ends();
	int ep = epoll_create1(0);

	arm(EPOLL, ep, EPOLL_CTL_ADD, e.rx);
	begin(&e);
	say(&e, "drop", 4);
	EXPECT_EQ(epoll_by(ep, e.rx, 30), 0);
	EXPECT_EQ(seen.n, 1);
	say(&e, "keep", 4);
	EXPECT_EQ(epoll_by(ep, e.rx, 5000), 1);
}

/* Two descriptors with the same data: the event must reach the program. */
static void no_event_of_another_descriptor_is_lost(void)
{
	struct ends e = udp_ends(), other = udp_ends();
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 7 };
	int ep = epoll_create1(0);

	begin(&e);
	EXPECT_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, e.rx, &ev), 0);
	EXPECT_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, other.rx, &ev), 0);
	say(&other, "drop", 4);
	EXPECT_EQ(epoll_wait(ep, &ev, 1, 5000), 1);
	reads(other.rx, "drop");
	EXPECT_EQ(seen.n, 0);
}

/* Bytes behind what was accepted have not been judged yet. */
static void a_stream_is_judged_piece_by_piece(void)
{
	struct ends e = tcp_ends();
	struct pollfd p = { .fd = e.rx, .events = POLLIN };
	char buf[100];

	begin(&e);
	say(&e, "first", 5);
	EXPECT_EQ(poll(&p, 1, 5000), 1);
	say(&e, "drop", 4);
	EXPECT_EQ(recv(e.rx, buf, 2, 0), 2);
	EXPECT_EQ(recv(e.rx, buf + 2, 50, 0), 3);
	EXPECT(!memcmp(buf, "first", 5));
	EXPECT_EQ(poll(&p, 1, 0), 0);
	EXPECT_EQ(seen.n, 2);
	say(&e, "whole", 5);
	EXPECT_EQ(recv(e.rx, buf, 5, MSG_PEEK), 5);
	EXPECT_EQ(recv(e.rx, buf, 3, 0), 3);
	EXPECT_EQ(recv(e.rx, buf + 3, 2, MSG_WAITALL), 2);
	EXPECT(!memcmp(buf, "whole", 5));
	shutdown(e.tx, SHUT_WR);
	EXPECT_EQ(poll(&p, 1, 5000), 1);
	EXPECT_EQ(recv(e.rx, buf, 5, 0), 0);
}

static char big[300000], got[300000];

static void *sends_big(void *arg)
{
	size_t off = 0;

	while (off < sizeof(big)) {
		ssize_t n = send(*(int *)arg, big + off, sizeof(big) - off, 0);

		EXPECT(n > 0);
		off += (size_t)n;
	}
	return NULL;
}

static void waitall_reads_over_many_packets(void)
{
	struct ends e = tcp_ends();
	pthread_t t;

	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)('A' + i % 23);
	begin(&e);
	pthread_create(&t, NULL, sends_big, &e.tx);
	EXPECT_EQ(recv(e.rx, got, sizeof(got), MSG_WAITALL), sizeof(got));
	EXPECT(!memcmp(big, got, sizeof(big)));
	EXPECT(seen.n > 1);
	pthread_join(t, NULL);
}

/* Datagrams: truncation, empty ones, the sender's address, control messages. */
static void datagrams_stay_as_they_were(void)
{
	struct ends e = udp_ends();
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char buf[100], control[200];
	int on = 1;
	struct iovec iov = { buf, 4 };
	struct msghdr m = { .msg_name = &from,
			    .msg_namelen = sizeof(from),
			    .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };

	begin(&e);
	for (int looked = 0; looked < 2; looked++) {
		struct pollfd p = { .fd = e.rx, .events = POLLIN };

		say(&e, "", 0);
		EXPECT_EQ(looked ? poll(&p, 1, 5000) : 1, 1);
		EXPECT_EQ(recvfrom(e.rx, buf, sizeof(buf), 0,
				   (struct sockaddr *)&from, &len),
			  0);
		EXPECT(!memcmp(&from, &e.tx_addr, sizeof(from)));
		say(&e, "longer than that", 16);
		EXPECT_EQ(looked ? poll(&p, 1, 5000) : 1, 1);
		m.msg_controllen = sizeof(control);
		EXPECT_EQ(recvmsg(e.rx, &m, 0), 4);
		EXPECT_EQ(m.msg_flags, MSG_TRUNC);
		EXPECT_EQ(m.msg_controllen, 0); /* none that we have set */
		EXPECT_EQ(m.msg_namelen, sizeof(from));
		say(&e, "longer than that", 16);
		EXPECT_EQ(looked ? poll(&p, 1, 5000) : 1, 1);
		EXPECT_EQ(recv(e.rx, buf, 4, MSG_TRUNC), 16);
		setsockopt(e.rx, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
		say(&e, "time", 4);
		EXPECT_EQ(looked ? poll(&p, 1, 5000) : 1, 1);
		m.msg_controllen = sizeof(control);
		EXPECT_EQ(recvmsg(e.rx, &m, 0), 4);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		EXPECT(c && c->cmsg_type == SCM_TIMESTAMPNS);
		EXPECT(!CMSG_NXTHDR(&m, c));
		EXPECT(!memcmp(CMSG_DATA(c), &seen.sw, sizeof(seen.sw)));
		EXPECT(seen.sw.tv_sec);
		on = 0;
		setsockopt(e.rx, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
		on = 1;
	}
}

static void a_wildcard_socket_learns_the_destination(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(0x7f000005) };
	socklen_t len = sizeof(any);
	struct ends e = { .tx = socket(AF_INET, SOCK_DGRAM, 0),
			  .rx = socket(AF_INET, SOCK_DGRAM, 0) };

	EXPECT_EQ(bind(e.rx, (struct sockaddr *)&any, sizeof(any)), 0);
	EXPECT_EQ(getsockname(e.rx, (struct sockaddr *)&any, &len), 0);
	to.sin_port = any.sin_port;
	begin(&e);
	EXPECT_EQ(sendto(e.tx, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)),
		  1);
	reads(e.rx, "x");
	EXPECT(!memcmp(&seen.dst, &to, sizeof(to)));
}

/* Its ends are those that the connection has. */
static void a_callback_may_come_before_the_connection(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in own;
	int l = socket(AF_INET, SOCK_STREAM, 0);
	struct ends e = { .rx = socket(AF_INET, SOCK_STREAM, 0) };
	socklen_t len = sizeof(a);

	EXPECT_EQ(bind(l, (struct sockaddr *)&a, len), 0);
	EXPECT_EQ(listen(l, 1), 0);
	EXPECT_EQ(getsockname(l, (struct sockaddr *)&a, &len), 0);
	begin(&e);
	EXPECT_EQ(connect(e.rx, (struct sockaddr *)&a, sizeof(a)), 0);
	EXPECT_EQ(getsockname(e.rx, (struct sockaddr *)&own, &len), 0);
	e.tx = accept(l, NULL, NULL);
	say(&e, "first", 5);
	reads(e.rx, "first");
	EXPECT(!memcmp(&seen.src, &a, sizeof(a)));
	EXPECT(!memcmp(&seen.dst, &own, sizeof(own)));
}

static void is_gone_after_null_on(struct ends *e)
{
	struct pollfd p = { .fd = e->rx, .events = POLLIN };

	begin(e);
	say(e, "seen", 4);
	EXPECT_EQ(poll(&p, 1, 5000), 1);
	EXPECT_EQ(api->register_recv_callback(e->rx, NULL, NULL), 0);
	reads(e->rx, "seen");
	say(e, "drop", 4);
	EXPECT_EQ(poll(&p, 1, 5000), 1);
	reads(e->rx, "drop");
	EXPECT_EQ(seen.n, 1);
}

static void null_unregisters(void) { over_both(is_gone_after_null_on); }

static void only_sockets_of_ours_have_callbacks(void)
{
	int fds[2];

	EXPECT_EQ(pipe(fds), 0);
	EXPECT_ERR(api->register_recv_callback(fds[0], watch, NULL), EINVAL);
	EXPECT_ERR(api->register_recv_callback(-1, watch, NULL), EINVAL);
	EXPECT_ERR(api->register_recv_callback(999, watch, NULL), EINVAL);
	EXPECT_ERR(api->register_recv_callback(socket(AF_UNIX, SOCK_STREAM, 0),
					       watch, NULL),
		   EINVAL);
}

static void packets_are_freed_once_on(struct ends *e)
{
	struct ends other = udp_ends();
	char buf[8];

	begin(e);
	say(e, "hold", 4);
	EXPECT_ERR(recv(e->rx, buf, 8, MSG_DONTWAIT), EAGAIN);
	EXPECT_EQ(seen.n_held, 1);
	EXPECT_ERR(api->free_packets(e->tx, &seen.held[0].head, 1), ENOENT);
	EXPECT_ERR(api->free_packets(other.rx, &seen.held[0].head, 1), ENOENT);
	EXPECT_ERR(api->free_packets(-1, &seen.held[0].head, 1), EINVAL);
	EXPECT_EQ(api->free_packets(e->rx, &seen.held[0].head, 1), 0);
	EXPECT_ERR(api->free_packets(e->rx, &seen.held[0].head, 1), ENOENT);
	seen.held[0].head.packet_id = &seen; /* nobody's */
	EXPECT_ERR(api->free_packets(e->rx, &seen.held[0].head, 1), ENOENT);
	EXPECT_EQ(api->free_packets(e->rx, NULL, 0), 0);
	EXPECT_ERR(api->free_packets(e->rx, NULL, 1), EINVAL);
	EXPECT_ERR(api->free_packets(-1, NULL, 0), EINVAL);
	ends_close(&other);
}

static void a_packet_is_freed_once_and_by_its_socket(void)
{
	over_both(packets_are_freed_once_on);
}

static void lives_after_close_on(struct ends *e)
{
	char buf[8];
	int fd = e->rx;

	begin(e);
	say(e, "hold", 4);
	EXPECT_ERR(recv(e->rx, buf, 8, MSG_DONTWAIT), EAGAIN);
	close(e->rx);
	EXPECT(!memcmp(seen.held[0].iov.iov_base, "hold", 4));
	EXPECT_EQ(api->free_packets(fd, &seen.held[0].head, 1), 0);
	EXPECT_ERR(api->free_packets(fd, &seen.held[0].head, 1), EINVAL);
}

static void a_held_packet_outlives_its_socket(void)
{
	over_both(lives_after_close_on);
}

/* A program that never frees: an error, and all that it holds stays right. */
static vma_recv_callback_retval_t hold_all(int fd, size_t n, struct iovec iov[],
					   struct vma_info_t *info,
					   void *context)
{
	struct vma_packet_t **last = context;

	(void)fd, (void)n, (void)iov;
	*last = info->packet_id;
	return VMA_PACKET_HOLD;
}

static void holding_for_ever_ends_with_enobufs(void)
{
	struct ends e = udp_ends();
	struct vma_packet_t last = { NULL };
	struct pollfd p = { .fd = e.rx, .events = POLLIN };
	static char data[60000];
	unsigned n = 0;

	EXPECT_EQ(api->register_recv_callback(e.rx, hold_all, &last), 0);
	do {
		EXPECT(n++ < 20000);
		errno = 0;
		EXPECT_EQ(send(e.tx, data, sizeof(data), 0), sizeof(data));
		EXPECT_EQ(recv(e.rx, data, 1, MSG_DONTWAIT), -1);
	} while (errno == EAGAIN);
	EXPECT_EQ(errno, ENOBUFS);
	EXPECT(n > 1000);
	EXPECT_EQ(poll(&p, 1, 0), 1); /* so that the program learns of it */
	EXPECT_ERR(recv(e.rx, data, 1, 0), ENOBUFS);
	/* Freed from the last back, until a chunk of memory is free. */
	EXPECT_EQ(api->free_packets(e.rx, &last, 1), 0);
	EXPECT_EQ(api->register_recv_callback(e.rx, NULL, NULL), 0);
	EXPECT_EQ(recv(e.rx, data, 1, MSG_DONTWAIT), 1);
}

/* A reader that sleeps, a peer that first sends what is dropped. */
static void *reads_one(void *arg)
{
	reads(*(int *)arg, "keep");
	return NULL;
}

/* The reader has seen all that was sent, so what follows is a packet of its own. */
static void await_bytes(size_t n)
{
	while (__atomic_load_n(&seen.bytes, __ATOMIC_SEQ_CST) < n)
		sched_yield();
}

static void sleeps_over_drops_on(struct ends *e)
{
	pthread_t t;

	begin(e);
	pthread_create(&t, NULL, reads_one, &e->rx);
	for (size_t i = 1; i <= 1000; i++) {
		say(e, "drop", 4);
		if (i % 50 == 0)
			await_bytes(4 * i);
	}
	say(e, "keep", 4);
	pthread_join(t, NULL);
}

/* What it sends is dropped.  Much longer than the reader's time. */
static void *drips(void *arg)
{
	struct ends *e = arg;

	for (int i = 0;
	     i < 1000 && !__atomic_load_n(&seen.is_over, __ATOMIC_SEQ_CST);
	     i++) {
		say(e, "drop", 4);
		usleep(2000);
	}
	return __atomic_load_n(&seen.is_over, __ATOMIC_SEQ_CST) ? e : NULL;
}

static void drops_do_not_make_it_longer_on(struct ends *e)
{
	struct timeval tv = { .tv_usec = 50000 };
	char buf[64];
	int flags = 0;
	void *was_in_time;
	pthread_t t;

	for (int call = 0; call < 2; call++) {
		begin(e);
		EXPECT_EQ(
		    setsockopt(e->rx, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)),
		    0);
		EXPECT_EQ(pthread_create(&t, NULL, drips, e), 0);
		if (call)
			EXPECT_ERR(api->recvfrom_zcopy(e->rx, buf, sizeof(buf),
						       &flags, NULL, NULL),
				   EAGAIN);
		else
			EXPECT_ERR(recv(e->rx, buf, sizeof(buf), 0), EAGAIN);
		__atomic_store_n(&seen.is_over, true, __ATOMIC_SEQ_CST);
		pthread_join(t, &was_in_time);
		EXPECT(was_in_time);
	}
}

static void drops_do_not_make_a_wait_longer(void)
{
	over_both(drops_do_not_make_it_longer_on);
}

static void a_sleeping_reader_never_sees_drops(void)
{
	over_both(sleeps_over_drops_on);
}

const struct test tests_callback[] = {
#define T(name)                                                                \
	{                                                                      \
#name, name, false                                             \
	}
	T(the_callback_sees_what_arrives),
	T(it_decides_in_each_receiving_call),
	T(it_decides_in_each_call_that_waits),
	T(an_older_epoll_set_is_known),
	T(no_event_of_another_descriptor_is_lost),
	T(a_stream_is_judged_piece_by_piece),
	T(waitall_reads_over_many_packets),
	T(datagrams_stay_as_they_were),
	T(a_wildcard_socket_learns_the_destination),
	T(a_callback_may_come_before_the_connection),
	T(null_unregisters),
	T(only_sockets_of_ours_have_callbacks),
	T(a_packet_is_freed_once_and_by_its_socket),
	T(a_held_packet_outlives_its_socket),
	T(holding_for_ever_ends_with_enobufs),
	T(a_sleeping_reader_never_sees_drops),
	T(drops_do_not_make_a_wait_longer),
	{ 0 }
};
