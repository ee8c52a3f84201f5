/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/front.c - see api/verbs/front.h: the functions, most of them from
 * front_calls.def, and the list of devices
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/verbs/front.h"

/*
 * What a device is not able to do.
 */

static struct ibv_mr *front_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
					  size_t length, uint64_t iova, int fd,
					  int access)
{
	errno = EOPNOTSUPP;
	return NULL;
}

static struct ibv_pd *front_import_pd(struct ibv_context *c, uint32_t handle)
{
	errno = EOPNOTSUPP;
	return NULL;
}

static struct ibv_mr *front_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	errno = EOPNOTSUPP;
	return NULL;
}

static struct ibv_dm *front_import_dm(struct ibv_context *c, uint32_t handle)
{
	errno = EOPNOTSUPP;
	return NULL;
}

static int front_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op,
			       uint32_t flags)
{
	return 0; /* nothing is promised */
}

/* A device without options for connections. */
static int front_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return EOPNOTSUPP;
}

static int front_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return EOPNOTSUPP;
}

static int front_resolve_l2(struct ibv_context *c, struct ibv_ah_attr *attr,
			    uint8_t mac[6], uint16_t *vid)
{
	return -EOPNOTSUPP;
}

/*
 * Ours, or on to libibverbs.
 */

#define CAT(a, b) a##b
#define V(ret, none, name, version, whose, ours, params, args)                 \
	OSF_API ret name params;                                               \
	OSF_API ret name params                                                \
	{                                                                      \
		static ret(*real) params;                                      \
		ret(*next) params;                                             \
                                                                               \
		if (likely(front_is_ours(whose)))                              \
			return ours args;                                      \
		if (front_is_sockets(whose)) {                                 \
			next = (typeof(next))front_next(#name);                \
			return next ? next args : none;                        \
		}                                                              \
		if (!load_acq(&real))                                          \
			store_rel(&real,                                       \
				  (typeof(real))front_real(#name, version));   \
		return real ? real args : none;                                \
	}
#include "api/verbs/front_calls.def"
#undef V

OSF_API void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	typeof(&ibv_ack_cq_events) real;

	if (front_is_ours(cq->context)) {
		pthread_mutex_lock(&cq->mutex);
		cq->comp_events_completed += n;
		pthread_cond_signal(&cq->cond);
		pthread_mutex_unlock(&cq->mutex);
		return;
	}
	real = (typeof(real))front_real("ibv_ack_cq_events", "IBVERBS_1.1");
	if (real)
		real(cq, n);
}

/* Its object's context, or NULL: an event of the device or a port belongs to nobody. */
static const struct ibv_context *context_of(const struct ibv_async_event *ev)
{
	switch (ev->event_type) {
	case IBV_EVENT_CQ_ERR:
		return ev->element.cq->context;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return ev->element.qp->context;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return ev->element.srq->context;
	case IBV_EVENT_WQ_FATAL:
		return ev->element.wq->context;
	default:
		return NULL;
	}
}

OSF_API void ibv_ack_async_event(struct ibv_async_event *ev)
{
	const struct ibv_context *c = context_of(ev);
	typeof(&ibv_ack_async_event) real;

	if (!c)
		return;
	if (front_is_ours(c)) {
		rdma_ack_async_event(ev);
		return;
	}
	real = (typeof(real))front_real("ibv_ack_async_event", "IBVERBS_1.1");
	if (real)
		real(ev);
}

/*
 * Devices.
 */

#define LIST_MAGIC UINT64_C(0x7473696c2d66736f)

/* In front of the list that the program gets. */
struct list_head {
	uint64_t magic;
	struct ibv_device **real;
};

OSF_API struct ibv_device **ibv_get_device_list(int *num)
{
	typeof(&ibv_get_device_list) real =
	    (typeof(real))front_real("ibv_get_device_list", "IBVERBS_1.1");
	int n = 0, saved = errno;
	struct ibv_device **theirs = real ? real(&n) : NULL;

	if (!theirs) /* no RDMA in this kernel: ENOSYS */
		n = 0;
	struct list_head *h =
	    calloc(1, sizeof(*h) + ((size_t)n + 2) * sizeof(*theirs));
	if (!h) {
		errno = ENOMEM;
		return NULL;
	}
	struct ibv_device **list = (struct ibv_device **)(h + 1);
	h->magic = LIST_MAGIC;
	h->real = theirs;
	if (n)
		memcpy(list, theirs, (size_t)n * sizeof(*list));
	list[n] = front_device();
	if (num)
		*num = n + 1;
	errno = saved;
	return list;
}

OSF_API void ibv_free_device_list(struct ibv_device **list)
{
	typeof(&ibv_free_device_list) real =
	    (typeof(real))front_real("ibv_free_device_list", "IBVERBS_1.1");
	struct list_head *h = (struct list_head *)list - 1;

	if (h->magic != LIST_MAGIC) {
		if (real)
			real(list);
		return;
	}
	if (h->real && real)
		real(h->real);
	h->magic = 0;
	free(h);
}

OSF_API const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name; /* of whomever */
}

OSF_API __be64 ibv_get_device_guid(struct ibv_device *d)
{
	typeof(&ibv_get_device_guid) real;

	if (front_is_our_device(d))
		return device_guid();
	real = (typeof(real))front_real("ibv_get_device_guid", "IBVERBS_1.1");
	return real ? real(d) : 0;
}

OSF_API int ibv_get_device_index(struct ibv_device *d)
{
	typeof(&ibv_get_device_index) real;

	if (front_is_our_device(d))
		return -1; /* the kernel has no number for it */
	real = (typeof(real))front_real("ibv_get_device_index", "IBVERBS_1.9");
	return real ? real(d) : -1;
}

/* rsockets' datagrams name their own host by a LID alone, which other RoCE devices refuse. */
static bool is_librdmacm(const void *caller)
{
	Dl_info info;

	return dladdr(caller, &info) && info.dli_fname &&
	       strstr(info.dli_fname, "/librdmacm.so");
}

OSF_API struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	typeof(&ibv_open_device) real;

	if (front_is_our_device(d))
		return front_open_device(
		    is_librdmacm(__builtin_return_address(0)));
	real = (typeof(real))front_real("ibv_open_device", "IBVERBS_1.1");
	return real ? real(d) : NULL;
}

OSF_API struct ibv_context *ibv_import_device(int cmd_fd)
{
	typeof(&ibv_import_device) real;

	if (front_is_our_cmd(cmd_fd)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	real = (typeof(real))front_real("ibv_import_device", "IBVERBS_1.10");
	return real ? real(cmd_fd) : NULL;
}

OSF_API void ibv_unimport_pd(struct ibv_pd *pd)
{
	typeof(&ibv_unimport_pd) real;

	if (front_is_ours(pd->context))
		return; /* none was imported */
	real = (typeof(real))front_real("ibv_unimport_pd", "IBVERBS_1.10");
	if (real)
		real(pd);
}

OSF_API void ibv_unimport_mr(struct ibv_mr *mr)
{
	typeof(&ibv_unimport_mr) real;

	if (front_is_ours(mr->context))
		return;
	real = (typeof(real))front_real("ibv_unimport_mr", "IBVERBS_1.10");
	if (real)
		real(mr);
}
