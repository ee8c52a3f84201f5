/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_pair.c - a server, a client, and what the client printed
 *
 *     bench_tools.c, bench_own.c -> run_pair() -> text -> run_value()
 *
 * The side of the run decides the environment: on a side of osf both programs
 * have LD_PRELOAD and leave their statistics in the run's directory; on the
 * kernel's they have neither.  The server is on the first core, the client on
 * the second.
 */
#include "osf.h"
#include "bench_pair.h"
#include "run.h"
#include "wire.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_S 10.0 /* a server has so long to listen */

int run_fail(struct bench_run *r, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->why, sizeof(r->why), fmt, ap);
	va_end(ap);
	return err;
}

const char *run_host(const struct bench_run *r)
{
	return r->wire ? WIRE_SERVER : "127.0.0.1";
}

int run_port(struct bench_run *r, struct port_text *text)
{
	int port = port_free();

	if (port < 0)
		return run_fail(r, port, "no free port: %s", strerror(-port));
	snprintf(text->s, sizeof(text->s), "%d", port);
	/* On loopback it is the number as well, which every peer understands. */
	snprintf(text->at, sizeof(text->at), r->wire ? "%s:%s" : "%.0s%s",
		 run_host(r), text->s);
	return 0;
}

/* Load, start-up and, for benches that count, what a slow side takes. */
double run_timeout_s(const struct bench_run *r)
{
	return 30 + 8 * r->args->seconds;
}

static void run_cores(const struct bench_run *r, bool is_server,
		      struct proc_spec *spec)
{
	const struct bench_args *args = r->args;
	bool is_second = r->cores == CORES_APART && !is_server;

	spec->cpus = &args->cpus[is_second ? 1 : 0];
	if (args->n_cpus)
		spec->n_cpus = r->cores == CORES_BOTH ? 2 : 1;
}

/* Is this program of the run on the kernel, although the side is osf's? */
static bool is_left_to_kernel(const struct bench_run *r, bool is_server)
{
	return r->wire == WIRE_BESIDE || (r->wire == WIRE_CLIENT && is_server);
}

/* The environment of a program on a side of osf. */
struct osf_env {
	char *preload; /* the caller's to free() */
	char dir[sizeof((struct scratch){ 0 }.path) + 32], uids[64];
	char counters[sizeof((struct scratch){ 0 }.path) + 32];
	const char *list[7];
};

/* No program learns then that its connections gain nothing, as those that sleep do. */
#define MOVES_EACH "OSF_UPGRADE_PINGPONGS=5"

void run_counters(const struct bench_run *r, char *path, size_t size)
{
	snprintf(path, size, "%s/rdma", r->dir.path);
}

static void fill_osf_env(const struct bench_run *r, struct osf_env *e)
{
	const char *lib =
	    r->side == SIDE_AGAINST ? r->args->against : r->args->lib;
	char path[sizeof(e->counters) - 20];
	char *all = r->needs_verbs ? env_libraries(lib) : xstrdup(lib);

	e->preload = xasprintf("LD_PRELOAD=%s", all);
	free(all);
	snprintf(e->dir, sizeof(e->dir), "OSF_STATS_DIR=%s", r->dir.path);
	/* A server of another user shares memory with its client only if both say so. */
	snprintf(e->uids, sizeof(e->uids),
		 r->server_user ? "OSF_ALLOW_UIDS=%u,%u" : "OSF_ALLOW_UIDS",
		 (unsigned)geteuid(),
		 r->server_user ? (unsigned)r->server_user->pw_uid : 0);
	bool has_ports = r->wire && r->wire != WIRE_PLAIN;
	run_counters(r, path, sizeof(path));
	snprintf(e->counters, sizeof(e->counters), "OSF_RDMA_COUNTERS=%s",
		 path);
	const char *how = r->moves_each            ? MOVES_EACH
			  : r->wire == WIRE_FORCED ? WIRE_RULES
						   : NULL;
	const char *const list[] = {
		e->preload,  e->dir,
		e->uids,     has_ports ? "OSF_TCP=1" : "OSF_TCP",
		e->counters, how,
		NULL
	};
	memcpy(e->list, list, sizeof(list));
}

int run_start(struct bench_run *r, struct proc *p, const char *const *argv,
	      bool is_server, bool wants_output)
{
	const char *const kernel_env[] = { "LD_PRELOAD", NULL };
	const char *const ucx_env[] = { "LD_PRELOAD",
					r->ucx_tls ? r->ucx_tls
						   : "UCX_TLS=posix,self",
					NULL };
	struct osf_env osf;
	const char *const *const env[SIDES] = {
		[SIDE_KERNEL] = kernel_env,
		[SIDE_OSF] = osf.list,
		[SIDE_AGAINST] = osf.list,
		[SIDE_UCX] = ucx_env,
	};

	fill_osf_env(r, &osf);
	struct proc_spec spec = {
		.argv = argv,
		.env =
		    is_left_to_kernel(r, is_server) ? kernel_env : env[r->side],
		.netns = wire_place(r->world, is_server),
		.wants_output = wants_output,
		.is_loud = r->args->is_verbose,
	};
	run_cores(r, is_server, &spec);
	spec.user = is_server ? r->server_user : NULL;
	int err = proc_start(p, &spec); /* env is used up by now */
	free(osf.preload);
	if (err)
		return run_fail(r, err, "%s: %s", argv[0], strerror(-err));
	return 0;
}

static int say_why(struct bench_run *r, int err, const char *what)
{
	const char *slash = strrchr(what, '/');
	const char *name = slash ? slash + 1 : what;
	const char *why = err == -ECHILD      ? "failed"
			  : err == -ETIMEDOUT ? "did not end in time"
			  : err == -EINTR     ? "interrupted"
					      : strerror(-err);

	return run_fail(r, err, "%s %s%s", name, why,
			err == -ECHILD && !r->args->is_verbose
			    ? " (--verbose shows what it says)"
			    : "");
}

int run_step(struct bench_run *r, const char *const *argv)
{
	struct proc_spec spec = {
		.argv = argv,
		.env = (const char *const[]){ "LD_PRELOAD", NULL },
		.wants_output = true,
		.is_loud = r->args->is_verbose,
		.user = r->server_user,
	};
	struct proc p;
	char *text = NULL;

	int err = proc_start(&p, &spec);
	if (!err)
		err = proc_output(&p, run_timeout_s(r), &text);
	free(text);
	return err ? say_why(r, err, argv[0]) : 0;
}

int run_server(struct bench_run *r, struct proc *p, const char *const *argv,
	       const char *port)
{
	int err = run_start(r, p, argv, true, false);

	if (err)
		return err;
	err = proc_wait_listening(p, (unsigned)atoi(port), START_S);
	if (err) {
		proc_stop(p);
		return say_why(r, err, argv[0]);
	}
	return 0;
}

int run_output(struct bench_run *r, struct proc *p, const char *name,
	       double timeout_s, char **text)
{
	int err = proc_output(p, timeout_s, text);

	if (err)
		return say_why(r, err, name);
	if (r->args->is_verbose)
		fprintf(stderr, "%s", *text);
	return 0;
}

int run_client(struct bench_run *r, const char *const *argv, double timeout_s,
	       char **text)
{
	struct proc p;
	int err = run_start(r, &p, argv, false, true);

	if (err)
		return err;
	return run_output(r, &p, argv[0], timeout_s, text);
}

int run_pair(struct bench_run *r, const char *const *server, const char *port,
	     const char *const *client, char **text)
{
	struct proc p;
	int err = run_server(r, &p, server, port);

	if (err)
		return err;
	if (r->warms_up)
		err = run_client(r, client, run_timeout_s(r), &r->first_text);
	if (!err)
		err = run_client(r, client, run_timeout_s(r), text);
	proc_stop(&p);
	return err;
}

static int value_of(struct bench_run *r, const char *text, const char *key,
		    double *out)
{
	const char *at = NULL, *next = strstr(text, key);
	char *end;

	for (; next; next = strstr(next, key)) {
		next += strlen(key);
		at = next;
	}
	double value = at ? strtod(at, &end) : 0;
	if (!at || end == at)
		return run_fail(r, -EBADMSG, "no \"%s\" in what it printed",
				key);
	*out = value;
	return 0;
}

int run_value(struct bench_run *r, const char *text, const char *key)
{
	int err = value_of(r, text, key, &r->value);

	if (!err && r->first_text)
		err = value_of(r, r->first_text, key, &r->first);
	return err;
}

/* One of our own peers, without another. */
int run_alone(struct bench_run *r, const char *peer, const char *arg1,
	      const char *arg2, const char *arg3, const char *key)
{
	char *text = NULL;
	int err =
	    run_client(r,
		       (const char *const[]){ r->args->self, "bench-peer", peer,
					      arg1, arg2, arg3, NULL },
		       run_timeout_s(r) + 60, &text);

	if (!err)
		err = run_value(r, text, key);
	free(text);
	return err;
}
