/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/front_context.c - the device, contexts, and what they say of themselves
 *
 * A context's tables of functions have the layout of the verbs.h that we were compiled
 * with.  A program that was compiled with a newer verbs.h sees in `sz` that our table is
 * shorter; its calls beyond the table, and calls whose entry is NULL, return EOPNOTSUPP.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/verbs/front.h"
#include "base/clock.h"
#include "base/libc.h"
#include "rdma/extended.h"

#define N_VECTORS 1
/* An empty file: programs may hand its descriptor on, to import the device. */
#define CMD_NAME "osf-rdma-cmd"

/* Its address is our signature; nobody calls it. */
static struct ibv_context *signature(struct ibv_device *d, int fd)
{
	return NULL;
}

static struct front_device osf0 = {
	.device = { ._ops._dummy1 = signature,
		    .node_type = IBV_NODE_CA,
		    .transport_type = IBV_TRANSPORT_IB,
		    .name = "osf0",
		    .dev_name = "osf0" },
};

bool front_is_our_device(const struct ibv_device *d)
{
	return d->_ops._dummy1 == signature;
}

bool front_is_ours(const struct ibv_context *c)
{
	return front_is_our_device(c->device);
}

bool front_is_our_cmd(int fd)
{
	char path[64], target[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	return !strcmp(target, "/memfd:" CMD_NAME " (deleted)");
}

struct ibv_device *front_device(void) { return &osf0.device; }

/*
 * Contexts.
 */

static int query_port(struct ibv_context *c, uint8_t port,
		      struct ibv_port_attr *a, size_t size)
{
	struct ibv_port_attr all;

	if (device_port(port, &all))
		return EINVAL;
	memset(a, 0, size);
	memcpy(a, &all, MIN(size, sizeof(all)));
	return 0;
}

static int query_device_ex(struct ibv_context *c,
			   const struct ibv_query_device_ex_input *in,
			   struct ibv_device_attr_ex *a, size_t size)
{
	struct ibv_device_attr_ex all = { .completion_timestamp_mask =
					      UINT64_MAX,
					  .hca_core_clock = 1000000,
					  .max_dm_size = MAX_DM,
					  .phys_port_cnt_ex = 1 };

	if ((in && in->comp_mask) || size < sizeof(all.orig_attr))
		return EINVAL;
	device_attr(&all.orig_attr);
	/* The kernel's devices repeat their flags here, below those of higher bits. */
	all.device_cap_flags_ex = (uint32_t)all.orig_attr.device_cap_flags;
	memset(a, 0, size);
	memcpy(a, &all, MIN(size, sizeof(all)));
	return 0;
}

static int query_rt_values(struct ibv_context *c, struct ibv_values_ex *v)
{
	if (v->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return EINVAL;
	if (v->comp_mask)
		clock_gettime(CLOCK_REALTIME, &v->raw_clock);
	return 0;
}

static void fill(struct verbs_context *v)
{
	v->sz = sizeof(*v);
	v->query_port = query_port;
	v->query_device_ex = query_device_ex;
	v->query_rt_values = query_rt_values;
	v->create_cq_ex = rdma_create_cq_ex;
	v->create_qp_ex = rdma_create_qp_ex;
	v->alloc_dm = rdma_alloc_dm;
	v->free_dm = rdma_free_dm;
	v->reg_dm_mr = rdma_reg_dm_mr;
	v->alloc_td = rdma_alloc_td;
	v->dealloc_td = rdma_dealloc_td;
	v->alloc_parent_domain = rdma_alloc_parent_domain;
	v->open_xrcd = rdma_open_xrcd;
	v->close_xrcd = rdma_close_xrcd;
	v->create_srq_ex = rdma_create_srq_ex;
	v->get_srq_num = rdma_get_srq_num;
	v->open_qp = rdma_open_qp;
	v->context.ops.poll_cq = rdma_poll_cq;
	v->context.ops.req_notify_cq = rdma_req_notify_cq;
	v->context.ops.post_send = rdma_post_send;
	v->context.ops.post_recv = rdma_post_recv;
	v->context.ops.post_srq_recv = rdma_post_srq_recv;
	v->context.ops.alloc_mw = rdma_alloc_mw;
	v->context.ops.bind_mw = rdma_bind_mw;
	v->context.ops.dealloc_mw = rdma_dealloc_mw;
	v->context.device = &osf0.device;
	v->context.num_comp_vectors = N_VECTORS;
	v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
}

struct ibv_context *front_open_device(bool takes_lid)
{
	struct ctx *c = self_get() ? calloc(1, sizeof(*c)) : NULL;

	if (!c)
		return NULL;
	fill(&c->v);
	c->generation = self_generation();
	c->takes_lid = takes_lid;
	c->events_end = &c->events;
	c->v.context.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	c->v.context.cmd_fd = memfd_create(CMD_NAME, MFD_CLOEXEC);
	if (c->v.context.async_fd < 0 || c->v.context.cmd_fd < 0) {
		if (c->v.context.async_fd >= 0)
			libc.close(c->v.context.async_fd);
		free(c);
		return NULL;
	}
	pthread_mutex_init(&c->v.context.mutex, NULL);
	return &c->v.context;
}

int front_close_device(struct ibv_context *ibc)
{
	struct ctx *c = ctx_of(ibc);

	/* As with other devices: what is left of it is lost. */
	while (c->events) {
		struct event *e = c->events;

		c->events = e->next;
		free(e);
	}
	libc.close(ibc->async_fd);
	libc.close(ibc->cmd_fd);
	/* Objects that are left refer to their context. */
	if (!c->n_objects)
		free(c);
	return 0;
}

/*
 * Questions.
 */

int front_query_device(struct ibv_context *c, struct ibv_device_attr *a)
{
	device_attr(a);
	return 0;
}

/* The struct of programs before port_cap_flags2. */
int front_query_port(struct ibv_context *c, uint8_t port,
		     struct _compat_ibv_port_attr *a)
{
	return query_port(c, port, (struct ibv_port_attr *)a,
			  offsetof(struct ibv_port_attr, port_cap_flags2));
}

int front_query_gid(struct ibv_context *c, uint8_t port, int index,
		    union ibv_gid *gid)
{
	struct ibv_port_attr a;

	if (device_port(port, &a) || index < 0 || index >= a.gid_tbl_len) {
		errno = EINVAL;
		return -1;
	}
	memset(gid, 0, sizeof(*gid));
	device_gid((uint32_t)index, gid, NULL);
	return 0;
}

static int fill_entry(struct ibv_gid_entry *out, uint32_t index, size_t size)
{
	struct ibv_gid_entry e = { .gid_index = index,
				   .port_num = 1,
				   .gid_type = IBV_GID_TYPE_ROCE_V2 };

	if (device_gid(index, &e.gid, &e.ndev_ifindex))
		return ENODATA;
	memset(out, 0, size);
	memcpy(out, &e, MIN(size, sizeof(e)));
	return 0;
}

int front_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index,
		       struct ibv_gid_entry *e, uint32_t flags, size_t size)
{
	struct ibv_port_attr a;

	if (flags || !size)
		return EOPNOTSUPP;
	if (port > 1 || device_port((uint8_t)port, &a) ||
	    index >= (uint32_t)a.gid_tbl_len)
		return EINVAL;
	return fill_entry(e, index, size);
}

ssize_t front_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *e,
			      size_t max, uint32_t flags, size_t size)
{
	size_t n = 0;

	if (flags || !size)
		return -EOPNOTSUPP;
	for (; !device_gid((uint32_t)n, NULL, NULL); n++) {
		if (n == max)
			return -EINVAL;
		fill_entry((void *)((char *)e + n * size), (uint32_t)n, size);
	}
	return (ssize_t)n;
}

/* Values of an older enum, which has IB and RoCE v1 as one. */
int front_query_gid_type(struct ibv_context *c, uint8_t port, unsigned index,
			 int *type)
{
	if (port != 1) {
		errno = EINVAL;
		return -1;
	}
	*type = device_gid(index, NULL, NULL) ? 0 : 1;
	return 0;
}

int front_query_pkey(struct ibv_context *c, uint8_t port, int index,
		     __be16 *pkey)
{
	if (port != 1 || index) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(0xffff);
	return 0;
}

int front_get_pkey_index(struct ibv_context *c, uint8_t port, __be16 pkey)
{
	if (port == 1 && pkey == htobe16(0xffff))
		return 0;
	errno = EPERM;
	return -1;
}
