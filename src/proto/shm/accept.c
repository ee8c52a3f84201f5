/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/accept.c - the accepting side of an upgrade; see proto/shm/upgrade.c
 *
 *     YOUNG      shm_accept() finds a proposal and sends a segment
 *     PENDING    each call looks whether the opener has taken it
 *     SHM        it has; or the connection stays with the kernel
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/fds.h"
#include "base/fork_lock.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "proto/shm/inbox.h"
#include "proto/shm/upgrade.h"
#include "sock/shared.h"

/* Side 0 revokes the segment, unless side 1 has taken it.  Not while we keep the error
 * that ended the connection: the kernel has it no more, so a call of ours reports it. */
static bool revoke_segment(const struct sock *sk)
{
	return !load_rlx(&sk->w->anchor_err) &&
	       cas(&shm_peer(sk)->flags, 0u, (uint32_t)SEG_REVOKED);
}

static int send_segment(struct sock *sk, int channel)
{
	struct seg *seg;
	int seg_fd;
	uint32_t ring_size = seg_ring_fit(shm_config.ring_bytes);
	int err = seg_create(ring_size, &seg, &seg_fd);
	if (err)
		return err;
	uint32_t tag = upgrade_inbox_for(channel);
	shm_of(sk)->side = 0;
	shm_of(sk)->inbox_tag = tag;
	upgrade_init_rings(sk, seg, ring_size);
	int fds[HELLO_FDS] = { seg_fd, inbox_fd_get(tag) };
	err = fds[1] < 0 ? fds[1] : upgrade_say_hello(tag, channel, fds, 2);
	inbox_fd_put();
	nocancel_close(seg_fd);
	if (err) {
		inbox_put(tag);
		shm_of(sk)->inbox_tag = 0;
		shm_of(sk)->seg = NULL;
		seg_unmap(seg, ring_size);
	}
	return err;
}

/* Has the opener closed the channel, whether or not it answered? */
static bool is_gone(const struct sock *sk)
{
	struct pollfd p = { .fd = shm_of(sk)->channel_fd };

	return nocancel_poll(&p, 1, 0) > 0 && p.revents & POLLHUP;
}

/* The peer may not share our memory.  It finds that out by asking the kernel about
 * us, for which it needs the channel.  So keep the channel open until the peer has
 * closed it, or until our last look. */
static int refuse(struct sock *sk, int channel, int err)
{
	shm_of(sk)->channel_fd = channel;
	shm_of(sk)->refusal = err;
	sock_set_reason(sk, upgrade_reason(err));
	sock_set_mode(sk, SOCK_YOUNG);
	return 0;
}

int shm_accept(struct sock *sk, int fd)
{
	int refused;

	upgrade_will_offer();
	if (shm_of(sk)->refusal && !is_gone(sk)) {
		sock_set_mode(sk, SOCK_YOUNG);
		return 0;
	}
	if (shm_of(sk)->refusal) {
		shm_proposal_close(sk, fd);
		return upgrade_decline(sk, shm_of(sk)->refusal);
	}
	int channel = proposal_connect(fd, &shm_of(sk)->notice, &refused);
	upgrade_hide_rate(sk);
	if (refused >= 0)
		return refuse(sk, refused, channel);
	if (channel == -ENOENT || channel == -EAGAIN) {
		sock_set_mode(sk, SOCK_YOUNG);
		return 0;
	}
	if (channel < 0)
		return upgrade_decline(sk, channel);
	shm_of(sk)->channel_fd = channel;
	int err = anchor_counts(fd, sk->flags & SOCK_F_ACTIVE,
				&shm_of(sk)->tx_tcp_base);
	if (!err)
		err = anchor_consumed(fd, &shm_of(sk)->rx_tcp_base);
	shm_of(sk)->cookie = fds_cookie(fd);
	if (!err) {
		upgrade_prepare_anchor(sk, fd);
		err = send_segment(sk, channel);
		if (err)
			anchor_restore(sk, fd);
	}
	if (err) {
		shm_proposal_close(sk, fd);
		return upgrade_decline(sk, err);
	}
	sock_set_mode(sk, SOCK_PENDING);
	return 1;
}

/* The segment stays mapped until the socket closes, because other threads may
 * sleep in calls that use it. */
static void candidate_end(struct sock *sk, int fd, enum osf_reason reason)
{
	anchor_restore(sk, fd);
	shm_proposal_close(sk, fd);
	sock_set_reason(sk, reason);
	store_rlx(&shm_w(sk)->rx_tcp, (uint8_t)0);
	shm_due_by_kernel(sk, fd);
	sock_set_mode(sk, SOCK_KERNEL);
}

/* Has the opener closed the channel without an answer? */
static bool is_declined(const struct sock *sk)
{
	char byte;

	ssize_t n = nocancel_recv(shm_of(sk)->channel_fd, &byte, 1,
				  MSG_PEEK | MSG_DONTWAIT);
	return n == 0 || (n < 0 && errno != EAGAIN);
}

static void candidate_step(struct sock *sk, int fd)
{
	struct hello h;
	int fds[HELLO_FDS];
	uint64_t sent;

	if (sk->w->anchor_err || load_rlx(&shm_w(sk)->rx_broken))
		return; /* report the error first */
	if (!(load_acq(&shm_peer(sk)->flags) & SEG_READY)) { /* S3 */
		/* The opener answers before it closes, so check READY once
		 * more. */
		if (is_declined(sk) &&
		    !(load_acq(&shm_peer(sk)->flags) & SEG_READY))
			candidate_end(sk, fd, OSF_REASON_PEER_KERNEL);
		return;
	}
	int err = hello_recv(shm_of(sk)->channel_fd, &h, fds);
	/* EMFILE: the program may have dropped its right to open files.  The
	 * connection then works without the peer's inbox. */
	if (err && err != -EMFILE) {
		log_err("fd %d: answer: %s", fd, strerror(-err));
		shm_broken(sk, fd, "no answer to the segment");
		return;
	}
	/* A mapping made here does not exist in the other processes that share
	 * the socket.  They all have the anchor, so use no inbox. */
	if (!sealed_is(fds[0]) || sock_procs(sk) > 1 ||
	    inbox_attach(fds[0], &shm_of(sk)->peer_inbox))
		shm_of(sk)->peer_inbox = NULL;
	if (!err)
		upgrade_keep_bell(sk, &h, fds, shm_of(sk)->channel_fd);
	upgrade_close_fds(fds);
	shm_proposal_close(sk, fd);
	/* If the program has sent bytes without our counting them, the kernel's
	 * count includes them. */
	if (!anchor_counts(fd, sk->flags & SOCK_F_ACTIVE, &sent) &&
	    sent != shm_of(sk)->tx_tcp_base) {
		log_warn("fd %d: sent %llu by our count, %llu by the kernel's",
			 fd, (unsigned long long)shm_of(sk)->tx_tcp_base,
			 (unsigned long long)sent);
		shm_of(sk)->tx_tcp_base = sent;
	}
	upgrade_say_tx(sk, fd, shm_of(sk)->tx_tcp_base);
	store_rlx(&shm_w(sk)->tx_ring, (uint8_t)1);
	fetch_or(&shm_me(sk)->flags, SEG_TX_RING | upgrade_says(fd)); /* S1 */
	upgrade_done(sk);
}

/* A thread that forks takes the locks that the caller holds, and the child must not get a
 * connection in the middle of this step.  So during a fork the step is left to a later
 * call. */
void shm_pending_step(struct sock *sk, int fd)
{
	if (!fork_lock_try())
		return;
	int inside __attribute__((cleanup(fork_lock_leave_cleanup), unused)) =
	    0;

	candidate_step(sk, fd);
}

/* This step is also taken while another thread forks, because that thread waits for the
 * locks that the caller holds. */
void shm_pending_follow(struct sock *sk, int fd) { candidate_step(sk, fd); }

/* The process needs the candidate's descriptors.  Return true if the
 * connection is back with the kernel. */
bool shm_pending_drop(struct sock *sk, int fd, enum osf_reason why)
{
	if (!sock_take_mode(sk, SOCK_PENDING))
		return false;
	bool dropped = revoke_segment(sk);
	if (dropped)
		candidate_end(sk, fd, why);
	sock_unlock_both(sk);
	return dropped;
}

/* The connection is about to change in a way that a candidate cannot follow: if
 * the segment is not taken yet, it will not be. */
void shm_pending_decide(struct sock *sk, int fd)
{
	if (revoke_segment(sk)) {
		candidate_end(sk, fd, OSF_REASON_HALF_CLOSED);
		return;
	}
	shm_pending_follow(sk, fd);
	if (sock_mode(sk) == SOCK_PENDING && !sk->w->anchor_err)
		shm_broken(sk, fd, "flags of a segment that nobody has taken");
}
