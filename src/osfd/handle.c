/* SPDX-License-Identifier: MIT */
/*
 * osfd/handle.c - one request, and its reply
 *
 *     bytes, descriptors -> request_parse() -> who may -> what is asked -> reply
 *
 * Root adds and removes ports.  Each user may see the list.  A program uses grants of
 * its own, and connections whose descriptors it has.
 */
#include <errno.h>
#include <string.h>

#include "osfd/freeze.h"
#include "osfd/held.h"
#include "osfd/server.h"

struct context {
	struct server *s;
	struct client *client;
	int index;
	const int *fds;
	struct reply *out;
	int *out_fds;
	bool *owned;
	struct refusal why;
};

static int on_hello(struct context *c, const struct request *r)
{
	struct msg_hello ours = { MSG_VERSION, MSG_VERSION_MIN };

	c->out->hello = ours;
	c->client->version = msg_version_of(&ours, &r->hello);
	if (c->client->version)
		return 0;
	refuse(&c->why, "osfd speaks versions %d to %d, the program %u to %u",
	       MSG_VERSION_MIN, MSG_VERSION, r->hello.version_min,
	       r->hello.version);
	return -EPROTONOSUPPORT;
}

static int on_add(struct context *c, const struct request *r)
{
	if (c->client->uid) {
		refuse(&c->why, "only root adds ports");
		return -EPERM;
	}
	return port_add(&c->s->ports, &r->port, &c->why);
}

static int on_del(struct context *c, const struct request *r)
{
	if (c->client->uid) {
		refuse(&c->why, "only root removes ports");
		return -EPERM;
	}
	int err = port_del(&c->s->ports, &r->port, &c->why);
	if (err == -EBUSY)
		clients_leave(c->s);
	return err;
}

static int on_list(struct context *c, const struct request *r)
{
	struct port *p = port_at(&c->s->ports, r->list.index);
	uint64_t counts[STEER_N_COUNTS];

	if (!p)
		return -ENOENT;
	port_counts(&c->s->ports, p, counts);
	c->out->listed = (struct msg_listed){
		.port = p->is,
		.n_grants = p->n_grants,
		.n_used = p->n_used,
		.n_segments = counts[STEER_N_SEGMENTS],
		.n_errors = counts[STEER_N_ERRORS],
		.n_thawed = p->n_thawed,
		.n_reset = p->n_reset,
		.n_dropped = p->n_dropped,
	};
	return 0;
}

static int on_open(struct context *c, const struct request *r)
{
	int err = grant_open(&c->s->ports, r->port.dev, c->client->uid,
			     c->index, &c->out->grant, c->out_fds, &c->why);

	c->owned[0] = !err;
	return err;
}

static int on_freeze(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(&c->s->ports, r->freeze.grant, c->index);

	if (!g)
		return -EBADF;
	if (g->port->is_ending) {
		refuse(&c->why, "%s is about to be no port any more",
		       g->port->is.dev);
		return -EAGAIN;
	}
	int err = device_takes(&c->s->ports, g, c->fds[0], &c->why);
	if (!err)
		err = held_add(g, r->freeze.slot, c->fds[0], &c->why);
	if (err)
		return err;
	err = freeze(g, c->fds[0], &c->out->frozen, &c->why);
	if (err)
		held_drop(g, r->freeze.slot);
	else
		held_set(g, r->freeze.slot, c->fds[0], &c->out->frozen);
	return err;
}

static int on_thaw(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(&c->s->ports, r->thaw.grant, c->index);
	struct queues q = {
		.fd = c->fds[1],
		.n_unread = r->thaw.n_unread,
		.n_unacked = r->thaw.n_unacked,
		.n_unsent = r->thaw.n_unsent,
	};

	if (!g)
		return -EBADF;
	int err = thaw(g, c->fds[0], &r->thaw.state, &q, &c->why);
	/* A program that cannot give a connection back resets it, unless there is no
	 * route: then the program keeps it until there is one. */
	if (err == -ENOTCONN)
		held_ended(g, r->thaw.slot);
	if (err != -ENETUNREACH)
		held_drop(g, r->thaw.slot);
	return err;
}

static int on_drop(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(&c->s->ports, r->drop.grant, c->index);

	if (!g)
		return -EBADF;
	grant_unsteer(g, &r->drop.key);
	return 0;
}

/* The program has just closed our socket and connected again.  The end of its
 * old grants must not end its connections. */
static void forget_elsewhere(struct context *c, const struct grant *but)
{
	struct connection conn;
	struct refusal why;

	if (connection_of(c->fds[0], &conn, &why) < 0)
		return;
	for (unsigned i = 0; i < GRANTS_MAX; i++) {
		struct grant *g = &c->s->ports.grant[i];

		if (g->port && g != but && c->s->client[g->owner].silent_ns)
			held_forget(g, &conn.key);
	}
}

static int on_adopt(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(&c->s->ports, r->adopt.grant, c->index);

	if (!g)
		return -EBADF;
	int err = held_add(g, r->adopt.slot, c->fds[0], &c->why);
	if (err)
		return err;
	err = adopt(g, c->fds[0], r->adopt.snd_nxt, &c->why);
	if (err)
		held_drop(g, r->adopt.slot);
	else
		held_set(g, r->adopt.slot, c->fds[0], &r->adopt.state);
	if (!err)
		forget_elsewhere(c, g);
	return err;
}

static int on_escrow(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(&c->s->ports, r->escrow.grant, c->index);

	return g ? held_open(g, c->fds[0], &c->why) : -EBADF;
}

static int on_undo(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(&c->s->ports, r->undo.grant, c->index);

	return g ? freeze_undo(g, c->fds[0], &c->why) : -EBADF;
}

static int on_away(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(&c->s->ports, r->away.grant, c->index);

	return g ? server_watch_away(c->s, g, c->fds[0], &c->why) : -EBADF;
}

static int on_rest(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(&c->s->ports, r->rest.grant, c->index);

	return g ? grant_rest(g, &c->why) : -EBADF;
}

static int on_wake(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(&c->s->ports, r->rest.grant, c->index);
	int err = g ? grant_wake(g, &c->why) : -EBADF;

	if (!err)
		c->out_fds[0] = g->steer.link_fd;
	return err;
}

static int on_past(struct context *c, const struct request *r)
{
	if (c->client->uid && !ports_has(&c->s->ports, c->client->uid)) {
		refuse(&c->why, "uid %u has no port", c->client->uid);
		return -EACCES;
	}
	int fd = pasts_page(&c->s->pasts, c->client->uid, r->past.program);
	if (fd < 0)
		return fd;
	c->out_fds[0] = fd;
	return 0;
}

static int (*const handlers[MSG_TYPES])(struct context *,
					const struct request *) = {
	[MSG_HELLO] = on_hello, [MSG_ADD] = on_add,
	[MSG_DEL] = on_del,     [MSG_LIST] = on_list,
	[MSG_OPEN] = on_open,   [MSG_FREEZE] = on_freeze,
	[MSG_THAW] = on_thaw,   [MSG_DROP] = on_drop,
	[MSG_ADOPT] = on_adopt, [MSG_ESCROW] = on_escrow,
	[MSG_UNDO] = on_undo,   [MSG_AWAY] = on_away,
	[MSG_REST] = on_rest,   [MSG_WAKE] = on_wake,
	[MSG_PAST] = on_past,
};

void client_serve(struct server *s, int index, const void *buf, size_t len,
		  const int *fds, unsigned n_fds, struct reply *out,
		  int out_fds[2], bool owned[2])
{
	struct context c = {
		.s = s,
		.client = &s->client[index],
		.index = index,
		.fds = fds,
		.out = out,
		.out_fds = out_fds,
		.owned = owned,
	};
	struct request r = { 0 };
	int err = request_parse(buf, len, n_fds, &r);

	if (!err && r.type != MSG_HELLO && !c.client->version) {
		refuse(&c.why, "a hello comes first");
		err = -EPROTO;
	}
	if (!err)
		err = handlers[r.type](&c, &r);
	out->type = r.type;
	out->err = err;
	out->flags = client_leaves(s, index) ? REPLY_LEAVE : 0;
	if (err && !c.why.text[0])
		refuse(&c.why, "%s", strerror(-err));
	memcpy(out->reason, c.why.text, sizeof(out->reason));
}
