/* SPDX-License-Identifier: MIT */
/*
 * examples/ping_pong.c - how long a message takes
 *
 *     ping_pong server PORT
 *     ping_pong client PORT [ROUNDS [BYTES]]
 *
 * Polls without sleeping: the two want a core each.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mellanox/xlio.h>

static long n_rounds = 100000, n_done;
static size_t bytes = 64, received;
static char *message;
static int is_client, is_over;

static void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static void ping(xlio_socket_t sock)
{
	struct xlio_socket_send_attr attr = {
		.flags = XLIO_SOCKET_SEND_FLAG_FLUSH |
			 XLIO_SOCKET_SEND_FLAG_INLINE,
	};

	if (xlio_socket_send(sock, message, bytes, &attr) < 0)
		die("send");
}

static void set_up(xlio_socket_t sock)
{
	int on = 1;

	xlio_socket_setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void on_event(xlio_socket_t sock, uintptr_t userdata, int event,
		     int value)
{
	(void)userdata;
	(void)value;
	if (event == XLIO_SOCKET_EVENT_ESTABLISHED) {
		set_up(sock);
		ping(sock);
	} else if (event == XLIO_SOCKET_EVENT_TERMINATED) {
		is_over = 1;
	} else { /* the end, or a failure */
		xlio_socket_destroy(sock);
	}
}

static void on_accept(xlio_socket_t sock, xlio_socket_t parent,
		      uintptr_t userdata)
{
	(void)parent;
	(void)userdata;
	set_up(sock);
}

static void on_rx(xlio_socket_t sock, uintptr_t userdata, void *data,
		  size_t len, struct xlio_buf *buf)
{
	(void)userdata;
	(void)data;
	received += len;
	xlio_socket_buf_free(sock, buf);
	if (received < bytes)
		return;
	received -= bytes;
	if (is_client && ++n_done == n_rounds)
		xlio_socket_destroy(sock);
	else
		ping(sock);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct xlio_poll_group_attr attr = { .socket_event_cb = on_event,
					     .socket_rx_cb = on_rx,
					     .socket_accept_cb = on_accept };
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct xlio_socket_attr sa = { .domain = AF_INET };
	xlio_socket_t sock;
	int on = 1, err;

	if (argc < 3) {
		fprintf(stderr, "usage: %s server|client PORT [ROUNDS [BYTES]]\n",
			argv[0]);
		return EXIT_FAILURE;
	}
	is_client = !strcmp(argv[1], "client");
	a.sin_port = htons((uint16_t)atoi(argv[2]));
	n_rounds = argc > 3 ? atol(argv[3]) : n_rounds;
	bytes = argc > 4 ? (size_t)atol(argv[4]) : bytes;
	message = calloc(1, bytes);
	if (!message || xlio_init() < 0 ||
	    xlio_poll_group_create(&attr, &sa.group) < 0 ||
	    xlio_socket_create(&sa, &sock) < 0)
		die("init");
	xlio_socket_setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	err = is_client
		  ? xlio_socket_connect(sock, (struct sockaddr *)&a, sizeof(a))
		  : xlio_socket_bind(sock, (struct sockaddr *)&a, sizeof(a)) ||
			xlio_socket_listen(sock);
	if (err)
		die(argv[1]);
	double start = seconds();
	while (!is_over)
		xlio_poll_group_poll(sa.group);
	if (is_client)
		printf("%ld rounds of %zu bytes, %.0f ns one way\n", n_done,
		       bytes, (seconds() - start) / (double)n_done / 2 * 1e9);
	free(message);
	return xlio_exit() < 0 || (is_client && n_done < n_rounds);
}
