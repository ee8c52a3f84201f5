/* SPDX-License-Identifier: MIT */
/*
 * ops/upgrade.c - what protocols keep for a connection, and for the process
 *
 * A connection may have come through several protocols.  Each that has kept something
 * for it lets go when it is closed.
 */
#include "ops/ops.h"
#include "ops/route.h"
#include "proto/shm/inbox.h"
#include "proto/shm/shm.h"

void ops_upgrade_fds(const struct sock *sk, int32_t fds[OPS_UPGRADE_FDS])
{
	fds[0] = load_rlx(&shm_of(sk)->offer_fd);
	fds[1] = load_rlx(&shm_of(sk)->channel_fd);
}

void ops_close(struct sock *sk, int fd)
{
	ops_closed(sk);
	if (shm_of(sk)->seg)
		shm_close(sk, fd);
	shm_offer_close(sk);
}

void ops_after_fork(void)
{
	inbox_after_fork();
	route_after_fork();
}
