/* SPDX-License-Identifier: MIT */
/*
 * ops/threads.h - a thread's own choice: are the sockets that it makes to be offloaded?
 *
 *     xlio_thread_offload()  ->  ops_thread_offload()  ->  thread_leaves()  <-  socket()
 */
#pragma once

#include <stdbool.h>

/* At program start: what counts for threads without a choice of their own. */
void threads_configure(void);
/* Does the calling thread leave its new sockets to the kernel? */
bool thread_leaves(void);
