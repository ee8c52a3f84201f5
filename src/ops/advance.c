/* SPDX-License-Identifier: MIT */
/* ops/advance.c - see ops/advance.h */
#include "base/fds.h"
#include "base/fork_lock.h"
#include "ops/advance.h"
#include "ops/history.h"
#include "ops/ops.h"
#include "ops/port.h"
#include "proto/shm/shm.h"
#include "sock/arena.h"
#include "sock/shared.h"

/* How often we repeat a proposal, or a search for one, before we give up; the
 * distance doubles each time. */
#define LOOKS_MAX 12u
#define LOOKS_UNANSWERED 6u /* after so many it is worth to know why */
#define EAGER_LOOKS 64u /* asked for at once: then looking is cheap enough */

static void count_from(struct sock *sk, unsigned level)
{
	bool is_eager = sk->flags & SOCK_F_EAGER;
	uint64_t pingpongs = history_later(shm_config.upgrade_pingpongs, level);

	sk->history = (uint8_t)level;
	store_rlx(&sk->pingpongs_next,
		  is_eager ? 0 : (uint32_t)MIN(pingpongs, UINT32_MAX));
	store_rlx(&sk->bytes_next,
		  is_eager ? 0
			   : history_later(shm_config.upgrade_bytes, level));
	sock_set_reason(sk, level ? OSF_REASON_SHORT_LIVED : OSF_REASON_YOUNG);
}

void ops_start_counting(struct sock *sk)
{
	if (!shm_config.upgrade_pingpongs)
		sk->flags |= SOCK_F_EAGER;
	bool is_eager = sk->flags & SOCK_F_EAGER;
	unsigned level = is_eager || !shm_config.learns ? 0 : history_level(sk);

	count_from(sk, level);
	sk->st->proto = OSF_PROTO_INET;
}

/* The next milestone after a look that found nothing; false: no more. */
static bool look_again(struct sock *sk)
{
	uint64_t bytes =
	    load_rlx(&sk->st->rx_bytes_inet) + load_rlx(&sk->st->tx_bytes_inet);
	uint32_t done = load_rlx(&sk->pingpongs);
	unsigned n = fetch_add(&sk->n_attempts, 1) + 1;

	if (load_rlx(&sk->flags) & SOCK_F_EAGER && n < EAGER_LOOKS) {
		store_rlx(&sk->pingpongs_next, done + (n > 8));
		store_rlx(&sk->bytes_next,
			  n > 8 ? bytes + bytes / 4 + 1024 : 0);
		return true;
	}
	if (n >= LOOKS_MAX +
		     (load_rlx(&sk->flags) & SOCK_F_EAGER ? EAGER_LOOKS : 0u))
		return false;
	/* After its proposal the connecting side looks often at first: the
	 * accept comes with the next response. */
	bool proposed = load_rlx(&shm_of(sk)->proposal_fd) > 0;
	store_rlx(&sk->pingpongs_next,
		  proposed && n < 4 ? done + 1 : done * 2 + 1);
	store_rlx(&sk->bytes_next, proposed && n < 4
				       ? bytes + shm_config.upgrade_bytes / 2
				       : bytes * 2 + shm_config.upgrade_bytes);
	return true;
}

static void look_as_opener(struct sock *sk, int fd)
{
	if (shm_of(sk)->proposal_fd > 0) {
		shm_proposal_advance(sk, fd);
		return;
	}
	ops_note_local(sk, fd);
	shm_propose(sk, fd); /* a wrong guess about the peer costs more */
	if (shm_config.learns && shm_of(sk)->proposal_fd > 0)
		history_moves(sk);
}

/* The last connections to this address have moved, and none has paid yet (ops/history.h).
 * So this socket goes on with the next level, and moves later.  False: it may move now. */
static bool begins_again(struct sock *sk)
{
	bool may = shm_config.learns && !(sk->flags & SOCK_F_EAGER) &&
		   shm_of(sk)->proposal_fd <= 0 &&
		   sk->history + 1u < HISTORY_LEVELS;

	if (!may || !history_is_doubtful(sk))
		return false;
	count_from(sk, sk->history + 1u);
	return true;
}

static void look_as_acceptor(struct sock *sk, int fd)
{
	if (!load_rlx(&sk->n_attempts))
		ops_note_local(sk, fd); /* the listener's may be 0.0.0.0 */
	shm_accept(sk, fd);
}

/* Is this descriptor the only one of its description in all processes?  The answer takes
 * milliseconds, so this asks only at each look whose number is a power of two. */
static bool is_sole(const struct sock *sk, int fd)
{
	uint32_t n = load_rlx(&sk->n_attempts);

	return !(n & (n - 1)) && fds_is_sole(fd);
}

static enum osf_reason why_alone(const struct sock *sk, int fd)
{
	if (load_rlx(&sk->standard))
		return OSF_REASON_STDIO;
	return sock_procs(sk) > 1 ? OSF_REASON_SHARED : shm_why_alone(sk, fd);
}

/* Record why the peer has not answered, in place of "the connection is young". */
static void note_unanswered(struct sock *sk, int fd)
{
	if (!sock_start_moving(sk))
		return;
	sock_set_reason(sk, why_alone(sk, fd));
	sock_set_mode(sk, SOCK_YOUNG);
}

/* Has another thread or process pinned the socket to the kernel?  Then look no more. */
static bool stays(struct sock *sk)
{
	if (likely(!load_rlx(&sk->w->stays)))
		return false;
	store_rlx(&sk->pingpongs_next, UINT32_MAX);
	store_rlx(&sk->bytes_next, UINT64_MAX);
	return true;
}

void ops_advance(struct sock *sk, int fd)
{
	INSIDE_FORK_LOCK();
	sock_unshare(sk);
	if (stays(sk))
		return;
	if (!sock_start_moving(sk)) {
		/* A thread is inside a call: try again soon. */
		if (!look_again(sk))
			store_rlx(&sk->pingpongs_next, UINT32_MAX);
		return;
	}
	fence_full(); /* Dekker with inet_keep_kernel() */
	if (stays(sk)) {
		sock_set_mode(sk, SOCK_YOUNG);
		return;
	}
	/* The connection stays with the kernel until the other processes have
	 * let go of the socket.  They may have done so just now, but a page
	 * that is still there knows nothing of shared memory. */
	if (sock_procs(sk) > 1 || sk->page || load_rlx(&sk->standard) ||
	    (sk->adopted && !is_sole(sk, fd)))
		sock_set_mode(sk, SOCK_YOUNG);
	else if (sk->flags & SOCK_F_PORT)
		return port_look(sk, fd);
	else if (!(sk->flags & SOCK_F_ACTIVE))
		look_as_acceptor(sk, fd);
	else if (!begins_again(sk))
		look_as_opener(sk, fd);
	else
		return sock_set_mode(sk, SOCK_YOUNG);
	if (sock_mode(sk) != SOCK_YOUNG)
		return;
	if (load_rlx(&sk->n_attempts) + 1 == LOOKS_UNANSWERED)
		note_unanswered(sk, fd);
	if (!look_again(sk) && sock_start_moving(sk)) {
		if (shm_of(sk)->proposal_fd > 0)
			count(&arena_totals()->n_proposals_expired, 1);
		shm_proposal_close(sk, fd);
		ops_to_kernel(sk, why_alone(sk, fd));
	}
}
