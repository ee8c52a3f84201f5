/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/syn_flood.c - honest connections during a flood of forged SYNs
 *
 *     syn_flood [N]     N forged segments (300,000), one per microsecond
 *
 * Forged SYNs come from any address with any options, and nothing follows them.  One
 * forged segment in eight is an ACK that guesses a cookie.  Honest clients share one
 * stack, behind a wire with a delay of 10 ms that loses one packet in a hundred.  For
 * 500 forged segments there is one honest client, which opens a connection, sends a
 * request, reads the answer, and closes.
 *
 * The test demands that 99.9 % of the honest connections end well, that no guess opens
 * a connection, and that after a third of the flood the server touches no more memory.
 */
#include <stdio.h>
#include <stdlib.h>

#include "port/sim/port.h"
#include "proto/tcp/drive.h"
#include "tcp/calls.h"
#include "tcp/stack.h"

#define PORT 80
#define POLL_NS (100 * NS_PER_US)
#define FORGED_A_POLL 100
#define HONEST_EVERY 5 /* polls */
#define N_CLIENTS 20000u
#define RX_CAP 2048
#define N_RX 4096
#define SERVER_ADDR 0x0a000001u
#define CLIENT_ADDR 0x0a000002u

struct host {
	struct tcp_stack *s;
	void *mem, *rx_mem;
	struct sim_port port;
	struct wire out;
};

static struct host server, client;
static uint64_t now = 1000000, rng;
static uint32_t n_opened, n_good, n_bad, n_served;

static uint64_t random_next(void)
{
	uint64_t z = rng += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* All others are addresses of forged packets. */
static bool is_honest(const uint8_t *packet)
{
	uint32_t dst = load_be32(packet + 16); /* of IPv4 */

	return dst == SERVER_ADDR || dst == CLIENT_ADDR;
}

static void host_init(struct host *h, uint32_t addr, struct host *peer,
		      uint32_t n_conns)
{
	const struct tcp_config cfg = {
		.key = { { addr, 1 } },
		.addrs = { ip_addr_v4(addr) },
		.n_addrs = 1,
		.mtu = 1500,
		.offers = TCP_OFFER_ALL,
		.snd_buf = 1 << 16,
		.rcv_buf = 1 << 16,
		.cc = &tcp_cubic,
		.n_conns = n_conns,
		.n_reqsks = 1024,
		.n_ranges = 65536,
		.n_extents = 8192,
		.extent_bytes = 1024,
	};
	const struct wire_model m = { .delay_ns = 10 * NS_PER_MS,
				      .loss = 10000 };
	size_t rx = sim_port_bytes(RX_CAP, N_RX);

	h->mem = aligned_alloc(64, tcp_stack_bytes(&cfg));
	h->rx_mem = aligned_alloc(64, rx);
	assert(h->mem);
	assert(h->rx_mem);
	h->s = tcp_stack_init(h->mem, &cfg, now);
	wire_init(&h->out, &m, addr);
	sim_port_init(&h->port, &h->out, &peer->out, h->rx_mem, RX_CAP, N_RX);
	h->port.is_there = is_honest;
}

static void forge(void)
{
	bool is_ack = random_next() % 8 == 0;
	struct ip_addr src =
	    ip_addr_v4(0x0b000000u + (uint32_t)random_next() % 0x60000000u);
	struct tcp_seg s = { .sport = (uint16_t)random_next(),
			     .dport = PORT,
			     .seq = { (uint32_t)random_next() },
			     .ack = { (uint32_t)random_next() },
			     .flags = is_ack ? TCP_ACK : TCP_SYN,
			     .wnd = 65535,
			     .mss = 1460,
			     .wscale = TCP_NO_WSCALE,
			     .has_ts = random_next() % 2,
			     .is_sack_ok = random_next() % 2 };
	struct extent *e = extent_new(&server.port.rx);

	assert(e);
	uint32_t n = tcp_head_build(e->data + IPV4_HEAD, &s);
	ip_build(e->data, &src, &server.s->cfg.addrs[0], IP_PROTO_TCP, 0, n);
	tcp_rx(server.s, e, 0, IPV4_HEAD + n, TCP_RX_SUM_GOOD, now);
	extent_put(e);
}

/* Each end of an honest connection reads one byte, and the server answers. */
static void serve(struct tcp_listener *l)
{
	struct tcp_conn *c;
	const uint8_t *data;

	while ((c = tcp_accept(l)))
		;
	while ((c = tcp_next_ready(server.s))) {
		ssize_t n = tcp_peek(c, &data);

		if (n == 1 && *data == 'Q') {
			tcp_consume(c, 1, now);
			n = tcp_send(c, "A", 1, now);
			assert(n == 1);
			n_served++;
		} else if (n != -EAGAIN) {
			tcp_close(c, now);
		}
	}
}

static void ask(void)
{
	struct tcp_conn *c;
	const uint8_t *data;

	while ((c = tcp_next_ready(client.s))) {
		ssize_t n = tcp_peek(c, &data);

		if (n == -EAGAIN && !tcp_user(c) &&
		    c->state == TCP_ESTABLISHED) {
			tcp_set_user(c, c);
			n = tcp_send(c, "Q", 1, now);
			assert(n == 1);
			continue;
		}
		if (n == -EAGAIN)
			continue;
		if (n == 1 && *data == 'A') {
			tcp_consume(c, 1, now);
			n_good++;
		} else {
			n_bad++;
		}
		tcp_close(c, now);
	}
}

static void open_honest(void)
{
	struct tcp_conn *c;
	int err = tcp_connect(client.s, &client.s->cfg.addrs[0], 0,
			      &server.s->cfg.addrs[0], PORT, now, &c);
	assert(!err);
	n_opened++;
}

static void poll_all(struct tcp_listener *l)
{
	drive_in(server.s, &server.port.port, now);
	drive_in(client.s, &client.port.port, now);
	serve(l);
	ask();
	drive_out(server.s, &server.port.port, now);
	drive_out(client.s, &client.port.port, now);
}

/* How many bytes of the server's pools were ever in use. */
static uint64_t touched(void)
{
	const struct tcp_stack *s = server.s;

	return (uint64_t)s->pool_conns.first.n_beyond * s->pool_conns.size +
	       (uint64_t)s->pool_reqsks.first.n_beyond * s->pool_reqsks.size +
	       (uint64_t)s->pool_tws.first.n_beyond * s->pool_tws.size +
	       (uint64_t)s->pool_ranges.first.n_beyond * s->pool_ranges.size +
	       (uint64_t)s->pool_extents.first.n_beyond * s->pool_extents.size;
}

int main(int argc, char **argv)
{
	uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 300000;
	uint32_t n_polls = n / FORGED_A_POLL;
	struct tcp_listener *l;
	uint64_t early = 0;

	host_init(&server, SERVER_ADDR, &client, 4096);
	host_init(&client, CLIENT_ADDR, &server, N_CLIENTS);
	int err = tcp_listen(server.s, NULL, PORT, 128, &l);
	assert(!err);
	for (uint32_t i = 0; i < n_polls; i++, now += POLL_NS) {
		for (unsigned k = 0; k < FORGED_A_POLL; k++)
			forge();
		if (i % HONEST_EVERY == 0)
			open_honest();
		poll_all(l);
		if (i == n_polls / 3)
			early = touched();
	}
	uint64_t late = touched();
	uint64_t until = now + 200 * NS_PER_S;
	while (n_good + n_bad < n_opened && now < until) {
		now += 5 * NS_PER_MS;
		poll_all(l);
	}
	printf(
	    "syn_flood: %u forged, %llu cookies; %u of %u honest ended well, "
	    "%u served; server touched %llu KB after a third, %llu KB at the "
	    "end\n",
	    n, (unsigned long long)tcp_dropped(server.s, DROP_SYN_COOKIE),
	    n_good, n_opened, n_served, (unsigned long long)early / 1024,
	    (unsigned long long)late / 1024);
	if (n_good * 1000ull < n_opened * 999ull || n_served > n_opened ||
	    late > early + early / 4)
		return 1;
	return 0;
}
