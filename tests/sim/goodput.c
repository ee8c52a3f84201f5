/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/goodput.c - goodput over loss and round trip
 *
 *     goodput [SEEDS]         prints the table; each figure is the mean of so many seeds (1)
 *     goodput --write         prints it as a golden file
 *     goodput --check FILE    compares it with one; its lines are "loss, RTT, algorithm,
 *                             kbit/s, tolerance in per cent"
 *
 * One flow over 100 Mbit/s, with a queue of one bandwidth-delay product, 100 packets at
 * least.  Data packets are lost independently of each other.  A formula's result stands
 * beside each figure.  For newreno it is Padhye et al. (SIGCOMM 1998), which includes
 * time-outs.  For cubic it is the larger of the same formula with cubic's factor, and
 * of RFC 9438 section 5.  Without loss it is what slow start leaves of the link.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab.h"

#define RATE 100e6
#define MSS 1448.0

static const uint32_t losses[] = { 0,     1000,   10000,  20000,
				   50000, 100000, 200000, 300000 };
static const uint32_t rtts_us[] = { 50, 1000, 20000, 100000, 300000 };
static const struct tcp_cc *const schemes[] = { &tcp_newreno, &tcp_cubic };

struct cell {
	uint32_t loss, rtt_us;
	const struct tcp_cc *cc;
};

/* Return: kbit/s. */
static double measure(const struct cell *c, uint64_t seed)
{
	double bdp = RATE / 8 * c->rtt_us / 1e6;
	static struct lab l;
	struct lab_config cfg = {
		.seed = seed,
		.cc = c->cc,
		.to = { .rate_bps = (uint64_t)RATE,
			.delay_ns = c->rtt_us * NS_PER_US / 2,
			.queue_bytes = (uint32_t)(bdp > 150000 ? bdp : 150000),
			.loss = c->loss },
		.back = { .delay_ns = c->rtt_us * NS_PER_US / 2 },
		.n_flows = 1,
		.n_bytes = 8000 * 1448,
		.buf_bytes = 12 << 20,
	};

	/* Send enough to make slow start a small part. */
	if (!c->loss)
		cfg.n_bytes += (uint64_t)(10 * bdp);
	lab_init(&l, &cfg);
	lab_run(&l, 1000 * NS_PER_S);
	double kbps = (double)l.flows[0].n_got * 8e6 / (double)l.now_ns;
	lab_fini(&l);
	return kbps;
}

/* Padhye's formula for a window that falls to @beta and grows by @alpha. */
static double padhye(double p, double rtt, double alpha, double beta)
{
	double rto = rtt + 0.2, a = 2 * (1 - beta) / (alpha * (1 + beta));
	double t = rtt * sqrt(a * p) +
		   rto * fmin(1, 3 * sqrt(3 * p / 8)) * p * (1 + 32 * p * p);

	return MSS / t;
}

static double formula(const struct cell *c)
{
	double p = c->loss / 1e6, goodput = RATE * 1448 / 1500;
	/* A queued packet adds to the round trip. */
	double rtt = c->rtt_us / 1e6 + 1500 * 8 / RATE;

	if (!c->loss) {
		/* Slow start from ten segments on, and then the whole link. */
		double bytes = 8000 * MSS + 10 * RATE / 8 * c->rtt_us / 1e6;
		double rounds = log2(fmax(RATE / 8 * rtt / (10 * MSS), 1)) + 1;

		return bytes * 8e-3 /
		       (bytes * 8 / goodput + rounds * c->rtt_us / 1e6);
	}
	double reno = padhye(p, rtt, 1, 0.5) * 8;
	double best = reno;
	if (c->cc == &tcp_cubic) {
		double friendly = padhye(p, rtt, 9.0 / 17, 0.7) * 8;
		double w =
		    pow(0.4 * 3.7 / (4 * 0.3), 0.25) * pow(rtt / p, 0.75);

		best = fmax(friendly, w * MSS * 8 / rtt);
		/* Cubic suffers from time-outs as well. */
		best = p >= 0.05 ? friendly : best;
	}
	return fmin(best * (1 - p), goodput) / 1e3;
}

static double mean(const struct cell *c, unsigned n_seeds)
{
	double sum = 0;

	for (unsigned i = 1; i <= n_seeds; i++)
		sum += measure(c, i);
	return sum / n_seeds;
}

static void grid(unsigned n_seeds, bool is_golden)
{
	for (unsigned s = 0; s < ARRAY_LEN(schemes); s++)
		for (unsigned r = 0; r < ARRAY_LEN(rtts_us); r++)
			for (unsigned i = 0; i < ARRAY_LEN(losses); i++) {
				struct cell c = { losses[i], rtts_us[r],
						  schemes[s] };
				double kbps = mean(&c, n_seeds);
				double says = formula(&c);

				if (is_golden)
					printf("%u %u %s %.0f %u\n", c.loss,
					       c.rtt_us, c.cc->name, kbps,
					       c.loss >= 50000 ? 25 : 15);
				else
					printf("loss %4.1f %%  RTT %7.2f ms  "
					       "%-8s %10.0f kbit/s, formula "
					       "%10.0f, %.2f of it\n",
					       c.loss / 1e4, c.rtt_us / 1e3,
					       c.cc->name, kbps, says,
					       kbps / says);
			}
}

static int check_line(const char *line)
{
	struct cell c = { 0 };
	char name[16];
	double was;
	unsigned tolerance;

	if (sscanf(line, "%u %u %15s %lf %u", &c.loss, &c.rtt_us, name, &was,
		   &tolerance) != 5)
		return line[0] != '#' && line[0] != '\n';
	c.cc = strcmp(name, tcp_cubic.name) ? &tcp_newreno : &tcp_cubic;
	double is = measure(&c, 1);
	if (fabs(is - was) * 100 <= was * tolerance)
		return 0;
	printf("goodput: %s, loss %u ppm, RTT %u us: %.0f kbit/s, was %.0f\n",
	       name, c.loss, c.rtt_us, is, was);
	return 1;
}

static int check(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[200];
	unsigned n_wrong = 0, n = 0;

	if (!f) {
		perror(path);
		return 1;
	}
	for (; fgets(line, sizeof(line), f); n++)
		n_wrong += (unsigned)check_line(line);
	fclose(f);
	printf("goodput: %u lines, %u differ\n", n, n_wrong);
	return n_wrong || !n;
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "--check"))
		return check(argv[2]);
	if (argc > 1 && !strcmp(argv[1], "--write"))
		grid(1, true);
	else
		grid(argc > 1 ? (unsigned)atoi(argv[1]) : 1, false);
	return 0;
}
