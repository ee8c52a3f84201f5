/* SPDX-License-Identifier: MIT */
/* group/open.h - connections that are established; see group/open.c */
#pragma once

#include "group/gsock.h"

void gsock_established(struct group *g, struct gsock *s);
void gsock_accept(struct group *g, struct gsock *s);
