/* SPDX-License-Identifier: MIT */
/*
 * group/set.h - the epoll set, the hot places and the lists that a socket is in
 *
 * Each turn polls the hot sockets for received bytes, so nobody has to notify
 * us of those.  There are HOT_MAX places; an idle socket yields its place to
 * one with a notification.
 */
#pragma once

#include "group/gsock.h"

/* In an entry of the epoll set: it is an upgrade's, not the connection's. */
#define SET_UPGRADE (UINT64_C(1) << 63)
/* It is no socket's: what sleeping calls wait for as well (base/idle.h). */
#define SET_IDLE UINT64_MAX

int set_add(struct gsock *s);    /* 0 or -errno */
void set_watch(struct gsock *s); /* what tells of the next step of an upgrade */
void set_drop(struct gsock *s);
void set_idle(struct group *g); /* the set waits for base/idle.h's descriptor */

void hot_add(struct group *g, struct gsock *s);
void hot_drop(struct gsock *s);
/* It gets notified of what comes; what is there already is seen to in the next turn. */
void hot_arm(struct gsock *s);

void deadline_set(struct gsock *s); /* of connecting, if it has one */
void deadline_clear(struct gsock *s);

void gsock_unlist(struct gsock *s); /* from all of that, and from its group */
