/* SPDX-License-Identifier: MIT */
/*
 * examples/echo_client.c - standard input to a server, its answer to standard output
 *
 *     echo_client PORT < request > answer
 *
 * Reads all of its input first, sends it as one operation by reference, and ends when
 * as many bytes have come back.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <mellanox/xlio.h>
#include <osf/group.h>

static char *request;
static size_t n_request, n_answer;
static int failed, n_terminated, completed;

static void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static void send_request(xlio_socket_t sock)
{
	struct xlio_socket_send_attr attr = {
		.flags = XLIO_SOCKET_SEND_FLAG_FLUSH,
		.userdata_op = 1,
	};

	if (xlio_socket_send(sock, request, n_request, &attr) < 0)
		die("send");
}

static void on_event(xlio_socket_t sock, uintptr_t userdata, int event,
		     int value)
{
	(void)userdata;
	switch (event) {
	case XLIO_SOCKET_EVENT_ESTABLISHED:
		send_request(sock);
		break;
	case XLIO_SOCKET_EVENT_CLOSED: /* too early */
		failed |= n_answer < n_request;
		xlio_socket_destroy(sock);
		break;
	case XLIO_SOCKET_EVENT_ERROR:
		fprintf(stderr, "connection failed: errno %d\n", value);
		failed = 1;
		xlio_socket_destroy(sock);
		break;
	case XLIO_SOCKET_EVENT_TERMINATED:
		n_terminated++;
		break;
	}
}

static void on_comp(xlio_socket_t sock, uintptr_t userdata, uintptr_t op)
{
	(void)sock;
	(void)userdata;
	(void)op;
	completed = 1; /* the request could be overwritten from here on */
}

static void on_rx(xlio_socket_t sock, uintptr_t userdata, void *data,
		  size_t len, struct xlio_buf *buf)
{
	(void)userdata;
	if (fwrite(data, 1, len, stdout) != len)
		die("write");
	n_answer += len;
	xlio_socket_buf_free(sock, buf);
	if (n_answer == n_request)
		xlio_socket_destroy(sock);
}

static void read_request(void)
{
	size_t room = 0;
	ssize_t n;

	do {
		if (room - n_request < 65536) {
			room = room * 2 + 65536;
			request = realloc(request, room);
			if (!request)
				die("memory");
		}
		n = read(0, request + n_request, room - n_request);
		if (n < 0)
			die("read");
		n_request += (size_t)n;
	} while (n);
}

int main(int argc, char **argv)
{
	struct xlio_poll_group_attr attr = { .socket_event_cb = on_event,
					     .socket_comp_cb = on_comp,
					     .socket_rx_cb = on_rx };
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr =
					htonl(INADDR_LOOPBACK) };
	struct xlio_socket_attr sock_attr = { .domain = AF_INET };
	xlio_socket_t sock;

	if (argc != 2) {
		fprintf(stderr, "usage: %s PORT\n", argv[0]);
		return EXIT_FAILURE;
	}
	read_request();
	if (!n_request)
		return 0;
	addr.sin_port = htons((uint16_t)atoi(argv[1]));
	if (xlio_init() < 0 ||
	    xlio_poll_group_create(&attr, &sock_attr.group) < 0 ||
	    xlio_socket_create(&sock_attr, &sock) < 0 ||
	    xlio_socket_connect(sock, (struct sockaddr *)&addr, sizeof(addr)) <
		0)
		die("connect");
	while (!n_terminated && osf_group_wait(sock_attr.group, -1) >= 0)
		;
	fflush(stdout);
	return xlio_exit() < 0 || failed || !completed;
}
