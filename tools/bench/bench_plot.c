/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_plot.c - the ratios as a bar chart, drawn by gnuplot
 *
 *     struct result[] -> a script in a private directory -> gnuplot -> PNG
 *
 * One bar for each benchmark: how many times as good as the kernel, on a
 * logarithmic scale, and a line where its bar against the kernel lies.
 */
#include "osf.h"
#include "bench_judge.h"
#include "bench_print.h"
#include "proc.h"
#include "scratch.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GNUPLOT_S 30.0

/* In gnuplot's single quotes, a quote is written twice. */
static void write_quoted(FILE *f, const char *s)
{
	fputc('\'', f);
	for (; *s; s++) {
		if (*s == '\'')
			fputc('\'', f);
		fputc(*s, f);
	}
	fputc('\'', f);
}

/* The bar as a ratio to the kernel, or 0 when it is of another kind. */
static double kernel_limit(const struct bench *b)
{
	for (unsigned i = 0; i < BARS_MAX; i++) {
		if (b->bars[i].kind == BAR_TIMES_KERNEL)
			return b->bars[i].limit;
		if (b->bars[i].kind == BAR_COST_KERNEL)
			return 1 / b->bars[i].limit;
	}
	return 0;
}

static unsigned write_data(FILE *f, const struct result *results, size_t n)
{
	unsigned n_rows = 0;

	fputs("$ratios << END\n", f);
	for (size_t i = 0; i < n; i++) {
		double ratio = result_ratio(&results[i]);
		double limit = kernel_limit(results[i].bench);

		if (ratio <= 0 || results[i].outcome == OUT_FAILED)
			continue;
		fprintf(f, "%u %s %.4f ", n_rows++, results[i].bench->name,
			ratio);
		if (limit > 0)
			fprintf(f, "%.4f\n", limit);
		else
			fputs("NaN\n", f);
	}
	fputs("END\n", f);
	return n_rows;
}

static int write_script(const char *path, const struct result *results,
			size_t n, const char *png)
{
	FILE *f = fopen(path, "we");

	if (!f)
		return -errno;
	unsigned n_rows = write_data(f, results, n);
	fputs("set terminal png size 1100,560\nset output ", f);
	write_quoted(f, png);
	fprintf(f,
		"\nset title 'osf against the kernel: times as good'\n"
		"set logscale y\nset grid ytics\nset key top right\n"
		"set style fill solid 0.6\nset boxwidth 0.6\n"
		"set xtics rotate by -35\nset xrange [-0.6:%u-0.4]\n"
		"set yrange [0.5:*]\n"
		"plot $ratios using 1:3:xtic(2) with boxes title 'osf', \\\n"
		"  '' using 1:3:(sprintf('%%.3g', $3)) with labels offset 0,0.7"
		" notitle, \\\n"
		"  '' using 1:4:(0.35) with xerrorbars lw 2 pt 0 title 'bar', "
		"\\\n  1 with lines dt 2 title 'kernel'\n",
		n_rows);
	int err = ferror(f) ? -EIO : 0;
	if (fclose(f) != 0)
		err = -errno;
	return err ? err : n_rows ? 0 : -ENODATA;
}

static int run_gnuplot(const char *script)
{
	struct proc p;
	char *text;
	struct proc_spec spec = {
		.argv = (const char *const[]){ "gnuplot", script, NULL },
		.wants_output = true,
		.is_loud = true,
	};
	int err = proc_start(&p, &spec);

	if (!err)
		err = proc_output(&p, GNUPLOT_S, &text);
	if (!err)
		free(text);
	return err;
}

int bench_plot(const struct result *results, size_t n,
	       const struct bench_args *args)
{
	struct scratch dir = { 0 };
	char script[sizeof(dir.path) + 16];

	if (!program_exists("gnuplot")) {
		complain("no gnuplot; install the package gnuplot-nox");
		return -ENOENT;
	}
	int err = scratch_open(&dir);
	if (!err) {
		snprintf(script, sizeof(script), "%s/plot", dir.path);
		err = write_script(script, results, n, args->plot);
	}
	if (!err)
		err = run_gnuplot(script);
	scratch_close(&dir);
	if (err == -ENODATA)
		complain("there is nothing to plot");
	else if (err)
		complain("%s was not drawn: %s", args->plot,
			 err == -ECHILD ? "gnuplot failed" : strerror(-err));
	return err;
}
