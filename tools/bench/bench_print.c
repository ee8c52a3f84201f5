/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_print.c - the figures of a benchmark, as table and as JSON
 *
 *     struct result[] -> a line each, and below why something is missing
 *                     -> one JSON document, described in osf(1)
 */
#include "osf.h"
#include "bench_judge.h"
#include "bench_print.h"
#include "table.h"
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

void bench_print_list(void)
{
	static const char *const headings[] = { "GROUP", "NAME", "WHAT",
						"BAR" };
	struct screen screen = screen_of(stdout);
	bool was_cut = false;
	struct table t = { .headings = headings, .n_columns = 4 };

	for (size_t i = 0; i < N_BENCHES; i++) {
		struct result none = { .bench = &benches[i] };
		char *bar = bar_text(&none);

		table_row(&t, NULL);
		table_cell(&t, "%s", benches[i].group);
		table_cell(&t, "%s", benches[i].name);
		table_cell(&t, "%s", benches[i].what);
		table_cell(&t, "%s", bar);
		free(bar);
	}
	screen.was_cut = &was_cut;
	table_print(&t, stdout, &screen);
	screen_tell_cut(&screen, stdout, "a pipe gets all: osf bench | cat");
	table_free(&t);
}

static void add_figure(struct table *t, const struct result *res,
		       enum side side)
{
	double median = result_median(res, side);

	if (median < 0)
		table_cell(t, "-");
	else if (res->bench->is_unit_scaled)
		table_cell(t, "%s", unit_count((uint64_t)median).s);
	else
		table_cell(t, "%s", unit_figure(median).s);
	if (side == SIDE_UCX)
		return;
	if (median < 0)
		table_cell(t, "-");
	else
		table_cell(t, "%.0f%%", 100 * result_spread(res, side));
}

static const char *result_style(const struct result *res)
{
	switch (res->outcome) {
	case OUT_OK:
		return STYLE_GREEN;
	case OUT_MISSED:
	case OUT_KERNEL:
	case OUT_FAILED:
		return STYLE_RED;
	case OUT_UNJUDGED:
	case OUT_SKIPPED:
		break;
	}
	return STYLE_DIM;
}

static void add_ratio(struct table *t, double ratio)
{
	if (ratio < 0)
		table_cell(t, "-");
	else
		table_cell(t, "%sx", unit_figure(ratio).s);
}

static void add_result(struct table *t, const struct result *res,
		       bool has_against)
{
	char *bar = bar_text(res);

	table_row(t, result_style(res));
	table_cell(t, "%s", res->bench->name);
	table_cell(t, "%s", res->bench->unit);
	for (unsigned side = 0; side < SIDES; side++)
		if (side != SIDE_AGAINST || has_against)
			add_figure(t, res, side);
	add_ratio(t, result_ratio(res));
	if (has_against) {
		add_ratio(t, result_ratio_against(res));
		table_cell(t, "%.0f%%", 100 * result_spread_against(res));
	}
	table_cell(t, "%s", outcome_text(res->outcome));
	table_cell(t, "%s", bar);
	free(bar);
}

void bench_print_table(const struct result *results, size_t n,
		       const struct bench_args *args)
{
	static const char *const plain[] = { "BENCH", "UNIT",   ">KERNEL",
					     "?>+-",  ">OSF",   "?>+-",
					     "?>UCX", ">RATIO", "RESULT",
					     "BAR" };
	static const char *const against[] = { "BENCH",  "UNIT",    ">KERNEL",
					       "?>+-",   ">OSF",    "?>+-",
					       ">OLD",   "?>+-",    "?>UCX",
					       ">RATIO", ">TO OLD", "?>+-",
					       "RESULT", "BAR" };
	struct screen screen = screen_of(stdout);
	bool was_cut = false;
	struct table t = {
		.headings = args->against ? against : plain,
		.n_columns = args->against ? sizeof(against) / sizeof(*against)
					   : sizeof(plain) / sizeof(*plain),
	};

	for (size_t i = 0; i < n; i++)
		add_result(&t, &results[i], args->against);
	screen.was_cut = &was_cut;
	table_print(&t, stdout, &screen);
	screen_tell_cut(&screen, stdout, "a pipe gets all: osf bench | cat");
	table_free(&t);
	for (size_t i = 0; i < n; i++)
		if (*results[i].why)
			printf("%s: %s\n", results[i].bench->name,
			       results[i].why);
}

static void add_side(cJSON *to, const struct result *res, enum side side)
{
	cJSON *o, *samples;

	if (res->n_samples[side] == 0)
		return;
	o = cJSON_AddObjectToObject(to, side_name(side));
	cJSON_AddNumberToObject(o, "median", result_median(res, side));
	cJSON_AddNumberToObject(o, "spread", result_spread(res, side));
	samples = cJSON_AddArrayToObject(o, "samples");
	for (unsigned i = 0; i < res->n_samples[side]; i++)
		cJSON_AddItemToArray(samples,
				     cJSON_CreateNumber(res->sample[side][i]));
}

/* Nothing that is measured is below 0. */
static void add_number(cJSON *to, const char *name, double v)
{
	if (v >= 0)
		cJSON_AddNumberToObject(to, name, v);
	else
		cJSON_AddNullToObject(to, name);
}

static void add_bars(cJSON *to, const struct result *res)
{
	cJSON *bars = cJSON_AddArrayToObject(to, "bars");

	for (unsigned i = 0; i < BARS_MAX; i++) {
		const struct bar *bar = &res->bench->bars[i];

		if (bar->kind == BAR_NONE)
			break;
		cJSON *o = cJSON_CreateObject();
		cJSON_AddItemToArray(bars, o);
		cJSON_AddStringToObject(o, "kind", bar_kind_name(bar->kind));
		cJSON_AddNumberToObject(o, "limit", bar->limit);
		add_number(o, "value", bar_value(res, bar));
		cJSON_AddBoolToObject(o, "or_next", bar->or_next);
	}
}

static cJSON *result_json(const struct result *res)
{
	const struct bench *b = res->bench;
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "group", b->group);
	cJSON_AddStringToObject(o, "name", b->name);
	cJSON_AddStringToObject(o, "what", b->what);
	cJSON_AddStringToObject(o, "unit", b->unit);
	cJSON_AddStringToObject(o, "better", b->is_cost ? "lower" : "higher");
	cJSON_AddStringToObject(o, "result", outcome_text(res->outcome));
	cJSON_AddStringToObject(o, "note", res->why);
	add_number(o, "ratio", result_ratio(res));
	add_number(o, "ratio_against", result_ratio_against(res));
	add_bars(o, res);
	for (unsigned side = 0; side < SIDES; side++)
		add_side(o, res, side);
	cJSON_AddNumberToObject(o, "n_connections", (double)res->n_connections);
	cJSON_AddNumberToObject(o, "n_upgraded", (double)res->n_upgraded);
	cJSON_AddNumberToObject(o, "bytes_shm", (double)res->bytes_shm);
	cJSON_AddNumberToObject(o, "bytes_inet", (double)res->bytes_inet);
	return o;
}

void bench_print_json(const struct result *results, size_t n,
		      const struct bench_args *args)
{
	cJSON *top = cJSON_CreateObject();

	cJSON_AddNumberToObject(top, "osf_bench", 1);
	cJSON_AddNumberToObject(top, "seconds", args->seconds);
	cJSON_AddNumberToObject(top, "runs", args->n_runs);
	cJSON_AddStringToObject(top, "lib", args->lib);
	if (args->against)
		cJSON_AddStringToObject(top, "against", args->against);
	else
		cJSON_AddNullToObject(top, "against");
	cJSON_AddItemToObject(top, "cpus", cJSON_CreateIntArray(args->cpus, 2));
	cJSON *benches_json = cJSON_AddArrayToObject(top, "benches");
	for (size_t i = 0; i < n; i++)
		cJSON_AddItemToArray(benches_json, result_json(&results[i]));

	char *text = cJSON_Print(top);
	if (text)
		puts(text);
	else
		complain("out of memory");
	cJSON_free(text);
	cJSON_Delete(top);
}
