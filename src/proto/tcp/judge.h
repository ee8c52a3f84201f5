/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/judge.h - measures whether our own TCP pays for this program
 *
 *     young connections send -> judge_ask(): what a send costs over the kernel
 *     they move -> judge_check(): what it costs now -> they stay, or all go back
 *
 * A cost is CPU time of the process, and time, for each send() on a connection that a port
 * may take (sock/port_sends.h).  It includes everything that differs, also in calls other
 * than those on the connections, and calls need no clock for it.
 *
 *     kernel ---- a window ----> moving, trial ---- a window ----> moved
 *       ^                           | a send costs more               |
 *       +--- rest, twice as long ---+------ now and then, to compare -+
 *
 * A program that waits for one answer at a time has to gain time.  A program that serves
 * many clients at once has to gain CPU and must not lose time, or to do clearly more; it has
 * its first trial after half a second of sending, because a trial costs it some 25 ms.  Its
 * peers should move as well, or little is gained: so its trials begin at times that are the
 * same on all hosts whose clocks agree.  If the costs change
 * meanwhile for another reason, the judge may be wrong.  So it compares again, each time
 * after twice as long; soon if the gain was small.
 *
 * If a program that waits for one answer at a time fails, the kernel is measured once more a
 * little later.  If it does not cost what it did before the trial, there is another trial.
 *
 * After a failed trial all connections rest with the kernel.  If the trial before failed,
 * too, a connection that asks during this rest whether it may move stays with the kernel
 * for good, so that calls on it cost nothing any more.  The next trial has the connections
 * that ask after the rest.
 *
 * Connections that a rule gives to tcp move without the judge.
 *
 * Owner: any thread; it has a lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum judgement {
	JUDGE_WAIT,
	JUDGE_REST, /* not for long: nothing need be left on the device; said once */
	JUDGE_SOON, /* in 64 to 189 ms: what takes time may be made ready; said once */
	JUDGE_MOVE,
};

/* May a connection move now? */
enum judgement judge_ask(void);
/* Have two or more trials in a row failed, and is the rest after the last one not over?
 * Then a connection that asks now stays with the kernel for good. */
bool judge_has_settled(void);
/* No connection may move for some seconds. */
bool judge_is_resting(void);
/* The connection has moved. */
void judge_moved(void);
/* The driver of the connections asks in each turn: must all that have moved go back? */
bool judge_check(uint64_t now_ns);
/* The child of a fork has no connection that has moved, and may do other work.  So the
 * judge begins as in a new program. */
void judge_after_fork(void);
