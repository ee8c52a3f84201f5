/* SPDX-License-Identifier: MIT */
/* base/idle.c - see base/idle.h */
#include <stddef.h>

#include "base/idle.h"

const struct idle *idle;
const struct idle *idle_known;
