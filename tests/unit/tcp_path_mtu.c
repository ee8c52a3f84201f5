/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_path_mtu.c - what fits the path, told and not told
 *
 * Two stacks and a path between them that carries packets of at most so many bytes;
 * its router says so, or not.  RFC 1191, RFC 8201, RFC 4821.
 */
#include "tcp_kit.h"
#include "tcp/pmtu.h"

#define ONE_WAY (5 * NS_PER_MS)

static struct kit a, b; /* A sends, B reads */
static struct tcp_conn *ca, *cb;
static uint64_t n_read;
static uint32_t mtu, largest; /* of the path; of what went through it */
static bool tells;
static unsigned n_lost;

/* One packet; a router drops what is too large, and says so to who sent it. */
static void carry_packet(struct kit *from, struct kit *to, const uint8_t *p,
			 uint32_t n, uint32_t ip_len)
{
	struct tcp_seg seg;

	assert_true(n <= from->s->cfg.mtu);
	if (n > mtu) {
		n_lost++;
		assert_int_equal(tcp_head_parse(p + ip_len, n - ip_len, &seg),
				 0);
		if (tells && from->is_v6)
			kit_icmp(from, 2, 0, mtu, seg.seq);
		else if (tells)
			kit_icmp(from, 3, 4, mtu, seg.seq);
		return;
	}
	largest = n > largest ? n : largest;
	struct extent *e = extent_new(&to->rx);
	assert_non_null(e);
	memcpy(e->data, p, n);
	tcp_rx(to->s, e, 0, n, 0, to->now);
	extent_put(e);
}

static void carry(struct kit *from, struct kit *to, const struct kit_frame *f)
{
	static uint8_t out[IP_MAX];

	if (!f->gso_size) {
		memcpy(out, f->head, f->head_len);
		memcpy(out + f->head_len, f->payload, f->len);
		carry_packet(from, to, out, f->head_len + f->len, f->ip_len);
	}
	for (uint32_t i = 0; i * f->gso_size < f->len && f->gso_size; i++) {
		uint32_t n =
		    gso_segment(f->head, f->ip_len, f->head_len, f->payload,
				f->len, f->gso_size, i, out);
		carry_packet(from, to, out, n, f->ip_len);
	}
	kit_check(to);
}

static void both_wait(uint64_t ns)
{
	kit_wait(&a, ns);
	kit_wait(&b, ns);
}

static void turn(void)
{
	static struct kit_frame f;
	const uint8_t *data;
	ssize_t n;

	while (kit_out(&a, &f))
		carry(&a, &b, &f);
	both_wait(ONE_WAY);
	while (cb && (n = tcp_peek(cb, &data)) > 0) {
		assert_int_equal(stream_differs(data, n_read, (size_t)n), n);
		n_read += (uint64_t)n;
		tcp_consume(cb, (uint32_t)n, b.now);
	}
	while (kit_out(&b, &f))
		carry(&b, &a, &f);
	both_wait(ONE_WAY);
}

static void open_path(bool is_v6, uint32_t gso_max)
{
	struct tcp_config cfg = kit_config(is_v6);

	cfg.gso_max = gso_max;
	kit_init(&a, &cfg);
	cfg.addrs[0].b[15]++;
	kit_init(&b, &cfg);
	a.peer = b.me;
	b.peer = a.me;
	mtu = 1500;
	largest = n_lost = 0;
	n_read = 0;
	cb = NULL;
	assert_int_equal(tcp_listen(b.s, NULL, KIT_PORT, 8, &b.listener), 0);
	a.lport = KIT_PEER_PORT;
	a.rport = KIT_PORT;
	assert_int_equal(
	    tcp_connect(a.s, &a.me, a.lport, &a.peer, a.rport, a.now, &ca), 0);
	turn();
	turn();
	cb = tcp_accept(b.listener);
	assert_non_null(cb);
}

static void close_path(void)
{
	tcp_abort(ca, a.now);
	tcp_abort(cb, b.now);
	kit_drain(&a);
	kit_drain(&b);
	tcp_unlisten(b.listener, b.now);
	kit_fini(&a);
	kit_fini(&b);
}

/* Sends @n bytes more, and waits until they have arrived.  Return: how long it took. */
static uint64_t transfer(uint64_t n)
{
	static uint8_t buf[65536];
	uint64_t done = n_read, until = n_read + n, from = a.now;

	while (n_read < until) {
		uint64_t left = until - done;
		uint32_t len = (uint32_t)MIN(left, sizeof(buf));

		stream_fill(buf, done, len);
		ssize_t took = len ? tcp_send(ca, buf, len, a.now) : 0;
		done += took > 0 ? (uint64_t)took : 0;
		turn();
		assert_true(a.now - from < 120 * NS_PER_S);
	}
	return a.now - from;
}

static void a_smaller_path_is_taken_at_its_routers_word(void **state)
{
	for (int i = 0; i < 4; i++) {
		open_path(i & 1, i & 2 ? 20000 : 0);
		tells = true;
		transfer(100000);
		assert_int_equal(largest, 1500);
		uint32_t cwnd = ca->cwnd;
		mtu = 1300;
		uint64_t ns = transfer(100000);
		/* At once, with what was under way; and it was no congestion. */
		assert_true(ns < 150 * NS_PER_MS);
		assert_true(ca->cwnd >= cwnd);
		assert_int_equal(ca->path_mtu, 1300);
		assert_true(n_lost > 0);
		n_lost = largest = 0;
		transfer(100000);
		assert_int_equal(n_lost, 0);
		assert_int_equal(largest, 1300);
		close_path();
	}
}

/* RFC 1191 section 6.3: after ten minutes more is tried, and lost without a word. */
static void a_path_is_tried_again_after_a_while(void **state)
{
	for (int is_v6 = 0; is_v6 < 2; is_v6++) {
		open_path(is_v6, 0);
		tells = true;
		mtu = 1300;
		transfer(100000);
		tells = false;
		n_lost = 0;
		transfer(100000);
		assert_int_equal(n_lost, 0);
		both_wait(601 * NS_PER_S);
		transfer(300000);
		assert_true(n_lost >= 1 && n_lost < 10);
		assert_int_equal(ca->path_mtu, 1300);
		mtu = 1500;
		both_wait(601 * NS_PER_S);
		transfer(200000);
		assert_int_equal(ca->path_mtu, 1500);
		close_path();
	}
}

/* A probe fills the link.  With a duplicate to be told of beside it, which is an option,
 * it would be larger; carry_packet() looks. */
static void a_probe_carries_no_report_of_duplicates(void **state)
{
	static uint8_t buf[32768];
	static struct kit_frame f;

	for (int is_v6 = 0; is_v6 < 2; is_v6++) {
		open_path(is_v6, 0);
		tells = true;
		mtu = 1300;
		transfer(100000);
		mtu = 1500;
		both_wait(601 * NS_PER_S);
		assert_int_equal(tcp_send(cb, "twice", 5, b.now), 5);
		assert_true(kit_out(&b, &f));
		carry(&b, &a, &f);
		carry(&b, &a, &f);
		assert_true(ca->flags & CONN_DSACK);
		uint64_t until = n_read + sizeof(buf);
		stream_fill(buf, n_read, sizeof(buf));
		assert_int_equal(tcp_send(ca, buf, sizeof(buf), a.now),
				 sizeof(buf));
		for (int i = 0; i < 100 && n_read < until; i++)
			turn();
		assert_int_equal(n_read, until);
		assert_true(largest > 1300);
		close_path();
	}
}

static void a_silent_path_is_found_out(void **state)
{
	static const uint32_t paths[] = { 1480, 1400, 1300, 1280, 1100, 600 };

	for (unsigned i = 0; i < ARRAY_LEN(paths) * 2; i++) {
		bool is_v6 = i % 2;

		mtu = paths[i / 2];
		if (is_v6 && mtu < 1280)
			continue;
		open_path(is_v6, i & 4 ? 20000 : 0);
		tells = false;
		transfer(50000);
		mtu = paths[i / 2];
		transfer(400000);
		/* Near to it, and not above. */
		assert_true(ca->path_mtu <= mtu);
		assert_true(ca->path_mtu + 48u >= mtu);
		close_path();
	}
}

/* What was silent for another reason is as large as before, soon after. */
static void a_path_that_was_broken_gets_its_size_back(void **state)
{
	uint8_t buf[5000];

	open_path(false, 0);
	tells = false;
	transfer(50000);
	mtu = 0;
	stream_fill(buf, n_read, sizeof(buf));
	assert_int_equal(tcp_send(ca, buf, sizeof(buf), a.now), sizeof(buf));
	for (int i = 0; i < 200; i++)
		turn();
	assert_true(ca->path_mtu < 1500);
	mtu = 1500;
	while (n_read < 55000)
		turn();
	transfer(200000);
	assert_int_equal(ca->path_mtu, 1500);
	close_path();
}

/* An error below what every path must carry shrinks to that, and no further; of IPv6 it
 * is a forgery, and discarded (RFC 8201 section 4). */
static void no_error_makes_segments_tiny(void **state)
{
	for (int is_v6 = 0; is_v6 < 2; is_v6++) {
		open_path(is_v6, 0);
		kit_write(&a, ca, 20000);
		kit_drain(&a);
		if (is_v6)
			kit_icmp(&a, 2, 0, 68, ca->snd_una);
		else
			kit_icmp(&a, 3, 4, 68, ca->snd_una);
		assert_int_equal(ca->path_mtu, is_v6 ? 1500 : 552);

		close_path();
	}
}

/* ... and one of 0 is not a router that does not say, as in IPv4. */
static void an_error_of_ipv6_always_says_how_much(void **state)
{
	open_path(true, 0);
	kit_write(&a, ca, 20000);
	kit_drain(&a);
	kit_icmp(&a, 2, 0, 0, ca->snd_una);
	assert_int_equal(ca->path_mtu, 1500);
	kit_icmp(&a, 2, 0, 1280, ca->snd_una);
	assert_int_equal(ca->path_mtu, 1280);
	close_path();
}

/* RFC 1191 section 7.1: routers older than that RFC leave the field 0. */
static void a_router_that_names_no_size_is_guessed(void **state)
{
	open_path(false, 0);
	kit_write(&a, ca, 20000);
	kit_drain(&a);
	kit_icmp(&a, 3, 4, 0, ca->snd_una);
	assert_int_equal(ca->path_mtu, 1492);
	kit_drain(&a);
	kit_icmp(&a, 3, 4, 0, ca->snd_una);
	assert_int_equal(ca->path_mtu, 1006);
	close_path();
}

/* The route's, where it says less than the link. */
static void a_route_says_what_fits_and_whether_there_is_one(void **state)
{
	static struct kit_frame f;
	const struct ip_route route = { .dst = ip_addr_v4(0x0a000000),
					.prefix_len = 96 + 8,
					.mtu = 1400 };
	const struct ip_hops hops = { .routes = &route, .n_routes = 1 };
	struct tcp_config cfg = kit_config(false);
	struct ip_addr far = ip_addr_v4(0x0b000001);

	cfg.hops = &hops;
	kit_init(&a, &cfg);
	assert_int_equal(tcp_connect(a.s, &a.me, 0, &far, 80, a.now, &ca),
			 -ENETUNREACH);
	assert_int_equal(tcp_connect(a.s, &a.me, KIT_PORT, &a.peer,
				     KIT_PEER_PORT, a.now, &ca),
			 0);
	assert_true(kit_out(&a, &f));
	assert_int_equal(f.seg.mss, 1360);
	kit_in(&a, TCP_SYN | TCP_ACK, NULL, 0);
	kit_drain(&a);
	assert_int_equal(ca->mss, 1360);
	tcp_abort(ca, a.now);
	kit_drain(&a);
	kit_fini(&a);
}

/* A route that says more than our link carries says nothing, and one that says what we
 * cannot do is taken for the least that we can. */
static void a_route_is_believed_within_reason(void **state)
{
	static const uint32_t said[] = { 0, 100, 9000 };
	static const uint32_t mss[] = { 1460, 536, 1460 };

	for (unsigned i = 0; i < ARRAY_LEN(said); i++) {
		static struct kit_frame f;
		const struct ip_route route = { .dst = ip_addr_v4(0x0a000000),
						.prefix_len = 96 + 8,
						.mtu = said[i] };
		const struct ip_hops hops = { .routes = &route, .n_routes = 1 };
		struct tcp_config cfg = kit_config(false);

		cfg.hops = &hops;
		kit_init(&a, &cfg);
		assert_int_equal(tcp_connect(a.s, &a.me, KIT_PORT, &a.peer,
					     KIT_PEER_PORT, a.now, &ca),
				 0);
		assert_true(kit_out(&a, &f));
		assert_int_equal(f.seg.mss, mss[i]);
		kit_fini(&a);
	}
}

/* Without "do not fragment", and each with a number of its own: RFC 6864. */
static void below_552_routers_cut(void **state)
{
	for (uint32_t gso = 0; gso <= 20000; gso += 20000) {
		static struct kit_frame f;
		static uint8_t out[IP_MAX];
		static bool seen[1 << 16];
		uint32_t n_seen = 0;

		memset(seen, 0, sizeof(seen));
		open_path(false, gso);
		kit_write(&a, ca, 20000);
		while (kit_out(&a, &f))
			assert_false(ip_may_fragment(f.head));
		kit_icmp(&a, 3, 4, 400, ca->snd_una);
		assert_int_equal(ca->path_mtu, 552);
		ca->cwnd = 50000;
		while (kit_out(&a, &f)) {
			struct ip_packet ip;
			uint32_t n = f.gso_size
					 ? (f.len + f.gso_size - 1) / f.gso_size
					 : 1;

			for (uint32_t i = 0; i < n && f.len; i++) {
				memcpy(out, f.head, f.head_len);
				memcpy(out + f.head_len, f.payload, f.len);
				uint32_t len =
				    n > 1
					? gso_segment(f.head, f.ip_len,
						      f.head_len, f.payload,
						      f.len, f.gso_size, i, out)
					: f.head_len + f.len;
				assert_int_equal(ip_parse(out, len, &ip), 0);
				assert_true(ip_may_fragment(out));
				assert_false(seen[load_be16(out + 4)]);
				seen[load_be16(out + 4)] = true;
				n_seen++;
			}
		}
		assert_true(n_seen > 20);
		/* It carries more after all. */
		ca->path_mtu = 1500;
		pmtu_sync(ca);
		kit_write(&a, ca, 1000);
		while (kit_out(&a, &f))
			assert_false(ip_may_fragment(f.head));
		close_path();
	}
	open_path(true, 0);
	kit_write(&a, ca, 20000);
	kit_drain(&a);
	kit_icmp(&a, 2, 0, 400, ca->snd_una);
	assert_false(ca->rec.may_fragment);
	close_path();
}

/* RFC 9040: what was learned of a path holds for the next connection on it. */
static void the_next_connection_knows_the_path(void **state)
{
	static const struct ip_addr other = {
		{ [10] = 255, 255, 10, 9, 9, 9 }
	};
	struct tcp_conn *next[4];

	open_path(false, 0);
	tells = true;
	transfer(100000);
	mtu = 1300;
	transfer(100000);
	for (int i = 0; i < 4; i++) {
		if (i == 2)
			both_wait(590 * NS_PER_S);
		if (i == 3)
			both_wait(20 * NS_PER_S);
		assert_int_equal(tcp_connect(a.s, &a.me, 0,
					     i == 1 ? &other : &a.peer, 80,
					     a.now, &next[i]),
				 0);
		assert_int_equal(next[i]->path_mtu, i & 1 ? 1500 : 1300);
		tcp_abort(next[i], a.now);
	}
	close_path();
}

/* Whoever connects to very many peers forgets some of them, and takes no memory. */
static void few_paths_are_kept(void **state)
{
	unsigned n_known = 0;

	open_path(false, 0);
	kit_write(&a, ca, 20000);
	kit_drain(&a);
	for (uint32_t i = 0; i < 1000; i++) {
		struct ip_addr was = ca->flow.raddr;

		ca->flow.raddr = ip_addr_v4(0x0a000100 + i);
		ca->path_mtu = 1500;
		pmtu_too_big(ca, 1000 + i % 100);
		ca->flow.raddr = was;
	}
	for (unsigned i = 0; i < PATHS_KNOWN; i++)
		n_known += a.s->paths[i].mtu != 0;
	assert_true(n_known > PATHS_KNOWN / 2);
	close_path();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_smaller_path_is_taken_at_its_routers_word),
		cmocka_unit_test(a_path_is_tried_again_after_a_while),
		cmocka_unit_test(a_probe_carries_no_report_of_duplicates),
		cmocka_unit_test(a_silent_path_is_found_out),
		cmocka_unit_test(a_path_that_was_broken_gets_its_size_back),
		cmocka_unit_test(no_error_makes_segments_tiny),
		cmocka_unit_test(an_error_of_ipv6_always_says_how_much),
		cmocka_unit_test(a_router_that_names_no_size_is_guessed),
		cmocka_unit_test(
		    a_route_says_what_fits_and_whether_there_is_one),
		cmocka_unit_test(a_route_is_believed_within_reason),
		cmocka_unit_test(below_552_routers_cut),
		cmocka_unit_test(the_next_connection_knows_the_path),
		cmocka_unit_test(few_paths_are_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
