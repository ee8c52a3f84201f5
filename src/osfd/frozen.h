/* SPDX-License-Identifier: MIT */
/*
 * osfd/frozen.h - a kernel TCP connection as numbers
 *
 *     anchor -> freeze() -> struct frozen -> the program's engine goes on from it
 *     struct frozen, with what the engine has done since -> thaw() -> anchor
 *
 * The numbers are those that TCP_REPAIR reads and writes.  They lie in messages and in
 * memory that is shared with a program, so they have fixed sizes and no padding.  osfd
 * believes them only about the connection whose descriptor came with them: addresses
 * are not among them.
 */
#pragma once

#include <stdint.h>

#define FROZEN_CA_MAX 16

/* frozen.options: what both ends have agreed on, as TCP_INFO says. */
enum {
	FROZEN_TIMESTAMPS = 1 << 0,
	FROZEN_SACK = 1 << 1,
	FROZEN_WSCALE = 1 << 2,
	FROZEN_ECN = 1 << 3,
	FROZEN_OPTIONS = (1 << 4) - 1,
};

/* frozen.flags: what a disconnect clears, and thaw() puts back. */
enum {
	FROZEN_REUSEADDR = 1 << 0,
	FROZEN_REUSEPORT = 1 << 1,
	FROZEN_KEEPALIVE = 1 << 2,
	FROZEN_SHUT_RD =
	    1 << 3, /* set by the program; the kernel does not say */
	/* For thaw(): the peer has ended the connection, and the engine has not handled
	 * that.  thaw() sends the segment to the kernel again. */
	FROZEN_PEER_FIN = 1 << 4,
	FROZEN_PEER_RESET = 1 << 5,
	FROZEN_FLAGS = (1 << 6) - 1,
};

struct frozen {
	uint32_t snd_nxt; /* the next sequence number to send; all is acked */
	uint32_t rcv_nxt;
	/* struct tcp_repair_window */
	uint32_t snd_wl1, snd_wnd, max_window, rcv_wnd, rcv_wup;
	/* As TCP_TIMESTAMP: bit 0 says that the unit is microseconds, not milliseconds, and
	 * replaces the clock's bit 0.  freeze() and the caller of thaw() never give less
	 * than a TSval that was sent, because the peer drops segments whose TSval steps
	 * back (PAWS). */
	uint32_t timestamp;
	uint32_t mss_clamp; /* bytes, as the peer's SYN said */
	uint32_t snd_mss, pmtu;
	uint32_t cwnd, ssthresh; /* segments */
	uint32_t srtt_us, rttvar_us, min_rtt_us;
	uint32_t window_clamp;
	uint8_t options, snd_wscale, rcv_wscale, flags;
	char ca_name[FROZEN_CA_MAX]; /* ends with a zero byte */
};
_Static_assert(sizeof(struct frozen) == 18 * 4 + FROZEN_CA_MAX, "padding");
