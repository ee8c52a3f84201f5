/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/driver/loop.h - a device whose QPs reach each other inside one process
 *
 *     post_send -> queue of sends --+-- loop_progress_locked() --> completions of both
 *     post_recv -> queue of receives+
 *
 * A send waits until its peer has posted a receive.  Then the thread that posted the later
 * of the two copies the bytes.  The build makes two shared objects of these files:
 * osf-loop, and osf-faults, which fails on purpose (faults.c).
 *
 * The files keep the generations of osf/verbs_driver.h apart, so that tests/abi can build
 * the driver as it was: the files that use loop_ex.h need generation 1, loop_time.c needs
 * generation 2.  tests/abi has what an older driver lacks.
 *
 * Lock: loop_lock guards everything; a function whose name ends in _locked expects its
 * caller to hold it.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "osf/verbs_driver.h"

#define LOOP_QPS 256u
#define LOOP_MRS 1024u
#define LOOP_SGES 4u
#define LOOP_WRS 1024u
#define LOOP_CQES 65536u

/* One completion, with all that any generation shows of it. */
struct loop_cqe {
	struct osf_wc wc;
	uint32_t src_qp;
	uint32_t imm_data;
	bool has_imm;
	uint64_t ts;
};

struct loop_cq {
	struct osf_cq cq;
	struct loop_cqe *ring;
	uint32_t size, head, n;
	uint32_t n_users; /* queues of QPs that complete here */
	bool ignores_overrun, is_overrun;
	bool is_stamped;
	int clock;
	uint64_t ts_base;
};

enum loop_fault { LOOP_FINE, LOOP_LOST, LOOP_HELD, LOOP_FULL };

/* A posted send or receive. */
struct loop_wr {
	uint64_t wr_id;
	uint32_t flags, imm_data;
	bool has_imm;
	enum loop_fault fault; /* of a send */
	uint32_t n_sges;
	struct osf_sge sge[LOOP_SGES];
};

struct loop_queue {
	struct loop_wr *wr;
	uint32_t size, head, n;
	struct loop_cq *cq;
};

struct loop_qp {
	struct osf_qp qp;
	struct osf_pd *pd;
	struct loop_qp *peer;
	struct loop_queue sends, recvs;
	bool is_error;
};

struct loop_mr {
	struct osf_mr mr;
	struct osf_pd *pd;
	uint64_t addr, length;
};

struct loop_pd {
	struct osf_pd pd;
	uint32_t n_users;
};

extern pthread_mutex_t loop_lock;
extern const struct osf_context_ops loop_ops;
#define LOOP_GUARD()                                                           \
	pthread_mutex_t *loop_guard                                            \
	    __attribute__((cleanup(loop_unlock), unused)) =                    \
		(pthread_mutex_lock(&loop_lock), &loop_lock)
static inline void loop_unlock(pthread_mutex_t **lock)
{
	pthread_mutex_unlock(*lock);
}

/* loop.c */
/* The bytes of @sge, if they are registered in @pd; else NULL. */
void *loop_bytes_locked(const struct osf_pd *pd, const struct osf_sge *sge);
void *loop_alloc(size_t size); /* zeroed; NULL: errno is ENOMEM */
struct osf_device *loop_legacy_device(void);

/* loop_cq.c */
struct loop_cq *loop_cq_new(int cqe);
void loop_complete_locked(struct loop_cq *cq, struct loop_cqe e);
bool loop_take_locked(struct loop_cq *cq, struct loop_cqe *e);
/* -EOVERFLOW, or 0. */
int loop_cq_state_locked(const struct loop_cq *cq);
struct osf_cq *loop_create_cq(struct osf_context *context, int cqe);
int loop_destroy_cq(struct osf_cq *cq);
int loop_poll_cq(struct osf_cq *cq, int n, struct osf_wc *wc);

/* loop_qp.c */
extern struct loop_qp *loop_qps[LOOP_QPS];
struct osf_qp *loop_create_qp(struct osf_pd *pd,
			      const struct osf_qp_init_attr *attr);
int loop_connect_qp(struct osf_qp *qp, uint32_t dest_qp_num);
int loop_destroy_qp(struct osf_qp *qp);
int loop_post_send(struct osf_qp *qp, struct osf_send_wr *wr,
		   struct osf_send_wr **bad_wr);
int loop_post_recv(struct osf_qp *qp, struct osf_recv_wr *wr,
		   struct osf_recv_wr **bad_wr);
int loop_send_locked(struct loop_qp *qp, struct loop_wr *wr);
/* Return: 0, or -EINVAL. */
int loop_wr_sges(struct loop_wr *wr, const struct osf_sge *sge, int n);

/* loop_send.c */
void loop_progress_locked(struct loop_qp *qp);
void loop_fail_locked(struct loop_qp *qp); /* error state: flush all */
void loop_release_locked(const struct loop_cq *cq);

/* faults.c, no_faults.c */
extern const char loop_name[];
int loop_faults_init(void);
enum loop_fault loop_fault_of_send_locked(void);
bool loop_fault_of_memory(void);

/* loop_time.c, and what tests/abi has for older generations */
uint64_t loop_stamp(const struct loop_cq *cq);
