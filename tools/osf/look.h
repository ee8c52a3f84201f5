/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/look.h - what the kernel adds to the statistics of running processes
 *
 *     segments -> seg_look() -> bytes, addresses, holders, peers, truer reasons
 *
 * A segment says what its library saw.  The kernel knows more: the bytes that calls outside
 * the library moved, the address that 0.0.0.0 stands for, who holds a socket after a fork,
 * and which process has the other end of a connection.
 */
#pragma once
#include "seg.h"

/* Completes @l, for processes that run.  What cannot be known stays as it is. */
void seg_look(struct seg_list *l);
