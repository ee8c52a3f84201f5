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
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/fds.h"
#include "base/gate.h"
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
	.upgrade_turns = 5,
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
	shm_config.upgrade_turns = (uint32_t)setting_number(
	    "OSF_UPGRADE_TURNS", shm_config.upgrade_turns, 0, UINT32_MAX);
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

/* The anchor carries doorbells from now on.  Each doorbell must leave at once
 * (TCP_NODELAY), and one byte must be enough to wake a reader (SO_RCVLOWAT). */
static void anchor_prepare(struct sock *sk, int fd)
{
	int one = 1, zero = 0;

	opt_read(sk, fd);
	if (sk->w->cork)
		libc.setsockopt(fd, IPPROTO_TCP, TCP_CORK, &zero, sizeof(zero));
	if (!sk->w->nodelay)
		libc.setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one,
				sizeof(one));
	if (sk->w->rcvlowat > 1)
		libc.setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
	shm_sndbuf_changed(sk, fd);
	errq_zerocopy_changed(sk, fd);
}

/* Point both rings into the segment, for the side in shm_of(sk)->side. */
static void rings_init(struct sock *sk, struct seg *seg, uint32_t ring_size)
{
	unsigned side = shm_of(sk)->side;

	shm_of(sk)->seg = seg;
	ring_tx_init(&shm_of(sk)->tx, seg_ring(seg, side, ring_size), ring_size,
		     &seg->side[!side].tail);
	ring_tx_window(&shm_of(sk)->tx, MIN(ring_size / 2, RING_WINDOW));
	ring_tx_areas(&shm_of(sk)->tx, shm_of(sk)->tx.base + ring_size / 2,
		      &seg->side[!side].tail2, ring_size / 2);
	shm_of(sk)->bulk_bytes = 0;
	shm_of(sk)->n_bulk_slow = 0;
	ring_rx_init(&shm_of(sk)->rx, seg_ring(seg, !side, ring_size),
		     ring_size, &seg->side[side].tail);
	store_rlx(&shm_w(sk)->rx_tcp, (uint8_t)1);
	shm_of(sk)->rx_tcp_left = -1;
	store_rlx(&shm_w(sk)->tx_ring, (uint8_t)0);
	sk->looked_ns = coarse_ns();
	/* A thread may already sleep in the kernel on the anchor: ask the peer
	 * to ring. */
	store_rlx(&seg->side[side].rx_anchor, shm_ring_how(sk));
}

static enum osf_reason reason_of(int err)
{
	switch (err) {
	case -EPERM:
		return OSF_REASON_OTHER_UID;
	case -EXDEV:
		return OSF_REASON_OTHER_USERNS;
	case -ENOSYS:
		return OSF_REASON_HIDDEN_USERNS;
	case -EOPNOTSUPP:
		return OSF_REASON_NO_PROOF;
	case -EPROTONOSUPPORT:
		return OSF_REASON_VERSION;
	case -EUCLEAN:
		return OSF_REASON_COUNTS;
	case -ENOENT:
	case -EPIPE: /* it was there, and has gone */
		return OSF_REASON_PEER_KERNEL;
	case -ENOTCONN:
		return OSF_REASON_UNCONNECTED;
	case -EBADMSG:
	case -EPROTO:
		return OSF_REASON_BROKEN;
	default:
		return OSF_REASON_NO_MEMORY;
	}
}

static void became_shm(struct sock *sk)
{
	sk->st->proto = OSF_PROTO_SHM;
	sk->st->since_ns = clock_ns(CLOCK_REALTIME);
	sock_set_reason(sk, OSF_REASON_UPGRADED);
	count(&arena_totals()->n_upgraded, 1);
	sock_set_mode(sk, SOCK_SHM);
}

static int decline(struct sock *sk, int err)
{
	sock_set_reason(sk, reason_of(err));
	sock_set_mode(sk, SOCK_KERNEL);
	return err;
}

/* What the peer may read once our flags say SEG_TX_RING: the stream continues in
 * the ring after @tcp_bytes. */
static void tx_say(struct sock *sk, int fd, uint64_t tcp_bytes)
{
	struct seg_side *me = shm_me(sk);

	me->tcp_bytes = tcp_bytes;
	me->pid = (uint32_t)getpid();
	me->anchor_fd = fd;
}

/* Side 0 revokes the segment, unless side 1 has taken it. */
static bool revoke_segment(const struct sock *sk)
{
	return cas(&shm_peer(sk)->flags, 0u, (uint32_t)SEG_REVOKED);
}

/* The peer, which has not filled the ring yet, learns in time to stay in its half. */
static uint32_t lends(void) { return shm_config.lends ? SEG_LENDS : 0; }

/* Side 1 takes the segment, and sends through the ring from now on.  False: it
 * has been revoked. */
static bool take_segment(const struct sock *sk)
{
	return cas(&shm_me(sk)->flags, 0u,
		   (uint32_t)(SEG_READY | SEG_TX_RING) | /* S1, S3 */
		       lends());
}

/*
 * The hello: both sides send one.
 */

/* Send the first @n of @fds, and the bell of the calling thread, which is the
 * thread that will probably wait for this connection. */
static int say_hello(uint32_t inbox_tag, int channel, int fds[HELLO_FDS], int n)
{
	struct hello h = { .magic = HELLO_MAGIC,
			   .version = SEG_VERSION,
			   .size = sizeof(h),
			   .pid = (uint32_t)getpid(),
			   .n_needed = (uint16_t)n };
	uint32_t bell = bell_mine();
	int fd = bell_fd_get(bell, channel_pid(channel));

	memcpy(h.inbox_id, inbox_of(inbox_tag)->id, sizeof(h.inbox_id));
	if (fd >= 0) {
		h.bell1 = (uint16_t)(bell + 1);
		fds[n++] = fd;
	}
	int err = hello_send(channel, &h, fds, n);
	bell_fd_put();
	return err;
}

/* Our inbox for the process at the other end of @channel; 0: none. */
static uint32_t inbox_for(int channel)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (libc.getsockopt(channel, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return 0;
	return inbox_get(cred.uid, cred.pid);
}

/* If @h brought the peer's bell, keep it. */
static void keep_bell(struct sock *sk, const struct hello *h, int *fds,
		      int channel)
{
	int *fd = h->n_needed < HELLO_FDS ? &fds[h->n_needed] : NULL;

	struct itimerspec at;

	/* The last fails at once on whatever is no timerfd. */
	if (!h->bell1 || !fd || *fd < 0 || !shm_of(sk)->peer_inbox ||
	    timerfd_gettime(*fd, &at))
		return;
	if (!inbox_keep_bell(shm_of(sk)->peer_inbox, h->bell1 - 1u, *fd,
			     channel_pid(channel)))
		store_rlx(&shm_me(sk)->has_bell1, h->bell1);
	*fd = -1;
}

static void close_passthrough(int fds[HELLO_FDS])
{
	for (int i = 0; i < HELLO_FDS; i++)
		discard_passed(fds[i]);
}

/*
 * The acceptor: shm_accept() accepts a proposal.
 */

static int send_segment(struct sock *sk, int channel)
{
	struct seg *seg;
	int seg_fd;
	uint32_t ring_size = seg_ring_fit(shm_config.ring_bytes);
	int err = seg_create(ring_size, &seg, &seg_fd);
	if (err)
		return err;
	uint32_t tag = inbox_for(channel);
	shm_of(sk)->side = 0;
	shm_of(sk)->inbox_tag = tag;
	rings_init(sk, seg, ring_size);
	int fds[HELLO_FDS] = { seg_fd, inbox_fd_get(tag) };
	err = fds[1] < 0 ? fds[1] : say_hello(tag, channel, fds, 2);
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

/* The program sees its own rate, not our number. */
static void hide_rate(struct sock *sk)
{
	const struct notice *n = &shm_of(sk)->notice;

	sk->rate_was = n->was;
	store_rel(&sk->rate_shown, notice_rate(n));
}

/* The peer may not share our memory.  It finds that out in the same way, if the
 * channel is still there when it looks: so stay until it has gone, or until our
 * last look. */
static int refuse(struct sock *sk, int channel, int err)
{
	shm_of(sk)->channel_fd = channel;
	shm_of(sk)->refusal = err;
	sock_set_reason(sk, reason_of(err));
	sock_set_mode(sk, SOCK_YOUNG);
	return 0;
}

int shm_accept(struct sock *sk, int fd)
{
	int refused;

	if (shm_of(sk)->refusal && !is_gone(sk)) {
		sock_set_mode(sk, SOCK_YOUNG);
		return 0;
	}
	if (shm_of(sk)->refusal) {
		shm_proposal_close(sk, fd);
		return decline(sk, shm_of(sk)->refusal);
	}
	int channel = proposal_connect(fd, &shm_of(sk)->notice, &refused);
	hide_rate(sk);
	if (refused >= 0)
		return refuse(sk, refused, channel);
	if (channel == -ENOENT || channel == -EAGAIN) {
		sock_set_mode(sk, SOCK_YOUNG);
		return 0;
	}
	if (channel < 0)
		return decline(sk, channel);
	shm_of(sk)->channel_fd = channel;
	int err = anchor_counts(fd, sk->flags & SOCK_F_ACTIVE,
				&shm_of(sk)->tx_tcp_base);
	if (!err)
		err = anchor_consumed(fd, &shm_of(sk)->rx_tcp_base);
	if (!err) {
		anchor_prepare(sk, fd);
		err = send_segment(sk, channel);
		if (err)
			anchor_restore(sk, fd);
	}
	if (err) {
		shm_proposal_close(sk, fd);
		return decline(sk, err);
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
		keep_bell(sk, &h, fds, shm_of(sk)->channel_fd);
	close_passthrough(fds);
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
	tx_say(sk, fd, shm_of(sk)->tx_tcp_base);
	store_rlx(&shm_w(sk)->tx_ring, (uint8_t)1);
	fetch_or(&shm_me(sk)->flags, SEG_TX_RING | lends()); /* S1 */
	became_shm(sk);
}

/* A fork takes the locks that the caller holds, so the step is left to a later call. */
void shm_pending_step(struct sock *sk, int fd)
{
	if (!gate_try())
		return;
	int inside __attribute__((cleanup(gate_leave_cleanup), unused)) = 0;

	candidate_step(sk, fd);
}

/* The process needs the candidate's descriptors.  Return true if the
 * connection is back with the kernel. */
bool shm_pending_drop(struct sock *sk, int fd)
{
	bool dropped;

	sock_lock_both(sk);
	dropped = sock_mode(sk) == SOCK_PENDING && revoke_segment(sk);
	if (dropped)
		candidate_end(sk, fd, OSF_REASON_NO_MEMORY);
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
	/* Also while another thread forks: it waits for the locks held here. */
	candidate_step(sk, fd);
	if (sock_mode(sk) == SOCK_PENDING && !sk->w->anchor_err)
		shm_broken(sk, fd, "flags of a segment that nobody has taken");
}

/*
 * The opener: shm_propose() proposes, shm_proposal_advance() confirms.
 */

int shm_propose(struct sock *sk, int fd)
{
	int s = proposal_listen(fd, &shm_of(sk)->notice);
	hide_rate(sk);

	if (s < 0)
		return decline(sk, s);
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
	hide_rate(sk);
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
 * A child shares what its parent has.  If it gives up authority, it has to leave the
 * memory of a connection (file/renounce.c), and a segment that is not taken by then
 * could only be revoked for good.  So a process takes it back before it forks, and both
 * sides try again later: this one when it is the only holder.  A thread that sleeps on
 * the connection, or a set that watches it, would still use the segment.
 */
void shm_pending_undo(struct sock *sk, int fd)
{
	sock_unshare(sk);
	if (!is_single_threaded() || unwind_top || sk->page ||
	    sk->watches.first || readahead_bytes(sk))
		return;
	sock_lock_both(sk);
	if (sock_mode(sk) == SOCK_PENDING && !sk->w->anchor_err &&
	    !shm_is_broken(sk) &&
	    cas(&shm_peer(sk)->flags, 0u,
		(uint32_t)(SEG_REVOKED | SEG_LATER))) {
		shm_proposal_close(sk, fd);
		refuse_segment(sk, fd, shm_ring_bytes(sk));
		sock_set_reason(sk, OSF_REASON_YOUNG);
		sock_set_mode(sk, SOCK_YOUNG);
	}
	sock_unlock_both(sk);
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
	uint32_t tag = err ? 0 : inbox_for(channel);
	if (!err) {
		int own[HELLO_FDS] = { inbox_fd_get(tag) };

		err = own[0] < 0 ? own[0] : say_hello(tag, channel, own, 1);
		inbox_fd_put();
	}
	if (err) {
		inbox_detach(peer_inbox);
		inbox_put(tag);
		seg_unmap(seg, ring_size);
		return err;
	}
	anchor_prepare(sk, fd);
	shm_of(sk)->side = 1;
	shm_of(sk)->inbox_tag = tag;
	shm_of(sk)->peer_inbox = peer_inbox;
	rings_init(sk, seg, ring_size);
	keep_bell(sk, h, fds, channel);
	shm_of(sk)->tx_tcp_base = sent;
	tx_say(sk, fd, sent);
	store_rlx(&shm_w(sk)->tx_ring, (uint8_t)1);
	if (take_segment(sk))
		return 0;
	bool is_later = load_rlx(&shm_me(sk)->flags) & SEG_LATER;
	refuse_segment(sk, fd, ring_size);
	return is_later ? -EAGAIN : -ENOENT;
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
		close_passthrough(fds);
	}
	shm_proposal_close(sk, fd);
	if (err == -EAGAIN) { /* a new proposal comes with the next look */
		sock_set_mode(sk, SOCK_YOUNG);
		return 0;
	}
	if (err)
		return decline(sk, err);
	became_shm(sk);
	return 1;
}

int shm_announce(int listen_fd, bool is_kernel)
{
	return announce_bind(listen_fd,
			     is_kernel ? ANNOUNCED_KERNEL : ANNOUNCED);
}

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
		return reason_of(shm_of(sk)->refusal);
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

/* The child will share the connection with its parent.  News must wake both
 * processes, so the peer rings the anchor from now on.  The parent has the segment
 * in its page tables; the child would have to get it there first. */
void shm_before_fork(struct sock *sk)
{
	if (shm_of(sk)->seg && sock_is_ours(sk))
		fetch_or(&shm_me(sk)->flags, SEG_SHARED);
}
