/* SPDX-License-Identifier: MIT */
/*
 * ip/gso.h - one large TCP frame becomes segments that fit a wire
 *
 * What a device would do: the headers are repeated with the sequence number, lengths
 * and checksums of each segment; FIN and PSH stay with the last one.  What routers may
 * cut has an identification each.
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
