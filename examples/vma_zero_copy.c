/* SPDX-License-Identifier: MIT */
/*
 * examples/vma_zero_copy.c - adds up the bytes of a connection where they lie
 *
 *     vma_zero_copy PORT
 *
 * Accepts one connection, and reads it to its end by recvfrom_zcopy().  Prints how many
 * bytes there were, and their sum.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <mellanox/vma_extra.h>

static uint64_t n_bytes, sum;

static void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static int connection(const char *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(port)) };
	int on = 1, l = socket(AF_INET, SOCK_STREAM, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (l < 0 || bind(l, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    listen(l, 1) < 0)
		die("listen");
	int fd = accept(l, NULL, NULL);
	if (fd < 0)
		die("accept");
	return fd;
}

static void look_at(struct iovec v)
{
	const uint8_t *data = v.iov_base;

	for (size_t i = 0; i < v.iov_len; i++)
		sum += data[i];
	n_bytes += v.iov_len;
}

/* The packets follow each other, each as long as its vectors. */
static void read_packets(struct vma_api_t *api, int fd,
			 struct vma_packets_t *packets)
{
	struct vma_packet_t *p = packets->pkts;

	for (size_t i = 0; i < packets->n_packet_num; i++) {
		for (size_t v = 0; v < p->sz_iov; v++)
			look_at(p->iov[v]);
		p = (struct vma_packet_t *)&p->iov[p->sz_iov];
	}
	if (api->free_packets(fd, packets->pkts, packets->n_packet_num) < 0)
		die("free_packets");
}

int main(int argc, char **argv)
{
	struct vma_api_t *api = vma_get_api();
	union {
		struct vma_packets_t packets;
		char room[1024];
	} buf;
	int n;

	if (argc < 2 || !api) {
		fprintf(stderr, argc < 2 ? "vma_zero_copy PORT\n"
					 : "the library is not there\n");
		return EXIT_FAILURE;
	}
	int fd = connection(argv[1]);
	do {
		int flags = MSG_VMA_ZCOPY_FORCE;

		n = api->recvfrom_zcopy(fd, &buf, sizeof(buf), &flags, NULL,
					NULL);
		if (n > 0 && flags & MSG_VMA_ZCOPY)
			read_packets(api, fd, &buf.packets);
	} while (n > 0);
	if (n < 0)
		die("recvfrom_zcopy");
	printf("%" PRIu64 " bytes, sum %" PRIu64 "\n", n_bytes, sum);
	return 0;
}
