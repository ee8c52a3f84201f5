/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/stat_print.c - what "osf stat" prints for people and for pipes
 *
 *     struct stat_view -> a table for each process, on a terminal
 *                      -> one line for each socket, in a pipe
 *
 * The lines of a pipe are an interface: tab-separated, with exact numbers, and new versions
 * only add columns at the end.  The table is for people and may change.
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

static bool is_program(const struct seg *a, const struct seg *b)
{
	return strcmp(a->head.program, b->head.program) == 0;
}

bool stat_is_first(const struct stat_view *v, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (is_program(&v->now->segs[j], &v->now->segs[i]))
			return false;
	return true;
}

struct stat_program stat_program(const struct stat_view *v, size_t i)
{
	struct stat_program p = { .name = v->now->segs[i].head.program };

	for (size_t j = i; j < v->now->n; j++)
		if (is_program(&v->now->segs[j], &v->now->segs[i])) {
			p.n_processes++;
			seg_sums_add(&p.sums, &v->now->segs[j]);
		}
	return p;
}

pid_t stat_row_pid(const struct seg *seg, const struct seg_sock *sock)
{
	for (unsigned i = 0; i < sock->n_pids && i < SEG_PIDS_MAX; i++)
		if (sock->pids[i] == (pid_t)seg->head.pid)
			return sock->pids[i];
	return sock->n_pids ? sock->pids[0] : (pid_t)seg->head.pid;
}

bool stat_is_shown(const struct stat_view *v, const struct seg_sock *sock)
{
	return v->wants_closed || !sock->is_gone;
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

/* "1234", or "1234+2" when two others hold the socket as well. */
static void cell_pid(struct table *t, const struct seg *seg,
		     const struct seg_sock *sock)
{
	int pid = (int)stat_row_pid(seg, sock);

	if (sock->is_gone)
		table_cell(t, "gone");
	else if (sock->n_pids > 1)
		table_cell(t, "%d+%u", pid, sock->n_pids - 1);
	else
		table_cell(t, "%d", pid);
}

/* A number that is not known is not 0. */
static void cell_known(struct table *t, bool is_known, struct unit_text text)
{
	table_cell(t, "%s", is_known ? text.s : "-");
}

static void cell_why(struct table *t, const struct seg_sock *sock)
{
	const char *why = seg_reason_text(sock->reason);
	bool has_reason = sock->peer_reason != OSF_REASON_NONE;

	if (!sock->peer_pid)
		table_cell(t, "%s", why);
	else
		table_cell(t, "%s (%s %d%s%s)", why, sock->peer_program,
			   (int)sock->peer_pid, has_reason ? ": " : "",
			   has_reason ? seg_reason_text(sock->peer_reason)
				      : "");
}

static void add_sock(struct table *t, const struct stat_view *v,
		     const struct seg *seg, const struct seg_sock *sock,
		     bool wants_pids)
{
	char local[SEG_ADDR_MAX], peer[SEG_ADDR_MAX];
	const struct osf_stats_sock *s = &sock->s;

	seg_addr_text(s, false, local);
	seg_addr_text(s, true, peer);
	table_row(t, sock_style(s));
	if (wants_pids)
		cell_pid(t, seg, sock);
	table_cell(t, "%d", (int)s->fd);
	table_cell(t, "%s", seg_proto_name(s));
	table_cell(t, "%s", local);
	table_cell(t, "%s", peer);
	table_cell(t, "%s", unit_age(age_ns(s->opened_ns)).s);
	if (v->is_watching) {
		struct stat_rate r = stat_rate(seg, stat_before(v, seg), sock);
		cell_known(t, sock->has_bytes, unit_bytes(r.rx));
		cell_known(t, sock->has_bytes, unit_bytes(r.tx));
	}
	cell_known(t, sock->has_bytes, unit_bytes(rx_all(s)));
	cell_known(t, sock->has_bytes, unit_bytes(tx_all(s)));
	cell_known(t, sock->has_ops, unit_count(s->rx_ops + s->tx_ops));
	table_cell(t, "%s", unit_count(s->n_spins).s);
	table_cell(t, "%s", unit_count(s->n_sleeps).s);
	table_cell(t, "%s", unit_count(s->n_wakes).s);
	cell_why(t, sock);
}

/* Or is every row the owner's alone, whose number stands above the table? */
static bool has_other_holders(const struct stat_view *v, const struct seg *seg)
{
	for (size_t i = 0; i < seg->n_socks; i++)
		if (stat_is_shown(v, &seg->socks[i]) &&
		    (seg->socks[i].n_pids > 1 || seg->socks[i].is_gone ||
		     stat_row_pid(seg, &seg->socks[i]) != (pid_t)seg->head.pid))
			return true;
	return false;
}

static void print_socks(const struct stat_view *v, const struct seg *seg,
			const struct screen *screen)
{
	static const char *const once[] = { ">PID",    ">FD",      "PROTO",
					    "LOCAL",   "PEER",     ">AGE",
					    ">RX",     ">TX",      "?>OPS",
					    "?>SPINS", "?>SLEEPS", "?>WAKES",
					    "WHY" };
	static const char *const rates[] = { ">PID",     ">FD",     "PROTO",
					     "LOCAL",    "PEER",    ">AGE",
					     ">RX/s",    ">TX/s",   ">RX",
					     ">TX",      "?>OPS",   "?>SPINS",
					     "?>SLEEPS", "?>WAKES", "WHY" };
	bool wants_pids = has_other_holders(v, seg);
	struct table t = {
		.headings = (v->is_watching ? rates : once) + !wants_pids,
		.n_columns = (v->is_watching ? sizeof(rates) / sizeof(*rates)
					     : sizeof(once) / sizeof(*once)) -
			     !wants_pids,
	};

	for (size_t i = 0; i < seg->n_socks; i++)
		if (stat_is_shown(v, &seg->socks[i]))
			add_sock(&t, v, seg, &seg->socks[i], wants_pids);
	if (t.n_rows)
		table_print(&t, stdout, screen);
	table_free(&t);
}

/* Our own TCP, of the connections that it has or has had. */
static void print_moved(const struct stat_view *v, const struct seg *seg,
			const struct screen *screen)
{
	static const char *const headings[] = { ">FD",      ">CWND",
						">RTT us",  ">RETRANSMITTED",
						">FREEZES", ">THAWS" };
	struct table t = { .headings = headings,
			   .n_columns = sizeof(headings) / sizeof(*headings) };

	for (size_t i = 0; i < seg->n_socks; i++) {
		const struct osf_stats_sock *s = &seg->socks[i].s;

		if (!s->n_freezes || !stat_is_shown(v, &seg->socks[i]))
			continue;
		table_row(&t, NULL);
		table_cell(&t, "%d", (int)s->fd);
		table_cell(&t, "%u", s->cwnd);
		table_cell(&t, "%u", s->srtt_us);
		table_cell(&t, "%" PRIu64, s->n_retransmitted);
		table_cell(&t, "%u", s->n_freezes);
		table_cell(&t, "%u", s->n_thaws);
	}
	if (t.n_rows)
		table_print(&t, stdout, screen);
	table_free(&t);
}

/* Frames that our own TCP has dropped. */
static void print_drops(const struct seg *seg, const struct screen *screen)
{
	for (unsigned i = 0; i < DROP_REASONS; i++)
		if (seg->head.totals.n_drop[i])
			screen_line(screen, stdout, STYLE_DIM,
				    "  %8s  frames dropped: %s",
				    unit_count(seg->head.totals.n_drop[i]).s,
				    seg_drop_text(i));
}

static void print_closed(const struct seg *seg, const struct screen *screen)
{
	const struct osf_stats_totals *t = &seg->head.totals;

	screen_line(
	    screen, stdout, STYLE_DIM,
	    "  closed sockets: shm %s in, %s out; kernel %s%s in, %s out;"
	    " %s ops, %s spins, %s sleeps, %s wakes",
	    unit_bytes(t->rx_bytes_shm).s, unit_bytes(t->tx_bytes_shm).s,
	    t->n_uncounted ? "at least " : "", unit_bytes(t->rx_bytes_inet).s,
	    unit_bytes(t->tx_bytes_inet).s, unit_count(t->rx_ops + t->tx_ops).s,
	    unit_count(t->n_spins).s, unit_count(t->n_sleeps).s,
	    unit_count(t->n_wakes).s);
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
		    "connected %s  fell back %s  broken %s  open %zu",
		    h->program, h->pid, unit_clock(h->started_ns).s,
		    unit_age(age_ns(h->started_ns)).s,
		    unit_count(t->n_upgraded).s, unit_count(t->n_accepted).s,
		    unit_count(t->n_connected).s, unit_count(t->n_fallbacks).s,
		    unit_count(t->n_broken).s, seg->n_socks - seg->n_gone);
	if (t->n_raw)
		screen_line(screen, stdout, NULL,
			    "  its system calls do not go through the C "
			    "library (Go): osf sees none of its sockets");
	print_socks(v, seg, screen);
	if (v->is_verbose) {
		print_moved(v, seg, screen);
		print_drops(seg, screen);
	}
	if (v->wants_closed)
		print_closed(seg, screen);
}

static void print_program(const struct stat_program *p,
			  const struct screen *screen)
{
	const struct osf_stats_totals *t = &p->sums.t;

	screen_line(
	    screen, stdout, STYLE_BOLD,
	    "%s: %zu processes, open %" PRIu64 "  upgraded %s  "
	    "accepted %s  connected %s  shm %s in, %s out  "
	    "kernel %s%s in, %s out",
	    p->name, p->n_processes, p->sums.n_open,
	    unit_count(t->n_upgraded).s, unit_count(t->n_accepted).s,
	    unit_count(t->n_connected).s, unit_bytes(t->rx_bytes_shm).s,
	    unit_bytes(t->tx_bytes_shm).s, t->n_uncounted ? "at least " : "",
	    unit_bytes(t->rx_bytes_inet).s, unit_bytes(t->tx_bytes_inet).s);
}

/* A line for each program of several processes. */
static void print_programs(const struct stat_view *v,
			   const struct screen *screen)
{
	for (size_t i = 0; i < v->now->n; i++) {
		if (!stat_is_first(v, i))
			continue;
		struct stat_program p = stat_program(v, i);
		if (p.n_processes > 1)
			print_program(&p, screen);
	}
}

/* What would change the reasons that were shown. */
static void print_advice(const struct stat_view *v, const struct screen *screen)
{
	bool is_shown[OSF_REASONS] = { 0 };

	for (size_t i = 0; i < v->now->n; i++)
		for (size_t j = 0; j < v->now->segs[i].n_socks; j++) {
			const struct seg_sock *s = &v->now->segs[i].socks[j];
			if (s->reason < OSF_REASONS && stat_is_shown(v, s) &&
			    !s->s.listening)
				is_shown[s->reason] = true;
		}
	for (unsigned i = 0; i < OSF_REASONS; i++)
		if (is_shown[i] && seg_reason_advice(i))
			screen_line(screen, stdout, STYLE_DIM, "%s: %s",
				    seg_reason_text(i), seg_reason_advice(i));
}

void stat_print_table(const struct stat_view *v)
{
	struct screen screen = screen_of(stdout), wide = screen;
	bool was_cut = false;

	wide.width = 0;
	screen.was_cut = &was_cut;
	if (v->is_wide)
		screen.width = 0;
	if (v->is_watching)
		fputs(CLEAR_SCREEN, stdout);
	for (size_t i = 0; i < v->now->n; i++) {
		print_process(v, &v->now->segs[i], &screen);
		putchar('\n');
	}
	print_programs(v, &wide);
	stat_ports_print(v->ports, &wide);
	print_advice(v, &wide);
	screen_tell_cut(&screen, stdout, "--wide shows all");
}

/* A number, or "-" where it is not known. */
static void print_tab_number(bool is_known, uint64_t n)
{
	if (is_known)
		printf("\t%" PRIu64, n);
	else
		fputs("\t-", stdout);
}

static void print_tab_pids(const struct seg *seg, const struct seg_sock *sock)
{
	printf("\t%d", (int)stat_row_pid(seg, sock));
	for (unsigned i = 0; i < sock->n_pids && i < SEG_PIDS_MAX; i++)
		if (sock->pids[i] != stat_row_pid(seg, sock))
			printf(",%d", (int)sock->pids[i]);
	if (sock->n_pids > SEG_PIDS_MAX)
		printf(",+%u", sock->n_pids - SEG_PIDS_MAX);
}

/* Who holds it, who has the other end, and what would change it. */
static void print_tab_look(const struct seg *seg, const struct seg_sock *sock)
{
	const char *advice =
	    sock->s.listening ? NULL : seg_reason_advice(sock->reason);

	print_tab_pids(seg, sock);
	print_tab_number(sock->peer_pid, (uint64_t)sock->peer_pid);
	printf("\t%s\t%s\t%s\n", sock->peer_pid ? sock->peer_program : "-",
	       sock->peer_reason ? seg_reason_name(sock->peer_reason) : "-",
	       advice ? advice : "-");
}

static void print_tab_sock(const struct stat_view *v, const struct seg *seg,
			   const struct seg_sock *sock)
{
	char local[SEG_ADDR_MAX], peer[SEG_ADDR_MAX];
	const struct osf_stats_sock *s = &sock->s;
	struct stat_rate r = stat_rate(seg, stat_before(v, seg), sock);

	seg_addr_text(s, false, local);
	seg_addr_text(s, true, peer);
	printf("%d\t%s\t%d\t%s\t%s\t%s\t%" PRIu64, (int)stat_row_pid(seg, sock),
	       seg->head.program, (int)s->fd, seg_proto_name(s), local, peer,
	       age_ns(s->opened_ns) / 1000000000);
	printf("\t%" PRIu64 "\t%" PRIu64, s->rx_bytes_shm, s->tx_bytes_shm);
	print_tab_number(sock->has_bytes, s->rx_bytes_inet);
	print_tab_number(sock->has_bytes, s->tx_bytes_inet);
	print_tab_number(sock->has_ops, s->rx_ops);
	print_tab_number(sock->has_ops, s->tx_ops);
	printf("\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, s->n_spins, s->n_sleeps,
	       s->n_wakes);
	printf("\t%s", seg_reason_name(sock->reason));
	print_tab_number(sock->has_bytes, r.rx);
	print_tab_number(sock->has_bytes, r.tx);
	print_tab_look(seg, sock);
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
	       "\tclosed\t0\t0\t%u\t-\t-\t-\t-\n",
	       t->rx_ops, t->tx_ops, t->n_spins, t->n_sleeps, t->n_wakes,
	       seg->head.pid);
}

void stat_print_tabs(const struct stat_view *v)
{
	if (!v->before)
		puts("pid\tprogram\tfd\tproto\tlocal\tpeer\tage_s"
		     "\trx_bytes_shm\ttx_bytes_shm\trx_bytes_inet"
		     "\ttx_bytes_inet\trx_ops\ttx_ops\tn_spins\tn_sleeps"
		     "\tn_wakes\treason\trx_bytes_per_s\ttx_bytes_per_s"
		     "\tpids\tpeer_pid\tpeer_program\tpeer_reason\tadvice");
	for (size_t i = 0; i < v->now->n; i++) {
		const struct seg *seg = &v->now->segs[i];

		for (size_t j = 0; j < seg->n_socks; j++)
			if (stat_is_shown(v, &seg->socks[j]))
				print_tab_sock(v, seg, &seg->socks[j]);
		if (v->wants_closed)
			print_tab_closed(seg);
	}
}
