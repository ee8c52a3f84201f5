/* SPDX-License-Identifier: MIT */
/* base/drop.h - the reasons to drop a frame; see drop.def */
#pragma once

enum drop_reason {
#define D(name, help) DROP_##name,
#include "base/drop.def"
#undef D
	DROP_REASONS
};

/* The result of a function that says to drop a frame; 0: keep it. */
#define DROP(name) (-(1 + (int)DROP_##name))
static inline enum drop_reason drop_of(int err)
{
	return (enum drop_reason)(-err - 1);
}
