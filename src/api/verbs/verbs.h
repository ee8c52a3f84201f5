/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/verbs.h - the protection domain in which programs register memory
 *
 * There is one, of libosf-verbs.so's device, or without a device where that library is not
 * loaded.  An API that wants registered memory returns
 * it to the program; the lkey of a registration is a key of group/memory.h.
 */
#pragma once

struct ibv_pd;

struct ibv_pd *verbs_pd(void); /* NULL: the device cannot be opened; errno */
