/* SPDX-License-Identifier: MIT */
/*
 * proto/inet/tcp_bytes.h - count the stream's bytes from the kernel's TCP_INFO
 *
 *     getsockopt(TCP_INFO), or inet_diag's INET_DIAG_INFO  ->  struct tcp_bytes
 *
 * Linux counts what it has sent and received.  Written is what it has sent,
 * each byte once, plus what waits to be sent.  Received is what has arrived in
 * order, read or not.  Linux counts the peer's FIN as a byte, so we subtract
 * it.  In state CLOSE an orderly end looks like a reset; if the peer has reset
 * the connection, our result is one byte too small.
 */
#pragma once

#include <linux/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tcp_bytes {
	uint64_t rx, tx;
};

/* The bytes of a struct tcp_info that are needed; Linux 4.19 has them. */
#define TCP_BYTES_INFO_MIN                                                     \
	(offsetof(struct tcp_info, tcpi_bytes_retrans) + sizeof(uint64_t))

static inline struct tcp_bytes tcp_bytes_of(const struct tcp_info *ti)
{
	/* <netinet/tcp.h> defines these, but conflicts with <linux/tcp.h>. */
	enum {
		TIME_WAIT = 6,
		CLOSE = 7,
		CLOSE_WAIT = 8,
		LAST_ACK = 9,
		CLOSING = 11
	};
	uint8_t state = ti->tcpi_state;
	bool has_fin = state == TIME_WAIT || state == CLOSE ||
		       state == CLOSE_WAIT || state == LAST_ACK ||
		       state == CLOSING;
	struct tcp_bytes b = { .rx = ti->tcpi_bytes_received,
			       .tx = ti->tcpi_bytes_sent -
				     ti->tcpi_bytes_retrans +
				     ti->tcpi_notsent_bytes };

	b.rx -= has_fin && b.rx;
	return b;
}
