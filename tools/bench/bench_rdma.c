/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_rdma.c - benchmarks of the software RDMA device
 *
 *     osf     perftest's programs, unmodified, on osf0     the same memory, two processes
 *     UCX     ucx_perftest over its shared memory
 *     kernel  UDP over the same veth pair, for those between two hosts (RoCEv2);
 *             else TCP over loopback, with what comes nearest: a ping-pong, or a stream
 *
 * A figure of osf's counts only if the device says that it has executed as many operations
 * as were asked for (OSF_RDMA_COUNTERS): perftest would take any other device as well.
 *
 * UCX's put, get and atomic operations take place in memory that UCX has allocated, and
 * which both processes map.  A verbs program registers memory of its own, which the kernel
 * alone can reach from another process; UCX's name for that way is cma, and the benchmarks
 * that end in -cma compare with it.
 */
#include "osf.h"
#include "bench_pair.h"
#include "bench_runs.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LAT_PER_S 20e3 /* operations of a run, for each second of load */
#define RATE_PER_S 500e3
#define BW_PER_S 1e3
#define ROCE_BW_PER_S 300 /* of 1 MB, over a veth pair */
#define SMALL "2"
#define MESSAGE "64"
#define LARGE "1048576"
#define GBIT_OF_MIB (1.048576 * 8 / 1000)
#define TLS "UCX_TLS=posix,cma,self"

/* The columns of perftest's row. */
enum { LAT_MEDIAN = 4, BW_AVERAGE = 3, BW_MPPS = 4 };

struct rdma_test {
	const char *program, *size; /* size NULL: the program's own */
	double per_second;
	const char *counter; /* of the client's process */
	unsigned column;
};

static const char *const cma[] = { "-x",    "cma", "-d", "memory", "-D",
				   "zcopy", "-O",  "1",  NULL };
/* One operation at a time, as perftest does. */
static const char *const one_by_one[] = { "-O", "1", NULL };

/* The row of figures, which follows the line of headings. */
static int perftest_row(struct bench_run *r, const char *text, unsigned column)
{
	const char *row = strstr(text, "#bytes");
	double v[6];

	row = row ? strchr(row, '\n') : NULL;
	int n = !row ? 0
		     : sscanf(row, "%lf %lf %lf %lf %lf", &v[0], &v[1], &v[2],
			      &v[3], &v[4]);
	if (n != 5)
		return run_fail(r, -EBADMSG, "perftest printed no result");
	r->value = v[column];
	return 0;
}

/* What the processes of this run have counted under @name. */
static double counted(const struct bench_run *r, const char *name)
{
	char path[sizeof(r->dir.path) + 16], line[1024], key[32];
	double sum = 0;

	run_counters(r, path, sizeof(path));
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	snprintf(key, sizeof(key), "%s=", name);
	while (fgets(line, sizeof(line), f)) {
		const char *at = strncmp(line, key, strlen(key)) == 0
				     ? line
				     : strstr(line, key);

		/* "send_bytes=" is not "bytes=". */
		if (at && (at == line || at[-1] == ' '))
			sum += strtod(at + strlen(key), NULL);
	}
	fclose(f);
	return sum;
}

static int perftest(struct bench_run *r, const struct rdma_test *t)
{
	struct port_text port;
	char n[24], *text = NULL;
	double count = t->per_second * r->args->seconds;

	if (run_port(r, &port) < 0)
		return -EADDRINUSE;
	snprintf(n, sizeof(n), "%.0f", count);
	const char *argv[14] = { t->program, "-d",   "osf0", "-F",
				 "-p",       port.s, "-n",   n };
	unsigned i = 8;
	if (t->size) {
		argv[i++] = "-s";
		argv[i++] = t->size;
	}
	if (r->wire) { /* the GID of the IPv4 address */
		argv[i++] = "-x";
		argv[i++] = "1";
	}
	const char *client[15];
	memcpy(client, argv, sizeof(argv));
	client[i] = run_host(r);
	client[i + 1] = NULL;
	int err = run_pair(r, argv, port.s, client, &text);
	if (!err)
		err = perftest_row(r, text, t->column);
	free(text);
	double did = err ? count : counted(r, t->counter);
	if (did < count)
		return run_fail(r, -ENOTCONN, "osf0 counts %.0f %s, not %.0f",
				did, t->counter, count);
	return err;
}

static const char *seconds(const struct bench_run *r, char *text, size_t size)
{
	snprintf(text, size, "%g", r->args->seconds);
	return text;
}

/* @n_ways: 1 for half of a round trip, 2 for all of it. */
static int kernel_lat(struct bench_run *r, unsigned n_ways)
{
	char s[24];
	int err = run_peers(r, "echo", "pingpong", seconds(r, s, sizeof(s)),
			    NULL, "one_way_us ");

	r->value *= n_ways;
	return err;
}

static int latency(struct bench_run *r, const struct rdma_test *osf,
		   const struct ucx_test *ucx, unsigned n_ways)
{
	if (r->side == SIDE_KERNEL)
		return kernel_lat(r, n_ways);
	return r->side == SIDE_UCX ? run_ucx(r, ucx) : perftest(r, osf);
}

int bench_rdma_send_lat(struct bench_run *r)
{
	return latency(r,
		       &(struct rdma_test){ "ib_send_lat", SMALL, LAT_PER_S,
					    "sends", LAT_MEDIAN },
		       &(struct ucx_test){ "tag_lat", SMALL, LAT_PER_S,
					   UCX_MEDIAN, TLS, NULL },
		       1);
}

static const struct rdma_test write_lat = { "ib_write_lat", SMALL, LAT_PER_S,
					    "writes", LAT_MEDIAN };

int bench_rdma_write_lat(struct bench_run *r)
{
	/* ucp_put_lat takes no fewer than 8 bytes. */
	return latency(r, &write_lat,
		       &(struct ucx_test){ "ucp_put_lat", "8", LAT_PER_S,
					   UCX_MEDIAN, TLS, NULL },
		       1);
}

int bench_rdma_write_lat_cma(struct bench_run *r)
{
	return latency(r, &write_lat,
		       &(struct ucx_test){ "put_lat", "8", LAT_PER_S,
					   UCX_MEDIAN, TLS, cma },
		       1);
}

int bench_rdma_read_lat_cma(struct bench_run *r)
{
	return latency(
	    r,
	    &(struct rdma_test){ "ib_read_lat", SMALL, LAT_PER_S, "reads",
				 LAT_MEDIAN },
	    &(struct ucx_test){ "get", SMALL, LAT_PER_S, UCX_MEDIAN, TLS, cma },
	    2);
}

int bench_rdma_atomic_lat(struct bench_run *r)
{
	return latency(r,
		       &(struct rdma_test){ "ib_atomic_lat", NULL, LAT_PER_S,
					    "atomics", LAT_MEDIAN },
		       &(struct ucx_test){ "ucp_fadd", "8", LAT_PER_S,
					   UCX_MEDIAN, TLS, one_by_one },
		       2);
}

int bench_rdma_send_rate(struct bench_run *r)
{
	char s[24];

	if (r->side == SIDE_KERNEL)
		return run_peers(r, "sink", "flood", seconds(r, s, sizeof(s)),
				 NULL, "rate ");
	if (r->side == SIDE_UCX)
		return run_ucx(r, &(struct ucx_test){ "tag_bw", MESSAGE,
						      RATE_PER_S, UCX_RATE, TLS,
						      NULL });
	int err =
	    perftest(r, &(struct rdma_test){ "ib_send_bw", MESSAGE, RATE_PER_S,
					     "sends", BW_MPPS });
	r->value *= 1e6;
	return err;
}

static int stream(struct bench_run *r, const struct rdma_test *osf,
		  const struct ucx_test *ucx)
{
	char s[24];

	if (r->side == SIDE_KERNEL)
		return run_peers(r, "plain-sink", "plain-flood",
				 seconds(r, s, sizeof(s)), NULL, "gbit ");
	int err = r->side == SIDE_UCX ? run_ucx(r, ucx) : perftest(r, osf);

	r->value *= GBIT_OF_MIB;
	return err;
}

int bench_rdma_write_bw(struct bench_run *r)
{
	return stream(r,
		      &(struct rdma_test){ "ib_write_bw", LARGE, BW_PER_S,
					   "writes", BW_AVERAGE },
		      &(struct ucx_test){ "tag_bw", LARGE, BW_PER_S, UCX_MIB,
					  TLS, NULL });
}

int bench_rdma_read_bw_cma(struct bench_run *r)
{
	return stream(
	    r,
	    &(struct rdma_test){ "ib_read_bw", LARGE, BW_PER_S, "reads",
				 BW_AVERAGE },
	    &(struct ucx_test){ "get", LARGE, BW_PER_S, UCX_MIB, TLS, cma });
}

int bench_rdma_idle_memory(struct bench_run *r)
{
	return run_alone(r, "rdma-idle", "500", NULL, NULL, "bytes ");
}

int bench_roce_send_lat(struct bench_run *r)
{
	char s[24];

	if (r->side == SIDE_KERNEL)
		return run_peers(r, "udp-echo", "udp-pingpong",
				 seconds(r, s, sizeof(s)), NULL, "one_way_us ");
	return perftest(r, &(struct rdma_test){ "ib_send_lat", SMALL, LAT_PER_S,
						"sends", LAT_MEDIAN });
}

int bench_roce_send_bw(struct bench_run *r)
{
	char s[24];

	if (r->side == SIDE_KERNEL)
		return run_peers(r, "udp-sink", "udp-flood",
				 seconds(r, s, sizeof(s)), NULL, "gbit ");
	int err =
	    perftest(r, &(struct rdma_test){ "ib_send_bw", LARGE, ROCE_BW_PER_S,
					     "sends", BW_AVERAGE });
	r->value *= GBIT_OF_MIB;
	return err;
}
