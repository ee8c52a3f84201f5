/* SPDX-License-Identifier: MIT */
/*
 * tests/abi/app.h - what the programs of each generation have in common
 *
 *     app_0.c, app_1.c, app_2.c -> lines "call: result" -> run.py
 *
 * Each program uses all that its generation has, and goes on without what the
 * library or the driver lacks.  app.c and this header use generation 0 alone.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "osf/verbs_api.h"

#define APP_MESSAGES 3
#define APP_BYTES 1000

struct app {
	struct osf_context *context;
	struct osf_pd *pd;
	struct osf_mr *mr;
	uint8_t memory[2 * APP_MESSAGES * APP_BYTES]; /* sent; received */
};

/* Two QPs, each the other's peer, that complete in one CQ. */
struct app_pair {
	struct osf_cq *cq;
	struct osf_qp *qp[2];
};

/* Prints the line, and ends the program. */
void app_fail(const char *what, int err);
void app_open(struct app *a);
void app_close(struct app *a);
/* Uses @cq, which app_unpair() destroys. */
struct app_pair app_pair(struct app *a, struct osf_cq *cq);
void app_unpair(struct app_pair *p);

/* Message @i, before it is sent, and where it arrives. */
struct osf_sge app_sent(struct app *a, int i);
void app_fill(struct app *a);
void app_post_recvs(struct app *a, struct app_pair *p);
void app_check(struct app *a); /* all messages have arrived */
/* Sends and receives by the calls of generation 0. */
void app_exchange(struct app *a);

/* What the later ones add; each does what the one before does. */
void app_gen0(struct app *a);
void app_gen1(struct app *a);
/* ENOSYS, EINVAL, or another number. */
const char *app_errno(int err);
