/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_judge.h - medians, ratios, and whether a bar was reached
 */
#pragma once
#include "bench.h"

#define MEDIAN_NONE (-1.0)
double result_median(const struct result *res, enum side side);
double result_spread(const struct result *res, enum side side);
/* Times as good as the kernel, and as the older build: medians of the ratios of the rounds. */
double result_ratio(const struct result *res);
double result_ratio_against(const struct result *res);
double result_spread_against(const struct result *res); /* of these ratios */
void result_judge(struct result *res);
char *bar_text(const struct result *res); /* the caller's to free() */
double bar_value(const struct result *res, const struct bar *bar);
const char *outcome_text(enum outcome o);
const char *side_name(enum side side);
const char *bar_kind_name(enum bar_kind kind);
