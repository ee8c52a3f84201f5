/* SPDX-License-Identifier: MIT */
/*
 * rdma/core.h - the objects of the software RDMA device
 *
 *     context -> pd -> mr, queue pair, shared receive queue, address handle
 *     context -> completion channel -> completion queue
 *
 * Each begins with libibverbs' struct, so a pointer that the program has is a pointer to
 * ours.  The device runs inside the program's calls and has no thread:
 *
 *     post_send   post.c, tx.c: executes at once what it can; writes into this process's ring,
 *                 or straight into the receiver's memory (reach.c)
 *     poll_cq     cq.c: looks at the queue; if it is empty, runs all queue pairs that
 *                 complete here: rx.c reads the peer's ring into posted receives, tx.c goes
 *                 on with requests that were blocked
 *
 * Locks, in this order: cq.poll_lock, xrc_domain.lock, cq.users_lock, qp.lock,
 * xrc_domain.inner, srq.lock, cq.lock.  A thread takes no other lock while it holds self.lock,
 * the peers' lock or the context's.
 */
#pragma once

#include <infiniband/verbs.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "rdma/export.h"
#include "rdma/peer.h"
#include "rdma/self.h"

#define MAX_MSG (1u << 30)
#define MAX_WR 16384u
#define MAX_CQE (1u << 20)
#define MAX_INLINE 1024u
#define MAX_RD_ATOMIC 16u
#define MTU_BYTES 4096u /* at most, of any device_mtu() */
#define GRH_BYTES 40u
#define N_INVALIDATED 8u
#define EAGER (8u * 1024) /* above, straight into the receiver's memory */

struct event {
	struct event *next;
	struct ibv_async_event ev;
};

struct ctx {
	uint32_t generation; /* of forks */
	bool
	    takes_lid; /* address handles may name our own LID, without a GID */
	struct lock lock;
	struct event *events, **events_end;
	uint32_t n_objects;
	struct verbs_context v; /* its last member is libibverbs' context */
};

struct td;
struct dm;

struct pd {
	struct ibv_pd pd;
	uint32_t n_refs;
	/* Of a parent domain (domain.c). */
	struct pd *parent;
	struct td *td;
};

struct mr {
	struct ibv_mr mr;
	uint32_t beyond[3]; /* libibverbs' own, behind what programs know */
	uint32_t access;
	struct dm *dm; /* NULL: the program's memory */
};

struct channel {
	struct ibv_comp_channel
	    ch; /* fd: an epoll set of the pipe and of pidfds */
	struct lock lock;
	int pipe[2];
	struct cq *cqs;
};

struct cqe {
	struct ibv_wc wc;
	uint64_t at_ns; /* CLOCK_REALTIME; 0: nobody wants it */
};

struct qp;

struct cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex ex;
	};
	uint32_t idx; /* in the directory */
	struct lock lock;
	struct cqe *ring;
	uint32_t size, head, tail; /* size: a power of two */
	uint32_t limit;            /* what the program was told */
	uint32_t arm;              /* what the directory shows */
	uint32_t n_arms;
	bool wants_time, has_overrun;
	/* The event that a completion caused, until it is taken. */
	uint32_t n_pending, n_events;
	struct cq *next_on_channel;
	/* Queue pairs that complete here. */
	struct lock users_lock;
	struct qp **users;
	uint32_t n_users, n_async, n_idle, n_srqs;
	uint32_t n_empty; /* polls in a row that found nothing */
	/* The completion that ibv_start_poll() has found.  The program reads it from here, so its
	 * thread has the lock until it ends the poll.  is_of_one_thread: no other thread polls, the
	 * program has promised, and nobody takes the lock. */
	struct cqe now;
	struct lock poll_lock;
	bool is_of_one_thread;
};

/* In a queue only as many parts have memory as the program asked for. */
struct rwqe {
	uint64_t wr_id;
	uint32_t n_sge, length;
	struct ibv_sge sge[N_SGE];
};

struct srq {
	struct ibv_srq srq;
	struct lock lock;
	uint8_t *rq;     /* of struct rwqe */
	size_t rq_bytes; /* of each */
	uint32_t size, head, tail, max_wr, max_sge, limit;
	uint32_t n_refs, n_async;
	struct xrc_srq *xrc; /* NULL: a basic one */
};

/* What a memory window is to be bound to. */
struct bind {
	uint64_t addr, length;
	uint32_t window, region, access, type;
	bool is_withdrawn;
};

struct swqe {
	uint64_t wr_id, addr, compare_add, swap;
	uint32_t opcode, flags, n_sge, length, imm, rkey;
	uint32_t dest_qpn, qkey; /* datagrams */
	uint32_t route;          /* the numbers of both GIDs */
	union ibv_gid dgid;      /* of a datagram to many, or on another host */
	uint32_t off;            /* of a message that is partly in the ring */
	uint32_t ack;            /* the message's number */
	bool is_far;             /* a datagram to another host */
	bool is_lost;            /* an unreliable message that was not sent */
	bool needs_ack;          /* it completes when the receiver has it */
	bool needs_reply;        /* the same for what the receiver executes */
	uint32_t got;            /* bytes of a reply */
	uint8_t status;          /* enum ibv_wc_status */
	/* As much of it as this queue pair's requests need has memory. */
	union {
		struct ibv_sge sge[N_SGE];
		struct bind bind;
		uint8_t inlined[MAX_INLINE];
	};
};

/* What has arrived of a message. */
struct arriving {
	struct rwqe *wqe; /* NULL: between two */
	struct rwqe own;  /* one that came from a shared queue */
	struct srq *srq;  /* that queue */
	uint32_t off, status;
	bool is_dropped;
};

/* A ring that this process writes, and where its reader is. */
struct out {
	struct x_qp *x;
	uint8_t *ring;
	uint32_t mask;
	uint64_t head, tail;
};

/* Packets that are shown (show.c): their numbers. */
struct qp_show {
	uint64_t
	    to_peer; /* the next one, as x_msg.addr says it; 0: none was shown */
	uint32_t n_times; /* that somebody began to read (show.h) */
	uint32_t next, una, n_before, n_answered; /* as requester */
	uint32_t expected, n_arrived;             /* as responder */
	bool has_sent, has_received;
};

/* Datagrams to one queue pair, or from one. */
struct path {
	struct path *next;
	struct remote remote;
	struct out out; /* of a sender */
	int fd;
	uint32_t link; /* the number in the receiver's x_qp.link */
	uint64_t pos, waits_ns;
};

struct qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex ex;
	};
	struct lock lock;
	uint32_t generation;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	int fd; /* of what is exported */
	struct x_qp *x;
	size_t x_bytes;
	struct out out;
	struct remote remote;
	uint64_t tried_ns; /* to find the peer */

	/* Both queues are in one mapping.  What no request has used has no memory. */
	uint8_t *queues;
	size_t queues_bytes;
	uint8_t *sq;     /* of struct swqe */
	size_t sq_bytes; /* of each */
	uint32_t sq_size, sq_head, sq_sent, sq_done;
	uint32_t n_sent, n_used; /* messages; receives of the peer */
	uint32_t n_known; /* receives that the peer had posted when we looked */
	bool has_failed, peer_lies;
	/* A request fails for the end of the peer's process only while may_tell_end is set
	 * (tell_ends() of cq.c).  has_put_off: one waits for that. */
	bool may_tell_end, has_put_off;
	uint64_t blocked_ns; /* since when; 0: not */
	/* Keys that messages withdraw which the peer has not read yet (mw.c). */
	struct {
		uint32_t rkey;
		uint64_t end;
	} invalidated[N_INVALIDATED];
	uint32_t n_invalidated;

	uint8_t *rq;     /* of struct rwqe; NULL: it has shared ones */
	size_t rq_bytes; /* of each */
	uint32_t rq_size, rq_head, rq_tail;
	struct arriving in;
	uint64_t pos; /* read of the peer's ring */
	/* One-sided operations that a receiver executes (serve.h). */
	uint8_t *reply;
	uint64_t reply_head, reply_pos, served_ns;
	uint32_t served, n_asked;
	bool is_serving;
	bool is_established;
	bool tells_drained; /* SQ_DRAINED is wanted, and has not come */

	struct qp_xrc *xrc;     /* XRC; NULL: none of the receiving kind */
	struct path *to, *from; /* datagrams */
	uint64_t looked_ns;
	bool hears_no_self; /* of groups */
	uint32_t n_async;

	struct building *building; /* qp_ex.c; NULL: made without it */
	struct roce_qp *roce;      /* wire.h; NULL: the peer is on this host */
	struct qp_show show;
};

struct ah {
	struct ibv_ah ah;
	struct ibv_ah_attr attr;
	int dgid_index; /* in our own table; -1: it is nobody's here */
};

static inline bool type_is_reliable(enum ibv_qp_type t)
{
	return t == IBV_QPT_RC || t == IBV_QPT_XRC_SEND ||
	       t == IBV_QPT_XRC_RECV;
}

/* Do its receives come from shared queues? */
static inline bool qp_shares(const struct qp *qp)
{
	return qp->init.srq || qp->xrc;
}

/* May it complete receives on @cq? */
static inline bool qp_receives_on(const struct qp *qp, const struct cq *cq)
{
	return qp->init.recv_cq == &cq->cq || qp->xrc;
}

static inline struct ctx *ctx_of(struct ibv_context *c)
{
	return container_of(c, struct ctx, v.context);
}

static inline struct swqe *qp_sqe(const struct qp *qp, uint32_t i)
{
	return (struct swqe *)(void *)(qp->sq +
				       (i & (qp->sq_size - 1)) * qp->sq_bytes);
}

static inline struct rwqe *qp_rqe(const struct qp *qp, uint32_t i)
{
	return (struct rwqe *)(void *)(qp->rq +
				       (i & (qp->rq_size - 1)) * qp->rq_bytes);
}

static inline size_t rwqe_bytes(uint32_t n_sge)
{
	return offsetof(struct rwqe, sge) + n_sge * sizeof(struct ibv_sge);
}

static inline uint32_t pow2_above(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/* What this process has done, in its directory once there is one. */
extern struct x_counters *rdma_counters;

/* mr.c */
struct ibv_pd *rdma_alloc_pd(struct ibv_context *c);
int rdma_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *rdma_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			   uint64_t iova, unsigned access);
/* The same, of no bytes too. */
struct ibv_mr *mr_new(struct ibv_pd *pd, void *addr, size_t length,
		      uint64_t iova, unsigned access);
int rdma_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
		  size_t length, int access);
int rdma_dereg_mr(struct ibv_mr *mr);
/* Where @sge lies, if its key allows @access within @pd; NULL. */
void *mr_local(uint32_t pd, const struct ibv_sge *sge, uint32_t access);
/* The same in the memory of @dir's owner, for a request to its queue pair @qpn.  0: the key
 * does not allow it. */
uint64_t mr_remote(const struct x_dir *dir, uint32_t pd, uint32_t qpn,
		   uint32_t rkey, uint64_t addr, uint64_t length,
		   uint32_t access);

/* cq.c, channel.c */
struct ibv_cq *rdma_create_cq(struct ibv_context *c, int cqe, void *context,
			      struct ibv_comp_channel *ch, int vector);
int rdma_resize_cq(struct ibv_cq *cq, int cqe);
int rdma_destroy_cq(struct ibv_cq *cq);
int rdma_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int rdma_req_notify_cq(struct ibv_cq *cq, int solicited_only);
bool cq_push(struct cq *cq, const struct ibv_wc *wc, bool is_solicited);
/* Show in the directory that the queue is armed, by a new number. */
void cq_show_arm(struct cq *cq, uint32_t kind);
bool cq_is_full(struct cq *cq);
void cq_forget(struct cq *cq, uint32_t qpn);
/* Has it completions of this queue pair? */
bool cq_holds(struct cq *cq, uint32_t qpn);
int cq_add_user(struct cq *cq, struct qp *qp);
void cq_remove_user(struct cq *cq, struct qp *qp);
void cq_progress(struct cq *cq);
/* What does not move on by any poll of one queue.  True: it may have moved on one. */
bool cq_progress_others(void);
int cq_take(struct cq *cq, int n, struct cqe *out);
struct ibv_comp_channel *rdma_create_comp_channel(struct ibv_context *c);
int rdma_destroy_comp_channel(struct ibv_comp_channel *ch);
int rdma_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq,
		      void **context);
void channel_add(struct channel *ch, struct cq *cq);
void channel_remove(struct channel *ch, struct cq *cq);
void channel_notify(struct channel *ch);
/* Wake who sleeps on @ch when @p ends. */
void channel_watch(struct ibv_comp_channel *ch, struct peer *p);
/* The same when somebody new sends datagrams. */
void channel_watch_arrivals(struct ibv_comp_channel *ch);

/* event.c */
void event_add(struct ctx *c, enum ibv_event_type type, void *object);
void event_forget(struct ctx *c, void *object);
int rdma_get_async_event(struct ibv_context *c, struct ibv_async_event *ev);
void rdma_ack_async_event(struct ibv_async_event *ev);

/* qp.c */
struct ibv_qp *rdma_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a);
/* The same; of XRC's receiving kind without @pd, with @xrc, which it takes. */
struct ibv_qp *qp_new(struct ibv_context *c, struct ibv_pd *pd,
		      struct ibv_qp_init_attr *a, struct qp_xrc *xrc);
int rdma_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask);
int rdma_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask,
		  struct ibv_qp_init_attr *init);
int rdma_destroy_qp(struct ibv_qp *qp);
/* Into the error state: whatever is posted is flushed.  Caller holds the lock. */
void qp_fail(struct qp *qp);
void qp_set_state(struct qp *qp, enum ibv_qp_state state);
bool qp_connect(struct qp *qp);
/* SQD: tell the program, if it wants to know, that all that had begun is over. */
void qp_see_drained(struct qp *qp);
/* The peer has reset its queue pair since we found it.  If nothing was sent or received before,
 * go on with the new one, and return true. */
bool qp_meet_again(struct qp *qp);

/* tx.c, rx.c, ud.c */
int rdma_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad);
int rdma_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad);
int tx_post(struct qp *qp, const struct ibv_send_wr *wr);
/* The next place of the send queue, or NULL; the caller counts it when it is filled. */
struct swqe *tx_begin(struct qp *qp, const struct ibv_send_wr *wr);
void tx_run(struct qp *qp);
void tx_flush(struct qp *qp);
void rx_run(struct qp *qp, struct cq *cq);
void rx_flush(struct qp *qp);
/* One fragment of @m's message, whose bytes lie at @pos of @r's ring; false: it has to
 * wait. */
bool rx_fragment(struct qp *qp, const struct remote *r, const struct x_msg *m,
		 uint64_t pos);
bool rx_header(const struct remote *r, uint64_t pos, struct x_msg *m,
	       bool *is_lie);
/* Write a message that fits. */
void out_put(struct out *out, const struct x_msg *m, const struct iovec *iov,
	     uint32_t n_iov);
/* Where the message after @m begins. */
uint64_t msg_end(const struct x_msg *m, uint64_t pos);
/* Has the ring room for a message with @length bytes? */
bool out_fits(const struct out *out, uint32_t length);
void ud_rx(struct qp *qp, struct cq *cq);
int ud_send(struct qp *qp, struct swqe *w);
void ud_close(struct qp *qp);
/* Before it: wait a while for those who have not read. */
void ud_linger(struct qp *qp);
/* Accept some of the processes that have connected: senders of datagrams, and
 * processes that only ask who has the name.  The latter would fill the
 * listener's backlog. */
void ud_accept(void);

/* reach.c */
/* How many of the @n bytes that an RDMA write stores at @addr are stored before its last
 * word.  A program may wait for the last byte to change, and must find the others stored
 * then.  @n: all are stored together. */
size_t reach_last(uint64_t addr, size_t n);
/* Cut @n parts of memory at their byte @at; there is room for one more.  Return: how many
 * parts */
unsigned reach_cut(struct iovec *parts, unsigned n, size_t at);
/* Copy between memory of this process and of the peer's: bytes, or -errno. */
ssize_t reach(struct peer *p, const struct iovec *local, unsigned n_local,
	      const struct iovec *remote, unsigned n_remote, bool is_write);
int reach_atomic(struct peer *p, uint64_t addr, bool is_swap, uint64_t compare,
		 uint64_t swap, uint64_t *old);

/* srq.c */
struct ibv_srq *rdma_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *a);
int rdma_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *a, int mask);
int rdma_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *a);
int rdma_destroy_srq(struct ibv_srq *srq);
int rdma_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad);
bool srq_take(struct srq *srq, struct rwqe *out);
int rwqe_fill(struct rwqe *w, const struct ibv_recv_wr *wr, uint32_t max_sge);

/* ah.c */
struct ibv_ah *rdma_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *a);
int rdma_destroy_ah(struct ibv_ah *ah);
int rdma_init_ah_from_wc(struct ibv_context *c, uint8_t port, struct ibv_wc *wc,
			 struct ibv_grh *grh, struct ibv_ah_attr *a);
struct ibv_ah *rdma_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
				      struct ibv_grh *grh, uint8_t port);

/* device.c */
void device_attr(struct ibv_device_attr *a);
int device_port(uint8_t port, struct ibv_port_attr *a);
/* The bytes that a packet may have. */
uint32_t device_mtu(void);
int device_gid(uint32_t index, union ibv_gid *gid, uint32_t *ifindex);
/* Its number in our table, or -1: it is no address of this host's. */
int device_find_gid(const union ibv_gid *gid);
uint64_t device_guid(void);
/* There is no interface but the loopback's, so no other host. */
bool device_is_alone(void);
