/* SPDX-License-Identifier: MIT */
/* base/watch.c - see base/watch.h */
#include <stddef.h>

#include "base/watch.h"

const struct watch *watch;
