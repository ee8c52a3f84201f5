/* SPDX-License-Identifier: MIT */
/* tests/sim/sim_run.c - runs one seed; see sim.h */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "leave.h"
#include "base/atomic.h"
#include "sim.h"

#define TWICE_EVERY                                                            \
	16 /* such seeds run twice, to see that nothing else matters */
#define SEED_LIMIT_S                                                           \
	60 /* of the processor's time; far more than any seed takes */

struct sim_shared *sim_shared;
static struct world world;
static struct pcapng capture;

/* The assertion has printed what failed; this adds when. */
static void dies(int number)
{
	fprintf(stderr, "signal %d at %.6f s\n", number,
		(double)world.now_ns / 1e9);
	if (world.pcap)
		pcapng_close(world.pcap);
	_exit(3);
}

/* Two interfaces for each host: what it sends, and what it receives. */
static void capture_open(const char *path)
{
	int err = pcapng_open(&capture, path);

	if (err) {
		fprintf(stderr, "%s: %s\n", path, strerror(-err));
		return;
	}
	for (unsigned i = 0; i < 2 * WORLD_STACKS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "%u %s", i / 2,
			 i % 2 ? "receives" : "sends");
		pcapng_interface(&capture, PCAPNG_IP, name, NULL);
	}
	world.pcap = &capture;
}

static void transitions_add(void)
{
	for (uint32_t i = 0; i < world.n_stacks; i++)
		for (unsigned from = 0; from < TCP_STATES; from++)
			for (unsigned to = 0; to < TCP_STATES; to++)
				fetch_add(
				    &sim_shared->transitions[from][to],
				    world.stack[i]->transitions[from][to]);
}

/* Checks what is left over in a world in which nothing more can happen. */
static void check_leftover(const struct world_config *cfg,
			   struct swarm_verdict *verdict)
{
	if (!verdict->is_good || world.now_ns >= swarm_deadline(cfg))
		return;
	world_steal_end(&world);
	const char *what = world_leftover(&world);
	if (what) {
		verdict->is_good = false;
		snprintf(verdict->why, sizeof(verdict->why), "left: %s", what);
	}
}

/* Return: a hash of all that was sent. */
static uint64_t run_once(const struct swarm_how *how, const char *path,
			 struct swarm_verdict *verdict, uint64_t *n_frames)
{
	static struct world_config cfg;

	swarm_make(how, &cfg);
	world_init(&world, &cfg);
	if (path)
		capture_open(path);
	world_run(&world, swarm_deadline(&cfg));
	swarm_judge(&world, swarm_faults(how), how->is_strict, verdict);
	check_leftover(&cfg, verdict);
	if (world.pcap)
		pcapng_close(world.pcap);
	world.pcap = NULL;
	*n_frames += world.n_frames;
	transitions_add();
	uint64_t trace = world.trace;
	if (verdict->is_good)
		world_fini(&world);
	return trace;
}

void sim_run(const struct swarm_how *how, const char *path)
{
	const struct itimerval limit = { .it_value.tv_sec = SEED_LIMIT_S },
			       none = { 0 };
	const int deaths[] = { SIGABRT, SIGVTALRM, SIGSEGV };
	struct swarm_verdict v, second;
	uint64_t n_frames = 0;

	for (unsigned i = 0; i < ARRAY_LEN(deaths); i++)
		signal(deaths[i], dies);
	setitimer(ITIMER_VIRTUAL, &limit, NULL);
	uint64_t trace = run_once(how, path, &v, &n_frames);
	if (v.is_good && !path && how->seed % TWICE_EVERY == 0 &&
	    run_once(how, NULL, &second, &n_frames) != trace) {
		v.is_good = false;
		snprintf(v.why, sizeof(v.why), "two runs differ");
	}
	setitimer(ITIMER_VIRTUAL, &none, NULL);
	if (!v.is_good) {
		fprintf(stderr, "%s\n", v.why);
		leave(2);
	}
	fetch_add(&sim_shared->n_frames, n_frames);
	fetch_add(&sim_shared->n_unopened, v.n_unopened);
	fetch_add(&sim_shared->n_moves, world.n_moves);
	for (unsigned x = 0; x < EXCUSES; x++)
		fetch_add(&sim_shared->n_excused[x], v.n_excused[x]);
	fetch_add(&sim_shared->n_done, 1);
}

bool sim_fails(const struct swarm_how *how, bool is_quiet, const char *path)
{
	int status, null;

	fflush(stdout);
	pid_t pid = fork();
	if (!pid) {
		null = open("/dev/null", O_WRONLY);
		if (is_quiet && null >= 0)
			dup2(null, STDERR_FILENO);
		sim_run(how, path);
		leave(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		perror("sim");
		exit(1);
	}
	return status != 0;
}
