/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/drop_masks.c - every way to lose some of the first 14 packets
 *
 *     drop_masks [MASK]
 *
 * A connection is opened, carries a request and a response, and is closed.  Packets of
 * both directions are counted together, in the order in which they are sent.  Each of
 * the 16,384 masks names the packets that are lost.  Each time all bytes must arrive,
 * both ends must see the end of the stream and no error, and nothing may be left over.
 * The open alone may fail, if everything that would have opened the connection was
 * lost: by a time-out, or by the reset of a server that has given up.
 */
#include <stdio.h>
#include <stdlib.h>

#include "world.h"

#define N_PACKETS 14

/* One mask covers both directions.  The direction of a packet is known only when it is
 * sent, so the masks of the two wires are computed on the way. */
static void mask_step(struct world *w, uint32_t mask)
{
	uint64_t sent = w->wire[0].n_sent + w->wire[1].n_sent;

	for (int i = 0; i < 2; i++) {
		bool is_lost = sent < N_PACKETS && mask >> sent & 1;

		w->wire[i].model.loss = is_lost ? 1000000 : 0;
	}
}

/* Seven lost packets can make an open fail, if they are the right ones. */
static bool has_failed(const struct world *w)
{
	const struct end *e = &w->ends[CLIENT][0];

	return __builtin_popcount(w->mask) > SYN_RETRIES && e->is_done &&
	       (e->err == -ETIMEDOUT || e->err == -ECONNRESET) && !e->n_got &&
	       !w->ends[SERVER][0].conn && !w->ends[SERVER][0].was_open;
}

static uint64_t run(uint32_t mask, uint32_t *n_failed)
{
	struct world_config cfg = world_plain(2000, 6000);
	static struct world w;

	/* Small, because the test makes many worlds. */
	cfg.rx_extents = 16;
	for (int i = 0; i < 2; i++) {
		cfg.stack[i].n_ranges = 256;
		cfg.stack[i].n_extents = 8;
	}
	world_init(&w, &cfg);
	w.before_send = mask_step;
	w.mask = mask;
	bool is_done = world_run(&w, 3600 * NS_PER_S);
	bool is_failed = has_failed(&w);
	*n_failed += is_failed;
	for (int i = 0; i < 2 && !is_failed; i++) {
		const struct end *e = &w.ends[i][0];

		if (is_done && !e->err && e->got_eof &&
		    e->n_got == cfg.plan[!i][0].n_bytes)
			continue;
		printf("mask %u: side %d done %d, error %d, got %u\n", mask, i,
		       e->is_done, e->err, e->n_got);
		exit(1);
	}
	/* In the end the addresses and ports are free again. */
	while (world_step(&w))
		;
	assert(w.stack[0]->pool_tws.n_free == w.stack[0]->pool_tws.n);
	assert(w.stack[1]->pool_tws.n_free == w.stack[1]->pool_tws.n);
	assert(w.stack[0]->pool_conns.n_free == w.stack[0]->pool_conns.n);
	assert(w.stack[1]->pool_conns.n_free == w.stack[1]->pool_conns.n);
	uint64_t n = w.n_frames;
	world_fini(&w);
	return n;
}

int main(int argc, char **argv)
{
	uint64_t frames = 0;
	uint32_t n_failed = 0;

	if (argc > 1) {
		run((uint32_t)strtoul(argv[1], NULL, 0), &n_failed);
		return 0;
	}
	for (uint32_t mask = 0; mask < 1u << N_PACKETS; mask++)
		frames += run(mask, &n_failed);
	printf(
	    "drop_masks: %u masks, %llu frames, all ended well; %u opens failed, "
	    "as they must\n",
	    1u << N_PACKETS, (unsigned long long)frames, n_failed);
	return 0;
}
