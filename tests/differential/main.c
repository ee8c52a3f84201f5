/* SPDX-License-Identifier: MIT */
/*
 * tests/differential/main.c - plays sequences to Linux and to src/tcp, and compares them
 *
 *     differential [--ipv6] [--cubic] KNOWN ...  over IPv6 instead of IPv4, with CUBIC
 *                                        instead of NewReno
 *     differential KNOWN run N [SEED [MOST]]   N random ones, from the seed on, until
 *                                        MOST (20) were wrong
 *     differential KNOWN list N [SEED [MOST]]  the same, and prints the known differences
 *     differential KNOWN check N FIXED   former errors (one sequence per line), the
 *                                        witnesses of all known differences, and N more
 *     differential KNOWN play TEXT       one sequence, or that of a seed, step by step
 *     differential KNOWN trace TEXT      the same, and all packets with their times
 *
 * A difference that matches a rule of KNOWN is no error (compare.c).  Any other
 * difference is tried again, because a busy machine causes some of its own.  If it
 * stays, it is shrunk and printed as a command that repeats it.  Exit 1: an unknown
 * difference, or an entry of KNOWN that none of its witnesses needs; 77: there is no
 * TUN here.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "differential.h"

#define BATCH 400
#define WRONG_MAX 20
#define LATE_TRIES 20
#define TRIES 3 /* in real time, before a difference is one */

static struct run *kernel_runs, *engine_runs;
static struct sequence *sequences;
static struct known *expected[BATCH]; /* what they show in a check */
static struct known_list known;
static struct backend kernel;
static uint32_t n_played; /* so that each has ports of its own */
static uint64_t n_known, n_again;
static bool is_listed;
static const struct sequence *in_engine; /* what an assertion is about */

static void sequence_repeat(const struct sequence *q)
{
	printf("  repeat: build/tests/differential%s%s "
	       "tests/differential/known.txt play '",
	       run_way.is_v6 ? " --ipv6" : "",
	       strcmp(run_way.scheme, "cubic") ? "" : " --cubic");
	sequence_print(stdout, q);
	printf("'\n");
	fflush(stdout);
}

static void on_abort(int sig)
{
	if (in_engine)
		sequence_repeat(in_engine);
}

static void engine_play(struct run *r, struct sequence *q)
{
	in_engine = q;
	play_engine(r, q);
	in_engine = NULL;
}

static void play_batch(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		engine_play(&engine_runs[i], &sequences[i]);
	for (uint32_t i = 0; i < n; i++)
		run_begin(&kernel_runs[i], &kernel, &sequences[i], n_played++);
	play_kernel(&kernel, kernel_runs, n);
}

/* Whether the sequence still differs when it is played alone.  Its runs are then in the
 * last places. */
static bool differs(const struct sequence *q, int n_tries, struct verdict *v)
{
	for (int i = 0, n_late = 0; i < n_tries; i++) {
		sequences[BATCH] = *q;
		engine_play(&engine_runs[BATCH], &sequences[BATCH]);
		run_begin(&kernel_runs[BATCH], &kernel, &sequences[BATCH],
			  n_played++);
		play_kernel(&kernel, &kernel_runs[BATCH], 1);
		verdict_of(v, &known, &kernel_runs[BATCH], &engine_runs[BATCH]);
		if (!v->is_wrong)
			return false;
		/* The process was woken too late for a pause: that try does not count. */
		if (kernel_runs[BATCH].is_late && n_late++ < LATE_TRIES)
			i--;
	}
	return true;
}

/* Removes steps as long as an unknown difference stays. */
static void shrink(struct sequence *q, struct verdict *v)
{
	uint64_t give_up = now_ns() + 10 * NS_PER_S;

	q->n = v->at + 1;
	for (uint32_t i = q->n - 1; i-- > 0 && now_ns() < give_up;) {
		struct sequence less = *q;

		less.n--;
		memmove(&less.steps[i], &less.steps[i + 1],
			(less.n - i) * sizeof(less.steps[0]));
		if (less.n && differs(&less, 1, v))
			*q = less;
	}
	differs(q, 1, v);
}

static void report(const struct sequence *q, struct verdict *v)
{
	struct sequence less = *q;

	shrink(&less, v);
	printf("difference, seed %llu\n  %s\n", (unsigned long long)q->seed,
	       v->text);
	sequence_repeat(&less);
}

/* Return: whether the runs at @i are equal, or differ in a known way. */
static bool judge(uint32_t i)
{
	struct verdict v;

	verdict_of(&v, &known, &kernel_runs[i], &engine_runs[i]);
	if (!v.is_wrong) {
		if (is_listed && v.why)
			printf("%s, seed %llu: %s\n", v.why->name,
			       (unsigned long long)sequences[i].seed, v.text);
		n_known += v.why != NULL;
		return true;
	}
	n_again++;
	if (!differs(&sequences[i], TRIES, &v)) {
		n_known += v.why != NULL;
		return true;
	}
	report(&sequences[i], &v);
	return false;
}

static uint64_t run_random(uint64_t n, uint64_t seed, uint64_t most,
			   bool is_loud)
{
	uint64_t n_wrong = 0, start = now_ns();

	for (uint64_t done = 0; done < n;) {
		uint32_t part = (uint32_t)MIN(n - done, (uint64_t)BATCH);

		for (uint32_t i = 0; i < part; i++)
			sequence_random(&sequences[i], seed + done + i);
		play_batch(part);
		for (uint32_t i = 0; i < part && n_wrong < most; i++)
			n_wrong += !judge(i);
		done += part;
		if (is_loud) {
			printf("%llu of %llu, %llu differ, %llu as known, "
			       "%llu played again, %.0f a second\n",
			       (unsigned long long)done, (unsigned long long)n,
			       (unsigned long long)n_wrong,
			       (unsigned long long)n_known,
			       (unsigned long long)n_again,
			       (double)done * 1e9 / (double)(now_ns() - start));
			fflush(stdout);
		}
		if (n_wrong >= most)
			break;
	}
	return n_wrong;
}

static void check_add(uint32_t *n, const struct sequence *q, struct known *why)
{
	assert(*n < BATCH);
	expected[*n] = why;
	sequences[(*n)++] = *q;
}

/* Adds the sequences of former errors, which must be equal now. */
MUST_CHECK static bool check_add_fixed(uint32_t *n, const char *path)
{
	FILE *f = fopen(path, "r");
	char line[4000];
	struct sequence q;
	bool is_good = true;

	if (!f) {
		perror(path);
		return false;
	}
	while (is_good && fgets(line, sizeof(line), f)) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		is_good = sequence_parse(&q, line);
		if (is_good)
			check_add(n, &q, NULL);
		else
			printf("%s: not a sequence: %s", path, line);
	}
	fclose(f);
	return is_good;
}

static bool is_as_expected(uint32_t i, struct verdict *v)
{
	verdict_of(v, &known, &kernel_runs[i], &engine_runs[i]);
	if (!v->is_wrong && v->why == expected[i])
		return true;
	/* Played alone, without others in the way. */
	return !differs(&sequences[i], TRIES, v) && v->why == expected[i];
}

/* Checks that fixed sequences are equal, and that each known difference matches its
 * witnesses. */
static uint64_t check_all(const char *path)
{
	struct verdict v;
	uint32_t n = 0;
	uint64_t n_wrong = 0;

	if (!check_add_fixed(&n, path))
		return 1;
	for (uint32_t i = 0; i < known.n; i++)
		for (uint32_t k = 0; k < known.k[i].n_witnesses; k++)
			check_add(&n, &known.k[i].witnesses[k], &known.k[i]);
	play_batch(n);
	for (uint32_t i = 0; i < n; i++) {
		if (is_as_expected(i, &v))
			continue;
		printf("%s:\n  %s\n",
		       expected[i] ? expected[i]->name : "differs again",
		       v.text[0] ? v.text : "no difference");
		sequence_repeat(&sequences[i]);
		n_wrong++;
	}
	return n_wrong;
}

static uint64_t play_text(const char *text)
{
	struct sequence q;
	struct verdict v;
	char step[200];

	if (text[strspn(text, "0123456789")] == '\0') {
		sequence_random(&q, strtoull(text, NULL, 10));
	} else if (!sequence_parse(&q, text)) {
		fprintf(stderr, "not a sequence: %s\n", text);
		return 1;
	}
	differs(&q, TRIES, &v);
	for (uint32_t i = 0; i < q.n; i++) {
		const char *k = kernel_runs[BATCH].said[i];
		const char *e = engine_runs[BATCH].said[i];

		step_print(step, sizeof(step), &q.steps[i]);
		if (strcmp(k, e))
			printf("! %s\n    kernel: %s\n    engine: %s\n", step,
			       k, e);
		else
			printf("  %s => %s\n", step, k);
	}
	if (v.why)
		printf("known: %s: %s\n", v.why->name, v.why->reason);
	return v.is_wrong;
}

static int kernel_open(void)
{
	const struct backend_setting settings[] = {
		{ "tcp_congestion_control", run_way.scheme },
		{ "tcp_no_metrics_save", "1" },
		/* Otherwise Linux reports later holes only after a delay. */
		{ "tcp_comp_sack_nr", "0" },
	};
	const struct backend_config cfg = {
		.mtu = 1500,
		.settings = settings,
		.n_settings = ARRAY_LEN(settings),
	};
	struct rlimit files = { 4096, 4096 };

	setrlimit(RLIMIT_NOFILE, &files);
	int err = backend_kernel(&kernel, &cfg);
	return err ? err : link_without_gso("tun0");
}

/* Return: how many arguments were options. */
static int way_read(int argc, char **argv)
{
	int n = 0;

	for (; n + 1 < argc && !strncmp(argv[n + 1], "--", 2); n++)
		if (!strcmp(argv[n + 1], "--ipv6"))
			run_way.is_v6 = true;
		else if (!strcmp(argv[n + 1], "--cubic"))
			run_way.scheme = "cubic";
		else
			break;
	return n;
}

static uint64_t number(int argc, char **argv, int i, uint64_t otherwise)
{
	return i < argc ? strtoull(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
	uint64_t n_wrong = 0, n;

	signal(SIGABRT, on_abort);
	int n_options = way_read(argc, argv);
	argc -= n_options;
	argv += n_options;
	if (argc < 4 || !known_read(&known, argv[1]))
		return 2;
	int err = kernel_open();
	if (err == -EPERM || err == -ENOENT || err == -ENODEV) {
		printf("skip: no TUN or no namespace here: %s\n",
		       strerror(-err));
		return 77;
	}
	assert(!err);
	sequences = calloc(BATCH + 1, sizeof(*sequences));
	kernel_runs = calloc(BATCH + 1, sizeof(*kernel_runs));
	engine_runs = calloc(BATCH + 1, sizeof(*engine_runs));
	assert(sequences);
	assert(kernel_runs);
	assert(engine_runs);
	n = strtoull(argv[3], NULL, 10);
	run_is_traced = !strcmp(argv[2], "trace");
	if (run_is_traced || !strcmp(argv[2], "play")) {
		n_wrong = play_text(argv[3]);
	} else if (!strcmp(argv[2], "check")) {
		if (argc < 5)
			return 2;
		n_wrong = check_all(argv[4]);
		n_wrong += run_random(n, 1, WRONG_MAX, false);
		printf("%llu sequences and %u known ones, %llu wrong, %llu as "
		       "known\n",
		       (unsigned long long)n, known.n,
		       (unsigned long long)n_wrong,
		       (unsigned long long)n_known);
	} else {
		is_listed = !strcmp(argv[2], "list");
		n_wrong = run_random(n, number(argc, argv, 4, 1),
				     number(argc, argv, 5, WRONG_MAX), true);
	}
	for (uint32_t i = 0; i < known.n && n_known; i++)
		printf("%6llu %s\n", (unsigned long long)known.k[i].n_used,
		       known.k[i].name);
	kernel.ops->free(kernel.self);
	known_free(&known);
	return n_wrong != 0;
}
