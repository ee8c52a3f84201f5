/* SPDX-License-Identifier: MIT */
/*
 * file/hold.h - which sockets forked children hold, and that they let go when they end
 *
 *     fork()  ->  a list of the sockets, the same in parent and child
 *                 a claim for each of them, in memory that both see
 *                 a pipe whose write end lives in the child until it ends, executes
 *                 another program or has let go of all
 *
 * A child that closes a socket ends its claim and lowers the socket's count of
 * processes.  For what a child still held when it was killed, or replaced itself, the
 * parent does both, the next time it wants to know (hold_reap()).
 *
 * A child's own children have lists of theirs, which its parent cannot see.  So they
 * count in the child's claim too, and have the write end of its pipe: a claim stands
 * for a process and all that come from it.  Whoever is between may end before them.
 *
 * A parent that is killed leaves its children a pipe without a reader.  They let go of
 * what it held: by its own claim, or by shared_page.maker_has where the socket began with it.
 *
 * Shared are numbers only.  What they say of a child, the child may have made up.
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

/* A claim as its process knows it, and as its parent does. */
struct holding {
	struct sock *sk;
	uint32_t
	    in_use; /* of the entry, to know whether it is still that one */
	struct claim *claim; /* shared */
	struct holding *up;  /* what the parent was given by its own, or NULL */
	struct hold *hold;
};

/* In the parent, around fork(), in the thread that forks.  Without memory or
 * descriptors the child's sockets are counted all the same, for good.
 * @up: this process's own claim, if it inherited the socket. */
void hold_begin(uint32_t n);
void hold_add(struct sock *sk, struct holding *up);
void hold_parent(void);
/* In the child: take the list over, then claim each inherited socket's entry, then
 * let go of what the child turned out not to have. */
void hold_child(void);
struct holding *hold_claim(const struct sock *sk);
void hold_claimed(void);

/* May a child of ours still run what we run, with copies of our descriptors? */
bool hold_any(void);
/* This process closes the socket; NULL: nobody gave it. */
void hold_strike(struct holding *h);
/* It ends, and its threads may still be inside: the entry is freed afterwards. */
void hold_leave(struct holding *h);
/* Let go for children that are gone. */
void hold_reap(void);
/* The same, as far as it takes to know whether a child holds @sk. */
void hold_reap_of(const struct sock *sk);
/* For what the parent held, too, if it is gone. */
void hold_reap_above(void);
