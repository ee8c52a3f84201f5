/* SPDX-License-Identifier: MIT */
/*
 * ip/gso.h - cuts one large TCP frame into segments that fit a wire
 *
 * It does what a device does: it repeats the headers with the sequence number, lengths
 * and checksums of each segment.  Only the last segment has FIN and PSH.  If routers
 * may fragment the packets, each gets an identification of its own.
 */
#pragma once

#include "ip/ip.h"

/**
 * gso_segment() - write a segment of a frame
 * @head: IP and TCP header, the latter from @ip_len to @head_len
 * @payload, @len: what the frame carries
 * @i: which segment; there are (len + gso_size - 1) / gso_size
 * @out: room for head_len + gso_size bytes
 *
 * Return: the segment's bytes
 */
uint32_t gso_segment(const uint8_t *head, uint32_t ip_len, uint32_t head_len,
		     const uint8_t *payload, uint32_t len, uint32_t gso_size,
		     uint32_t i, uint8_t *out);

/**
 * gso_fit() - make the frame's headers those of one segment
 * @p: the frame's headers, and behind them the segment's @part bytes
 * @off: of these bytes in the frame's payload
 * @is_last: no segment follows
 * @i: which segment
 */
void gso_fit(uint8_t *p, uint32_t ip_len, uint32_t head_len, uint32_t part,
	     uint32_t off, bool is_last, uint32_t i);
