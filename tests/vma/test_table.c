/* SPDX-License-Identifier: MIT */
/* tests/vma/test_table.c - how a program finds the API, and what the table says */
#include "vma_test.h"

static void there_is_no_table_without_osf(void)
{
	EXPECT_EQ(!api, is_protocol("bare"));
	EXPECT_EQ(vma_get_api() == api, true);
}

static void the_getter_checks_its_arguments(void)
{
	void *at = NULL;
	socklen_t len = sizeof(at) - 1;

	EXPECT_ERR(getsockopt(-1, SOL_SOCKET, SO_VMA_GET_API, &at, &len),
		   EINVAL);
	len = 100;
	EXPECT_ERR(getsockopt(-1, SOL_SOCKET, SO_VMA_GET_API, NULL, &len),
		   EFAULT);
	EXPECT_ERR(getsockopt(-1, SOL_SOCKET, SO_ERROR, &at, &len), EBADF);
	EXPECT_ERR(getsockopt(-3, SOL_SOCKET, SO_VMA_GET_API, &at, &len),
		   EBADF);
	EXPECT_EQ(getsockopt(-1, SOL_SOCKET, SO_VMA_GET_API, &at, &len), 0);
	EXPECT_EQ(len, sizeof(at));
	EXPECT(at == api);
}

/* A bit without its function would crash a program that looks first. */
static void a_bit_of_the_mask_has_its_function(void)
{
	/* By bit; 0 where no function has it. */
	static const unsigned nth[22] = { 1,  2,  3,  4, 5,  13, 6,  10,
					  11, 12, 7,  8, 9,  15, 16, 0,
					  14, 17, 18, 0, 19, 21 };
	void *functions[21];
	uint64_t mask = api->vma_extra_supported_mask;

	memcpy(functions, api, sizeof(functions));
	EXPECT_EQ(mask >> 22, 0);
	for (unsigned bit = 0; bit < 22; bit++)
		if (mask >> bit & 1)
			EXPECT(nth[bit] && functions[nth[bit] - 1]);
}

const struct test tests_table[] = {
	{ "there_is_no_table_without_osf", there_is_no_table_without_osf,
	  .is_bare = true },
	{ "the_getter_checks_its_arguments", the_getter_checks_its_arguments,
	  false },
	{ "a_bit_of_the_mask_has_its_function",
	  a_bit_of_the_mask_has_its_function, false },
	{ 0 }
};
