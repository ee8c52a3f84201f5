/* SPDX-License-Identifier: MIT */
/*
 * tests/port/tap_source.c DEV N - a program whose port shows N frames of a connection
 *
 * It says "ready", writes the frames when somebody wants them, and ends with its standard
 * input.
 */
#include <net/ethernet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ip/checksum.h"
#include "ip/ip.h"
#include "ip/tcp_head.h"
#include "port/tap.h"

#define TEXT 100

static struct {
	struct ip_addr addr;
	uint16_t port;
	uint32_t seq;
} ends[2]; /* us, them */

/* A segment from one end to the other, in three pieces. */
static void show(struct tap *tap, unsigned from, unsigned flags, uint32_t len)
{
	static const struct ether_header ether = { .ether_type = 0x0008 };
	static uint8_t text[TEXT];
	uint8_t head[128];
	struct tcp_seg seg = { .sport = ends[from].port,
			       .dport = ends[!from].port,
			       .seq = { ends[from].seq },
			       .ack = { ends[!from].seq },
			       .flags = (uint8_t)flags,
			       .wnd = 60000,
			       .wscale = TCP_NO_WSCALE };
	uint8_t *tcp = head + ip_head_len(&ends[0].addr);
	uint32_t n = tcp_head_build(tcp, &seg);
	struct cksum sum = ip_pseudo_sum(&ends[from].addr, &ends[!from].addr,
					 IP_PROTO_TCP, n + len);

	ip_build(head, &ends[from].addr, &ends[!from].addr, IP_PROTO_TCP, 0,
		 n + len);
	cksum_add(&sum, tcp, n);
	cksum_add(&sum, text, len);
	store_be16(tcp + 16, cksum_end(&sum));
	const struct iovec iov[] = { { (void *)(uintptr_t)&ether,
				       sizeof(ether) },
				     { head, (size_t)(tcp - head) + n },
				     { text, len } };
	tap_frame(tap, from ? TAP_IN : TAP_OUT, iov, 3);
	ends[from].seq += len + !!(flags & TCP_SYN);
}

int main(int argc, char **argv)
{
	unsigned n = (unsigned)atoi(argv[2]);
	struct pollfd in = { .fd = 0, .events = POLLIN };
	struct tap tap;
	char byte;

	ends[0].addr = ip_addr_v4(0x0a000001);
	ends[1].addr = ip_addr_v4(0x0a000002);
	ends[0].port = (uint16_t)(20000 + getpid() % 40000);
	ends[1].port = 6379;
	if (tap_open(&tap, argv[1], "tap_source"))
		return 1;
	printf("ready\n");
	fflush(stdout);
	while (!tap_is_wanted(&tap) && !poll(&in, 1, 1))
		;
	for (unsigned i = 0; i < n; i++)
		if (i < 2)
			show(&tap, i, i ? TCP_SYN | TCP_ACK : TCP_SYN, 0);
		else
			show(&tap, i % 2, TCP_ACK, i % 2 ? 0 : TEXT);
	(void)!read(0, &byte, 1);
	tap_close(&tap);
	return 0;
}
