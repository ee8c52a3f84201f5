/* SPDX-License-Identifier: MIT */
/*
 * examples/vma_filter.c - reads datagrams, and lets through those that begin with a word
 *
 *     vma_filter PORT WORD [DATAGRAMS]
 *
 * A callback sees each datagram before recv() does, and drops what does not begin with WORD.
 * Ends after so many datagrams, or never.  Works without the library, too: then recv()
 * gets all, and this program looks at them itself.
 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mellanox/vma_extra.h>

static unsigned n_dropped;

static void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static bool begins_with(const void *data, size_t n, const char *word)
{
	return n >= strlen(word) && !memcmp(data, word, strlen(word));
}

static vma_recv_callback_retval_t on_packet(int fd, size_t n_iov,
					    struct iovec iov[],
					    struct vma_info_t *info, void *word)
{
	(void)fd, (void)info;
	if (n_iov == 1 && begins_with(iov[0].iov_base, iov[0].iov_len, word))
		return VMA_PACKET_RECV;
	n_dropped++;
	return VMA_PACKET_DROP;
}

static int receiver(const char *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(port)) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		die("bind");
	return fd;
}

int main(int argc, char **argv)
{
	struct vma_api_t *api = vma_get_api();
	char data[65536];

	if (argc < 3) {
		fprintf(stderr, "vma_filter PORT WORD [DATAGRAMS]\n");
		return EXIT_FAILURE;
	}
	long left = argc > 3 ? atol(argv[3]) : -1;
	int fd = receiver(argv[1]);
	if (api && api->register_recv_callback(fd, on_packet, argv[2]) < 0)
		die("register_recv_callback");
	while (left) {
		ssize_t n = recv(fd, data, sizeof(data), 0);

		if (n < 0)
			die("recv");
		if (!api && !begins_with(data, (size_t)n, argv[2])) {
			n_dropped++;
			continue;
		}
		printf("%.*s\n", (int)n, data);
		fflush(stdout);
		left -= left > 0;
	}
	printf("dropped %u\n", n_dropped);
	return 0;
}
