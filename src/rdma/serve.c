/* SPDX-License-Identifier: MIT */
/*
 * rdma/serve.c - requests of an initiator that may not reach our memory
 *
 *     the peer's ring -> MSG_WRITE, MSG_READ, MSG_ATOMIC -> serve() -> our memory
 *                                    the ring of replies <-
 *
 * This file checks the keys again, whatever the initiator has found.  It copies our own
 * memory by process_vm_readv() and process_vm_writev(), as an initiator would.  If the
 * program has unmapped memory that it has registered, these calls fail; a plain copy would
 * end the process.
 *
 * Runs in a thread that polls, or in the helper; the caller holds the queue pair's lock.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "rdma/serve.h"
#include "rdma/xrc.h"

#define LOCK_WAIT_NS NS_PER_S

uint64_t msg_end(const struct x_msg *m, uint64_t pos)
{
	return pos + sizeof(*m) +
	       (m->length + RING_LINE - 1) / RING_LINE * RING_LINE;
}

bool reply_header(const struct remote *r, uint64_t pos, struct x_msg *m,
		  bool *is_lie)
{
	uint64_t head = load_acq(&r->x->reply_head); /* E1 */

	if (head == pos)
		return false;
	memcpy(m, r->reply + (pos & (REPLY_SIZE - 1)), sizeof(*m));
	*is_lie = head < pos || head - pos > REPLY_SIZE || head % RING_LINE ||
		  m->op != MSG_REPLY || m->length > FRAGMENT ||
		  m->length + sizeof(*m) > head - pos;
	return !*is_lie;
}

void reply_read(const struct remote *r, uint64_t pos, void *to, size_t n)
{
	size_t at = pos & (REPLY_SIZE - 1), first = MIN(n, REPLY_SIZE - at);

	memcpy(to, r->reply + at, first);
	memcpy((uint8_t *)to + first, r->reply, n - first);
}

/* The two parts of @n bytes at @pos of a ring. */
static void ring_parts(const uint8_t *ring, size_t size, uint64_t pos, size_t n,
		       struct iovec *iov)
{
	size_t at = pos & (size - 1), first = MIN(n, size - at);

	iov[0] = (struct iovec){ (void *)(ring + at), first };
	iov[1] = (struct iovec){ (void *)ring, n - first };
}

/* Bytes @at to @end of two parts of a ring, and of our own memory. */
static void copy_bytes(const struct iovec *ring, uint8_t *mine, size_t at,
		       size_t end, bool is_write)
{
	while (at < end) {
		size_t first = ring[0].iov_len, off = at < first ? 0 : first;
		size_t n = MIN(end, off + ring[!!off].iov_len) - at;
		uint8_t *in_ring = (uint8_t *)ring[!!off].iov_base + at - off;

		memcpy(is_write ? mine + at : in_ring,
		       is_write ? in_ring : mine + at, n);
		at += n;
	}
}

/* Between two parts of a ring and our own memory. */
static bool copy_own(const struct iovec *ring, uint64_t addr, size_t n,
		     enum serve_how how)
{
	uint8_t *mine = (uint8_t *)(uintptr_t)addr;
	struct iovec there = { mine, n }, parts[3] = { ring[0], ring[1] };
	int saved = errno;
	size_t last = how == SERVE_WRITE_END ? reach_last(addr, n) : n;
	unsigned n_parts = reach_cut(parts, 2, last);
	ssize_t got =
	    how == SERVE_READ
		? process_vm_readv(getpid(), parts, n_parts, &there, 1, 0)
		: process_vm_writev(getpid(), parts, n_parts, &there, 1, 0);
	bool is_refused = got < 0 && (errno == EPERM || errno == ENOSYS);

	errno = saved;
	if (!is_refused)
		return got == (ssize_t)n;
	copy_bytes(ring, mine, 0, last, how != SERVE_READ);
	fence_full(); /* the last word comes last */
	copy_bytes(ring, mine, last, n, how != SERVE_READ);
	return true;
}

bool serve_copy(void *bytes, uint64_t addr, size_t n, enum serve_how how)
{
	const struct iovec parts[2] = { { bytes, n }, { bytes, 0 } };

	return copy_own(parts, addr, n, how);
}

static uint64_t find(struct qp *qp, const struct x_msg *m, uint64_t n,
		     uint32_t access)
{
	uint32_t pd = qp->xrc ? xrc_pd(qp, m->src_qpn) : qp->qp.pd->handle;

	if (!(qp->attr.qp_access_flags & access) || !pd)
		return 0;
	return mr_remote(self_current->dir, pd, qp->qp.qp_num, m->qkey, m->addr,
			 n, access);
}

static bool reply_fits(struct qp *qp, uint32_t length)
{
	const struct x_qp *x = qp->remote.x;
	uint64_t tail = load_acq(&x->reply_tail), head = qp->reply_head;

	if (load_rlx(&x->src_gen) != qp->x->gen)
		tail = 0;
	if (tail > head || head - tail > REPLY_SIZE || tail % RING_LINE) {
		qp->peer_lies = true;
		return false;
	}
	return sizeof(struct x_msg) + length + RING_LINE <=
	       REPLY_SIZE - (head - tail);
}

/* @m with the bytes at @addr of our memory, if it has any. */
static bool reply_put(struct qp *qp, const struct x_msg *m, uint64_t addr)
{
	uint8_t *ring = qp->reply;
	struct iovec iov[2];

	memcpy(ring + (qp->reply_head & (REPLY_SIZE - 1)), m, sizeof(*m));
	ring_parts(ring, REPLY_SIZE, qp->reply_head + sizeof(*m), m->length,
		   iov);
	if (m->length && !copy_own(iov, addr, m->length, SERVE_READ))
		return false;
	qp->reply_head = msg_end(m, qp->reply_head);
	store_rel(&qp->x->reply_head, qp->reply_head); /* E1 */
	remote_ring(&qp->remote, BELL_SEND, true);
	return true;
}

/* Refused: the initiator hears why, and this queue pair ends. */
static bool refuse(struct qp *qp)
{
	const struct x_msg m = { .op = MSG_REPLY,
				 .flags = MSG_LAST,
				 .imm = IBV_WC_REM_ACCESS_ERR };

	if (qp->init.qp_type == IBV_QPT_UC)
		return true; /* dropped */
	reply_put(qp, &m, 0);
	event_add(ctx_of(qp->qp.context), IBV_EVENT_QP_ACCESS_ERR, qp);
	qp_fail(qp);
	return true;
}

static bool serve_write(struct qp *qp, const struct remote *r,
			const struct x_msg *m, uint64_t pos)
{
	const struct x_msg done = { .op = MSG_REPLY, .flags = MSG_LAST };
	uint64_t addr = find(qp, m, m->length, IBV_ACCESS_REMOTE_WRITE);
	struct iovec iov[2];

	ring_parts(r->ring, r->ring_size, pos + sizeof(*m), m->length, iov);
	if (!addr || !copy_own(iov, addr, m->length, SERVE_WRITE_END))
		return refuse(qp);
	if (m->flags & MSG_LAST && qp->init.qp_type != IBV_QPT_UC)
		reply_put(qp, &done, 0);
	return true;
}

static bool serve_read(struct qp *qp, const struct x_msg *m)
{
	while (qp->served < m->total) {
		struct x_msg part = { .op = MSG_REPLY,
				      .length = MIN(m->total - qp->served,
						    FRAGMENT) };
		uint64_t addr = find(qp, m, m->total, IBV_ACCESS_REMOTE_READ);

		if (!reply_fits(qp, part.length))
			return false;
		if (qp->served + part.length == m->total)
			part.flags = MSG_LAST;
		if (!addr || !reply_put(qp, &part, addr + qp->served))
			return refuse(qp);
		qp->served += part.length;
	}
	qp->served = 0;
	return true;
}

/* Those who can reach our memory hold the same lock meanwhile (reach.c). */
static bool lock_own(struct qp *qp, bool *is_over)
{
	int saved = errno;
	uint64_t now = now_ns();
	bool is_mine = !flock(self_current->flock_fd, LOCK_EX | LOCK_NB);

	errno = saved;
	if (is_mine || !qp->served_ns)
		qp->served_ns = is_mine ? 0 : now;
	*is_over = !is_mine && now - qp->served_ns > LOCK_WAIT_NS;
	return is_mine;
}

static struct lock one; /* thread at a time: they share the descriptor */

/* Under both locks. */
static bool change(uint64_t addr, bool is_swap, uint64_t swap_add,
		   uint64_t compare, uint64_t *was)
{
	uint64_t new;

	if (!serve_copy(was, addr, sizeof(*was), SERVE_READ))
		return false;
	new = is_swap ? swap_add : *was + swap_add;
	return (is_swap && *was != compare) ||
	       serve_copy(&new, addr, sizeof(new), SERVE_WRITE);
}

bool serve_own_atomic(uint64_t addr, bool is_swap, uint64_t swap_add,
		      uint64_t compare, uint64_t *was)
{
	int saved = errno;
	uint64_t since = now_ns();
	bool is_mine;
	GUARD(&one);

	while (!(is_mine = !flock(self_current->flock_fd, LOCK_EX | LOCK_NB)) &&
	       now_ns() - since < LOCK_WAIT_NS)
		sched_yield();
	bool is_good = is_mine && change(addr, is_swap, swap_add, compare, was);
	flock(self_current->flock_fd, LOCK_UN);
	errno = saved;
	return is_good;
}

static bool serve_atomic(struct qp *qp, const struct remote *r,
			 const struct x_msg *m, uint64_t pos)
{
	struct x_msg done = { .op = MSG_REPLY, .flags = MSG_LAST, .length = 8 };
	uint64_t addr = find(qp, m, 8, IBV_ACCESS_REMOTE_ATOMIC);
	uint64_t operands[2], was = 0;
	bool is_over;
	GUARD(&one);

	if (!addr || addr % 8 || m->length != sizeof(operands))
		return refuse(qp);
	if (!lock_own(qp, &is_over))
		return is_over ? refuse(qp) : false;
	memcpy(operands, r->ring + ((pos + sizeof(*m)) & (r->ring_size - 1)),
	       sizeof(operands));
	bool is_good =
	    change(addr, m->imm, operands[m->imm ? 1 : 0], operands[0], &was);
	flock(self_current->flock_fd, LOCK_UN);
	return is_good ? reply_put(qp, &done, (uintptr_t)&was) : refuse(qp);
}

bool serve(struct qp *qp, const struct remote *r, const struct x_msg *m,
	   uint64_t pos)
{
	bool is_uc = qp->init.qp_type == IBV_QPT_UC, is_over;

	helper_start();
	if (is_uc && m->op != MSG_WRITE) {
		qp_fail(qp);
		return true;
	}
	if (!is_uc && !reply_fits(qp, MSG_LAST)) {
		if (qp->peer_lies)
			qp_fail(qp);
		return qp->peer_lies;
	}
	is_over = m->op == MSG_WRITE  ? serve_write(qp, r, m, pos)
		  : m->op == MSG_READ ? serve_read(qp, m)
				      : serve_atomic(qp, r, m, pos);
	qp->is_serving = !is_over;
	return is_over;
}
