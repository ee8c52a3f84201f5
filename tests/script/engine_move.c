/* SPDX-License-Identifier: MIT */
/* tests/script/engine_move.c - a connection that leaves the engine and comes back */
#include "engine_sock.h"

#include <stdlib.h>

#include "tcp/export.h"

/* Bytes that the engine refers to until they are read or acknowledged. */
struct moved {
	struct extent ext;
	uint8_t bytes[];
};

static void moved_done(struct extent *e)
{
	free(container_of(e, struct moved, ext));
}

static struct moved *moved_new(uint32_t n)
{
	struct moved *m = malloc(sizeof(*m) + n);

	assert(m);
	extent_lend(&m->ext, m->bytes, n, moved_done);
	return m;
}

/* There is only one stack: the connection leaves it, and comes back as another one. */
int engine_move(void *b, int fd)
{
	struct engine_sock *s = engine_sock(b, fd);
	struct engine *e = b;
	struct tcp_image x;

	if (!s || s->kind != SOCK_CONN)
		return -EBADF;
	int err = tcp_export(s->conn, &x, e->now_ns);
	if (err)
		return err;
	uint32_t n = seq_len(x.snd_una, x.snd_end);
	struct moved *queued = moved_new(n), *unread = moved_new(x.n_unread);
	n -= tcp_export_queued(s->conn, queued->bytes, n);
	n += x.n_unread - tcp_export_unread(s->conn, unread->bytes, x.n_unread);
	assert(!n);
	tcp_forget(s->conn, e->now_ns);
	err = tcp_import(e->stack, &x, &queued->ext, &unread->ext, e->now_ns,
			 &s->conn);
	assert(!err);
	extent_put(&queued->ext);
	extent_put(&unread->ext);
	engine_flush(e);
	return 0;
}
