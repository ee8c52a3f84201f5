/* SPDX-License-Identifier: MIT */
/*
 * api/vma/filter.h - a socket's packets, as its callback decides
 *
 * The callback sees each packet before the program can read it.  A receiving
 * call takes the packet from below first, which costs one call.  A call that
 * waits only looks at it (MSG_PEEK): what the callback accepts stays where it
 * is, so that every other call, process and epoll set finds it there.  A packet of TCP
 * is what there is to read, up to PACKET_MAX bytes.
 *
 * The caller has the socket's receive lock.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "api/vma/vsock.h"

/* Room for the control messages of a datagram. */
#define CONTROL_MAX 1024

/* What was received besides bytes. */
struct packet {
	const uint8_t *data;
	struct sockaddr_storage from;
	socklen_t from_len;
	int flags; /* MSG_CTRUNC */
	size_t control_len;
	alignas(struct cmsghdr) uint8_t control[CONTROL_MAX];
};

/* Is there something to read that the callback accepts, or an error, or the end of the
 * stream?  Drops the packets before it that the callback drops, and hands over those that
 * it holds. */
bool filter_look(struct vsock *s);
/* Takes the next packet that the callback accepts, at most @want bytes of TCP.
 * @wants_control: the program wants control messages.  Return: bytes or -errno; -EAGAIN:
 * there is none */
ssize_t filter_take(struct vsock *s, size_t want, bool wants_control,
		    struct packet *p);
/* The same for a stream with a callback, in a process of one thread.  *@data: where the
 * bytes are.  -EAGAIN: there is none, or only filter_take() can tell. */
ssize_t filter_take_quick(struct vsock *s, size_t want, const uint8_t **data);
/* As filter_take(), but begins with what filter_look() has accepted already, and returns
 * the error that it has found.  @peek: the packet also stays in the socket. */
ssize_t filter_take_next(struct vsock *s, size_t want, bool peek,
			 struct packet *p);
/* The same, and the program holds the packet as *@number.  @peek: it also stays in the
 * socket.  At the end of a stream *@number is 0. */
ssize_t filter_take_held(struct vsock *s, bool peek, struct packet *p,
			 uint64_t *number);
/* Bytes of a stream where they lie, at most @max, if no callback has to see them.  Return:
 * how many; 0: they cannot be lent, receive them; or -errno */
struct below_lent;
ssize_t filter_lend(struct vsock *s, uint32_t max, const uint8_t **data,
		    struct below_lent *l);
/* Waits for something to come, as the call of a program that found nothing does.
 * *@start_ns: when that call began, for SO_RCVTIMEO; 0 at first.  Return: 0 or -errno.  No
 * thread has the receive lock. */
int filter_wait(const struct vsock *s, int flags, uint64_t *start_ns);
/*
 * ends.c: what a packet has besides its bytes.
 */

/* Fills @msg with what is not bytes. */
void packet_copy(const struct packet *p, struct msghdr *msg);

union ip_addr {
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};
/* Its ends, if they are not known yet. */
void filter_find_ends(struct vsock *s);
COLD void ends_find(struct vsock *s); /* anew */
/* @src, @dst: memory for what @info points to. */
void ends_of_datagram(const struct vsock *s, const struct packet *p,
		      struct vma_info_t *info, union ip_addr *src,
		      union ip_addr *dst);
/* Has the callback a use for control messages of a datagram? */
bool ends_need_control(struct vsock *s);
/* An end for programs that know IPv4; of IPv6 only the family and the port. */
void addr_of(const struct sockaddr_storage *addr, struct sockaddr_in *from);
/* When the NIC has received @p, if the program has asked for it, else 0. */
struct timespec packet_hw_time(const struct packet *p);
/* SO_TIMESTAMP and the like; and how often a program has set one, plus 1. */
bool filter_is_time(int name);
extern uint32_t filter_times; /* atomic */
/* A callback begins: IP_RECVORIGDSTADDR for its sake, addresses. */
void filter_prepare(struct vsock *s);
