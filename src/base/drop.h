/* SPDX-License-Identifier: MIT */
/* base/drop.h - the reasons for which frames are dropped; see drop.def */
#pragma once

enum drop_reason {
#define D(name, help) DROP_##name,
#include "base/drop.def"
#undef D
	DROP_REASONS
};

static inline const char *drop_name(enum drop_reason r)
{
	static const char *const names[] = {
#define D(name, help) #name,
#include "base/drop.def"
#undef D
	};
	return names[r];
}
