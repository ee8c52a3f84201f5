/* SPDX-License-Identifier: MIT */
/* tests/xlio/test_end.c - how connections end, and destroying in every callback */
#include "xlio_test.h"

#include <fcntl.h>
#include <sys/wait.h>

#define FLUSH XLIO_SOCKET_SEND_FLAG_FLUSH
#define INLINE XLIO_SOCKET_SEND_FLAG_INLINE

static void an_unconnected_socket_is_terminated_in_500_us(void)
{
	struct end *e;
	double best = 1;

	world_open(0);
	for (int i = 0; i < 20; i++) {
		e = end_new(w->client, AF_INET);
		double start = now();
		end_destroy(e);
		EXPECT(!e->is_gone); /* from polling, not from destroy */
		UNTIL(e->is_gone);
		best = now() - start < best ? now() - start : best;
	}
	EXPECT(best < 500e-6); /* others use the machine, too */
	world_close();
}

static void bound_and_listening_sockets_are_terminated(void)
{
	world_open(0);
	end_destroy(w->listening);
	UNTIL(w->listening->is_gone);
	struct end *e = end_new(w->client, AF_INET);
	EXPECT_EQ(xlio_socket_connect(e->sock, (struct sockaddr *)&w->addr,
				      w->addr_len),
		  0);
	end_destroy(e); /* while connecting: no ERROR of it */
	UNTIL(e->is_gone);
	EXPECT_EQ(e->n_error, 0);
	world_close();
}

static void what_was_sent_before_destroy_is_delivered(void)
{
	static uint8_t data[8 << 20];
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	s->key = 5;
	stream_fill(data, 5, 0, sizeof(data));
	end_send(c, data, sizeof(data) - 9, FLUSH);
	end_send(c, data + sizeof(data) - 9, 9, 0); /* not flushed */
	end_destroy(c);
	UNTIL(c->is_gone && s->n_closed);
	EXPECT_EQ(c->n_comps, 2);
	EXPECT_EQ(s->received, sizeof(data)); /* CLOSED comes after all */
	world_close();
}

/* The peer has bytes for us that nobody will read: it still gets ours. */
static void unread_bytes_do_not_cost_the_peer_ours(void)
{
	static uint8_t data[100000];
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	s->key = 5;
	stream_fill(data, 5, 0, sizeof(data));
	end_send(s, data, sizeof(data), FLUSH);
	end_send(c, data, sizeof(data), FLUSH);
	end_destroy(c);
	while (!c->is_gone)
		xlio_poll_group_poll(w->client);
	UNTIL(s->received == sizeof(data) && (s->n_closed || s->n_error));
	world_close();
}

static void a_half_closed_connection_takes_bytes_still(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t len = sizeof(in);
	char got[8];

	world_open(0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	memcpy(&in, &w->addr, sizeof(in));
	EXPECT_EQ(connect(fd, (struct sockaddr *)&in, len), 0);
	UNTIL(w->listening->n_accepted == 1);
	struct end *s = w->newest;
	EXPECT_EQ(shutdown(fd, SHUT_WR), 0);
	UNTIL(s->n_closed);
	end_send(s, "still", 5, FLUSH);
	UNTIL(s->n_comps == 1);
	EXPECT_EQ(recv(fd, got, sizeof(got), MSG_WAITALL | MSG_DONTWAIT), 5);
	EXPECT_EQ(memcmp(got, "still", 5), 0);
	close(fd);
	world_close();
}

static void linger_without_time_resets(void)
{
	struct linger l = { .l_onoff = 1 };
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	EXPECT_EQ(xlio_socket_setsockopt(c->sock, SOL_SOCKET, SO_LINGER, &l,
					 sizeof(l)),
		  0);
	end_destroy(c);
	UNTIL(c->is_gone && (s->n_error || s->n_closed));
	EXPECT_EQ(s->n_error, 1);
	EXPECT_EQ(s->error, ECONNRESET);
	struct xlio_socket_send_attr attr = { .flags = FLUSH };
	EXPECT_ERR(xlio_socket_send(s->sock, "x", 1, &attr), ECONNRESET);
	EXPECT_ERR(xlio_socket_connect(s->sock, (struct sockaddr *)&w->addr,
				       w->addr_len),
		   ECONNABORTED);
	poll_n(100);
	EXPECT(!s->is_gone); /* until it is destroyed */
	world_close();
}

/*
 * Destroying in every callback.
 */

static int when; /* the event at which the client destroys itself */

static void destroy_at_event(struct end *e, int event, int value)
{
	(void)value;
	if (event == when && !e->is_accepted && e != w->listening)
		end_destroy(e);
}

static void destroy_when_established(void)
{
	world_open(0);
	w->on_event = destroy_at_event;
	when = XLIO_SOCKET_EVENT_ESTABLISHED;
	struct end *e = end_connect();
	UNTIL(e->is_gone);
	EXPECT_EQ(e->n_error, 0);
	UNTIL(w->listening->n_accepted && w->newest->n_closed);
	world_close();
}

static void destroy_when_closed(void)
{
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	w->on_event = destroy_at_event;
	when = XLIO_SOCKET_EVENT_CLOSED;
	end_destroy(s);
	UNTIL(c->is_gone && s->is_gone);
	EXPECT_EQ(c->n_closed, 1);
	world_close();
}

static void destroy_at_error(void)
{
	struct linger l = { .l_onoff = 1 };
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	end_send(c, "not flushed", 11, 0);
	w->on_event = destroy_at_event;
	when = XLIO_SOCKET_EVENT_ERROR;
	EXPECT_EQ(xlio_socket_setsockopt(s->sock, SOL_SOCKET, SO_LINGER, &l,
					 sizeof(l)),
		  0);
	end_destroy(s);
	UNTIL(c->is_gone && s->is_gone);
	EXPECT_EQ(c->n_error, 1);
	EXPECT_EQ(c->n_comps, 1);
	world_close();
}

static bool destroy_self(struct end *e, void *data, size_t len,
			 struct xlio_buf *buf)
{
	(void)data, (void)len, (void)buf;
	if (e->is_accepted)
		end_destroy(e);
	return false;
}

static void destroy_when_data_comes(void)
{
	static uint8_t data[1 << 20];
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	w->on_rx = destroy_self; /* and then no more data: see on_rx() */
	end_send(c, data, sizeof(data), FLUSH);
	UNTIL(s->is_gone);
	EXPECT(s->received > 0);
	world_close();
}

static void destroy_one(struct end *e, uintptr_t op)
{
	(void)op;
	if (!e->is_destroyed)
		end_destroy(e);
}

static void destroy_at_a_completion(void)
{
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	w->on_comp = destroy_one;
	for (int i = 0; i < 50; i++)
		end_send(c, "abc", 3, i == 40 ? FLUSH : 0);
	UNTIL(c->is_gone);
	EXPECT_EQ(c->n_comps, 50);
	UNTIL(s->n_closed);
	EXPECT_EQ(s->received, 150);
	world_close();
}

static void destroy_child(struct end *e) { end_destroy(e); }
static void destroy_parent(struct end *e)
{
	(void)e;
	end_destroy(w->listening);
}

static void destroy_when_accepted(void)
{
	world_open(0);
	w->on_accept = destroy_child;
	struct end *c = end_connect();
	UNTIL(c->n_closed && w->newest && w->newest->is_gone);
	w->on_accept = destroy_parent;
	w->newest = NULL;
	struct end *a = end_connect();
	struct end *b = end_connect();
	UNTIL(w->listening->is_gone && a->n_established + a->n_error &&
	      b->n_established + b->n_error);
	EXPECT(w->newest && !w->newest->is_gone);
	world_close();
}

/* Another socket, in whatever callback. */
static struct end *victim;

static void destroy_victim(struct end *e, int event, int value)
{
	(void)value;
	if (event == XLIO_SOCKET_EVENT_TERMINATED && e != victim && victim &&
	    !victim->is_destroyed)
		end_destroy(victim);
}

static void destroy_another_when_terminated(void)
{
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	victim = s;
	w->on_event = destroy_victim;
	end_destroy(c);
	UNTIL(c->is_gone && s->is_gone);
	world_close();
}

static void use_after_terminated(struct end *e, int event, int value)
{
	struct xlio_socket_send_attr attr = { 0 };

	(void)value;
	if (event != XLIO_SOCKET_EVENT_TERMINATED)
		return;
	EXPECT_ERR(xlio_socket_send(e->sock, "x", 1, &attr), EINVAL);
	EXPECT_ERR(xlio_socket_destroy(e->sock), EINVAL);
	EXPECT_ERR(xlio_poll_group_destroy(w->client), EBUSY);
	EXPECT_ERR(xlio_exit(), EBUSY);
	EXPECT_EQ(osf_group_poll(w->client), -EBUSY);
	errno = 0;
	xlio_poll_group_poll(w->client);
	EXPECT_EQ(errno, EBUSY);
}

static void the_handle_is_stale_when_terminated(void)
{
	world_open(0);
	struct end *e = end_new(w->client, AF_INET);
	w->on_event = use_after_terminated;
	end_destroy(e);
	UNTIL(e->is_gone);
	w->on_event = NULL;
	world_close();
}

/*
 * Programs that run another one.
 */

static void take_turns_and_exec(const struct sockaddr_in *to, int in)
{
	world_open(0);
	struct end *e = end_new(w->client, AF_INET);
	EXPECT_EQ(xlio_socket_connect(e->sock, (const struct sockaddr *)to,
				      sizeof(*to)),
		  0);
	UNTIL(e->n_established);
	for (size_t i = 1; i <= 8; i++) {
		end_send(e, "w", 1, FLUSH | INLINE);
		UNTIL(e->received == i);
	}
	EXPECT_EQ(n_moved() > 0, is_tcp());
	end_send(e, "last", 4, FLUSH | INLINE);
	/* It goes on until the test has seen the end of the connection. */
	EXPECT_EQ(dup2(in, 0), 0);
	execl("/bin/cat", "cat", (char *)NULL);
	_exit(1);
}

static void what_was_sent_before_exec_arrives(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	char got[8];
	int status, ends[2];

	if (is_shm()) /* a peer in another process sees a ring's end */
		return;
	int l = socket(AF_INET, SOCK_STREAM, 0);
	EXPECT_EQ(bind(l, (struct sockaddr *)&in, len), 0);
	EXPECT_EQ(listen(l, 1), 0);
	EXPECT_EQ(getsockname(l, (struct sockaddr *)&in, &len), 0);
	EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (!pid)
		take_turns_and_exec(&in, ends[0]);
	int fd = accept(l, NULL, NULL);
	for (int i = 0; i < 8; i++) {
		EXPECT_EQ(recv(fd, got, 1, 0), 1);
		EXPECT_EQ(send(fd, got, 1, 0), 1);
	}
	EXPECT_EQ(recv(fd, got, 4, MSG_WAITALL), 4);
	EXPECT_EQ(memcmp(got, "last", 4), 0);
	EXPECT_EQ(recv(fd, got, 1, 0), 0);
	close(ends[1]);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
}

/*
 * Groups that end.
 */

static void a_group_is_destroyed_with_live_sockets(void)
{
	struct end *c, *s, *idle;

	world_open(0);
	pair(&c, &s);
	idle = end_new(w->client, AF_INET);
	end_send(c, "flushed", 7, FLUSH);
	end_send(c, "not flushed", 11, 0);
	EXPECT_EQ(xlio_poll_group_destroy(w->client), 0);
	EXPECT(c->is_gone && idle->is_gone);
	EXPECT_EQ(c->n_comps, 2);
	for (double end = now() + 10; !s->n_closed && !s->n_error;) {
		xlio_poll_group_poll(w->server);
		EXPECT(now() < end);
	}
	EXPECT_EQ(s->received, 7);
	end_destroy(s);
	while (!s->is_gone)
		xlio_poll_group_poll(w->server);
	EXPECT_EQ(xlio_exit(), 0);
	EXPECT(w->listening->is_gone);
}

static void exit_with_live_groups(void)
{
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	end_send(c, "not flushed", 11, 0);
	EXPECT_EQ(xlio_exit(), 0);
	EXPECT(c->is_gone && s->is_gone && w->listening->is_gone);
	EXPECT_ERR(xlio_poll_group_destroy(w->client), EINVAL);
	EXPECT_EQ(xlio_init(), 0); /* and once more */
	memset(w, 0, sizeof(*w));
	world_open(0);
	pair(&c, &s);
	world_close();
}

static void the_process_ends_with_live_groups(void)
{
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	end_send(c, "not flushed", 11, 0);
	exit(0);
}

#define T(name)                                                                \
	{                                                                      \
#name, name                                                    \
	}
const struct test tests_end[] = {
	T(an_unconnected_socket_is_terminated_in_500_us),
	T(bound_and_listening_sockets_are_terminated),
	T(what_was_sent_before_destroy_is_delivered),
	T(unread_bytes_do_not_cost_the_peer_ours),
	T(a_half_closed_connection_takes_bytes_still),
	T(linger_without_time_resets),
	T(destroy_when_established),
	T(destroy_when_closed),
	T(destroy_at_error),
	T(destroy_when_data_comes),
	T(destroy_at_a_completion),
	T(destroy_when_accepted),
	T(destroy_another_when_terminated),
	T(the_handle_is_stale_when_terminated),
	T(what_was_sent_before_exec_arrives),
	T(a_group_is_destroyed_with_live_sockets),
	T(exit_with_live_groups),
	T(the_process_ends_with_live_groups),
	{ 0 },
};
