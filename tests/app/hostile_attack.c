/* SPDX-License-Identifier: MIT */
/* tests/app/hostile_attack.c - nonsense in the memory of a connection that has moved */
#include "hostile.h"

struct seg_side *me(struct foe *f) { return &f->seg->side[f->side]; }
struct seg_side *victim(struct foe *f) { return &f->seg->side[!f->side]; }

static uint8_t *ring(struct foe *f)
{
	return seg_ring(f->seg, f->side, f->ring);
}

void header_put(struct foe *f, uint32_t off, uint64_t hdr)
{
	store_rel(ring_hdr_at(ring(f), off % (f->ring - 8)), hdr);
}

void record(struct foe *f, uint32_t len)
{
	uint32_t next_off = f->head + ring_record_bytes(len);

	if (next_off + RING_RESERVE > f->ring)
		return;
	header_put(f, next_off, 0);
	header_put(f, f->head, ring_hdr(RING_DATA, len));
	f->head = next_off;
}

void bell(struct foe *f)
{
	uint32_t slot = load_rlx(&victim(f)->slot);

	if (slot >> 16 < INBOX_LANES && (slot & 0xffff) < LANE_SLOTS && f->in) {
		struct lane *l = &f->in->lane[slot >> 16];
		uint32_t bit = slot & 0xffff;

		store_rlx(&l->ticket, f->head * 0x9e3779b9u);
		store_rlx(&l->log[f->head % LANE_LOG], (uint16_t)~bit);
		store_rlx(&l->behind, (uint64_t)f->head << 24);
		fetch_or(&l->bits[bit / 64], UINT64_C(1) << bit % 64);
		fetch_or(&l->summary[bit / 4096], UINT64_C(1) << bit / 64 % 64);
	}
	fetch_add(&me(f)->bells, 1);
	send(f->tcp, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A number near where mistakes are made. */
static uint32_t nasty(struct foe *f)
{
	const uint32_t some[] = { 0,
				  1,
				  63,
				  64,
				  65,
				  f->head,
				  f->head + 64,
				  f->ring - 64,
				  f->ring - 8,
				  f->ring,
				  f->ring + 64,
				  RING_CHUNK,
				  RING_CHUNK + 1,
				  INT32_MAX,
				  (uint32_t)INT32_MAX + 1,
				  UINT32_MAX - 63,
				  UINT32_MAX };

	if (below(f, 3) == 0)
		return (uint32_t)next(f);
	if (below(f, 3) == 0)
		return below(f, f->ring / 64) * 64;
	return some[below(f, COUNT(some))];
}

static void attack_headers(struct foe *f)
{
	header_put(f, f->head, (uint64_t)below(f, 8) << 32 | nasty(f));
	if (below(f, 4) == 0)
		header_put(f, f->head, next(f));
	bell(f);
}

static void attack_long(struct foe *f)
{
	const uint32_t lens[] = { f->ring - f->head, RING_CHUNK + 1, f->ring,
				  UINT32_MAX, UINT32_MAX - 127 };

	if (below(f, 2))
		f->head = f->ring - 64 * (1 + below(f, 8));
	header_put(f, 0, ring_hdr(RING_SKIP, f->head));
	header_put(f, f->head,
		   ring_hdr(RING_DATA, lens[below(f, COUNT(lens))]));
	bell(f);
}

/* Round and round: SKIP to the next line, all along, and WRAP at the end. */
static void attack_loop(struct foe *f)
{
	uint32_t step = 64 * (1 + below(f, 16)), off;

	for (off = 0; off + 2 * step < f->ring; off += step)
		header_put(f, off, ring_hdr(RING_SKIP, off + step));
	header_put(f, off, ring_hdr(RING_WRAP, 0));
	header_put(f, f->head, ring_hdr(RING_WRAP, 0));
	bell(f);
}

static void attack_tail(struct foe *f)
{
	store_rel(&me(f)->tail, nasty(f));
	fetch_or(&me(f)->flags, SEG_TX_RING);
	bell(f);
}

static void attack_tcp_bytes(struct foe *f)
{
	static const uint64_t some[] = { 1,          1000,       INT32_MAX,
					 1ull << 31, 1ull << 32, INT64_MAX,
					 UINT64_MAX };

	me(f)->tcp_bytes = some[below(f, COUNT(some))];
	fetch_or(&me(f)->flags, SEG_TX_RING);
	if (below(f, 2))
		send(f->tcp, "abcdefgh", below(f, 9),
		     MSG_DONTWAIT | MSG_NOSIGNAL);
	bell(f);
	if (below(f, 4) == 0)
		fetch_and(&me(f)->flags, ~(uint32_t)SEG_TX_RING);
}

static void attack_flags(struct foe *f)
{
	store_rel(&me(f)->flags, (uint32_t)next(f) & below(f, 256));
	if (below(f, 4) == 0)
		store_rel(&victim(f)->flags, (uint32_t)next(f));
	bell(f);
}

static void attack_slots(struct foe *f)
{
	store_rel(&me(f)->slot, nasty(f));
	store_rel(&victim(f)->slot, nasty(f));
	me(f)->rx_inbox = me(f)->tx_inbox = 1;
	me(f)->rx_anchor = me(f)->tx_anchor = below(f, 2);
	record(f, 1 + below(f, 300));
	bell(f);
}

static void attack_bells(struct foe *f)
{
	static const uint32_t some[] = { 1u << 31, (1u << 31) - 1, UINT32_MAX,
					 1, 0 };

	bell(f);
	store_rel(&me(f)->bells, some[below(f, COUNT(some))]);
	record(f, 1 + below(f, 3000));
	if (below(f, 8) == 0)
		header_put(f, f->head, ring_hdr(RING_BACK, 0));
}

static void scribble(struct foe *f, void *at, size_t bytes, unsigned n)
{
	uint32_t *words = at;

	while (n--) {
		uint32_t what = below(f, 2) ? nasty(f) : (uint32_t)next(f);

		store_rlx(&words[below(f, (uint32_t)(bytes / 4))], what);
	}
}

static void attack_scribble(struct foe *f)
{
	scribble(f, f->seg->side, sizeof(f->seg->side), 20);
	if (below(f, 4) == 0)
		scribble(f, f->seg, seg_bytes(f->ring), 2000);
	header_put(f, f->head, (uint64_t)below(f, 7) << 32 | nasty(f));
	bell(f);
}

/* The lanes that are in use are the first. */
static void attack_inbox(struct foe *f)
{
	struct lane *l = &f->in->lane[below(f, 2)];
	static const uint64_t zeros[8];

	store_rlx(&l->sleeping, below(f, 4) == 0);
	scribble(f, l->summary, sizeof(l->summary), 2);
	if (below(f, 2))
		memcpy(l->bits, zeros, sizeof(zeros));
	scribble(f, l->bits, sizeof(l->bits), 10);
	scribble(f, f->in, 64, 2); /* its magic, its name */
	if (below(f, 4) == 0)
		scribble(f, f->in, sizeof(*f->in), 2000);
	record(f, 1 + below(f, 300));
	bell(f);
}

/* Counts doorbells that never come, and ends the stream. */
static void attack_owes(struct foe *f)
{
	fetch_add(&me(f)->bells, 5000);
	record(f, 1 + below(f, 300));
	if (below(f, 2)) {
		header_put(f, f->head, ring_hdr(RING_FIN, 0));
		fetch_or(&me(f)->flags, SEG_TX_FIN);
	}
	bell(f);
}

/* Says that a gigabyte of TCP comes before the ring, and sends a byte now and then. */
static void attack_drip(struct foe *f)
{
	record(f, 1 + below(f, 300));
	me(f)->tcp_bytes = 1u << 30;
	fetch_or(&me(f)->flags, SEG_TX_RING);
	send(f->tcp, "d", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	usleep(below(f, 2000));
}

/* Has stopped reading, and does not say where; or says so, and lies. */
static void attack_recall(struct foe *f)
{
	record(f, 1 + below(f, 300));
	fetch_or(&me(f)->flags, SEG_FALLBACK | SEG_WANT_BACK);
	bell(f);
	usleep(below(f, 3000));
	if (below(f, 4) == 0) {
		me(f)->cut = below(f, 2) ? SEG_CUT_IS : nasty(f);
		f->seg->first_back = below(f, 3);
		fetch_or(&me(f)->flags, SEG_SETTLED);
	}
}

/* Nothing: the rendezvous alone was the attack. */
static void attack_none(struct foe *f)
{
	record(f, 1 + below(f, 300));
	bell(f);
}

bool attack_is_by_tcp(const struct manners *m)
{
	return m->behave == attack_tcp_bytes || m->behave == attack_drip;
}

const struct manners attacks[] = {
	{ "headers", attack_headers },     { "long", attack_long },
	{ "loop", attack_loop },           { "tail", attack_tail },
	{ "tcp_bytes", attack_tcp_bytes }, { "flags", attack_flags },
	{ "slots", attack_slots },         { "bells", attack_bells },
	{ "scribble", attack_scribble },   { "owes", attack_owes },
	{ "drip", attack_drip },           { "recall", attack_recall },
	{ "inbox", attack_inbox },         { "stolen_name", attack_none },
	{ "odd_fds", attack_none },        { 0 }
};
