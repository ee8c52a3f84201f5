/* SPDX-License-Identifier: MIT */
/*
 * osf/verbs_api.h - RDMA without hardware, for programs written to osf
 *
 *     device -> context -> pd, mr, cq, qp -> post_send, post_recv -> poll_cq
 *
 * Names and meanings are those of verbs where verbs has them.  Devices come from
 * drivers: OSF_DRIVERS names shared objects, separated by colons
 * (osf/verbs_driver.h).  Link with -losf.
 *
 * Calls that return int return 0, a count, or -errno; calls that return a
 * pointer return NULL and set errno.  -ENOSYS, of a call at the end of this
 * file: the library, or the driver, is older than the call; the program goes on
 * without it.  Why that works: osf/verbs_scheme.h.
 *
 * Context: any thread.  A context, and what was made in it, is of the process
 * that opened it; a child of fork() does not use it.
 */
#ifndef OSF_VERBS_API_H
#define OSF_VERBS_API_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "osf/verbs_scheme.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What this header describes: 0 is what was there before the scheme. */
#define OSF_VERBS_GENERATION 2

struct osf_context;
struct osf_device_ops;

struct osf_device {
	char name[64];
	const struct osf_device_ops *ops; /* osf/verbs_driver.h */
};

struct osf_device_attr {
	uint32_t max_qp, max_cq, max_mr, max_sge;
	uint32_t max_qp_wr, max_cqe;
};

struct osf_pd {
	struct osf_context *context;
};

struct osf_mr {
	struct osf_context *context;
	struct osf_pd *pd;
	void *addr;
	size_t length;
	uint32_t lkey, rkey;
};

struct osf_cq {
	struct osf_context *context;
	void *cq_context; /* the program's */
	int cqe;
	int reserved;
};

struct osf_qp {
	struct osf_context *context;
	struct osf_pd *pd;
	struct osf_cq *send_cq, *recv_cq;
	uint32_t qp_num;
	uint32_t reserved;
};

struct osf_qp_init_attr {
	struct osf_cq *send_cq, *recv_cq;
	uint32_t max_send_wr, max_recv_wr;
};

struct osf_sge {
	uint64_t addr;
	uint32_t length, lkey;
};

struct osf_send_wr {
	uint64_t wr_id;
	struct osf_send_wr *next;
	struct osf_sge *sg_list;
	int num_sge;
	uint32_t send_flags;
};

struct osf_recv_wr {
	uint64_t wr_id;
	struct osf_recv_wr *next;
	struct osf_sge *sg_list;
	int num_sge;
	uint32_t reserved;
};

enum osf_send_flags {
	OSF_SEND_SIGNALED = 1 << 1 /* success gives a completion, too */
};

enum osf_wc_status {
	OSF_WC_SUCCESS = 0,
	OSF_WC_LOC_LEN_ERR = 1,
	OSF_WC_LOC_PROT_ERR = 4,
	OSF_WC_WR_FLUSH_ERR = 5,
	OSF_WC_REM_INV_REQ_ERR = 9,
	OSF_WC_REM_OP_ERR = 11,
	OSF_WC_RETRY_EXC_ERR = 12
};

enum osf_wc_opcode { OSF_WC_SEND = 0, OSF_WC_RECV = 1 << 7 };

struct osf_wc {
	uint64_t wr_id;
	uint32_t status, opcode;
	uint32_t byte_len;
	uint32_t qp_num;
};

/* The calls that a driver has had from the start; nothing is added to it. */
struct osf_context_ops {
	int (*query_device)(struct osf_context *context,
			    struct osf_device_attr *attr);
	struct osf_pd *(*alloc_pd)(struct osf_context *context);
	int (*dealloc_pd)(struct osf_pd *pd);
	struct osf_mr *(*reg_mr)(struct osf_pd *pd, void *addr, size_t length);
	int (*dereg_mr)(struct osf_mr *mr);
	struct osf_cq *(*create_cq)(struct osf_context *context, int cqe);
	int (*destroy_cq)(struct osf_cq *cq);
	struct osf_qp *(*create_qp)(struct osf_pd *pd,
				    const struct osf_qp_init_attr *attr);
	int (*connect_qp)(struct osf_qp *qp, uint32_t dest_qp_num);
	int (*destroy_qp)(struct osf_qp *qp);
	int (*post_send)(struct osf_qp *qp, struct osf_send_wr *wr,
			 struct osf_send_wr **bad_wr);
	int (*post_recv)(struct osf_qp *qp, struct osf_recv_wr *wr,
			 struct osf_recv_wr **bad_wr);
	int (*poll_cq)(struct osf_cq *cq, int n, struct osf_wc *wc);
};

/* The size of this one never changes. */
struct osf_context {
	struct osf_device *device;
	struct osf_context_ops ops;
	void *abi_compat; /* OSF_ABI_EXTENDED: a struct osf_context_ex */
};

/*
 * Structures that grow.
 */

/* Output of osf_query_device_ex(). */
struct osf_device_attr_ex {
	struct osf_device_attr orig;
	uint32_t comp_mask;  /* OSF_DEVICE_ATTR_* */
	uint32_t max_inline; /* bytes of a send that need no lkey */
	/* Generation 2. */
	uint64_t hwclock_khz; /* the clock of time stamps counts so fast */
};

enum osf_device_attr_mask {
	OSF_DEVICE_ATTR_INLINE = 1 << 0,
	OSF_DEVICE_ATTR_HWCLOCK = 1 << 1 /* generation 2 */
};

/* Input of osf_create_cq_ex(). */
struct osf_cq_init_attr_ex {
	int cqe;
	int reserved; /* 0 */
	void *cq_context;
	uint32_t comp_mask; /* OSF_CQ_ATTR_* */
	uint32_t flags;     /* OSF_CQ_* */
	/* Generation 2. */
	uint32_t ts_clock;   /* CLOCK_*, whose instants the time stamps are */
	uint32_t comp_mask2; /* OSF_CQ_ATTR2_* */
	uint64_t ts_base;    /* ns; time stamps count from this instant */
};

enum osf_cq_attr_mask {
	OSF_CQ_ATTR_FLAGS = 1 << 0,
	OSF_CQ_ATTR_TS_CLOCK = 1 << 1 /* generation 2 */
};

enum osf_cq_attr_mask2 {
	OSF_CQ_ATTR2_TS_BASE = 1 << 0 /* generation 2 */
};

/* All bits that this header knows. */
#define OSF_CQ_ATTR_KNOWN                                                      \
	(OSF_CQ_ATTR_FLAGS | OSF_CQ_ATTR_TS_CLOCK | OSF_COMP_MASK2)
#define OSF_CQ_ATTR2_KNOWN ((uint32_t)OSF_CQ_ATTR2_TS_BASE)

enum osf_cq_flags {
	OSF_CQ_IGNORE_OVERRUN = 1 << 0, /* the oldest completion gives way */
	OSF_CQ_TIMESTAMP = 1 << 1       /* completions have ts; generation 2 */
};
#define OSF_CQ_FLAGS_KNOWN (OSF_CQ_IGNORE_OVERRUN | OSF_CQ_TIMESTAMP)

/* Elements of the output of osf_poll_cq_ex(). */
struct osf_wc_ex {
	struct osf_wc orig;
	uint32_t comp_mask; /* OSF_WC_EX_* */
	uint32_t src_qp;    /* of a receive: who sent it */
	/* Generation 2. */
	uint64_t ts; /* ns, when it completed, on the CQ's clock */
	uint32_t imm_data;
	uint32_t reserved;
};

enum osf_wc_ex_mask {
	OSF_WC_EX_SRC_QP = 1 << 0,
	OSF_WC_EX_TS = 1 << 1, /* generation 2 */
	OSF_WC_EX_IMM = 1 << 2 /* generation 2 */
};

/* Elements of the input of osf_post_send_ex(). */
struct osf_send_wr_ex {
	uint64_t wr_id;
	struct osf_sge *sg_list;
	int num_sge;
	uint32_t send_flags;
	uint32_t comp_mask; /* OSF_SEND_WR_* */
	uint32_t reserved;
	/* Generation 2. */
	uint32_t imm_data;
	uint32_t reserved2;
};

enum osf_send_wr_mask {
	OSF_SEND_WR_IMM = 1 << 0 /* generation 2 */
};
#define OSF_SEND_WR_KNOWN ((uint32_t)OSF_SEND_WR_IMM)

/* Output of osf_query_values(); generation 2. */
struct osf_values {
	uint32_t comp_mask; /* OSF_VALUES_* */
	uint32_t reserved;
	uint64_t hwclock_ns; /* the clock of time stamps, now */
};

enum osf_values_mask { OSF_VALUES_HWCLOCK = 1 << 0 };
#define OSF_VALUES_KNOWN ((uint32_t)OSF_VALUES_HWCLOCK)

/* Bits of has_ex: what the driver does. */
#define OSF_HAS_QUERY_DEVICE_EX UINT64_C(1)
#define OSF_HAS_CREATE_CQ_EX (UINT64_C(1) << 1)
#define OSF_HAS_POLL_CQ_EX (UINT64_C(1) << 2)
#define OSF_HAS_POST_SEND_EX (UINT64_C(1) << 3)
#define OSF_HAS_QUERY_VALUES (UINT64_C(1) << 4) /* generation 2 */
#define OSF_HAS_TIMESTAMP (UINT64_C(1) << 5)    /* generation 2 */

struct osf_context_ex {
	/* Grows up: what is added stands above what is there. */

	/* Generation 2. */
	int (*drv_query_values)(struct osf_context *context, uint32_t asked,
				struct osf_values *values, size_t values_size);
	int (*lib_query_values)(struct osf_context *context, uint32_t asked,
				struct osf_values *values, size_t values_size);

	/* Generation 1. */
	int (*drv_post_send_ex)(struct osf_qp *qp,
				const struct osf_send_wr_ex *wr, int n,
				size_t wr_size);
	int (*lib_post_send_ex)(struct osf_qp *qp,
				const struct osf_send_wr_ex *wr, int n,
				size_t wr_size);
	int (*drv_poll_cq_ex)(struct osf_cq *cq, int n, struct osf_wc_ex *wc,
			      size_t wc_size);
	int (*lib_poll_cq_ex)(struct osf_cq *cq, int n, struct osf_wc_ex *wc,
			      size_t wc_size);
	struct osf_cq *(*drv_create_cq_ex)(
	    struct osf_context *context,
	    const struct osf_cq_init_attr_ex *attr);
	struct osf_cq *(*lib_create_cq_ex)(
	    struct osf_context *context,
	    const struct osf_cq_init_attr_ex *attr);
	int (*drv_query_device_ex)(struct osf_context *context,
				   struct osf_device_attr_ex *attr,
				   size_t attr_size);
	int (*lib_query_device_ex)(struct osf_context *context,
				   struct osf_device_attr_ex *attr,
				   size_t attr_size);
	uint64_t has_ex;            /* OSF_HAS_*, set by the driver */
	size_t sz;                  /* set by the library */
	struct osf_context context; /* last */
};

/* The calls above, for who needs a list of them: X(name). */
#define OSF_VERBS_CALLS(X)                                                     \
	X(query_values)                                                        \
	X(post_send_ex) X(poll_cq_ex) X(create_cq_ex) X(query_device_ex)

/*
 * Exported functions.  None is added for programs: a new call is inline.
 */

/* All devices, NULL at the end; *@n: how many.  The first call loads the
 * drivers.  Devices stay valid for the life of the process. */
struct osf_device **osf_get_device_list(int *n);
void osf_free_device_list(struct osf_device **list);
const char *osf_get_device_name(const struct osf_device *device);

/* errno ENOMEM, or the driver's. */
struct osf_context *osf_open_device(struct osf_device *device);
int osf_close_device(struct osf_context *context);
int osf_query_device(struct osf_context *context, struct osf_device_attr *attr);

struct osf_pd *osf_alloc_pd(struct osf_context *context);
int osf_dealloc_pd(struct osf_pd *pd); /* -EBUSY: something is left in it */
struct osf_mr *osf_reg_mr(struct osf_pd *pd, void *addr, size_t length);
int osf_dereg_mr(struct osf_mr *mr);

struct osf_cq *osf_create_cq(struct osf_context *context, int cqe,
			     void *cq_context);
int osf_destroy_cq(struct osf_cq *cq); /* -EBUSY: a QP uses it */
struct osf_qp *osf_create_qp(struct osf_pd *pd,
			     const struct osf_qp_init_attr *attr);
/* Both ends connect to each other. */
int osf_connect_qp(struct osf_qp *qp, uint32_t dest_qp_num);
int osf_destroy_qp(struct osf_qp *qp);

/* Return: 0; or -errno, and *@bad_wr is the first that was not posted. */
static inline int osf_post_send(struct osf_qp *qp, struct osf_send_wr *wr,
				struct osf_send_wr **bad_wr)
{
	return qp->context->ops.post_send(qp, wr, bad_wr);
}

static inline int osf_post_recv(struct osf_qp *qp, struct osf_recv_wr *wr,
				struct osf_recv_wr **bad_wr)
{
	return qp->context->ops.post_recv(qp, wr, bad_wr);
}

/* Return: how many of @n completions; -EOVERFLOW: the CQ lost some. */
static inline int osf_poll_cq(struct osf_cq *cq, int n, struct osf_wc *wc)
{
	return cq->context->ops.poll_cq(cq, n, wc);
}

/*
 * Calls that were added, from generation 1 on.
 */

static inline struct osf_context_ex *osf_get_ctx_ex(struct osf_context *context)
{
	if (context->abi_compat != OSF_ABI_EXTENDED)
		return NULL;
	return (struct osf_context_ex *)(void *)((char *)context -
						 offsetof(struct osf_context_ex,
							  context));
}

/* OSF_HAS_* of the driver; 0 for a driver from before the scheme. */
static inline uint64_t osf_has_ex(struct osf_context *context)
{
	struct osf_context_ex *ex = osf_get_ctx_ex(context);

	return ex ? ex->has_ex : 0;
}

/**
 * osf_query_device_ex() - what the device can do
 * @attr: out
 * @attr_size: sizeof(*attr); the call writes no byte behind it
 *
 * Return: 0; -EINVAL: @attr_size ends before comp_mask does; -ENOSYS.
 */
static inline int osf_query_device_ex(struct osf_context *context,
				      struct osf_device_attr_ex *attr,
				      size_t attr_size)
{
	struct osf_context_ex *ex = osf_get_ctx_ex(context);

	if (!ex || !OSF_CTX_HAS(ex, lib_query_device_ex))
		return -ENOSYS;
	return ex->lib_query_device_ex(context, attr, attr_size);
}

/**
 * osf_create_cq_ex() - a completion queue with what was added since
 * @attr: in; comp_mask says which fields count
 *
 * Without a bit in comp_mask it is osf_create_cq(), which every library has.
 *
 * Return: NULL: errno EINVAL: a bit that is not known; ENOSYS; ENOMEM.
 */
static inline struct osf_cq *
osf_create_cq_ex(struct osf_context *context,
		 const struct osf_cq_init_attr_ex *attr)
{
	struct osf_context_ex *ex = osf_get_ctx_ex(context);

	if (ex && OSF_CTX_HAS(ex, lib_create_cq_ex))
		return ex->lib_create_cq_ex(context, attr);
	if (!attr->comp_mask)
		return osf_create_cq(context, attr->cqe, attr->cq_context);
	errno = ENOSYS;
	return NULL;
}

/**
 * osf_poll_cq_ex() - completions with what was added since
 * @wc: out, @n elements, of which each begins @wc_size bytes after the one before
 *
 * Return: how many; -EINVAL: @wc_size ends before comp_mask does; -EOVERFLOW;
 * -ENOSYS.
 */
static inline int osf_poll_cq_ex(struct osf_cq *cq, int n, struct osf_wc_ex *wc,
				 size_t wc_size)
{
	struct osf_context_ex *ex = osf_get_ctx_ex(cq->context);

	if (!ex || !OSF_CTX_HAS(ex, lib_poll_cq_ex))
		return -ENOSYS;
	return ex->lib_poll_cq_ex(cq, n, wc, wc_size);
}

/**
 * osf_post_send_ex() - post an array of sends
 * @wr: in, @n elements, of which each begins @wr_size bytes after the one before
 *
 * Return: how many were posted, from the first on; if none was: -EINVAL: a bit
 * that is not known, or @wr_size ends before comp_mask does; -ENOMEM: the queue
 * is full; -ENOSYS.
 */
static inline int osf_post_send_ex(struct osf_qp *qp,
				   const struct osf_send_wr_ex *wr, int n,
				   size_t wr_size)
{
	struct osf_context_ex *ex = osf_get_ctx_ex(qp->context);

	if (!ex || !OSF_CTX_HAS(ex, lib_post_send_ex))
		return -ENOSYS;
	return ex->lib_post_send_ex(qp, wr, n, wr_size);
}

/**
 * osf_query_values() - values that change; generation 2
 * @asked: OSF_VALUES_*
 * @values: out; comp_mask says which of them the driver knows
 * @values_size: sizeof(*values)
 *
 * Return: 0; -EINVAL: a bit in @asked that is not known; -ENOSYS.
 */
static inline int osf_query_values(struct osf_context *context, uint32_t asked,
				   struct osf_values *values,
				   size_t values_size)
{
	struct osf_context_ex *ex = osf_get_ctx_ex(context);

	if (!ex || !OSF_CTX_HAS(ex, lib_query_values))
		return -ENOSYS;
	return ex->lib_query_values(context, asked, values, values_size);
}

#ifdef __cplusplus
}
#endif

#endif
