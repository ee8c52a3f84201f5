/* SPDX-License-Identifier: MIT */
/* osfd/confine.h - osfd gives up what it does not need */
#pragma once

#include "base/compiler.h"

/* No new files, no other programs, four capabilities; see confine.c.  Return: 0 or a
 * negative errno; then osfd must not go on. */
MUST_CHECK int confine(void);

/* In a worker, after that: three capabilities, and fewer calls.  Return: as confine() */
MUST_CHECK int confine_worker(void);

/* In the closer, which has dropped its capabilities and started its threads.  Return: as
 * confine() */
MUST_CHECK int confine_closer(void);
