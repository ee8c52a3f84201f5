/* SPDX-License-Identifier: MIT */
/*
 * examples/vma_xtreme_server.c - sends back whatever arrives, by SocketXtreme
 *
 *     vma_xtreme_server PORT [CONNECTIONS]
 *
 * One ring has the listener and all its connections.  Ends after so many connections
 * have ended, or never.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <mellanox/vma_extra.h>

#define AT_ONCE 32

static struct vma_api_t *api;
static long n_left = -1; /* connections still to end; -1: no end */

static void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static int listener(const char *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(port)) };
	int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    listen(fd, SOMAXCONN) < 0)
		die("listen");
	return fd;
}

/* False: the connection has failed, and its end is another completion. */
static int send_all(int fd, const char *data, size_t n)
{
	while (n) {
		ssize_t sent = send(fd, data, n, MSG_NOSIGNAL);

		if (sent < 0)
			return 0;
		data += sent;
		n -= (size_t)sent;
	}
	return 1;
}

static void echo(int fd, struct vma_packet_desc_t *packet)
{
	for (struct vma_buff_t *b = packet->buff_lst; b; b = b->next)
		if (!send_all(fd, b->payload, b->len))
			break;
	if (api->socketxtreme_free_vma_packets(packet, 1) < 0)
		die("socketxtreme_free_vma_packets");
}

static void serve(struct vma_completion_t *c)
{
	int fd = (int)c->user_data, on = 1;

	if (c->events & VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (c->events & VMA_SOCKETXTREME_PACKET)
		echo(fd, &c->packet);
	if (c->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
		close(fd);
		n_left -= n_left > 0;
	}
}

int main(int argc, char **argv)
{
	struct vma_completion_t completions[AT_ONCE];
	int ring;

	api = vma_get_api();
	if (argc < 2 || !api) {
		fprintf(stderr, argc < 2
				    ? "vma_xtreme_server PORT [CONNECTIONS]\n"
				    : "the library is not there\n");
		return EXIT_FAILURE;
	}
	if (argc > 2)
		n_left = atol(argv[2]);
	if (api->get_socket_rings_fds(listener(argv[1]), &ring, 1) != 1)
		die("get_socket_rings_fds");
	while (n_left) {
		int n = api->socketxtreme_poll(ring, completions, AT_ONCE, 0);

		if (n < 0)
			die("socketxtreme_poll");
		for (int i = 0; i < n; i++)
			serve(&completions[i]);
	}
	return 0;
}
