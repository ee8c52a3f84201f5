/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/judge.h - whether our own TCP pays for this program: measured
 *
 *     young connections send -> judge_may_move(): what a send costs over the kernel
 *     they move -> judge_check(): what it costs now -> they stay, or all go back
 *
 * A cost is CPU time of the process, and time, for each send() on a connection that a port
 * may take (sock/port_sends.h).  It counts all that differs, also what calls do besides the
 * connections, and needs no clock in them.
 *
 *     kernel ---- a window ----> moving, trial ---- a window ----> moved
 *       ^                           | a send costs more               |
 *       +--- rest, twice as long ---+------ now and then, to compare -+
 *
 * Who waits for one answer at a time has to gain time.  Who serves many at once has to gain
 * CPU, and may not lose time, and has its first trial after half a second of sending: a trial
 * costs it some 25 ms.  What has changed meanwhile for another reason may mislead it,
 * so it asks again, and each time later; soon where it has gained little.
 *
 * After a failed trial all connections rest with the kernel.  If the trial before failed, too,
 * a connection that asks whether it may move during this rest is told to stay with the kernel
 * for good, so that calls on it cost nothing any more.  The next trial has the connections that
 * ask after the rest.
 *
 * Connections that a rule gives to tcp move without it.
 *
 * Owner: any thread; it has a lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A connection could move now. */
bool judge_may_move(void);
/* Two trials or more in a row have failed, and the rest after the last one is not over: who
 * asks now stays with the kernel for good. */
bool judge_has_settled(void);
/* No connection may move for some seconds. */
bool judge_is_resting(void);
/* The connection has moved. */
void judge_moved(void);
/* The driver of the connections asks in each turn: must all that have moved go back? */
bool judge_check(uint64_t now_ns);
/* The child of a fork has no connection that has moved, and its work may be another: it
 * begins as a new program does. */
void judge_after_fork(void);
