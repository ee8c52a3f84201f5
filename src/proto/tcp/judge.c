/* SPDX-License-Identifier: MIT */
/* proto/tcp/judge.c - see proto/tcp/judge.h */
#include "proto/tcp/judge.h"

#include <sys/resource.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "base/log.h"
#include "proto/tcp/past.h"
#include "sock/port_sends.h"

/* A window is over when it has WINDOW_SENDS sends and is WINDOW_NS long; or has
 * SLEEPY_SENDS sends, most of them with a sleep, because then the gain is not CPU; or has
 * FEW_SENDS sends and is LONG_NS long. */
#define WINDOW_SENDS 400u
#define WINDOW_NS (4 * NS_PER_MS)
#define SLEEPY_SENDS 100u
#define FEW_SENDS 16u
#define LONG_NS (200 * NS_PER_MS)
/* Others on the machine only add to what a window costs: the least of some counts. */
#define KERNEL_WINDOWS 6u
#define SLEEPY_WINDOWS 2u
#define STAY_WINDOWS 8u
#define TRIAL_WINDOWS 6u
/* A trial costs a program that serves many clients at once some 25 ms, because all of its
 * connections move, and perhaps back.  So such a program has to send for this long before
 * its first trial. */
#define PATIENCE_NS (500 * NS_PER_MS)
/* How long a trial goes on that neither pays nor clearly costs more.  That of a program which
 * waits for one answer at a time is over after TRIAL_WINDOWS, unless it clearly gains time. */
#define TRIAL_NS (100 * NS_PER_MS)
/* If it clearly saves CPU, and only its time speaks against it, which may be noise. */
#define TRIAL_MAX_NS (400 * NS_PER_MS)
/* How many windows of a trial must say that it pays, and one of how many where the gain is
 * small.  One window is too few: where both ways cost the same, noise would decide too
 * often. */
#define GOOD_WINDOWS 2u
#define GOOD_SHARE 3u
/* So many are enough where the best of them costs clearly more, once the peer's connections have
 * had the time to move as well. */
#define HOPELESS_WINDOWS 3u
#define HOPELESS_NS (30 * NS_PER_MS)
#define HOPELESS_PERCENT 10
/* Nor does a trial take more than so many times what the kernel took for as many windows. */
#define DRAGS_TIMES 3
#define GAIN_PERCENT 4
#define SLOW_PERCENT 3
#define FASTER_PERCENT 10
#define DEAR_PERCENT 10
/* A pause between two looks.  After it the window begins anew, because the program has done
 * something else. */
#define PAUSE_NS (100 * NS_PER_MS)
/* After the last move, until what it costs itself is over. */
#define SETTLE_NS (2 * NS_PER_MS)
/* Connections that move later than that do not prolong a trial. */
#define MOVES_NS (50 * NS_PER_MS)
#define REST_NS (5 * NS_PER_S)
#define REST_MAX_NS (640 * NS_PER_S)
#define FAILED_MAX 16u /* that another process may tell of */
/* If the trial of a program that waits for one answer at a time fails, the kernel is measured
 * again after this time, and after twice that for each further trial, RECHECKS_MAX times at
 * most.  Two programs that wake each other in turns take several times as long on two idle
 * processors as on one.  The scheduler decides which, and the peer's own TCP may be on trial
 * meanwhile.  So the kernel may cost something else by then. */
#define RECHECK_NS (100 * NS_PER_MS)
#define RECHECKS_MAX 4u
/* If the program sends nothing for so long after that, its last trial is not checked. */
#define CHECK_UNTIL_NS NS_PER_S
/* By how much it has to differ from what it was. */
#define OTHER_PERCENT 25
/* From one window to the next while connections stay. */
#define STAY_WINDOW_NS (250 * NS_PER_MS)
/* How often the number of windows that begin a comparison doubles, at most. */
#define VAIN_MAX 8u
/* Until the kernel is asked again whether it has become faster. */
#define STAY_NS (8 * NS_PER_S)
/* The same if the gain was small: what the kernel took may have been due to the program's
 * start, or to another program's work. */
#define STAY_UNSURE_NS (250 * NS_PER_MS)
#define SURE_PERCENT 25
#define STAY_MAX_NS (512 * NS_PER_S)
#define COMPARE_NS (20 * NS_PER_MS)
/* Measured, and nothing has moved: by then the program may do something else. */
#define READY_NS NS_PER_S
/* Trials of programs that serve many clients begin at multiples of TRIALS_NS, LEAD_NS from
 * now at least, in which a port can be opened. */
#define TRIALS_NS (125 * NS_PER_MS)
#define LEAD_NS (64 * NS_PER_MS)

enum phase { KERNEL, MEASURE, READY, TRIAL, STAY, REST };

struct sample {
	uint64_t ns, cpu_ns, sends, sleeps;
};

struct cost {
	uint64_t cpu_ns, ns; /* of 1024 sends */
	bool is_sleepy;
};

static struct lock lock; /* all below */
static enum phase phase;
static struct sample from; /* the window's beginning */
static struct cost base;   /* over the kernel */
static struct cost least;  /* of the windows since begin(), over the port */
static struct cost tried,
    failed; /* base and least of a trial that is to be checked */
static unsigned n_rechecks;  /* of trials, in a row */
static bool is_recheck;      /* the kernel is measured for that */
static bool may_settle_then; /* for rest(), if the trial has failed indeed */
static bool asks_past;       /* before the trial: has another process failed? */
static unsigned n_windows, n_good;
static unsigned n_failed; /* trials in a row */
static unsigned n_slow;   /* times STAY_WINDOWS, in a row: nothing gained */
static unsigned n_vain;   /* comparisons for that, in a row, that it passed */
static bool is_in_doubt;  /* such a comparison is under way */
static uint64_t asked_sends; /* of the window, when its sleeps were counted */
static bool is_open;         /* over the port: the window has begun */
static bool is_due; /* while connections stay: with the next send it begins */
static bool is_settled;              /* as long as the rest lasts */
static bool is_long;                 /* the rest is, because it did not pay */
static uint64_t seen_sends, seen_ns; /* the last look that found a new send */
static uint64_t trial_ns, settled_ns, until_ns, ready_ns;
static bool is_told; /* JUDGE_SOON has been said */
static uint64_t begun_ns,
    measured_ns;         /* when base was begun; how long it took */
static uint64_t busy_ns; /* of windows over the kernel, up to PATIENCE_NS */
static uint64_t rest_ns = REST_NS, stay_ns = STAY_UNSURE_NS;

static struct sample sample(uint64_t now)
{
	struct rusage r = { 0 };

	getrusage(RUSAGE_SELF, &r);
	return (struct sample){ .ns = now,
				.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID),
				.sends = load_rlx(&sock_port_sends),
				.sleeps = (uint64_t)r.ru_nvcsw };
}

static void open_window(uint64_t now)
{
	from = sample(now);
	asked_sends = 0;
	is_open = true;
	is_due = false;
	seen_sends = from.sends;
	seen_ns = now;
}

/* The first multiple of @step_ns that is at least @least_ns from now, as a time of now_ns().
 * It is the same for the other end, which may be another host's program: clocks that NTP
 * sets differ by less than a trial takes.  Where the clocks differ by more, the two
 * ends' trials are not at the same time, and nothing else is wrong. */
static uint64_t common_time(uint64_t now, uint64_t step_ns, uint64_t least_ns)
{
	uint64_t at = clock_ns(CLOCK_REALTIME) + least_ns + step_ns - 1;

	return now + least_ns + step_ns - 1 - at % step_ns;
}

static void begin(enum phase p, uint64_t now)
{
	phase = p;
	is_settled = false;
	n_windows = n_good = n_slow = 0;
	begun_ns = now;
	open_window(now);
}

/* Was there a pause before the sends that this look finds?  Looks that find no send, as in
 * a timer's turns, do not shorten a pause. */
static bool has_paused(uint64_t now)
{
	uint64_t n = load_rlx(&sock_port_sends);
	bool paused = n != seen_sends && now > seen_ns + PAUSE_NS;

	if (n != seen_sends)
		seen_ns = MAX(now, seen_ns);
	seen_sends = n;
	return paused;
}

/* False: the window is not over. */
static bool cost_of_window(uint64_t now, struct cost *out)
{
	uint64_t ns = now - from.ns,
		 n = load_rlx(&sock_port_sends) - from.sends;

	if (n < (ns < LONG_NS ? SLEEPY_SENDS : FEW_SENDS) || ns < WINDOW_NS)
		return false;
	/* A sample is two system calls. */
	if (n < WINDOW_SENDS && ns < LONG_NS && n < asked_sends + SLEEPY_SENDS)
		return false;
	asked_sends = n;
	struct sample s = sample(now);
	bool is_sleepy = (s.sleeps - from.sleeps) * 4 > n * 3;
	if (!is_sleepy && ns < LONG_NS && n < WINDOW_SENDS)
		return false;
	asked_sends = 0;
	*out = (struct cost){ .cpu_ns = (s.cpu_ns - from.cpu_ns) * 1024 / n,
			      .ns = ns * 1024 / n,
			      .is_sleepy = (s.sleeps - from.sleeps) * 2 > n };
	return true;
}

/* Is @a clearly less than @b, by @percent? */
static bool is_less(uint64_t a, uint64_t b, unsigned percent)
{
	return a * 100 < b * (100 - percent);
}

/* Does a program that serves many clients gain, CPU by @percent?  Or does it do clearly more in
 * the same time, for little more CPU each?  Its clients may have been what it waited for. */
static bool gains(const struct cost *c, unsigned percent)
{
	return is_less(c->cpu_ns, base.cpu_ns, percent) ||
	       (is_less(c->ns, base.ns, FASTER_PERCENT) &&
		!is_less(base.cpu_ns, c->cpu_ns, DEAR_PERCENT));
}

/* Does our TCP pay?  A program that sleeps after each send waits for answers, so it has to
 * gain time.  Another one has to save CPU, and must not lose time: if its clients wait for
 * each answer, time is their turns per second. */
static bool pays(const struct cost *c)
{
	if (!base.is_sleepy)
		return gains(c, GAIN_PERCENT) &&
		       !is_less(base.ns, c->ns, SLOW_PERCENT);
	return is_less(c->ns, base.ns, FASTER_PERCENT) ||
	       (is_less(c->cpu_ns, base.cpu_ns, GAIN_PERCENT) &&
		!is_less(base.ns, c->ns, FASTER_PERCENT));
}

/* Has it paid so much that noise does not explain it? */
static bool is_sure(const struct cost *c)
{
	return base.is_sleepy ? is_less(c->ns, base.ns, SURE_PERCENT)
			      : is_less(c->cpu_ns, base.cpu_ns, SURE_PERCENT);
}

/* Of the windows since begin(). */
static void take_least(struct cost *to, const struct cost *c)
{
	bool any = n_windows++;

	to->cpu_ns = any ? MIN(to->cpu_ns, c->cpu_ns) : c->cpu_ns;
	to->ns = any ? MIN(to->ns, c->ns) : c->ns;
	to->is_sleepy = c->is_sleepy;
}

/*
 * What other processes of this program have found out, and what it finds out itself.
 */

static void tell(const struct past *what)
{
	struct past *past = past_page();

	store_rlx(&past->n_failed, what->n_failed);
	store_rlx(&past->settles, what->settles);
	store_rlx(&past->rest_ns, what->rest_ns);
	store_rlx(&past->until_ns, what->until_ns);
	store_rlx(&past->pays, what->pays);
}

static void note(bool pays)
{
	tell(&(struct past){ .n_failed = n_failed,
			     .settles = is_settled,
			     .rest_ns = rest_ns,
			     .until_ns = phase == REST ? until_ns : 0,
			     .pays = pays });
}

static uint64_t next_rest_ns(void) { return MIN(2 * rest_ns, REST_MAX_NS); }

static void forget_checks(void)
{
	is_recheck = false;
	n_rechecks = 0;
}

/* Takes over a rest that another process of the program has begun.  If that rest is over,
 * but not for longer than the next one would take, this process's next rest is as long as
 * that process's.  Return: whether this process rests now */
static bool recall(uint64_t now)
{
	const struct past *past = past_page();
	uint64_t until = load_rlx(&past->until_ns);
	uint64_t next = load_rlx(&past->rest_ns);
	uint32_t n = MIN(load_rlx(&past->n_failed), FAILED_MAX);

	if (!n || next < REST_NS || next > REST_MAX_NS ||
	    until > now + 2 * REST_MAX_NS || now > until + next)
		return false;
	n_failed = MAX(n_failed, n);
	rest_ns = MAX(rest_ns, next);
	if (until <= now)
		return false;
	is_settled = load_rlx(&past->settles);
	forget_checks();
	is_long = true;
	until_ns = until;
	phase = REST;
	return true;
}

/* The first question of this process. */
static void start(uint64_t now)
{
	if (phase != KERNEL || recall(now))
		return;
	if (load_rlx(&past_page()->pays))
		busy_ns = PATIENCE_NS;
}

/* Begins a rest.  @may_settle: if this is not the first failure in a row, connections that
 * ask during the rest stay with the kernel for good.  A caller that has seen much CPU saved
 * says false, because another program may have taken the time. */
static bool rest(uint64_t now, bool may_settle)
{
	n_failed++;
	n_vain = 0;
	is_in_doubt = false;
	forget_checks();
	is_settled = may_settle && n_failed > 1;
	is_long = true;
	until_ns = common_time(now, rest_ns, rest_ns / 2);
	rest_ns = next_rest_ns();
	stay_ns = STAY_UNSURE_NS;
	phase = REST;
	note(false);
	return true;
}

/* A failure that is to be checked, for other processes: they rest as if it were one. */
static void note_unchecked(uint64_t now)
{
	tell(&(struct past){ .n_failed = n_failed + 1,
			     .rest_ns = next_rest_ns(),
			     .until_ns = now + rest_ns });
}

static enum judgement when_ready(uint64_t now)
{
	if (now >= ready_ns)
		return asks_past && recall(now) ? JUDGE_WAIT : JUDGE_MOVE;
	if (is_told)
		return JUDGE_WAIT;
	is_told = true;
	return JUDGE_SOON;
}

/* Does the kernel, as measured now, cost something else than when the trial failed? */
static bool has_changed(void)
{
	return !base.is_sleepy || pays(&failed) ||
	       is_less(base.ns, tried.ns, OTHER_PERCENT) ||
	       is_less(tried.ns, base.ns, OTHER_PERCENT);
}

static enum judgement measure(uint64_t now)
{
	struct cost c;

	if (!cost_of_window(now, &c))
		return JUDGE_WAIT;
	take_least(&base, &c);
	busy_ns = MIN(busy_ns + (now - from.ns), PATIENCE_NS);
	from = sample(now);
	if (n_windows < (c.is_sleepy ? SLEEPY_WINDOWS : KERNEL_WINDOWS))
		return JUDGE_WAIT;
	if (is_recheck && !has_changed()) {
		rest(now, may_settle_then);
		return JUDGE_REST;
	}
	if (!c.is_sleepy && busy_ns < PATIENCE_NS) {
		begin(MEASURE, now);
		return JUDGE_WAIT;
	}
	bool has_stayed = stay_ns != STAY_UNSURE_NS; /* so there is a port */
	/* Has another one failed meanwhile?  What is checked is this one's own failure. */
	asks_past = !has_stayed && !is_recheck;
	is_recheck = false;
	if (asks_past && recall(now))
		return JUDGE_WAIT;
	phase = READY;
	measured_ns = now - begun_ns;
	ready_ns = base.is_sleepy
		       ? now
		       : common_time(now, TRIALS_NS, has_stayed ? 0 : LEAD_NS);
	until_ns = ready_ns + READY_NS;
	is_told = false;
	return when_ready(now);
}

static void begin_trial(uint64_t now)
{
	phase = TRIAL;
	is_open = false;
	trial_ns = now;
	settled_ns = now + SETTLE_NS;
}

enum judgement judge_ask(void)
{
	GUARD(&lock);
	uint64_t now = now_ns(); /* not before that of who had the lock */

	start(now);
	switch (phase) {
	case TRIAL:
	case STAY:
		return JUDGE_MOVE;
	case READY:
		if (now < until_ns)
			return when_ready(now);
		break;
	case MEASURE:
		if (!has_paused(now))
			return measure(now);
		open_window(now);
		return JUDGE_WAIT;
	case REST:
		if (now < until_ns)
			return JUDGE_WAIT;
		if (now > until_ns + CHECK_UNTIL_NS)
			forget_checks();
		break;
	case KERNEL:
		break;
	}
	begin(MEASURE, now);
	return JUDGE_WAIT;
}

bool judge_has_settled(void)
{
	GUARD(&lock);
	uint64_t now = now_ns();

	start(now);
	return is_settled && now < until_ns;
}

bool judge_is_resting(void)
{
	GUARD(&lock);

	return phase == REST && is_long && now_ns() < until_ns;
}

void judge_moved(void)
{
	GUARD(&lock);
	uint64_t now = now_ns();

	if (phase == READY)
		begin_trial(now);
	if (phase != TRIAL || now - trial_ns > MOVES_NS)
		return;
	settled_ns = now + SETTLE_NS;
	is_open = false;
}

static void stay(uint64_t now, bool sure)
{
	if (sure)
		stay_ns = MAX(stay_ns, STAY_NS);
	if (stay_ns >= STAY_NS)
		rest_ns = REST_NS;
	n_failed = n_rechecks = 0;
	if (is_in_doubt)
		n_vain = MIN(n_vain + 1, VAIN_MAX);
	is_in_doubt = false;
	until_ns = common_time(now, stay_ns, stay_ns / 2);
	stay_ns = MIN(2 * stay_ns, STAY_MAX_NS);
	begin(STAY, now);
	is_open = false;
	note(sure);
}

/* The trial has failed, unless the kernel has changed meanwhile. */
static bool give_up(uint64_t now, bool may_settle)
{
	if (!base.is_sleepy || n_rechecks == RECHECKS_MAX)
		return rest(now, may_settle);
	tried = base;
	failed = least;
	is_recheck = true;
	may_settle_then = may_settle;
	note_unchecked(now);
	until_ns = now + (RECHECK_NS << n_rechecks++);
	is_long = false;
	phase = REST;
	return true;
}

static bool is_hopeless(uint64_t now)
{
	if (n_windows < HOPELESS_WINDOWS || now - trial_ns < HOPELESS_NS)
		return false;
	if (!base.is_sleepy)
		return is_less(base.cpu_ns, least.cpu_ns, HOPELESS_PERCENT);
	return is_less(base.cpu_ns, least.cpu_ns, HOPELESS_PERCENT) &&
	       is_less(base.ns, least.ns, HOPELESS_PERCENT);
}

/* A program that waits for one answer at a time has had fewer windows. */
static bool drags_on(uint64_t now)
{
	uint64_t n = MAX(n_windows + 1, KERNEL_WINDOWS);

	return !base.is_sleepy &&
	       now - begun_ns >
		   DRAGS_TIMES * measured_ns * n / KERNEL_WINDOWS &&
	       !(n_windows && is_sure(&least));
}

/* @c: the last window, which says that it pays */
static bool has_passed(const struct cost *c)
{
	return n_good >= GOOD_WINDOWS &&
	       (is_sure(c) || n_good * GOOD_SHARE >= n_windows);
}

static bool is_over(uint64_t now)
{
	uint64_t most = base.is_sleepy ? 0 : TRIAL_NS;

	return n_windows >= TRIAL_WINDOWS &&
	       now - trial_ns > (is_sure(&least) ? TRIAL_MAX_NS : most);
}

static bool end_trial(uint64_t now)
{
	struct cost c;

	if (!is_open)
		begin(TRIAL, now);
	if (drags_on(now))
		return rest(now, false);
	if (!cost_of_window(now, &c))
		return false;
	bool does = pays(&c);
	log_info("a send: %u ns of CPU, %u ns; over the kernel: %u, %u: %s",
		 (unsigned)(c.cpu_ns / 1024), (unsigned)(c.ns / 1024),
		 (unsigned)(base.cpu_ns / 1024), (unsigned)(base.ns / 1024),
		 does ? "connections stay" : "it does not pay");
	from = sample(now);
	take_least(&least, &c);
	n_good += does;
	if (does && has_passed(&c))
		stay(now, is_sure(&c));
	else if (is_hopeless(now))
		return give_up(now, true);
	else if (is_over(now))
		return give_up(now, !is_sure(&least));
	return false;
}

/* All go back, to be measured over the kernel again. */
static bool compare(uint64_t now)
{
	until_ns = now + COMPARE_NS;
	is_long = false;
	phase = REST;
	return true;
}

/* The last windows show little gain: was the trial wrong, or has the program changed?  A
 * comparison finds out.  Each comparison that finds that our TCP pays doubles the number of
 * such windows before the next one. */
static bool end_stay_windows(uint64_t now)
{
	bool is_slow = is_less(base.ns, least.ns, SLOW_PERCENT);

	n_windows = 0;
	if (!is_slow && (base.is_sleepy || gains(&least, 0))) {
		n_slow = 0;
		return false;
	}
	/* Nothing is gained any more: has each send more to do now? */
	if (!base.is_sleepy && is_less(base.cpu_ns, least.cpu_ns, DEAR_PERCENT))
		return rest(now, true);
	if (++n_slow < 1u << n_vain)
		return false;
	is_in_doubt = true;
	return compare(now);
}

/* A window begins with a send: a timer's turn is in the middle of a pause. */
static void open_next(uint64_t now)
{
	if (now - from.ns < STAY_WINDOW_NS)
		return;
	uint64_t n = load_rlx(&sock_port_sends);
	if (is_due && n != seen_sends)
		return open_window(now);
	is_due = true;
	seen_sends = n;
}

/* Windows here are as long as those with the kernel, and begin anew for the same reasons,
 * so that their costs can be compared. */
static bool end_stay(uint64_t now)
{
	struct cost c;

	if (now >= until_ns)
		return compare(now);
	if (!is_open) {
		open_next(now);
		return false;
	}
	if (has_paused(now)) {
		open_window(now);
		return false;
	}
	if (!cost_of_window(now, &c))
		return false;
	take_least(&least, &c);
	is_open = false;
	from.ns = now;
	return n_windows >= STAY_WINDOWS && end_stay_windows(now);
}

bool judge_check(uint64_t now)
{
	enum phase p = load_rlx(&phase);

	if (p != TRIAL && p != STAY)
		return false;
	GUARD(&lock);
	if (phase == TRIAL)
		return now >= settled_ns && end_trial(now);
	return phase == STAY && end_stay(now);
}

void judge_after_fork(void)
{
	lock_inherit(&lock);
	past_after_fork();
	phase = KERNEL;
	is_settled = is_in_doubt = false;
	n_failed = n_vain = 0;
	forget_checks();
	busy_ns = 0;
	rest_ns = REST_NS;
	stay_ns = STAY_UNSURE_NS;
}
