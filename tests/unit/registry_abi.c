/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/registry_abi.c - modules and osf of different generations, and what
 * the registry makes of what a module answers
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/libc.h"
#include "ops/builtin.h"
#include "ops/candidates.h"
#include "ops/module.h"
#include "ops/registry.h"
#include "osf/proto.h"
#include "proto/module/stream.h"
#include "unit.h"

static const struct sockaddr_in here = {
	.sin_family = AF_INET,
	.sin_addr = { .s_addr = 0x0100007f } /* 127.0.0.1 */
};
#define TO_HERE (const struct sockaddr *)&here, (socklen_t)sizeof(here)

/* A socket's place does not matter, only that it names one. */
#define SK(n) ((struct sock *)(uintptr_t)(n))

static const struct module_how plain;

/* Modules with streams: tests/unit/stream_pairs.c, tests/app/test_modules.py. */
struct osf_sock *stream_new(struct sock *sk, const struct osf_stream_ops *ops)
{
	return NULL;
}
void stream_discard(struct osf_sock *s) {}
int stream_await(struct osf_sock *s, unsigned timeout_ms) { return 0; }
int stream_begin(struct osf_sock *s, int fd) { return 0; }
struct lock stream_serial;
int pair_connect(struct osf_sock *a, int fd, const struct sockaddr *to,
		 socklen_t len)
{
	return -EHOSTUNREACH;
}
struct osf_sock *pair_accept(const struct osf_stream_ops *ops, struct sock *sk,
			     const struct sockaddr_storage *from)
{
	return NULL;
}
int pair_listen(uint64_t id, int fd) { return 0; }
void pair_unlisten(uint64_t id) {}

/* What the modules below do, and have done. */
static int answer, gives;
static int n_connect, n_listen, n_notify, n_accept, n_close;

static int on_connect(uint64_t id, int fd, const struct sockaddr *to,
		      socklen_t len, unsigned timeout_ms, int *replacement)
{
	n_connect++;
	if (!answer)
		*replacement = gives;
	return answer;
}
static int on_listen(uint64_t id, int fd, int backlog) { return ++n_listen, 0; }
static void on_notify(const struct osf_inet_event *event) { n_notify++; }
static int on_accept(uint64_t listener, uint64_t id, int fd,
		     struct sockaddr_storage *from, socklen_t *len,
		     int *replacement)
{
	n_accept++;
	if (!answer)
		*replacement = gives;
	return answer;
}
static void on_close(uint64_t id) { n_close++; }

/* A later osf's struct. */
struct later {
	struct osf_proto proto;
	uint64_t tail[2];
};

static struct later full(void)
{
	return (struct later){ .proto = {
				   .size = sizeof(struct osf_proto),
				   .name = "full",
				   .caps = OSF_CAP_LOCAL,
				   .connect = on_connect,
				   .listen = on_listen,
				   .notify = on_notify,
				   .accept = on_accept,
				   .close = on_close,
			       } };
}

static int reset(void **state)
{
	answer = -ECONNREFUSED;
	gives = -1;
	n_connect = n_listen = n_notify = n_accept = n_close = 0;
	return 0;
}

/* Calls each op once; a socket's place does not matter. */
static void ask_all(void)
{
	struct osf_inet_event event = { .size = sizeof(event) };
	struct sockaddr_storage from = { .ss_family = AF_INET };
	socklen_t len = sizeof(here);

	assert_int_equal(module_connect(SK(1), 0, TO_HERE, NULL, &plain),
			 -EAGAIN);
	module_listen(1, 0, 1, NULL, true);
	ops_inet_notification(&event);
	assert_int_equal(module_accept(1, SK(2), 0, &from, &len, NULL, true),
			 -EAGAIN);
	module_close(1);
}

static void every_size_gets_the_ops_that_it_reaches(void **state)
{
	const size_t head = offsetof(struct osf_proto, connect);
	long page = sysconf(_SC_PAGESIZE);
	char *at = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct later l = full();

	/* A struct ends where its writer's ended, and behind it is nothing. */
	assert_int_equal(mprotect(at + page, (size_t)page, PROT_NONE), 0);
	for (size_t size = 8; size <= sizeof(struct osf_proto); size += 8) {
		struct osf_proto *p = (void *)(at + page - size);

		l.proto.size = (uint32_t)size;
		memcpy(p, &l, size);
		reset(NULL);
		if (size < head) {
			assert_int_equal(ops_proto_register(p), -EINVAL);
			continue;
		}
		assert_int_equal(ops_proto_register(p), 0);
		ask_all();
		assert_int_equal(n_connect, size >= head + 8);
		assert_int_equal(n_listen, size >= head + 16);
		assert_int_equal(n_notify, size >= OSF_PROTO_SIZE_1);
		assert_int_equal(n_accept, size >= head + 32);
		assert_int_equal(n_close, size >= OSF_PROTO_SIZE_2);
		assert_int_equal(ops_proto_unregister(p), 0);
	}
	munmap(at, (size_t)page * 2);
}

static void a_longer_one_may_be_if_what_is_new_is_unused(void **state)
{
	struct later l = full();

	for (uint32_t more = 0; more <= sizeof(l.tail); more++) {
		l.proto.size = (uint32_t)sizeof(l.proto) + more;
		assert_int_equal(ops_proto_register(&l.proto), 0);
		assert_int_equal(ops_proto_unregister(&l.proto), 0);
	}
	l.tail[1] = UINT64_C(1) << 63;
	assert_int_equal(ops_proto_register(&l.proto), -E2BIG);
	l.proto.size--; /* the byte that is not 0 is beyond it */
	assert_int_equal(ops_proto_register(&l.proto), 0);
	assert_int_equal(ops_proto_unregister(&l.proto), 0);
}

static void what_is_asked_for_and_not_known_is_refused(void **state)
{
	struct later l = full();

	for (int bit = 0; bit < 64; bit++) {
		l.proto.comp_mask = UINT64_C(1) << bit;
		assert_int_equal(ops_proto_register(&l.proto), -EOPNOTSUPP);
	}
	l = full();
	l.proto.reserved = 1;
	assert_int_equal(ops_proto_register(&l.proto), -EINVAL);
	l = full();
	l.proto.reserved2 = 1;
	assert_int_equal(ops_proto_register(&l.proto), -EINVAL);
	l = full();
	l.proto.size = UINT32_MAX;
	assert_int_equal(ops_proto_register(&l.proto), -EINVAL);
	assert_int_equal(ops_proto_register(NULL), -EINVAL);
	assert_false(registry_any());
	l = full();
	l.proto.caps = UINT64_MAX; /* says what it can, asks for nothing */
	assert_int_equal(ops_proto_register(&l.proto), 0);
	assert_int_equal(ops_proto_unregister(&l.proto), 0);
}

static void half_a_stream_is_refused(void **state)
{
	static const struct osf_stream_ops ops = { .size = sizeof(ops) };
	struct later l = full();

	l.proto.stream = &ops;
	assert_int_equal(ops_proto_register(&l.proto), -EINVAL);
	l.proto.size = OSF_PROTO_SIZE_2; /* it can do without */
	assert_int_equal(ops_proto_register(&l.proto), 0);
	assert_int_equal(ops_proto_unregister(&l.proto), 0);
}

static void absent_ops_are_not_called(void **state)
{
	struct osf_proto p = { .size = sizeof(p),
			       .name = "empty",
			       .caps = OSF_CAP_LOCAL };

	assert_int_equal(ops_proto_register(&p), 0);
	ask_all();
	assert_int_equal(ops_proto_unregister(&p), 0);
	assert_int_equal(ops_proto_unregister(&p), -ENOENT);
	ask_all();
}

static void names_are_words_and_each_is_there_once(void **state)
{
	static const struct {
		const char *name;
		int err;
	} cases[] = {
		{ NULL, -EINVAL },
		{ "", -EINVAL },
		{ "Upper", -EINVAL },
		{ "two words", -EINVAL },
		{ "sixteen-letters-", -EINVAL },
		{ "full", -EEXIST },
		{ "os", -EEXIST },
		{ "inet", -EEXIST },
		{ "shm", -EEXIST },
		{ "osf", -EEXIST },
		{ "tcp", -EEXIST },
	};
	struct later first = full(), l = full();

	assert_int_equal(ops_proto_register(&first.proto), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		l.proto.name = cases[i].name;
		assert_int_equal(ops_proto_register(&l.proto), cases[i].err);
	}
	l.proto.name = "fifteen-letters";
	assert_int_equal(ops_proto_register(&l.proto), 0);
	assert_int_equal(ops_proto_unregister(&l.proto), 0);
	assert_int_equal(ops_proto_unregister(&first.proto), 0);
}

static void there_is_room_for_sixteen(void **state)
{
	static struct osf_proto many[17];
	char names[17][4];

	for (int i = 0; i < 17; i++) {
		snprintf(names[i], sizeof(names[i]), "p%d", i);
		many[i] = (struct osf_proto){ .size = sizeof(many[i]),
					      .name = names[i] };
		assert_int_equal(ops_proto_register(&many[i]),
				 i < 16 ? 0 : -ENOSPC);
	}
	for (int i = 0; i < 16; i++)
		assert_int_equal(ops_proto_unregister(&many[i]), 0);
	assert_false(registry_any());
}

static void rules_and_addresses_choose(void **state)
{
	static const char *const providers[] = { "os",   "inet", "shm", "tcp",
						 "full", "osf",  "sdp", NULL };
	static const int n_asked[] = { 0, 0, 0, 0, 1, 1, 1, 1 };
	const struct sockaddr_in6 six = { .sin6_family = AF_INET6,
					  .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	const struct sockaddr odd = { .sa_family = AF_UNIX };
	struct later l = full();

	assert_int_equal(ops_proto_register(&l.proto), 0);
	for (size_t i = 0; i < sizeof(n_asked) / sizeof(n_asked[0]); i++) {
		reset(NULL);
		assert_int_equal(
		    module_connect(SK(1), 0, TO_HERE, providers[i], &plain),
		    -EAGAIN);
		module_listen(1, 0, 1, providers[i], true);
		assert_int_equal(n_connect, n_asked[i]);
		assert_int_equal(n_listen, n_asked[i]);
	}
	reset(NULL);
	assert_int_equal(module_connect(SK(1), 0, (const void *)&six,
					sizeof(six), NULL, &plain),
			 -EAGAIN);
	l.proto.caps = OSF_CAP_REMOTE;
	assert_int_equal(module_connect(SK(1), 0, TO_HERE, NULL, &plain),
			 -EAGAIN);
	assert_int_equal(
	    module_connect(SK(1), 0, &odd, sizeof(odd), NULL, &plain), -EAGAIN);
	assert_int_equal(n_connect, 0);
	l.proto.caps = OSF_CAP_LOCAL | OSF_CAP_IPV6;
	assert_int_equal(module_connect(SK(1), 0, (const void *)&six,
					sizeof(six), NULL, &plain),
			 -EAGAIN);
	/* Less than an IPv6 address takes. */
	assert_int_equal(
	    module_connect(SK(1), 0, (const void *)&six, 16, NULL, &plain),
	    -EAGAIN);
	assert_int_equal(n_connect, 1);
	assert_int_equal(ops_proto_unregister(&l.proto), 0);
}

/* What the table says of shm, and so the statistics. */
static enum osf_reason of_shm(const char *provider, const char *to)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct question q = { .fd = -1,
			      .peer = (struct sockaddr *)&in,
			      .len = sizeof(in),
			      .provider = provider };

	inet_pton(AF_INET, to, &in.sin_addr);
	return candidate_refused(&q, "shm");
}

static void provider_names_mean_what_they_say(void **state)
{
	static const struct {
		const char *provider;
		enum osf_reason local, remote;
	} cases[] = {
		{ NULL, OSF_REASON_NONE, OSF_REASON_REMOTE },
		{ "osf", OSF_REASON_NONE, OSF_REASON_REMOTE },
		{ "sdp", OSF_REASON_NONE, OSF_REASON_REMOTE },
		{ "shm", OSF_REASON_NONE, OSF_REASON_REMOTE },
		{ "os", OSF_REASON_RULE, OSF_REASON_RULE },
		{ "inet", OSF_REASON_RULE, OSF_REASON_RULE },
		{ "tcp", OSF_REASON_NO_TCP, OSF_REASON_NO_TCP },
		{ "full", OSF_REASON_RULE_OTHER, OSF_REASON_RULE_OTHER },
	};
	struct later l = full();

	assert_int_equal(of_shm(NULL, "127.0.0.1"), OSF_REASON_DISABLED);
	builtin_register(true);
	assert_false(registry_any());
	assert_int_equal(ops_proto_register(&l.proto), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(of_shm(cases[i].provider, "127.0.0.1"),
				 cases[i].local);
		/* TEST-NET-1: nobody has it. */
		assert_int_equal(of_shm(cases[i].provider, "192.0.2.1"),
				 cases[i].remote);
	}
	assert_int_equal(ops_proto_unregister(&l.proto), 0);
	assert_int_equal(ops_proto_unregister(&builtin_shm), 0);
	assert_int_equal(of_shm("shm", "127.0.0.1"), OSF_REASON_DISABLED);
	assert_int_equal(ops_proto_unregister(&builtin_inet), 0);
}

static void built_in_protocols_stand_in_the_same_table(void **state)
{
	struct later above = full(), below = full();
	struct question q = { .fd = -1,
			      .peer = (const struct sockaddr *)&here,
			      .len = sizeof(here) };

	below.proto.name = "below";
	below.proto.priority = OSF_PRIORITY_SHM - 1;
	assert_int_equal(ops_proto_register(&below.proto), 0);
	builtin_register(true);
	assert_int_equal(ops_proto_register(&above.proto), 0);
	struct protos t = candidates(&q);
	const struct osf_proto *want[] = { &above.proto, &builtin_shm,
					   &below.proto, &builtin_inet };
	assert_int_equal(t.n, 4);
	assert_memory_equal(t.proto, want, sizeof(want));
	/* One below shm is asked where shm may not be. */
	reset(NULL);
	assert_int_equal(module_connect(SK(1), 0, TO_HERE, NULL, &plain),
			 -EAGAIN);
	assert_int_equal(n_connect, 1);
	assert_int_equal(module_connect(SK(1), 0, TO_HERE, "below", &plain),
			 -EAGAIN);
	assert_int_equal(n_connect, 2);
	assert_int_equal(module_connect(SK(1), 0, TO_HERE, "shm", &plain),
			 -EAGAIN);
	assert_int_equal(n_connect, 2);
	assert_int_equal(ops_proto_unregister(&builtin_shm), 0);
	assert_int_equal(module_connect(SK(1), 0, TO_HERE, NULL, &plain),
			 -EAGAIN);
	assert_int_equal(n_connect, 4);
	assert_int_equal(ops_proto_unregister(&builtin_inet), 0);
	assert_int_equal(ops_proto_unregister(&above.proto), 0);
	assert_int_equal(ops_proto_unregister(&below.proto), 0);
}

static void a_carrier_takes_place_and_flags_of_the_socket(void **state)
{
	struct later l = full();
	int pair[2];

	answer = 0;
	assert_int_equal(ops_proto_register(&l.proto), 0);
	for (int flags = 0; flags < 4; flags++) {
		int fd = socket(AF_INET,
				SOCK_STREAM | (flags & 1 ? SOCK_NONBLOCK : 0) |
				    (flags & 2 ? SOCK_CLOEXEC : 0),
				0);
		char c = 0;

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
		gives = pair[0];
		assert_int_equal(
		    module_connect(SK(1), fd, TO_HERE, NULL, &plain), 0);
		assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK,
				 flags & 1 ? O_NONBLOCK : 0);
		assert_int_equal(fcntl(fd, F_GETFD),
				 flags & 2 ? FD_CLOEXEC : 0);
		assert_int_equal(fcntl(gives, F_GETFD), -1);
		assert_int_equal(write(pair[1], "x", 1), 1);
		assert_int_equal(read(fd, &c, 1), 1);
		close(pair[1]);
		close(fd);
	}
	assert_int_equal(ops_proto_unregister(&l.proto), 0);
}

static void a_carrier_that_is_none_leaves_the_socket_alone(void **state)
{
	struct sockaddr_storage from = { .ss_family = AF_INET };
	struct later l = full();
	socklen_t len = sizeof(here);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	answer = 0;
	assert_int_equal(ops_proto_register(&l.proto), 0);
	for (int i = 0; i < 2; i++) {
		gives = i ? fd : -1;
		assert_int_equal(
		    module_connect(SK(1), fd, TO_HERE, NULL, &plain), -EAGAIN);
		assert_int_equal(
		    module_accept(1, SK(2), fd, &from, &len, NULL, true),
		    -ECONNABORTED);
		assert_int_equal(fcntl(fd, F_GETFD), 0);
	}
	close(fd);
	assert_int_equal(ops_proto_unregister(&l.proto), 0);
}

static int at_once(uint64_t id, int fd, const struct sockaddr *to,
		   socklen_t len, unsigned timeout_ms, int *replacement)
{
	n_connect++;
	return module_connect(SK(id), fd, to, len, NULL, &plain);
}

static void a_module_is_not_asked_about_its_own_calls(void **state)
{
	struct later l = full();

	l.proto.connect = at_once;
	assert_int_equal(ops_proto_register(&l.proto), 0);
	assert_int_equal(module_connect(SK(1), 0, TO_HERE, NULL, &plain),
			 -EAGAIN);
	assert_int_equal(n_connect, 1);
	assert_int_equal(ops_proto_unregister(&l.proto), 0);
}

#define T(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(every_size_gets_the_ops_that_it_reaches),
		T(a_longer_one_may_be_if_what_is_new_is_unused),
		T(what_is_asked_for_and_not_known_is_refused),
		T(half_a_stream_is_refused),
		T(absent_ops_are_not_called),
		T(names_are_words_and_each_is_there_once),
		T(there_is_room_for_sixteen),
		T(rules_and_addresses_choose),
		T(provider_names_mean_what_they_say),
		T(built_in_protocols_stand_in_the_same_table),
		T(a_carrier_takes_place_and_flags_of_the_socket),
		T(a_carrier_that_is_none_leaves_the_socket_alone),
		T(a_module_is_not_asked_about_its_own_calls),
	};

	libc_resolve();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
