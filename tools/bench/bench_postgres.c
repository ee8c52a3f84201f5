/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_postgres.c - PostgreSQL, a process for each connection
 *
 *     initdb -> postgres -> pgbench -i -> pgbench to warm up -> pgbench
 *
 * The cluster lives in a temporary directory as long as a run.  Only the server
 * and the two pgbench that select are on the side of the run; what prepares them
 * is on the kernel.  postgres refuses to be root, so root starts it as the user
 * "postgres".  The cluster has no disk to wait for: nothing is synchronized.
 */
#include "osf.h"
#include "bench_pair.h"
#include "bench_runs.h"
#include "scratch.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST "127.0.0.1"
#define READY_S 20.0
#define WARM_UP_SECONDS "1"

/* Gives a directory to the server's user; whoever may do that writes in it still. */
static int give_dir(struct bench_run *r, const char *path)
{
	const struct passwd *user = r->server_user;

	if (user && chown(path, user->pw_uid, user->pw_gid) < 0)
		return run_fail(r, -errno, "%s: %m", path);
	return 0;
}

static int make_cluster(struct bench_run *r, const char *data)
{
	return run_step(r, (const char *const[]){ "initdb", "-D", data, "-A",
						  "trust", "-U", "postgres",
						  "-N", "--locale=C", NULL });
}

/* A server that listens may still be starting up. */
static int wait_ready(struct bench_run *r, const char *port)
{
	uint64_t until_ns = now_ns() + (uint64_t)(READY_S * 1e9);
	int err;

	do
		err = run_step(r,
			       (const char *const[]){ "pg_isready", "-q", "-h",
						      HOST, "-p", port, NULL });
	while (err == -ECHILD && now_ns() < until_ns);
	return err;
}

/* Transactions a second of @seconds. */
static int load(struct bench_run *r, const char *port, const char *clients,
		const char *seconds)
{
	const char *threads = strcmp(clients, "1") == 0 ? "1" : "2";
	char *text = NULL;

	int err =
	    run_client(r,
		       (const char *const[]){
			   "pgbench", "-S", "-M", "prepared", "-n", "-c",
			   clients, "-j", threads, "-T", seconds, "-h", HOST,
			   "-p", port, "-U", "postgres", "postgres", NULL },
		       run_timeout_s(r), &text);
	if (!err)
		err = run_value(r, text, "tps = ");
	free(text);
	return err;
}

static int fill_and_load(struct bench_run *r, const char *port,
			 const char *clients)
{
	double s = r->args->seconds;
	char seconds[24];

	snprintf(seconds, sizeof(seconds), "%.0f", s < 1 ? 1 : s + 0.5);
	int err = wait_ready(r, port);
	if (!err)
		err = run_step(
		    r, (const char *const[]){ "pgbench", "-i", "-s", "1", "-q",
					      "-h", HOST, "-p", port, "-U",
					      "postgres", "postgres", NULL });
	if (!err)
		err = load(r, port, clients, WARM_UP_SECONDS);
	if (!err)
		err = load(r, port, clients, seconds);
	return err;
}

static int serve_and_load(struct bench_run *r, const char *data,
			  const char *clients)
{
	struct port_text port;
	struct proc server;

	if (run_port(r, &port) < 0)
		return -EADDRINUSE;
	int err = run_server(
	    r, &server,
	    (const char *const[]){ "postgres", "-D", data, "-p", port.s, "-c",
				   "listen_addresses=" HOST, "-c",
				   "unix_socket_directories=", "-c",
				   "fsync=off", "-c", "autovacuum=off", NULL },
	    port.s);
	if (err)
		return err;
	err = fill_and_load(r, port.s, clients);
	proc_stop(&server);
	return err;
}

static int pgbench(struct bench_run *r, const char *clients)
{
	struct scratch dir = { 0 };
	char data[sizeof(dir.path) + 8];

	if (geteuid() == 0 && !(r->server_user = getpwnam("postgres")))
		return run_fail(r, -ENOENT, "no user \"postgres\"");
	int err = scratch_open(&dir);
	if (err)
		return run_fail(r, err, "no temporary directory: %s",
				strerror(-err));
	snprintf(data, sizeof(data), "%s/data", dir.path);
	err = give_dir(r, dir.path);
	if (!err && *r->dir.path)
		err = give_dir(r, r->dir.path);
	if (!err)
		err = make_cluster(r, data);
	if (!err)
		err = serve_and_load(r, data, clients);
	scratch_close(&dir);
	return err;
}

int bench_pgbench_1(struct bench_run *r) { return pgbench(r, "1"); }

int bench_pgbench_8(struct bench_run *r) { return pgbench(r, "8"); }
