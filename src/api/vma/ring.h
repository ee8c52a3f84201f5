/* SPDX-License-Identifier: MIT */
/*
 * api/vma/ring.h - SocketXtreme's rings: sets of sockets that one call polls
 *
 *     get_socket_rings_fds(fd)  ->  ring_of()        the socket is a member
 *     socketxtreme_poll(ring)   ->  ring_enter(), ring_turn()  ->  completions
 *
 *   ring.c          which rings there are, and which sockets may join
 *   ring_members.c  who is a member, and who polls
 *   ring_turn.c     which members have news
 *   complete.c      what one of them has: packets, connections, events
 *   xbuf.c          the memory of packets
 *   xtreme.c        the calls
 *
 * A ring is an epoll set, whose descriptor the program gets.  Its members are
 * ordinary sockets, read by the calls below (below.h), so all other calls on them
 * stay what they are.
 *
 * A second set, inside the first, reports room to send, so we do not mistake an
 * arrival for room.  The kernel reports such an edge only after a send has found too
 * little room.  Where osf moves the bytes, an edge may come at other times, too, so
 * the sends note when they found too little (vma_sent_part()).
 *
 * One thread at a time polls a ring.  It owns every field that is not marked "atomic".
 * Other threads put sockets on a list of changes (ring_tell()), and the next poll makes
 * these changes.  A member keeps a reference to its socket until then.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/vma/vsock.h"
#include "base/atomic.h"
#include "base/compiler.h"

#define RING_HOT 4u /* members that each turn looks at without the kernel */

/* on_ring.is_short: that it can send will be news. */
#define SHORT_NEW 1u  /* it has just joined */
#define SHORT_SENT 2u /* a send found too little room */

enum ring_state {
	ON_RING_IDLE, /* neither connected nor listening */
	ON_RING_LISTENING,
	ON_RING_CONNECTING,
	ON_RING_FAILED,
	ON_RING_CONNECTED, /* and all of UDP */
};

struct ring {
	uintptr_t owner;    /* the thread that polls, 0: none; atomic */
	int fd;             /* -1: the program has closed it; atomic */
	int room_fd;        /* -1: closed with it; atomic */
	uint64_t key;       /* which sockets share it */
	uint32_t is_stale;  /* a parent's, in its child */
	uint32_t is_moving; /* its descriptor is being replaced by us */
	struct vsock *told; /* changes; atomic */
	struct vsock **members;
	uint32_t n_members, n_places;
	struct vsock *first_ready, *last_ready;
	struct vsock *hot[RING_HOT];
	uint32_t n_hot, hot_at;  /* where the next look begins */
	uint32_t hot_next;       /* whose place the next hot one gets */
	uint32_t turn, hot_turn; /* and when a hot one had news last */
	uint32_t n_empty;        /* looks at the kernel that found nothing */
	uint64_t looked_ns;
	struct vma_buff_t *spare; /* for the next packet */
	struct ring *next;        /* all there ever were */
};

/* NULL: @fd is no ring. */
struct ring *ring_get(int fd);
/* Return: the descriptor of the socket's ring, which it joins if it can; 0: it cannot yet;
 * or -errno */
int ring_of(struct vsock *s);
/* @s was accepted from a listener on its ring. */
void ring_join_accepted(struct ring *r, struct vsock *s);
void ring_note_peer(struct vsock *s); /* it is connected */
/* The ring of sockets without a choice, for sends that name no socket. */
int ring_default(void);
enum ring_state ring_state_of(const struct vsock *s);

/* ring_members.c.  New sets for a ring: 0 or -errno. */
int ring_sets(int *fd, int *room_fd);
/* The next poll of @r finds out what has changed about @s. */
void ring_tell(struct ring *r, struct vsock *s);
void ring_clear(struct ring *r); /* inside: no members any more */
/* False: another thread, or an outer call of this one, polls it. */
bool ring_enter(struct ring *r);
void ring_exit(struct ring *r);

/* Is an edge of EPOLLOUT of @s news? */
bool ring_has_room(struct vsock *s);
/* @s is about to be closed, or is none of ours any more. */
void ring_leave(struct vsock *s);
void ring_forget(int fd); /* perhaps a ring's */
void ring_forget_range(unsigned first, unsigned last);
void ring_after_fork(void);

/* complete.c: writes up to @n completions; the caller is between ring_enter() and
 * ring_exit().  -errno: there is something that cannot be completed. */
int ring_turn(struct ring *r, struct vma_completion_t *to, unsigned n);

/* ring_turn.c.  Inside of ring_enter(). */
void ring_look_at_room(struct ring *r);
void ring_look(struct ring *r); /* finds members with news */
void ring_ready(struct ring *r, struct vsock *s);
struct vsock *ring_next_ready(struct ring *r); /* NULL: none */
void ring_unlist(struct ring *r, struct vsock *s);
void ring_hot(struct ring *r, struct vsock *s);
