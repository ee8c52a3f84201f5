/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/test_cm.c - rdma_cm's device: its descriptor, and the ends of peers
 *
 *     test_cm [NAME ...]     libosf-verbs.so comes first (LD_PRELOAD)
 *
 * The tests speak to the device as librdmacm does, by write(), so that each step is seen.
 * Peers are children that are killed or stopped, or unix sockets that lie.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "cm/msg.h"
#include "ends.h"

#define CM_DEVICE "/dev/infiniband/rdma_cm"
#define NOBODY 65534
#define UID(n) (UINT64_C(1000) + (n))

enum {
	ADDR_RESOLVED = 0,
	ADDR_ERROR = 1,
	ROUTE_RESOLVED = 2,
	CONNECT_REQUEST = 4,
	CONNECT_RESPONSE = 5,
	UNREACHABLE = 7,
	REJECTED = 8,
	ESTABLISHED = 9,
	DISCONNECTED = 10,
	TIMEWAIT_EXIT = 15,
};

/* What both ends say their queue pairs are. */
static uint32_t active_qpn = 77, passive_qpn = 78;

static int cm_open(void)
{
	int fd = open(CM_DEVICE, O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

static ssize_t put(int fd, uint32_t cmd, const void *body, size_t n, size_t out)
{
	uint8_t buf[512];
	struct rdma_ucm_cmd_hdr h = { cmd, (uint16_t)n, (uint16_t)out };

	memcpy(buf, &h, sizeof(h));
	memcpy(buf + sizeof(h), body, n);
	ssize_t r = write(fd, buf, sizeof(h) + n);
	return r == (ssize_t)(sizeof(h) + n) ? 0 : -errno;
}

#define COMMAND(fd, NAME, out, ...)                                            \
	put(fd, RDMA_USER_CM_CMD_##NAME, &(__VA_ARGS__), sizeof(__VA_ARGS__),  \
	    out)

static uint32_t new_id(int fd, uint64_t uid)
{
	struct rdma_ucm_create_id_resp r = { 0 };
	struct rdma_ucm_create_id c = { .uid = uid,
					.response = (uintptr_t)&r,
					.ps = RDMA_PS_TCP };

	CHECK(!COMMAND(fd, CREATE_ID, sizeof(r), c));
	return r.id;
}

static uint32_t end_id(int fd, uint32_t id)
{
	struct rdma_ucm_destroy_id_resp r = { 0 };
	struct rdma_ucm_destroy_id c = { .response = (uintptr_t)&r, .id = id };

	CHECK(!COMMAND(fd, DESTROY_ID, sizeof(r), c));
	return r.events_reported;
}

static struct sockaddr_in6 at(const char *host, uint16_t port)
{
	union addr a = { .in = { .sin_family = AF_INET,
				 .sin_port = htons(port) } };

	CHECK(inet_pton(AF_INET, host, &a.in.sin_addr) == 1);
	return a.in6;
}

static struct rdma_ucm_query_route_resp route_of(int fd, uint32_t id)
{
	struct rdma_ucm_query_route_resp r = { 0 };
	struct rdma_ucm_query c = { .response = (uintptr_t)&r, .id = id };

	CHECK(!COMMAND(fd, QUERY_ROUTE, sizeof(r), c));
	return r;
}

static uint16_t port_of(int fd, uint32_t id)
{
	return ntohs(route_of(fd, id).src_addr.sin6_port);
}

static int bind_id(int fd, uint32_t id, const char *host, uint16_t port)
{
	struct rdma_ucm_bind_ip b = { .addr = at(host, port), .id = id };

	return (int)COMMAND(fd, BIND_IP, 0, b);
}

static uint32_t listen_at(int fd, const char *host, uint16_t *port)
{
	uint32_t id = new_id(fd, UID(1));
	struct rdma_ucm_listen l = { .id = id, .backlog = 8 };

	CHECK(!bind_id(fd, id, host, *port));
	CHECK(!COMMAND(fd, LISTEN, 0, l));
	*port = port_of(fd, id);
	return id;
}

/* The next event, which must be @kind with @status. */
static struct rdma_ucm_event_resp expect(int fd, uint32_t kind, int status)
{
	struct rdma_ucm_event_resp r;
	struct rdma_ucm_get_event c = { .response = (uintptr_t)&r };
	struct pollfd pfd = { fd, POLLIN, 0 };

	memset(&r, 0xff, sizeof(r));
	do {
		CHECK(poll(&pfd, 1, LIMIT_S * 1000) == 1);
		fcntl(fd, F_SETFL, O_NONBLOCK);
		errno = 0;
	} while (COMMAND(fd, GET_EVENT, sizeof(r), c) == -EAGAIN);
	fcntl(fd, F_SETFL, 0);
	if (r.event != kind || (int)r.status != status)
		printf("event %u, status %d\n", r.event, (int)r.status);
	CHECK(r.event == kind && (int)r.status == status);
	return r;
}

static void expect_nothing(int fd)
{
	struct rdma_ucm_event_resp r;
	struct rdma_ucm_get_event c = { .response = (uintptr_t)&r };
	struct pollfd pfd = { fd, POLLIN, 0 };

	fcntl(fd, F_SETFL, O_NONBLOCK);
	CHECK(COMMAND(fd, GET_EVENT, sizeof(r), c) == -EAGAIN);
	fcntl(fd, F_SETFL, 0);
	CHECK(poll(&pfd, 1, 0) == 0);
}

static uint32_t resolve(int fd, uint16_t port)
{
	uint32_t id = new_id(fd, UID(2));
	struct rdma_ucm_resolve_ip a = { .dst_addr = at("127.0.0.1", port),
					 .id = id };
	struct rdma_ucm_resolve_route r = { .id = id };

	CHECK(!COMMAND(fd, RESOLVE_IP, 0, a));
	expect(fd, ADDR_RESOLVED, 0);
	CHECK(!COMMAND(fd, RESOLVE_ROUTE, 0, r));
	expect(fd, ROUTE_RESOLVED, 0);
	return id;
}

static uint32_t start_connect(int fd, uint16_t port)
{
	uint32_t id = resolve(fd, port);
	struct rdma_ucm_connect c = { .id = id,
				      .conn_param = { .valid = 1,
						      .qp_num = active_qpn,
						      .responder_resources = 3,
						      .initiator_depth = 2,
						      .private_data = "hello",
						      .private_data_len = 5 } };

	CHECK(!COMMAND(fd, CONNECT, 0, c));
	return id;
}

static int accept_id(int fd, uint32_t id, int is_passive)
{
	struct rdma_ucm_accept a = { .id = id,
				     .uid = UID(3),
				     .conn_param = { .valid =
							 (uint8_t)is_passive,
						     .qp_num = passive_qpn,
						     .responder_resources = 1,
						     .initiator_depth = 1 } };

	return (int)COMMAND(fd, ACCEPT, 0, a);
}

/* Both ends here: returns the active id, *passive the other. */
static uint32_t connect_ids(int active, int passive_fd, uint16_t port,
			    uint32_t *passive)
{
	uint32_t id = start_connect(active, port);

	*passive = expect(passive_fd, CONNECT_REQUEST, 0).id;
	CHECK(!accept_id(passive_fd, *passive, 1));
	CHECK(expect(active, CONNECT_RESPONSE, 0).param.conn.qp_num ==
	      passive_qpn);
	CHECK(!accept_id(active, id, 0));
	CHECK(expect(passive_fd, ESTABLISHED, 0).uid == UID(3));
	return id;
}

/*
 * Tests.
 */

static void test_descriptor(void)
{
	struct stat st;
	int fd = cm_open(), copy;
	struct rdma_ucm_create_id c = { .response = 16, .ps = RDMA_PS_TCP };
	char byte;
	void *volatile bad = (void *)16;

	CHECK(!fstat(fd, &st) && S_ISCHR(st.st_mode));
	expect_nothing(fd);
	CHECK(read(fd, &byte, 1) < 0 && errno == EINVAL);
	CHECK(write(fd, &byte, 1) < 0 && errno == EINVAL);
	CHECK(write(fd, bad, 64) < 0 && errno == EFAULT);
	CHECK(COMMAND(fd, CREATE_ID, 4, c) == -EFAULT);
	CHECK(COMMAND(fd, GET_OPTION, 4, c) == -ENOSYS);
	CHECK(put(fd, 99, &c, sizeof(c), 4) == -EINVAL);
	copy = dup(fd);
	CHECK(copy >= 0 && !close(fd));
	uint32_t id = new_id(copy, 1);
	CHECK(end_id(copy, id) == 0);
	/* A number that was closed behind our back is the kernel's again. */
	CHECK(!close_range((unsigned)copy, (unsigned)copy, 0));
	CHECK(open("/dev/null", O_WRONLY) <= copy);
	CHECK(write(copy, &c, sizeof(c)) == sizeof(c) || errno == EBADF);
}

/* Timers of this process that run. */
static int running_timers(void)
{
	char path[64], text[512];
	int n = 0;

	for (int fd = 0; fd < 64; fd++) {
		int64_t s, ns;

		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
		FILE *f = fopen(path, "r");
		size_t length = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
		text[length] = '\0';
		const char *at = strstr(text, "it_value: (");
		if (f)
			fclose(f);
		n += at &&
		     sscanf(at, "it_value: (%" SCNd64 ", %" SCNd64, &s, &ns) ==
			 2 &&
		     (s || ns);
	}
	return n;
}

/* No time that was given to a peer runs on when it has answered, or when its id is gone: the
 * descriptor would be readable, and no event would come. */
static void test_deadlines(void)
{
	int a = cm_open(), b = cm_open();
	uint16_t port = 0;
	uint32_t passive, l = listen_at(b, "127.0.0.1", &port);
	uint32_t id = connect_ids(a, b, port, &passive);

	CHECK(running_timers() == 0);
	uint32_t other = start_connect(a, port);
	CHECK(running_timers() == 1);
	end_id(a, other);
	CHECK(running_timers() == 0);
	struct rdma_ucm_disconnect d = { .id = id };
	CHECK(!COMMAND(a, DISCONNECT, 0, d));
	expect(a, DISCONNECTED, 0);
	CHECK(running_timers() == 1);   /* until TIMEWAIT_EXIT */
	other = start_connect(a, port); /* its time is longer */
	end_id(a, id);
	CHECK(running_timers() == 1);
	end_id(a, other);
	CHECK(running_timers() == 0);
	end_id(b, l);
}

static void test_handshake(void)
{
	int a = cm_open(), b = cm_open(), set = epoll_create1(0);
	struct epoll_event ev = { .events = EPOLLIN };
	uint16_t port = 0;
	uint32_t passive, l = listen_at(b, "0.0.0.0", &port);

	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, b, &ev));
	CHECK(epoll_wait(set, &ev, 1, 0) == 0);
	uint32_t id = start_connect(a, port);
	CHECK(epoll_wait(set, &ev, 1, LIMIT_S * 1000) == 1);
	struct rdma_ucm_event_resp r = expect(b, CONNECT_REQUEST, 0);
	CHECK(r.uid == UID(1) && r.id != l);
	CHECK(r.param.conn.qp_num == 77);
	CHECK(r.param.conn.responder_resources == 2);
	CHECK(r.param.conn.initiator_depth == 3);
	CHECK(r.param.conn.private_data_len == 56);
	CHECK(!memcmp(r.param.conn.private_data, "hello\0", 6));
	CHECK(!accept_id(b, r.id, 1));
	expect(a, CONNECT_RESPONSE, 0);
	CHECK(!accept_id(a, id, 0));
	expect(b, ESTABLISHED, 0);
	struct rdma_ucm_disconnect d = { .id = id };
	CHECK(!COMMAND(a, DISCONNECT, 0, d));
	expect(a, DISCONNECTED, 0);
	expect(b, DISCONNECTED, 0);
	expect(a, TIMEWAIT_EXIT, 0);
	expect(b, TIMEWAIT_EXIT, 0);
	CHECK(end_id(a, id) == 5);
	CHECK(end_id(b, l) == 1);
	passive = connect_ids(
	    a, b, (port = 0, listen_at(b, "127.0.0.1", &port), port), &passive);
	close(b); /* the end of a channel is that of its connections */
	expect(a, DISCONNECTED, 0);
}

static int next_event(int fd, struct rdma_ucm_event_resp *r)
{
	struct rdma_ucm_get_event c = { .response = (uintptr_t)r };

	return (int)COMMAND(fd, GET_EVENT, sizeof(*r), c);
}

/* A message that was sent before the end of the connection completes before its event, if
 * the program polls; libfabric destroys the queue pair when it has the event. */
static void test_last_message(void)
{
	int a = cm_open(), b = cm_open();
	struct rdma_ucm_event_resp r;
	struct rdma_ucm_disconnect d;
	struct end x, y;
	uint16_t port = 0;
	uint32_t passive;

	pair(&x, &y, IBV_QPT_RC);
	active_qpn = x.qp->qp_num;
	passive_qpn = y.qp->qp_num;
	listen_at(b, "127.0.0.1", &port);
	for (int is_polled = 1; is_polled >= 0; is_polled--) {
		d.id = connect_ids(a, b, port, &passive);
		CHECK(!post_recv(&y, 1, BUF));
		CHECK(!post(&x, IBV_WR_SEND, 100, x.mr->lkey, NULL));
		CHECK(next(&x).status == IBV_WC_SUCCESS);
		CHECK(!COMMAND(a, DISCONNECT, 0, d));
		fcntl(b, F_SETFL, O_NONBLOCK);
		CHECK(next_event(b, &r) == -EAGAIN);
		if (is_polled)
			CHECK(next(&y).byte_len == 100);
		expect(b, DISCONNECTED, 0);
		expect(a, DISCONNECTED, 0);
		expect(a, TIMEWAIT_EXIT, 0);
		expect(b, TIMEWAIT_EXIT, 0);
	}
}

static void test_refused(void)
{
	int a = cm_open(), b = cm_open();
	uint16_t port = 0;
	uint32_t l = listen_at(b, "127.0.0.1", &port);
	uint32_t id = start_connect(a, port);
	uint32_t child = expect(b, CONNECT_REQUEST, 0).id;
	struct rdma_ucm_reject j = { .id = child,
				     .private_data_len = 3,
				     .private_data = "no" };

	CHECK(!COMMAND(b, REJECT, 0, j));
	struct rdma_ucm_event_resp r = expect(a, REJECTED, REJ_CONSUMER);
	CHECK(r.param.conn.private_data_len == 148);
	CHECK(!memcmp(r.param.conn.private_data, "no", 3));
	end_id(a, id);
	start_connect(a, port);
	expect(b, CONNECT_REQUEST, 0);
	start_connect(a, port); /* and one that nobody takes */
	end_id(b, l);
	expect(a, REJECTED, REJ_CONSUMER);
	start_connect(a, port);
	expect(a, REJECTED, REJ_INVALID_SERVICE_ID);
	CHECK(bind_id(a, new_id(a, 1), "192.0.2.77", 0) == -EADDRNOTAVAIL);
	struct rdma_ucm_resolve_ip far = { .dst_addr = at("192.0.2.77", 1),
					   .id = new_id(a, 9) };
	CHECK(!COMMAND(a, RESOLVE_IP, 0, far));
	struct rdma_ucm_get_event g = { .response = (uintptr_t)&r };
	CHECK(!COMMAND(a, GET_EVENT, sizeof(r), g));
	/* With a way out, another host may have the address. */
	CHECK(r.event == ADDR_RESOLVED ||
	      (r.event == ADDR_ERROR && ((int)r.status == -EHOSTUNREACH ||
					 (int)r.status == -ENETUNREACH)));
}

/* Who connects just before the other end listens is heard. */
static void test_late_listener(void)
{
	int a = cm_open(), b = cm_open();
	uint16_t port = 0;

	end_id(b, listen_at(b, "127.0.0.1", &port)); /* the port is free */
	start_connect(a, port);
	expect_nothing(a);
	listen_at(b, "127.0.0.1", &port);
	struct pollfd fds[2] = { { a, POLLIN, 0 }, { b, POLLIN, 0 } };
	struct rdma_ucm_event_resp r;
	struct rdma_ucm_get_event c = { .response = (uintptr_t)&r };
	fcntl(a, F_SETFL, O_NONBLOCK);
	while (poll(fds, 2, LIMIT_S * 1000) > 0 && !fds[1].revents)
		CHECK(COMMAND(a, GET_EVENT, sizeof(r), c) == -EAGAIN);
	expect(b, CONNECT_REQUEST, 0);
}

static void test_ports(void)
{
	int a = cm_open();
	uint16_t port = 0;
	uint32_t l = listen_at(a, "127.0.0.1", &port), other = new_id(a, 5);

	CHECK(bind_id(a, other, "127.0.0.1", port) == -EADDRINUSE);
	CHECK(bind_id(a, other, "0.0.0.0", port) == -EADDRINUSE);
	CHECK(!bind_id(a, other, "127.0.0.2", port));
	end_id(a, l);
	CHECK(!bind_id(a, new_id(a, 5), "127.0.0.1", port));
}

/* Else the device's is the loopback. */
static int has_other_interface(void)
{
	struct ifaddrs *list, *i;
	int found = 0;

	CHECK(!getifaddrs(&list));
	for (i = list; i; i = i->ifa_next)
		found |= i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
			 i->ifa_flags & IFF_UP &&
			 !(i->ifa_flags & IFF_LOOPBACK);
	freeifaddrs(list);
	return found;
}

/* Which addresses stand for the device.  What the kernel says of them: soft-RoCE of Linux 6.1. */
static void test_devices(void)
{
	int a = cm_open();
	uint32_t any = new_id(a, 1), loopback = new_id(a, 2), to = new_id(a, 3);
	struct rdma_ucm_resolve_ip there = { .dst_addr = at("127.0.0.1", 9),
					     .id = to };

	CHECK(!bind_id(a, any, "0.0.0.0", 0));
	CHECK(!route_of(a, any).node_guid && !route_of(a, any).port_num);
	CHECK(!bind_id(a, loopback, "127.0.0.1", 0));
	CHECK((route_of(a, loopback).node_guid == 0) == has_other_interface());
	CHECK(!COMMAND(a, RESOLVE_IP, 0, there));
	expect(a, ADDR_RESOLVED, 0);
	CHECK(route_of(a, to).node_guid && route_of(a, to).port_num == 1);
}

/* A child that listens, tells the port, takes one request and does what @does says. */
static pid_t listener_child(uint16_t *port, int accepts)
{
	int p[2];

	CHECK(!pipe(p));
	pid_t pid = fork();
	if (!pid) {
		int fd = cm_open();
		uint16_t mine = 0;

		listen_at(fd, "127.0.0.1", &mine);
		CHECK(write(p[1], &mine, sizeof(mine)) == sizeof(mine));
		uint32_t id = expect(fd, CONNECT_REQUEST, 0).id;
		if (accepts)
			CHECK(!accept_id(fd, id, 1));
		CHECK(write(p[1], "", 1) == 1);
		for (;;)
			pause();
	}
	CHECK(pid > 0);
	CHECK(read(p[0], port, sizeof(*port)) == sizeof(*port));
	close(p[1]);
	return pid;
}

static void kill_child(pid_t pid)
{
	CHECK(!kill(pid, SIGKILL));
	CHECK(waitpid(pid, NULL, 0) == pid);
}

static void test_killed(void)
{
	int a = cm_open();
	uint16_t port;
	pid_t pid = listener_child(&port, 1);
	uint32_t id = start_connect(a, port);

	expect(a, CONNECT_RESPONSE, 0);
	CHECK(!accept_id(a, id, 0));
	expect_nothing(a);
	kill_child(pid);
	expect(a, DISCONNECTED, 0);
	pid = listener_child(&port, 0);
	start_connect(a, port);
	kill_child(pid);
	expect(a, REJECTED, REJ_CONSUMER);
	expect(a, TIMEWAIT_EXIT, 0);
	pid = listener_child(&port, 1);
	CHECK(!kill(pid, SIGSTOP));
	start_connect(a, port); /* waits for an answer, and nothing else does */
	expect_nothing(a);
	kill_child(pid);
	expect(a, REJECTED, REJ_CONSUMER);
}

/* The active end is killed while the passive one has its request. */
static void test_killed_client(void)
{
	int b = cm_open();
	uint16_t port = 0;

	listen_at(b, "127.0.0.1", &port);
	pid_t pid = fork();
	if (!pid) {
		start_connect(cm_open(), port);
		for (;;)
			pause();
	}
	uint32_t id = expect(b, CONNECT_REQUEST, 0).id;
	kill_child(pid);
	expect_nothing(b);
	CHECK(!accept_id(b, id, 1));
	expect(b, UNREACHABLE, -ETIMEDOUT);
}

static void test_fork(void)
{
	int a = cm_open(), b = cm_open();
	uint16_t port = 0;
	uint32_t passive, l = listen_at(b, "127.0.0.1", &port);
	uint32_t id = connect_ids(a, b, port, &passive);
	pid_t pid = fork();

	if (!pid) {
		struct rdma_ucm_disconnect d = { .id = id };

		if (COMMAND(a, DISCONNECT, 0, d) != -EINVAL)
			_exit(1);
		close(a);
		new_id(cm_open(), 1);
		_exit(0);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	expect_nothing(a);
	expect_nothing(b);
	end_id(a, id);
	expect(b, DISCONNECTED, 0);
	end_id(b, l);
}

/*
 * Lies.
 */

static struct sockaddr_un name_of(uint16_t port, socklen_t *len)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int n = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1,
			 "osf-cm/%u/%u/127.0.0.1", RDMA_PS_TCP, port);

	*len =
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	return un;
}

static int raw_socket(uint16_t port, int listens)
{
	socklen_t len;
	struct sockaddr_un un = name_of(port, &len);
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	CHECK(s >= 0);
	if (listens)
		CHECK(!bind(s, (struct sockaddr *)&un, len) && !listen(s, 4));
	else
		CHECK(!connect(s, (struct sockaddr *)&un, len));
	return s;
}

static struct msg good_message(uint8_t kind, uint16_t port)
{
	struct msg m = { .magic = MSG_MAGIC,
			 .version = MSG_VERSION,
			 .kind = kind,
			 .ps = RDMA_PS_TCP,
			 .p = { .qp_type = 2 } };

	m.src.in6 = at("127.0.0.1", 9);
	m.dst.in6 = at("127.0.0.1", port);
	return m;
}

static void test_lies(void)
{
	int a = cm_open(), b = cm_open(), silent[100];
	uint16_t port = 0;
	uint32_t passive;

	listen_at(b, "127.0.0.1", &port);
	for (int lie = 0; lie < 6; lie++) {
		struct msg m = good_message(lie ? MSG_REQ : MSG_REP, port);
		int s = raw_socket(port, 0);

		m.p.private_len = lie == 1 ? 57 : 0;
		m.p.qp_num = lie == 2 ? 1 << 24 : 0;
		m.version = lie == 3 ? 9 : m.version;
		m.dst.in.sin_port += lie == 4;
		CHECK(send(s, &m, lie == 5 ? 7 : sizeof(m), 0) > 0);
		expect_nothing(b);
		close(s);
	}
	for (int i = 0; i < 100; i++) {
		silent[i] = raw_socket(port, 0);
		expect_nothing(b);
	}
	uint32_t id = connect_ids(a, b, port, &passive);
	for (int i = 0; i < 100; i++)
		close(silent[i]);
	expect_nothing(b);
	end_id(a, id);
	expect(b, DISCONNECTED, 0);
	/* A listener that answers what it may not. */
	int s = raw_socket(port + 1, 1);
	start_connect(a, port + 1);
	struct msg m = good_message(MSG_RTU, 1);
	int c = accept(s, NULL, NULL);
	CHECK(c >= 0 && send(c, &m, sizeof(m), 0) == sizeof(m));
	expect(a, REJECTED, REJ_CONSUMER);
}

static void test_strangers(void)
{
	int a = cm_open(), b = cm_open(), p[2];
	uint16_t port = 0;
	struct msg m;
	char byte;

	if (getuid())
		return;
	listen_at(b, "127.0.0.1", &port);
	m = good_message(MSG_REQ, port);
	CHECK(!pipe(p));
	pid_t pid = fork();
	if (!pid) {
		CHECK(!setuid(NOBODY));
		raw_socket(port + 1, 1);
		int s = raw_socket(port, 0);
		CHECK(send(s, &m, sizeof(m), 0) == sizeof(m));
		CHECK(write(p[1], "", 1) == 1);
		for (;;)
			pause();
	}
	CHECK(read(p[0], &byte, 1) == 1);
	expect_nothing(b);
	start_connect(a, port + 1);
	expect(a, UNREACHABLE, -EPERM);
	kill_child(pid);
}

static const struct test tests[] = { { "descriptor", test_descriptor },
				     { "deadlines", test_deadlines },
				     { "handshake", test_handshake },
				     { "refused", test_refused },
				     { "late_listener", test_late_listener },
				     { "ports", test_ports },
				     { "devices", test_devices },
				     { "last_message", test_last_message },
				     { "killed", test_killed },
				     { "killed_client", test_killed_client },
				     { "fork", test_fork },
				     { "lies", test_lies },
				     { "strangers", test_strangers } };

/* Each in a child of its own. */
static int run(const struct test *t)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		alarm(LIMIT_S);
		t->run();
		exit(0);
	}
	waitpid(pid, &status, 0);
	printf("%s %s\n", status ? "FAIL" : "ok  ", t->name);
	return status;
}

int main(int argc, char **argv)
{
	int bad = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned i = 0; i < ARRAY_LEN(tests); i++)
		if (argc < 2 || !strcmp(argv[1], tests[i].name))
			bad |= run(&tests[i]);
	return bad ? 1 : 0;
}
