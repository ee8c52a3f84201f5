/* SPDX-License-Identifier: MIT */
/*
 * osfd/serve.c - one request about connections, and its reply, in a worker
 *
 *     bytes, descriptors -> request_parse() -> what is asked -> reply
 *                                           -> osfd, for what only osfd can do -> reply
 *
 * A program uses grants of its own, and connections whose descriptors it has.
 */
#include <errno.h>
#include <string.h>

#include "osfd/freeze.h"
#include "osfd/held.h"
#include "osfd/worker.h"

struct context {
	struct work *w;
	int index;
	const int *fds;
	struct served *out;
	struct refusal why;
};

static int on_freeze(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(c->w->ports, r->freeze.grant, c->index);

	if (!g)
		return -EBADF;
	if (g->port->is_ending) {
		refuse(&c->why, "%s is about to be no port any more",
		       g->port->is.dev);
		return -EAGAIN;
	}
	int err = device_takes(c->w->ports, g, c->fds[0], &c->why);
	if (!err)
		err = held_add(g, r->freeze.slot, c->fds[0], &c->why);
	if (err)
		return err;
	err = freeze(g, c->fds[0], &c->out->reply.frozen, &c->why);
	if (err)
		held_drop(g, r->freeze.slot);
	else
		held_set(g, r->freeze.slot, c->fds[0], &c->out->reply.frozen);
	return err;
}

static int on_thaw(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(c->w->ports, r->thaw.grant, c->index);
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
	struct grant *g = grant_of(c->w->ports, r->drop.grant, c->index);

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
		struct grant *g = &c->w->ports->grant[i];

		if (g->port && g != but && c->w->program[g->owner].silent_ns)
			held_forget(g, &conn.key);
	}
}

static int on_adopt(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(c->w->ports, r->adopt.grant, c->index);

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
	struct grant *g = grant_of(c->w->ports, r->escrow.grant, c->index);

	return g ? held_open(g, c->fds[0], &c->why) : -EBADF;
}

static int on_undo(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(c->w->ports, r->undo.grant, c->index);

	return g ? freeze_undo(g, c->fds[0], &c->why) : -EBADF;
}

static int on_away(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(c->w->ports, r->away.grant, c->index);

	return g ? worker_watch_away(c->w, g, c->fds[0], &c->why) : -EBADF;
}

/* osfd detaches the steering.  A grant that cannot stop to listen rests all the same. */
static int on_rest(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(c->w->ports, r->rest.grant, c->index);
	int err = g ? worker_ask(c->w, c->index, r, c->out) : -EBADF;

	if (!err) {
		g->is_resting = true;
		(void)grant_listen(g, false);
	}
	return err;
}

static int on_wake(struct context *c, const struct request *r)
{
	struct grant *g = grant_of(c->w->ports, r->rest.grant, c->index);
	int err = g ? worker_ask(c->w, c->index, r, c->out) : -EBADF;

	if (!err)
		err = grant_listen(g, true);
	if (!err)
		g->is_resting = false;
	return err;
}

/* What osfd itself serves. */
static int on_other(struct context *c, const struct request *r)
{
	int err = worker_ask(c->w, c->index, r, c->out);
	const struct reply *out = &c->out->reply;

	if (r->type == MSG_HELLO)
		c->w->program[c->index].version =
		    err ? 0 : msg_version_of(&out->hello, &r->hello);
	return err;
}

static int (*const handlers[MSG_TYPES])(struct context *,
					const struct request *) = {
	[MSG_HELLO] = on_other, [MSG_ADD] = on_other,
	[MSG_DEL] = on_other,   [MSG_LIST] = on_other,
	[MSG_OPEN] = on_other,  [MSG_FREEZE] = on_freeze,
	[MSG_THAW] = on_thaw,   [MSG_DROP] = on_drop,
	[MSG_ADOPT] = on_adopt, [MSG_ESCROW] = on_escrow,
	[MSG_UNDO] = on_undo,   [MSG_AWAY] = on_away,
	[MSG_REST] = on_rest,   [MSG_WAKE] = on_wake,
	[MSG_PAST] = on_other,
};

void program_serve(struct work *w, int index, const void *buf, size_t len,
		   const int *fds, unsigned n_fds, struct served *out)
{
	struct context c = { .w = w, .index = index, .fds = fds, .out = out };
	struct request r = { 0 };

	*out = (struct served){ .reply = { .magic = MSG_MAGIC,
					   .version = MSG_VERSION },
				.fds = { -1, -1 } };
	int err = request_parse(buf, len, n_fds, &r);
	if (!err && r.type != MSG_HELLO && !w->program[index].version) {
		refuse(&c.why, "a hello comes first");
		err = -EPROTO;
	}
	if (!err)
		err = handlers[r.type](&c, &r);
	if (!out->reply.reason[0])
		reply_end(&out->reply, r.type, err, &c.why);
	out->reply.flags = program_leaves(w, index) ? REPLY_LEAVE : 0;
}
