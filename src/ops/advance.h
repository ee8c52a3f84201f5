/* SPDX-License-Identifier: MIT */
/*
 * ops/advance.h - when a young connection is looked at, and what a look does
 *
 *     connected, accepted  ->  ops_start_counting()  ->  a milestone
 *     a call, at it        ->  ops_advance()     ->  proto/shm, a port; or the next
 */
#pragma once

#include "sock/sock.h"

/* Sets the first milestone. */
void ops_start_counting(struct sock *sk);
/* ops.c: @sk is the kernel's for good. */
void ops_to_kernel(struct sock *sk, enum osf_reason reason);
/* ops.c: notes the socket's own address in its statistics. */
void ops_note_local(struct sock *sk, int fd);
