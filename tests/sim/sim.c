/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/sim.c - runs many worlds, each made from its seed
 *
 *     sim [options] [SEED [N]]       runs N seeds (1) from SEED (1) on
 *
 *     --jobs N         number of processes (2)
 *     --off A,B        without these faults (faults.def)
 *     --moves all|none connections move between two stacks of their host in all
 *                      worlds, or in none; default: in those that their seed chooses
 *     --pairs N        at most so many connections
 *     --bytes N        at most so many bytes of each end
 *     --heal-ms N      no fault after this instant
 *     --strict         no excuses: every connection must be perfect
 *     --pcap FILE      write the packets of a failure to FILE
 *     --progress       print the progress every few seconds
 *     --transitions    print which changes of state occurred
 *     --all-transitions  the same, and fail if one did not occur
 *
 * After a while all faults of wires and hosts end, and then every connection must come
 * to an end in time.  The summary counts the ends that were not perfect, by their
 * excuses.  For a failure it prints the seed, the commit, a command for the smallest
 * settings that still fail, and the name of a capture.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "leave.h"
#include "base/atomic.h"
#include "commit.h"
#include "sim.h"

#define PROGRESS_S 5

typedef unsigned long long ull; /* for printf() */

struct options {
	struct swarm_how how;
	uint64_t n;
	uint32_t n_jobs;
	const char *capture;
	bool has_progress, has_transitions, needs_transitions;
};

/* --- options --- */

static uint64_t faults_of(char *names)
{
	uint64_t bits = 0;

	for (char *at = strtok(names, ","); at; at = strtok(NULL, ",")) {
		unsigned f = 0;

		while (f < FAULTS && strcmp(swarm_fault_name(f), at))
			f++;
		if (f == FAULTS) {
			fprintf(stderr, "sim: no fault is called %s\n", at);
			exit(1);
		}
		bits |= 1ull << f;
	}
	return bits;
}

static void take_option(struct options *o, int c)
{
	uint32_t n = optarg ? (uint32_t)strtoul(optarg, NULL, 0) : 0;

	switch (c) {
	case 'j':
		o->n_jobs = n < SIM_JOBS_MAX ? n : SIM_JOBS_MAX;
		break;
	case 'o':
		o->how.off |= faults_of(optarg);
		break;
	case 'm':
		o->how.moves = strcmp(optarg, "all") ? MOVES_NONE : MOVES_ALL;
		break;
	case 'p':
		o->how.pairs_max = n;
		break;
	case 'b':
		o->how.bytes_max = n;
		break;
	case 'h':
		o->how.heal_ms = n;
		break;
	case 's':
		o->how.is_strict = true;
		break;
	case 'c':
		o->capture = optarg;
		break;
	case 'g':
		o->has_progress = true;
		break;
	case 't':
		o->has_transitions = true;
		break;
	case 'T':
		o->has_transitions = o->needs_transitions = true;
		break;
	default:
		exit(1);
	}
}

static struct options parse(int argc, char **argv)
{
	static const struct option names[] = {
		{ "jobs", 1, NULL, 'j' },
		{ "off", 1, NULL, 'o' },
		{ "moves", 1, NULL, 'm' },
		{ "pairs", 1, NULL, 'p' },
		{ "bytes", 1, NULL, 'b' },
		{ "heal-ms", 1, NULL, 'h' },
		{ "strict", 0, NULL, 's' },
		{ "pcap", 1, NULL, 'c' },
		{ "progress", 0, NULL, 'g' },
		{ "transitions", 0, NULL, 't' },
		{ "all-transitions", 0, NULL, 'T' },
		{ 0 },
	};
	struct options o = { .how.seed = 1, .n = 1, .n_jobs = 2 };
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
		take_option(&o, c);
	if (optind < argc)
		o.how.seed = strtoull(argv[optind++], NULL, 0);
	if (optind < argc)
		o.n = strtoull(argv[optind++], NULL, 0);
	return o;
}

/* --- workers --- */

static void work(const struct options *o, uint32_t job)
{
	struct swarm_how how = o->how;

	while ((how.seed = fetch_add(&sim_shared->next, 1)) <
	       o->how.seed + o->n) {
		store_rlx(&sim_shared->running[job], how.seed);
		sim_run(&how, NULL);
	}
	leave(0);
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void say_progress(const struct options *o, double from_s)
{
	uint64_t done = load_rlx(&sim_shared->n_done);
	double s = now_s() - from_s;

	if (!o->has_progress)
		return;
	fprintf(stderr,
		"%llu of %llu seeds, %.1f M segments, %.0f s, %.0f s to go\n",
		(ull)done, (ull)o->n,
		(double)load_rlx(&sim_shared->n_frames) / 1e6, s,
		done ? s / (double)done * (double)(o->n - done) : 0.0);
}

/* Waits for the workers to end, and ends the others when one fails.  Return: the seed
 * that failed, or 0 */
static uint64_t wait_for(const struct options *o, pid_t *pids, double from_s)
{
	uint32_t n_left = o->n_jobs;
	uint64_t failed = 0;
	sigset_t child;
	int status;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	while (n_left) {
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (!pid) {
			struct timespec t = { .tv_sec = PROGRESS_S };

			if (sigtimedwait(&child, NULL, &t) < 0)
				say_progress(o, from_s);
			continue;
		}
		n_left--;
		for (uint32_t i = 0; i < o->n_jobs; i++) {
			if (pids[i] != pid)
				continue;
			pids[i] = 0;
			if (status && !failed)
				failed = load_rlx(&sim_shared->running[i]);
		}
		for (uint32_t i = 0; failed && i < o->n_jobs; i++)
			if (pids[i])
				kill(pids[i], SIGKILL);
	}
	return failed;
}

static uint64_t run_all(const struct options *o, double from_s)
{
	pid_t pids[SIM_JOBS_MAX];
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	sim_shared->next = o->how.seed;
	for (uint32_t i = 0; i < o->n_jobs; i++) {
		pids[i] = fork();
		if (!pids[i])
			work(o, i);
		if (pids[i] < 0) {
			perror("sim");
			exit(1);
		}
	}
	return wait_for(o, pids, from_s);
}

/* --- what is said --- */

static void say_failure(const struct options *o, uint64_t seed)
{
	struct swarm_how how = o->how;
	char path[64];

	how.seed = seed;
	printf("sim: seed %llu fails at commit %s\nwith:", (ull)seed, COMMIT);
	for (unsigned f = 0; f < FAULTS; f++)
		if (swarm_faults(&how) >> f & 1)
			printf(" %s", swarm_fault_name(f));
	printf("\n");
	sim_shrink(&how);
	snprintf(path, sizeof(path), "sim-%llu.pcapng", (ull)seed);
	if (o->capture)
		snprintf(path, sizeof(path), "%s", o->capture);
	printf("still with:");
	for (unsigned f = 0; f < FAULTS; f++)
		if (swarm_faults(&how) >> f & 1)
			printf(" %s", swarm_fault_name(f));
	printf("\nminimal: ");
	sim_print_command(&how);
	bool fails = sim_fails(&how, false, path);
	printf("capture: %s%s\n", path, fails ? "" : " (did not fail again)");
}

/* Return: whether all changes of state occurred. */
static bool say_transitions(void)
{
	unsigned n_all = 0, n_seen = 0;

	for (unsigned from = 0; from < TCP_STATES; from++)
		for (unsigned to = 0; to < TCP_STATES; to++) {
			uint64_t n = sim_shared->transitions[from][to];

			if (!tcp_state_may_follow(from, to))
				continue;
			n_all++;
			n_seen += n > 0;
			printf("%-11s -> %-11s %llu\n", tcp_state_name(from),
			       tcp_state_name(to), (ull)n);
		}
	printf("sim: %u of %u changes of state seen\n", n_seen, n_all);
	return n_seen == n_all;
}

/* Prints how many ends were not perfect, by their excuses. */
static void say_excuses(void)
{
	for (unsigned x = 0; x < EXCUSES; x++)
		if (sim_shared->n_excused[x])
			printf("%9llu excused: %s\n",
			       (ull)sim_shared->n_excused[x],
			       swarm_excuse((enum excuse)x));
}

static void one_seed(const struct options *o)
{
	if (sim_fails(&o->how, false, o->capture)) {
		say_failure(o, o->how.seed);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	double from_s = now_s();
	uint64_t failed = 0;

	sim_shared = mmap(NULL, sizeof(*sim_shared), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert(sim_shared != MAP_FAILED);
	if (o.n == 1)
		one_seed(&o);
	else
		failed = run_all(&o, from_s);
	if (failed) {
		say_failure(&o, failed);
		return 1;
	}
	double s = now_s() - from_s;
	bool is_complete = !o.has_transitions || say_transitions();

	if (o.n > 1)
		say_excuses();
	printf("sim: %llu seeds from %llu, %llu segments in %.0f s, all well; "
	       "%llu opens failed, as they may; %llu moves\n",
	       (ull)o.n, (ull)o.how.seed, (ull)sim_shared->n_frames, s,
	       (ull)sim_shared->n_unopened, (ull)sim_shared->n_moves);
	return o.needs_transitions && !is_complete;
}
