/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_judge.c - medians, ratios, and whether a bar was reached
 *
 *     samples -> median, spread -> value of each bar -> outcome
 *
 * A bar that needs UCX where there is none cannot be judged; it is then not
 * missed either.
 */
#include "osf.h"
#include "bench_judge.h"
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_of(const double *values, unsigned n)
{
	double v[RUNS_MAX];

	if (n == 0)
		return MEDIAN_NONE;
	memcpy(v, values, n * sizeof(*v));
	qsort(v, n, sizeof(*v), compare);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static double spread_of(const double *v, unsigned n)
{
	double least, most, median = median_of(v, n);

	if (median <= 0)
		return 0;
	least = most = v[0];
	for (unsigned i = 1; i < n; i++) {
		least = v[i] < least ? v[i] : least;
		most = v[i] > most ? v[i] : most;
	}
	return (most - least) / median;
}

double result_median(const struct result *res, enum side side)
{
	return median_of(res->sample[side], res->n_samples[side]);
}

double result_spread(const struct result *res, enum side side)
{
	return spread_of(res->sample[side], res->n_samples[side]);
}

/* osf's figure over the other side's, of each round that both have run, or the other way round;
 * how many.  Both sides of a round have met the same machine, however busy it was, so the median
 * of these ratios says more than the ratio of two medians. */
static unsigned ratios_of(const struct result *res, enum side other,
			  bool is_inverse, double ratios[RUNS_MAX])
{
	const double *osf = res->sample[SIDE_OSF];
	const double *its = res->sample[other];
	unsigned n = 0;

	for (unsigned i = 0;
	     i < res->n_samples[SIDE_OSF] && i < res->n_samples[other]; i++)
		if (osf[i] > 0 && its[i] > 0)
			ratios[n++] =
			    is_inverse ? its[i] / osf[i] : osf[i] / its[i];
	return n;
}

/* The median of what osf takes over what the other side takes. */
static double cost_of(const struct result *res, enum side other)
{
	double ratios[RUNS_MAX];
	unsigned n = ratios_of(res, other, false, ratios);

	return median_of(ratios, n);
}

static double times_as_good(const struct result *res, enum side other)
{
	double ratios[RUNS_MAX];
	unsigned n = ratios_of(res, other, res->bench->is_cost, ratios);

	return median_of(ratios, n);
}

double result_ratio(const struct result *res)
{
	if (res->bench->bars[0].kind == BAR_AT_MOST)
		return MEDIAN_NONE; /* the figure itself is what counts */
	return times_as_good(res, SIDE_KERNEL);
}

double result_ratio_against(const struct result *res)
{
	return times_as_good(res, SIDE_AGAINST);
}

double result_spread_against(const struct result *res)
{
	double ratios[RUNS_MAX];
	unsigned n = ratios_of(res, SIDE_AGAINST, res->bench->is_cost, ratios);

	return spread_of(ratios, n);
}

/* What osf takes over what the other takes, in the round where that is most. */
static double worst_of_rounds(const struct result *res, enum side other)
{
	double ratios[RUNS_MAX], worst = MEDIAN_NONE;
	unsigned n = ratios_of(res, other, false, ratios);

	for (unsigned i = 0; i < n; i++)
		worst = ratios[i] > worst ? ratios[i] : worst;
	return worst;
}

double bar_value(const struct result *res, const struct bar *bar)
{
	double osf = result_median(res, SIDE_OSF);
	double kernel = result_median(res, SIDE_KERNEL);

	switch (bar->kind) {
	case BAR_NONE:
		return MEDIAN_NONE;
	case BAR_TIMES_KERNEL:
		return times_as_good(res, SIDE_KERNEL);
	case BAR_TIMES_UCX:
		return times_as_good(res, SIDE_UCX);
	case BAR_COST_KERNEL:
		return cost_of(res, SIDE_KERNEL);
	case BAR_COST_UCX:
		return cost_of(res, SIDE_UCX);
	case BAR_EACH_UCX:
		return worst_of_rounds(res, SIDE_UCX);
	case BAR_OVER_KERNEL:
		if (osf < 0 || kernel < 0)
			return MEDIAN_NONE;
		return osf > kernel ? osf - kernel : 0;
	case BAR_AT_LEAST:
	case BAR_AT_MOST:
		return osf;
	}
	return MEDIAN_NONE;
}

static bool is_upper_bar(enum bar_kind kind)
{
	return kind == BAR_COST_KERNEL || kind == BAR_COST_UCX ||
	       kind == BAR_EACH_UCX || kind == BAR_OVER_KERNEL ||
	       kind == BAR_AT_MOST;
}

static enum outcome judge_bar(const struct result *res, const struct bar *bar)
{
	double v = bar_value(res, bar);

	if (v < 0)
		return OUT_UNJUDGED;
	if (is_upper_bar(bar->kind))
		return v <= bar->limit ? OUT_OK : OUT_MISSED;
	return v >= bar->limit ? OUT_OK : OUT_MISSED;
}

/* Of two bars either of which will do. */
static enum outcome either(enum outcome a, enum outcome b)
{
	if (a == OUT_OK || b == OUT_OK)
		return OUT_OK;
	return a == OUT_UNJUDGED ? a : b;
}

void result_judge(struct result *res)
{
	enum outcome all = OUT_OK;

	for (unsigned i = 0; i < BARS_MAX; i++) {
		const struct bar *bar = &res->bench->bars[i];
		enum outcome one;

		if (bar->kind == BAR_NONE)
			break;
		one = judge_bar(res, bar);
		for (; bar->or_next && i + 1 < BARS_MAX; i++, bar++)
			one = either(one, judge_bar(res, bar + 1));
		if (one == OUT_MISSED || all == OUT_OK)
			all = one;
	}
	res->outcome = all;
}

const char *side_name(enum side side)
{
	static const char *const names[SIDES] = { "kernel", "osf", "against",
						  "ucx" };

	return names[side];
}

const char *outcome_text(enum outcome o)
{
	static const char *const texts[] = {
		[OUT_OK] = "ok",
		[OUT_MISSED] = "NOT REACHED",
		[OUT_UNJUDGED] = "not judged",
		[OUT_KERNEL] = "not offloaded",
		[OUT_FAILED] = "failed",
		[OUT_SKIPPED] = "skipped",
	};

	return texts[o];
}

const char *bar_kind_name(enum bar_kind kind)
{
	static const char *const names[] = {
		[BAR_NONE] = "none",
		[BAR_TIMES_KERNEL] = "times_kernel_at_least",
		[BAR_TIMES_UCX] = "times_ucx_at_least",
		[BAR_COST_KERNEL] = "of_kernel_at_most",
		[BAR_COST_UCX] = "of_ucx_at_most",
		[BAR_EACH_UCX] = "of_ucx_in_each_round_at_most",
		[BAR_OVER_KERNEL] = "over_kernel_at_most",
		[BAR_AT_LEAST] = "at_least",
		[BAR_AT_MOST] = "at_most",
	};

	return names[kind];
}

/* ">=4x kernel", "<=1x ucx", "<=16.4kB"; with what was reached in front. */
static char *one_bar_text(const struct result *res, const struct bar *bar)
{
	static const char *const of[] = {
		[BAR_TIMES_KERNEL] = "x kernel",
		[BAR_TIMES_UCX] = "x ucx",
		[BAR_COST_KERNEL] = "x kernel",
		[BAR_COST_UCX] = "x ucx",
		[BAR_EACH_UCX] = "x ucx in each round",
		[BAR_OVER_KERNEL] = " more",
		[BAR_AT_LEAST] = "",
		[BAR_AT_MOST] = "",
	};
	const char *sign = is_upper_bar(bar->kind) ? "<=" : ">=";
	bool is_scaled = bar->limit >= 1000;
	double v = bar_value(res, bar);
	struct unit_text limit = { "" }, value = { "" };

	snprintf(limit.s, sizeof(limit.s), "%g", bar->limit);
	if (v >= 0)
		value = unit_figure(v);
	if (is_scaled)
		limit = unit_count((uint64_t)bar->limit);
	if (is_scaled && v >= 0)
		value = unit_count((uint64_t)v);
	return xasprintf("%s%s%s%s%s", value.s, v >= 0 ? " " : "", sign,
			 limit.s, of[bar->kind]);
}

char *bar_text(const struct result *res)
{
	char *all = xstrdup("");

	for (unsigned i = 0; i < BARS_MAX; i++) {
		const struct bar *bar = &res->bench->bars[i];
		const char *glue = i == 0            ? ""
				   : bar[-1].or_next ? " or "
						     : ", ";

		if (bar->kind == BAR_NONE)
			break;
		char *one = one_bar_text(res, bar);
		char *more = xasprintf("%s%s%s", all, glue, one);
		free(all);
		free(one);
		all = more;
	}
	return all;
}
