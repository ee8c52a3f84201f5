/* SPDX-License-Identifier: MIT */
/*
 * cm/bridge.c - see cm/bridge.h
 *
 *     active   REQ ->          <- REP     RTU ->      DREQ ->
 *     passive  (a connection to the listener's unix name, as a process of this host makes it)
 *
 * The id of a connection begins with the process's block, so any process that reads an
 * answer knows to which process it belongs.  A REQ has no such id.  The process that reads
 * it tries the listener's name.  If the name belongs to another process of this host, it
 * passes the REQ to all of them, and the listener's process takes it.
 *
 * The bridge sends again what is not answered, as the CM of InfiniBand does.  It answers
 * every DREQ, whether it knows the connection or not.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/nocancel.h"
#include "cm/bridge.h"
#include "cm/mad.h"
#include "rdma/wire.h"

#define N_BRIDGES 1024u /* connections at a time */
#define INDEX_BITS 10
#define BLOCK_SHIFT 18
#define RESEND_NS (400 * NS_PER_MS)
#define TRIES 15u
#define TRIES_DREQ 5u
#define REJ_TIMED_OUT 4
/* As in link.c: a listener may come so much later. */
#define LISTENER_NS (100 * NS_PER_MS)
#define ASK_AGAIN_NS (20 * NS_PER_MS)

enum bridge_state {
	B_FREE,
	B_NEW, /* no REQ yet */
	B_REQ_SENT,
	B_REQ_RCVD,
	B_REP_SENT,
	B_UP,
	B_DREQ_SENT
};

struct bridge {
	enum bridge_state state;
	uint32_t id, remote_id, remote_qpn;
	int sock, held;
	struct roce_flow flow;
	struct mad last; /* what was sent */
	bool has_last;
	uint32_t tries; /* left */
	uint64_t resend_ns;
	uint64_t listener_ns; /* until then a listener may come */
};

static struct lock bridge_lock;
static struct bridge bridges[N_BRIDGES];
static uint32_t n_used; /* entries below were in use */
static int set = -1;
static uint32_t generation;

static void bridge_free(struct bridge *b)
{
	if (b->sock >= 0)
		nocancel_close(b->sock);
	if (b->held >= 0)
		nocancel_close(b->held);
	b->state = B_FREE;
}

static struct bridge *bridge_new(const struct roce_flow *f, int sock, int held)
{
	static uint32_t uses;
	struct epoll_event ev = { .events = EPOLLIN };

	for (uint32_t i = 0; i < N_BRIDGES; i++) {
		struct bridge *b = &bridges[i];

		if (b->state != B_FREE)
			continue;
		*b = (struct bridge){ .state = B_NEW,
				      .id = self_current->block << BLOCK_SHIFT |
					    (++uses & 0xff) << INDEX_BITS | i,
				      .sock = sock,
				      .held = held,
				      .flow = *f };
		ev.data.u64 = i;
		if (epoll_ctl(set, EPOLL_CTL_ADD, sock, &ev)) {
			b->state = B_FREE;
			return NULL;
		}
		n_used = MAX(n_used, i + 1);
		return b;
	}
	return NULL;
}

static struct bridge *bridge_at(uint32_t id)
{
	struct bridge *b = &bridges[id % N_BRIDGES];

	return b->state != B_FREE && b->id == id ? b : NULL;
}

/*
 * Sending.
 */

static void send_mad(const struct roce_flow *f, const struct mad *d)
{
	static uint32_t psn;
	uint8_t bytes[MAD_BYTES];
	const struct iovec iov = { bytes, sizeof(bytes) };
	struct roce_head h = { .service = ROCE_UD,
			       .op = OP_SEND_ONLY,
			       .dest_qpn = MAD_QPN,
			       .psn = psn_add(psn, 1),
			       .qkey = MAD_QKEY,
			       .src_qpn = MAD_QPN };

	psn = h.psn;
	mad_build(d, bytes);
	wire_put(f, &h, &iov, 1);
	wire_flush();
}

/* @tries: how often until it is answered; 0: it is not. */
static void tell(struct bridge *b, enum mad_kind kind, const struct msg *m,
		 uint32_t tries)
{
	struct mad *d = &b->last;
	uint64_t tid = d->tid;

	memset(d, 0, sizeof(*d));
	d->kind = (uint8_t)kind;
	d->local_id = b->id;
	d->remote_id = b->remote_id;
	d->remote_qpn = b->remote_qpn;
	d->guid = device_guid();
	/* An answer has the number of what it answers. */
	d->tid = kind == MAD_REQ || kind == MAD_DREQ || kind == MAD_SIDR_REQ
		     ? (uint64_t)kind << 32 | b->id
		     : tid;
	if (m)
		d->m = *m;
	if (kind == MAD_REQ) {
		struct ibv_port_attr port;
		union ibv_gid gid;

		device_port(1, &port);
		d->mtu = (uint8_t)port.active_mtu;
		wire_gid(&b->flow, b->flow.src, &gid);
		memcpy(d->sgid, gid.raw, sizeof(d->sgid));
		wire_gid(&b->flow, b->flow.dst, &gid);
		memcpy(d->dgid, gid.raw, sizeof(d->dgid));
	}
	b->has_last = true;
	b->tries = tries;
	b->resend_ns = tries ? now_ns() + RESEND_NS : 0;
	if (tries)
		wire_wake_at(b->resend_ns);
	send_mad(&b->flow, d);
}

static void reject(struct bridge *b, uint8_t reason)
{
	const struct msg m = { .reason = reason };

	tell(b, MAD_REJ, &m, 0);
	bridge_free(b);
}

static void hang_up(struct bridge *b)
{
	if (b->sock >= 0)
		nocancel_close(b->sock);
	b->sock = -1;
	b->state = B_DREQ_SENT;
	tell(b, MAD_DREQ, NULL, TRIES_DREQ);
}

/*
 * From the program.
 */

static void on_end(struct bridge *b)
{
	bool is_sidr = b->has_last && b->last.kind == MAD_SIDR_REQ;

	switch (b->state) {
	case B_REQ_SENT:
		if (is_sidr)
			bridge_free(b);
		else
			reject(b, REJ_TIMED_OUT);
		return;
	case B_REQ_RCVD:
	case B_REP_SENT:
		reject(b, REJ_CONSUMER);
		return;
	case B_UP:
		hang_up(b);
		return;
	default:
		bridge_free(b);
	}
}

static void on_msg(struct bridge *b, const struct msg *m)
{
	switch (m->kind) {
	case MSG_REQ:
		b->state = B_REQ_SENT;
		b->listener_ns = now_ns() + LISTENER_NS;
		tell(b, MAD_REQ, m, TRIES);
		return;
	case MSG_SIDR_REQ:
		b->state = B_REQ_SENT;
		b->listener_ns = now_ns() + LISTENER_NS;
		tell(b, MAD_SIDR_REQ, m, TRIES);
		return;
	case MSG_REP:
		b->state = B_REP_SENT;
		tell(b, MAD_REP, m, TRIES);
		return;
	case MSG_RTU:
		b->state = B_UP;
		tell(b, MAD_RTU, NULL, 0);
		return;
	case MSG_SIDR_REP:
		tell(b, MAD_SIDR_REP, m, 0);
		bridge_free(b);
		return;
	case MSG_REJ:
		tell(b, MAD_REJ, m, 0);
		bridge_free(b);
		return;
	default:
		hang_up(b);
	}
}

static void read_socket(struct bridge *b)
{
	struct msg m;
	int err = 0;

	while (b->state != B_FREE && b->sock >= 0 && !err) {
		err = msg_recv(b->sock, &m);
		if (!err)
			on_msg(b, &m);
		else if (err != -EAGAIN && err != -EINTR)
			on_end(b);
	}
}

static void read_sockets(void)
{
	struct epoll_event evs[16];
	int n;
	GUARD(&bridge_lock);

	n = nocancel_epoll_wait(set, evs, ARRAY_LEN(evs), 0);
	for (int i = 0; i < n; i++)
		read_socket(&bridges[evs[i].data.u64 % N_BRIDGES]);
}

/*
 * From the other host.
 */

static void put_address(const struct roce_flow *f, const uint8_t *from,
			union addr *a)
{
	uint16_t port = a->in.sin_port;

	memset(a, 0, sizeof(*a));
	a->sa.sa_family = f->is_v6 ? AF_INET6 : AF_INET;
	a->in.sin_port = port;
	if (f->is_v6)
		memcpy(&a->in6.sin6_addr, from, 16);
	else
		memcpy(&a->in.sin_addr, from, 4);
}

/* The way back. */
static struct roce_flow reverse(const struct roce_flow *f)
{
	struct roce_flow back = { .is_v6 = f->is_v6,
				  .src_port = ROCE_PORT,
				  .dst_port = ROCE_PORT };

	memcpy(back.src, f->dst, sizeof(back.src));
	memcpy(back.dst, f->src, sizeof(back.dst));
	return back;
}

static void refuse(const struct roce_flow *f, const struct mad *req)
{
	bool is_sidr = req->kind == MAD_SIDR_REQ;
	const struct mad d = {
		.kind = is_sidr ? MAD_SIDR_REP : MAD_REJ,
		.tid = req->tid,
		.remote_id = req->local_id,
		.m = { .reason =
			   is_sidr ? SIDR_UNSUPPORTED : REJ_INVALID_SERVICE_ID,
		       .ps = req->m.ps,
		       .dst = req->m.dst },
	};

	send_mad(f, &d);
}

/* Connect to the listener.  -EXDEV: it is another process's. */
static int find_listener(const struct msg *m)
{
	struct ucred who;
	socklen_t len = sizeof(who);
	int s =
	    socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (s < 0)
		return -errno;
	int err = addr_connect(s, m->ps, &m->dst);
	if (!err && (getsockopt(s, SOL_SOCKET, SO_PEERCRED, &who, &len) ||
		     who.pid != getpid()))
		err = -EXDEV;
	if (err)
		nocancel_close(s);
	return err ? err : s;
}

static bool is_repeated(const struct roce_flow *back, const struct mad *d)
{
	for (uint32_t i = 0; i < n_used; i++) {
		struct bridge *b = &bridges[i];

		if (b->state < B_REQ_RCVD || b->remote_id != d->local_id ||
		    memcmp(&b->flow, back, sizeof(*back)))
			continue;
		if (b->state == B_REP_SENT)
			send_mad(&b->flow, &b->last);
		return true;
	}
	return false;
}

static enum wire_verdict on_request(const struct roce_flow *back, struct mad *d,
				    bool is_first_hand)
{
	if (is_repeated(back, d))
		return WIRE_TAKEN;
	int s = find_listener(&d->m);
	if (s == -ECONNREFUSED && is_first_hand)
		refuse(back, d);
	if (s < 0)
		return s == -EXDEV ? WIRE_FOR_ALL : WIRE_TAKEN;
	struct bridge *b = bridge_new(back, s, -1);
	if (!b) {
		nocancel_close(s);
		return WIRE_TAKEN;
	}
	b->state = B_REQ_RCVD;
	b->remote_id = d->local_id;
	b->remote_qpn = d->m.p.qp_num;
	b->last.tid = d->tid;
	if (!msg_check(&d->m, sizeof(d->m)) || msg_send(s, &d->m))
		bridge_free(b);
	return WIRE_TAKEN;
}

/* Hand a message on, and close if it is the last one. */
static void pass_on(struct bridge *b, const struct mad *d, bool is_last)
{
	if (msg_check(&d->m, sizeof(d->m)) && b->sock >= 0)
		(void)!msg_send(b->sock, &d->m);
	if (is_last)
		bridge_free(b);
}

static void on_rep(struct bridge *b, const struct mad *d)
{
	if (b->state == B_UP && b->last.kind == MAD_RTU) {
		send_mad(&b->flow, &b->last); /* it was lost */
		return;
	}
	if (b->state != B_REQ_SENT || b->last.kind != MAD_REQ || !b->tries)
		return;
	b->resend_ns = 0;
	b->tries = 0;
	b->remote_id = d->local_id;
	b->remote_qpn = d->m.p.qp_num;
	b->last.tid = d->tid;
	pass_on(b, d, false);
}

/* Nobody listens.  True: that may change, and the request is sent again. */
static bool awaits_listener(struct bridge *b, const struct mad *d)
{
	uint8_t nobody =
	    d->kind == MAD_REJ ? REJ_INVALID_SERVICE_ID : SIDR_UNSUPPORTED;
	uint64_t now = now_ns();

	if (b->state != B_REQ_SENT || !b->tries || d->m.reason != nobody ||
	    now >= b->listener_ns)
		return false;
	b->resend_ns = now + ASK_AGAIN_NS;
	wire_wake_at(b->resend_ns);
	return true;
}

static void on_answer(struct bridge *b, const struct mad *d)
{
	switch (d->kind) {
	case MAD_REP:
		on_rep(b, d);
		return;
	case MAD_RTU:
		if (b->state != B_REP_SENT)
			return;
		b->state = B_UP;
		b->resend_ns = 0;
		pass_on(b, d, false);
		return;
	case MAD_MRA: /* it takes its time to answer a REQ or a REP */
		if (b->tries && b->state <= B_REP_SENT)
			b->tries = TRIES;
		return;
	case MAD_REJ:
		if (b->state >= B_REQ_SENT && b->state <= B_REP_SENT &&
		    !awaits_listener(b, d))
			pass_on(b, d, true);
		return;
	case MAD_SIDR_REP:
		if (b->state == B_REQ_SENT && b->last.kind == MAD_SIDR_REQ &&
		    !awaits_listener(b, d))
			pass_on(b, d, true);
		return;
	case MAD_DREQ:
		pass_on(b, d, true);
		return;
	case MAD_DREP:
		if (b->state == B_DREQ_SENT)
			bridge_free(b);
		return;
	default:
		return;
	}
}

static void answer_dreq(const struct roce_flow *back, const struct mad *d)
{
	const struct mad drep = { .kind = MAD_DREP,
				  .tid = d->tid,
				  .local_id = d->remote_id,
				  .remote_id = d->local_id };

	send_mad(back, &drep);
}

static enum wire_verdict on_mad(const struct roce_flow *f, const uint8_t *p,
				size_t n, bool is_first_hand, uint32_t *block)
{
	struct roce_flow back = reverse(f);
	struct mad d;
	GUARD(&bridge_lock);

	if (!mad_parse(p, n, &d))
		return WIRE_TAKEN;
	put_address(f, f->src, &d.m.src);
	put_address(f, f->dst, &d.m.dst);
	if (d.kind == MAD_REQ || d.kind == MAD_SIDR_REQ)
		return on_request(&back, &d, is_first_hand);
	*block = d.remote_id >> BLOCK_SHIFT;
	if (*block != self_current->block)
		return WIRE_FOR_BLOCK;
	struct bridge *b = bridge_at(d.remote_id);
	if (d.kind == MAD_DREQ)
		answer_dreq(&back, &d);
	if (b && !memcmp(&b->flow, &back, sizeof(back)))
		on_answer(b, &d);
	return WIRE_TAKEN;
}

static uint64_t on_time(uint64_t now)
{
	uint64_t next = 0;
	GUARD(&bridge_lock);

	for (uint32_t i = 0; i < n_used; i++) {
		struct bridge *b = &bridges[i];

		if (b->state == B_FREE || !b->resend_ns)
			continue;
		if (now >= b->resend_ns && !--b->tries) {
			b->resend_ns = 0; /* the id's own deadline ends it */
			if (b->state == B_DREQ_SENT)
				bridge_free(b);
			continue;
		}
		if (now >= b->resend_ns) {
			b->resend_ns = now + RESEND_NS;
			send_mad(&b->flow, &b->last);
		}
		if (!next || b->resend_ns < next)
			next = b->resend_ns;
	}
	return next;
}

/*
 * From link.c.
 */

static const struct wire_bridge hooks = { on_mad, on_time, read_sockets };

/* A child of a fork has none of it. */
static void forget_parents(void)
{
	if (generation == self_generation())
		return;
	for (uint32_t i = 0; i < n_used; i++)
		if (bridges[i].state != B_FREE)
			bridge_free(&bridges[i]);
	if (set >= 0)
		nocancel_close(set);
	set = -1;
	n_used = 0;
	generation = self_generation();
}

int bridge_open(void)
{
	int err = wire_open();

	if (err)
		return err;
	GUARD(&bridge_lock);
	forget_parents();
	if (set < 0)
		set = epoll_create1(EPOLL_CLOEXEC);
	if (set < 0)
		return -errno;
	wire_set_bridge(&hooks, set);
	return 0;
}

void bridge_listen(void)
{
	if (!device_is_alone())
		(void)!bridge_open();
}

int bridge_connect(const union addr *src, const union addr *dst, int held)
{
	union ibv_gid sgid, dgid;
	struct roce_flow f;
	int ends[2], err = bridge_open();

	if (err)
		return err;
	addr_gid(src, &sgid);
	addr_gid(dst, &dgid);
	if (!wire_flow(&sgid, &dgid, &f))
		return -ENETUNREACH;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC,
		       0, ends))
		return -errno;
	GUARD(&bridge_lock);
	if (bridge_new(&f, ends[1], held))
		return ends[0];
	nocancel_close(ends[0]);
	nocancel_close(ends[1]);
	return -ENOBUFS;
}

/* At the end of the program: what it has said last, and the end of what it has not ended. */
__attribute__((destructor)) static void say_goodbye(void)
{
	if (set < 0 || generation != self_generation() ||
	    !lock_try(&bridge_lock))
		return;
	for (uint32_t i = 0; i < n_used; i++) {
		read_socket(&bridges[i]);
		if (bridges[i].state == B_UP)
			hang_up(&bridges[i]);
	}
	lock_put(&bridge_lock);
}
