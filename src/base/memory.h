/* SPDX-License-Identifier: MIT */
/*
 * base/memory.h - how much memory this process may still take
 *
 *     /proc/sys/vm/overcommit_memory, the limits of our memory cgroups  ->  memory_room()
 *
 * The kernel shrinks a socket's window when memory is short.  Nobody can do that to memory
 * that two processes share: the first store beyond the limit of a memory cgroup makes the
 * kernel kill a process of that cgroup, and with vm.overcommit_memory=2 it raises SIGBUS.
 * So whoever is about to share memory asks before.
 */
#pragma once

#include <stdint.h>

/* In bytes, as of the last 100 ms; UINT64_MAX: no limit is known.  With
 * vm.overcommit_memory=2, 0. */
uint64_t memory_room(void);
