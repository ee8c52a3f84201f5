/* SPDX-License-Identifier: MIT */
/*
 * tests/xlio/old_table.c - a program that was compiled with an older table
 *
 *     old_table LIBRARY 3.50|3.60|3.61
 *
 * It loads the library by name, as SPDK does, finds the table, and sends a message to
 * itself.  What it says of a group ends where memory ends.  The members are numbered as that version's header has them; nothing of
 * include/mellanox/xlio_extra.h is used.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <mellanox/xlio.h>

#define CAN(call)                                                              \
	do {                                                                   \
		if (!(call)) {                                                 \
			fprintf(stderr, "%s: not so: %s\n", version, #call);   \
			exit(1);                                               \
		}                                                              \
	} while (0)

enum {
	INIT_EX,
	EXIT,
	GROUP_CREATE,
	GROUP_DESTROY,
	GROUP_POLL,
	SOCKET_CREATE,
	SOCKET_DESTROY,
	BIND,
	CONNECT,
	LISTEN,
	GETSOCKNAME,
	SEND,
	BUF_FREE,
	GET_PD,
	N_CALLS
};

/* Places behind magic and cap_mask; -1: not in that version. */
static const struct {
	const char *version;
	int slot[N_CALLS];
	int absent; /* one that answers EOPNOTSUPP, or -1 */
} versions[] = {
	{ "3.50",
	  { 13, -1, 14, 15, 16, 17, 18, 20, 21, -1, -1, 23, 27, 22 },
	  0 },
	{ "3.60", { 4, 5, 6, 7, 8, 9, 10, 15, 16, 17, 13, 21, 25, 18 }, 3 },
	{ "3.61", { 3, 4, 5, 6, 7, 8, 9, 14, 15, 16, 13, 20, 24, 17 }, -1 },
};

static const char *version;
static void **table;
static const int *slot;
static int n_events[5];
static size_t received;

#define CALL(name, type) ((type)table[2 + slot[name]])

static void on_event(xlio_socket_t sock, uintptr_t u, int event, int value)
{
	(void)sock, (void)u, (void)value;
	n_events[event]++;
}

static void on_rx(xlio_socket_t sock, uintptr_t u, void *data, size_t len,
		  struct xlio_buf *buf)
{
	(void)u, (void)data;
	received += len;
	CALL(BUF_FREE, void (*)(xlio_socket_t, struct xlio_buf *))(sock, buf);
}

/* A kernel listener in this process: version 3.50 cannot listen. */
static int listener(struct sockaddr_in *in)
{
	socklen_t len = sizeof(*in);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	*in = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	CAN(!bind(fd, (void *)in, len) && !listen(fd, 1) &&
	    !getsockname(fd, (void *)in, &len));
	return fd;
}

static void *at_the_end_of_memory(const void *data, size_t n)
{
	char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CAN(map != MAP_FAILED && !mprotect(map + 4096, 4096, PROT_NONE));
	return memcpy(map + 4096 - n, data, n);
}

int main(int argc, char **argv)
{
	struct xlio_poll_group_attr attr = { .socket_event_cb = on_event,
					     .socket_rx_cb = on_rx };
	struct xlio_socket_attr sa = { .domain = AF_INET };
	struct xlio_init_attr init = { 0 };
	struct xlio_socket_send_attr send_attr = { .flags = 3 };
	struct sockaddr_in in;
	socklen_t len = sizeof(table);
	xlio_poll_group_t group;
	xlio_socket_t sock;
	char got[6];

	version = argc == 3 ? argv[2] : "?";
	CAN(argc == 3);
	int absent = -1;
	for (int i = 0; i < 3; i++)
		if (!strcmp(versions[i].version, version)) {
			slot = versions[i].slot;
			absent = versions[i].absent;
		}
	CAN(slot);
	size_t attr_bytes = strcmp(version, "3.50") ? 40 : 32;
	void *at = at_the_end_of_memory(&attr, attr_bytes);
	void *lib = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
	if (!lib)
		fprintf(stderr, "%s\n", dlerror());
	CAN(lib);
	typeof(&getsockopt) get = (typeof(&getsockopt))dlsym(lib, "getsockopt");
	CAN(get && !get(-2, SOL_SOCKET, 2800, &table, &len));
	CAN(len == sizeof(table));
	CAN(*(uint64_t *)table == 0x4f494c584144564e);
	CAN(((uint64_t *)table)[1] & 1 << 13);
	if (absent >= 0)
		CAN(((int (*)(void))table[2 + absent])() == -1);
	CAN(!CALL(INIT_EX, int (*)(const void *))(&init));
	CAN(!CALL(GROUP_CREATE, int (*)(const void *, void *))(at, &group));
	/* Linked programs of the version have it, and no entry of the table. */
	int (*update)(xlio_poll_group_t, void *) =
	    (int (*)(xlio_poll_group_t, void *))dlsym(lib,
						      "xlio_poll_group_update");
	CAN(update && !update(group, at));
	sa.group = group;
	CAN(!CALL(SOCKET_CREATE, int (*)(const void *, void *))(&sa, &sock));
	int l = listener(&in);
	CAN(!CALL(CONNECT, int (*)(xlio_socket_t, void *, socklen_t))(
	    sock, &in, sizeof(in)));
	CAN(CALL(GET_PD, void *(*)(xlio_socket_t))(sock));
	int s = accept(l, NULL, NULL);
	void (*turn)(xlio_poll_group_t) =
	    CALL(GROUP_POLL, void (*)(xlio_poll_group_t));
	while (!n_events[XLIO_SOCKET_EVENT_ESTABLISHED])
		turn(group);
	CAN(!CALL(SEND, int (*)(xlio_socket_t, const void *, size_t, void *))(
	    sock, "hello", 6, &send_attr));
	CAN(recv(s, got, 6, MSG_WAITALL) == 6 && !strcmp(got, "hello"));
	CAN(send(s, got, 6, 0) == 6);
	while (received < 6)
		turn(group);
	CAN(!CALL(SOCKET_DESTROY, int (*)(xlio_socket_t))(sock));
	while (!n_events[XLIO_SOCKET_EVENT_TERMINATED])
		turn(group);
	CAN(!CALL(GROUP_DESTROY, int (*)(xlio_poll_group_t))(group));
	if (slot[EXIT] >= 0)
		CAN(!CALL(EXIT, int (*)(void))());
	int (*leave)(void) = (int (*)(void))dlsym(lib, "xlio_exit");
	CAN(leave && !leave());
	CAN(!dlclose(lib));
	printf("%s ok\n", version);
	return 0;
}
