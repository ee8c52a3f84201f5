/* SPDX-License-Identifier: MIT */
/*
 * preload/async.h - system calls that the kernel carries out later, or elsewhere
 *
 * They name descriptors in memory that we do not see pass, so connections that they
 * may reach are the kernel's.
 */
#pragma once

struct iocb;

/* An io_uring exists from now on: every connection of the process, and all to come,
 * stay with the kernel, unless OSF_IO_URING=files. */
void async_ring_made(void);
/* io_submit(2) of @n control blocks. */
void async_submitted(struct iocb **blocks, long n);
