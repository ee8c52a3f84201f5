/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/fallback.h - what fallback.c needs of stash.c
 *
 *     TCP up to K, ring up to the cut  ->  stash_rx()  ->  the stash
 *     the stash  ->  stash_put_back()  ->  the peer's socket, if the kernel gives a copy
 */
#pragma once

#include <stdint.h>

#include "base/clock.h"
#include "proto/shm/elsewhere.h"
#include "sock/sock.h"
#include "sock/stash.h"

#define TICK_NS (100 * NS_PER_US) /* between two looks */

/* When a fallback has waited in vain for bytes. */
extern uint64_t stash_vain_ns;

/* Takes into @st what comes from the peer and TCP does not bring.  Bytes that are not there
 * at @until_ns are left to the relay. */
int stash_rx(struct sock *sk, int fd, struct stash *st, uint64_t until_ns);
/* Writes the stash into the peer's socket @other.  If not all fits, reads it back.  If the
 * peer keeps its socket busy, @st takes the channel of @other over.
 * Return: 0, or -EOWNERDEAD: nobody knows how much has been written */
MUST_CHECK int stash_put_back(int fd, struct far_end *other, struct stash *st,
			      uint64_t until_ns);
