/* SPDX-License-Identifier: MIT */
/*
 * osfd/handle.c - one request that is about no connection, and its reply
 *
 *     bytes -> request_parse() -> who may -> what is asked -> reply
 *
 * Root adds and removes ports.  Each user may see the list.  A program uses grants of its
 * own.  serve.c has the requests about connections.
 */
#include <errno.h>
#include <string.h>

#include "osfd/server.h"

struct context {
	struct server *s;
	const struct asker *who;
	struct answer *out;
	struct refusal why;
};

static int on_hello(struct context *c, const struct request *r)
{
	struct msg_hello ours = { MSG_VERSION, MSG_VERSION_MIN };

	c->out->reply.hello = ours;
	*c->who->version = msg_version_of(&ours, &r->hello);
	if (*c->who->version)
		return 0;
	refuse(&c->why, "osfd speaks versions %d to %d, the program %u to %u",
	       MSG_VERSION_MIN, MSG_VERSION, r->hello.version_min,
	       r->hello.version);
	return -EPROTONOSUPPORT;
}

static int on_add(struct context *c, const struct request *r)
{
	if (c->who->uid) {
		refuse(&c->why, "only root adds ports");
		return -EPERM;
	}
	return port_add(&c->s->ports, &r->port, &c->why);
}

static int on_del(struct context *c, const struct request *r)
{
	if (c->who->uid) {
		refuse(&c->why, "only root removes ports");
		return -EPERM;
	}
	int err = port_del(&c->s->ports, &r->port, &c->why);
	workers_look(c->s);
	return err;
}

static int on_list(struct context *c, const struct request *r)
{
	struct port *p = port_at(&c->s->ports, r->list.index);
	struct port_sums sums;

	if (!p)
		return -ENOENT;
	port_sum(&c->s->ports, p, &sums);
	c->out->reply.listed = (struct msg_listed){
		.port = p->is,
		.n_grants = p->n_grants,
		.n_used = port_n_used(&c->s->ports, p),
		.n_segments = sums.counts[STEER_N_SEGMENTS],
		.n_errors = sums.counts[STEER_N_ERRORS],
		.n_thawed = sums.n_thawed,
		.n_reset = sums.n_reset,
		.n_dropped = sums.n_dropped,
	};
	return 0;
}

/* Who may open a port has been handed over to a worker by then. */
static int on_open(struct context *c, const struct request *r)
{
	struct answer *out = c->out;
	int err =
	    grant_open(&c->s->ports, r->port.dev, c->who->uid, c->who->worker,
		       &out->reply.grant, out->fds, &c->why);

	if (err)
		return err;
	const struct grant *g = &c->s->ports.grant[out->reply.grant.grant];
	out->fds[CONTROL_FD_FLOWS] = g->steer.flows_fd;
	out->fds[CONTROL_FD_PORTS] = g->steer.ports_fd;
	out->number = g->number;
	out->is_lo = g->is_lo;
	out->is_ours = true;
	return 0;
}

static int on_rest(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(&c->s->ports, r->rest.grant, c->who->worker);

	return g ? grant_rest(g, &c->why) : -EBADF;
}

static int on_wake(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(&c->s->ports, r->rest.grant, c->who->worker);
	int err = g ? grant_wake(g, &c->why) : -EBADF;

	if (!err)
		c->out->fds[0] = g->steer.link_fd;
	return err;
}

static int on_past(struct context *c, const struct request *r)
{
	if (c->who->uid && !ports_has(&c->s->ports, c->who->uid)) {
		refuse(&c->why, "uid %u has no port", c->who->uid);
		return -EACCES;
	}
	int fd = pasts_page(&c->s->pasts, c->who->uid, r->past.program);
	if (fd < 0)
		return fd;
	c->out->fds[0] = fd;
	return 0;
}

/* About connections: the programs that have some have a worker. */
static int on_other(struct context *c, const struct request *r)
{
	return -EBADF;
}

static int (*const handlers[MSG_TYPES])(struct context *,
					const struct request *) = {
	[MSG_HELLO] = on_hello,  [MSG_ADD] = on_add,    [MSG_DEL] = on_del,
	[MSG_LIST] = on_list,    [MSG_OPEN] = on_open,  [MSG_FREEZE] = on_other,
	[MSG_THAW] = on_other,   [MSG_DROP] = on_other, [MSG_ADOPT] = on_other,
	[MSG_ESCROW] = on_other, [MSG_UNDO] = on_other, [MSG_AWAY] = on_other,
	[MSG_REST] = on_rest,    [MSG_WAKE] = on_wake,  [MSG_PAST] = on_past,
};

void client_serve(struct server *s, const struct asker *who, const void *buf,
		  size_t len, struct answer *out)
{
	struct context c = { .s = s, .who = who, .out = out };
	struct request r = { 0 };

	*out = (struct answer){ .reply = { .magic = MSG_MAGIC,
					   .version = MSG_VERSION },
				.fds = { -1, -1, -1, -1 } };
	(void)ports_sweep(&s->ports); /* a worker has just had the last flow */
	int err = request_parse(buf, len, 0, &r);
	if (!err && r.type != MSG_HELLO && !*who->version) {
		refuse(&c.why, "a hello comes first");
		err = -EPROTO;
	}
	if (!err)
		err = handlers[r.type](&c, &r);
	reply_end(&out->reply, r.type, err, &c.why);
}
