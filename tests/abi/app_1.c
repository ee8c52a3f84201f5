/* SPDX-License-Identifier: MIT */
/* tests/abi/app_1.c - a program of generation 1; see tests/abi/app.h */
#include "app.h"

int main(void)
{
	static struct app a;

	app_open(&a);
	app_gen0(&a);
	app_gen1(&a);
	app_close(&a);
	return 0;
}
