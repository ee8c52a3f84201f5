/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_stack.h - what the fuzzers of the TCP engine share: input, stacks
 *
 * A host is a stack with its memory and the frames that it has received.  After each
 * step of a fuzzer, fuzz_check() checks all invariants.
 */
#pragma once

#include <stdlib.h>

#include "ip/icmp.h"
#include "tcp/calls.h"
#include "tcp/opt.h"
#include "tcp/stack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_PORT 80
#define FUZZ_RX_CAP 2048
#define FUZZ_N_RX 256

struct fuzz_input {
	const uint8_t *p;
	size_t left;
};

struct fuzz_host {
	struct tcp_stack *s;
	void *mem, *rx_mem;
	struct pool rx;
	struct tcp_listener *listener;
};

static inline uint8_t fuzz_u8(struct fuzz_input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->p++;
}

static inline uint32_t fuzz_u16(struct fuzz_input *in)
{
	uint32_t high = fuzz_u8(in);

	return high << 8 | fuzz_u8(in);
}

static inline void fuzz_host_init(struct fuzz_host *h, uint32_t addr,
				  const struct tcp_cc *cc, uint64_t now)
{
	struct tcp_config cfg = {
		.key = { { addr, 7 } },
		.addrs = { ip_addr_v4(addr) },
		.n_addrs = 1,
		.mtu = 1500,
		.offers = TCP_OFFER_ALL,
		.snd_buf = 20000,
		.rcv_buf = 8000,
		.cc = cc,
		.n_conns = 16,
		.n_reqsks = 4,
		.n_ranges = 256,
		.n_extents = 32,
		.extent_bytes = 2000,
	};

	h->mem = aligned_alloc(64, tcp_stack_bytes(&cfg));
	h->rx_mem =
	    aligned_alloc(64, (size_t)extent_size(FUZZ_RX_CAP) * FUZZ_N_RX);
	assert(h->mem);
	assert(h->rx_mem);
	h->s = tcp_stack_init(h->mem, &cfg, now);
	pool_init(&h->rx, h->rx_mem, extent_size(FUZZ_RX_CAP), FUZZ_N_RX);
	int err = tcp_listen(h->s, NULL, FUZZ_PORT, 4, &h->listener);
	assert(!err);
}

static inline void fuzz_host_fini(struct fuzz_host *h)
{
	tcp_stack_fini(h->s);
	assert(h->rx.n_free == h->rx.n);
	assert(h->s->pool_extents.n_free == h->s->pool_extents.n);
	free(h->mem);
	free(h->rx_mem);
}

static inline void fuzz_check(const struct fuzz_host *h)
{
	const struct list *head = &h->s->conns;

	for (struct list *l = head->next; l != head; l = l->next)
		conn_check(container_of(l, struct tcp_conn, all_link));
}

static inline void fuzz_rx(struct fuzz_host *h, const uint8_t *p, uint32_t len,
			   uint64_t now)
{
	unsigned flags = TCP_RX_SUM_GOOD;

	if (h->rx.n_free <= 1)
		tcp_reclaim(h->s);
	if (h->rx.n_free <= 1)
		flags |= TCP_RX_LENT;
	struct extent *e = extent_new(&h->rx);
	assert(e);
	memcpy(e->data, p, len);
	tcp_rx(h->s, e, 0, len, flags, now);
	extent_put(e);
	fuzz_check(h);
}

/* Return: the bytes of the next frame of a stack without GSO; 0: there is none. */
static inline uint32_t fuzz_tx(struct fuzz_host *h, uint8_t *out, uint64_t now)
{
	struct tcp_frame f;
	uint32_t len;

	if (!tcp_tx(h->s, &f, now))
		return 0;
	len = frame_whole(&f, out);
	tcp_frame_done(&f);
	return len;
}
