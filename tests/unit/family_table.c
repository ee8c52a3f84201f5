/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/family_table.c - which sockets and which addresses are the switch's
 */
#include <netinet/in.h>
#include <string.h>

#include "ops/ops.h"
#include "unit.h"

static const struct {
	int family, kernel;
	bool offload, direct;
} ours[] = {
	{ AF_INET, AF_INET, false, false },
	{ AF_INET6, AF_INET6, false, false },
	{ AF_INET_OFFLOAD, AF_INET, true, false },
	{ AF_INET_DIRECT, AF_INET, false, true },
};
#define N_OURS (sizeof(ours) / sizeof(ours[0]))

static void streams_of_tcp_are_the_switch_s(void **state)
{
	const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET,
			      SOCK_RDM };
	const int flags[] = { 0, SOCK_NONBLOCK, SOCK_CLOEXEC,
			      SOCK_NONBLOCK | SOCK_CLOEXEC };
	struct ops_family f;

	for (size_t i = 0; i < N_OURS; i++)
		for (size_t t = 0; t < 5; t++)
			for (size_t g = 0; g < 4; g++)
				for (int protocol = 0; protocol < 512;
				     protocol++) {
					bool is = ops_family(
					    ours[i].family, types[t] | flags[g],
					    protocol, &f);

					assert_int_equal(
					    is, t == 0 &&
						    (protocol == 0 ||
						     protocol == IPPROTO_TCP));
					assert_int_equal(f.domain,
							 ours[i].kernel);
					assert_int_equal(f.offload,
							 ours[i].offload);
					assert_int_equal(f.direct,
							 ours[i].direct);
				}
}

static bool is_ours(int family)
{
	for (size_t i = 0; i < N_OURS; i++)
		if (ours[i].family == family)
			return true;
	return false;
}

static void all_other_families_are_the_kernel_s(void **state)
{
	struct ops_family f;

	for (int family = -1; family < 0x10000; family++) {
		if (is_ours(family))
			continue;
		assert_false(ops_family(family, SOCK_STREAM, 0, &f));
		assert_int_equal(f.domain, family);
	}
}

static void addresses_of_both_new_families_are_rewritten(void **state)
{
	struct sockaddr_storage copy;

	for (int family = 0; family < 0x10000; family++) {
		struct sockaddr_in in = { .sin_family = (sa_family_t)family,
					  .sin_port = 7,
					  .sin_addr.s_addr = 9 };
		const struct sockaddr *sa = (struct sockaddr *)&in, *got;
		bool is_new =
		    family == AF_INET_OFFLOAD || family == AF_INET_DIRECT;

		got = ops_sockaddr(sa, sizeof(in), &copy);
		assert_ptr_equal(got, is_new ? (void *)&copy : (void *)sa);
		if (is_new) {
			in.sin_family = AF_INET;
			assert_memory_equal(got, &in, sizeof(in));
		}
	}
	assert_null(ops_sockaddr(NULL, 16, &copy));
}

static void addresses_of_no_proper_length_are_left_alone(void **state)
{
	struct sockaddr_storage copy, in = { .ss_family = AF_INET_OFFLOAD };
	const struct sockaddr *sa = (struct sockaddr *)&in;

	for (socklen_t len = 0; len < sizeof(struct sockaddr_in); len++)
		assert_ptr_equal(ops_sockaddr(sa, len, &copy), sa);
	assert_ptr_equal(ops_sockaddr(sa, sizeof(in) + 1, &copy), sa);
	assert_ptr_equal(ops_sockaddr(sa, sizeof(in), &copy), &copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(streams_of_tcp_are_the_switch_s),
		cmocka_unit_test(all_other_families_are_the_kernel_s),
		cmocka_unit_test(addresses_of_both_new_families_are_rewritten),
		cmocka_unit_test(addresses_of_no_proper_length_are_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
