/* SPDX-License-Identifier: MIT */
/* tests/vma/test_inside.c - what a receive callback may do while a call runs it */
#include "watch.h"

#include <fcntl.h>
#include <poll.h>
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
	{ 0 }
};
