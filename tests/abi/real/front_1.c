/* SPDX-License-Identifier: MIT */
/* tests/abi/real/front_1.c - what the installed header has */
#include "front.h"

void front_more(struct verbs_context *verbs) { front_rt_values(verbs); }
