/* SPDX-License-Identifier: MIT */
/*
 * tcp/state.h - the states of a connection, and the one function that changes them
 *
 * state.def lists the states and what may follow each of them.
 */
#pragma once

#include <stdbool.h>

struct tcp_conn;

enum tcp_state {
#define S(name, next) TCP_##name,
#include "tcp/state.def"
#undef S
	TCP_STATES
};

const char *tcp_state_name(enum tcp_state st);
bool tcp_state_may_follow(enum tcp_state from, enum tcp_state to);

/* Changes the state, and with it what depends on it: timers, queues, the flow table. */
void tcp_set_state(struct tcp_conn *c, enum tcp_state to);

/* Asserts everything that must hold between two calls of the engine. */
void conn_check(const struct tcp_conn *c);
