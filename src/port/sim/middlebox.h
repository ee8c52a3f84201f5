/* SPDX-License-Identifier: MIT */
/*
 * port/sim/middlebox.h - what boxes on a path do to packets
 *
 *     a packet's bytes -> other bytes, with checksums that fit
 *
 * Functions of bytes alone: whether and when is the wire's (wire.h).  What is no TCP
 * is left alone.
 */
#pragma once

#include "ip/ip.h"

/* A packet that a box makes of nothing: ICMP with what it quotes, or a reset. */
#define MIDDLEBOX_MADE 640

enum middlebox_strip {
	STRIP_TS = 1,
	STRIP_SACK = 2, /* the permission, on SYNs */
	STRIP_WSCALE = 4,
	STRIP_MSS = 8,
	STRIP_ALL = 15,
};

/* Replaces the options by NOPs. */
void middlebox_strip(uint8_t *p, uint32_t len, uint32_t what);

/* An MSS option says at most @mss. */
void middlebox_clamp_mss(uint8_t *p, uint32_t len, uint16_t mss);

/* Sets the two bits of ECN. */
void middlebox_ecn(uint8_t *p, uint32_t len, uint8_t bits);

/* A byte of the TCP header, ports excepted, becomes another. */
void middlebox_mutate(uint8_t *p, uint32_t len, uint64_t random);

/* Whether the packet is a segment that acknowledges and does nothing else. */
bool middlebox_is_ack(const uint8_t *p, uint32_t len);

/* Cuts a segment with two bytes or more: the first part stays at @p, and @rest has
 * room for @len.  Return: bytes of the rest, and *len is those of the first part; 0:
 * not cut. */
uint32_t middlebox_split(uint8_t *p, uint32_t *len, uint8_t *rest,
			 uint64_t random);

/* As GRO does: appends @next's payload to @p, which has room, if it follows and
 * their headers agree.  Return: bytes of the whole; 0: they do not fit. */
uint32_t middlebox_merge(uint8_t *p, uint32_t len, uint32_t room,
			 const uint8_t *next, uint32_t next_len);

/* A reset that claims to come from the packet's sender, @off bytes behind the
 * packet's end.  Return: bytes at @out; 0: no TCP. */
uint32_t middlebox_reset(const uint8_t *p, uint32_t len, uint32_t off,
			 uint8_t *out);

/* What a router says of a packet that is too big; it quotes the TCP header, its
 * number moved by @off.  Return: bytes at @out; 0: nothing is said. */
uint32_t middlebox_too_big(const uint8_t *p, uint32_t len, uint32_t mtu,
			   uint32_t off, uint8_t *out);

/* What a router says of a packet that it cannot send on, or a host of one that it does
 * not want; @which chooses what of it, 0 an unreachable host.  As above. */
uint32_t middlebox_unreachable(const uint8_t *p, uint32_t len, uint64_t which,
			       uint32_t off, uint8_t *out);

/* The window of a segment that is no SYN is 0. */
void middlebox_close_window(uint8_t *p, uint32_t len);
