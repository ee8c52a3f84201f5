/* SPDX-License-Identifier: MIT */
/*
 * file/hold.h - which sockets forked children hold, and how they release them
 *
 *     fork()  ->  a list of the sockets, the same in parent and child
 *                 a claim for each of them, in memory that both see
 *                 a pipe whose write end stays open in the child until it ends,
 *                 executes another program or has closed all sockets
 *
 * A child that closes a socket ends its claim and lowers the socket's count of
 * processes.  If the child is killed or executes another program before that,
 * the parent does both the next time it calls hold_reap().
 *
 * A child's own children have lists of their own, which the first parent cannot
 * see.  So they count in the child's claim too, and inherit the write end of
 * its pipe: a claim stands for a process and all its descendants, whichever
 * ends first.
 *
 * When a parent is killed, its children see a pipe without a reader.  They
 * release what the parent held: through its own claim, or through
 * sock.maker_has for a socket that the parent made.
 *
 * The shared memory holds only numbers.  Do not trust them: the child may have
 * written anything.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct hold;
struct sock;

struct claim {
	uint32_t own;   /* CLAIM_*; written by the child while it lives */
	uint32_t below; /* processes that come from it and hold the socket */
	uint32_t left;  /* one of them has ended without closing */
};

/* One process's view of a claim: the child's, or its parent's. */
struct holding {
	struct sock *sk; /* NULL: not mapped here any more */
	uint32_t
	    in_use; /* of the entry, to know whether it is still that one */
	struct claim *claim; /* shared */
	struct holding *up;  /* what the parent was given by its own, or NULL */
	struct hold *hold;
};

/* In the parent, around fork(), in the thread that forks.  Without memory or
 * descriptors for the list, the child's sockets stay counted for good.  @up:
 * this process's own claim, if it inherited the socket. */
void hold_begin(uint32_t n);
void hold_add(struct sock *sk, struct holding *up);
void hold_parent(void);
/* In the child, in this order: take the list over, claim each inherited socket,
 * release those that the child does not have. */
void hold_child(void);
struct holding *hold_claim(const struct sock *sk);
void hold_claimed(void);

/* May a child of ours still run what we run, with copies of our descriptors? */
bool hold_any(void);
/* This process closes the socket; NULL: it was not inherited. */
void hold_strike(struct holding *h);
/* The child closes a socket that it no longer shares (file/unshare.c).  Its parent counts it
 * as a holder until it has ended or has closed all such sockets. */
void hold_unkeep(struct holding *h);
/* The memory of all sockets is about to be unmapped except where @stays is true. */
void hold_forget_all_but(bool (*stays)(const struct sock *sk));
/* The process ends, but its threads may still run: free the entry later. */
void hold_leave(struct holding *h);
/* Release what ended children held. */
void hold_reap(void);
/* The same, but stop once we know whether a child holds @sk. */
void hold_reap_of(const struct sock *sk);
/* Release what an ended parent held, too. */
void hold_reap_above(void);
