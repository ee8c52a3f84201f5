/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/stat_print.c - what "osf stat" prints for people and for pipes
 *
 *     struct stat_view -> a table for each process, on a terminal
 *                      -> one line for each socket, in a pipe
 *
 * The lines of a pipe are an interface: tab-separated, exact numbers, columns
 * only ever added at the end.  The table is for eyes and may change.
 */
#include "osf.h"
#include "stat.h"
#include "table.h"
#include <inttypes.h>
#include <string.h>

#define CLEAR_SCREEN "\033[H\033[2J"

const struct seg *stat_before(const struct stat_view *v, const struct seg *seg)
{
	for (size_t i = 0; v->before && i < v->before->n; i++) {
		const struct seg *b = &v->before->segs[i];
		if (b->head.pid == seg->head.pid &&
		    b->head.started_ns == seg->head.started_ns)
			return b;
	}
	return NULL;
}

static uint64_t rx_all(const struct osf_stats_sock *s)
{
	return s->rx_bytes_shm + s->rx_bytes_inet;
}

static uint64_t tx_all(const struct osf_stats_sock *s)
{
	return s->tx_bytes_shm + s->tx_bytes_inet;
}

static uint64_t per_second(uint64_t now, uint64_t before, uint64_t span_ns)
{
	if (now <= before || span_ns == 0)
		return 0;
	return (uint64_t)((double)(now - before) * 1e9 / (double)span_ns);
}

struct stat_rate stat_rate(const struct seg *now, const struct seg *before,
			   const struct seg_sock *sock)
{
	struct stat_rate r = { 0 };

	for (size_t i = 0; before && i < before->n_socks; i++) {
		const struct seg_sock *b = &before->socks[i];
		uint64_t span_ns = now->taken_ns - before->taken_ns;

		if (b->idx != sock->idx || b->s.in_use != sock->s.in_use)
			continue;
		r.rx = per_second(rx_all(&sock->s), rx_all(&b->s), span_ns);
		r.tx = per_second(tx_all(&sock->s), tx_all(&b->s), span_ns);
		break;
	}
	return r;
}

static uint64_t age_ns(uint64_t since_ns)
{
	uint64_t now = now_wall_ns();

	return now > since_ns ? now - since_ns : 0;
}

static const char *sock_style(const struct osf_stats_sock *s)
{
	if (s->listening)
		return NULL;
	if (s->proto == OSF_PROTO_SHM || s->proto == OSF_PROTO_MODULE)
		return STYLE_GREEN;
	return s->reason == OSF_REASON_BROKEN ? STYLE_RED : NULL;
}

static void add_sock(struct table *t, const struct stat_view *v,
		     const struct seg *seg, const struct seg_sock *sock)
{
	char local[SEG_ADDR_MAX], peer[SEG_ADDR_MAX];
	const struct osf_stats_sock *s = &sock->s;

	seg_addr_text(s, false, local);
	seg_addr_text(s, true, peer);
	table_row(t, sock_style(s));
	table_cell(t, "%d", (int)s->fd);
	table_cell(t, "%s", seg_proto_name(s));
	table_cell(t, "%s", local);
	table_cell(t, "%s", peer);
	table_cell(t, "%s", unit_age(age_ns(s->opened_ns)).s);
	if (v->is_watching) {
		struct stat_rate r = stat_rate(seg, stat_before(v, seg), sock);
		table_cell(t, "%s", unit_bytes(r.rx).s);
		table_cell(t, "%s", unit_bytes(r.tx).s);
	}
	table_cell(t, "%s", unit_bytes(rx_all(s)).s);
	table_cell(t, "%s", unit_bytes(tx_all(s)).s);
	table_cell(t, "%s", unit_count(s->rx_ops + s->tx_ops).s);
	table_cell(t, "%s", unit_count(s->n_spins).s);
	table_cell(t, "%s", unit_count(s->n_sleeps).s);
	table_cell(t, "%s", unit_count(s->n_wakes).s);
	table_cell(t, "%s", seg_reason_text(s->reason));
}

static void print_socks(const struct stat_view *v, const struct seg *seg,
			const struct screen *screen)
{
	static const char *const once[] = { ">FD",      "PROTO",   "LOCAL",
					    "PEER",     ">AGE",    ">RX",
					    ">TX",      "?>OPS",   "?>SPINS",
					    "?>SLEEPS", "?>WAKES", "WHY" };
	static const char *const rates[] = { ">FD",     "PROTO",   "LOCAL",
					     "PEER",    ">AGE",    ">RX/s",
					     ">TX/s",   ">RX",     ">TX",
					     "?>OPS",   "?>SPINS", "?>SLEEPS",
					     "?>WAKES", "WHY" };
	struct table t = {
		.headings = v->is_watching ? rates : once,
		.n_columns = v->is_watching ? sizeof(rates) / sizeof(*rates)
					    : sizeof(once) / sizeof(*once),
	};

	for (size_t i = 0; i < seg->n_socks; i++)
		add_sock(&t, v, seg, &seg->socks[i]);
	if (t.n_rows)
		table_print(&t, stdout, screen);
	table_free(&t);
}

static void print_closed(const struct seg *seg, const struct screen *screen)
{
	const struct osf_stats_totals *t = &seg->head.totals;

	screen_line(
	    screen, stdout, STYLE_DIM,
	    "  closed sockets: shm %s in, %s out; kernel %s in, %s out;"
	    " %s ops, %s spins, %s sleeps, %s wakes",
	    unit_bytes(t->rx_bytes_shm).s, unit_bytes(t->tx_bytes_shm).s,
	    unit_bytes(t->rx_bytes_inet).s, unit_bytes(t->tx_bytes_inet).s,
	    unit_count(t->rx_ops + t->tx_ops).s, unit_count(t->n_spins).s,
	    unit_count(t->n_sleeps).s, unit_count(t->n_wakes).s);
	for (unsigned i = 0; i < OSF_REASONS; i++)
		if (t->n_reason[i])
			screen_line(screen, stdout, STYLE_DIM, "  %8s  %s",
				    unit_count(t->n_reason[i]).s,
				    seg_reason_text(i));
}

static void print_process(const struct stat_view *v, const struct seg *seg,
			  const struct screen *screen)
{
	const struct osf_stats_header *h = &seg->head;
	const struct osf_stats_totals *t = &h->totals;

	screen_line(screen, stdout, STYLE_BOLD,
		    "%s %u  since %s (%s)  upgraded %s  accepted %s  "
		    "connected %s  taken back %s  broken %s  open %zu",
		    h->program, h->pid, unit_clock(h->started_ns).s,
		    unit_age(age_ns(h->started_ns)).s,
		    unit_count(t->n_upgraded).s, unit_count(t->n_accepted).s,
		    unit_count(t->n_connected).s, unit_count(t->n_taken_back).s,
		    unit_count(t->n_broken).s, seg->n_socks);
	print_socks(v, seg, screen);
	if (v->wants_closed)
		print_closed(seg, screen);
}

void stat_print_table(const struct stat_view *v)
{
	struct screen screen = screen_of(stdout);

	if (v->is_watching)
		fputs(CLEAR_SCREEN, stdout);
	for (size_t i = 0; i < v->now->n; i++) {
		if (i)
			putchar('\n');
		print_process(v, &v->now->segs[i], &screen);
	}
}

static void print_tab_sock(const struct stat_view *v, const struct seg *seg,
			   const struct seg_sock *sock)
{
	char local[SEG_ADDR_MAX], peer[SEG_ADDR_MAX];
	const struct osf_stats_sock *s = &sock->s;
	struct stat_rate r = stat_rate(seg, stat_before(v, seg), sock);

	seg_addr_text(s, false, local);
	seg_addr_text(s, true, peer);
	printf("%u\t%s\t%d\t%s\t%s\t%s\t%" PRIu64, seg->head.pid,
	       seg->head.program, (int)s->fd, seg_proto_name(s), local, peer,
	       age_ns(s->opened_ns) / 1000000000);
	printf("\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64,
	       s->rx_bytes_shm, s->tx_bytes_shm, s->rx_bytes_inet,
	       s->tx_bytes_inet);
	printf("\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64,
	       s->rx_ops, s->tx_ops, s->n_spins, s->n_sleeps, s->n_wakes);
	printf("\t%s\t%" PRIu64 "\t%" PRIu64 "\n", seg_reason_name(s->reason),
	       r.rx, r.tx);
}

/* A process's closed sockets, as one line in the same columns. */
static void print_tab_closed(const struct seg *seg)
{
	const struct osf_stats_totals *t = &seg->head.totals;

	printf("%u\t%s\t-1\tclosed\t*\t*\t%" PRIu64, seg->head.pid,
	       seg->head.program, age_ns(seg->head.started_ns) / 1000000000);
	printf("\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64,
	       t->rx_bytes_shm, t->tx_bytes_shm, t->rx_bytes_inet,
	       t->tx_bytes_inet);
	printf("\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
	       "\tclosed\t0\t0\n",
	       t->rx_ops, t->tx_ops, t->n_spins, t->n_sleeps, t->n_wakes);
}

void stat_print_tabs(const struct stat_view *v)
{
	if (!v->before)
		puts("pid\tprogram\tfd\tproto\tlocal\tpeer\tage_s"
		     "\trx_bytes_shm\ttx_bytes_shm\trx_bytes_inet"
		     "\ttx_bytes_inet\trx_ops\ttx_ops\tn_spins\tn_sleeps"
		     "\tn_wakes\treason\trx_bytes_per_s\ttx_bytes_per_s");
	for (size_t i = 0; i < v->now->n; i++) {
		const struct seg *seg = &v->now->segs[i];

		for (size_t j = 0; j < seg->n_socks; j++)
			print_tab_sock(v, seg, &seg->socks[j]);
		if (v->wants_closed)
			print_tab_closed(seg);
	}
}
