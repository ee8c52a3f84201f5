/* SPDX-License-Identifier: MIT */
/*
 * ops/upgrade.c - what an attempt at an upgrade has open, and how it is closed
 *
 * A connection may have been in several protocols.  A young one may have made a
 * proposal.  One that fell back to the kernel still has shared memory mapped,
 * because other threads may be asleep on it.  The table that the socket has now
 * knows of neither, so this file closes both.
 */
#include "ops/history.h"
#include "ops/ops.h"
#include "ops/route.h"
#include "proto/module/stream.h"
#include "proto/shm/inbox.h"
#include "proto/shm/other_end.h"
#include "proto/shm/shm.h"
#include "proto/tcp/wire.h"
#include "sock/switch.h"

void ops_close(struct sock *sk, int fd)
{
	ops_closed(sk);
	if (shm_config.learns)
		history_note(sk);
	sock_ops(sk)->close(sk, fd);
	if (shm_of(sk)->seg)
		shm_close(sk, fd);
	shm_proposal_close(sk, fd);
	stream_free(sk);
}

void sock_withdraw(struct sock *sk, int fd) { shm_proposal_close(sk, fd); }

bool sock_had_doorbells(const struct sock *sk) { return shm_of(sk)->seg; }

void sock_anchor_moved(struct sock *sk, int from, int to)
{
	shm_anchor_moved(sk, from, to);
}

void ops_let_go(struct sock *sk, int fd)
{
	shm_let_go(sk, fd);
	stream_free(sk);
}

void ops_upgrade_fds(const struct sock *sk, int32_t fds[OPS_UPGRADE_FDS])
{
	fds[0] = load_rlx(&shm_of(sk)->proposal_fd);
	fds[1] = load_rlx(&shm_of(sk)->channel_fd);
}

bool ops_spare_fds(struct sock *sk, int fd, enum osf_reason why)
{
	int32_t fds[OPS_UPGRADE_FDS];

	ops_upgrade_fds(sk, fds);
	if (sock_mode(sk) == SOCK_PENDING)
		return shm_pending_drop(sk, fd, why);
	return (fds[0] > 0 || fds[1] > 0) && ops_keep_kernel(sk, why);
}

bool ops_spare_own_fds(void)
{
	return other_end_spare_fd() || inbox_spare_fd();
}

void ops_before_sharing(struct sock *sk, int fd)
{
	if (sock_mode(sk) == SOCK_PENDING)
		shm_pending_undo(sk, fd);
}

static bool forks; /* under the fork lock */

void ops_before_fork(void)
{
	stream_before_fork();
	forks = true;
}

void ops_forked(void)
{
	if (forks)
		stream_after_fork();
	forks = false;
}

void ops_after_fork(void)
{
	ops_forked();
	inbox_after_fork();
	route_after_fork();
	wire_after_fork();
}

void ops_unshare(void) { history_alone(); }

bool ops_had_offers(void) { return shm_had_offers(); }
void ops_forget_offers(void) { shm_forget_offers(); }

void ops_withdraw(struct sock *sk, int fd)
{
	int32_t fds[OPS_UPGRADE_FDS];

	ops_upgrade_fds(sk, fds);
	if (fds[0] <= 0 && fds[1] <= 0)
		return;
	if (sock_mode(sk) == SOCK_PENDING)
		shm_pending_drop(sk, fd, OSF_REASON_OTHER_UID);
	else if (sock_start_moving(sk)) {
		shm_withdraw(sk, fd);
		sock_set_mode(sk, SOCK_YOUNG);
	}
}

void ops_will_lend(void) { shm_config.lends = true; }
