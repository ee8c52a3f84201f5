/* SPDX-License-Identifier: MIT */
/* base/drop.h - the reasons for which frames are dropped; see drop.def */
#pragma once

enum drop_reason {
#define D(name, help) DROP_##name,
#include "base/drop.def"
#undef D
	DROP_REASONS
};

/* What functions return that would drop a frame; 0 is none. */
#define DROP(name) (-(1 + (int)DROP_##name))
static inline enum drop_reason drop_of(int err)
{
	return (enum drop_reason)(-err - 1);
}

static inline const char *drop_name(enum drop_reason r)
{
	static const char *const names[] = {
#define D(name, help) #name,
#include "base/drop.def"
#undef D
	};
	return names[r];
}
