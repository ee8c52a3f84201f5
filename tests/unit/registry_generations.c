/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/registry_generations.c - each generation of modules with each of osf
 *
 * An osf is here what it knows: so many bytes of struct osf_proto.  A module is what it
 * was compiled to and what of that it uses.  It asks as docs/modules.md advises: on
 * -E2BIG or -EOPNOTSUPP once more, in the next older generation, as long as it can do
 * without.
 */
#include <errno.h>
#include <string.h>

#include "ops/registry.h"
#include "unit.h"

#define N_OSF 4

/* The last is a later one, of which today's header knows nothing. */
static const size_t osf_bytes[N_OSF] = { OSF_PROTO_SIZE_1, OSF_PROTO_SIZE_2,
					 OSF_PROTO_SIZE_3,
					 OSF_PROTO_SIZE_3 + 16 };

struct later {
	struct osf_proto proto;
	uint64_t tail[2];
};

static int on_connect(uint64_t id, int fd, const struct sockaddr *to,
		      socklen_t len, unsigned timeout_ms, int *replacement)
{
	return -EAGAIN;
}
static int on_accept(uint64_t listener, uint64_t id, int fd,
		     struct sockaddr_storage *from, socklen_t *len,
		     int *replacement)
{
	return -EAGAIN;
}
static ssize_t on_bytes(void *conn, const struct iovec *iov, size_t n,
			int flags)
{
	return -EAGAIN;
}
static unsigned on_events(void *conn) { return 0; }
static void on_end(void *conn, int linger_s) {}
static int on_arrival(uint64_t listener, struct osf_sock *sk, uint64_t id,
		      int fd, struct sockaddr_storage *from, socklen_t *len,
		      void **conn)
{
	return -EAGAIN;
}

/* The struct of streams may be of a later osf, too. */
struct later_streams {
	struct osf_stream_ops ops;
	uint64_t tail[2];
};

static const struct later_streams streams = {
	.ops = { .size = sizeof(streams),
		 .accept = on_arrival,
		 .send = on_bytes,
		 .recv = on_bytes,
		 .events = on_events,
		 .close = on_end },
};

/* What a module uses of what it was compiled to. */
struct module {
	const char *is;
	unsigned generation; /* of its struct: 1 to 4 */
	bool accepts, streams, uses_later;
	unsigned least; /* the oldest generation that it can do with */
};

/* The generation that each osf serves it in; 0: not at all. */
static const struct {
	struct module m;
	unsigned served[N_OSF];
} matrix[] = {
	{ { "of 1", 1, .least = 1 }, { 1, 1, 1, 1 } },
	{ { "of 2, opens only", 2, .least = 1 }, { 2, 2, 2, 2 } },
	{ { "of 2, accepts too", 2, true, .least = 1 }, { 1, 2, 2, 2 } },
	{ { "of 2, must accept", 2, true, .least = 2 }, { 0, 2, 2, 2 } },
	{ { "of 3, by replacements", 3, true, .least = 1 }, { 1, 3, 3, 3 } },
	{ { "of 3, has streams", 3, true, true, .least = 1 }, { 1, 2, 3, 3 } },
	{ { "of 3, needs streams", 3, true, true, .least = 3 },
	  { 0, 0, 3, 3 } },
	{ { "later, has streams", 4, true, true, .least = 1 }, { 1, 2, 4, 4 } },
	{ { "later, needs both", 4, true, true, true, .least = 4 },
	  { 0, 0, 0, 4 } },
	{ { "later, unused", 4, true, .least = 1 }, { 1, 4, 4, 4 } },
	{ { "later, used", 4, true, false, true, .least = 1 }, { 1, 3, 3, 4 } },
	{ { "later, needed", 4, true, false, true, .least = 4 },
	  { 0, 0, 0, 4 } },
};

/* Who offers streams has no connect and accept beside them. */
static struct later make(const struct module *m, unsigned generation)
{
	bool by_stream = m->streams && generation >= 3;

	return (struct later){
		.proto = { .size = (uint32_t)osf_bytes[generation - 1],
			   .name = "module",
			   .connect = by_stream ? NULL : on_connect,
			   .accept =
			       m->accepts && !by_stream ? on_accept : NULL,
			   .stream = by_stream ? &streams.ops : NULL },
		.tail = { m->uses_later },
	};
}

/* The generation in which @m registers with an osf that knows @known bytes. */
static unsigned register_with(const struct module *m, size_t known)
{
	for (unsigned g = m->generation; g >= m->least; g--) {
		struct later l = make(m, g);
		int err = proto_check(&l.proto, known);

		if (!err)
			return g;
		assert_true(err == -E2BIG || err == -EOPNOTSUPP);
	}
	return 0;
}

static void each_module_with_each_osf(void **state)
{
	for (size_t m = 0; m < sizeof(matrix) / sizeof(matrix[0]); m++)
		for (unsigned o = 0; o < N_OSF; o++) {
			unsigned got =
			    register_with(&matrix[m].m, osf_bytes[o]);

			if (got != matrix[m].served[o])
				fail_msg("%s with osf %u: %u, not %u",
					 matrix[m].m.is, o + 1, got,
					 matrix[m].served[o]);
		}
}

/* Nothing that a module uses is dropped without a word. */
static void what_is_accepted_is_known(void **state)
{
	for (unsigned o = 0; o < N_OSF; o++)
		for (size_t at = osf_bytes[o]; at < sizeof(struct later);
		     at++) {
			struct module m = { .generation = 4 };
			struct later l = make(&m, 4);

			assert_int_equal(proto_check(&l.proto, osf_bytes[o]),
					 0);
			((char *)&l)[at] = 1;
			assert_int_equal(proto_check(&l.proto, osf_bytes[o]),
					 -E2BIG);
		}
}

static void a_struct_without_ops_is_the_least(void **state)
{
	struct osf_proto p = { .name = "module" };

	for (unsigned o = 0; o < N_OSF; o++)
		for (p.size = 0; p.size < OSF_PROTO_SIZE_1; p.size++)
			assert_int_equal(
			    proto_check(&p, osf_bytes[o]),
			    p.size < offsetof(struct osf_proto, connect)
				? -EINVAL
				: 0);
}

static void streams_are_checked(void **state)
{
	struct later_streams s = streams;
	size_t required[] = { offsetof(struct osf_stream_ops, accept),
			      offsetof(struct osf_stream_ops, send),
			      offsetof(struct osf_stream_ops, recv),
			      offsetof(struct osf_stream_ops, events),
			      offsetof(struct osf_stream_ops, close) };

	assert_int_equal(stream_check(&s.ops, OSF_STREAM_SIZE_1), 0);
	s.tail[1] = 1;
	assert_int_equal(stream_check(&s.ops, OSF_STREAM_SIZE_1), -E2BIG);
	assert_int_equal(stream_check(&s.ops, sizeof(s)), 0);
	s = streams;
	s.ops.comp_mask = OSF_STREAM_SERIAL;
	assert_int_equal(stream_check(&s.ops, OSF_STREAM_SIZE_1), 0);
	s.ops.comp_mask = 1u << 1;
	assert_int_equal(stream_check(&s.ops, OSF_STREAM_SIZE_1), -EOPNOTSUPP);
	s = streams;
	s.ops.reserved = 1;
	assert_int_equal(stream_check(&s.ops, OSF_STREAM_SIZE_1), -EINVAL);
	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++) {
		s = streams;
		memset((char *)&s + required[i], 0, sizeof(void *));
		assert_int_equal(stream_check(&s.ops, OSF_STREAM_SIZE_1),
				 -EINVAL);
		s = streams; /* or it ends before */
		s.ops.size = (uint32_t)required[i];
		assert_int_equal(stream_check(&s.ops, OSF_STREAM_SIZE_1),
				 -EINVAL);
	}
	struct later both = { .proto = { .size = OSF_PROTO_SIZE_3,
					 .name = "module",
					 .connect = on_connect,
					 .stream = &streams.ops } };
	assert_int_equal(proto_check(&both.proto, OSF_PROTO_SIZE_3), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_module_with_each_osf),
		cmocka_unit_test(what_is_accepted_is_known),
		cmocka_unit_test(a_struct_without_ops_is_the_least),
		cmocka_unit_test(streams_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
