/* SPDX-License-Identifier: MIT */
/*
 * sock/sock.c - what a socket is now: its mode, its reason, and a copy that takes its place
 *
 * sock/arena.c makes and frees sockets.
 */
#include <string.h>

#include "base/log.h"
#include "sock/arena.h"
#include "sock/shared.h"

static const char *const reason_texts[] = {
#define R(name, text) text,
#include "osf/reasons.def"
#undef R
};

const char *sock_reason_text(enum osf_reason reason)
{
	return (uint32_t)reason < ARRAY_LEN(reason_texts) ? reason_texts[reason]
							  : "";
}

void sock_copy(struct sock *to, const struct sock *from, bool moves)
{
	struct sock was = *to;
	uint32_t in_use = to->st->in_use;

	*to->st = *from->st;
	store_rel(&was.st->in_use, in_use);
	*to = *from;
	to->own_words = *from->w;
	to->own_words.n_sleepers = to->own_words.n_tx_sleepers = 0;
	to->own_words.n_ringing = 0;
	to->w = &to->own_words;
	to->st = was.st;
	to->generation = was.generation;
	to->rx_lock = to->tx_lock = to->watches.lock = (struct lock){ 0 };
	to->state = SOCK_STATE(moves ? sock_mode(from) : SOCK_KERNEL);
	shared_alone(to, &was);
	if (!moves)
		memset(to->conn, 0, sizeof(to->conn));
}

void sock_forget_counts(struct sock *sk)
{
	struct osf_stats_sock *st = sk->st;

	st->rx_bytes_inet = st->tx_bytes_inet = 0;
	st->rx_bytes_shm = st->tx_bytes_shm = st->tx_bytes_ref = 0;
	st->rx_ops = st->tx_ops = 0;
	st->n_spins = st->n_sleeps = st->n_wakes = 0;
	st->flags = 0;
}

void sock_set_mode(struct sock *sk, enum sock_mode mode)
{
	uint32_t old;

	shared_mode(sk, mode);
	sk->moved_ns = 0;
	do
		old = load_rlx(&sk->state);
	while (
	    !cas(&sk->state, old, SOCK_STATE(mode) | (old & SOCK_COUNT_MASK)));
}

bool sock_start_moving(struct sock *sk)
{
	uint32_t old = load_rlx(&sk->state);

	return !(old & SOCK_COUNT_MASK) && state_mode(old) == SOCK_YOUNG &&
	       cas(&sk->state, old, SOCK_STATE(SOCK_UPGRADING));
}

void sock_set_reason(struct sock *sk, enum osf_reason reason)
{
	sk->st->reason = (uint8_t)reason;
	log_dbg("fd %d: %s", sk->st->fd, reason_texts[reason]);
}
