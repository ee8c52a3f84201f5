/* SPDX-License-Identifier: MIT */
/* ops/history.c - see ops/history.h */
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "ops/history.h"
#include "proto/shm/shm.h"

/* Calls that moved bytes in shared memory, after which a move has paid. */
#define CALLS_THAT_PAY 16u

/* One word for each: a part of the address's hash, and the level. */
#define PLACES 256u
#define LEVEL_MASK 0xffu

static uint32_t own_places[PLACES]; /* if there is no memory to share */
static uint32_t *places = own_places;

/* The last moves to a place, of this process.  Entries of the statistics are used again, and
 * have another number then. */
struct move {
	const struct osf_stats_sock *st;
	uint32_t number;
};
static struct moves {
	uint32_t n; /* so far */
	struct move last[HISTORY_MOVES];
} moves[PLACES];
static bool has_moves;

unsigned history_next(unsigned level, uint32_t first, uint64_t bytes,
		      const struct history_end *end)
{
	bool is_bulk = end->bytes / 2 >= bytes; /* as many behind its move */

	if (is_bulk ||
	    end->pingpongs + end->calls >= (uint64_t)first + CALLS_THAT_PAY)
		return 0; /* a move at once would have paid */
	if (end->has_moved && end->level == level)
		return MIN(level + 1, HISTORY_LEVELS - 1);
	return level;
}

void history_start(void)
{
	void *at = mmap(NULL, sizeof(own_places), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at != MAP_FAILED)
		places = at;
}

void history_alone(void)
{
	if (places != own_places)
		mmap(places, sizeof(own_places), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (has_moves) /* the statistics are elsewhere now */
		memset(moves, 0, sizeof(moves));
	has_moves = false;
}

/* Whoever knows this function can choose addresses that share a place in the table.  Their
 * connections then move early or late; nothing else happens. */
static uint64_t mix(uint64_t h, uint64_t word)
{
	h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 32;
}

/* The server's address, as this end knows it.  A listener's port is enough. */
static uint32_t hash_of(const struct sock *sk)
{
	const struct osf_stats_sock *st = sk->st;
	uint64_t addr[2];

	static_assert(sizeof(addr) == sizeof(st->peer_addr), "all of it");
	if (st->passive)
		return (uint32_t)mix(1, st->local_port);
	memcpy(addr, st->peer_addr, sizeof(addr));
	return (uint32_t)mix(mix(mix(0, st->peer_port), addr[0]), addr[1]);
}

/* Its place; 0 in place of the level of another address. */
static uint32_t *place_of(const struct sock *sk, unsigned *level)
{
	uint32_t h = hash_of(sk), *place = &places[h % PLACES];
	uint32_t word = load_rlx(place);

	*level = (word ^ h) & ~LEVEL_MASK ? 0 : word & LEVEL_MASK;
	*level = MIN(*level, HISTORY_LEVELS - 1); /* forks share the table */
	return place;
}

unsigned history_level(const struct sock *sk)
{
	unsigned level;

	place_of(sk, &level);
	return level;
}

static uint64_t calls_since_move(const struct osf_stats_sock *st)
{
	return load_rlx(&st->rx_ops) - load_rlx(&st->rx_ops_inet) +
	       load_rlx(&st->tx_ops) - load_rlx(&st->tx_ops_inet);
}

void history_moves(const struct sock *sk)
{
	struct moves *m = &moves[hash_of(sk) % PLACES];

	store_rlx(&has_moves, true);
	m->last[m->n++ % HISTORY_MOVES] =
	    (struct move){ sk->st, load_rlx(&sk->st->in_use) };
}

/* The connection is still open, and has not paid since it moved. */
static bool is_in_vain(const struct move *m)
{
	return m->st && load_rlx(&m->st->in_use) == m->number &&
	       calls_since_move(m->st) < CALLS_THAT_PAY;
}

bool history_is_doubtful(const struct sock *sk)
{
	const struct moves *m = &moves[hash_of(sk) % PLACES];

	for (uint32_t i = 0; i < HISTORY_MOVES; i++)
		if (!is_in_vain(&m->last[i]))
			return false;
	return true;
}

void history_note(const struct sock *sk)
{
	const struct osf_stats_sock *st = sk->st;
	enum sock_mode mode = sock_mode(sk);
	struct history_end end = {
		.level = sk->history,
		.pingpongs = load_rlx(&sk->pingpongs),
		.bytes = st->rx_bytes_inet + st->tx_bytes_inet +
			 st->rx_bytes_shm + st->tx_bytes_shm,
		.has_moved = mode == SOCK_PENDING || mode == SOCK_SHM,
	};
	unsigned level;

	if (sk->flags & (SOCK_F_EAGER | SOCK_F_PORT | SOCK_F_LISTEN) ||
	    !(sk->flags & (SOCK_F_ACTIVE | SOCK_F_PASSIVE)) ||
	    (!end.has_moved && mode != SOCK_YOUNG))
		return;
	if (end.has_moved)
		end.calls = calls_since_move(st);
	uint32_t *place = place_of(sk, &level);
	unsigned next = history_next(level, shm_config.upgrade_pingpongs,
				     shm_config.upgrade_bytes, &end);
	if (next != level)
		store_rlx(place, (hash_of(sk) & ~LEVEL_MASK) | next);
}
