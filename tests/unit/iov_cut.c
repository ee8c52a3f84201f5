/* SPDX-License-Identifier: MIT */
/* tests/unit/iov_cut.c - vectors lose what one call does not move */
#include "sock/cursor.h"
#include "unit.h"

#define MOST ((size_t)0x7ffff000)

static void a_short_row_stays(void **state)
{
	char a[2], c[1];
	struct iovec in[] = { { a, 2 }, { NULL, 0 }, { c, 1 } }, to[3];

	assert_int_equal(iov_cut(to, in, 3, MOST), 3);
	assert_memory_equal(to, in, sizeof(in));
}

static void the_last_is_shortened(void **state)
{
	char a[1], b[1], c[1]; /* nobody reads what lies there */
	struct iovec in[] = { { a, MOST - 1 }, { b, 5 }, { c, 7 } }, to[3];

	assert_int_equal(iov_cut(to, in, 3, MOST), 2);
	assert_int_equal(iov_bytes(to, 2), MOST);
	assert_ptr_equal(to[1].iov_base, in[1].iov_base);
	assert_int_equal(in[1].iov_len, 5);
}

static void a_single_one_is_shortened(void **state)
{
	char a[1];
	struct iovec in = { a, (size_t)3 << 30 }, to;

	assert_int_equal(iov_cut(&to, &in, 1, MOST), 1);
	assert_int_equal(to.iov_len, MOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_short_row_stays),
		cmocka_unit_test(the_last_is_shortened),
		cmocka_unit_test(a_single_one_is_shortened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
