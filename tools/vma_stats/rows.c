/* SPDX-License-Identifier: MIT */
/*
 * tools/vma_stats/rows.c - the sockets of one process, as the views show them
 *
 *     statistics file: its TCP sockets ------+
 *     its table of packets: VMA's extra API -+-> struct row, in the order of fd
 *     kernel.c: queues, states, UDP ---------+
 *
 * Packets of TCP are calls that moved bytes.  The bytes in a ring are those that its peer
 * has sent and this side has not received; they are shown if we may read the peer's
 * counters.  The sender's counter is always read first: bytes that pass between the two
 * reads then do not count as queued.
 */
#include "../osf/diag.h"
#include "vma_stats.h"
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define NS 1000000000.0

static struct in6_addr address_of(unsigned family, const uint8_t *from)
{
	struct diag_end e = diag_end_of(family, from, 0);
	struct in6_addr a;

	memcpy(&a, e.addr, sizeof(a));
	return a;
}

/* IPv4 as programs know it; with any port, or "*" for 0. */
void row_addr(const struct in6_addr *a, uint16_t port, char *out)
{
	char text[INET6_ADDRSTRLEN], number[8] = "*";
	bool is_v4 = IN6_IS_ADDR_V4MAPPED(a);

	if (port)
		snprintf(number, sizeof(number), "%u", port);
	if (is_v4)
		inet_ntop(AF_INET, &a->s6_addr[12], text, sizeof(text));
	else
		inet_ntop(AF_INET6, a, text, sizeof(text));
	snprintf(out, ROW_ADDR_MAX, is_v4 ? "%s:%s" : "[%s]:%s", text, number);
}

static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

struct ends_key {
	struct in6_addr local, peer;
	uint16_t local_port, peer_port;
};

/* The @n-th socket of all that may be looked at. */
static const struct osf_stats_sock *nth_end(const struct process *p, uint32_t n)
{
	for (size_t i = 0; i < p->all.n; i++) {
		if (n < p->all.segs[i].n_socks)
			return &p->all.segs[i].socks[n].s;
		n -= (uint32_t)p->all.segs[i].n_socks;
	}
	return NULL;
}

static void index_ends(struct process *p)
{
	uint32_t n = 0;

	for (size_t i = 0; i < p->all.n; i++)
		n += (uint32_t)p->all.segs[i].n_socks;
	index_free(&p->ends);
	index_init(&p->ends, sizeof(struct ends_key), n);
	n = 0;
	for (size_t i = 0; i < p->all.n; i++)
		for (size_t j = 0; j < p->all.segs[i].n_socks; j++) {
			const struct osf_stats_sock *s =
			    &p->all.segs[i].socks[j].s;

			index_put(&p->ends,
				  &(struct ends_key){
				      address_of(s->family, s->local_addr),
				      address_of(s->family, s->peer_addr),
				      s->local_port, s->peer_port },
				  n++);
		}
}

/* The other end of @row's connection, in any process that may be looked at. */
static const struct osf_stats_sock *other_end(const struct process *p,
					      const struct row *row)
{
	uint32_t n = index_get(
	    &p->ends, &(struct ends_key){ row->peer, row->local, row->peer_port,
					  row->local_port });

	return n == INDEX_NONE ? NULL : nth_end(p, n);
}

/* What the entry of @sock says after all others were read. */
static const struct osf_stats_sock *later(const struct process *p,
					  const struct seg_sock *sock)
{
	size_t from = 0, end = p->later.n_socks;

	while (from < end) { /* in the order of their entries */
		size_t i = (from + end) / 2;
		const struct seg_sock *l = &p->later.socks[i];

		if (l->idx == sock->idx)
			return l->s.in_use == sock->s.in_use ? &l->s : &sock->s;
		if (l->idx < sock->idx)
			from = i + 1;
		else
			end = i;
	}
	return &sock->s;
}

static void take_counters(struct counters *c, const struct osf_stats_sock *s)
{
	c->rx = (struct counts){ less(s->rx_ops, s->rx_ops_inet),
				 s->rx_bytes_shm, s->rx_eagains, s->rx_errors };
	c->tx = (struct counts){ less(s->tx_ops, s->tx_ops_inet),
				 s->tx_bytes_shm, s->tx_eagains, s->tx_errors };
	c->os_rx = (struct counts){ s->rx_ops_inet, s->rx_bytes_inet,
				    s->rx_eagains_inet, s->rx_errors_inet };
	c->os_tx = (struct counts){ s->tx_ops_inet, s->tx_bytes_inet,
				    s->tx_eagains_inet, s->tx_errors_inet };
	c->n_hits = s->n_spins;
	c->n_misses = s->n_sleeps;
}

static void add_tcp(struct rows *r, const struct process *p,
		    const struct seg_sock *sock)
{
	const struct osf_stats_sock *s = &sock->s;
	bool is_ours =
	    s->proto == OSF_PROTO_SHM || s->proto == OSF_PROTO_MODULE;
	struct row row = { .fd = s->fd,
			   .is_offloaded = is_ours,
			   .is_blocking = true,
			   .idx = sock->idx,
			   .in_use = s->in_use,
			   .ino = sock->ino,
			   .local = address_of(s->family, s->local_addr),
			   .peer = address_of(s->family, s->peer_addr),
			   .local_port = s->local_port,
			   .peer_port = s->peer_port,
			   .rx_most = s->rx_most };
	const struct osf_stats_sock *other =
	    is_ours && s->peer_port ? other_end(p, &row) : NULL;

	take_counters(&row.c, s);
	if (other) {
		row.rx_queue =
		    less(other->tx_bytes_shm, later(p, sock)->rx_bytes_shm);
		row.tx_queue = less(s->tx_bytes_shm, other->rx_bytes_shm);
	}
	r->rows = xgrow(r->rows, r->n, sizeof(row));
	r->rows[r->n++] = row;
}

/* What VMA's extra API has counted for a socket.  UDP is the kernel's. */
static void add_packets(struct rows *r, const struct osf_stats_packets *k)
{
	for (size_t i = 0; i < r->n; i++) {
		struct row *row = &r->rows[i];

		if (row->fd != k->fd || row->is_udp != (k->is_udp != 0))
			continue;
		row->c.n_dropped += k->n_dropped;
		row->c.dropped_bytes += k->dropped_bytes;
		row->c.n_dummies = k->n_dummies;
		row->n_lent = less(k->n_held, k->n_freed);
		if (row->is_udp) {
			row->c.os_rx =
			    (struct counts){ k->n_received + k->n_dropped,
					     k->rx_bytes + k->dropped_bytes,
					     k->rx_eagains, k->rx_errors };
			row->c.os_tx =
			    (struct counts){ k->n_sent, k->tx_bytes,
					     k->tx_eagains, k->tx_errors };
		}
		return;
	}
}

bool is_wanted_fd(const struct options *o, int fd)
{
	for (size_t i = 0; i < o->n_ranges; i++)
		if (fd >= o->ranges[i][0] && fd <= o->ranges[i][1])
			return true;
	return !o->n_ranges;
}

static int by_fd(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->fd < y->fd ? -1 : x->fd > y->fd;
}

static void keep_wanted(struct rows *r, const struct options *o)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		if (is_wanted_fd(o, r->rows[i].fd))
			r->rows[n++] = r->rows[i];
		else
			free(r->rows[i].groups);
	r->n = n;
}

static void read_all(struct process *p)
{
	char why[SEG_WHY_MAX];

	(void)seg_list_all(&p->all);
	if (seg_read(&p->later, p->fd, &p->all, why))
		p->later = (struct seg){ 0 };
}

void rows_read(struct rows *r, const struct options *o, struct process *p)
{
	*r = (struct rows){ .taken_ns = now_ns() };
	if (o->view != VIEW_BASIC || o->has_dump)
		read_all(p);
	index_ends(p);
	for (size_t i = 0; i < p->seg->n_socks; i++)
		if (!p->seg->socks[i].is_gone)
			add_tcp(r, p, &p->seg->socks[i]);
	r->n_tcp = r->n;
	kernel_look(r, p,
		    o->view == VIEW_FULL || o->view == VIEW_GROUPS ||
			o->has_dump);
	r->n_all = r->n;
	for (size_t i = 0; i < p->n_packets; i++)
		add_packets(r, &p->packets[i]);
	keep_wanted(r, o);
	if (r->n)
		qsort(r->rows, r->n, sizeof(*r->rows), by_fd);
	index_init(&r->by_id, sizeof(struct row_id), r->n);
	for (size_t i = 0; i < r->n; i++) {
		struct row_id id = row_id_of(&r->rows[i]);

		index_put(&r->by_id, &id, (uint32_t)i);
	}
}

void rows_free(struct rows *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->rows[i].groups);
	free(r->rows);
	index_free(&r->by_id);
	*r = (struct rows){ 0 };
}

struct row *rows_find(const struct rows *r, const struct row *like)
{
	struct row_id id = row_id_of(like);
	uint32_t i = r ? index_get(&r->by_id, &id) : INDEX_NONE;

	return i == INDEX_NONE ? NULL : &r->rows[i];
}

/* What has come since, in a second; @seconds of 1 is exact. */
static uint64_t since(uint64_t now, uint64_t before, double seconds)
{
	double rate = (double)less(now, before) / seconds;

	return seconds == 1 || rate > INT64_MAX / 2 ? less(now, before)
						    : (uint64_t)rate;
}

static struct counts counts_less(const struct counts *a, const struct counts *b,
				 double s)
{
	return (struct counts){ since(a->packets, b->packets, s),
				since(a->bytes, b->bytes, s),
				since(a->eagains, b->eagains, s),
				since(a->errors, b->errors, s) };
}

struct counters counters_less(const struct counters *a,
			      const struct counters *b, double s)
{
	return (struct counters){
		.rx = counts_less(&a->rx, &b->rx, s),
		.tx = counts_less(&a->tx, &b->tx, s),
		.os_rx = counts_less(&a->os_rx, &b->os_rx, s),
		.os_tx = counts_less(&a->os_tx, &b->os_tx, s),
		.n_hits = since(a->n_hits, b->n_hits, s),
		.n_misses = since(a->n_misses, b->n_misses, s),
		.n_dropped = since(a->n_dropped, b->n_dropped, s),
		.dropped_bytes = since(a->dropped_bytes, b->dropped_bytes, s),
		.n_dummies = since(a->n_dummies, b->n_dummies, s),
	};
}

struct counters shown_counters(const struct shown *s, const struct row *row)
{
	const struct row *was = rows_find(s->before, row);

	if (!s->before)
		return row->c;
	double span = (double)(s->now->taken_ns - s->before->taken_ns) / NS;
	return counters_less(&row->c, was ? &was->c : &(struct counters){ 0 },
			     span > 0 ? span : 1);
}
