/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/seg_dead.c - sockets in a segment that no process has any more
 *
 *     /proc/PID/net/tcp, tcp6  ->  port pairs of sockets with an owner
 *     socket that was shared by fork, and is not among them  ->  closed
 *
 * The kernel's own socket stays behind each of ours.  Once its last descriptor is gone,
 * it is not listed, or is listed without an inode.  Ports alone are compared: another
 * connection with the same two makes a dead socket look alive, for as long as it lives.
 */
#include "osf.h"
#include "seg.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct pairs {
	uint32_t *v; /* local port << 16 | peer port */
	size_t n;
	bool is_known; /* one table at least could be read */
};

static uint32_t pair_of(unsigned local, unsigned peer)
{
	return (uint32_t)(local << 16 | (peer & 0xffff));
}

static void pairs_read(struct pairs *p, pid_t pid, const char *table)
{
	char *path = xasprintf("/proc/%d/net/%s", (int)pid, table);
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;

	free(path);
	p->is_known |= f != NULL;
	while (f && getline(&line, &size, f) > 0) {
		unsigned local, peer;
		uint64_t inode;

		/* sl local_address rem_address st queues timer retrnsmt uid
		 * timeout inode */
		if (sscanf(line,
			   "%*u: %*32[0-9A-F]:%4x %*32[0-9A-F]:%4x %*x %*s %*s "
			   "%*s %*u %*d %" SCNu64,
			   &local, &peer, &inode) != 3 ||
		    !inode)
			continue;
		p->v = xgrow(p->v, p->n, sizeof(*p->v));
		p->v[p->n++] = pair_of(local, peer);
	}
	free(line);
	if (f)
		fclose(f);
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static bool has_owner(const struct pairs *p, const struct osf_stats_sock *s)
{
	uint32_t pair = pair_of(s->local_port, s->peer_port);

	return bsearch(&pair, p->v, p->n, sizeof(pair), compare);
}

/* Can the kernel's list tell?  It has no sockets without a port. */
static bool may_be_dead(const struct osf_stats_sock *s)
{
	return s->shared && s->local_port && (s->peer_port || s->listening);
}

void seg_count_dead(struct seg *seg, pid_t pid)
{
	struct pairs p = { 0 };
	size_t n = 0, n_kept = 0;

	for (size_t i = 0; i < seg->n_socks; i++)
		n += may_be_dead(&seg->socks[i].s);
	if (!n)
		return;
	pairs_read(&p, pid, "tcp");
	pairs_read(&p, pid, "tcp6");
	if (p.n)
		qsort(p.v, p.n, sizeof(*p.v), compare);
	for (size_t i = 0; i < seg->n_socks; i++) {
		const struct seg_sock *at = &seg->socks[i];

		if (p.is_known && may_be_dead(&at->s) && !has_owner(&p, &at->s))
			seg_totals_add(&seg->head.totals, &at->s);
		else
			seg->socks[n_kept++] = *at;
	}
	seg->n_socks = n_kept;
	free(p.v);
}
