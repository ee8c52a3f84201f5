/* SPDX-License-Identifier: MIT */
/*
 * file/hold.h - which sockets a forked child holds, and that it lets go when it ends
 *
 *     fork()  ->  a list of the sockets, in memory that both see, and a pipe whose
 *                 write end lives in the child until it ends or executes another
 *                 program
 *
 * A child that closes a socket strikes it from the list and lowers the socket's
 * count of processes.  For what a child still held when it was killed, or replaced
 * itself, the parent does both, the next time it wants to know (hold_reap()).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct file;
struct sock;

struct holding {
	struct sock *sk;
	uint32_t held; /* HELD_*; written by the child while it lives */
};

/* In the parent, around fork(), in the thread that forks.  Without memory or
 * descriptors the child's sockets are counted all the same, for good. */
void hold_begin(uint32_t n);
void hold_add(struct sock *sk);
void hold_parent(void);
/* In the child: take the list over, then claim each inherited socket's entry, then
 * let go of what the child turned out not to have. */
void hold_child(void);
struct holding *hold_claim(const struct sock *sk);
void hold_claimed(void);

/* May a child of ours still run what we run, with copies of our descriptors? */
bool hold_any(void);
/* This process closes the socket. */
void hold_strike(struct holding *h);
/* Let go for children that are gone. */
void hold_reap(void);
