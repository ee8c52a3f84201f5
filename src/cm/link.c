/* SPDX-License-Identifier: MIT */
/*
 * cm/link.c - connections: what their messages do to ids
 *
 *     active               passive
 *     REQ_SENT    REQ ->   NEW, REQ_RCVD    event CONNECT_REQUEST
 *     REP_RCVD  <- REP     REP_SENT         event CONNECT_RESPONSE, by the program's accept
 *     ESTABLISHED RTU ->   ESTABLISHED      event ESTABLISHED, by librdmacm's accept
 *     TIMEWAIT   DREQ ->   TIMEWAIT         event DISCONNECTED at both ends
 *
 * When a process ends, the kernel's CM sends a REJ for a connection that is not
 * established, and a DREQ otherwise.  Here the end of the unix connection has the same
 * effect.  So a peer that is killed causes an event, and one that is stopped causes
 * UNREACHABLE after a while.  A message that its sender may not send in this state ends the
 * connection in the same way.
 *
 * On a wire a DREQ is slow, and the program has seen all messages before it comes.
 * Programs rely on that: libfabric destroys the queue pair, and loses the completions that
 * it has not polled.  So DISCONNECTED waits a while for a program that has completions to
 * poll (ENDING).
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "cm/bridge.h"
#include "cm/id.h"
#include "proto/shm/trust.h"
#include "rdma/stranger.h"
#include "rdma/users.h"

#define ANSWER_NS (60 * NS_PER_S) /* as long as the kernel tries in all */
#define FIRST_NS (10 * NS_PER_S)  /* from a connection to its REQ */
#define RETRY_NS                                                               \
	(20 *                                                                  \
	 NS_PER_MS) /* a full backlog, no descriptor left, nobody listens */
/* How long to wait for a listener that is not there yet.  perftest -R connects twice, and
 * its server makes a new listener of the same port for the second connection.  On a network
 * the REQ takes longer than that. */
#define LISTENER_NS (100 * NS_PER_MS)
#define TIMEWAIT_NS (1 * NS_PER_S)
#define ENDING_NS (50 * NS_PER_MS) /* from the first look at the end */
#define LOOK_NS (1 * NS_PER_MS)    /* for completions that are not polled */
#define BACKLOG_MAX 4096
#define N_NEW 64  /* connections without a REQ, of a listener */
#define N_TURN 64 /* connections and messages in one go */

static bool is_ud(const struct cm_id *id) { return id->qp_type == IBV_QPT_UD; }

static void set_state(struct cm_id *id, enum state state, uint64_t after_ns)
{
	id->state = state;
	file_set_deadline(id, after_ns ? now_ns() + after_ns : 0);
}

void link_close(struct cm_id *id)
{
	file_unwatch(id);
	if (id->sock >= 0)
		stranger_close(id->sock);
	id->sock = -1;
}

/* The link is over, and so says an event. */
static void end(struct cm_id *id, enum event_kind kind, int status)
{
	link_close(id);
	set_state(id, ID_OVER, 0);
	event_add_plain(id, kind, status);
}

static void end_established(struct cm_id *id)
{
	link_close(id);
	event_add_plain(id, EVENT_DISCONNECTED, 0);
	set_state(id, ID_TIMEWAIT, TIMEWAIT_NS);
}

/* The other end has ended it, a while after its last message as it were. */
static void other_end_has_ended(struct cm_id *id)
{
	uint64_t now = now_ns();

	if (id->state != ID_ENDING)
		id->give_up_ns = now + ENDING_NS;
	link_close(id);
	if (now < id->give_up_ns && users_have_unpolled(id->own.qp_num))
		set_state(id, ID_ENDING, LOOK_NS);
	else
		end_established(id);
}

void link_send(struct cm_id *id, enum msg_kind kind, uint8_t reason)
{
	struct msg m = { .magic = MSG_MAGIC,
			 .version = MSG_VERSION,
			 .kind = (uint8_t)kind,
			 .reason = reason,
			 .ps = id->ps,
			 .src = id->src,
			 .dst = id->dst,
			 .p = id->own };

	m.p.qp_type = id->qp_type;
	if (m.p.private_len > private_max(kind))
		m.p.private_len = 0;
	/* If it fails, the other end has closed, and that is read. */
	if (id->sock >= 0 && msg_send(id->sock, &m))
		return;
}

/*
 * The active end.
 */

static int make_socket(struct cm_id *id)
{
	id->sock = libc.socket(
	    AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (id->sock < 0)
		return -errno;
	stranger_refuse(id->sock);
	return 0;
}

int link_bind(struct cm_id *id)
{
	int err = make_socket(id);

	if (err)
		return err;
	err = addr_bind(id->sock, id->ps, &id->src, id->is_v6_only);
	if (!err)
		return 0;
	link_close(id);
	/* Another id of the same port may be there, as long as only one listens. */
	return err == -EADDRINUSE && id->may_reuse ? 0 : err;
}

/* A listener's backlog has stayed full, or nobody listens. */
static void give_up(struct cm_id *id)
{
	if (!id->is_refused)
		end(id, EVENT_UNREACHABLE, -ETIMEDOUT);
	else if (is_ud(id))
		end(id, EVENT_UNREACHABLE, SIDR_UNSUPPORTED);
	else
		end(id, EVENT_REJECTED, REJ_INVALID_SERVICE_ID);
}

static void send_request(struct cm_id *id)
{
	set_state(id, ID_REQ_SENT, ANSWER_NS);
	link_send(id, is_ud(id) ? MSG_SIDR_REQ : MSG_REQ, 0);
	file_watch(id);
}

/* To another host.  The bridge has the socket that keeps our port. */
static int connect_far(struct cm_id *id)
{
	int s = bridge_connect(&id->src, &id->dst, id->sock);

	if (s < 0) {
		end(id, EVENT_UNREACHABLE, s);
		return 0;
	}
	id->sock = s;
	send_request(id);
	return 0;
}

int link_connect(struct cm_id *id)
{
	if (addr_check_local(&id->dst))
		return connect_far(id);
	int err = id->sock < 0 ? make_socket(id) : 0;

	if (!err)
		err = addr_connect(id->sock, id->ps, &id->dst);
	if (err == -EAGAIN || err == -ECONNREFUSED) {
		bool is_refused = err == -ECONNREFUSED;

		if (id->state != ID_CONNECTING || is_refused != id->is_refused)
			id->give_up_ns =
			    now_ns() + (is_refused ? LISTENER_NS : ANSWER_NS);
		id->is_refused = is_refused;
		set_state(id, ID_CONNECTING, RETRY_NS);
		return 0;
	}
	if (!err)
		err = trust_check(id->sock);
	if (err) {
		end(id, EVENT_UNREACHABLE, err);
		return 0;
	}
	send_request(id);
	return 0;
}

static bool take_rep(struct cm_id *id, const struct msg *m)
{
	struct cm_event *e = event_new(id, EVENT_CONNECT_RESPONSE, 0);

	if (!e)
		return false;
	id->peer = m->p;
	id->own.responder_resources =
	    MIN(id->own.responder_resources, m->p.initiator_depth);
	id->own.initiator_depth =
	    MIN(id->own.initiator_depth, m->p.responder_resources);
	event_put_conn(e, &id->peer, private_max(MSG_REP));
	set_state(id, ID_REP_RCVD, 0);
	event_queue(e);
	return true;
}

static bool take_sidr_rep(struct cm_id *id, const struct msg *m)
{
	struct cm_event *e;

	if (m->reason) {
		end(id, EVENT_UNREACHABLE, m->reason);
		return false;
	}
	e = event_new(id, EVENT_ESTABLISHED, 0);
	if (!e)
		return false;
	id->peer = m->p;
	event_put_ud(e, id, private_max(MSG_SIDR_REP));
	link_close(id);
	set_state(id, ID_OVER, 0);
	event_queue(e);
	return false;
}

static bool take_rej(struct cm_id *id, const struct msg *m)
{
	struct cm_event *e = event_new(id, EVENT_REJECTED, m->reason);

	if (!e)
		return false;
	event_put_conn(e, &m->p, private_max(MSG_REJ));
	link_close(id);
	set_state(id, ID_OVER, 0);
	event_queue(e);
	return false;
}

/*
 * The passive end.
 */

int link_listen(struct cm_id *id, int backlog)
{
	if (backlog <= 0 || backlog > BACKLOG_MAX)
		backlog = BACKLOG_MAX;
	int err = id->sock < 0 ? link_bind(id) : 0;
	if (err)
		return err;
	if (id->sock < 0)
		return -EADDRINUSE;
	if (libc.listen(id->sock, backlog))
		return -errno;
	id->backlog = (uint32_t)backlog;
	id->state = ID_LISTEN;
	bridge_listen();
	file_watch(id);
	return 0;
}

/* Who has connected longest ago and said nothing makes room. */
static void drop_new(struct cm_id *listener)
{
	struct cm_id *oldest = NULL;

	for (uint32_t i = 1; i < id_end(); i++) {
		struct cm_id *id = id_at(i);

		if (id && id->listener == listener && id->state == ID_NEW &&
		    (!oldest || id->deadline_ns < oldest->deadline_ns))
			oldest = id;
	}
	if (oldest)
		id_free(oldest);
}

/* False: there is nobody else, or no room. */
static bool accept_one(struct cm_id *listener)
{
	int s = nocancel_accept4(listener->sock, NULL, NULL,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (s < 0 && errno != EAGAIN && errno != ECONNABORTED) {
		file_unwatch(listener);
		file_set_deadline(listener, now_ns() + RETRY_NS);
	}
	if (s < 0)
		return errno == ECONNABORTED;
	struct cm_id *id =
	    trust_check(s)
		? NULL
		: id_new(listener->file, 0, listener->ps, listener->qp_type);
	if (!id) {
		stranger_close(s);
		return true;
	}
	id->sock = s;
	id->ack_timeout = listener->ack_timeout;
	id->listener = listener;
	listener->n_new++;
	set_state(id, ID_NEW, FIRST_NS);
	file_watch(id);
	if (listener->n_new > N_NEW)
		drop_new(listener);
	link_ready(id);
	return true;
}

static void accept_some(struct cm_id *listener)
{
	for (int i = 0; i < N_TURN && listener->n_waiting < listener->backlog;
	     i++)
		if (!accept_one(listener))
			return;
}

uint32_t param_psn(void)
{
	return ((uint32_t)now_ns() & 0xffffff) | 1; /* 0 is none */
}

/* Is it for this listener? */
static bool request_fits(const struct cm_id *listener, const struct msg *m)
{
	uint8_t wanted = listener->qp_type;

	if (m->ps != listener->ps ||
	    m->kind != (is_ud(listener) ? MSG_SIDR_REQ : MSG_REQ))
		return false;
	/* An initiator of XRC connects to a target. */
	if (wanted == IBV_QPT_XRC_RECV)
		wanted = IBV_QPT_XRC_SEND;
	if (m->p.qp_type != wanted ||
	    addr_port(&m->dst) != addr_port(&listener->src))
		return false;
	return addr_is_any(&listener->src) || is_ud(listener) ||
	       addr_is_equal(&listener->src, &m->dst) ||
	       listener->src.sa.sa_family != m->dst.sa.sa_family;
}

static void reject(struct cm_id *id, uint8_t reason)
{
	if (is_ud(id))
		link_send(id, MSG_SIDR_REP, SIDR_UNSUPPORTED);
	else
		link_send(id, MSG_REJ, reason);
	id_free(id);
}

static bool take_request(struct cm_id *id, const struct msg *m)
{
	struct cm_id *listener = id->listener;
	struct cm_event *e;

	if (!request_fits(listener, m)) {
		reject(id, REJ_INVALID_SERVICE_ID);
		return false;
	}
	e = event_new(listener, EVENT_CONNECT_REQUEST, 0);
	if (!e) {
		reject(id, REJ_CONSUMER);
		return false;
	}
	id->src = m->dst;
	id->dst = m->src;
	id->has_device = id->has_route = true;
	id->peer = m->p;
	id->own.psn = param_psn();
	id->own.responder_resources = m->p.initiator_depth;
	id->own.initiator_depth = m->p.responder_resources;
	e->child = id;
	e->resp.id = id->handle;
	if (is_ud(id))
		event_put_ud(e, id, private_max(MSG_SIDR_REQ));
	else
		event_put_conn(e, &id->peer, private_max(MSG_REQ));
	set_state(id, ID_REQ_RCVD, 0);
	listener->n_new--;
	listener->n_waiting++;
	event_queue(e);
	return true;
}

void link_establish(struct cm_id *id)
{
	if (id->state != ID_REP_SENT)
		return;
	set_state(id, ID_ESTABLISHED, 0);
	event_add_plain(id, EVENT_ESTABLISHED, 0);
}

void link_disconnect(struct cm_id *id)
{
	link_send(id, MSG_DREQ, 0);
	end_established(id);
}

/*
 * Both.
 */

static void hung_up(struct cm_id *id)
{
	switch (id->state) {
	case ID_NEW:
		id_free(id);
		return;
	case ID_REQ_RCVD:
		link_close(id);
		id->has_hung_up = true;
		return;
	case ID_REQ_SENT:
		if (is_ud(id))
			end(id, EVENT_UNREACHABLE, SIDR_REJECT);
		else
			end(id, EVENT_REJECTED, REJ_CONSUMER);
		return;
	case ID_REP_RCVD:
	case ID_REP_SENT:
		end(id, EVENT_REJECTED, REJ_CONSUMER);
		return;
	case ID_ESTABLISHED:
		other_end_has_ended(id);
		return;
	default:
		link_close(id);
	}
}

/* True: the link goes on. */
static bool take(struct cm_id *id, const struct msg *m)
{
	if (id->state == ID_NEW)
		return take_request(id, m);
	if (id->state == ID_REQ_SENT && m->kind == MSG_REP && !is_ud(id))
		return take_rep(id, m);
	if (id->state == ID_REQ_SENT && m->kind == MSG_SIDR_REP && is_ud(id))
		return take_sidr_rep(id, m);
	if (m->kind == MSG_REJ && !is_ud(id) &&
	    (id->state == ID_REQ_SENT || id->state == ID_REP_RCVD ||
	     id->state == ID_REP_SENT))
		return take_rej(id, m);
	if (id->state == ID_REP_SENT && m->kind == MSG_RTU) {
		link_establish(id);
		return true;
	}
	hung_up(id); /* DREQ, or what it may not send */
	return false;
}

void link_ready(struct cm_id *id)
{
	struct msg m;

	if (id->state == ID_LISTEN) {
		accept_some(id);
		return;
	}
	for (int i = 0; i < N_TURN; i++) {
		int err = msg_recv(id->sock, &m);

		if (err == -EAGAIN || err == -EINTR)
			return;
		if (err) {
			hung_up(id);
			return;
		}
		if (!take(id, &m))
			return;
	}
}

void link_expired(struct cm_id *id)
{
	switch (id->state) {
	case ID_LISTEN:
		file_watch(id);
		return;
	case ID_NEW:
		id_free(id);
		return;
	case ID_CONNECTING:
		if (now_ns() >= id->give_up_ns)
			give_up(id);
		else if (link_connect(id))
			end(id, EVENT_UNREACHABLE, -ENOBUFS);
		return;
	case ID_REQ_SENT:
	case ID_REP_SENT:
		end(id, EVENT_UNREACHABLE, -ETIMEDOUT);
		return;
	case ID_ENDING:
		other_end_has_ended(id);
		return;
	case ID_TIMEWAIT:
		set_state(id, ID_OVER, 0);
		event_add_plain(id, EVENT_TIMEWAIT_EXIT, 0);
		return;
	default:
		return;
	}
}
