/* SPDX-License-Identifier: MIT */
/*
 * rdma/qp.c - queue pairs: making, states, the way to the peer
 *
 * A connected queue pair looks its peer up by GID and number when it becomes ready to
 * receive, and again while it has something to do and has not found it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/libc.h"
#include "rdma/mcast.h"
#include "rdma/serve.h"
#include "rdma/transition.h"
#include "rdma/users.h"
#include "rdma/wire.h"
#include "rdma/xrc.h"

#define TRY_AGAIN_NS NS_PER_MS
#define BITS_24 0xffffffu /* of a queue pair's number, and of a packet's */

static int check_init(const struct ibv_context *c,
		      const struct ibv_qp_init_attr *a)
{
	const struct ibv_qp_cap *cap = &a->cap;
	const struct ibv_srq *srq = a->srq;

	if (a->qp_type != IBV_QPT_UC && a->qp_type != IBV_QPT_UD &&
	    !type_is_reliable(a->qp_type))
		return a->qp_type == IBV_QPT_RAW_PACKET ||
			       a->qp_type == IBV_QPT_DRIVER
			   ? EOPNOTSUPP
			   : EINVAL;
	if (!a->send_cq || !a->recv_cq || a->send_cq->context != c ||
	    a->recv_cq->context != c)
		return EINVAL;
	/* The messages of XRC name their queue. */
	if (srq &&
	    (srq->context != c || container_of(srq, struct srq, srq)->xrc))
		return EINVAL;
	if (cap->max_send_wr > MAX_WR || cap->max_recv_wr > MAX_WR ||
	    cap->max_send_sge > N_SGE || cap->max_recv_sge > N_SGE ||
	    cap->max_inline_data > MAX_INLINE)
		return EINVAL;
	return 0;
}

/* Whatever a request has: its parts, the bytes in place of them, or a window. */
static size_t swqe_bytes(const struct ibv_qp_cap *cap)
{
	size_t room = MAX(cap->max_send_sge * sizeof(struct ibv_sge),
			  (size_t)cap->max_inline_data);

	room = MAX(room, sizeof(struct bind));
	return offsetof(struct swqe, sge) + (room + 7) / 8 * 8;
}

/* Receives come first in the mapping: a queue pair that only waits for messages has posted
 * receives and never touches the pages of its send queue.  malloc() would touch all pages. */
static int map_queues(struct qp *qp)
{
	size_t rq = qp->rq_bytes * qp->rq_size;

	qp->queues_bytes = rq + qp->sq_bytes * qp->sq_size;
	void *map = mmap(NULL, qp->queues_bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return -ENOMEM;
	qp->queues = map;
	qp->rq = rq ? qp->queues : NULL;
	qp->sq = qp->queues + rq;
	return 0;
}

static int make_queues(struct qp *qp)
{
	struct ibv_qp_cap *cap = &qp->init.cap;

	cap->max_send_wr = MAX(cap->max_send_wr, 1u);
	cap->max_send_sge = MAX(cap->max_send_sge, 1u);
	/* As with the kernel's software device, inline bytes may fill the room of the sges
	 * that they replace.  rdma_xclient asks for no inline bytes, and posts 16. */
	cap->max_inline_data =
	    MAX(cap->max_inline_data,
		cap->max_send_sge * (uint32_t)sizeof(struct ibv_sge));
	qp->sq_size = pow2_above(cap->max_send_wr);
	qp->sq_bytes = swqe_bytes(cap);
	if (qp_shares(qp) || qp->init.qp_type == IBV_QPT_XRC_SEND) {
		cap->max_recv_wr = cap->max_recv_sge = 0;
		qp->rq_size = 1;
		return map_queues(qp);
	}
	cap->max_recv_wr = MAX(cap->max_recv_wr, 1u);
	cap->max_recv_sge = MAX(cap->max_recv_sge, 1u);
	qp->rq_size = pow2_above(cap->max_recv_wr);
	qp->rq_bytes = rwqe_bytes(cap->max_recv_sge);
	return map_queues(qp);
}

/* Show it to others, and give it a number. */
static int make_export(struct qp *qp)
{
	struct self *s = self_get();
	/* Those send no messages through it. */
	bool is_short = qp->init.qp_type == IBV_QPT_UD || qp->xrc;
	uint32_t ring = is_short ? FRAGMENT * 2 : RING_SIZE;
	void *map;

	if (!s)
		return -errno;
	bool has_reply = qp->init.qp_type == IBV_QPT_RC || qp->xrc;
	const struct x_shape shape = { qp->rq_size,
				       MAX(qp->init.cap.max_recv_sge, 1u), ring,
				       has_reply };
	qp->x_bytes = export_qp_bytes(&shape);
	qp->fd = export_new("osf-rdma-qp", qp->x_bytes, &map);
	if (qp->fd < 0)
		return qp->fd;
	qp->x = map;
	GUARD(&s->lock);
	int i = self_find_qp(s);
	if (i < 0)
		return -ENOMEM;
	qp->qp.qp_num = s->block << QPN_BITS | (uint32_t)i;
	qp->qp.handle = (uint32_t)i;
	qp->x->version = EXPORT_VERSION;
	qp->x->qpn = qp->qp.qp_num;
	qp->x->type = qp->init.qp_type;
	qp->x->ring_size = ring;
	qp->x->n_recv = shape.n_recv;
	qp->x->recv_sge = shape.recv_sge;
	qp->x->has_reply = has_reply;
	qp->out = (struct out){
		.x = qp->x,
		.ring = (uint8_t *)qp->x + export_ring_offset(&shape),
		.mask = ring - 1,
	};
	qp->reply = qp->out.ring + ring;
	qp->x->has_srq = qp_shares(qp);
	qp->x->domain = qp->xrc ? xrc_domain_id(qp) : 0;
	qp->x->send_cq = container_of(qp->init.send_cq, struct cq, cq)->idx;
	qp->x->recv_cq = container_of(qp->init.recv_cq, struct cq, cq)->idx;
	qp->x->pd = qp->qp.pd ? qp->qp.pd->handle : 0;
	qp->x->gen = 1;
	store_rel(&qp->x->magic, EXPORT_MAGIC);
	store_rel(&s->dir->qp_fd[i], qp->fd + 1);
	return 0;
}

static void qp_free(struct qp *qp)
{
	/* A child has no such mapping, but may have another one there. */
	if (qp->x && qp->generation == self_generation())
		munmap(qp->x, qp->x_bytes);
	if (qp->fd >= 0)
		libc.close(qp->fd);
	if (qp->queues)
		munmap(qp->queues, qp->queues_bytes);
	free(qp->building);
	free(qp->xrc);
	free(qp);
}

static void count_refs(struct qp *qp, int by)
{
	if (qp->qp.pd)
		fetch_add(&container_of(qp->qp.pd, struct pd, pd)->n_refs,
			  (uint32_t)by);
	if (qp->init.srq)
		fetch_add(&container_of(qp->init.srq, struct srq, srq)->n_refs,
			  (uint32_t)by);
	fetch_add(&ctx_of(qp->qp.context)->n_objects, (uint32_t)by);
}

static int join_cqs(struct qp *qp)
{
	struct cq *scq = container_of(qp->init.send_cq, struct cq, cq);
	struct cq *rcq = container_of(qp->init.recv_cq, struct cq, cq);

	if (qp->xrc)
		return xrc_join(qp);
	if (cq_add_user(rcq, qp))
		return -ENOMEM;
	if (scq == rcq || !cq_add_user(scq, qp))
		return 0;
	cq_remove_user(rcq, qp);
	return -ENOMEM;
}

static void leave_cqs(struct qp *qp)
{
	cq_remove_user(container_of(qp->init.send_cq, struct cq, cq), qp);
	cq_remove_user(container_of(qp->init.recv_cq, struct cq, cq), qp);
	if (qp->xrc)
		xrc_leave(qp);
}

/* A sender of XRC receives nothing: for the rest of the core its queues are one. */
struct ibv_qp *rdma_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	struct ibv_qp_init_attr mine = *a;
	struct ibv_qp *qp;

	if (a->qp_type == IBV_QPT_XRC_RECV) {
		errno = EINVAL; /* it has no protection domain */
		return NULL;
	}
	if (a->qp_type == IBV_QPT_XRC_SEND) {
		mine.recv_cq = a->send_cq;
		mine.srq = NULL;
		mine.cap.max_recv_wr = mine.cap.max_recv_sge = 0;
	}
	qp = qp_new(pd->context, pd, &mine, NULL);
	if (qp)
		a->cap = mine.cap;
	return qp;
}

struct ibv_qp *qp_new(struct ibv_context *c, struct ibv_pd *pd,
		      struct ibv_qp_init_attr *a, struct qp_xrc *xrc)
{
	bool is_xrc = a->qp_type == IBV_QPT_XRC_SEND || xrc;
	int err = check_init(c, a);
	struct qp *qp = err ? NULL : calloc(1, sizeof(*qp));

	if (!qp) {
		free(xrc);
		errno = err ? err : ENOMEM;
		return NULL;
	}
	qp->fd = -1;
	qp->generation = self_generation();
	qp->init = *a;
	qp->xrc = xrc;
	qp->qp = (struct ibv_qp){ .context = c,
				  .qp_context = a->qp_context,
				  .pd = pd,
				  .send_cq = xrc ? NULL : a->send_cq,
				  .recv_cq = is_xrc ? NULL : a->recv_cq,
				  .srq = a->srq,
				  .qp_type = a->qp_type };
	err = make_queues(qp);
	if (!err)
		err = make_export(qp);
	if (!err)
		err = join_cqs(qp);
	if (err) {
		if (qp->x && load_rlx(&qp->x->magic))
			store_rel(&self_current->dir->qp_fd[qp->qp.handle], 0);
		qp_free(qp);
		errno = -err;
		return NULL;
	}
	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	count_refs(qp, 1);
	users_add(qp);
	a->cap = qp->init.cap;
	return &qp->qp;
}

/*
 * States.
 */

void qp_set_state(struct qp *qp, enum ibv_qp_state state)
{
	qp->attr.qp_state = qp->qp.state = state;
	store_rel(&qp->x->state, (uint32_t)state); /* E4 */
	/* Receives that were posted are the program's again. */
	if (state == IBV_QPS_ERR || state == IBV_QPS_RESET)
		users_wait_outside(qp);
}

static void disconnect(struct qp *qp)
{
	if (qp->remote.peer && qp->remote.peer->pid == getpid())
		fetch_sub(&users_n_local, 1);
	remote_close(&qp->remote);
	ud_close(qp);
	roce_qp_free(qp);
}

/* What a shared queue's owner has not polled stays: its receives have been used. */
static void forget_completions(struct qp *qp)
{
	cq_forget(container_of(qp->init.send_cq, struct cq, cq), qp->qp.qp_num);
	cq_forget(container_of(qp->init.recv_cq, struct cq, cq), qp->qp.qp_num);
}

/* As if it were new: nothing posted, nothing complete, no peer. */
static void reset(struct qp *qp)
{
	disconnect(qp);
	forget_completions(qp);
	qp->sq_head = qp->sq_sent = qp->sq_done = 0;
	qp->n_sent = qp->n_used = qp->n_known = qp->n_invalidated = 0;
	qp->rq_head = qp->rq_tail = 0;
	qp->pos = qp->blocked_ns = 0;
	qp->reply_head = qp->reply_pos = qp->served_ns = 0;
	qp->show = (struct qp_show){ 0 };
	qp->served = qp->n_asked = 0;
	qp->is_serving = false;
	qp->has_failed = qp->peer_lies = qp->is_established = false;
	memset(&qp->in, 0, sizeof(qp->in));
	qp->out.head = qp->out.tail = 0;
	qp->x->dest_qpn = qp->x->access = qp->x->src_gen = 0;
	qp->x->is_far = 0;
	qp->x->has_begun = 0;
	qp->x->tail = 0;
	qp->x->reply_head = qp->x->reply_tail = 0;
	qp->x->is_rnr = qp->x->refused = 0;
	qp->x->n_acked = qp->x->n_posted = qp->x->is_blocked = 0;
	memset(qp->x->link, 0, sizeof(qp->x->link));
	store_rel(&qp->x->gen, qp->x->gen + 1);
}

void qp_fail(struct qp *qp)
{
	if (qp->attr.qp_state == IBV_QPS_ERR)
		return;
	count(&rdma_counters->errors, 1);
	qp_set_state(qp, IBV_QPS_ERR);
	roce_qp_stop(qp);
	tx_flush(qp);
	rx_flush(qp);
	if (qp->init.srq)
		event_add(ctx_of(qp->qp.context), IBV_EVENT_QP_LAST_WQE_REACHED,
			  qp);
	if (qp->remote.x) {
		remote_ring(&qp->remote, BELL_SEND, true);
		remote_ring(&qp->remote, BELL_RECV, true);
	}
}

static enum ibv_qp_type peer_type(enum ibv_qp_type t)
{
	return t == IBV_QPT_XRC_SEND   ? IBV_QPT_XRC_RECV
	       : t == IBV_QPT_XRC_RECV ? IBV_QPT_XRC_SEND
				       : t;
}

bool qp_connect(struct qp *qp)
{
	uint64_t now = now_ns();

	if (qp->remote.x)
		return true;
	if (qp->tried_ns && now - qp->tried_ns < TRY_AGAIN_NS)
		return false;
	qp->tried_ns = now;
	ud_accept();
	if (device_find_gid(&qp->attr.ah_attr.grh.dgid) < 0 ||
	    remote_open(&qp->remote, qp->attr.dest_qp_num))
		return false;
	if (qp->remote.type != peer_type(qp->init.qp_type)) {
		remote_close(&qp->remote);
		return false;
	}
	if (qp->remote.peer->pid == getpid())
		fetch_add(&users_n_local, 1);
	helper_start_if_due();
	channel_watch(qp->init.send_cq->channel, qp->remote.peer);
	channel_watch(qp->init.recv_cq->channel, qp->remote.peer);
	if (qp->xrc)
		xrc_watch(qp, qp->remote.peer);
	qp->pos = 0;
	store_rel(&qp->x->src_gen, qp->remote.gen);
	return true;
}

bool qp_meet_again(struct qp *qp)
{
	if (qp->pos || qp->out.head || qp->x->n_acked || qp->reply_head)
		return false;
	qp->remote.gen = load_acq(&qp->remote.x->gen);
	qp->n_known = 0;
	store_rel(&qp->x->src_gen, qp->remote.gen);
	return true;
}

static int check_values(const struct qp *qp, const struct ibv_qp_attr *a,
			int mask)
{
	if (mask & IBV_QP_PORT && a->port_num != 1)
		return EINVAL;
	if (mask & IBV_QP_PKEY_INDEX && a->pkey_index)
		return EINVAL;
	if (mask & IBV_QP_PATH_MTU &&
	    (a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096))
		return EINVAL;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC && a->max_rd_atomic > MAX_RD_ATOMIC)
		return EINVAL;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC &&
	    a->max_dest_rd_atomic > MAX_RD_ATOMIC)
		return EINVAL;
	if (mask & IBV_QP_TIMEOUT && a->timeout > 31)
		return EINVAL;
	if (mask & IBV_QP_RETRY_CNT && a->retry_cnt > 7)
		return EINVAL;
	if (mask & IBV_QP_RNR_RETRY && a->rnr_retry > 7)
		return EINVAL;
	if (mask & IBV_QP_MIN_RNR_TIMER && a->min_rnr_timer > 31)
		return EINVAL;
	/* Addresses are GIDs here. */
	if (mask & IBV_QP_AV &&
	    (!a->ah_attr.is_global || a->ah_attr.port_num != 1 ||
	     device_gid(a->ah_attr.grh.sgid_index, NULL, NULL)))
		return EINVAL;
	if (mask & IBV_QP_CUR_STATE && a->cur_qp_state != qp->attr.qp_state)
		return EINVAL;
	/* What a connection is made of belongs to the peer that it has. */
	if (mask & IBV_QP_AV && qp->attr.qp_state == IBV_QPS_SQD &&
	    memcmp(&a->ah_attr.grh.dgid, &qp->attr.ah_attr.grh.dgid,
		   sizeof(union ibv_gid)))
		return EOPNOTSUPP;
	/* There is one path, and it is the one that is in use. */
	if (mask & (IBV_QP_ALT_PATH | IBV_QP_CAP | IBV_QP_RATE_LIMIT) ||
	    (mask & IBV_QP_PATH_MIG_STATE &&
	     a->path_mig_state != IBV_MIG_MIGRATED))
		return EOPNOTSUPP;
	return 0;
}

#define TAKE(bit, member)                                                      \
	if (mask & (bit))                                                      \
	qp->attr.member = a->member

static void take_values(struct qp *qp, const struct ibv_qp_attr *a, int mask)
{
	TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	TAKE(IBV_QP_PKEY_INDEX, pkey_index);
	TAKE(IBV_QP_PORT, port_num);
	TAKE(IBV_QP_QKEY, qkey);
	TAKE(IBV_QP_AV, ah_attr);
	TAKE(IBV_QP_PATH_MTU, path_mtu);
	TAKE(IBV_QP_TIMEOUT, timeout);
	TAKE(IBV_QP_RETRY_CNT, retry_cnt);
	TAKE(IBV_QP_RNR_RETRY, rnr_retry);
	TAKE(IBV_QP_RQ_PSN, rq_psn);
	TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	TAKE(IBV_QP_SQ_PSN, sq_psn);
	TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	TAKE(IBV_QP_DEST_QPN, dest_qp_num);
	TAKE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	qp->attr.rq_psn &= BITS_24;
	qp->attr.sq_psn &= BITS_24;
	qp->attr.dest_qp_num &= BITS_24;
	store_rlx(&qp->x->access, qp->attr.qp_access_flags);
	store_rlx(&qp->x->dest_qpn, qp->attr.dest_qp_num);
	store_rlx(&qp->x->qkey, qp->attr.qkey);
	store_rlx(&qp->x->min_rnr, qp->attr.min_rnr_timer);
	memcpy(qp->x->dgid, qp->attr.ah_attr.grh.dgid.raw, sizeof(qp->x->dgid));
}

/* Is all over that had begun?  A message may be partly in the ring. */
static bool is_drained(const struct qp *qp)
{
	return qp->sq_done == qp->sq_sent &&
	       (qp->sq_sent == qp->sq_head || qp->roce ||
		!qp_sqe(qp, qp->sq_sent)->off);
}

void qp_see_drained(struct qp *qp)
{
	if (!qp->tells_drained || !is_drained(qp))
		return;
	qp->tells_drained = false;
	event_add(ctx_of(qp->qp.context), IBV_EVENT_SQ_DRAINED, qp);
}

static void enter(struct qp *qp, enum ibv_qp_state from, enum ibv_qp_state to)
{
	/* The time in SQD counts for no request. */
	if (from == IBV_QPS_SQD && qp->blocked_ns)
		qp->blocked_ns = now_ns();
	if (to == IBV_QPS_ERR) {
		qp_fail(qp);
		return;
	}
	if (to == IBV_QPS_RESET) {
		qp_set_state(qp, to);
		reset(qp);
		memset(&qp->attr, 0, sizeof(qp->attr));
	}
	qp_set_state(qp, to);
	if (to == IBV_QPS_RTR && qp->init.qp_type != IBV_QPT_UD) {
		qp->tried_ns = 0;
		if (device_find_gid(&qp->attr.ah_attr.grh.dgid) < 0)
			roce_qp_open(qp);
		else
			qp_connect(qp);
		qp->x->is_far = qp->roce != NULL;
	}
	if (to == IBV_QPS_RTR && qp->init.qp_type == IBV_QPT_UD) {
		channel_watch_arrivals(qp->init.recv_cq->channel);
		roce_ud_open(qp);
	}
	if (to == IBV_QPS_RTS && from == IBV_QPS_RTR && qp->roce)
		roce_qp_set_psn(qp);
	if (to == IBV_QPS_RTS)
		tx_run(qp);
	qp_see_drained(qp);
}

int rdma_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *a, int mask)
{
	struct qp *qp = qp_real(container_of(ibqp, struct qp, qp));

	if (qp->generation != self_generation())
		return EINVAL;
	GUARD(&qp->lock);
	enum ibv_qp_state from = qp->attr.qp_state;
	enum ibv_qp_state to = mask & IBV_QP_STATE ? a->qp_state : from;
	if (!transition_is_allowed(qp->init.qp_type, from, to, mask))
		return EINVAL;
	int err = check_values(qp, a, mask);
	if (err)
		return err;
	take_values(qp, a, mask);
	if (to != from || to == IBV_QPS_RESET) {
		qp->tells_drained = to == IBV_QPS_SQD &&
				    mask & IBV_QP_EN_SQD_ASYNC_NOTIFY &&
				    a->en_sqd_async_notify;
		enter(qp, from, to);
	}
	roce_qp_set_times(qp);
	ibqp->state = qp->attr.qp_state;
	return 0;
}

int rdma_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *a, int mask,
		  struct ibv_qp_init_attr *init)
{
	struct qp *qp = qp_real(container_of(ibqp, struct qp, qp));
	GUARD(&qp->lock);

	*a = qp->attr;
	a->cur_qp_state = qp->attr.qp_state;
	a->cap = qp->init.cap;
	a->path_mig_state = IBV_MIG_MIGRATED;
	a->sq_draining = qp->attr.qp_state == IBV_QPS_SQD && !is_drained(qp);
	*init = qp->init;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	return 0;
}

static void wait_for_acks(struct qp *qp)
{
	pthread_mutex_lock(&qp->qp.mutex);
	while (qp->qp.events_completed != qp->n_async)
		pthread_cond_wait(&qp->qp.cond, &qp->qp.mutex);
	pthread_mutex_unlock(&qp->qp.mutex);
}

int rdma_destroy_qp(struct ibv_qp *ibqp)
{
	struct qp *qp = container_of(ibqp, struct qp, qp);

	if (qp->generation == self_generation() && mcast_is_member(qp))
		return EBUSY;
	if (qp->xrc && !xrc_close_handle(&qp))
		return 0;
	ibqp = &qp->qp;
	wire_detach(qp);
	users_remove(qp);
	leave_cqs(qp);
	lock_get(&qp->lock);
	if (qp->generation == self_generation()) {
		ud_linger(qp);
		store_rel(&self_current->dir->qp_fd[ibqp->handle], 0);
		qp_set_state(qp, IBV_QPS_RESET);
		store_rel(&qp->x->qpn, 0);
		if (qp->remote.x)
			remote_ring(&qp->remote, BELL_SEND, true);
		disconnect(qp);
		forget_completions(qp);
	}
	lock_put(&qp->lock);
	event_forget(ctx_of(ibqp->context), qp);
	wait_for_acks(qp);
	count_refs(qp, -1);
	pthread_cond_destroy(&ibqp->cond);
	pthread_mutex_destroy(&ibqp->mutex);
	qp_free(qp);
	return 0;
}
