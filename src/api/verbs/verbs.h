/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/verbs.h - the protection domain in which programs register memory
 *
 * There is one.  It is a domain of libosf-verbs.so's device, or has no device if that
 * library is not loaded.  An API whose programs register memory returns the domain to the
 * program.  The lkey of a registration is a key of group/memory.h.
 */
#pragma once

struct ibv_pd;

struct ibv_pd *verbs_pd(void); /* NULL: the device cannot be opened; errno */
