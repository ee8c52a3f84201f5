/* SPDX-License-Identifier: MIT */
/* base/unwind.c - see base/unwind.h */
#include "base/unwind.h"

__thread struct unwind *unwind_top __attribute__((tls_model("initial-exec")));

void unwind_to(uintptr_t sp)
{
	while (unwind_top && (uintptr_t)unwind_top < sp)
		unwind_pop(unwind_top);
}
