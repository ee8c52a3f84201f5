/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/sockets_pd.h - one protection domain for sockets and for RDMA
 *
 *     libosf.so, verbs.c  --osf_sockets_pd()-->  libosf-verbs.so, front_sockets.c
 *     libosf.so, group/memory.h  <--calls-->     its ibv_reg_mr(), ibv_rereg_mr(), ibv_dereg_mr()
 *
 * Where libosf-verbs.so is loaded, xlio_socket_get_pd() returns a domain of its device:
 * the program makes queue pairs and regions there, and sends memory of these regions over
 * sockets, too, by the same keys.  The two libraries do not link each other.  libosf.so
 * looks the function up by its name.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ibv_pd;

/* A key is the number of a region and SOCKETS_KEY_BITS that change with each use of the
 * number (rdma/mr.c). */
#define SOCKETS_KEY_BITS 8u

/* What libosf.so is told of the domain's regions. */
struct sockets_memory {
	/* @key's number had another key before, or none. */
	void (*reg)(uint32_t key, const void *addr, size_t length);
	void (*dereg)(uint32_t key);
};

#define SOCKETS_PD_NAME "osf_sockets_pd"

/* The domain of this process, the same at each call; a forked process has its own.
 * NULL: there is no device; errno says why.  Thread-safe. */
struct ibv_pd *osf_sockets_pd(const struct sockets_memory *calls);
