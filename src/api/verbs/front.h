/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/front.h - the software RDMA device under libibverbs' names
 *
 *     program -> ibv_*() of ours -> whose context is it?  ours: src/rdma
 *                                                  other: libibverbs' own function
 *
 * The names are unversioned, so a reference to any version binds to us if we come first
 * (LD_PRELOAD, or linked before libibverbs).  Functions that are inline in libibverbs'
 * header call through the context's tables of functions.  They need no test of whose the
 * context is, so other devices keep their own speed.
 *
 * A context is ours if its device has our signature in a field that libibverbs requires to
 * be NULL in every other.
 */
#pragma once

#include <stdbool.h>

#include "rdma/extended.h"

/* The header has these inline, in front of the functions. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* A device of ours.  Providers look behind other devices for a table of theirs, and
 * must find zeros. */
struct front_device {
	struct ibv_device device;
	uint64_t beyond[64];
};

bool front_is_ours(const struct ibv_context *c);
bool front_is_our_device(const struct ibv_device *d);
struct ibv_device *front_device(void);
/* Is it a context's cmd_fd, of ours? */
bool front_is_our_cmd(int fd);
/* Is it that of libosf.so's protection domain? */
bool front_is_sockets(const struct ibv_context *c);
/* The function of this name that comes after ours, or NULL. */
void *front_next(const char *name);
/* libibverbs' function of this name, or NULL with errno. */
void *front_real(const char *name, const char *version);

/* @takes_lid: address handles may lack a GID. */
struct ibv_context *front_open_device(bool takes_lid);
int front_close_device(struct ibv_context *c);
int front_query_device(struct ibv_context *c, struct ibv_device_attr *a);
int front_query_port(struct ibv_context *c, uint8_t port,
		     struct _compat_ibv_port_attr *a);
int front_query_gid(struct ibv_context *c, uint8_t port, int index,
		    union ibv_gid *gid);
int front_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index,
		       struct ibv_gid_entry *e, uint32_t flags, size_t size);
ssize_t front_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *e,
			      size_t max, uint32_t flags, size_t size);
int front_query_gid_type(struct ibv_context *c, uint8_t port, unsigned index,
			 int *type);
int front_query_pkey(struct ibv_context *c, uint8_t port, int index,
		     __be16 *pkey);
int front_get_pkey_index(struct ibv_context *c, uint8_t port, __be16 pkey);
struct ibv_mr *front_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			    int access);
struct ibv_mr *front_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
				 uint64_t iova, int access);
struct ibv_mr *front_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
				  uint64_t iova, unsigned access);
int front_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
		   size_t length, int access);
int front_dereg_mr(struct ibv_mr *mr);
