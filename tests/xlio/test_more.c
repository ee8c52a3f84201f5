/* SPDX-License-Identifier: MIT */
/* tests/xlio/test_more.c - discovery, plain calls, pd, sleeping, other peers */
#include "xlio_test.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#define FLUSH XLIO_SOCKET_SEND_FLAG_FLUSH
#define INLINE XLIO_SOCKET_SEND_FLAG_INLINE

static void the_table_is_found_and_complete(void)
{
	struct xlio_api_t *api = xlio_get_api();
	struct xlio_api_t *at;
	socklen_t len = sizeof(at);
	char small[4];

	EXPECT(api != NULL);
	EXPECT_EQ(api->magic, XLIO_MAGIC_NUMBER);
	EXPECT_EQ(api->cap_mask, 1 << 3 | 1 << 4 | 1 << 11 | 1 << 13);
	for (void **p = (void **)&api->add_conf_rule; p < (void **)(api + 1);
	     p++)
		EXPECT(*p != NULL);
	EXPECT(api->xlio_socket_send == xlio_socket_send);
	EXPECT(api->xlio_poll_group_buf_free == xlio_poll_group_buf_free);
	EXPECT_ERR(getsockopt(-2, SOL_SOCKET, 2800, NULL, &len), EFAULT);
	EXPECT_ERR(getsockopt(-2, SOL_SOCKET, 2800, &at, NULL), EFAULT);
	len = sizeof(small);
	EXPECT_ERR(getsockopt(-2, SOL_SOCKET, 2800, small, &len), EINVAL);
	len = sizeof(at);
	EXPECT_ERR(getsockopt(-2, SOL_SOCKET, 2801, &at, &len), EBADF);
	EXPECT_ERR(getsockopt(-3, SOL_SOCKET, 2800, &at, &len), EBADF);
}

static void the_getter_with_a_size_keeps_to_it(void)
{
	struct {
		struct osf_xlio_api api;
		uint64_t behind;
	} a = { .behind = 7 };
	socklen_t len = sizeof(a.api);

	EXPECT_EQ(osf_xlio_api_get(NULL), -EINVAL);
	EXPECT_EQ(osf_xlio_api_get(&a.api), -EINVAL);
	a.api.size = sizeof(a.api);
	a.api.comp_mask = 1u << 31;
	EXPECT_EQ(osf_xlio_api_get(&a.api), -EOPNOTSUPP);
	a.api.comp_mask = OSF_XLIO_API_WAIT;
	EXPECT_EQ(osf_xlio_api_get(&a.api), 0);
	EXPECT(a.api.group_wait == osf_group_wait);
	memset(&a.api, 0, sizeof(a.api));
	a.api.size =
	    offsetof(struct osf_xlio_api, group_poll); /* older caller */
	EXPECT_EQ(osf_xlio_api_get(&a.api), 0);
	EXPECT(a.api.xlio->xlio_exit == xlio_exit && !a.api.group_poll);
	memset(&a, 0, sizeof(a));
	a.behind = 7;
	a.api.size = sizeof(a); /* newer caller */
	EXPECT_EQ(osf_xlio_api_get(&a.api), 0);
	EXPECT_EQ(a.api.size, sizeof(a.api));
	EXPECT_EQ(a.behind, 7);
	memset(&a.api, 0, sizeof(a.api));
	a.api.size = sizeof(a.api);
	EXPECT_EQ(getsockopt(-2, SOL_SOCKET, OSF_SO_XLIO_API, &a.api, &len), 0);
	EXPECT(a.api.group_fd == osf_group_fd);
}

static void plain_calls_are_sockets_calls(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	char got[8];
	int p[2];

	int l = xlio_socket(AF_INET, SOCK_STREAM, 0);
	EXPECT_EQ(xlio_bind(l, (void *)&in, len), 0);
	EXPECT_EQ(xlio_listen(l, 1), 0);
	EXPECT_EQ(xlio_getsockname(l, (void *)&in, &len), 0);
	int c = xlio_socket(AF_INET, SOCK_STREAM, 0);
	EXPECT_EQ(xlio_connect(c, (void *)&in, len), 0);
	int s = xlio_accept(l, NULL, NULL);
	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(xlio_send(c, "ask", 3, 0), 3);
		EXPECT_EQ(xlio_recv(s, got, 3, MSG_WAITALL), 3);
		EXPECT_EQ(xlio_write(s, "got", 3), 3);
		struct pollfd pfd = { .fd = c, .events = POLLIN };
		EXPECT_EQ(xlio_poll(&pfd, 1, 5000), 1);
		EXPECT_EQ(xlio_read(c, got, 3), 3);
	}
	EXPECT_EQ(shm_bytes() > 0, is_shm());
	int ep = xlio_epoll_create1(0);
	struct epoll_event ev = { .events = EPOLLIN };
	EXPECT_EQ(xlio_epoll_ctl(ep, EPOLL_CTL_ADD, s, &ev), 0);
	EXPECT_EQ(xlio_epoll_wait(ep, &ev, 1, 0), 0);
	EXPECT_EQ(xlio_fcntl(s, F_SETFL, O_NONBLOCK), 0);
	EXPECT_ERR(xlio_recv(s, got, 1, 0), EAGAIN);
	int d = xlio_dup(c);
	EXPECT_EQ(xlio_shutdown(d, SHUT_WR), 0);
	EXPECT_EQ(xlio_epoll_wait(ep, &ev, 1, 5000), 1);
	EXPECT_EQ(xlio_recv(s, got, 1, 0), 0);
	EXPECT_EQ(xlio_pipe(p), 0);
	int fds[] = { l, c, s, d, ep, p[0], p[1] };
	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		EXPECT_EQ(xlio_close(fds[i]), 0);
	EXPECT_ERR(xlio_close(s), EBADF);
}

static void rules_and_threads_leave_connections_to_the_kernel(void)
{
	char rule[100];
	struct end *c;

	EXPECT_ERR(xlio_add_conf_rule(NULL), EINVAL);
	EXPECT_ERR(xlio_add_conf_rule("use what"), EINVAL);
	EXPECT_ERR(xlio_thread_offload(2, pthread_self()), EINVAL);
	EXPECT_ERR(xlio_thread_offload(0, pthread_self() + 1), ESRCH);
	world_open(0);
	snprintf(rule, sizeof(rule), "use os tcp_client *:%u",
		 ntohs(((struct sockaddr_in *)&w->addr)->sin_port));
	EXPECT_EQ(xlio_add_conf_rule(rule), 0);
	for (int by_rule = 1; by_rule >= 0; by_rule--) {
		uint64_t before = shm_bytes();
		int n = w->listening->n_accepted;

		if (!by_rule) { /* a newer line wins */
			snprintf(rule, sizeof(rule), "use osf tcp_client *:*");
			EXPECT_EQ(xlio_add_conf_rule(rule), 0);
			EXPECT_EQ(xlio_thread_offload(0, pthread_self()), 0);
		}
		c = end_connect();
		UNTIL(c->n_established && w->listening->n_accepted > n);
		struct end *s = w->newest;
		for (size_t i = 1; i < 20; i++) {
			end_send(c, "x", 1, FLUSH | INLINE);
			UNTIL(s->received == i);
			end_send(s, "y", 1, FLUSH | INLINE);
			UNTIL(c->received == i);
		}
		EXPECT_EQ(shm_bytes(), before);
	}
	EXPECT_EQ(xlio_thread_offload(1, pthread_self()), 0);
	struct end *d;
	pair(&c, &d); /* and now it is offloaded again */
	EXPECT_EQ(xlio_dump_fd_stats(0, 0), 0);
	EXPECT_ERR(xlio_dump_fd_stats(-1, 0), EBADF);
	EXPECT_ERR(xlio_dump_fd_stats(999999, 0), EBADF);
	world_close();
}

struct ibv_mr {
	void *context, *pd, *addr;
	size_t length;
	uint32_t handle, lkey, rkey;
};

static void memory_is_registered_on_the_pd(void)
{
	struct ibv_mr *(*reg)(struct ibv_pd *, void *, size_t, int) =
	    (struct ibv_mr * (*)(struct ibv_pd *, void *, size_t, int))
		dlsym(RTLD_DEFAULT, "ibv_reg_mr");
	struct ibv_mr *(*reg2)(struct ibv_pd *, void *, size_t, uint64_t,
			       unsigned) =
	    (struct ibv_mr *
	     (*)(struct ibv_pd *, void *, size_t, uint64_t, unsigned))
		dlsym(RTLD_DEFAULT, "ibv_reg_mr_iova2");
	int (*dereg)(struct ibv_mr *) =
	    (int (*)(struct ibv_mr *))dlsym(RTLD_DEFAULT, "ibv_dereg_mr");
	uint64_t foreign[4] = { 0 };
	char data[64];
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	struct ibv_pd *pd = xlio_socket_get_pd(c->sock);
	EXPECT(pd && pd == xlio_socket_get_pd(s->sock));
	struct ibv_mr *a = reg(pd, data, sizeof(data), 1);
	struct ibv_mr *b = reg2(pd, data, sizeof(data), 0, 1);
	EXPECT(a && b && a->lkey && b->lkey && a->lkey != b->lkey);
	EXPECT(a->addr == data && a->length == sizeof(data) && a->pd == pd);
	struct xlio_socket_send_attr attr = { .flags = FLUSH, .mkey = a->lkey };
	EXPECT_EQ(xlio_socket_send(c->sock, data, sizeof(data), &attr), 0);
	UNTIL(s->received == sizeof(data));
	EXPECT_EQ(dereg(a), 0);
	EXPECT_EQ(dereg(b), 0);
	if (dlsym(RTLD_DEFAULT, "osf_sockets_pd")) {
		world_close();
		return; /* libosf-verbs.so knows libibverbs by itself */
	}
	/* Another's goes to libibverbs; its stand-in is loaded by run.py. */
	errno = 0;
	a = reg((struct ibv_pd *)foreign, data, 1, 0);
	if (getenv("OSF_TEST_VERBS")) {
		EXPECT(a != NULL);
		EXPECT_EQ(a->lkey, 0x5eed);
		EXPECT_EQ(dereg(a), 77);
	} else {
		EXPECT(!a);
		EXPECT_EQ(errno, ENOSYS);
		EXPECT_EQ(dereg((struct ibv_mr *)foreign), ENOSYS);
	}
	world_close();
}

/* Of the process's own descriptors, which has this pacing rate? */
static int n_paced(unsigned long want)
{
	int n = 0;

	for (int fd = 3; fd < 1024; fd++) {
		unsigned long rate = 0;
		socklen_t len = sizeof(rate);

		if (!getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate,
				&len) &&
		    rate == want)
			n++;
	}
	return n;
}

static void a_pacing_rate_is_in_kilobits(void)
{
	struct xlio_rate_limit_t limit = { .rate = 8001,
					   .max_burst_sz = 100000,
					   .typical_pkt_sz = 1500 };
	uint32_t bytes = 123456;
	unsigned long raw = 654321;

	world_open(0);
	struct end *e = end_new(w->client, AF_INET);
	EXPECT_EQ(xlio_socket_setsockopt(e->sock, SOL_SOCKET,
					 SO_MAX_PACING_RATE, &limit,
					 sizeof(limit)),
		  0);
	EXPECT_EQ(n_paced(1000125), 1);
	EXPECT_EQ(xlio_socket_setsockopt(e->sock, SOL_SOCKET,
					 SO_MAX_PACING_RATE, &bytes,
					 sizeof(bytes)),
		  0);
	EXPECT_EQ(n_paced(123456), 1);
	for (socklen_t len = 0; len < 20; len++)
		if (len != 4 && len != sizeof(limit))
			EXPECT_ERR(xlio_socket_setsockopt(e->sock, SOL_SOCKET,
							  SO_MAX_PACING_RATE,
							  &limit, len),
				   EINVAL);
	EXPECT_EQ(n_paced(123456), 1);
	limit.rate = 0; /* no limit */
	EXPECT_EQ(xlio_socket_setsockopt(e->sock, SOL_SOCKET,
					 SO_MAX_PACING_RATE, &limit,
					 sizeof(limit)),
		  0);
	EXPECT_EQ(n_paced(123456), 0);
	/* By a plain call: libxlio's struct, and what Linux takes. */
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	limit.rate = 16;
	EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &limit,
			     sizeof(limit)),
		  0);
	EXPECT_EQ(n_paced(2000), 1);
	EXPECT_EQ(
	    setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &raw, sizeof(raw)),
	    0);
	EXPECT_EQ(n_paced(654321), 1);
	close(fd);
	world_close();
}

static void a_ring_logic_is_taken_by_either_call(void)
{
	struct xlio_ring_alloc_logic_attr attr = {
		.comp_mask = XLIO_RING_ALLOC_MASK_RING_USER_ID,
		.ring_alloc_logic = RING_LOGIC_PER_SOCKET,
	};

	world_open(0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	xlio_socket_t sock = end_new(w->client, AF_INET)->sock;
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_XLIO_RING_ALLOC_LOGIC,
				     &attr, sizeof(attr)),
			  0);
		EXPECT_EQ(xlio_socket_setsockopt(sock, SOL_SOCKET,
						 SO_XLIO_RING_ALLOC_LOGIC,
						 &attr, sizeof(attr)),
			  0);
		attr = (struct xlio_ring_alloc_logic_attr){ 0 };
	}
	for (int i = 0; i < 2; i++) {
		EXPECT_ERR(setsockopt(fd, SOL_SOCKET, SO_XLIO_RING_ALLOC_LOGIC,
				      &attr, i ? sizeof(attr) : 1),
			   EINVAL);
		EXPECT_ERR(xlio_socket_setsockopt(sock, SOL_SOCKET,
						  SO_XLIO_RING_ALLOC_LOGIC,
						  &attr, i ? sizeof(attr) : 1),
			   EINVAL);
		attr.comp_mask = 8;
	}
	EXPECT_ERR(setsockopt(fd, SOL_SOCKET, SO_XLIO_RING_ALLOC_LOGIC, NULL,
			      sizeof(attr)),
		   EFAULT);
	close(fd);
	attr.comp_mask = 0;
	EXPECT_ERR(setsockopt(fd, SOL_SOCKET, SO_XLIO_RING_ALLOC_LOGIC, &attr,
			      sizeof(attr)),
		   EBADF);
	world_close();
}

static void a_vlan_has_twelve_bits(void)
{
	static const int values[] = { 0, 1, 4095, 4096, -1 };
	uint16_t half = 1;

	world_open(0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	xlio_socket_t sock = end_new(w->client, AF_INET)->sock;
	for (int i = 0; i < 5; i++) {
		int r = i < 3 ? 0 : -1;

		errno = EINVAL;
		EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_XLIO_EXT_VLAN_TAG,
				     &values[i], sizeof(values[i])),
			  r);
		EXPECT_EQ(xlio_socket_setsockopt(sock, SOL_SOCKET,
						 SO_XLIO_EXT_VLAN_TAG,
						 &values[i], sizeof(values[i])),
			  r);
		EXPECT_EQ(errno, EINVAL);
	}
	EXPECT_ERR(setsockopt(fd, SOL_SOCKET, SO_XLIO_EXT_VLAN_TAG, &half,
			      sizeof(half)),
		   EINVAL);
	close(fd);
	world_close();
}

/*
 * Sleeping.
 */

static struct end *waker;
static xlio_poll_group_t wakers;

static void *wake(void *arg)
{
	(void)arg;
	for (int i = 0; i < 200; i++) {
		usleep(i % 5 * 300);
		EXPECT_EQ(xlio_poll_group_buf_free == NULL, 0);
		end_send(waker, "x", 1, FLUSH | INLINE);
		size_t want = waker->received + 1;
		for (double end = now() + 10; waker->received < want;) {
			xlio_poll_group_poll(wakers);
			EXPECT(now() < end);
		}
	}
	return NULL;
}

static bool answer(struct end *e, void *data, size_t len, struct xlio_buf *buf)
{
	(void)buf;
	if (e != waker)
		end_send(e, data, len, FLUSH | INLINE);
	return false;
}

static void a_waiting_thread_is_woken(void)
{
	pthread_t thread;
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	waker = c;
	wakers = w->client;
	w->on_rx = answer;
	EXPECT_EQ(pthread_create(&thread, NULL, wake, NULL), 0);
	while (s->received < 200)
		EXPECT(osf_group_wait(w->server, 5000) > 0);
	pthread_join(thread, NULL);
	world_close();
}

static void on_alarm(int sig) { (void)sig; }

static void waiting_ends_at_the_timeout_or_a_signal(void)
{
	struct itimerval t = { .it_value.tv_usec = 30000 };
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	poll_n(100);
	double start = now();
	EXPECT_EQ(osf_group_wait(w->client, 50), 0);
	EXPECT(now() - start > 0.045);
	EXPECT_EQ(osf_group_wait(w->client, 0), 0);
	sigaction(SIGALRM, &(struct sigaction){ .sa_handler = on_alarm }, NULL);
	setitimer(ITIMER_REAL, &t, NULL);
	EXPECT_EQ(osf_group_wait(w->client, 20000), -EINTR);
	EXPECT(now() - start < 10);
	world_close();
}

/* What only time tells: a completion that waits for the peer's acknowledgement. */
static void waiting_for_a_completion(void)
{
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	end_send(c, "x", 1, FLUSH);
	for (double end = now() + 10; !c->n_comps;) {
		EXPECT(osf_group_wait(w->client, 1000) >= 0);
		EXPECT(now() < end);
	}
	world_close();
}

/* A sender whose ring or socket is full sleeps until there is room. */
static void *drain(void *arg)
{
	size_t want = *(size_t *)arg;
	struct end *s = w->newest;

	usleep(20000);
	while (s->received < want)
		if (osf_group_wait(w->server, 1000) < 0)
			break;
	return NULL;
}

static void waiting_for_room(void)
{
	static uint8_t data[24 << 20];
	size_t want = sizeof(data);
	pthread_t thread;
	struct end *c, *s;
	int n = 0;

	world_open(0);
	pair(&c, &s);
	end_send(c, data, sizeof(data), FLUSH);
	EXPECT_EQ(pthread_create(&thread, NULL, drain, &want), 0);
	for (double end = now() + 10; !c->n_comps; n++) {
		EXPECT(osf_group_wait(w->client, 1000) >= 0);
		EXPECT(now() < end);
	}
	pthread_join(thread, NULL);
	EXPECT_EQ(s->received, want);
	world_close();
}

static void a_group_is_waited_for_by_its_descriptor(void)
{
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	int ep = epoll_create1(0), fd = osf_group_fd(w->server);
	struct epoll_event ev = { .events = EPOLLIN };
	EXPECT(fd >= 0);
	EXPECT_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), 0);
	for (int i = 0; i < 20; i++) {
		int armed;

		/* A late acknowledgement may come over the port at any time. */
		do {
			while ((armed = osf_group_arm(w->server)) == 1)
				EXPECT(osf_group_poll(w->server) >= 0);
			EXPECT_EQ(armed, 0);
		} while (is_tcp() && epoll_wait(ep, &ev, 1, 0) == 1);
		EXPECT_EQ(epoll_wait(ep, &ev, 1, 0), 0);
		end_send(c, "x", 1, FLUSH | INLINE);
		EXPECT_EQ(epoll_wait(ep, &ev, 1, 5000), 1);
		for (double end = now() + 10; s->received < (size_t)(i + 1);) {
			EXPECT(osf_group_poll(w->server) >= 0);
			EXPECT(now() < end);
		}
	}
	close(ep);
	world_close();
}

static void polling_counts_callbacks(void)
{
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	poll_n(100);
	EXPECT_EQ(osf_group_poll(w->client), 0);
	end_destroy(c);
	EXPECT_EQ(osf_group_poll(w->client), 1);
	EXPECT(c->is_gone);
	world_close();
}

static bool answer_accepted(struct end *e, void *data, size_t len,
			    struct xlio_buf *buf)
{
	(void)buf;
	if (e->is_accepted)
		end_send(e, data, len, FLUSH | INLINE);
	return false;
}

/* No look at a socket that has nothing, and no question about it. */
static void a_message_by_the_kernel_takes_two_system_calls(void)
{
	unsigned *n_recvs = dlsym(RTLD_DEFAULT, "n_recvs");
	unsigned *n_sends = dlsym(RTLD_DEFAULT, "n_sends");
	unsigned *n_others = dlsym(RTLD_DEFAULT, "n_others");
	struct end *c[100], *s;
	size_t n_bytes = 0, want;

	if (is_shm() || !getenv("OSF_TEST_CALLS"))
		return;
	EXPECT(n_recvs && n_sends && n_others);
	world_open(0);
	for (int i = 0; i < 100; i++)
		pair(&c[i], &s);
	w->on_rx = answer_accepted;
	poll_n(100);
	unsigned recvs = *n_recvs, sends = *n_sends, others = *n_others;
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 100; i++)
			end_send(c[i], "x", 1, FLUSH | INLINE);
		want = n_bytes += 100;
		for (int i = 0; i < 100; i++)
			UNTIL(c[i]->received == want / 100);
	}
	EXPECT_EQ(*n_recvs - recvs, 2000);
	EXPECT_EQ(*n_sends - sends, 2000);
	EXPECT_EQ(*n_others - others, 0);
	world_close();
}

/*
 * Peers that use plain calls: under osf, as this process does, or on the kernel.
 */

static void *plain_client(void *arg)
{
	char got[3000];

	(void)arg;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	EXPECT_EQ(connect(fd, (struct sockaddr *)&w->addr, w->addr_len), 0);
	for (int i = 0; i < 300; i++) {
		size_t len = 1 + (size_t)i * 10 % sizeof(got);

		memset(got, i, len);
		EXPECT_EQ(send(fd, got, len, 0), (ssize_t)len);
		memset(got, 0xdd, len);
		EXPECT_EQ(recv(fd, got, len, MSG_WAITALL), (ssize_t)len);
		for (size_t k = 0; k < len; k++)
			EXPECT_EQ((uint8_t)got[k], (uint8_t)i);
	}
	close(fd);
	return NULL;
}

static void a_peer_with_plain_calls_is_served(void)
{
	pthread_t thread;

	world_open(0);
	w->on_rx = answer;
	EXPECT_EQ(pthread_create(&thread, NULL, plain_client, NULL), 0);
	UNTIL(w->newest && w->newest->n_closed);
	pthread_join(thread, NULL);
	EXPECT_EQ(shm_bytes() > 0, is_shm());
	world_close();
}

#define T(name)                                                                \
	{                                                                      \
#name, name                                                    \
	}
const struct test tests_more[] = {
	T(the_table_is_found_and_complete),
	T(the_getter_with_a_size_keeps_to_it),
	T(plain_calls_are_sockets_calls),
	T(rules_and_threads_leave_connections_to_the_kernel),
	T(memory_is_registered_on_the_pd),
	T(a_pacing_rate_is_in_kilobits),
	T(a_ring_logic_is_taken_by_either_call),
	T(a_vlan_has_twelve_bits),
	T(a_waiting_thread_is_woken),
	T(waiting_ends_at_the_timeout_or_a_signal),
	T(waiting_for_a_completion),
	T(waiting_for_room),
	T(a_group_is_waited_for_by_its_descriptor),
	T(polling_counts_callbacks),
	T(a_message_by_the_kernel_takes_two_system_calls),
	T(a_peer_with_plain_calls_is_served),
	{ 0 },
};
