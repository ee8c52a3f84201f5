/* SPDX-License-Identifier: MIT */
/* tests/vma/test_inside.c - what a receive callback may do while a call runs it */
#include "watch.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>

static int inside_tx;

static void sends_and_asks(int fd)
{
	int type;
	socklen_t len = sizeof(type);
	char c;

	EXPECT_EQ(send(inside_tx, "again", 5, 0), 5);
	EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len), 0);
	EXPECT_ERR(recv(fd, &c, 1, 0), EAGAIN); /* nothing is before it */
	seen.inside = NULL;
}

static void may_send_on(struct ends *e)
{
	begin(e);
	inside_tx = e->tx;
	seen.inside = sends_and_asks;
	say(e, "first", 5);
	reads(e->rx, "first");
	reads(e->rx, "again");
	EXPECT_EQ(seen.n, 2);
}

static void a_callback_may_call_sockets(void) { over_both(may_send_on); }

static void closes(int fd) { close(fd); }

static void may_close_on(struct ends *e)
{
	static const char texts[3][6] = { "first", "drop", "hold" };
	char buf[8];

	for (int in_poll = 0; in_poll < 2; in_poll++) {
		for (int i = 0; i < 3; i++) {
			struct ends x = e->rx == -2 ? udp_ends() : tcp_ends();
			struct pollfd p = { .fd = x.rx, .events = POLLIN };
			int other;

			begin(&x);
			seen.inside = closes;
			say(&x, texts[i], strlen(texts[i]));
			if (in_poll)
				EXPECT(poll(&p, 1, 100) >= 0);
			else
				(void)!recv(x.rx, buf, 8, MSG_DONTWAIT);
			EXPECT_EQ(seen.n, 1);
			EXPECT_ERR(fcntl(x.rx, F_GETFD), EBADF);
			other = dup2(udp_ends().rx, x.rx);
			EXPECT_ERR(recv(other, buf, 8, MSG_DONTWAIT), EAGAIN);
			close(other);
			close(x.tx);
		}
	}
}

static void a_callback_may_close_its_socket(void)
{
	struct ends udp = { .rx = -2 }, tcp = { .rx = -1 };

	may_close_on(&udp);
	may_close_on(&tcp);
}

static void unregisters(int fd)
{
	EXPECT_EQ(api->register_recv_callback(fd, NULL, NULL), 0);
}

static void may_unregister_on(struct ends *e)
{
	begin(e);
	seen.inside = unregisters;
	say(e, "drop", 4);
	EXPECT_EQ(recv(e->rx, &inside_tx, 4, MSG_DONTWAIT), -1);
	say(e, "drop", 4);
	reads(e->rx, "drop");
	EXPECT_EQ(seen.n, 1);
}

static void a_callback_may_unregister_itself(void)
{
	over_both(may_unregister_on);
}

/* Inside of a call that waits: the call has looked at the packet, and a receiving call takes
 * it without the callback. */
static void unregisters_in_poll_on(struct ends *e)
{
	struct pollfd p = { .fd = e->rx, .events = POLLIN };

	begin(e);
	seen.inside = unregisters;
	say(e, "one", 3);
	EXPECT_EQ(poll(&p, 1, -1), 1);
	reads(e->rx, "one");
	begin(e);
	say(e, "two", 3);
	reads(e->rx, "two");
	EXPECT_EQ(seen.n, 1);
}

static void the_next_callback_sees_the_next_packet(void)
{
	over_both(unregisters_in_poll_on);
}

/* The packet that the callback drops, when it unregisters itself, is the last before a
 * reset. */
static void a_reset_after_the_last_callback_is_told(void)
{
	const struct linger at_once = { 1, 0 };
	struct pollfd gone = { .events = POLLRDHUP };

	for (int call = 0; call < 2; call++) {
		struct ends e = tcp_ends();
		fd_set set;
		char c;

		begin(&e);
		seen.inside = unregisters;
		say(&e, "drop", 4);
		EXPECT_EQ(setsockopt(e.tx, SOL_SOCKET, SO_LINGER, &at_once,
				     sizeof(at_once)),
			  0);
		EXPECT_EQ(close(e.tx), 0);
		gone.fd = e.rx;
		EXPECT_EQ(poll(&gone, 1, -1), 1);
		FD_ZERO(&set);
		FD_SET(e.rx, &set);
		EXPECT_EQ(select(e.rx + 1, &set, NULL, NULL, NULL), 1);
		EXPECT_EQ(seen.n, 1);
		int err = 0;
		socklen_t len = sizeof(err);
		if (call) {
			EXPECT_EQ(
			    getsockopt(e.rx, SOL_SOCKET, SO_ERROR, &err, &len),
			    0);
			EXPECT_EQ(err, ECONNRESET);
			EXPECT_EQ(recv(e.rx, &c, 1, 0), 0);
		} else {
			EXPECT_ERR(recv(e.rx, &c, 1, 0), ECONNRESET);
		}
		close(e.rx);
	}
}

static pid_t forked;

static void forks(int fd)
{
	char buf[8];

	seen.inside = NULL;
	forked = fork();
	if (forked)
		return;
	(void)fd;
	EXPECT_EQ(recv(inside_tx, buf, 8, MSG_DONTWAIT), -1);
	_exit(0);
}

static void may_fork_on(struct ends *e)
{
	int status;

	begin(e);
	inside_tx = e->rx;
	seen.inside = forks;
	say(e, "fork", 4);
	reads(e->rx, "fork");
	EXPECT_EQ(waitpid(forked, &status, 0), forked);
	EXPECT_EQ(status, 0);
	say(e, "more", 4);
	reads(e->rx, "more");
}

static void a_callback_may_fork(void) { over_both(may_fork_on); }

/* One thread is in a callback that waits; another one goes on, with callbacks of its own. */
static int is_inside[2], may_leave[2]; /* pipes */

static void waits(int fd)
{
	char c;

	seen.inside = NULL;
	(void)fd;
	EXPECT_EQ(write(is_inside[1], "x", 1), 1);
	EXPECT_EQ(read(may_leave[0], &c, 1), 1);
}

static vma_recv_callback_retval_t passes(int fd, size_t n_iov,
					 struct iovec iov[],
					 struct vma_info_t *info, void *context)
{
	(void)fd, (void)n_iov, (void)iov, (void)info;
	++*(unsigned *)context;
	return VMA_PACKET_RECV;
}

static void *reads_slow(void *arg)
{
	reads(*(int *)arg, "slow");
	return NULL;
}

static void may_wait_on(struct ends *e)
{
	struct ends other = tcp_ends();
	struct pollfd p = { .fd = other.rx, .events = POLLIN };
	unsigned n_passed = 0;
	pthread_t t;
	char c;

	EXPECT_EQ(pipe(is_inside) | pipe(may_leave), 0);
	EXPECT_EQ(api->register_recv_callback(other.rx, passes, &n_passed), 0);
	begin(e);
	seen.inside = waits;
	say(e, "slow", 4);
	EXPECT_EQ(pthread_create(&t, NULL, reads_slow, &e->rx), 0);
	EXPECT_EQ(read(is_inside[0], &c, 1), 1);
	for (unsigned i = 0; i < 10; i++) {
		say(&other, "fast", 4);
		EXPECT_EQ(poll(&p, 1, -1), 1);
		reads(other.rx, "fast");
		EXPECT(n_passed > i);
	}
	EXPECT_EQ(write(may_leave[1], "x", 1), 1);
	pthread_join(t, NULL);
	say(e, "next", 4);
	reads(e->rx, "next");
	EXPECT_EQ(seen.n, 2);
}

static void a_callback_may_wait(void) { over_both(may_wait_on); }

/* The callback closes another socket, which has a packet and a callback too, and the set
 * that both are in. */
static int others[2];

static void closes_others(int fd)
{
	seen.inside = NULL;
	(void)fd;
	EXPECT_EQ(close(others[0]), 0);
	if (others[1] >= 0)
		EXPECT_EQ(close(others[1]), 0);
}

static void may_close_others_on(struct ends *e)
{
	struct epoll_event evs[2] = { { .events = EPOLLIN } };
	unsigned n_passed = 0;
	char c;

	for (int in_set = 0; in_set < 2; in_set++) {
		struct ends other = tcp_ends();
		struct pollfd p[2] = { { .fd = e->rx, .events = POLLIN },
				       { .fd = other.rx, .events = POLLIN } };
		int set = in_set ? epoll_create1(0) : -1;

		others[0] = other.rx;
		others[1] = set;
		EXPECT_EQ(
		    api->register_recv_callback(other.rx, passes, &n_passed),
		    0);
		begin(e);
		seen.inside = closes_others;
		for (int i = 0; in_set && i < 2; i++)
			EXPECT_EQ(epoll_ctl(set, EPOLL_CTL_ADD, p[i].fd, evs),
				  0);
		say(e, "kept", 4);
		say(&other, "gone", 4);
		if (in_set)
			EXPECT(epoll_wait(set, evs, 2, -1) >= 0 ||
			       errno == EBADF);
		else
			EXPECT(poll(p, 2, -1) > 0 && p[0].revents == POLLIN);
		reads(e->rx, "kept");
		EXPECT(seen.n);
		EXPECT_ERR(fcntl(other.rx, F_GETFD), EBADF);
		EXPECT_ERR(recv(e->rx, &c, 1, MSG_DONTWAIT), EAGAIN);
		close(other.tx);
	}
}

static void a_callback_may_close_others(void)
{
	over_both(may_close_others_on);
}

const struct test tests_inside[] = {
#define T(name)                                                                \
	{                                                                      \
#name, name, false                                             \
	}
	T(a_callback_may_call_sockets),
	T(a_callback_may_close_its_socket),
	T(a_callback_may_unregister_itself),
	T(the_next_callback_sees_the_next_packet),
	T(a_reset_after_the_last_callback_is_told),
	T(a_callback_may_fork),
	T(a_callback_may_wait),
	T(a_callback_may_close_others),
	{ 0 }
};
