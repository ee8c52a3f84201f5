/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_tools.c - benchmarks made of other projects' programs
 *
 *     sockperf, iperf3, redis, nginx and wrk, memcached, UCX
 *
 * Each starts its server on a free port of run_host(), runs its client, and
 * takes one number out of what that printed.  Options are the plainest that
 * keep disks and logs out of the measurement.
 */
#include "osf.h"
#include "bench_pair.h"
#include "bench_runs.h"
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REDIS_PROGRAMS_MAX 8
#define REDIS_SHORT 20000.0 /* requests that tell how fast it is */

struct number {
	char s[24];
};

static struct number number(double v)
{
	struct number n;

	snprintf(n.s, sizeof(n.s), "%.0f", v);
	return n;
}

/* Tools that only know whole seconds. */
static struct number whole_seconds(const struct bench_run *r)
{
	double s = r->args->seconds;

	return number(s < 1 ? 1 : s + 0.5);
}

/* sockperf keeps a record of each message and has room for 600,000 a second; it
 * aborts when a ping-pong is faster, so it is told to go no faster. */
#define SOCKPERF_MPS "500000"

int bench_sockperf(struct bench_run *r)
{
	struct number s = whole_seconds(r);
	struct port_text port;
	char *text = NULL;

	if (run_port(r, &port) < 0)
		return -EADDRINUSE;
	int err = run_pair(
	    r,
	    (const char *const[]){ "sockperf", "server", "--tcp", "-i",
				   run_host(r), "-p", port.s, NULL },
	    port.s,
	    (const char *const[]){ "sockperf", "ping-pong", "--tcp", "-i",
				   run_host(r), "-p", port.s, "-m", "64", "-t",
				   s.s, "--mps", SOCKPERF_MPS, NULL },
	    &text);
	if (!err)
		err = run_value(r, text, "percentile 50.000 =");
	free(text);
	return err;
}

/* end.sum_received.bits_per_second, in Gbit/s */
static int iperf3_value(struct bench_run *r, const char *text)
{
	cJSON *doc = cJSON_Parse(text);
	const cJSON *end = cJSON_GetObjectItem(doc, "end");
	const cJSON *sum = cJSON_GetObjectItem(end, "sum_received");
	const cJSON *bps = cJSON_GetObjectItem(sum, "bits_per_second");
	bool ok = cJSON_IsNumber(bps);

	if (ok)
		r->value = bps->valuedouble / 1e9;
	cJSON_Delete(doc);
	return ok ? 0 : run_fail(r, -EBADMSG, "iperf3 printed no result");
}

int bench_stream(struct bench_run *r)
{
	struct number s = whole_seconds(r);
	struct port_text port;
	char *text = NULL;

	if (run_port(r, &port) < 0)
		return -EADDRINUSE;
	int err =
	    run_pair(r,
		     (const char *const[]){ "iperf3", "-s", "-B", run_host(r),
					    "-p", port.s, NULL },
		     port.s,
		     (const char *const[]){ "iperf3", "-c", run_host(r), "-p",
					    port.s, "-t", s.s, "-J", NULL },
		     &text);
	if (!err)
		err = iperf3_value(r, text);
	free(text);
	return err;
}

struct redis_load {
	const char *connections; /* of each program */
	const char *pipeline;    /* requests at a time */
	unsigned n_programs;     /* that load the server at the same time */
};

static int redis_start(struct bench_run *r, struct proc *p, const char *port,
		       const struct redis_load *load, double n)
{
	struct number requests = number(n / load->n_programs);

	return run_start(r, p,
			 (const char *const[]){
			     "redis-benchmark", "-h", run_host(r), "-p", port,
			     "-t", "get", "--csv", "-c", load->connections,
			     "-P", load->pipeline, "-n", requests.s, NULL },
			 false, true);
}

static int redis_end(struct bench_run *r, struct proc *p)
{
	char *text = NULL;
	int err = run_output(r, p, "redis-benchmark", run_timeout_s(r), &text);

	if (!err)
		err = run_value(r, text, "\"GET\",\"");
	free(text);
	return err;
}

/* @n requests in all.  Of several programs each knows how fast it was itself, and that
 * may have been while others had to wait: then the time until all have ended counts. */
static int redis_load(struct bench_run *r, const char *port,
		      const struct redis_load *load, double n)
{
	struct proc p[REDIS_PROGRAMS_MAX] = { 0 };
	uint64_t from_ns = now_ns();
	unsigned n_started = 0;
	int err = 0;

	while (!err && n_started < load->n_programs) {
		err = redis_start(r, &p[n_started], port, load, n);
		n_started += !err;
	}
	for (unsigned i = 0; i < n_started; i++) {
		if (!err)
			err = redis_end(r, &p[i]);
		proc_stop(&p[i]);
	}
	if (load->n_programs > 1)
		r->value = n * 1e9 / (double)(now_ns() - from_ns);
	return err;
}

/* How many requests last for args->seconds is known from a short load before. */
static int redis(struct bench_run *r, const struct redis_load *load)
{
	struct port_text port;
	struct proc server;

	if (run_port(r, &port) < 0)
		return -EADDRINUSE;
	int err = run_server(r, &server,
			     (const char *const[]){
				 "redis-server", "--bind", run_host(r),
				 "--port", port.s, "--save", "", "--appendonly",
				 "no", "--protected-mode", "no", NULL },
			     port.s);
	if (err)
		return err;

	double n = REDIS_SHORT;
	err = redis_load(r, port.s, load, n);
	if (r->value * r->args->seconds > n)
		n = r->value * r->args->seconds;
	if (!err && r->warms_up) {
		err = redis_load(r, port.s, load, n);
		r->first = r->value;
	}
	if (!err && (r->warms_up || n > REDIS_SHORT))
		err = redis_load(r, port.s, load, n);
	proc_stop(&server);
	return err;
}

int bench_redis_1(struct bench_run *r)
{
	return redis(r, &(struct redis_load){ "1", "1", 1 });
}

int bench_redis_50(struct bench_run *r)
{
	return redis(r, &(struct redis_load){ "50", "1", 1 });
}

int bench_redis_pipelined(struct bench_run *r)
{
	return redis(r, &(struct redis_load){ "50", "16", 1 });
}

int bench_redis_crowd(struct bench_run *r)
{
	return redis(r, &(struct redis_load){ "8", "1", 1 });
}

int bench_redis_crowds(struct bench_run *r)
{
	return redis(r, &(struct redis_load){ "1", "1", 8 });
}

/* The load is our own: memaslap is not in Debian, and memcslap measures how
 * fast it can make keys. */
int bench_memcached(struct bench_run *r)
{
	char seconds[24];
	struct port_text port;
	char *text = NULL;
	const char *as_root = geteuid() == 0 ? "-u" : NULL;

	if (run_port(r, &port) < 0)
		return -EADDRINUSE;
	snprintf(seconds, sizeof(seconds), "%g", r->args->seconds);
	int err = run_pair(
	    r,
	    (const char *const[]){ "memcached", "-t", "2", "-l", run_host(r),
				   "-p", port.s, "-U", "0", as_root, "root",
				   NULL },
	    port.s,
	    (const char *const[]){ r->args->self, "bench-peer", "memcached",
				   port.at, "32", seconds, NULL },
	    &text);
	if (!err)
		err = run_value(r, text, "rate ");
	free(text);
	return err;
}

/* A server with one small file and nothing else to do. */
static int nginx_config(struct bench_run *r, const char *dir, const char *port)
{
	char path[320];
	FILE *f;

	snprintf(path, sizeof(path), "%s/nginx.conf", dir);
	if (!(f = fopen(path, "we")))
		return run_fail(r, -errno, "%s: %m", path);
	fprintf(f,
		"%sdaemon off;\nmaster_process on;\nworker_processes 1;\n"
		"pid %s/nginx.pid;\nerror_log %s/error.log crit;\n"
		"events { worker_connections 256; }\n"
		"http {\n\taccess_log off;\n\tkeepalive_requests 1000000000;\n"
		"\tclient_body_temp_path %s/t1;\n\tproxy_temp_path %s/t2;\n"
		"\tfastcgi_temp_path %s/t3;\n\tuwsgi_temp_path %s/t4;\n"
		"\tscgi_temp_path %s/t5;\n"
		"\tserver { listen %s:%s; root %s; }\n}\n",
		geteuid() == 0 ? "user root;\n" : "", dir, dir, dir, dir, dir,
		dir, dir, run_host(r), port, dir);
	fclose(f);

	snprintf(path, sizeof(path), "%s/1k", dir);
	if (!(f = fopen(path, "we")))
		return run_fail(r, -errno, "%s: %m", path);
	for (unsigned i = 0; i < 1024; i++)
		fputc('a' + (int)(i % 26), f);
	fclose(f);
	return 0;
}

static int nginx_load(struct bench_run *r, const char *dir, const char *port)
{
	char conf[320], log[320], url[64], duration[32];
	char *text = NULL;

	snprintf(conf, sizeof(conf), "%s/nginx.conf", dir);
	snprintf(log, sizeof(log), "%s/error.log", dir);
	snprintf(url, sizeof(url), "http://%s:%s/1k", run_host(r), port);
	snprintf(duration, sizeof(duration), "-d%ss", whole_seconds(r).s);
	int err = run_pair(
	    r,
	    (const char *const[]){ "nginx", "-p", dir, "-c", conf, "-e", log,
				   NULL },
	    port,
	    (const char *const[]){ "wrk", "-t1", "-c32", duration, url, NULL },
	    &text);
	if (!err)
		err = run_value(r, text, "Requests/sec:");
	if (!err && strstr(text, "Non-2xx"))
		err = run_fail(r, -EBADMSG, "nginx answered with errors");
	free(text);
	return err;
}

int bench_nginx(struct bench_run *r)
{
	struct scratch dir = { 0 };
	struct port_text port;

	if (run_port(r, &port) < 0)
		return -EADDRINUSE;
	int err = scratch_open(&dir);
	if (err)
		return run_fail(r, err, "no temporary directory: %s",
				strerror(-err));
	err = nginx_config(r, dir.path, port.s);
	if (!err)
		err = nginx_load(r, dir.path, port.s);
	scratch_close(&dir);
	return err;
}
