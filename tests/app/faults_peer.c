/* SPDX-License-Identifier: MIT */
/*
 * tests/app/faults_peer.c - the peer dies, is stopped, belongs to another user, or runs
 * without the library; and processes that the near end has forked
 *
 *     near end: blocked in some call          far end: streams, or does nothing
 *            watcher: waits until the near end sleeps; kills, or stops and goes on
 *
 * Called by faults.c.  A survivor gets every byte that the dead peer's send() had
 * taken, then the end, within DEATH_MS; one that waits for a stopped peer sleeps.
 */
#include "faults.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STREAM_BYTES (3u << 20) /* before anything goes wrong */
#define STOP_MS 1000            /* of which the CPU time is taken */
#define CPU_PERCENT 20

/* The call that the near end waits in. */
enum how { IN_CALL, IN_POLL, IN_SELECT, IN_EPOLL, IN_EPOLL_ET };

static void wait_ready(struct ctx *x, enum how how, bool write)
{
	static int ep = -1;
	struct epoll_event ev = { .events = write ? EPOLLOUT : EPOLLIN };
	struct pollfd p = { .fd = x->fd, .events = write ? POLLOUT : POLLIN };
	fd_set set;

	switch (how) {
	case IN_POLL:
		need(poll(&p, 1, -1) == 1, "poll: %m");
		return;
	case IN_SELECT:
		FD_ZERO(&set);
		FD_SET(x->fd, &set);
		need(select(x->fd + 1, write ? NULL : &set, write ? &set : NULL,
			    NULL, NULL) == 1,
		     "select: %m");
		return;
	case IN_EPOLL:
	case IN_EPOLL_ET:
		if (ep < 0) {
			ep = epoll_create1(EPOLL_CLOEXEC);
			ev.events |= how == IN_EPOLL_ET ? EPOLLET : 0;
			need(!epoll_ctl(ep, EPOLL_CTL_ADD, x->fd, &ev),
			     "epoll_ctl: %m");
		}
		need(epoll_wait(ep, &ev, 1, -1) == 1, "epoll_wait: %m");
		return;
	case IN_CALL:
		return;
	}
}

static ssize_t recv_how(struct ctx *x, enum how how)
{
	for (;;) {
		if (how != IN_EPOLL_ET)
			wait_ready(x, how, false);
		ssize_t r = stream_recv_some(&x->s, STREAM_PART,
					     how == IN_CALL ? 0 : MSG_DONTWAIT);
		if (r >= 0 || errno != EAGAIN || how == IN_CALL)
			return r;
		if (how == IN_EPOLL_ET)
			wait_ready(x, how, false);
	}
}

static ssize_t send_how(struct ctx *x, enum how how)
{
	for (;;) {
		ssize_t r = stream_send_some(&x->s, STREAM_PART,
					     how == IN_CALL ? 0 : MSG_DONTWAIT);
		if (r >= 0 || errno != EAGAIN || how == IN_CALL)
			return r;
		wait_ready(x, how, true);
	}
}

/* --- far ends --- */

static void far_turns(struct ctx *x)
{
	for (int i = 0; i < WARM_TURNS; i++)
		need(stream_recv(&x->s, 16) && stream_send(&x->s, 16),
		     "turn: %m");
}

static void far_send_until(struct ctx *x, uint64_t bytes)
{
	while (x->s.out < bytes && !x->page->finish) {
		size_t n = 1 + (size_t)(x->s.out * 7919 % 40000);

		if (n > bytes - x->s.out)
			n = (size_t)(bytes - x->s.out);
		need(stream_send_some(&x->s, n, 0) > 0, "stream: send: %m");
		x->page->far_sent = x->s.out;
	}
}

/* Endless, until it is killed, or told to finish. */
static void far_stream(struct ctx *x)
{
	far_turns(x);
	far_send_until(x, UINT64_MAX);
	need(!shutdown(x->fd, SHUT_WR), "shutdown: %m");
	need(stream_recv_some(&x->s, 1, 0) == 0, "no end of the near stream");
}

static void far_some_then_nothing(struct ctx *x)
{
	far_turns(x);
	far_send_until(x, STREAM_BYTES);
	pause();
}

static void far_deaf(struct ctx *x)
{
	far_turns(x);
	x->page->far_sent = x->s.out;
	pause();
}

static void far_sink(struct ctx *x)
{
	ssize_t r;

	far_turns(x);
	do {
		r = stream_recv_some(&x->s, STREAM_PART, 0);
		need(r >= 0, "sink at byte %llu: %m",
		     (unsigned long long)x->s.in);
	} while (r);
	tell(x, x->s.in);
}

/* --- killed --- */

static void kill_far(struct ctx *x)
{
	x->page->done_ns = ns_now();
	need(!kill(x->far_pid, SIGKILL), "kill: %m");
}

static void watch_and_kill(struct ctx *x)
{
	wait_word(&x->page->armed, ANSWER_MS, "the near end to block");
	need(wait_asleep(x->near_pid, ANSWER_MS),
	     "the near end does not sleep");
	kill_far(x);
}

static void need_in_time(struct ctx *x, const char *what)
{
	uint64_t ms = (ns_now() - x->page->done_ns) / 1000000;

	need(x->page->done_ns, "%s before the peer was killed", what);
	need(ms <= DEATH_MS, "%s %llu ms after the peer's death", what,
	     (unsigned long long)ms);
}

/* The end, and that it stays one. */
static void need_dead(struct ctx *x, ssize_t r, int err)
{
	need(r == 0 || err == ECONNRESET, "recv after the peer's death: %s",
	     strerror(err));
	need_in_time(x, "the end was seen");
	need(x->s.in >= x->page->far_sent,
	     "%llu bytes came of %llu that the peer had sent",
	     (unsigned long long)x->s.in,
	     (unsigned long long)x->page->far_sent);
	stage = "recv() again after the end";
	r = stream_recv_some(&x->s, 100, 0);
	need(r <= 0, "%zd bytes after the end", r);
	stage = "send() to the dead";
	for (uint64_t end = ms_now() + DEATH_MS;;) {
		if (stream_send_some(&x->s, 1000, 0) < 0)
			break;
		need(ms_now() < end, "send() to the dead goes on and on");
	}
	need(errno == EPIPE || errno == ECONNRESET, "send to the dead: %m");
}

static void killed_in_stream(struct ctx *x)
{
	enum how how = (enum how)x->sc->arg;
	bool lives = true;
	ssize_t r;

	turns(x, WARM_TURNS);
	need_upgraded(x);
	stage = "reading until the peer is dead";
	while ((r = recv_how(x, how)) > 0) {
		if (lives && x->s.in > STREAM_BYTES) {
			kill_far(x);
			lives = false;
		}
	}
	need_dead(x, r, errno);
}

static void far_stream_for_killing(struct ctx *x)
{
	far_turns(x);
	far_send_until(x, UINT64_MAX);
}

static void killed_while_asleep(struct ctx *x)
{
	turns(x, WARM_TURNS);
	need_upgraded(x);
	/* Exactly so many come, then the near end blocks. */
	ssize_t r;
	stage = "reading all that comes";
	while (x->s.in < STREAM_BYTES)
		need(recv_how(x, (enum how)x->sc->arg) > 0, "stream: %m");
	x->page->armed = 1;
	stage = "blocked until the peer is dead";
	r = recv_how(x, (enum how)x->sc->arg);
	need_dead(x, r, errno);
	end_child(x->watcher, true);
}

/* On a full ring; what was taken of the rest does not matter any more. */
static void killed_while_full(struct ctx *x)
{
	turns(x, WARM_TURNS);
	need_upgraded(x);
	x->page->armed = 1;
	stage = "sending until the peer is dead";
	while (send_how(x, (enum how)x->sc->arg) > 0)
		;
	need(errno == EPIPE || errno == ECONNRESET, "send: %m");
	need_in_time(x, "the error came");
	end_child(x->watcher, true);
}

static void watch_far_and_kill(struct ctx *x)
{
	wait_word(&x->page->armed, ANSWER_MS, "the near end to wait");
	need(wait_asleep(x->far_pid, ANSWER_MS), "the far end does not sleep");
	kill_far(x);
}

/* A whole ring of bytes is there when their sender dies. */
static void killed_with_full_ring(struct ctx *x)
{
	ssize_t r;

	turns(x, WARM_TURNS);
	need_upgraded(x);
	x->page->armed = 1;
	stage = "waiting for the end of the watcher";
	end_child(x->watcher, true);
	stage = "reading what the dead peer has sent";
	while ((r = recv_how(x, (enum how)x->sc->arg)) > 0)
		;
	need_dead(x, r, errno);
}

#define KILLED(how, arg_)                                                      \
	SCENARIO(killed_with_full_ring_##how, .near = killed_with_full_ring,   \
		 .far = far_stream_for_killing, .watch = watch_far_and_kill,   \
		 .arg = arg_);                                                 \
	SCENARIO(killed_in_stream_##how, .near = killed_in_stream,             \
		 .far = far_stream_for_killing, .arg = arg_);                  \
	SCENARIO(killed_asleep_in_##how, .near = killed_while_asleep,          \
		 .far = far_some_then_nothing, .watch = watch_and_kill,        \
		 .arg = arg_);                                                 \
	SCENARIO(killed_full_in_##how, .near = killed_while_full,              \
		 .far = far_deaf, .watch = watch_and_kill, .arg = arg_)

KILLED(call, IN_CALL);
KILLED(poll, IN_POLL);
KILLED(select, IN_SELECT);
KILLED(epoll, IN_EPOLL);
KILLED(epoll_et, IN_EPOLL_ET);

/* --- stopped --- */

static uint64_t moved(const struct ctx *x)
{
	return x->page->far_sent + x->page->near_sent;
}

static void wait_moved(struct ctx *x, uint64_t bytes)
{
	uint64_t end = ms_now() + ANSWER_MS;

	while (moved(x) < bytes) {
		need(ms_now() < end, "the stream stands at byte %llu",
		     (unsigned long long)moved(x));
		usleep(200);
	}
}

static void watch_and_stop(struct ctx *x)
{
	uint64_t before, after;

	wait_word(&x->page->armed, ANSWER_MS, "the stream");
	wait_moved(x, STREAM_BYTES);
	need(!kill(x->far_pid, SIGSTOP), "SIGSTOP: %m");
	bool rests = wait_asleep(x->near_pid, 500);
	need(proc_state(x->far_pid, NULL) == 'T', "the peer did not stop");
	proc_state(x->near_pid, &before);
	uint64_t start = ms_now();
	usleep(STOP_MS * 1000); /* what is measured: a second of standing */
	proc_state(x->near_pid, &after);
	uint64_t ms = ms_now() - start;
	x->page->cpu_percent = (int)((after - before) * 100000 /
				     (uint64_t)sysconf(_SC_CLK_TCK) / ms);
	x->page->is_awake = !rests && proc_state(x->near_pid, NULL) != 'S';
	uint64_t at = moved(x);
	need(!kill(x->far_pid, SIGCONT), "SIGCONT: %m");
	wait_moved(x, at + STREAM_BYTES);
	x->page->finish = 1;
}

static void need_rested(struct ctx *x)
{
	stage = "the watcher ends";
	end_child(x->watcher, true);
	need(x->page->cpu_percent < CPU_PERCENT,
	     "used %d%% of a CPU while the peer stood", x->page->cpu_percent);
	need(!x->page->is_awake, "never slept while the peer stood");
}

static void stopped_reader(struct ctx *x)
{
	ssize_t r;

	turns(x, WARM_TURNS);
	need_upgraded(x);
	x->page->armed = 1;
	stage = "reading while the peer stands";
	while ((r = recv_how(x, (enum how)x->sc->arg)) > 0)
		;
	need(!r, "recv at byte %llu: %m", (unsigned long long)x->s.in);
	need(x->s.in == x->page->far_sent, "%llu bytes came of %llu",
	     (unsigned long long)x->s.in,
	     (unsigned long long)x->page->far_sent);
	need_upgraded(x);
	need_rested(x);
}

static void stopped_writer(struct ctx *x)
{
	turns(x, WARM_TURNS);
	need_upgraded(x);
	x->page->armed = 1;
	stage = "writing while the peer stands";
	while (!x->page->finish) {
		need(send_how(x, (enum how)x->sc->arg) > 0, "send: %m");
		x->page->near_sent = x->s.out;
	}
	need_upgraded(x);
	need(!shutdown(x->fd, SHUT_WR), "shutdown: %m");
	uint64_t got = hear(x);
	need(got == x->s.out, "%llu bytes arrived of %llu",
	     (unsigned long long)got, (unsigned long long)x->s.out);
	need_rested(x);
}

#define STOPPED(how, arg_)                                                     \
	SCENARIO(stopped_reader_in_##how, .near = stopped_reader,              \
		 .far = far_stream, .watch = watch_and_stop, .arg = arg_);     \
	SCENARIO(stopped_writer_in_##how, .near = stopped_writer,              \
		 .far = far_sink, .watch = watch_and_stop, .arg = arg_)

STOPPED(call, IN_CALL);
STOPPED(poll, IN_POLL);
STOPPED(epoll, IN_EPOLL);
STOPPED(epoll_et, IN_EPOLL_ET);

/* --- without the library, or another user's --- */

static void alone_under_osf(struct ctx *x)
{
	turns(x, WARM_TURNS);
	bulk(x, 1 << 20);
	turns(x, WARM_TURNS);
	need_kernel(x, BIT(YOUNG) |
			   (x->is_client ? BIT(NO_PEER) : BIT(NO_PROPOSAL)));
}

SCENARIO(peer_without_osf, .near = alone_under_osf, .far = far_echo,
	 .flags = FAR_PLAIN | LAZY_TOO);

#define UID_NEAR 65534
#define UID_FAR 65533

static void become(uid_t uid)
{
	stats_show();
	need(!setuid(uid), "setuid(%d): %m", (int)uid);
}

static void need_root(struct ctx *x)
{
	if (!geteuid())
		return;
	if (!x->is_far)
		fprintf(stderr, "skip: needs root\n");
	_exit(77);
}

static void two_users(struct ctx *x)
{
	need_root(x);
	become(x->is_far ? UID_FAR : UID_NEAR);
}

static void two_users_that_allow(struct ctx *x)
{
	need_root(x);
	setenv("OSF_ALLOW_UIDS", x->is_far ? "1,65534" : "65533,2", 1);
	become(x->is_far ? UID_FAR : UID_NEAR);
}

static void two_users_one_allows(struct ctx *x)
{
	need_root(x);
	if (!x->is_far)
		setenv("OSF_ALLOW_UIDS", "65533", 1);
	become(x->is_far ? UID_FAR : UID_NEAR);
}

static void root_and_a_user(struct ctx *x)
{
	need_root(x);
	if (x->is_far)
		become(UID_FAR);
}

static void other_user(struct ctx *x)
{
	turns(x, WARM_TURNS);
	bulk(x, 1 << 20);
	need_kernel(x, BIT(OTHER_UID) | (x->is_client ? BIT(YOUNG) : 0));
	/* Who finds the offer knows why it was not taken. */
	if (x->is_client)
		need_reason(x->far_pid, x->far_port, x->port, BIT(OTHER_UID));
}

static void other_user_one_allows(struct ctx *x)
{
	turns(x, WARM_TURNS);
	bulk(x, 1 << 20);
	need_kernel(x, BIT(OTHER_UID) | BIT(YOUNG) | BIT(PEER_KERNEL));
}

static void upgraded_all_the_same(struct ctx *x)
{
	turns(x, WARM_TURNS);
	need_upgraded(x);
	bulk(x, 1 << 20);
	need_upgraded(x);
}

SCENARIO(two_users, .near = other_user, .far = far_echo, .first = two_users);
SCENARIO(two_users_one_allows, .near = other_user_one_allows, .far = far_echo,
	 .first = two_users_one_allows);
SCENARIO(two_users_that_allow, .near = upgraded_all_the_same, .far = far_echo,
	 .first = two_users_that_allow);
SCENARIO(root_and_a_user, .near = other_user, .far = far_echo,
	 .first = root_and_a_user);
SCENARIO(no_fault, .near = upgraded_all_the_same, .far = far_echo,
	 .flags = LAZY_TOO);

/* --- children of the near end --- */

static pid_t child_that_waits(struct ctx *x, bool execs)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(0);
	if (execs)
		execlp("sleep", "sleep", "30", NULL);
	for (;;)
		pause();
}

static void wait_for_exec(pid_t pid)
{
	uint64_t end = ms_now() + ANSWER_MS;
	char path[64], text[32] = "";

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	while (strncmp(text, "sleep", 5)) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		need(fd >= 0 && ms_now() < end, "no child that sleeps: '%s'",
		     text);
		if (read(fd, text, sizeof(text) - 1) < 0)
			text[0] = '\0';
		close(fd);
		usleep(500);
	}
}

/* A process looks now and then, not at each turn, whether it is alone again. */
#define IN_TIME_S 20

static void need_upgraded_in_time(struct ctx *x)
{
	struct osf_stats_sock st = { 0 };
	time_t end = time(NULL) + IN_TIME_S;

	while (time(NULL) < end) {
		turns(x, 10);
		if (!has_stats() ||
		    (stats_sock(x->near_pid, x->port, x->far_port, &st) &&
		     st.reason == OSF_REASON_UPGRADED))
			break;
	}
	need_upgraded(x);
}

static void child_execs(struct ctx *x)
{
	pid_t pid = child_that_waits(x, true);

	wait_for_exec(pid);
	need_upgraded_in_time(x);
	bulk(x, 1 << 20);
	end_child(pid, false);
}

static void child_is_killed(struct ctx *x)
{
	pid_t pid = child_that_waits(x, false);

	turns(x, 20);
	bulk(x, 1 << 18);
	end_child(pid, false);
	need_upgraded_in_time(x);
	bulk(x, 1 << 20);
}

static void upgraded_then(struct ctx *x, bool execs)
{
	turns(x, WARM_TURNS);
	need_upgraded(x);
	pid_t pid = child_that_waits(x, execs);
	if (execs)
		wait_for_exec(pid);
	turns(x, WARM_TURNS);
	bulk(x, 1 << 20);
	end_child(pid, false);
	turns(x, WARM_TURNS);
	bulk(x, 1 << 20);
	need_upgraded(x);
}

static void upgraded_then_exec(struct ctx *x) { upgraded_then(x, true); }
static void upgraded_then_kill(struct ctx *x) { upgraded_then(x, false); }

SCENARIO(child_execs, .near = child_execs, .far = far_echo, .flags = LAZY_TOO);
SCENARIO(child_is_killed, .near = child_is_killed, .far = far_echo,
	 .flags = LAZY_TOO);
SCENARIO(child_execs_after_upgrade, .near = upgraded_then_exec,
	 .far = far_echo);
SCENARIO(child_is_killed_after_upgrade, .near = upgraded_then_kill,
	 .far = far_echo);
