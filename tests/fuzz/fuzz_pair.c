/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_pair.c - two stacks, and any order of calls, losses and time
 *
 *     bytes -> operations: call, deliver, drop, repeat, overtake, wait
 *
 * Each end reads what the other one has sent, byte for byte, whatever happens to the
 * frames in between.  In the end all buffers are free.
 */
#include "fuzz_stack.h"

#define N_UNDER_WAY 32

struct packet {
	uint32_t len;
	uint8_t data[FUZZ_RX_CAP];
};

struct side {
	struct fuzz_host host;
	struct tcp_conn *conn;
	uint32_t n_sent, n_got;
	struct packet wire[N_UNDER_WAY]; /* towards the other side */
	uint32_t n;
};

static struct side sides[2];
static uint64_t now;

static uint8_t byte_at(uint32_t side, uint32_t off)
{
	return (uint8_t)(off * 131 + (off >> 8) * 17 + side);
}

static void collect(void)
{
	for (unsigned i = 0; i < 2; i++) {
		struct side *s = &sides[i];
		uint32_t len;

		while (s->n < N_UNDER_WAY &&
		       (len = fuzz_tx(&s->host, s->wire[s->n].data, now)))
			s->wire[s->n++].len = len;
		fuzz_check(&s->host);
	}
	if (!sides[1].conn)
		sides[1].conn = tcp_accept(sides[1].host.listener);
}

/* Takes packet @i off the wire, unless it arrives once more later. */
static void deliver(unsigned from, uint32_t i, bool is_lost, bool stays)
{
	struct side *s = &sides[from];

	if (!s->n)
		return;
	i %= s->n;
	if (!is_lost)
		fuzz_rx(&sides[!from].host, s->wire[i].data, s->wire[i].len,
			now);
	if (stays)
		return;
	s->n--;
	memmove(&s->wire[i], &s->wire[i + 1],
		(s->n - i) * sizeof(struct packet));
}

static void give(unsigned i, uint32_t n)
{
	unsigned how = n & 1 ? TCP_SEND_EOR : 0;
	uint8_t buf[4096];

	n = MIN(n * 16, (uint32_t)sizeof(buf));
	for (uint32_t k = 0; k < n; k++)
		buf[k] = byte_at(i, sides[i].n_sent + k);
	ssize_t took = tcp_send_as(sides[i].conn, buf, n, how, now);
	if (took > 0)
		sides[i].n_sent += (uint32_t)took;
}

/* Peeks at bytes further on, without taking them. */
static void peek(unsigned i, uint32_t off)
{
	const uint8_t *data;
	ssize_t n = tcp_peek_at(sides[i].conn, off, &data);

	for (ssize_t k = 0; k < n; k++)
		assert(data[k] ==
		       byte_at(!i, sides[i].n_got + off + (uint32_t)k));
}

static void take(unsigned i, uint32_t most)
{
	const uint8_t *data;
	ssize_t n = tcp_peek(sides[i].conn, &data);

	if (n <= 0)
		return;
	uint32_t part = MIN((uint32_t)n, most + 1);
	for (uint32_t k = 0; k < part; k++)
		assert(data[k] == byte_at(!i, sides[i].n_got + k));
	sides[i].n_got += part;
	assert(sides[i].n_got <= sides[!i].n_sent);
	tcp_consume(sides[i].conn, part, now);
}

static void call(unsigned i, uint8_t what, uint8_t arg)
{
	if (!sides[i].conn)
		return;
	switch (what % 8) {
	case 0:
	case 1:
	case 2:
		give(i, arg);
		break;
	case 3:
	case 4:
		take(i, arg * 32u);
		break;
	case 5:
		peek(i, arg * 16u);
		take(i, arg * 32u);
		break;
	case 6:
		(void)!tcp_shutdown(sides[i].conn, now);
		break;
	case 7:
		tcp_set_nodelay(sides[i].conn, arg & 1, now);
		tcp_set_cork(sides[i].conn, arg & 2, now);
		if (arg & 4)
			tcp_set_snd_buf(sides[i].conn, arg * 64u);
		if (arg & 8)
			tcp_set_window_clamp(sides[i].conn, arg * 64u);
		break;
	}
}

static void wait_for(uint64_t ns)
{
	now += ns;
	for (unsigned i = 0; i < 2; i++)
		tcp_timers(sides[i].host.s, now);
}

static void operate(struct fuzz_input *in)
{
	uint8_t op = fuzz_u8(in), arg = fuzz_u8(in);
	unsigned side = op >> 7;

	switch (op & 7) {
	case 0:
		call(side, (uint8_t)(op >> 3), arg);
		break;
	case 1:
		wait_for((uint64_t)arg << (op >> 3 & 15) << 10);
		break;
	case 2:
		deliver(side, arg, true, false);
		break;
	case 3:
		deliver(side, arg, false, true);
		break;
	case 4:
		deliver(side, arg, false, false);
		break;
	default:
		deliver(side, 0, false, false);
	}
	collect();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };

	now = 1000000;
	for (unsigned i = 0; i < 2; i++) {
		sides[i].conn = NULL;
		sides[i].n = sides[i].n_sent = sides[i].n_got = 0;
		fuzz_host_init(&sides[i].host, 0x0a000001 + i,
			       size & 1 ? &tcp_cubic : &tcp_newreno, now);
	}
	const struct ip_addr *to = &sides[1].host.s->cfg.addrs[0];
	int err = tcp_connect(sides[0].host.s, &sides[0].host.s->cfg.addrs[0],
			      0, to, FUZZ_PORT, now, &sides[0].conn);
	assert(!err);
	collect();
	while (in.left)
		operate(&in);
	for (unsigned i = 0; i < 2; i++)
		fuzz_host_fini(&sides[i].host);
	return 0;
}
