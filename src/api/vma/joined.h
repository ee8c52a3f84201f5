/* SPDX-License-Identifier: MIT */
/*
 * api/vma/joined.h - datagrams that the kernel has joined into one (UDP_GRO)
 *
 *     one sendmsg() with UDP_SEGMENT, or a NIC's row of datagrams  ->  one of the kernel's
 *                                             ->  joined_receive(): each for itself
 *
 * One call of the kernel then brings up to 64 datagrams.  We look at the joined datagram
 * (MSG_PEEK), hand out its parts where they lie, and take it from the socket after the last
 * part.  So the socket stays readable for poll(), epoll sets and every other waiter, as
 * long as there is a part that the program has not had.
 *
 * The option belongs to the socket, and with it all readers of the socket would have to
 * split.  So we set it only if this process has made the socket and no other process or
 * descriptor can read it: it was not copied, passed on, or inherited.  When that ends, we
 * clear the option, and split what the kernel has joined before, until a receive finds the
 * socket empty (JOINED_LEAVES).  Without the option the kernel does not say the parts'
 * size, so meanwhile each look sets it for a moment.
 *
 * A joined datagram says its parts' size in a control message, which costs more than it
 * saves if the next datagrams are not joined.  So we try the option for a few receives now
 * and then, more seldom each time that it was of no use, and keep it while two or more
 * datagrams come at once.
 */
#pragma once

#include <netinet/udp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "api/vma/filter.h"
#include "base/atomic.h"
#include "base/lock.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* After so many receives with the option, this API decides again whether it is of use. */
#define JOINED_LOOKS 16u

enum joined_state { JOINED_OFF, JOINED_ON, JOINED_LEAVES };

/* One for all descriptors of a socket. */
struct joined {
	uint32_t n_refs;  /* atomic */
	uint32_t state;   /* enum joined_state; atomic */
	struct lock lock; /* all below */
	/* Is the option set, and by the program itself?  Then it is not ours to change. */
	bool is_set, is_theirs;
	uint32_t n_old; /* receives that may find what came before the option */
	uint32_t n_failed;   /* trials in a row that were of no use */
	uint32_t n_looks;    /* receives until the state is thought over, */
	uint32_t n_parts;    /* and what they have brought */
	struct packet p;     /* the joined one */
	uint32_t left;       /* parts that nobody has taken; 0: there is none */
	uint32_t n_taken;    /* of all there were */
	uint32_t len, off;   /* bytes, and where the next part begins */
	uint32_t size;       /* of each part but the last */
	struct chunk *chunk; /* where it lies; NULL: at the end of the room */
};

/* Holds @l to the end of the block.  A thread that is alone only puts signals off. */
static inline struct lock *alone_get(struct lock *l)
{
	if (is_single_threaded())
		lock_enter();
	else
		lock_get(l);
	return l;
}

static inline void alone_put(struct lock **l)
{
	if (load_rlx(&(*l)->word))
		lock_put(*l);
	else
		lock_leave();
}

#define ALONE(l)                                                               \
	struct lock *alone __attribute__((cleanup(alone_put), unused)) =       \
	    alone_get(l)

/* Do receives on @s split? */
static inline bool joined_is_on(const struct vsock *s)
{
	return unlikely(s->joined != NULL) &&
	       load_rlx(&s->joined->state) != JOINED_OFF;
}

/* With the receive lock.  A datagram is about to be received: is it time to try the option? */
COLD void joined_try(struct vsock *s);
static inline void joined_tick(struct vsock *s)
{
	if (s->until_try && unlikely(!--s->until_try))
		joined_try(s);
}
/* joined_leave.c: the option was of no use, and the socket is not empty.  True: the option
 * is off, and nothing joined is in the socket. */
COLD bool joined_leave(struct vsock *s);
static inline bool joined_leaves(struct vsock *s)
{
	return load_rlx(&s->joined->state) == JOINED_LEAVES && joined_leave(s);
}
/* Sets the option, unless others read by now.  False: the kernel does not know it. */
bool joined_set_again(struct vsock *s, struct joined *j);
bool joined_set_option(int fd, int on);
/* The next datagram: bytes or -errno.  MSG_PEEK: it stays. */
ssize_t joined_receive(struct vsock *s, struct packet *p, int flags);
/* The datagram that joined_receive() has shown is taken. */
void joined_take(struct vsock *s);
void joined_close(struct vsock *s);

/* Anywhere: no datagrams are joined from now on. */
void joined_forbid(struct vsock *s);
/* The program sets an option: the same, or one that does not go with it? */
void joined_option(int fd, int level, int name, const void *val, socklen_t len);

/* Has this process made @fd, and can nobody else read it? */
bool joined_may(int fd);
void joined_forget(unsigned first, unsigned last);
