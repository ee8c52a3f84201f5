/* SPDX-License-Identifier: MIT */
/*
 * rdma/roce/conn.h - one reliable or unreliable connection over packets
 *
 *     requests of the send queue -> request.c -> ops->send()      requester
 *     acknowledgements, responses -> answer.c -> ops->done()
 *     requests of the peer -> respond.c -> the program's memory   responder
 *                                       -> ops->send()
 *
 * A state machine without descriptor, lock, clock or memory of its own.  The caller passes
 * packets and the time to it, and it passes packets and completions to @ops.  The caller
 * lets one thread in at a time.  Spec: InfiniBand Architecture volume 1, sections 9.7 and
 * 9.8.
 *
 * When packets are lost, it sends again from the oldest unacknowledged one on (go back N).
 * It asks for a read in parts that fit into the window, so the window bounds responses,
 * too.
 *
 * It checks what the peer sends; @ops checks which memory the peer may reach.
 */
#pragma once

#include <infiniband/verbs.h>
#include <sys/uio.h>

#include "rdma/roce/packet.h"

#define ROCE_RESPONSES 32u /* reads and atomic operations to be answered */
#define ROCE_RESULTS 16u   /* of atomic operations, kept for duplicates */
#define WINDOW_MAX 128u    /* packets */
#define WINDOW_MIN 2u

/* REQ_LOCAL takes effect here alone, and takes its turn. */
enum roce_kind { REQ_SEND, REQ_WRITE, REQ_READ, REQ_SWAP, REQ_ADD, REQ_LOCAL };
enum { REQ_IMM = 1, REQ_INV = 2, REQ_SOLICITED = 4, REQ_FENCE = 8 };

/* A request of the send queue. */
struct roce_wr {
	uint8_t kind, flags;
	uint32_t length, rkey, imm; /* imm: the key, with REQ_INV */
	uint64_t addr, swap_add, compare;
	uint32_t psn, n_psns; /* set when it is first sent */
	uint32_t srqn;        /* XRC: whose receives it takes */
};

/* A message of the peer's is complete. */
struct roce_arrival {
	uint32_t length, flags, imm;
	bool is_write; /* with immediate data */
};

struct roce_conn;

struct roce_ops {
	/* A packet to the peer, with the bytes of @iov behind its headers. */
	void (*send)(struct roce_conn *c, struct roce_head *h,
		     const struct iovec *iov, int n);
	/* Request @i's bytes from @off on.  Parts of @iov (N_SGE); -1: a local key is wrong. */
	int (*gather)(struct roce_conn *c, uint32_t i, uint32_t off, uint32_t n,
		      struct iovec *iov);
	/* Bytes for request @i.  False: a local key is wrong. */
	bool (*scatter)(struct roce_conn *c, uint32_t i, uint32_t off,
			const void *from, uint32_t n);
	/* Request @i, the oldest, is over. */
	void (*done)(struct roce_conn *c, uint32_t i,
		     enum ibv_wc_status status);
	/* XRC: is there a queue rsp.srqn?  Its receives and its domain's memory count from here on. */
	bool (*has_queue)(struct roce_conn *c);
	/* Take a receive for a message, or keep the one that is taken.  False: there is none. */
	bool (*take)(struct roce_conn *c);
	/* Bytes of the message into that receive. */
	enum ibv_wc_status (*put)(struct roce_conn *c, uint32_t off,
				  const void *from, uint32_t n);
	void (*arrived)(struct roce_conn *c, const struct roce_arrival *a);
	/* May the peer do @access (enum ibv_access_flags) at all? */
	bool (*permits)(struct roce_conn *c, uint32_t access);
	/* May it do so there? */
	bool (*may)(struct roce_conn *c, uint32_t rkey, uint64_t addr,
		    uint32_t n, uint32_t access);
	/* The same, and do it.  False: not allowed, or no memory. */
	bool (*write)(struct roce_conn *c, uint32_t rkey, uint64_t addr,
		      const void *from, uint32_t n);
	bool (*read)(struct roce_conn *c, uint32_t rkey, uint64_t addr,
		     void *to, uint32_t n);
	bool (*atomic)(struct roce_conn *c, uint32_t rkey, uint64_t addr,
		       bool is_swap, uint64_t swap_add, uint64_t compare,
		       uint64_t *was);
	/* Do request @i, once.  An enum ibv_wc_status; -1: not yet. */
	int (*local)(struct roce_conn *c, uint32_t i);
	/* End a key.  False: it is none that may be ended so. */
	bool (*invalidate)(struct roce_conn *c, uint32_t rkey);
	/* The connection fails because of what the peer has asked.  The receive that a
	 * message is filling, or else the next one, gets @status; IBV_WC_SUCCESS: no
	 * receive gets a status. */
	void (*fail)(struct roce_conn *c, enum ibv_wc_status status,
		     enum ibv_event_type event);
};

struct roce_config {
	bool is_uc, is_xrc;
	uint32_t mtu; /* bytes */
	uint32_t dest_qpn;
	uint32_t access; /* enum ibv_access_flags */
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint8_t max_rd_atomic; /* as requester */
};

struct requester {
	struct roce_wr *wr;
	uint32_t mask;
	uint32_t una, next, head; /* requests: oldest, being sent, end */
	uint32_t n_known;         /* requests below have PSNs */
	uint32_t una_psn;         /* oldest packet not acknowledged */
	uint32_t next_psn;        /* to be sent next */
	uint32_t top_psn;         /* never sent */
	uint32_t n_reads;         /* asked for, not answered */
	uint32_t window, n_grown; /* packets; acknowledged since it grew */
	uint32_t n_unasked;       /* packets since one that wants an answer */
	uint32_t lost_psn;        /* for which a gap has been mended */
	bool has_lost;
	uint8_t retries, rnr_retries; /* left */
	uint64_t resend_ns, rnr_ns;   /* when; 0: not */
	bool is_stuck; /* a request has failed that is not the oldest */
	enum ibv_wc_status stuck;
};

struct response {
	uint32_t psn, rkey, left, srqn;
	uint64_t addr;
	uint64_t original; /* of an atomic operation */
	bool is_atomic, has_begun;
	uint32_t msn;
};

struct responder {
	uint32_t psn; /* expected next */
	uint32_t msn;
	uint32_t srqn; /* XRC: the queue that a request names */
	bool is_established;
	bool has_nak;        /* for what is missing now */
	uint8_t in;          /* enum roce_kind of a message + 1; 0: none */
	uint32_t off;        /* bytes of it that are here */
	uint32_t rkey, left; /* of a write */
	uint64_t addr;
	bool is_answer_due;
	bool is_answer_urgent; /* it does not wait for a request to go with */
	uint8_t syndrome;
	uint64_t answer_ns; /* until when it waits; 0: it does not */
	struct response queue[ROCE_RESPONSES];
	uint32_t first, end;
	struct {
		uint32_t psn;
		uint64_t original;
	} result[ROCE_RESULTS];
	uint32_t n_results;
};

struct roce_conn {
	const struct roce_ops *ops;
	struct roce_config cf;
	bool has_failed; /* nothing is sent or received any more */
	/* How long an acknowledgement may wait for a request of the program, which then
	 * leaves in the same system call; 0: not at all. */
	uint64_t patience_ns;
	struct requester req;
	struct responder rsp;
	void *owner;
};

/* @wr: @mask + 1 requests, a power of two, in the caller's memory. */
void roce_init(struct roce_conn *c, const struct roce_ops *ops,
	       const struct roce_config *cf, struct roce_wr *wr, uint32_t mask);
void roce_set_psn(struct roce_conn *c, uint32_t sq_psn);
void roce_expect_psn(struct roce_conn *c, uint32_t rq_psn);
/* There are requests up to @head: send what may be sent. */
void roce_send(struct roce_conn *c, uint32_t head, uint64_t now);
/* A packet from the peer. */
void roce_receive(struct roce_conn *c, const struct roce_head *h, uint64_t now);
/* After a batch of packets: acknowledge them, and send on.  True: there is more to do. */
bool roce_flush(struct roce_conn *c, uint64_t now);
/* Send the acknowledgement that waits. */
void roce_send_late_answer(struct roce_conn *c);
/* It is @now. */
void roce_tick(struct roce_conn *c, uint64_t now);
/* When roce_tick() has something to do; 0: never. */
uint64_t roce_deadline(const struct roce_conn *c);
/* InfiniBand Architecture volume 1, table 45. */
uint64_t roce_rnr_ns(uint32_t code);

/* Between the files. */
void roce_answer(struct roce_conn *c, const struct roce_head *h, uint64_t now);
void roce_respond(struct roce_conn *c, const struct roce_head *h);
void roce_respond_uc(struct roce_conn *c, const struct roce_head *h);
/* Send what the responder owes.  True: some is left. */
bool roce_respond_flush(struct roce_conn *c, uint64_t now);
void roce_go_back(struct roce_conn *c);
/* The oldest request is over, and what takes effect here alone behind it. */
void roce_finish(struct roce_conn *c);
/* Send again from the oldest packet on, or fail if that has been tried too often. */
void roce_retry(struct roce_conn *c);
void roce_fail_request(struct roce_conn *c, enum ibv_wc_status status);
void roce_arm(struct roce_conn *c, uint64_t now);

static inline struct roce_wr *roce_wr_at(struct roce_conn *c, uint32_t i)
{
	return &c->req.wr[i & c->req.mask];
}

static inline uint8_t roce_service_of(const struct roce_config *cf)
{
	return cf->is_uc ? ROCE_UC : cf->is_xrc ? ROCE_XRC : ROCE_RC;
}

static inline bool roce_is_answered(const struct roce_wr *w)
{
	return w->kind >= REQ_READ && w->kind <= REQ_ADD;
}
