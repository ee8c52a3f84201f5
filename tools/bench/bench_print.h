/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_print.h - results, for people and for programs
 */
#pragma once
#include "bench.h"

void bench_print_list(void);
void bench_print_table(const struct result *results, size_t n,
		       const struct bench_args *args);
void bench_print_json(const struct result *results, size_t n,
		      const struct bench_args *args);
int bench_plot(const struct result *results, size_t n,
	       const struct bench_args *args);
