/* SPDX-License-Identifier: MIT */
/* tests/xlio/test_args.c - arguments that are wrong, and what each call says */
#include "xlio_test.h"

#include <netinet/tcp.h>

static const struct xlio_init_attr nothing;

static void *some_alloc(size_t n) { return malloc(n); }

static void init_is_once_and_checked(void)
{
	struct xlio_init_attr attr = { .flags = 1 };

	EXPECT_ERR(xlio_init_ex(NULL), EINVAL);
	EXPECT_ERR(xlio_init_ex(&attr), EINVAL);
	attr = (struct xlio_init_attr){ .memory_alloc = some_alloc };
	EXPECT_ERR(xlio_init_ex(&attr), EINVAL);
	EXPECT_EQ(xlio_init_ex(&nothing), 0);
	EXPECT_EQ(xlio_init_ex(&nothing), 0); /* as libxlio since 3.60 */
	EXPECT_EQ(xlio_init(), 0);
	attr.memory_free = free; /* too late for an allocator */
	EXPECT_ERR(xlio_init_ex(&attr), EEXIST);
	attr.flags = 1;
	EXPECT_ERR(xlio_init_ex(&attr), EINVAL);
	EXPECT_EQ(xlio_exit(), 0);
	EXPECT_EQ(xlio_exit(), 0);
	EXPECT_EQ(xlio_init_ex(&nothing), 0);
	EXPECT_EQ(xlio_exit(), 0);
}

static void errno_is_left_alone_on_success(void)
{
	struct xlio_poll_group_attr attr = world_attr(0);
	xlio_poll_group_t g;

	errno = 4711;
	EXPECT_EQ(xlio_init(), 0);
	EXPECT_EQ(xlio_poll_group_create(&attr, &g), 0);
	xlio_poll_group_poll(g);
	xlio_poll_group_flush(g);
	EXPECT_EQ(xlio_poll_group_destroy(g), 0);
	EXPECT_EQ(xlio_exit(), 0);
	EXPECT_EQ(errno, 4711);
}

static void groups_are_checked(void)
{
	struct xlio_poll_group_attr attr = world_attr(0);
	xlio_poll_group_t g = 5, old;

	EXPECT_EQ(xlio_init(), 0);
	EXPECT_ERR(xlio_poll_group_create(NULL, &g), EINVAL);
	EXPECT_ERR(xlio_poll_group_create(&attr, NULL), EINVAL);
	attr.flags = 4;
	EXPECT_ERR(xlio_poll_group_create(&attr, &g), EINVAL);
	attr = (struct xlio_poll_group_attr){ 0 };
	EXPECT_ERR(xlio_poll_group_create(&attr, &g), EINVAL);
	EXPECT_EQ(g, 5); /* written on success only */
	attr = world_attr(XLIO_GROUP_FLAG_DIRTY);
	EXPECT_EQ(xlio_poll_group_create(&attr, &g), 0);
	EXPECT(g != 0);
	EXPECT_ERR(xlio_poll_group_update(g, NULL), EINVAL);
	attr.flags = 0;
	EXPECT_ERR(xlio_poll_group_update(g, &attr), EINVAL);
	attr.flags = XLIO_GROUP_FLAG_DIRTY;
	EXPECT_EQ(xlio_poll_group_update(g, &attr), 0);
	attr.socket_event_cb = NULL;
	EXPECT_ERR(xlio_poll_group_update(g, &attr), EINVAL);
	EXPECT_EQ(xlio_poll_group_destroy(g), 0);
	old = g;
	EXPECT_ERR(xlio_poll_group_destroy(old), EINVAL);
	attr = world_attr(0);
	EXPECT_EQ(xlio_poll_group_create(&attr, &g), 0);
	EXPECT(g != old); /* another generation */
	EXPECT_ERR(xlio_poll_group_destroy(old), EINVAL);
	EXPECT_EQ(xlio_poll_group_destroy(g), 0);
}

static void sockets_are_checked(void)
{
	struct xlio_socket_attr attr = { .domain = AF_INET };
	xlio_socket_t s = 5;

	world_open(0);
	attr.group = w->client;
	EXPECT_ERR(xlio_socket_create(NULL, &s), EINVAL);
	EXPECT_ERR(xlio_socket_create(&attr, NULL), EINVAL);
	attr.domain = AF_UNIX;
	EXPECT_ERR(xlio_socket_create(&attr, &s), EINVAL);
	attr.domain = AF_INET;
	attr.flags = 1;
	EXPECT_ERR(xlio_socket_create(&attr, &s), EINVAL);
	attr.flags = 0;
	attr.group = w->listener; /* a handle of the other kind */
	EXPECT_ERR(xlio_socket_create(&attr, &s), EINVAL);
	EXPECT_EQ(s, 5);
	struct end *e = end_new(w->client, AF_INET6);
	EXPECT_ERR(xlio_socket_update(e->sock, 1, 7), EINVAL);
	world_close();
}

/* Every call that takes a handle, with one that is none. */
static void all_with(uintptr_t h)
{
	struct sockaddr_storage ss = { .ss_family = AF_INET };
	struct sockaddr *sa = (struct sockaddr *)&ss;
	struct xlio_socket_send_attr send = { .flags = 0 };
	struct xlio_poll_group_attr group = world_attr(0);
	struct iovec iov = { &ss, 1 };
	struct xlio_buf buf;
	socklen_t len = sizeof(ss);
	int one = 1;

	EXPECT_ERR(xlio_socket_destroy(h), EINVAL);
	EXPECT_ERR(xlio_socket_update(h, 0, 0), EINVAL);
	EXPECT_ERR(xlio_socket_setsockopt(h, IPPROTO_TCP, TCP_NODELAY, &one,
					  sizeof(one)),
		   EINVAL);
	EXPECT_ERR(xlio_socket_getsockname(h, sa, &len), EINVAL);
	EXPECT_ERR(xlio_socket_getpeername(h, sa, &len), EINVAL);
	EXPECT_ERR(xlio_socket_bind(h, sa, len), EINVAL);
	EXPECT_ERR(xlio_socket_connect(h, sa, len), EINVAL);
	EXPECT_ERR(xlio_socket_listen(h), EINVAL);
	EXPECT_ERR(xlio_socket_detach_group(h), EINVAL);
	EXPECT_ERR(xlio_socket_attach_group(h, w->client), EINVAL);
	EXPECT_ERR(xlio_socket_attach_group(w->listener, h), EINVAL);
	EXPECT_ERR(xlio_socket_send(h, &ss, 1, &send), EINVAL);
	EXPECT_ERR(xlio_socket_sendv(h, &iov, 1, &send), EINVAL);
	EXPECT_ERR(xlio_poll_group_destroy(h), EINVAL);
	EXPECT_ERR(xlio_poll_group_update(h, &group), EINVAL);
	errno = 0;
	EXPECT(!xlio_socket_get_pd(h));
	EXPECT_EQ(errno, EINVAL);
	errno = 0;
	xlio_poll_group_poll(h);
	EXPECT_EQ(errno, EINVAL);
	errno = 0;
	xlio_poll_group_flush(h);
	EXPECT_EQ(errno, EINVAL);
	errno = 0;
	xlio_socket_flush(h);
	EXPECT_EQ(errno, EINVAL);
	errno = 0;
	xlio_socket_buf_free(h, &buf);
	EXPECT_EQ(errno, EINVAL);
	errno = 0;
	xlio_poll_group_buf_free(h, &buf);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(osf_group_poll(h), -EINVAL);
	EXPECT_EQ(osf_group_fd(h), -EINVAL);
	EXPECT_EQ(osf_group_arm(h), -EINVAL);
	EXPECT_EQ(osf_group_wait(h, 0), -EINVAL);
}

static void handles_that_are_none_are_refused(void)
{
	static const uintptr_t nonsense[] = { 0,
					      1,
					      2,
					      3,
					      4096,
					      UINTPTR_MAX,
					      UINTPTR_MAX - 1,
					      (uintptr_t)2 << 32,
					      (uintptr_t)1 << 63,
					      0x7fff12345678 };

	world_open(0);
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(*nonsense); i++)
		all_with(nonsense[i]);
	all_with((uintptr_t)&nonsense);
	struct end *e = end_new(w->client, AF_INET);
	end_destroy(e);
	UNTIL(e->is_gone);
	all_with(e->sock); /* stale */
	struct end *again = end_new(w->client, AF_INET);
	EXPECT(again->sock != e->sock);
	all_with(e->sock);
	world_close();
}

static void pointers_that_must_be_are_checked(void)
{
	struct end *c, *s;
	struct iovec iov = { NULL, 3 };
	struct xlio_socket_send_attr attr = { .flags = 4 };
	char byte = 0;

	world_open(0);
	pair(&c, &s);
	EXPECT_ERR(xlio_socket_send(c->sock, &byte, 1, NULL), EINVAL);
	EXPECT_ERR(xlio_socket_send(c->sock, &byte, 1, &attr), EINVAL);
	attr.flags = 0;
	EXPECT_ERR(xlio_socket_send(c->sock, NULL, 1, &attr), EINVAL);
	EXPECT_ERR(xlio_socket_sendv(c->sock, NULL, 1, &attr), EINVAL);
	EXPECT_ERR(xlio_socket_sendv(c->sock, &iov, 1, &attr), EINVAL);
	EXPECT_EQ(xlio_socket_send(c->sock, NULL, 0, &attr), 0);
	EXPECT_EQ(xlio_socket_sendv(c->sock, NULL, 0, &attr), 0);
	struct end *e = end_new(w->client, AF_INET);
	EXPECT_ERR(xlio_socket_bind(e->sock, NULL, 16), EINVAL);
	EXPECT_ERR(xlio_socket_connect(e->sock, NULL, 16), EINVAL);
	EXPECT_ERR(xlio_socket_getsockname(e->sock, NULL, NULL), EFAULT);
	EXPECT_ERR(
	    xlio_socket_setsockopt(e->sock, SOL_SOCKET, SO_RCVBUF, NULL, 4),
	    EFAULT);
	EXPECT_ERR(xlio_socket_setsockopt(e->sock, SOL_SOCKET, 99999, &attr, 4),
		   ENOPROTOOPT);
	world_close();
}

static void a_socket_says_what_its_state_does_not_allow(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct xlio_socket_send_attr attr = { .flags = 0 };
	struct end *c, *s;
	char byte = 0;

	world_open(0);
	struct end *e = end_new(w->client, AF_INET);
	EXPECT_ERR(xlio_socket_send(e->sock, &byte, 1, &attr), ENOTCONN);
	EXPECT_ERR(xlio_socket_detach_group(e->sock), EINVAL);
	EXPECT_ERR(xlio_socket_attach_group(e->sock, w->client), EINVAL);
	EXPECT_ERR(
	    xlio_socket_getpeername(e->sock, (struct sockaddr *)&ss, &len),
	    ENOTCONN);
	EXPECT(!xlio_socket_get_pd(e->sock));
	EXPECT_ERR(xlio_socket_listen(e->sock), EINVAL); /* not bound */
	in.sin_family = AF_INET6;
	EXPECT_ERR(
	    xlio_socket_bind(e->sock, (struct sockaddr *)&in, sizeof(in)),
	    EAFNOSUPPORT);
	EXPECT_ERR(xlio_socket_connect(e->sock, (struct sockaddr *)&in, 1),
		   EINVAL);
	in.sin_family = AF_UNSPEC;
	EXPECT_ERR(
	    xlio_socket_connect(e->sock, (struct sockaddr *)&in, sizeof(in)),
	    EAFNOSUPPORT);
	EXPECT_EQ(xlio_socket_connect(e->sock, (struct sockaddr *)&w->addr,
				      w->addr_len),
		  0);
	EXPECT(xlio_socket_get_pd(e->sock) != NULL);
	EXPECT_ERR(xlio_socket_connect(e->sock, (struct sockaddr *)&w->addr,
				       w->addr_len),
		   EALREADY);
	EXPECT_ERR(xlio_socket_send(e->sock, &byte, 1, &attr), EAGAIN);
	EXPECT_ERR(xlio_socket_detach_group(e->sock), EINVAL);
	UNTIL(e->n_established);
	pair(&c, &s);
	EXPECT_ERR(xlio_socket_connect(c->sock, (struct sockaddr *)&w->addr,
				       w->addr_len),
		   EISCONN);
	EXPECT_ERR(xlio_socket_listen(c->sock), EINVAL);
	EXPECT_ERR(xlio_socket_attach_group(c->sock, w->server), EINVAL);
	EXPECT_ERR(xlio_socket_detach_group(w->listener), ENOTSUP);
	EXPECT_ERR(xlio_socket_connect(w->listener, (struct sockaddr *)&w->addr,
				       w->addr_len),
		   EINVAL);
	EXPECT_ERR(xlio_socket_send(w->listener, &byte, 1, &attr), ENOTCONN);
	end_destroy(c);
	EXPECT_ERR(xlio_socket_destroy(c->sock), EINVAL);
	EXPECT_ERR(xlio_socket_send(c->sock, &byte, 1, &attr), EPIPE);
	EXPECT_ERR(xlio_socket_detach_group(c->sock), EINVAL);
	world_close();
}

static void a_port_in_use_and_a_group_that_cannot_accept(void)
{
	struct xlio_poll_group_attr deaf = world_attr(0);

	world_open(0);
	struct end *e = end_new(w->server, AF_INET);
	EXPECT_ERR(
	    xlio_socket_bind(e->sock, (struct sockaddr *)&w->addr, w->addr_len),
	    EADDRINUSE);
	deaf.socket_accept_cb = NULL;
	EXPECT_EQ(xlio_poll_group_update(w->client, &deaf), 0);
	e = end_new(w->client, AF_INET);
	struct sockaddr_in in = { .sin_family = AF_INET };
	EXPECT_EQ(xlio_socket_bind(e->sock, (struct sockaddr *)&in, sizeof(in)),
		  0);
	EXPECT_ERR(xlio_socket_listen(e->sock), ENOTCONN);
	world_close();
}

static void options_are_the_kernels(void)
{
	struct end *c, *s;
	struct sockaddr_storage a, b;
	socklen_t la = sizeof(a), lb = sizeof(b);
	int on = 1;

	world_open(0);
	pair(&c, &s);
	EXPECT_EQ(xlio_socket_getpeername(c->sock, (void *)&a, &la), 0);
	EXPECT_EQ(la, w->addr_len);
	EXPECT_EQ(memcmp(&a, &w->addr, la), 0);
	la = sizeof(a);
	EXPECT_EQ(xlio_socket_getsockname(c->sock, (void *)&a, &la), 0);
	EXPECT_EQ(xlio_socket_getpeername(s->sock, (void *)&b, &lb), 0);
	EXPECT_EQ(memcmp(&a, &b, la), 0);
	EXPECT_EQ(xlio_socket_setsockopt(c->sock, IPPROTO_TCP, TCP_NODELAY, &on,
					 sizeof(on)),
		  0);
	EXPECT_EQ(xlio_socket_setsockopt(c->sock, IPPROTO_TCP, TCP_QUICKACK,
					 &on, sizeof(on)),
		  0);
	EXPECT_EQ(xlio_socket_setsockopt(c->sock, SOL_SOCKET,
					 SO_XLIO_SHUTDOWN_RX, &on, sizeof(on)),
		  0);
	world_close();
}

#define T(name)                                                                \
	{                                                                      \
#name, name                                                    \
	}
const struct test tests_args[] = {
	T(init_is_once_and_checked),
	T(errno_is_left_alone_on_success),
	T(groups_are_checked),
	T(sockets_are_checked),
	T(handles_that_are_none_are_refused),
	T(pointers_that_must_be_are_checked),
	T(a_socket_says_what_its_state_does_not_allow),
	T(a_port_in_use_and_a_group_that_cannot_accept),
	T(options_are_the_kernels),
	{ 0 },
};
