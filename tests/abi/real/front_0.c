/* SPDX-License-Identifier: MIT */
/* tests/abi/real/front_0.c - the older header ends at open_xrcd and its like */
#include "front.h"

void front_more(struct verbs_context *verbs) {}
