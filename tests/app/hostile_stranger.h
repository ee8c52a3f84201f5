/* SPDX-License-Identifier: MIT */
/* tests/app/hostile_stranger.h - the manner "visits" of hostile.c */
#ifndef TESTS_HOSTILE_STRANGER_H
#define TESTS_HOSTILE_STRANGER_H

#include <stdint.h>

/* @ctl brings two ports: of a server whose connections are reached for, and of one
 * that accepts anybody.  A byte goes back for each visit. */
__attribute__((noreturn)) void visit_until_killed(uint64_t seed, int ctl);

#endif
