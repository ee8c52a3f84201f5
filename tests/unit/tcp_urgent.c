/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_urgent.c - one byte out of band, as Linux does it (RFC 6093)
 */
#include "tcp_kit.h"

static struct kit k;
static struct tcp_conn *c;

static void open_one(void) { c = kit_open_one(&k); }

static void close_one(void) { kit_close_one(&k, c); }

/* Bytes of the peer's; the pointer counts from the first of them. */
static void in_urgent(const char *bytes, uint16_t urg)
{
	struct tcp_seg seg = kit_seg(&k, TCP_ACK | TCP_URG);

	seg.urg = urg;
	seg.len = (uint32_t)strlen(bytes);
	k.seq = seq_add(k.seq, seg.len);
	kit_segment(&k, &seg, bytes);
}

/* One read; what tcp_peek() gives. */
static void expect_read(const char *bytes)
{
	const uint8_t *data;
	ssize_t n = tcp_peek(c, &data);

	if (!bytes) {
		assert_int_equal(n, -EAGAIN);
		return;
	}
	assert_int_equal(n, strlen(bytes));
	assert_memory_equal(data, bytes, strlen(bytes));
	tcp_consume(c, (uint32_t)n, k.now);
}

static void reading_stops_at_the_mark_and_goes_on_behind_it(void **state)
{
	uint8_t byte = 0;

	open_one();
	assert_int_equal(tcp_recv_urgent(c, &byte, false), -EINVAL);
	in_urgent("abXcd", 3);
	assert_true(tcp_poll(c) & TCP_URGENT);
	assert_int_equal(tcp_readable_bytes(c), 2);
	assert_false(tcp_is_at_mark(c));
	expect_read("ab");
	assert_true(tcp_is_at_mark(c));
	assert_int_equal(tcp_readable_bytes(c), 2);
	assert_int_equal(tcp_recv_urgent(c, &byte, true), 1);
	assert_int_equal(tcp_recv_urgent(c, &byte, false), 1);
	assert_int_equal(byte, 'X');
	assert_int_equal(tcp_recv_urgent(c, &byte, false), -EINVAL);
	assert_false(tcp_poll(c) & TCP_URGENT);
	assert_true(tcp_is_at_mark(c));
	expect_read("cd");
	assert_false(tcp_is_at_mark(c));
	expect_read(NULL);
	close_one();
}

static void in_line_it_is_a_byte_like_any_other(void **state)
{
	uint8_t byte;

	open_one();
	tcp_set_oob_inline(c, true);
	in_urgent("abXcd", 3);
	assert_int_equal(tcp_recv_urgent(c, &byte, false), -EINVAL);
	expect_read("ab");
	assert_true(tcp_is_at_mark(c));
	expect_read("Xcd");
	assert_false(tcp_is_at_mark(c));
	close_one();
}

/* The pointer comes first, the byte later; a byte alone is nothing to read. */
static void a_pointer_may_be_ahead_of_its_byte(void **state)
{
	uint8_t byte;

	open_one();
	in_urgent("ab", 5);
	assert_int_equal(tcp_recv_urgent(c, &byte, false), -EAGAIN);
	assert_false(tcp_poll(c) & TCP_URGENT);
	expect_read("ab");
	kit_in(&k, TCP_ACK, "cd", 2);
	expect_read("cd");
	kit_in(&k, TCP_ACK, "X", 1);
	assert_true(tcp_poll(c) & TCP_URGENT);
	assert_false(tcp_poll(c) & TCP_READABLE);
	assert_int_equal(tcp_recv_urgent(c, &byte, false), 1);
	assert_int_equal(byte, 'X');
	expect_read(NULL);
	kit_in(&k, TCP_ACK, "ef", 2);
	expect_read("ef");
	close_one();
}

static void a_byte_behind_a_hole_is_there_at_once(void **state)
{
	uint8_t byte;

	open_one();
	seq32 at = k.seq;
	k.seq = seq_add(k.seq, 3);
	in_urgent("X", 1);
	assert_int_equal(tcp_recv_urgent(c, &byte, false), 1);
	assert_int_equal(byte, 'X');
	k.seq = at;
	kit_in(&k, TCP_ACK, "abc", 3);
	expect_read("abc");
	assert_true(tcp_is_at_mark(c));
	close_one();
}

static void the_newest_pointer_counts(void **state)
{
	uint8_t byte;

	open_one();
	in_urgent("X", 1);
	in_urgent("Y", 1);
	assert_int_equal(tcp_recv_urgent(c, &byte, false), 1);
	assert_int_equal(byte, 'Y');
	/* X was passed over: nobody asked for it in time. */
	assert_int_equal(tcp_readable_bytes(c), 0);
	in_urgent("ab", 0);
	expect_read("b");
	close_one();
}

static void old_pointers_mean_nothing(void **state)
{
	uint8_t byte;

	open_one();
	in_urgent("abX", 3);
	expect_read("ab");
	expect_read(NULL);
	k.seq = seq_sub(k.seq, 3);
	in_urgent("abX", 3);
	assert_int_equal(tcp_recv_urgent(c, &byte, false), -EINVAL);
	close_one();
}

static void what_is_sent_points_behind_its_last_byte(void **state)
{
	static struct kit_frame f;

	open_one();
	kit_write(&k, c, 100);
	assert_true(kit_out(&k, &f));
	assert_false(f.seg.flags & TCP_URG);
	assert_int_equal(tcp_send_as(c, "abX", 3, TCP_SEND_URGENT, k.now), 3);
	/* Nagle does not hold it. */
	assert_true(kit_out(&k, &f));
	assert_true(f.seg.flags & TCP_URG);
	assert_int_equal(f.seg.urg, 3);
	assert_int_equal(tcp_send(c, "cd", 2, k.now), 2);
	assert_true(kit_out(&k, &f));
	assert_false(f.seg.flags & TCP_URG);
	/* Until it is acknowledged, what comes before it says so, too. */
	kit_wait(&k, 3 * NS_PER_S);
	assert_true(kit_out(&k, &f));
	assert_true(f.seg.flags & TCP_URG);
	assert_int_equal(f.seg.urg, 103);
	kit_in(&k, TCP_ACK, NULL, 0);
	kit_drain(&k);
	kit_write(&k, c, 10);
	assert_true(kit_out(&k, &f));
	assert_false(f.seg.flags & TCP_URG);
	close_one();
}

static void far_ahead_the_pointer_is_as_large_as_can_be(void **state)
{
	static struct kit_frame f;
	static uint8_t buf[100000];

	open_one();
	assert_int_equal(
	    tcp_send_as(c, buf, sizeof(buf), TCP_SEND_URGENT, k.now),
	    sizeof(buf));
	assert_true(kit_out(&k, &f));
	assert_true(f.seg.flags & TCP_URG);
	assert_int_equal(f.seg.urg, 65535);
	close_one();
}

/* RFC 9293 section 3.10.7.4, "sixth": behind a FIN the pointer is ignored. */
static void behind_a_fin_nothing_is_urgent(void **state)
{
	uint8_t byte;

	open_one();
	kit_in(&k, TCP_FIN | TCP_ACK, NULL, 0);
	in_urgent("X", 1);
	assert_false(tcp_poll(c) & TCP_URGENT);
	assert_int_equal(tcp_recv_urgent(c, &byte, false), -EINVAL);
	close_one();
}

/* The stream ends, one way or the other, and with it the wait for the byte. */
static void a_byte_that_never_comes_is_not_waited_for(void **state)
{
	for (int is_reset = 0; is_reset < 2; is_reset++) {
		uint8_t byte;

		open_one();
		in_urgent("ab", 5);
		assert_int_equal(tcp_recv_urgent(c, &byte, false), -EAGAIN);
		kit_in(&k, (is_reset ? TCP_RST : TCP_FIN) | TCP_ACK, NULL, 0);
		assert_int_equal(tcp_recv_urgent(c, &byte, false), 0);
		close_one();
	}
}

/* RFC 6093 section 3.1: nothing says that the pointer stays within the bytes.  There were
 * four gigabytes to read. */
static void a_mark_at_the_fin_is_no_byte(void **state)
{
	for (uint32_t n = 0; n < 3; n++) {
		const uint8_t *data;

		open_one();
		struct tcp_seg seg = kit_seg(&k, TCP_ACK | TCP_URG | TCP_FIN);
		seg.urg = (uint16_t)(n + 1);
		seg.len = n;
		kit_segment(&k, &seg, "ab");
		k.seq = seq_add(k.seq, n + 1);
		assert_int_equal(c->state, TCP_CLOSE_WAIT);
		assert_int_equal(tcp_readable_bytes(c), n);
		if (n) {
			assert_int_equal(tcp_peek(c, &data), n);
			tcp_consume(c, n, k.now);
		}
		assert_int_equal(tcp_readable_bytes(c), 0);
		assert_int_equal(tcp_peek(c, &data), 0);
		close_one();
	}
}

/* Nobody reads it any more. */
static void for_a_closed_program_nothing_is_urgent(void **state)
{
	static struct kit_frame f;

	open_one();
	tcp_close(c, k.now);
	kit_drain(&k);
	in_urgent("", 5);
	in_urgent("X", 5);
	assert_true(kit_out(&k, &f));
	assert_true(f.seg.flags & TCP_RST);
	kit_fini(&k);
}

/* What is sent again, and stands further before the byte than the pointer reaches, says
 * nothing of it: behind it is what does. */
static void too_far_before_the_byte_there_is_no_pointer(void **state)
{
	static struct kit_frame f;
	static uint8_t buf[200000];
	bool is_found = false;

	open_one();
	kit_in(&k, TCP_ACK, NULL, 0); /* with a window that is scaled */
	c->cwnd = 1 << 20;
	assert_int_equal(
	    tcp_send_as(c, buf, sizeof(buf), TCP_SEND_URGENT, k.now),
	    sizeof(buf));
	while (kit_out(&k, &f))
		assert_true(f.seg.flags & TCP_URG);
	assert_true(seq_eq(c->snd_nxt, c->snd_end));
	for (int i = 0; i < 20 && !is_found; i++) {
		kit_wait(&k, 100 * NS_PER_MS);
		while (kit_out(&k, &f) && !is_found)
			is_found = seq_eq(f.seg.seq, c->snd_una);
	}
	assert_true(is_found);
	assert_false(f.seg.flags & TCP_URG);
	assert_int_equal(f.seg.urg, 0);
	close_one();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
		    reading_stops_at_the_mark_and_goes_on_behind_it),
		cmocka_unit_test(in_line_it_is_a_byte_like_any_other),
		cmocka_unit_test(a_pointer_may_be_ahead_of_its_byte),
		cmocka_unit_test(a_byte_behind_a_hole_is_there_at_once),
		cmocka_unit_test(the_newest_pointer_counts),
		cmocka_unit_test(old_pointers_mean_nothing),
		cmocka_unit_test(what_is_sent_points_behind_its_last_byte),
		cmocka_unit_test(far_ahead_the_pointer_is_as_large_as_can_be),
		cmocka_unit_test(behind_a_fin_nothing_is_urgent),
		cmocka_unit_test(a_byte_that_never_comes_is_not_waited_for),
		cmocka_unit_test(a_mark_at_the_fin_is_no_byte),
		cmocka_unit_test(for_a_closed_program_nothing_is_urgent),
		cmocka_unit_test(too_far_before_the_byte_there_is_no_pointer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
