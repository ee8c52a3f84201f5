/* SPDX-License-Identifier: MIT */
/*
 * tests/port/half_osfd.h - an osfd that ends in the middle
 *
 * It makes grants, refuses all else, and ends at the first request of one type, which it does
 * not answer.  So a test says at which of its steps a program finds that osfd has gone.
 */
#pragma once

#include <sys/types.h>

#include "osfd/msg.h"
#include "world.h"

/* Runs HERE, and listens on return.  Who waits for the process sees status 0 after @last. */
pid_t half_osfd_run(const struct world *w, enum msg_type last);
