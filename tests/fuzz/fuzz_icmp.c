/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_icmp.c - any ICMP messages to a stack that sends
 *
 * A message is raw, or quotes what a connection has sent, with a number that is a bit
 * off.  Whatever it says, segments stay within the limits of RFC 1191 and RFC 8201, and
 * no message ends an established connection (RFC 1122 section 4.2.3.9, RFC 5927).
 */
#include "fuzz_stack.h"

#include "ip/checksum.h"

static struct fuzz_host host;
static struct tcp_conn *open_conn, *opening;
static uint64_t now;
static const struct ip_addr peer = { { [10] = 0xff, 0xff, 10, 0, 0, 2 } };

static void drain(void)
{
	uint8_t out[FUZZ_RX_CAP];
	uint32_t len;

	while ((len = fuzz_tx(&host, out, now)))
		assert(len <= 1500);
	fuzz_check(&host);
}

static void segment(uint16_t sport, unsigned flags, seq32 seq, seq32 ack)
{
	uint8_t buf[FUZZ_RX_CAP] = { 0 };
	struct tcp_seg s = { .sport = sport,
			     .dport = FUZZ_PORT,
			     .seq = seq,
			     .ack = ack,
			     .flags = (uint8_t)flags,
			     .wnd = 60000,
			     .mss = flags & TCP_SYN ? 1460 : 0,
			     .wscale = TCP_NO_WSCALE };
	uint32_t head = tcp_head_build(buf + IPV4_HEAD, &s);

	ip_build(buf, &peer, &host.s->cfg.addrs[0], IP_PROTO_TCP, 0, head);
	fuzz_rx(&host, buf, IPV4_HEAD + head, now);
}

static struct tcp_conn *connect_to(uint16_t port)
{
	struct tcp_conn *c;
	int err = tcp_connect(host.s, &host.s->cfg.addrs[0], FUZZ_PORT, &peer,
			      port, now, &c);

	assert(!err);
	drain();
	return c;
}

/* Makes a message that quotes a segment of a connection. */
static uint32_t quote(struct fuzz_input *in, uint8_t *m)
{
	const struct tcp_conn *c = fuzz_u8(in) & 1 ? open_conn : opening;
	const struct ip_addr *me = &host.s->cfg.addrs[0];

	m[0] = fuzz_u8(in);
	m[1] = fuzz_u8(in);
	store_be32(m + 4, fuzz_u16(in));
	ip_build(m + 8, me, &peer, IP_PROTO_TCP, 0, 1400);
	store_be16(m + 28, FUZZ_PORT);
	store_be16(m + 30, c->flow.rport);
	store_be32(m + 32, c->snd_una.v + fuzz_u16(in) - 100);
	return 36 + fuzz_u8(in) % 40;
}

static void message(struct fuzz_input *in)
{
	uint8_t buf[FUZZ_RX_CAP] = { 0 }, *m = buf + IPV4_HEAD;
	uint8_t how = fuzz_u8(in);
	struct cksum sum = { 0 };
	uint32_t n;

	if (how & 1) {
		n = quote(in, m);
	} else {
		n = (uint32_t)MIN((size_t)fuzz_u8(in), in->left);
		memcpy(m, in->p, n);
		in->p += n;
		in->left -= n;
	}
	if (n >= 4 && !(how & 2)) {
		store_be16(m + 2, 0);
		cksum_add(&sum, m, n);
		store_be16(m + 2, cksum_end(&sum));
	}
	ip_build(buf, &peer, &host.s->cfg.addrs[0], IP_PROTO_ICMP, 0, n);
	fuzz_rx(&host, buf, IPV4_HEAD + n, now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t text[8000];
	struct fuzz_input in = { data, size };

	now = 1000000;
	fuzz_host_init(&host, 0x0a000001, &tcp_newreno, now);
	open_conn = connect_to(5000);
	segment(5000, TCP_SYN | TCP_ACK, (seq32){ 1 }, open_conn->snd_nxt);
	opening = connect_to(5001);
	(void)!tcp_send(open_conn, text, sizeof(text), now);
	drain();
	while (in.left) {
		if (fuzz_u8(&in) % 4) {
			message(&in);
		} else {
			now += (uint64_t)fuzz_u8(&in) * NS_PER_MS;
			tcp_timers(host.s, now);
		}
		drain();
		assert(open_conn->state == TCP_ESTABLISHED ||
		       now > 10 * NS_PER_S);
		assert(open_conn->mss >= MSS_MIN && open_conn->mss <= 1460);
	}
	fuzz_host_fini(&host);
	return 0;
}
