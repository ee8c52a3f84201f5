/* SPDX-License-Identifier: MIT */
/*
 * examples/echo_server.c - sends back whatever arrives
 *
 *     echo_server PORT [CONNECTIONS]
 *
 * What arrived is sent from where it lies, and returned when the operation completes:
 * over shared memory the bytes are copied once, into the ring back.  Ends after so
 * many connections, or never.  Sleeps when there is nothing to do.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>

#include <mellanox/xlio.h>
#include <osf/group.h>

static xlio_poll_group_t group;
static long n_left = -1; /* connections still to end; -1: no end */

static void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static void on_event(xlio_socket_t sock, uintptr_t userdata, int event,
		     int value)
{
	(void)userdata;
	switch (event) {
	case XLIO_SOCKET_EVENT_CLOSED: /* what was sent is delivered first */
		xlio_socket_destroy(sock);
		break;
	case XLIO_SOCKET_EVENT_ERROR:
		fprintf(stderr, "connection failed: errno %d\n", value);
		xlio_socket_destroy(sock);
		break;
	case XLIO_SOCKET_EVENT_TERMINATED:
		if (n_left > 0)
			n_left--;
		break;
	default:
		break;
	}
}

static void on_rx(xlio_socket_t sock, uintptr_t userdata, void *data,
		  size_t len, struct xlio_buf *buf)
{
	struct xlio_socket_send_attr attr = {
		.flags = XLIO_SOCKET_SEND_FLAG_FLUSH,
		.userdata_op = (uintptr_t)buf,
	};

	(void)userdata;
	if (xlio_socket_send(sock, data, len, &attr) < 0)
		xlio_socket_buf_free(sock, buf);
}

static void on_comp(xlio_socket_t sock, uintptr_t userdata, uintptr_t op)
{
	(void)sock;
	(void)userdata;
	xlio_poll_group_buf_free(group, (struct xlio_buf *)op);
}

static void on_accept(xlio_socket_t sock, xlio_socket_t parent,
		      uintptr_t parent_userdata)
{
	int on = 1;

	(void)parent;
	(void)parent_userdata;
	xlio_socket_setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void serve(const char *port)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(port)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct xlio_socket_attr attr = { .domain = AF_INET, .group = group };
	xlio_socket_t sock;
	int on = 1;

	if (xlio_socket_create(&attr, &sock) < 0 ||
	    xlio_socket_setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on,
				   sizeof(on)) < 0 ||
	    xlio_socket_bind(sock, (struct sockaddr *)&addr, sizeof(addr)) <
		0 ||
	    xlio_socket_listen(sock) < 0)
		die("listen");
}

int main(int argc, char **argv)
{
	struct xlio_poll_group_attr attr = {
		.socket_event_cb = on_event,
		.socket_comp_cb = on_comp,
		.socket_rx_cb = on_rx,
		.socket_accept_cb = on_accept,
	};

	if (argc < 2) {
		fprintf(stderr, "usage: %s PORT [CONNECTIONS]\n", argv[0]);
		return EXIT_FAILURE;
	}
	if (argc > 2)
		n_left = atol(argv[2]);
	if (xlio_init() < 0 || xlio_poll_group_create(&attr, &group) < 0)
		die("init");
	serve(argv[1]);
	while (n_left && osf_group_wait(group, -1) >= 0)
		;
	return xlio_exit() < 0;
}
