/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/verbs.h - the protection domain in which programs register memory
 *
 * There is one, of no device.  An API that wants registered memory hands it out; the
 * lkey of what is registered there is a key of group/memory.h.
 */
#pragma once

struct ibv_pd;

struct ibv_pd *verbs_pd(void); /* never NULL */
