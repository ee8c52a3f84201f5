/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_ucx.c - what UCX's own benchmark says of its shared memory
 *
 *     ucx_perftest -p PORT  <-  ucx_perftest HOST -p PORT -t TEST ...  -> its last row
 */
#include "osf.h"
#include "bench_pair.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX 8

static int ucx_row(struct bench_run *r, const char *text,
		   enum ucx_column column)
{
	double v[8];
	const char *row = strrchr(text, ' ');

	while (row && row > text && row[-1] != '\n')
		row--;
	int n = !row ? 0
		     : sscanf(row, "%lf %lf %lf %lf %lf %lf %lf %lf", &v[0],
			      &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]);
	if (n != 8)
		return run_fail(r, -EBADMSG, "ucx_perftest printed no result");
	r->value = v[column];
	return 0;
}

int run_ucx(struct bench_run *r, const struct ucx_test *t)
{
	struct port_text port;
	char n[24], *text = NULL;

	if (run_port(r, &port) < 0)
		return -EADDRINUSE;
	snprintf(n, sizeof(n), "%.0f", t->per_second * r->args->seconds);
	const char *client[13 + OPTIONS_MAX] = {
		"ucx_perftest", run_host(r), "-p", port.s, "-t", t->test,
		"-s",           t->size,     "-n", n,      "-f"
	};
	for (unsigned i = 0; t->options && t->options[i] && i < OPTIONS_MAX;
	     i++)
		client[11 + i] = t->options[i];
	r->ucx_tls = t->tls;
	int err = run_pair(
	    r, (const char *const[]){ "ucx_perftest", "-p", port.s, NULL },
	    port.s, client, &text);
	if (!err)
		err = ucx_row(r, text, t->column);
	free(text);
	return err;
}
