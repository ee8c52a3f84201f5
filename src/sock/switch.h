/* SPDX-License-Identifier: MIT */
/*
 * sock/switch.h - what a table of operations asks the switch about other protocols
 *
 *     proto/inet, preload  ->  sock_went_past(), ...  ->  src/ops  ->  proto/shm
 *
 * A connection that the kernel carries may be about to move to another protocol, or may
 * have come back from one.  Only src/ops knows which protocols there are.  So it defines
 * these functions (ops/tables.c, ops/upgrade.c), as it fills in sock_tables.
 */
#pragma once

#include <stdbool.h>

struct sock;

/* A call of libc's has told a peer something: sent, shut, closed.  What peers learn in
 * other ways comes after it. */
void sock_went_past(void);
/* The kernel keeps @sk for good: withdraw what was proposed to its peer.  @fd: -1 if it
 * is not at hand. */
void sock_withdraw(struct sock *sk, int fd);
/* The anchor was @from and is @to now: for what another protocol still has open. */
void sock_anchor_moved(struct sock *sk, int from, int to);
/* Has the kernel's connection carried bytes that are not the stream's? */
bool sock_had_doorbells(const struct sock *sk);
