/* SPDX-License-Identifier: MIT */
/*
 * api/vma/vsock.h - what this API keeps for a descriptor
 *
 *     vsock_get(fd)  ->  VISIT(), visit_lock_rx()  ->  receive, call back  ->  end of the block
 *
 * A descriptor has a struct vsock from the first call of this API that names it until it is
 * closed.  Copies of the descriptor (dup) are plain descriptors.
 *
 * The receive lock: one thread at a time receives on a socket and runs its callback.  The
 * program's callback runs while its thread holds the lock, and may call anything; a
 * receiving call on the same descriptor by the same thread finds nothing.
 */
#pragma once

#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "api/vma/held.h"
#include "base/atomic.h"
#include "base/unwind.h"
#include "mellanox/vma_extra.h"
#include "sock/packets.h"

/* What a ring keeps for a socket (api/vma/ring.h).  Owner: who polls the ring. */
struct on_ring {
	struct ring *ring; /* NULL: none; atomic */
	uint32_t is_short; /* room to send will be news; atomic */
	uint32_t is_told;  /* it is on the ring's list of changes; atomic */
	struct vsock *next_told, *next_ready;
	uint32_t place;  /* among the ring's members, plus 1; 0: none yet */
	uint32_t events; /* EPOLL*: come, and not looked at */
	uint64_t acked;  /* bytes, when it had room last, plus 1; 0: never */
	uint8_t state;   /* enum ring_state */
	uint8_t is_ready, is_over;
	uint8_t is_big; /* its packets: the next one may be lent */
	/* It is one of the ring's hot members, and since its last packet one look has found
	 * nothing: so the next packet comes alone. */
	uint8_t is_awaited;
	uint8_t skips_room;      /* EPOLLOUT says what is known */
	struct sockaddr_in peer; /* of a connection, as completions say it */
};

struct vsock {
	uint32_t n_refs; /* its descriptor's, and one per call; 0: free */
	uint32_t number; /* another one for each socket */
	int32_t fd;
	bool is_udp;
	bool is_closed;
	bool is_left;   /* a rule leaves it to the kernel; atomic */
	bool has_dst;   /* we have set IP_RECVORIGDSTADDR */
	bool has_times; /* datagrams come with a time; as of @times */
	uint32_t times; /* filter_times; 0: not known */
	pthread_mutex_t rx_mutex;
	uintptr_t owner; /* the thread that has the receive lock, 0: none */
	vma_recv_callback_t callback; /* NULL: none */
	void *context;
	/* How much of what the next receiving call will find the callback has seen already:
	 * bytes, or for UDP 1 or 0 datagrams. */
	size_t accepted;
	int err;       /* that the next receiving call returns, or 0 */
	bool has_held; /* the callback has, since poll() or select() looked */
	/* The chunk in which the packet lies that was received last, if somebody has kept
	 * it; and whether this field has a reference of its own. */
	struct chunk *lies_in;
	bool lies_in_own;
	struct joined *joined; /* api/vma/joined.h; NULL: never */
	uint32_t
	    until_try;   /* datagrams, until that is tried; 0: not any more */
	bool was_empty;  /* a receive has found nothing since the last trial */
	uint32_t seen;   /* of joined, how many were taken before it */
	bool is_counted; /* in vma_n_filters */
	struct room room;
	uint64_t spare; /* number for the next packet, or 0 */
	struct packets packets;
	/* TCP: both ends; UDP: its own address. */
	struct sockaddr_storage peer, local;
	uint64_t user_data; /* SO_VMA_USER_DATA */
	bool has_user_data;
	uint64_t ring_key; /* SO_VMA_RING_ALLOC_LOGIC: who shares a ring */
	struct on_ring on_ring;
	struct vsock *next; /* all there ever were */
};

#define VSOCK_PAGE_BITS 10
#define VSOCK_PAGES (1u << 14)
extern struct vsock **vsock_pages[VSOCK_PAGES];

/* Where @fd's would be; NULL: it has none, nor have the numbers near it. */
static inline struct vsock **vsock_slot(int fd)
{
	struct vsock **page =
	    (unsigned)fd < VSOCK_PAGES << VSOCK_PAGE_BITS
		? load_acq(&vsock_pages[(unsigned)fd >> VSOCK_PAGE_BITS])
		: NULL;

	return page ? &page[(unsigned)fd & ((1u << VSOCK_PAGE_BITS) - 1)]
		    : NULL;
}

/* NULL: the API has nothing to do with @fd.  For vsock_put(). */
struct vsock *vsock_get(int fd);
/* The same, but makes one if there is none.  NULL: *@err is -EINVAL (not TCP or UDP over
 * IP, or left to the kernel) or -ENOMEM. */
struct vsock *vsock_make(int fd, int *err);
/* The same for a connection from a listener on a ring, which is ours as the listener is. */
struct vsock *vsock_make_accepted(int fd, int *err);
/* left.c.  left_is(): is this socket left to the kernel?  left_to(): is what a UDP socket
 * sends to @to left to the kernel?  @to NULL: to the socket's peer. */
bool left_is(int fd, bool is_udp);
bool left_to(int fd, const struct sockaddr *to);
/* A new socket: does its thread leave it? */
void left_by_thread(int fd);
void left_forget(unsigned first, unsigned last); /* they are closed */
void vsock_put(struct vsock *s);
/* All descriptors that have one are below. */
int vsock_fd_end(void);
/* It has a callback, or has none any more.  The caller has the receive lock. */
void vsock_set_callback(struct vsock *s, vma_recv_callback_t callback,
			void *context);
/* From now on, calls on the descriptor come to this API, even without a callback.
 * vsock_uncount() ends that, unless there is another reason for it. */
void vsock_count(struct vsock *s);
void vsock_uncount(struct vsock *s);
/* Counts that a receive on a UDP socket has found nothing, or failed: @err, negative. */
COLD void vsock_count_error(struct vsock *s, ssize_t err);
/* All that are in use. */
void vsock_for_each(void (*each)(struct vsock *s));
/* Is @fd TCP or UDP over IP? */
bool vsock_is_inet(int fd, bool *is_udp);

/* References, without atomics while there is one thread. */
static inline void vsock_hold(struct vsock *s)
{
	if (is_single_threaded())
		s->n_refs++;
	else
		fetch_add(&s->n_refs, 1u);
}

/* The packet just received lies in @c, which somebody has kept; NULL: it lies at the end of
 * the room.  @own: take a reference, because the other holder may not keep the chunk long
 * enough. */
static inline void vsock_lies_in(struct vsock *s, struct chunk *c, bool own)
{
	if (unlikely(s->lies_in_own))
		held_chunk_put(s->lies_in);
	s->lies_in = c;
	s->lies_in_own = c && own;
	if (s->lies_in_own)
		held_chunk_get(c);
}

/* The program keeps its @n bytes.  Returns the chunk, with a reference. */
static inline struct chunk *vsock_keep(struct vsock *s, size_t n)
{
	if (likely(!s->lies_in))
		return room_keep(&s->room, n);
	held_chunk_get(s->lies_in);
	return s->lies_in;
}

/* A call on a socket; ends with the block, also by longjmp() and cancellation. */
struct visit {
	struct unwind u;
	struct vsock *s; /* or NULL */
	bool has_rx_lock, has_mutex;
};

void visit_end(struct unwind *u);
#define VISIT(name, sock)                                                      \
	UNWIND(struct visit, name) = { .s = (sock) };                          \
	unwind_push(&name.u, visit_end)

/* The receive lock.  False: this thread has it already. */
bool visit_lock_rx(struct visit *v);
void visit_unlock_rx(struct visit *v);
/* It is none of ours from now on. */
void vsock_leave(struct visit *v);
