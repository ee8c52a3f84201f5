/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/stat_json.c - what "osf stat --json" prints
 *
 *     {"osf_stat":1,"processes":[{..., "totals":{...}, "sockets":[...]}],
 *      "programs":[...]}
 *
 * osf(1) describes the schema, which is an interface: new versions only add keys.  Counters
 * are printed as integers, because a double does not hold all of them.  With --watch, each
 * turn prints one document on a line.
 */
#include "osf.h"
#include "stat.h"
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>

/* An exact integer; cJSON's own numbers are doubles. */
static void add_count(cJSON *to, const char *key, uint64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, n);
	cJSON_AddRawToObject(to, key, text);
}

/* The same, or null where nobody has counted. */
static void add_known(cJSON *to, const char *key, bool is_known, uint64_t n)
{
	if (is_known)
		add_count(to, key, n);
	else
		cJSON_AddNullToObject(to, key);
}

static void add_text(cJSON *to, const char *key, const char *text)
{
	if (text)
		cJSON_AddStringToObject(to, key, text);
	else
		cJSON_AddNullToObject(to, key);
}

static void add_reasons(cJSON *to, const char *key, const uint64_t *n_reason)
{
	cJSON *o = cJSON_AddObjectToObject(to, key);

	for (unsigned i = 0; i < OSF_REASONS; i++)
		if (n_reason[i])
			add_count(o, seg_reason_name(i), n_reason[i]);
}

static void add_drops(cJSON *to, const uint64_t *n_drop)
{
	cJSON *o = cJSON_AddObjectToObject(to, "drops");

	for (unsigned i = 0; i < DROP_REASONS; i++)
		if (n_drop[i])
			add_count(o, seg_drop_name(i), n_drop[i]);
}

static void add_sums(cJSON *o, const struct seg_sums *sums)
{
	add_count(o, "n_open", sums->n_open);
	add_count(o, "rx_bytes_shm_all", sums->t.rx_bytes_shm);
	add_count(o, "tx_bytes_shm_all", sums->t.tx_bytes_shm);
	add_count(o, "tx_bytes_ref_all", sums->t.tx_bytes_ref);
	add_count(o, "rx_bytes_inet_all", sums->t.rx_bytes_inet);
	add_count(o, "tx_bytes_inet_all", sums->t.tx_bytes_inet);
	add_count(o, "n_uncounted_all", sums->t.n_uncounted);
	add_count(o, "rx_ops_all", sums->t.rx_ops);
	add_count(o, "tx_ops_all", sums->t.tx_ops);
	add_count(o, "n_spins_all", sums->t.n_spins);
	add_count(o, "n_sleeps_all", sums->t.n_sleeps);
	add_count(o, "n_wakes_all", sums->t.n_wakes);
	add_reasons(o, "reasons_all", sums->t.n_reason);
}

static void add_totals(cJSON *process, const struct seg *seg)
{
	const struct osf_stats_totals *t = &seg->head.totals;
	cJSON *o = cJSON_AddObjectToObject(process, "totals");

	add_count(o, "n_sockets", t->n_sockets);
	add_count(o, "n_connected", t->n_connected);
	add_count(o, "n_accepted", t->n_accepted);
	add_count(o, "n_upgraded", t->n_upgraded);
	add_count(o, "n_fallbacks", t->n_fallbacks);
	add_count(o, "n_broken", t->n_broken);
	add_count(o, "n_proposals", t->n_proposals);
	add_count(o, "n_proposals_expired", t->n_proposals_expired);
	add_count(o, "rx_bytes_shm", t->rx_bytes_shm);
	add_count(o, "tx_bytes_shm", t->tx_bytes_shm);
	add_count(o, "tx_bytes_ref", t->tx_bytes_ref);
	add_count(o, "rx_bytes_inet", t->rx_bytes_inet);
	add_count(o, "tx_bytes_inet", t->tx_bytes_inet);
	add_count(o, "rx_ops", t->rx_ops);
	add_count(o, "tx_ops", t->tx_ops);
	add_count(o, "n_spins", t->n_spins);
	add_count(o, "n_sleeps", t->n_sleeps);
	add_count(o, "n_wakes", t->n_wakes);
	add_count(o, "n_uncounted", t->n_uncounted);
	add_reasons(o, "reasons", t->n_reason);
	add_drops(o, t->n_drop);

	struct seg_sums sums = { 0 };
	seg_sums_add(&sums, seg);
	add_sums(o, &sums);
}

static void add_addresses(cJSON *o, const struct osf_stats_sock *s)
{
	char text[SEG_ADDR_MAX];

	seg_addr_text(s, false, text);
	cJSON_AddStringToObject(o, "local", text);
	seg_addr_text(s, true, text);
	cJSON_AddStringToObject(o, "peer", text);
}

/* Who holds it, and who has the other end. */
static void add_people(cJSON *o, const struct seg *seg,
		       const struct seg_sock *sock)
{
	cJSON *pids = cJSON_AddArrayToObject(o, "pids");

	cJSON_AddNumberToObject(o, "pid", stat_row_pid(seg, sock));
	for (unsigned i = 0; i < sock->n_pids && i < SEG_PIDS_MAX; i++)
		cJSON_AddItemToArray(pids, cJSON_CreateNumber(sock->pids[i]));
	cJSON_AddNumberToObject(o, "n_pids", sock->n_pids);
	cJSON_AddBoolToObject(o, "gone", sock->is_gone);
	add_known(o, "peer_pid", sock->peer_pid, (uint64_t)sock->peer_pid);
	add_text(o, "peer_program", sock->peer_pid ? sock->peer_program : NULL);
	add_text(o, "peer_reason",
		 sock->peer_reason ? seg_reason_name(sock->peer_reason) : NULL);
}

static void add_sock(cJSON *array, const struct stat_view *v,
		     const struct seg *seg, const struct seg_sock *sock)
{
	const struct osf_stats_sock *s = &sock->s;
	const struct seg *before = stat_before(v, seg);
	cJSON *o = cJSON_CreateObject();

	cJSON_AddItemToArray(array, o);
	cJSON_AddNumberToObject(o, "fd", s->fd);
	cJSON_AddStringToObject(o, "proto", seg_proto_name(s));
	add_addresses(o, s);
	cJSON_AddBoolToObject(o, "passive", s->passive);
	cJSON_AddBoolToObject(o, "listening", s->listening);
	cJSON_AddStringToObject(o, "opened", unit_rfc3339(s->opened_ns).s);
	cJSON_AddStringToObject(o, "since", unit_rfc3339(s->since_ns).s);
	add_count(o, "rx_bytes_shm", s->rx_bytes_shm);
	add_count(o, "tx_bytes_shm", s->tx_bytes_shm);
	add_count(o, "tx_bytes_ref", s->tx_bytes_ref);
	add_known(o, "rx_bytes_inet", sock->has_bytes, s->rx_bytes_inet);
	add_known(o, "tx_bytes_inet", sock->has_bytes, s->tx_bytes_inet);
	add_known(o, "rx_ops", sock->has_ops, s->rx_ops);
	add_known(o, "tx_ops", sock->has_ops, s->tx_ops);
	add_count(o, "n_spins", s->n_spins);
	add_count(o, "n_sleeps", s->n_sleeps);
	add_count(o, "n_wakes", s->n_wakes);
	add_count(o, "cwnd", s->cwnd);
	add_count(o, "srtt_us", s->srtt_us);
	add_count(o, "n_retransmitted", s->n_retransmitted);
	add_count(o, "n_freezes", s->n_freezes);
	add_count(o, "n_thaws", s->n_thaws);
	cJSON_AddStringToObject(o, "reason", seg_reason_name(sock->reason));
	cJSON_AddStringToObject(o, "reason_text",
				seg_reason_text(sock->reason));
	add_text(o, "advice",
		 s->listening ? NULL : seg_reason_advice(sock->reason));
	add_people(o, seg, sock);
	if (before) {
		struct stat_rate r = stat_rate(seg, before, sock);
		add_known(o, "rx_bytes_per_s", sock->has_bytes, r.rx);
		add_known(o, "tx_bytes_per_s", sock->has_bytes, r.tx);
	}
}

static void add_process(cJSON *array, const struct stat_view *v,
			const struct seg *seg)
{
	const struct osf_stats_header *h = &seg->head;
	cJSON *o = cJSON_CreateObject();
	char version[24];

	cJSON_AddItemToArray(array, o);
	cJSON_AddNumberToObject(o, "pid", h->pid);
	cJSON_AddNumberToObject(o, "uid", h->uid);
	cJSON_AddStringToObject(o, "program", h->program);
	snprintf(version, sizeof(version), "%u.%u", h->version >> 16,
		 h->version & 0xffff);
	cJSON_AddStringToObject(o, "version", version);
	cJSON_AddStringToObject(o, "started", unit_rfc3339(h->started_ns).s);
	cJSON_AddBoolToObject(o, "makes_raw_calls", h->totals.n_raw != 0);
	add_totals(o, seg);

	cJSON *socks = cJSON_AddArrayToObject(o, "sockets");
	for (size_t i = 0; i < seg->n_socks; i++)
		if (stat_is_shown(v, &seg->socks[i]))
			add_sock(socks, v, seg, &seg->socks[i]);
}

static void add_program(cJSON *array, const struct stat_program *p)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddItemToArray(array, o);
	cJSON_AddStringToObject(o, "program", p->name);
	add_count(o, "n_processes", p->n_processes);
	add_count(o, "n_connected", p->sums.t.n_connected);
	add_count(o, "n_accepted", p->sums.t.n_accepted);
	add_count(o, "n_upgraded", p->sums.t.n_upgraded);
	add_sums(o, &p->sums);
}

static void add_programs(cJSON *top, const struct stat_view *v)
{
	cJSON *programs = cJSON_AddArrayToObject(top, "programs");

	for (size_t i = 0; i < v->now->n; i++) {
		if (!stat_is_first(v, i))
			continue;
		struct stat_program p = stat_program(v, i);
		add_program(programs, &p);
	}
}

void stat_print_json(const struct stat_view *v)
{
	cJSON *top = cJSON_CreateObject();

	cJSON_AddNumberToObject(top, "osf_stat", 1);
	cJSON *processes = cJSON_AddArrayToObject(top, "processes");
	for (size_t i = 0; i < v->now->n; i++)
		add_process(processes, v, &v->now->segs[i]);
	add_programs(top, v);
	stat_ports_json(v->ports, top);

	char *text =
	    v->is_watching ? cJSON_PrintUnformatted(top) : cJSON_Print(top);
	if (text)
		puts(text);
	else
		complain("out of memory");
	cJSON_free(text);
	cJSON_Delete(top);
}
