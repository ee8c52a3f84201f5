/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/judge_sends.c - which connections the default policy moves: proto/tcp/judge.h
 *
 * A program in virtual time sends.  What a send costs over the kernel and over a port
 * is the test's to say: clock_gettime() and getrusage() here tell of that program.
 */
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "proto/tcp/judge.h"
#include "proto/tcp/past.h"
#include "sock/port_sends.h"
#include "unit.h"

#define ASK_SENDS 16 /* until a connection that has not moved asks again */
#define MOVES_MAX 64
/* The time of day when the test's clock began. */
#define REAL_NS (77777777 * NS_PER_MS)

struct cost {
	uint64_t ns, cpu_ns; /* of a send */
};

/* A program; all of its connections move together. */
static struct {
	uint64_t ns, cpu_ns, n_sleeps;
	bool is_moved;
	uint64_t n_kernel, n_port; /* sends */
	uint64_t moved_ns[MOVES_MAX];
	unsigned n_moves;
	unsigned n_settled; /* asked in vain, and told so for good */
	unsigned n_rests;   /* told that the port may rest */
	uint64_t noise;     /* percent that a send costs more now */
	uint64_t noise_ns;  /* when it began */
	uint64_t noise_max;
	uint64_t seed;
	uint64_t burst; /* sends, then a pause; 0: no pauses */
	uint64_t pause_ns, n_sends;
	uint64_t late_ns; /* each time, another thread asks, that much ahead */
} prog;

/* What processes of the program share; without osfd each has its own. */
static struct past page;
struct past *past_page(void) { return &page; }
static bool is_shared;

void past_after_fork(void)
{
	if (!is_shared)
		page = (struct past){ 0 };
}

int clock_gettime(clockid_t id, struct timespec *out)
{
	uint64_t ns = id == CLOCK_PROCESS_CPUTIME_ID ? prog.cpu_ns
		      : id == CLOCK_REALTIME         ? prog.ns + REAL_NS
						     : prog.ns;

	*out = ns_timespec(ns);
	return 0;
}

int getrusage(__rusage_who_t who, struct rusage *out)
{
	*out = (struct rusage){ .ru_nvcsw = (long)prog.n_sleeps };
	return 0;
}

/* What others on the machine add: another share every 15 ms, longer than a window. */
static uint64_t with_noise(uint64_t ns)
{
	if (prog.noise_max && prog.ns - prog.noise_ns > 15 * NS_PER_MS) {
		prog.seed = prog.seed * 6364136223846793005u + 1;
		prog.noise = (prog.seed >> 33) % (prog.noise_max + 1);
		prog.noise_ns = prog.ns;
	}
	return ns + ns * prog.noise / 100;
}

static void look(void)
{
	prog.is_moved = prog.is_moved && !judge_check(prog.ns);
}

/* A timer expires, and nothing is sent. */
static void pause_now(void)
{
	prog.ns += prog.pause_ns / 2;
	look();
	prog.ns += prog.pause_ns / 2;
}

static void send_one(const struct cost *c, bool sleeps)
{
	uint64_t ns = with_noise(c->ns);

	prog.ns += ns;
	prog.cpu_ns += with_noise(c->cpu_ns);
	prog.n_sleeps += sleeps;
	port_send_count();
	prog.n_sends++;
	if (prog.burst && prog.n_sends % prog.burst == 0)
		pause_now();
}

/* The clock of a thread that asks is behind that of who has asked last. */
static bool ask(void)
{
	enum judgement may = judge_ask();

	prog.n_rests += may == JUDGE_REST;
	if (may == JUDGE_MOVE || !prog.late_ns)
		return may == JUDGE_MOVE;
	prog.ns -= prog.late_ns;
	may = judge_ask();
	prog.ns += prog.late_ns;
	return may == JUDGE_MOVE;
}

static void run_one(const struct cost *kernel, const struct cost *port,
		    bool sleeps)
{
	if (prog.is_moved) {
		send_one(port, sleeps);
		prog.n_port++;
		look();
		return;
	}
	send_one(kernel, sleeps);
	if (prog.n_kernel++ % ASK_SENDS)
		return;
	if (!ask()) {
		prog.n_settled += judge_has_settled();
		return;
	}
	prog.is_moved = true;
	if (prog.n_moves < MOVES_MAX)
		prog.moved_ns[prog.n_moves] = prog.ns;
	prog.n_moves++;
	judge_moved();
}

static void run_ms(const struct cost *kernel, const struct cost *port,
		   bool sleeps, uint64_t ms)
{
	uint64_t end = prog.ns + ms * NS_PER_MS;

	while (prog.ns < end)
		run_one(kernel, port, sleeps);
}

static void run(const struct cost *kernel, const struct cost *port, bool sleeps,
		uint64_t seconds)
{
	run_ms(kernel, port, sleeps, seconds * 1000);
}

/* Percent of the sends over the port since the last time. */
static uint64_t share(void)
{
	uint64_t n = prog.n_port * 100 / (prog.n_port + prog.n_kernel);

	prog.n_port = prog.n_kernel = 0;
	return n;
}

static int setup(void **state)
{
	uint64_t ns = prog.ns;

	memset(&prog, 0, sizeof(prog));
	prog.ns = ns + NS_PER_S;
	is_shared = false;
	judge_after_fork();
	return 0;
}

/* Each rest is twice as long as the last one, or up to a half less or more: it ends at a time
 * that is the same for the other end. */
static void what_costs_more_goes_back(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 30000, 30000 };

	run(&kernel, &port, false, 120);
	assert_true(prog.n_moves >= 4 && prog.n_moves <= 6);
	for (unsigned i = 1; i < prog.n_moves; i++) {
		uint64_t rest = (5 * NS_PER_S) << (i - 1);
		uint64_t gap = prog.moved_ns[i] - prog.moved_ns[i - 1];

		assert_true(gap > rest / 2 && gap < rest * 3 / 2 + NS_PER_S);
	}
	assert_true(share() < 1);
	assert_false(prog.is_moved);
}

/* A trial costs more than it could save in a short time, unless each send has a sleep. */
static void a_program_that_is_short_has_no_trial(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 14000, 14000 };

	run_ms(&kernel, &port, false, 450);
	assert_int_equal(prog.n_moves, 0);
	run_ms(&kernel, &port, false, 300);
	assert_true(prog.is_moved);
	(void)setup(state);
	run_ms(&kernel, &port, true, 100);
	assert_true(prog.is_moved);
}

/* What clearly costs more goes back after three windows of 400 sends. */
static void a_hopeless_trial_is_short(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 30000, 30000 };

	run(&kernel, &port, false, 1);
	assert_int_equal(prog.n_moves, 1);
	assert_false(prog.is_moved);
	assert_true(prog.n_port < 1400);
}

/* It takes ten times as long, which may be another program's work, and computes no less. */
static void a_trial_that_drags_on_is_given_up(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 200000, 19500 };

	run(&kernel, &port, false, 1);
	assert_int_equal(prog.n_moves, 1);
	assert_false(prog.is_moved);
	assert_true(prog.n_port < 900);
	assert_false(judge_has_settled());
}

/* A connection stays with the kernel for good only when trial after trial has failed. */
static void trials_that_fail_settle_it(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 30000, 30000 };
	const struct cost dear = { 34000, 34000 };

	run(&kernel, &port, false, 2);
	assert_int_equal(prog.n_moves, 1);
	assert_int_equal(prog.n_settled, 0);
	while (prog.n_moves < 2)
		run_one(&kernel, &port, false);
	run(&kernel, &port, false, 1);
	assert_true(judge_has_settled());
	prog.ns += 20 * NS_PER_S;
	assert_false(
	    judge_has_settled()); /* the rest is over, and nobody has asked */
	run(&dear, &port, false, 4);
	assert_true(prog.n_moves >= 3);
	/* It pays, by so little that it is compared again soon.  That settles nothing. */
	prog.n_settled = 0;
	run(&dear, &port, false, 8);
	assert_true(prog.n_moves > 4);
	assert_int_equal(prog.n_settled, 0);
}

/* A trial between them has paid, if only by little: it is not one failure after the other. */
static void a_trial_that_pays_begins_the_count_anew(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 30000, 30000 };
	const struct cost little = { 18000, 18000 };

	run(&kernel, &port, false, 2);
	assert_int_equal(prog.n_moves, 1);
	while (!prog.is_moved)
		run_one(&kernel, &little, false);
	for (unsigned n = 0; n < 40000 && prog.is_moved; n++)
		run_one(&kernel, &little, false);
	assert_int_equal(prog.n_moves, 2);
	assert_false(
	    prog.is_moved); /* it is compared, a quarter of a second later */
	run(&kernel, &port, false, 2);
	assert_int_equal(prog.n_moves, 3);
	assert_false(prog.is_moved);
	assert_int_equal(prog.n_settled, 0);
	run(&kernel, &port, false, 30);
	assert_true(prog.n_moves > 3);
	assert_true(prog.n_settled > 0);
}

/* It computes so much less that another program's work must be what takes the time. */
static void a_clear_gain_that_takes_time_settles_nothing(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 30000, 14000 };

	run(&kernel, &port, false, 60);
	assert_true(prog.n_moves > 2);
	assert_int_equal(prog.n_settled, 0);
}

static void what_costs_less_stays(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 14000, 14000 };

	run(&kernel, &port, false, 1);
	assert_true(prog.is_moved);
	run(&kernel, &port, false, 120);
	assert_true(share() > 97);
	assert_true(prog.n_moves < 8); /* compared now and then */
}

/* A difference that noise explains is no reason. */
static void what_costs_the_same_goes_back(void **state)
{
	const struct cost both = { 20000, 20000 };

	run(&both, &both, false, 60);
	assert_true(share() < 2);
}

/* Neither a trial nor what follows it is decided by one lucky window. */
static void noise_is_no_gain(void **state)
{
	const struct cost both = { 20000, 20000 };

	prog.noise_max = 30;
	run(&both, &both, false, 300);
	assert_true(share() < 10);
}

static void a_gain_is_found_in_noise(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 14000, 14000 };

	prog.noise_max = 20;
	run(&kernel, &port, false, 120);
	assert_true(share() > 80);
}

/* It computes less, and does less: it waits more, or the peer has more to do. */
static void less_cpu_and_more_time_goes_back(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 21000, 14000 };

	run(&kernel, &port, false, 60);
	assert_true(share() < 3);
}

/* The kernel is measured while the program starts, when it takes its time. */
static void a_slow_start_does_not_mislead_for_long(void **state)
{
	const struct cost start = { 40000, 20000 }, kernel = { 20000, 20000 };
	const struct cost port = { 26000, 18000 };

	run(&start, &port, false, 1);
	assert_true(prog.n_moves > 0);
	(void)share();
	run(&kernel, &port, false, 10);
	assert_true(share() < 15);
	assert_false(prog.is_moved);
}

static void one_that_waits_for_answers_gains_time(void **state)
{
	const struct cost kernel = { 30000, 6000 }, port = { 12000, 7000 };

	run(&kernel, &port, true, 60);
	assert_true(share() > 95);
}

/* It has waited for its clients, as the clients have for it: now it does half as much again. */
static void one_that_does_more_in_its_time_gains(void **state)
{
	const struct cost kernel = { 10000, 6000 }, port = { 6600, 6200 };

	run(&kernel, &port, false, 60);
	assert_true(share() > 90);
}

/* Both ends have their trials at the same time, whenever they have begun. */
static void trials_begin_at_common_times(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 25000, 25000 };

	for (unsigned i = 0; i < 10; i++) {
		(void)setup(state);
		prog.ns += i * 13 * NS_PER_MS;
		run(&kernel, &port, false, 60);
		assert_true(prog.n_moves >= 3);
		for (unsigned j = 0; j < prog.n_moves; j++)
			assert_true((prog.moved_ns[j] + REAL_NS) %
					(125 * NS_PER_MS) <
				    NS_PER_MS);
	}
}

/* The same costs, where nothing waits: the CPU is what counts. */
static void one_that_never_waits_gains_nothing_by_time(void **state)
{
	const struct cost kernel = { 30000, 6000 }, port = { 12000, 7000 };

	run(&kernel, &port, false, 60);
	assert_true(share() < 3);
}

/* When it was measured both programs were on one processor, for as long as 60 ms; then the
 * scheduler has put them on two, and each turn wakes an idle one. */
static void a_kernel_that_was_quick_at_first_is_measured_again(void **state)
{
	const struct cost first = { 13000, 6000 }, kernel = { 85000, 37000 };
	const struct cost port = { 46000, 44000 };

	run_ms(&first, &port, true, 60);
	run_ms(&kernel, &port, true, 500);
	assert_int_equal(prog.n_moves, 2);
	assert_true(prog.is_moved);
	assert_int_equal(prog.n_settled, 0);
}

/* The peer's own TCP was on trial when the kernel was measured. */
static void a_kernel_that_is_quicker_than_before_is_tried_again(void **state)
{
	const struct cost first = { 80000, 37000 }, kernel = { 45000, 20000 };
	const struct cost port = { 78000, 44000 }, both = { 7000, 7000 };

	run_ms(&first, &port, true, 120);
	assert_int_equal(prog.n_moves, 1);
	assert_false(prog.is_moved);
	run_ms(&kernel, &both, true, 200);
	assert_true(prog.is_moved);
}

/* Nor is it measured for ever where it costs something else each time. */
static void a_trial_is_checked_once_where_nothing_has_changed(void **state)
{
	const struct cost kernel = { 20000, 8000 }, port = { 30000, 29000 };
	struct cost any = kernel;

	run(&kernel, &port, true, 2);
	assert_int_equal(prog.n_moves, 1);
	(void)setup(state);
	for (unsigned ms = 0; ms < 4000; ms += 50) {
		any.ns = ms % 300 ? 20000 : 80000;
		run_ms(&any, &(struct cost){ 100000, 99000 }, true, 50);
	}
	assert_in_range(prog.n_moves, 1, 5);
}

/* Its connections have gone back long before that is known. */
static void a_port_may_rest_after_the_check(void **state)
{
	const struct cost kernel = { 20000, 8000 }, port = { 30000, 29000 };

	run_ms(&kernel, &port, true, 2000);
	assert_int_equal(prog.n_moves, 1);
	assert_int_equal(prog.n_rests, 1);
	assert_true(judge_is_resting());
}

/* What was to be checked an hour ago is no matter of now. */
static void a_check_is_forgotten(void **state)
{
	const struct cost kernel = { 20000, 8000 }, port = { 30000, 29000 };
	const struct cost good = { 10000, 8000 };

	while (!prog.is_moved)
		run_one(&kernel, &port, true);
	while (prog.is_moved)
		run_one(&kernel, &port, true);
	prog.ns += 3600 * NS_PER_S;
	run_ms(&kernel, &good, true, 200);
	assert_int_equal(prog.n_moves, 2);
	assert_true(prog.is_moved);
}

/* The last window saves much CPU, and takes twice the time. */
static void a_window_that_takes_time_is_not_good(void **state)
{
	const struct cost kernel = { 20000, 20000 }, same = { 20000, 20000 };
	const struct cost good = { 19000, 19000 }, slow = { 40000, 13000 };

	while (!prog.is_moved)
		run_one(&kernel, &same, false);
	for (unsigned i = 0; i < 6 * 400 && prog.is_moved; i++)
		run_one(&kernel, &same, false);
	for (unsigned i = 0; i < 2 * 400 && prog.is_moved; i++)
		run_one(&kernel, &good, false);
	run(&kernel, &slow, false, 1);
	assert_int_equal(page.pays, 0);
	assert_false(prog.is_moved);
}

static void a_few_turns_now_and_then_move_nothing(void **state)
{
	const struct cost kernel = { 110 * NS_PER_MS, 20000 };
	const struct cost port = { 110 * NS_PER_MS, 1000 };

	run(&kernel, &port, true, 600);
	assert_int_equal(prog.n_moves, 0);
}

/* Before the next comparison, which is some 15 s away. */
static void a_port_that_becomes_dear_is_left(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 14000, 14000 };
	const struct cost dear = { 30000, 30000 };

	run(&kernel, &port, false, 10);
	assert_true(prog.is_moved);
	(void)share();
	run(&kernel, &dear, false, 12);
	assert_true(share() < 40);
}

/* It still computes less, and does less. */
static void a_port_that_becomes_slow_is_left(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 14000, 14000 };
	const struct cost slow = { 26000, 14000 };

	run(&kernel, &port, false, 100);
	assert_true(prog.is_moved);
	(void)share();
	run(&kernel, &slow, false, 12);
	assert_true(share() < 40);
}

/* By so little that only a comparison finds it. */
static void a_port_that_gains_nothing_any_more_is_left(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 14000, 14000 };
	const struct cost dear = { 21000, 21000 };

	run(&kernel, &port, false, 40);
	assert_true(prog.is_moved);
	(void)share();
	run(&kernel, &dear, false, 12);
	assert_true(share() < 40);
}

/* The windows that are compared have no pause: neither those of the kernel nor the port's. */
static void pauses_are_no_loss(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 20000, 14000 };

	prog.burst = 1000;
	prog.pause_ns = 200 * NS_PER_MS;
	run(&kernel, &port, false, 10);
	assert_true(prog.is_moved);
	(void)share();
	run(&kernel, &port, false, 200);
	assert_true(share() > 95);
	assert_true(prog.n_moves < 8); /* after 8 s, 16 s, and so on */
}

/* Each comparison says that it pays, so the next one is later. */
static void noise_is_no_loss(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 20000, 14000 };

	for (unsigned seed = 1; seed <= 3; seed++) {
		(void)setup(state);
		prog.noise_max = 20;
		prog.seed = seed;
		run(&kernel, &port, false, 600);
		assert_true(share() > 95);
		assert_true(prog.n_moves < 16);
	}
}

/* The kernel would be as slow. */
static void a_pace_that_clients_set_is_no_loss(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 20000, 14000 };
	const struct cost slow = { 26000, 20000 }, slow_port = { 26000, 14000 };

	run(&kernel, &port, false, 2);
	for (unsigned i = 0; i < 40; i++) {
		run(&kernel, &port, false, 6);
		run(&slow, &slow_port, false, 6);
	}
	assert_true(share() > 95);
	assert_true(prog.n_moves < 16);
}

/* The comparison says so, too. */
static void a_slower_port_stays_with_the_kernel(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 20000, 14000 };
	const struct cost slow = { 22000, 14000 };

	prog.burst = 1000;
	prog.pause_ns = 200 * NS_PER_MS;
	run(&kernel, &port, false, 100);
	assert_true(prog.is_moved);
	run(&kernel, &slow, false, 10);
	assert_false(prog.is_moved);
	(void)share();
	run(&kernel, &slow, false, 300);
	assert_true(share() < 5);
}

/* The kernel would take as much more: it is asked again, and the connections stay. */
static void more_work_for_each_send_is_no_reason(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 14000, 14000 };
	const struct cost more = { 30000, 30000 }, more_port = { 21000, 21000 };

	run(&kernel, &port, false, 40);
	(void)share();
	run(&more, &more_port, false, 40);
	assert_true(share() > 95);
}

static void a_kernel_that_becomes_dear_is_left(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 25000, 25000 };
	const struct cost dear = { 40000, 40000 };

	run(&kernel, &port, false, 5);
	assert_false(prog.is_moved);
	run(&dear, &port, false, 60);
	assert_true(prog.is_moved);
}

/* Of two threads, the one has read the clock before the other. */
static void a_late_thread_does_not_measure_anew(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 14000, 14000 };

	prog.late_ns = 1000;
	run(&kernel, &port, false, 1);
	assert_true(prog.is_moved);
}

/* It is measured, and could move, but nothing does; then it does something else. */
static void what_was_measured_long_ago_is_measured_anew(void **state)
{
	const struct cost dear = { 40000, 40000 }, kernel = { 20000, 20000 };
	const struct cost port = { 25000, 25000 };

	while (!ask())
		send_one(&dear, false);
	prog.ns += 2 * NS_PER_S;
	assert_false(ask());
	run(&kernel, &port, false, 2);
	assert_int_equal(prog.n_moves, 1);
	assert_false(prog.is_moved);
}

/* While it rests, nothing of it need be left on the device; it does not rest between two
 * measures. */
static void what_does_not_pay_rests(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 30000, 30000 };
	const struct cost little = { 18500, 18500 };

	assert_false(judge_is_resting());
	run(&kernel, &port, false, 2);
	assert_false(prog.is_moved);
	assert_true(judge_is_resting());
	prog.ns += 10 * NS_PER_S;
	assert_false(judge_is_resting());
	while (!prog.is_moved)
		run_one(&kernel, &little, false);
	while (prog.is_moved)
		run_one(&kernel, &little, false);
	assert_false(judge_is_resting()); /* it is compared */
}

static void a_child_measures_for_itself(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 14000, 14000 };

	run(&kernel, &port, false, 2);
	assert_true(prog.is_moved);
	prog.is_moved = false;
	judge_after_fork();
	assert_int_equal(judge_ask(), JUDGE_WAIT);
	assert_false(judge_check(prog.ns));
	run(&kernel, &port, false, 2);
	assert_true(prog.is_moved);
}

/* Another process of the same program. */
static void next_process(void)
{
	uint64_t ns = prog.ns;

	memset(&prog, 0, sizeof(prog));
	prog.ns = ns;
	is_shared = true;
	judge_after_fork();
}

/* Each of them lives for a second, and they have no more trials than one that lives on. */
static void processes_share_their_failures(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 30000, 30000 };
	unsigned n_moves = 0, n_settled = 0;

	for (unsigned i = 0; i < 40; i++) {
		next_process();
		run(&kernel, &port, false, 1);
		assert_false(prog.is_moved);
		n_moves += prog.n_moves;
		n_settled += prog.n_settled > 0;
	}
	assert_in_range(n_moves, 3, 4);
	assert_true(n_settled > 25);
}

/* After a pause it is as if nobody had failed. */
static void failures_are_forgotten(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 30000, 30000 };
	const struct cost good = { 14000, 14000 };

	next_process();
	run(&kernel, &port, false, 12);
	assert_int_equal(prog.n_moves, 2);
	prog.ns += 60 * NS_PER_S;
	next_process();
	run(&kernel, &good, false, 1);
	assert_true(prog.is_moved);
	assert_int_equal(prog.n_settled, 0);
}

/* What has paid once is tried at once; it is tried all the same. */
static void a_gain_is_remembered(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 30000, 30000 };
	const struct cost good = { 14000, 14000 };

	next_process();
	run(&kernel, &good, false, 2);
	assert_true(prog.is_moved);
	next_process();
	run_ms(&kernel, &good, false, 250);
	assert_true(prog.is_moved);
	next_process();
	run(&kernel, &port, false, 1);
	assert_int_equal(prog.n_moves, 1);
	assert_false(prog.is_moved);
	next_process();
	run(&kernel, &port, false, 1);
	assert_int_equal(prog.n_moves, 0);
}

/* Of two that run at the same time, one has the trial. */
static void a_failure_meanwhile_is_enough(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 30000, 30000 };

	next_process();
	run_ms(&kernel, &port, false, 300);
	assert_int_equal(prog.n_moves, 0);
	page.n_failed = 1;
	page.rest_ns = 10 * NS_PER_S;
	page.until_ns = prog.ns + 5 * NS_PER_S;
	run(&kernel, &port, false, 4);
	assert_int_equal(prog.n_moves, 0);
	run(&kernel, &port, false, 3);
	assert_int_equal(prog.n_moves, 1);
}

/* The first one's failure is to be checked when it ends. */
static void processes_share_what_is_to_be_checked(void **state)
{
	const struct cost kernel = { 20000, 8000 }, port = { 30000, 29000 };
	unsigned n_moves = 0;

	for (unsigned i = 0; i < 100; i++) {
		next_process();
		run_ms(&kernel, &port, true, 60);
		n_moves += prog.n_moves;
	}
	assert_in_range(n_moves, 1, 4);
}

/* Measured, and it waits for the time at which all try. */
static void a_failure_before_the_trial_is_enough(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 30000, 30000 };

	next_process();
	for (;;) {
		send_one(&kernel, false);
		if (judge_ask() == JUDGE_SOON)
			break;
	}
	page.n_failed = 1;
	page.rest_ns = 10 * NS_PER_S;
	page.until_ns = prog.ns + 5 * NS_PER_S;
	run(&kernel, &port, false, 4);
	assert_int_equal(prog.n_moves, 0);
}

/* The page is another process's. */
static void a_past_without_sense_is_none(void **state)
{
	const struct cost kernel = { 20000, 20000 }, port = { 14000, 14000 };
	static const struct past bad[] = {
		{ UINT64_MAX, 10 * NS_PER_S, 3, 1, 0 },
		{ UINT64_MAX / 2, UINT64_MAX, UINT32_MAX, 7, 9 },
		{ 1, UINT64_MAX, 3, 1, 1 },
		{ UINT64_MAX, 0, 1, 1, 0 },
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		next_process();
		page = bad[i];
		run(&kernel, &port, false, 1);
		assert_true(prog.is_moved);
		assert_int_equal(prog.n_settled, 0);
	}
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_costs_more_goes_back),
		TEST(a_program_that_is_short_has_no_trial),
		TEST(a_hopeless_trial_is_short),
		TEST(a_trial_that_drags_on_is_given_up),
		TEST(trials_that_fail_settle_it),
		TEST(a_trial_that_pays_begins_the_count_anew),
		TEST(a_clear_gain_that_takes_time_settles_nothing),
		TEST(what_costs_less_stays),
		TEST(what_costs_the_same_goes_back),
		TEST(noise_is_no_gain),
		TEST(a_gain_is_found_in_noise),
		TEST(less_cpu_and_more_time_goes_back),
		TEST(a_slow_start_does_not_mislead_for_long),
		TEST(one_that_waits_for_answers_gains_time),
		TEST(one_that_does_more_in_its_time_gains),
		TEST(trials_begin_at_common_times),
		TEST(one_that_never_waits_gains_nothing_by_time),
		TEST(a_kernel_that_was_quick_at_first_is_measured_again),
		TEST(a_kernel_that_is_quicker_than_before_is_tried_again),
		TEST(a_trial_is_checked_once_where_nothing_has_changed),
		TEST(a_port_may_rest_after_the_check),
		TEST(a_check_is_forgotten),
		TEST(a_window_that_takes_time_is_not_good),
		TEST(a_few_turns_now_and_then_move_nothing),
		TEST(a_port_that_becomes_dear_is_left),
		TEST(a_port_that_becomes_slow_is_left),
		TEST(a_port_that_gains_nothing_any_more_is_left),
		TEST(pauses_are_no_loss),
		TEST(noise_is_no_loss),
		TEST(a_pace_that_clients_set_is_no_loss),
		TEST(a_slower_port_stays_with_the_kernel),
		TEST(more_work_for_each_send_is_no_reason),
		TEST(a_kernel_that_becomes_dear_is_left),
		TEST(a_late_thread_does_not_measure_anew),
		TEST(what_was_measured_long_ago_is_measured_anew),
		TEST(what_does_not_pay_rests),
		TEST(a_child_measures_for_itself),
		TEST(processes_share_their_failures),
		TEST(failures_are_forgotten),
		TEST(a_gain_is_remembered),
		TEST(a_failure_meanwhile_is_enough),
		TEST(processes_share_what_is_to_be_checked),
		TEST(a_failure_before_the_trial_is_enough),
		TEST(a_past_without_sense_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
