/* SPDX-License-Identifier: MIT */
/* sock/turns.c - see sock/turns.h */
#include "sock/turns.h"

uint64_t sock_turns;
