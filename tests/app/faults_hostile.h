/* SPDX-License-Identifier: MIT */
/* tests/app/faults_hostile.h - for scenarios with the program hostile.c */
#ifndef TESTS_FAULTS_HOSTILE_H
#define TESTS_FAULTS_HOSTILE_H

#include "faults.h"

/* The hostile program; *@ctl: to it.  @other: a port, or 0. */
pid_t spawn_hostile(struct ctx *x, const char *manner, int *ctl,
		    uint16_t other);

struct call_time {
	const char *call;
	uint64_t us, cpu_us;
	long sleeps; /* so often the thread gave its core away */
};

extern struct call_time longest; /* of all calls, by time of the core */
struct call_time call_begins(const char *call);
void call_ends(struct call_time *t);

/* The call's result, if it takes no longer than a call may. */
#define TIMED(name, call)                                                      \
	({                                                                     \
		struct call_time t_ = call_begins(name);                       \
		__auto_type r_ = (call);                                       \
		call_ends(&t_);                                                \
		r_;                                                            \
	})

/* The connection with it, made as the role says. */
void connect_with_hostile(struct ctx *x);
/* Until it is upgraded; sends some bytes. */
void until_upgraded(struct ctx *x);

/* Serves @n connections until all have ended. */
void serve(struct stream *s, unsigned n);
void watch_fd(int ep, int fd, uint32_t events, uint32_t data);

/* Descriptors and mappings of this process, the library's included. */
struct holds {
	unsigned fds, maps;
};
struct holds count_holds(void);
/* An attack leaves nothing behind but what serves later connections. */
void need_nothing_left(const struct holds *before, uint64_t n_attacks);

#endif
