/* SPDX-License-Identifier: MIT */
/*
 * group/ref.h - sending by reference; see group/ref.c
 */
#pragma once

#include "group/gsock.h"
#include "group/txop.h"

#define REF_MIN 4096u /* bytes; fewer are copied */

/* How many of @len bytes at @data to copy before the first whole page; all of
 * them if too few whole pages follow. */
size_t ref_lead(const uint8_t *data, size_t len);
/* From @done on, a page's start: bytes sent, 0: send a copy, or -ECONNRESET. */
ssize_t gsock_put_ref(struct gsock *s, const struct txop *op, size_t done);
uint32_t refs_sent(const struct gsock *s);
int refs_look(struct gsock *s);           /* 0, -ECONNRESET */
bool refs_are_out(const struct gsock *s); /* as of the last look */
bool ref_is_done(const struct gsock *s, uint32_t n_sent);
bool refs_delay_end(struct gsock *s);
/* Is that all that its end waits for? */
bool refs_are_waited_for(const struct gsock *s);
void refs_end(struct gsock *s); /* the memory is the application's again */
void refs_free(struct gsock *s);
