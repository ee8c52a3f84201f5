/* SPDX-License-Identifier: MIT */
/*
 * port/sim/middlebox.h - what middleboxes on a path do to packets
 *
 *     a packet's bytes -> other bytes, with checksums that fit
 *
 * These functions change bytes.  The wire decides whether and when (wire.h).  They
 * leave packets alone that are not TCP.
 */
#pragma once

#include "ip/ip.h"

/* The size of a packet that a middlebox makes: an ICMP error with what it quotes, or a
 * reset. */
#define MIDDLEBOX_MADE 640

enum middlebox_strip {
	STRIP_TS = 1,
	STRIP_SACK = 2, /* the permission, on SYNs */
	STRIP_WSCALE = 4,
	STRIP_MSS = 8,
	STRIP_ALL = 15,
};

/* Replaces options by NOPs. */
void middlebox_strip(uint8_t *p, uint32_t len, uint32_t what);

/* Lowers an MSS option to @mss. */
void middlebox_clamp_mss(uint8_t *p, uint32_t len, uint16_t mss);

/* Sets the two bits of ECN. */
void middlebox_ecn(uint8_t *p, uint32_t len, uint8_t bits);

/* Changes one byte of the TCP header, but not of the ports. */
void middlebox_mutate(uint8_t *p, uint32_t len, uint64_t random);

/* Whether the packet is an ACK and nothing else. */
bool middlebox_is_ack(const uint8_t *p, uint32_t len);

/* Cuts a segment that has two bytes or more.  The first part stays at @p; @rest has
 * room for *@len bytes.  Return: the size of the second part, with that of the first in
 * *@len; 0: not cut */
uint32_t middlebox_split(uint8_t *p, uint32_t *len, uint8_t *rest,
			 uint64_t random);

/* Appends the payload of @next to @p, as GRO does, if it follows and the headers agree.
 * Return: the size of the result; 0: they do not fit */
uint32_t middlebox_merge(uint8_t *p, uint32_t len, uint32_t room,
			 const uint8_t *next, uint32_t next_len);

/* Makes a reset in the name of the packet's sender, with a number @off bytes beyond the
 * packet.  Return: bytes at @out; 0: the packet is not TCP */
uint32_t middlebox_reset(const uint8_t *p, uint32_t len, uint32_t off,
			 uint8_t *out);

/* Makes the ICMP error of a router for a packet that is too big.  It quotes the TCP
 * header with a number that is moved by @off.  Return: bytes at @out; 0: routers send
 * none for it */
uint32_t middlebox_too_big(const uint8_t *p, uint32_t len, uint32_t mtu,
			   uint32_t off, uint8_t *out);

/* Makes another ICMP error, of a router that cannot forward a packet, or of a host.
 * @which selects the error; 0: host unreachable.  Return: as above */
uint32_t middlebox_unreachable(const uint8_t *p, uint32_t len, uint64_t which,
			       uint32_t off, uint8_t *out);

/* Sets the window of a segment to 0, unless it is a SYN. */
void middlebox_close_window(uint8_t *p, uint32_t len);
