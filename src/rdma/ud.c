/* SPDX-License-Identifier: MIT */
/*
 * rdma/ud.c - datagrams
 *
 *     sender:   makes a ring for each receiver, exported as a queue pair's memory is;
 *               connects to the receiver's unix socket and says where the ring is
 *     receiver: accepts, checks who it is, maps the ring, shows in x_qp.link[] how
 *               far it has read
 *
 * A datagram that finds no receive is lost.  So is a datagram that finds its ring full for
 * a second; as long as that receiver then does not read, the sender no longer waits for it.
 * The ring ends with its queue pair, so the end of a queue pair also waits up to a second
 * for receivers to read.  The receiver closes a stranger's connection without receiving
 * anything from it.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/libc.h"
#include "proto/shm/trust.h"
#include "rdma/lookup.h"
#include "rdma/mcast.h"
#include "rdma/stranger.h"
#include "rdma/wire.h"

#define UD_RING (1024u * 1024) /* a power of two */
#define LOOK_NS (20 * NS_PER_US)
#define HELLO_MS 5 /* for the greeting of one of our own user's */
#define GREETS 16  /* of one who gets no core for HELLO_MS, so often in a row */
#define PATIENCE_NS NS_PER_S
#define LINGER_US 50
#define ARRIVALS 256u
#define BATCH 64u
#define ACCEPTS 16

static const struct x_shape ring_shape = { 1, 1, UD_RING, false };

/* Who has greeted, until the queue pair looks. */
static struct {
	struct lock lock;
	struct path *first;
	uint32_t n;
} arrivals;

/*
 * The sender.
 */

static int greet_once(uint32_t block, const struct hello *h)
{
	int err = 0, s = lookup_connect(block);

	if (s < 0)
		return s;
	if (libc.send(s, h, sizeof(*h), MSG_NOSIGNAL) < 0)
		err = -errno;
	libc.close(s);
	return err;
}

/* Between our connect() and send(), the receiver may give up waiting for the greeting and
 * hang up.  Then send() fails with EPIPE, and we try again. */
int ud_greet(uint32_t block, const struct hello *h)
{
	int err = -EPIPE;

	for (int i = 0; i < GREETS && err == -EPIPE; i++)
		err = greet_once(block, h);
	return err;
}

/* Say to the process that has the receiver's block where our ring is. */
static int greet(uint32_t src_qpn, uint32_t dst_qpn, int fd)
{
	const struct hello h = { EXPORT_MAGIC, src_qpn, dst_qpn, fd };

	return ud_greet(dst_qpn >> QPN_BITS, &h);
}

static int make_ring(struct qp *qp, struct path *p)
{
	void *map;

	p->fd = export_new("osf-rdma-ud", export_qp_bytes(&ring_shape), &map);
	if (p->fd < 0)
		return p->fd;
	p->out = (struct out){ .x = map, .mask = UD_RING - 1 };
	p->out.ring = (uint8_t *)map + export_ring_offset(&ring_shape);
	p->out.x->version = EXPORT_VERSION;
	p->out.x->qpn = qp->qp.qp_num;
	p->out.x->type = IBV_QPT_UD;
	p->out.x->ring_size = ring_shape.ring_size;
	p->out.x->n_recv = ring_shape.n_recv;
	p->out.x->recv_sge = ring_shape.recv_sge;
	p->out.x->gen = (uint32_t)now_ns() | 1; /* tells rings apart */
	store_rel(&p->out.x->magic, EXPORT_MAGIC);
	return 0;
}

static void path_free(struct path *p)
{
	remote_close(&p->remote);
	if (p->out.x)
		munmap(p->out.x, export_qp_bytes(&ring_shape));
	if (p->fd >= 0)
		libc.close(p->fd);
	free(p);
}

static struct path *path_to(struct qp *qp, uint32_t qpn)
{
	for (struct path *p = qp->to; p; p = p->next)
		if (p->remote.qpn == qpn)
			return p;
	struct path *p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->fd = -1;
	p->link = N_LINKS;
	if (remote_open(&p->remote, qpn) || p->remote.type != IBV_QPT_UD ||
	    make_ring(qp, p) || greet(qp->qp.qp_num, qpn, p->fd)) {
		path_free(p);
		return NULL;
	}
	p->next = qp->to;
	return qp->to = p;
}

static void path_drop(struct path **list, struct path *p)
{
	while (*list != p)
		list = &(*list)->next;
	*list = p->next;
	path_free(p);
}

/* Where the receiver shows how far it has read us. */
static const struct x_link *link_of(struct path *p)
{
	const struct x_link *links = p->remote.x->link;

	for (uint32_t i = 0; i < N_LINKS; i++) {
		uint32_t at = p->link < N_LINKS ? p->link : i;

		if (load_acq(&links[at].gen) == p->out.x->gen &&
		    load_rlx(&links[at].qpn) == p->out.x->qpn) {
			p->link = at;
			return &links[at];
		}
		if (p->link < N_LINKS)
			return NULL;
	}
	return NULL;
}

static bool has_room(struct path *p, uint32_t length)
{
	if (out_fits(&p->out, length))
		return true;
	const struct x_link *l = link_of(p);
	uint64_t tail = l ? load_acq(&l->tail) : 0;
	if (tail >= p->out.tail && tail <= p->out.head && tail % RING_LINE == 0)
		p->out.tail = tail;
	return out_fits(&p->out, length);
}

int ud_gather(struct qp *qp, const struct swqe *w, struct iovec *iov)
{
	if (w->flags & IBV_SEND_INLINE) {
		iov[0] = (struct iovec){ (void *)w->inlined, w->length };
		return 1;
	}
	for (uint32_t i = 0; i < w->n_sge; i++) {
		void *at = mr_local(qp->qp.pd->handle, &w->sge[i], 0);

		if (!at)
			return -1;
		iov[i] = (struct iovec){ at, w->sge[i].length };
	}
	return (int)w->n_sge;
}

int ud_send_to(struct qp *qp, const struct swqe *w, uint32_t qpn,
	       const struct iovec *iov, int n, uint64_t route)
{
	struct path *p = qpn ? path_to(qp, qpn) : NULL;

	if (p && load_rlx(&p->remote.x->qpn) != qpn) {
		path_drop(&qp->to, p); /* it is gone; another may have come */
		p = path_to(qp, qpn);
	}
	if (!p)
		return IBV_WC_SUCCESS;
	if (!has_room(p, w->length)) {
		uint64_t now = now_ns();

		p->waits_ns = p->waits_ns ? p->waits_ns : now;
		if (now - p->waits_ns < PATIENCE_NS)
			return -EAGAIN;
		count(&rdma_counters->dropped, 1);
		return IBV_WC_SUCCESS;
	}
	p->waits_ns = 0;
	struct x_msg m = {
		.op = MSG_SEND,
		.flags =
		    (uint8_t)(MSG_FIRST | MSG_LAST |
			      (w->flags & IBV_SEND_SOLICITED ? MSG_SOLICITED
							     : 0) |
			      (w->opcode == IBV_WR_SEND_WITH_IMM ? MSG_IMM
								 : 0)),
		.imm = w->imm,
		.length = w->length,
		.total = w->length,
		.src_qpn = qp->qp.qp_num,
		.qkey = w->qkey,
		.addr = route,
	};
	out_put(&p->out, &m, iov, (uint32_t)n);
	remote_ring(&p->remote, BELL_RECV, m.flags & MSG_SOLICITED);
	return IBV_WC_SUCCESS;
}

/* A status, or -EAGAIN: it has to wait. */
int ud_send(struct qp *qp, struct swqe *w)
{
	struct iovec iov[N_SGE];

	if (w->is_far)
		return roce_ud_send(qp, w);
	if (w->length > device_mtu())
		return IBV_WC_LOC_LEN_ERR;
	if (unlikely(w->dest_qpn == MCAST_QPN))
		return mcast_send(qp, w);
	int n = ud_gather(qp, w, iov);
	return n < 0 ? (int)IBV_WC_LOC_PROT_ERR
		     : ud_send_to(qp, w, w->dest_qpn, iov, n, w->route);
}

/*
 * The receiver.
 */

/* Receives the greeting of a process that we may share memory with.  If it has not come
 * within HELLO_MS, this shuts the connection.  So a greeting that would come later fails at
 * its sender, who then greets again, and does not get lost. */
static bool receive_hello(int ch, struct hello *h)
{
	struct pollfd pfd = { ch, POLLIN, 0 };
	bool is_ours, has_fds;
	int on = 1;

	if (trust_check(ch) ||
	    libc.setsockopt(ch, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)))
		return false;
	if (libc.poll(&pfd, 1, HELLO_MS) != 1)
		libc.shutdown(ch, SHUT_RD);
	if (!stranger_look(ch, &is_ours, &has_fds) || has_fds ||
	    libc.recv(ch, h, sizeof(*h), MSG_DONTWAIT) != sizeof(*h))
		return false;
	if (h->magic == KNOCK_MAGIC)
		mcast_knocked();
	return h->magic == EXPORT_MAGIC;
}

static void arrive(int ch)
{
	struct hello h;
	struct path *p = calloc(1, sizeof(*p));

	if (p)
		p->fd = -1;
	if (!p || !receive_hello(ch, &h) ||
	    remote_adopt(&p->remote, channel_pid(ch), h.fd, h.src_qpn)) {
		free(p);
		return;
	}
	p->link = h.dst_qpn; /* until a queue pair takes it */
	GUARD(&arrivals.lock);
	if (arrivals.n == ARRIVALS) {
		path_free(p);
		return;
	}
	p->next = arrivals.first;
	arrivals.first = p;
	arrivals.n++;
}

void ud_accept(void)
{
	int ch, saved = errno;

	for (int i = 0; i < ACCEPTS; i++) {
		ch = libc.accept4(self_current->listen_fd, NULL, NULL,
				  SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (ch < 0)
			break;
		arrive(ch);
		stranger_close(ch);
	}
	errno = saved;
}

/* A free place to show how far it is read; those of the ended are free again. */
static int free_link(struct qp *qp)
{
	for (struct path **pp = &qp->from; *pp;) {
		struct path *p = *pp;

		if (peer_has_ended(p->remote.peer) &&
		    !remote_has_message(&p->remote, p->pos)) {
			store_rel(&qp->x->link[p->link].gen, 0);
			*pp = p->next;
			path_free(p);
		} else {
			pp = &p->next;
		}
	}
	for (uint32_t i = 0; i < N_LINKS; i++)
		if (!qp->x->link[i].gen)
			return (int)i;
	return -1;
}

static void take_arrivals(struct qp *qp)
{
	GUARD(&arrivals.lock);
	for (struct path **pp = &arrivals.first; *pp;) {
		struct path *p = *pp;

		if (p->link != qp->qp.qp_num) {
			pp = &p->next;
			continue;
		}
		*pp = p->next;
		arrivals.n--;
		int i = free_link(qp);
		if (i < 0) {
			path_free(p);
			continue;
		}
		p->link = (uint32_t)i;
		p->next = qp->from;
		qp->from = p;
		qp->x->link[i].qpn = p->remote.qpn;
		qp->x->link[i].tail = 0;
		store_rel(&qp->x->link[i].gen, p->remote.gen);
	}
}

/* One to a group that the queue pair has left is not for it. */
static bool is_for_member(const struct qp *qp, const struct x_msg *m)
{
	return (m->addr >> 8 & 0xff) != MCAST_INDEX ||
	       mcast_group(qp, (uint32_t)(m->addr >> 32));
}

/* What one sender has sent.  False: it lies, and is heard no more. */
static bool read_path(struct qp *qp, struct path *p, struct cq *cq)
{
	struct x_msg m;
	bool is_lie = false;

	for (uint32_t i = 0; i < BATCH && !cq_is_full(cq); i++) {
		if (!rx_header(&p->remote, p->pos, &m, &is_lie))
			return !is_lie;
		if (m.op != MSG_SEND || m.length != m.total ||
		    m.length > MTU_BYTES ||
		    (m.flags & (MSG_FIRST | MSG_LAST)) !=
			(MSG_FIRST | MSG_LAST))
			return false;
		if (m.qkey != qp->attr.qkey || !is_for_member(qp, &m) ||
		    !rx_fragment(qp, &p->remote, &m, p->pos))
			count(&rdma_counters->dropped, 1);
		if (qp->attr.qp_state == IBV_QPS_ERR)
			return true;
		store_rlx(&p->pos, p->pos + sizeof(m) +
				       (m.length + RING_LINE - 1) / RING_LINE *
					   RING_LINE);
		store_rel(&qp->x->link[p->link].tail, p->pos);
	}
	return true;
}

void ud_rx(struct qp *qp, struct cq *cq)
{
	uint64_t now = now_ns();

	if (now - qp->looked_ns > LOOK_NS) {
		qp->looked_ns = now;
		ud_accept();
	}
	if (unlikely(load_rlx(&arrivals.n)))
		take_arrivals(qp);
	for (struct path *p = qp->from, *next; p; p = next) {
		next = p->next;
		if (!remote_has_message(&p->remote, p->pos) ||
		    read_path(qp, p, cq))
			continue;
		store_rel(&qp->x->link[p->link].gen, 0);
		path_drop(&qp->from, p);
	}
}

static bool is_unread(struct path *p)
{
	const struct x_link *l = link_of(p);

	if (!p->out.head || p->remote.peer->pid == getpid() ||
	    load_rlx(&p->remote.x->qpn) != p->remote.qpn)
		return false;
	return (!l || load_acq(&l->tail) != p->out.head) &&
	       !peer_has_ended(p->remote.peer);
}

/* The program has been told that its datagrams were sent, and may end. */
void ud_linger(struct qp *qp)
{
	uint64_t since = now_ns();

	for (struct path *p = qp->to; p; p = p->next)
		while (is_unread(p) && now_ns() - since < PATIENCE_NS)
			usleep(LINGER_US);
}

void ud_close(struct qp *qp)
{
	while (qp->to)
		path_drop(&qp->to, qp->to);
	while (qp->from)
		path_drop(&qp->from, qp->from);
}
