/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_states.c - any frame into a stack with connections in all states
 *
 *     bytes -> frames, raw or made to fit a connection -> tcp_rx() -> conn_check()
 *
 * There are eleven connections, each in another state.  A frame goes in as it is, or
 * gets the addresses, ports, numbers and lengths of a connection.  Then the fuzzer
 * varies what follows them in the header: flags, options, windows, text.
 */
#include "fuzz_stack.h"

#define PEER 0x0a000002
#define FIRST_PORT 5000
#define N_STATES 11

static struct fuzz_host host;
static struct tcp_conn *conns[N_STATES];
static uint64_t now;
static const struct ip_addr peer = { { [10] = 0xff, 0xff, 10, 0, 0, 2 } };

static void drain(void)
{
	uint8_t out[FUZZ_RX_CAP];

	while (fuzz_tx(&host, out, now))
		;
	fuzz_check(&host);
}

/* Sends a segment to the i-th connection. */
static void in(unsigned i, unsigned flags, seq32 seq, seq32 ack, uint32_t len)
{
	uint8_t buf[FUZZ_RX_CAP] = { 0 };
	struct tcp_seg s = { .sport = (uint16_t)(FIRST_PORT + i),
			     .dport = FUZZ_PORT,
			     .seq = seq,
			     .ack = ack,
			     .flags = (uint8_t)flags,
			     .wnd = 60000,
			     .len = len,
			     .mss = flags & TCP_SYN ? 1460 : 0,
			     .wscale = flags & TCP_SYN ? 3 : TCP_NO_WSCALE,
			     .is_sack_ok = flags & TCP_SYN,
			     .has_ts = true,
			     .tsval = 100 };

	uint32_t head = tcp_head_build(buf + IPV4_HEAD, &s);
	ip_build(buf, &peer, &host.s->cfg.addrs[0], IP_PROTO_TCP, 0,
		 head + len);
	fuzz_rx(&host, buf, IPV4_HEAD + head + len, now);
}

static void open_actively(unsigned i)
{
	int err = tcp_connect(host.s, &host.s->cfg.addrs[0], FUZZ_PORT, &peer,
			      (uint16_t)(FIRST_PORT + i), now, &conns[i]);

	assert(!err);
	drain();
}

static void establish(unsigned i)
{
	open_actively(i);
	in(i, TCP_SYN | TCP_ACK, (seq32){ 1000 }, conns[i]->snd_nxt, 0);
	assert(conns[i]->state == TCP_ESTABLISHED);
	drain();
}

static void fin_in(unsigned i)
{
	in(i, TCP_FIN | TCP_ACK, conns[i]->rcv_nxt, conns[i]->snd_una, 0);
	drain();
}

static void shut(unsigned i)
{
	int err = tcp_shutdown(conns[i], now);

	assert(!err);
	drain();
}

static void fin_acked(unsigned i)
{
	in(i, TCP_ACK, conns[i]->rcv_nxt, conns[i]->snd_nxt, 0);
	drain();
}

/* Brings the i-th connection into its state. */
static void reach(unsigned i)
{
	static const uint8_t text[3000];

	if (i == 0) { /* half open: a struct tcp_reqsk */
		in(i, TCP_SYN, (seq32){ 1000 }, (seq32){ 0 }, 0);
		drain();
		return;
	}
	if (i == 1 || i == 2) { /* SYN-SENT; SYN-RECEIVED, from both sides */
		open_actively(i);
		if (i == 2)
			in(i, TCP_SYN, (seq32){ 1000 }, (seq32){ 0 }, 0);
		drain();
		return;
	}
	establish(i);
	if (i == 4) { /* text under way, and holes in what has come */
		(void)!tcp_send(conns[i], text, sizeof(text), now);
		in(i, TCP_ACK, seq_add(conns[i]->rcv_nxt, 100),
		   conns[i]->snd_una, 50);
		drain();
	}
	if (i == 5 || i == 9) /* CLOSE-WAIT; LAST-ACK */
		fin_in(i);
	if (i >= 6) /* FIN-WAIT-1, FIN-WAIT-2, CLOSING, LAST-ACK, TIME-WAIT */
		shut(i);
	if (i == 8)
		fin_in(i);
	if (i == 7 || i == 10)
		fin_acked(i);
	if (i == 10)
		fin_in(i);
}

/* Makes the start of the header that of a segment of the connection, with a number that
 * is a bit off. */
static void fit(uint8_t *p, uint32_t len, uint8_t which, uint8_t off)
{
	unsigned i = which % N_STATES;
	const struct tcp_conn *c = conns[i];
	uint8_t *tcp = p + IPV4_HEAD;
	seq32 seq = { 1001 }, ack = { 0 };

	if (len < IPV4_HEAD + TCP_HEAD)
		return;
	ip_build(p, &peer, &host.s->cfg.addrs[0], IP_PROTO_TCP, off & 3,
		 len - IPV4_HEAD);
	store_be16(tcp, (uint16_t)(FIRST_PORT + i));
	store_be16(tcp + 2, FUZZ_PORT);
	if (c) {
		seq = c->rcv_nxt;
		ack = c->snd_nxt;
	}
	store_be32(tcp + 4, seq.v + (uint32_t)(int8_t)off / 8);
	store_be32(tcp + 8, ack.v - (off & 7) * 200u);
	/* A header that is longer than the segment would test nothing. */
	if ((tcp[12] >> 4) * 4u > len - IPV4_HEAD || tcp[12] >> 4 < 5)
		tcp[12] = TCP_HEAD / 4 << 4;
}

static void frame(struct fuzz_input *input)
{
	uint8_t buf[FUZZ_RX_CAP], how = fuzz_u8(input), which = fuzz_u8(input),
				  off = fuzz_u8(input);
	uint32_t len = fuzz_u8(input) * (how & 2 ? 5u : 1u);
	uint32_t have = (uint32_t)MIN((size_t)len, input->left);

	memset(buf, 0, sizeof(buf));
	memcpy(buf, input->p, have);
	input->p += have;
	input->left -= have;
	if (how & 1)
		fit(buf, len, which, off);
	fuzz_rx(&host, buf, len, now);
	if (how & 4) {
		now += (uint64_t)off << (which % 24);
		tcp_timers(host.s, now);
	}
	drain();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, size };

	now = 1000000;
	fuzz_host_init(&host, 0x0a000001, &tcp_cubic, now);
	memset(conns, 0, sizeof(conns));
	for (unsigned i = 0; i < N_STATES; i++)
		reach(i);
	while (input.left)
		frame(&input);
	fuzz_host_fini(&host);
	return 0;
}
