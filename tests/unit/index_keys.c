/* SPDX-License-Identifier: MIT */
/* tests/unit/index_keys.c - an index finds the first value of a key, however many there are */
#include "../../tools/vma_stats/index.h"
#include "unit.h"

#define MANY 200000u

struct key {
	uint32_t a, b, c;
};

static struct key key_of(uint32_t i) { return (struct key){ i, i / 3, ~i }; }

static void each_key_has_its_value(void **state)
{
	struct index x;

	index_init(&x, sizeof(struct key), MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		struct key k = key_of(i);

		assert_true(index_put(&x, &k, i));
	}
	for (uint32_t i = 0; i < 2 * MANY; i++) {
		struct key k = key_of(i);

		assert_int_equal(index_get(&x, &k), i < MANY ? i : INDEX_NONE);
	}
	index_free(&x);
	assert_int_equal(index_get(&x, &(struct key){ 0 }), INDEX_NONE);
}

/* Else they would stand in a row that each look-up walks. */
static void equal_keys_are_kept_once(void **state)
{
	struct key k = key_of(7), other = key_of(8);
	struct index x;

	index_init(&x, sizeof(k), MANY);
	for (uint32_t i = 0; i < MANY; i++)
		assert_true(index_put(&x, &k, i) == !i);
	for (uint32_t i = 0; i < MANY; i++) {
		assert_int_equal(index_get(&x, &k), 0);
		assert_int_equal(index_get(&x, &other), INDEX_NONE);
	}
	index_free(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_key_has_its_value),
		cmocka_unit_test(equal_keys_are_kept_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
