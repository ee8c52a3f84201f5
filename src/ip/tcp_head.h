/* SPDX-License-Identifier: MIT */
/*
 * ip/tcp_head.h - the TCP header and its options: parsed from any bytes, and built
 *
 * tcp_head_parse() accepts any bytes, and returns a segment or the reason to drop it.
 * It skips a known option with a wrong length (RFC 9293 section 3.1, MUST-7).  It drops
 * a segment with an option that exceeds the header.
 *
 * Options are written in Linux's order, which packet scripts and middleboxes know.  On
 * a SYN: mss, sackOK, timestamps, nop, wscale; without timestamps: mss, nop, nop,
 * sackOK, nop, wscale.  On other segments: nop, nop, timestamps, nop, nop, sack.  Spec:
 * RFC 9293 section 3.1, RFC 7323, RFC 2018
 */
#pragma once

#include "base/seq.h"
#include "ip/ip.h"

#define TCP_HEAD 20
#define TCP_HEAD_MAX 60
#define TCP_SACK_MAX 4
#define TCP_WSCALE_MAX 14
#define TCP_NO_WSCALE 0xff

enum tcp_flags {
	TCP_FIN = 1,
	TCP_SYN = 2,
	TCP_RST = 4,
	TCP_PSH = 8,
	TCP_ACK = 16,
	TCP_URG = 32,
	TCP_ECE = 64,
	TCP_CWR = 128,
};

struct tcp_sack {
	seq32 from, to; /* the first byte, and the one behind the last */
};

/* A segment that was parsed, or that is to be built. */
struct tcp_seg {
	uint16_t sport, dport;
	seq32 seq, ack;
	uint8_t flags;
	uint16_t wnd; /* as on the wire, not scaled */
	uint16_t urg;
	uint16_t head_len; /* options included */
	uint32_t len;      /* bytes of payload */

	uint16_t mss;   /* 0: none */
	uint8_t wscale; /* TCP_NO_WSCALE: none */
	bool is_sack_ok;
	bool has_ts;
	uint8_t n_sacks;
	uint32_t tsval, tsecr;
	struct tcp_sack sacks[TCP_SACK_MAX];
};

/* How many sequence numbers the segment takes (RFC 9293: SEG.LEN). */
static inline uint32_t seg_span(const struct tcp_seg *s)
{
	return s->len + !!(s->flags & TCP_SYN) + !!(s->flags & TCP_FIN);
}

/**
 * tcp_head_parse() - read the header at @p, with all @len bytes of the segment
 *
 * The checksum is not looked at: see tcp_sum_is_good().
 *
 * Return: 0, or the negative of 1 + enum drop_reason
 */
MUST_CHECK int tcp_head_parse(const uint8_t *p, uint32_t len,
			      struct tcp_seg *out);

bool tcp_sum_is_good(const struct ip_packet *ip, const uint8_t *l4);

/* Writes the header with all options in @s, as many SACK blocks as there is room for,
 * and a checksum field of 0.  Return: the header's length */
uint32_t tcp_head_build(uint8_t *p, const struct tcp_seg *s);
