/* SPDX-License-Identifier: MIT */
/*
 * tests/vm/golden.h - situations of verbs, and words for what comes of them
 *
 * A line is "situation: outcome".  The words are the same on every device that does the same:
 * no number that a device chooses, no time.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>

extern const char *device_name; /* of the command line */
#define DEVICE device_name
#include "../verbs/ends.h"

/* For a completion that has to come. */
int credit_ms(void);

/* Begins a line, adds to it, ends it. */
void line(const char *format, ...) __attribute__((format(printf, 1, 2)));
void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
void end_line(void);

const char *state_name(int state);
const char *mask_name(int bit); /* NULL: no attribute has this bit */
const char *type_name(enum ibv_qp_type type);
const char *error_name(int error); /* "ok" for 0 */

/* A call's outcome: 0 or an error number, or an object or errno. */
void said(const char *situation, int error);
void made(const char *situation, const void *object);

/* The device's address of this host: that of IPv4, if there is one. */
extern int gid_index;

/* Everything that a queue pair of @type needs on its way to @to; the peer is @e itself. */
struct ibv_qp_attr right_attributes(struct end *e, enum ibv_qp_type type,
				    enum ibv_qp_state from,
				    enum ibv_qp_state to, int *mask);

/* A new queue pair for @e in that state. */
void renew(struct end *e, enum ibv_qp_type type, enum ibv_qp_state state);

enum ibv_qp_state state_of(struct end *e);

/* The completions of each end, which has to have @n or more; the states if one has failed. */
void outcome(const char *situation, struct end *a, int n_a, struct end *b,
	     int n_b);

/* From RESET to @last, connected to the queue pair with number @to. */
void go(struct end *e, uint32_t to, int access, enum ibv_qp_state last);
extern bool impatient; /* waits for acknowledgements for a moment only */

/* Both ends are ready to send, to each other; they wait long, and have no patience with a
 * peer that has posted no receive. */
void pair_up(struct end *a, struct end *b, enum ibv_qp_type type);
void meet(struct end *a, struct end *b, int access);

/* In @e's domain, to this host. */
struct ibv_ah *ah_of(struct end *e);

/* A request of @op with @length bytes of @e's memory at @to's. */
struct ibv_send_wr request(struct end *e, struct ibv_sge *sge,
			   enum ibv_wr_opcode op, uint32_t length,
			   const struct end *to);
int send_one(struct end *e, struct ibv_send_wr *wr);

void states_transitions(void);
void states_values(void);
void states_queries(void);
void states_posts(void);
void data_good(void);
void data_other_types(void);
void data_lengths(void);
void data_keys(void);
void data_one_sided(void);
void data_local(void);
void data_rnr(void);
void data_nobody(void);
void data_flush(void);
void data_unreliable(void);
void data_datagrams(void);
void data_srq(void);
void data_fence(void);
void data_windows(void);
void calls_busy(void);
void calls_create(void);
void calls_memory(void);
void calls_cq(void);
void calls_srq(void);
void calls_ah(void);
void calls_port(void);
void calls_posts(void);
void calls_events(void);
void calls_full(void);
