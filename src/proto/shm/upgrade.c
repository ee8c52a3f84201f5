/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/upgrade.c - move a live connection from TCP to shared memory
 *
 *     opener (calls connect)               acceptor (calls accept)
 *     listens under a name (proposal)
 *                                          connects, sends segment (accept)
 *     maps it, answers (confirm), READY
 *     sends through the ring from now on   sees READY, sends through the ring
 *
 * This file has the opener and the settings, accept.c the acceptor, and handshake.c what
 * both do.
 *
 * No step blocks.  Each step runs inside a call that the application makes
 * anyway, after the other side has had time for its own step.  If a step
 * fails, the connection stays with the kernel and the socket records the
 * reason.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/fds.h"
#include "base/fork_lock.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "base/setting.h"
#include "base/sockopt.h"
#include "base/unwind.h"
#include "proto/shm/elsewhere.h"
#include "proto/shm/inbox.h"
#include "proto/shm/other_end.h"
#include "proto/shm/rendezvous.h"
#include "proto/shm/shm.h"
#include "proto/shm/trust.h"
#include "proto/shm/upgrade.h"
#include "sock/arena.h"
#include "sock/opt.h"
#include "sock/shared.h"

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif
#define SNDBUF_LOCKED 1

#define RING_LEAST_SIZE (16 * 1024)

struct shm_config shm_config = {
	.enabled = true,
	.ring_bytes = 16 * 1024 * 1024,
	.upgrade_pingpongs = 5,
	.upgrade_bytes = 128 * 1024,
};

void shm_configure(void)
{
	uint64_t ring = setting_number("OSF_RING", shm_config.ring_bytes,
				       RING_LEAST_SIZE, RING_MAX_SIZE);

	while (ring & (ring - 1))
		ring &= ring - 1;
	shm_config.ring_bytes = (uint32_t)ring;
	shm_config.enabled = setting_bool("OSF_SHM", true, true);
	shm_config.upgrade_pingpongs = (uint32_t)setting_number(
	    "OSF_UPGRADE_PINGPONGS", shm_config.upgrade_pingpongs, 0,
	    UINT32_MAX);
	shm_config.learns = !env_text("OSF_UPGRADE_PINGPONGS") &&
			    !env_text("OSF_UPGRADE_BYTES");
	shm_config.upgrade_bytes = setting_number(
	    "OSF_UPGRADE_BYTES", shm_config.upgrade_bytes, 0, INT64_MAX);
}

/* If the application has set SO_SNDBUF, limit the bytes in flight to that plus
 * what the receiver's kernel would buffer. */
void shm_sndbuf_changed(struct sock *sk, int fd)
{
	if (sockopt_int(fd, SOL_SOCKET, SO_BUF_LOCK) & SNDBUF_LOCKED)
		shm_of(sk)->tx_limit =
		    (uint32_t)sockopt_int(fd, SOL_SOCKET, SO_SNDBUF) +
		    128 * 1024;
}

/* Side 1 takes the segment, and sends through the ring from now on.  False: it
 * has been revoked. */
static bool take_segment(const struct sock *sk, int fd)
{
	return cas(&shm_me(sk)->flags, 0u,
		   (uint32_t)(SEG_READY | SEG_TX_RING) | /* S1, S3 */
		       upgrade_says(fd));
}

static uint32_t had_offers;

bool shm_had_offers(void) { return load_rlx(&had_offers); }
void shm_forget_offers(void) { store_rlx(&had_offers, 0u); }
void upgrade_will_offer(void) { store_rlx(&had_offers, 1u); }

int shm_propose(struct sock *sk, int fd)
{
	upgrade_will_offer();
	int s = proposal_listen(fd, &shm_of(sk)->notice);
	upgrade_hide_rate(sk);

	if (s < 0)
		return upgrade_decline(sk, s);
	store_rlx(&shm_of(sk)->proposal_fd, s);
	fetch_or(&sk->flags, (uint8_t)SOCK_F_PROPOSED);
	count(&arena_totals()->n_proposals, 1);
	sock_set_mode(sk, SOCK_YOUNG);
	return 0;
}

/* If the number cannot be taken away, its name stays bound: see
 * proto/shm/notice.h. */
void shm_proposal_close(struct sock *sk, int fd)
{
	struct shm_conn *c = shm_of(sk);

	if (fd >= 0 && c->notice.number && fds_cookie(fd) == c->notice.cookie)
		c->notice.fd = fd;
	if (notice_remove(&c->notice)) {
		proposal_close(c->proposal_fd);
		discard_channel(c->channel_fd);
	} else {
		log_info("fd %d: a unix socket stays open", sk->st->fd);
	}
	store_rlx(&c->proposal_fd, 0);
	c->channel_fd = 0;
	upgrade_hide_rate(sk);
}

void shm_withdraw(struct sock *sk, int fd)
{
	struct shm_conn *c = shm_of(sk);

	c->refusal = 0;
	if (sock_procs(sk) == 1) {
		shm_proposal_close(sk, fd);
		return;
	}
	if (c->proposal_fd > 0)
		fds_close(c->proposal_fd);
	if (c->channel_fd > 0)
		fds_close(c->channel_fd);
	store_rlx(&c->proposal_fd, 0);
	c->channel_fd = 0;
}

/* It has been revoked: undo what was prepared.  Nobody else is inside. */
static void refuse_segment(struct sock *sk, int fd, uint32_t ring_size)
{
	store_rlx(&shm_w(sk)->tx_ring, (uint8_t)0);
	store_rlx(&shm_w(sk)->rx_tcp, (uint8_t)0);
	inbox_detach(shm_of(sk)->peer_inbox);
	inbox_put(shm_of(sk)->inbox_tag);
	shm_of(sk)->peer_inbox = NULL;
	shm_of(sk)->inbox_tag = 0;
	seg_unmap(shm_of(sk)->seg, ring_size);
	shm_of(sk)->seg = NULL;
	anchor_restore(sk, fd);
}

/*
 * The process is about to fork, and this connection's segment is not taken yet.  Take the
 * segment back, and let both sides try again later, this one when it is the only holder.  A
 * child that gives up authority has to leave the memory that it shares (file/unshare.c),
 * and could then only revoke such a segment for good.  Not if a thread sleeps on the
 * connection or a set watches it, because these would go on using the segment.
 */
void shm_pending_undo(struct sock *sk, int fd)
{
	sock_unshare(sk);
	if (!is_single_threaded() || unwind_top || sk->page ||
	    sk->watches.first || readahead_bytes(sk))
		return;
	if (!sock_take_mode(sk, SOCK_PENDING))
		return;
	if (!sk->w->anchor_err && !shm_is_broken(sk) &&
	    cas(&shm_peer(sk)->flags, 0u,
		(uint32_t)(SEG_REVOKED | SEG_LATER))) {
		shm_proposal_close(sk, fd);
		refuse_segment(sk, fd, shm_ring_bytes(sk));
		sock_set_reason(sk, OSF_REASON_YOUNG);
		sock_set_mode(sk, SOCK_YOUNG);
	}
	sock_unlock_both(sk);
}

/* Has the peer taken its segment back, to send another one later?  @me: our side. */
static bool is_later(const struct seg_side *me)
{
	return load_acq(&me->flags) & SEG_LATER;
}

/* Map the segment that was sent, answer, and take it.  -EAGAIN: the peer has taken it
 * back, and will send another. */
static int accept_segment(struct sock *sk, int fd, int channel,
			  const struct hello *h, int fds[HELLO_FDS])
{
	struct peer_inbox *peer_inbox = NULL;
	struct seg *seg;
	uint32_t ring_size;
	uint64_t sent;

	if (!sealed_is(fds[0]) || !sealed_is(fds[1]))
		return -EBADMSG;
	int err = seg_open(fds[0], &seg, &ring_size);
	if (err)
		return err;
	err = inbox_attach(fds[1], &peer_inbox);
	if (!err)
		err = anchor_counts(fd, sk->flags & SOCK_F_ACTIVE, &sent);
	if (!err)
		err = anchor_consumed(fd, &shm_of(sk)->rx_tcp_base);
	shm_of(sk)->cookie = fds_cookie(fd);
	uint32_t tag = err ? 0 : upgrade_inbox_for(channel);
	if (!err) {
		int own[HELLO_FDS] = { inbox_fd_get(tag) };

		err = own[0] < 0 ? own[0]
				 : upgrade_say_hello(tag, channel, own, 1);
		inbox_fd_put();
	}
	if (err) {
		/* The peer has closed the channel: it may have said why. */
		if (is_later(&seg->side[1]))
			err = -EAGAIN;
		inbox_detach(peer_inbox);
		inbox_put(tag);
		seg_unmap(seg, ring_size);
		return err;
	}
	upgrade_prepare_anchor(sk, fd);
	shm_of(sk)->side = 1;
	shm_of(sk)->inbox_tag = tag;
	shm_of(sk)->peer_inbox = peer_inbox;
	upgrade_init_rings(sk, seg, ring_size);
	upgrade_keep_bell(sk, h, fds, channel);
	shm_of(sk)->tx_tcp_base = sent;
	upgrade_say_tx(sk, fd, sent);
	store_rlx(&shm_w(sk)->tx_ring, (uint8_t)1);
	if (take_segment(sk, fd))
		return 0;
	err = is_later(shm_me(sk)) ? -EAGAIN : -ENOENT;
	refuse_segment(sk, fd, ring_size);
	return err;
}

int shm_proposal_advance(struct sock *sk, int fd)
{
	int fds[HELLO_FDS], err = 0;
	struct hello h;

	if (shm_of(sk)->channel_fd <= 0) {
		int channel = proposal_accept(shm_of(sk)->proposal_fd, fd);

		if (channel >= 0)
			shm_of(sk)->channel_fd = channel;
		else
			err = channel;
	}
	if (!err)
		err = hello_recv(shm_of(sk)->channel_fd, &h, fds);
	if (err == -EAGAIN) { /* nobody yet, or still making the segment */
		sock_set_mode(sk, SOCK_YOUNG);
		return 0;
	}
	if (!err) {
		err = accept_segment(sk, fd, shm_of(sk)->channel_fd, &h, fds);
		upgrade_close_fds(fds);
	}
	shm_proposal_close(sk, fd);
	if (err == -EAGAIN) { /* a new proposal comes with the next look */
		sock_set_mode(sk, SOCK_YOUNG);
		return 0;
	}
	if (err)
		return upgrade_decline(sk, err);
	upgrade_done(sk);
	return 1;
}

int shm_announce(int listen_fd, bool is_kernel)
{
	return announce_bind(listen_fd,
			     is_kernel ? ANNOUNCED_KERNEL : ANNOUNCED);
}

/* Anybody can connect there, and send descriptors. */
void shm_unannounce(int fd) { discard_listener(fd); }

bool shm_is_announced(int fd)
{
	struct other_end e = { .uid = geteuid() };
	int err = other_end_ask(fd, &e);

	return (!err || err == -EAGAIN || err == -EOPNOTSUPP) &&
	       !announce_check(fd, ANNOUNCED, e.uid);
}

enum osf_reason shm_why_alone(const struct sock *sk, int fd)
{
	struct other_end e = { .uid = geteuid() };
	int err = other_end_ask(fd, &e);

	if (shm_of(sk)->refusal)
		return upgrade_reason(shm_of(sk)->refusal);
	if (err == -ENOENT)
		return OSF_REASON_OTHER_NETNS;
	if (err == -EOPNOTSUPP)
		return OSF_REASON_NO_PROOF;
	if (!trust_allows(e.uid))
		return OSF_REASON_OTHER_UID;
	if (!(sk->flags & SOCK_F_ACTIVE))
		return OSF_REASON_NO_PROPOSAL;
	int by_osf = announce_check(fd, ANNOUNCED, e.uid);
	if (by_osf == -ENOENT)
		by_osf = announce_check(fd, ANNOUNCED_KERNEL, e.uid);
	if (by_osf == -ENOENT)
		return OSF_REASON_NO_PEER;
	return by_osf ? OSF_REASON_NO_PROPOSAL : OSF_REASON_PEER_KERNEL;
}

/* The child will share the connection with its parent.  News must wake both processes, so
 * the peer rings the anchor from now on.  Touch the segment here as well: the parent has it
 * in its page tables, and the child would have to fault it in first. */
void shm_before_fork(struct sock *sk)
{
	if (shm_of(sk)->seg && sock_is_ours(sk))
		fetch_or(&shm_me(sk)->flags, SEG_SHARED);
}
