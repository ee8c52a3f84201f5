/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_cm.c - rdma_cm's device: any command, and a peer that sends anything
 *
 * The input is a script of steps:
 *       a command for the device, whole or in pieces        cm_write()
 *       open, dup and close of its descriptors
 *       a peer that connects to our listener, sends, closes
 *       a peer that listens where we connect to             msg_recv(), link.c
 *
 * Besides not crashing, this holds:
 *   I1  an event has an id and a uid that the program was given or gave, and a length of
 *       private data that a message of its kind can have
 *   I2  a descriptor that has no event left is not readable for long: nobody spins
 *   I3  when all descriptors are closed, none of ours is left open, and no id either
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cm/cm.h"
#include "cm/id.h"
#include "fuzz_script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define N_FILES 3
#define N_PEERS 4
#define PORT_OURS 5001
#define PORT_THEIRS 5002
#define UID UINT64_C(0x1000)

static int files[N_FILES], peers[N_PEERS], their_listener;

/* Of the first loopback address, or the wildcard. */
static struct sockaddr_in6 address(uint8_t of, uint16_t port)
{
	union addr a = { .in = { .sin_family = AF_INET,
				 .sin_port = htons(port) } };

	if (of & 1)
		a.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (of & 2)
		a.in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
					       .sin6_port = htons(port) };
	if ((of & 3) == 3)
		a.in6.sin6_addr = in6addr_loopback;
	return a.in6;
}

/* What librdmacm would have written, and then some bytes of it others. */
static size_t make_command(uint8_t cmd, uint8_t *to, void *response)
{
	struct rdma_ucm_cmd_hdr *h = (void *)to;
	uint8_t *body = to + sizeof(*h);
	uint32_t id = next() % 8;
	uint8_t of = next();
	struct sockaddr_in6 a = address(of, of & 4   ? PORT_OURS
					    : of & 8 ? 0
						     : PORT_THEIRS);

	h->cmd = cmd;
	h->in = 320;
	h->out = 400;
#define FILL(type, ...) *(type *)body = (type){ __VA_ARGS__ }
	uint64_t r = (uintptr_t)response;
	switch (cmd) {
	case RDMA_USER_CM_CMD_CREATE_ID:
		FILL(struct rdma_ucm_create_id, .uid = UID, .response = r,
		     .ps = of & 1 ? RDMA_PS_UDP : RDMA_PS_TCP);
		break;
	case RDMA_USER_CM_CMD_BIND_IP:
		FILL(struct rdma_ucm_bind_ip, .addr = a, .id = id);
		break;
	case RDMA_USER_CM_CMD_RESOLVE_IP:
		FILL(struct rdma_ucm_resolve_ip, .dst_addr = a, .id = id);
		break;
	case RDMA_USER_CM_CMD_CONNECT:
		FILL(struct rdma_ucm_connect, .id = id,
		     .conn_param = { .valid = 1, .private_data_len = of });
		break;
	case RDMA_USER_CM_CMD_ACCEPT:
		FILL(struct rdma_ucm_accept, .uid = UID, .id = id,
		     .conn_param = { .valid = 1, .private_data_len = of });
		break;
	case RDMA_USER_CM_CMD_MIGRATE_ID:
		FILL(struct rdma_ucm_migrate_id, .response = r, .id = id,
		     .fd = (uint32_t)files[of % N_FILES]);
		break;
	case RDMA_USER_CM_CMD_DESTROY_ID:
	case RDMA_USER_CM_CMD_QUERY_ROUTE:
	case RDMA_USER_CM_CMD_INIT_QP_ATTR:
		FILL(struct rdma_ucm_init_qp_attr, .response = r, .id = id,
		     .qp_state = of % 8);
		break;
	case RDMA_USER_CM_CMD_GET_EVENT:
		FILL(struct rdma_ucm_get_event, .response = r);
		break;
	default: /* the id comes first, or it is none of ours */
		FILL(struct rdma_ucm_listen, .id = id, .backlog = of);
	}
	return sizeof(*h) + h->in;
}

static void check_event(const struct rdma_ucm_event_resp *e)
{
	/* The uid is the program's own, and a garbled command may have set it. */
	assert(e->event <= EVENT_TIMEWAIT_EXIT);
	assert(e->id && e->id < N_IDS);
	if (e->event == EVENT_CONNECT_REQUEST)
		assert(e->param.conn.private_data_len <= private_max(MSG_REQ) ||
		       e->param.ud.private_data_len <=
			   private_max(MSG_SIDR_REQ));
}

static void run_command(void)
{
	uint8_t cmd = next() % 24, buf[400] = { 0 }, how = next();
	uint8_t response[400] __attribute__((aligned(8)));
	int fd = files[next() % N_FILES];
	size_t n =
	    make_command(cmd, buf, how & 1 ? (void *)(uintptr_t)16 : response);

	if (how & 2)
		buf[next() % n] = next();
	if (how & 4)
		take_bytes(buf + next() % 300, next() % 64);
	if (how & 8)
		n = next();
	((struct rdma_ucm_cmd_hdr *)buf)->out &= 511;
	if (how & 2 && cmd == RDMA_USER_CM_CMD_GET_EVENT)
		return; /* the address of a response may be anything's */
	ssize_t r = fd >= 0 ? cm_write(fd, buf, n) : -1;
	if (r > 0 && cmd == RDMA_USER_CM_CMD_GET_EVENT && !(how & 15))
		check_event((void *)response);
}

/* Addresses of responses must stay those of ours: raw bytes have none. */
static void run_bytes(void)
{
	uint8_t buf[64];
	size_t n = next() % sizeof(buf);

	take_bytes(buf, n);
	if (n > 8)
		memset(buf + 8, 0, MIN(n - 8, sizeof(uint64_t) * 2));
	int fd = files[next() % N_FILES];
	ssize_t r = fd >= 0 ? cm_write(fd, buf, n) : 0;
	assert(r <= (ssize_t)n);
}

static void run_descriptor(void)
{
	uint8_t what = next(), i = next() % N_FILES, j = next() % N_FILES;

	if (what & 1 && files[i] >= 0) {
		if (what & 2)
			cm_close(files[i]); /* else behind our back */
		close(files[i]);
		files[i] = -1;
	} else if (files[i] < 0 && what & 4 && files[j] >= 0) {
		files[i] = dup(files[j]);
		cm_dup(files[j], files[i]);
	} else if (files[i] < 0) {
		files[i] = cm_open(O_CLOEXEC | O_NONBLOCK, 0);
	}
}

static struct sockaddr_un name_of(uint16_t port, const char *where,
				  socklen_t *len)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int n = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1,
			 "osf-cm/%u/%u/%s", RDMA_PS_TCP, port, where);

	*len =
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	return un;
}

static void connect_peer(int *peer)
{
	static const char *wheres[] = { "127.0.0.1", "4any", "6any", "::1" };
	socklen_t len;
	struct sockaddr_un un = name_of(PORT_OURS, wheres[next() % 4], &len);

	*peer =
	    socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (*peer >= 0 && connect(*peer, (struct sockaddr *)&un, len)) {
		close(*peer);
		*peer = -1;
	}
}

static void send_message(int peer)
{
	struct msg m = { .magic = MSG_MAGIC,
			 .version = MSG_VERSION,
			 .kind = next() % (MSG_KINDS + 1),
			 .ps = RDMA_PS_TCP,
			 .p = { .qp_num = 7, .qp_type = IBV_QPT_RC } };
	uint8_t how = next();
	size_t n = how & 1 ? next() * 2 : sizeof(m);

	m.src.in6 = address(1, 1234);
	m.dst.in6 = address(1, PORT_OURS);
	m.p.private_len = next();
	if (how & 2)
		((uint8_t *)&m)[next() % 100] = next();
	if (how & 4)
		take_bytes((uint8_t *)&m + 8, 96);
	if (send(peer, &m, MIN(n, sizeof(m)), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
}

static void run_peer(void)
{
	uint8_t what = next() % 4;
	int *peer = &peers[next() % N_PEERS];

	if (*peer < 0 && what & 1)
		connect_peer(peer);
	else if (*peer < 0)
		*peer = accept4(their_listener, NULL, NULL,
				SOCK_NONBLOCK | SOCK_CLOEXEC);
	else if (!what)
		*peer = (close(*peer), -1);
	else
		send_message(*peer);
}

static void drain(int fd)
{
	uint8_t response[400] __attribute__((aligned(8)));
	struct pollfd pfd = { fd, POLLIN, 0 };

	for (int i = 0; poll(&pfd, 1, 0) == 1; i++) {
		struct {
			struct rdma_ucm_cmd_hdr h;
			struct rdma_ucm_get_event in;
		} c = { { RDMA_USER_CM_CMD_GET_EVENT, sizeof(c.in), 400 },
			{ (uintptr_t)response } };

		assert(i < 10000); /* I2 */
		if (cm_write(fd, &c, sizeof(c)) > 0)
			check_event((void *)response);
	}
}

static void start(void)
{
	socklen_t len;
	struct sockaddr_un un = name_of(PORT_THEIRS, "127.0.0.1", &len);

	for (int i = 0; i < N_PEERS; i++)
		peers[i] = -1;
	for (int i = 0; i < N_FILES; i++)
		files[i] = i ? -1 : cm_open(O_CLOEXEC | O_NONBLOCK, 0);
	their_listener =
	    socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (!bind(their_listener, (struct sockaddr *)&un, len))
		assert(!listen(their_listener, 4));
}

static void stop(void)
{
	for (int i = 0; i < N_PEERS; i++)
		if (peers[i] >= 0)
			close(peers[i]);
	close(their_listener);
	for (int i = 0; i < N_FILES; i++)
		if (files[i] >= 0)
			drain(files[i]);
	for (int i = 0; i < N_FILES; i++)
		if (files[i] >= 0) {
			cm_close(files[i]);
			close(files[i]);
		}
	/* Numbers that were closed behind our back. */
	for (int fd = 0; fd < 256; fd++)
		cm_close(fd);
	assert(id_end() == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const steps[])(void) = { run_command, run_command,
					       run_bytes,   run_descriptor,
					       run_peer,    run_peer };
	static int known;
	int before;

	if (!known) {
		/* Another host's messages come in another way, by descriptors that stay. */
		setenv("OSF_RDMA_WIRE", "0", 1);
		int fd = cm_open(O_CLOEXEC, 0);

		cm_close(fd);
		close(fd);
		known = 1;
	}
	before = count_fds();
	script_begin(data, size);
	start();
	while (script.at < script.end)
		steps[next() % ARRAY_LEN(steps)]();
	stop();
	assert(count_fds() == before); /* I3 */
	return 0;
}
