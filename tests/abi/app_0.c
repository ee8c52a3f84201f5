/* SPDX-License-Identifier: MIT */
/* tests/abi/app_0.c - a program from before the scheme; see tests/abi/app.h */
#include "app.h"

int main(void)
{
	static struct app a;

	app_open(&a);
	app_gen0(&a);
	app_close(&a);
	return 0;
}
