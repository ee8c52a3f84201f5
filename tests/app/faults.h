/* SPDX-License-Identifier: MIT */
/*
 * tests/app/faults.h - what the scenarios of faults*.c may use
 *
 * A scenario is two functions over one fresh TCP connection: near() runs in the
 * process that is looked at, far() in another, forked before any socket was made.
 * They meet through the connection (x->s), a control channel (tell(), hear()) and
 * a page that both see.  What is wrong ends the process with a sentence: die().
 */
#ifndef TESTS_FAULTS_H
#define TESTS_FAULTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "faults_stream.h"
#include "loopback.h"
#include "osf/stats.h"

/* The longest from a peer's death until the survivor notices, on a busy machine.  With 80 runs
 * side by side on two cores the median is 22 ms and the maximum 748 ms, as long as for the
 * kernel's connections. */
#define DEATH_MS 3000
/* The same, for any other event that another process has to bring about. */
#define ANSWER_MS 30000
#define WARM_TURNS 40

/* Seen by near end, far end and watcher; one writer a field. */
struct page {
	_Atomic uint64_t far_sent;  /* bytes that send() has taken */
	_Atomic uint64_t near_sent; /* likewise */
	_Atomic uint64_t done_ns;   /* when the watcher has killed or stopped */
	_Atomic int armed;          /* the near end is about to block */
	_Atomic int finish;         /* the stream may end */
	_Atomic int cpu_percent; /* of the near end while the far one stood */
	_Atomic int is_awake;    /* the near end never came to rest */
};

struct ctx {
	const struct scenario *sc;
	bool is_client; /* the near end connects */
	bool is_far;
	uint64_t seed;
	int fd;
	int ctl;           /* to the other end */
	uint16_t port;     /* of this end */
	uint16_t far_port; /* of the other end */
	pid_t near_pid, far_pid, watcher;
	struct page *page;
	struct stream s;
	const char *hostile; /* the program hostile.c */
};

enum {
	FAR_PLAIN = 1,  /* the far end runs without the library */
	FAR_NONE = 2,   /* there is none: the scenario makes its own */
	LAZY_TOO = 4,   /* also with the usual wait before the upgrade */
	FROM_START = 8, /* the test sets a limit before the program starts */
	NEEDS_OSF = 16, /* says nothing on the kernel */
	CLIENT_ONLY = 32,
	SERVER_ONLY = 64,
	FAR_APART = 128, /* far() makes its connections itself */
};

struct scenario {
	const char *name;
	void (*near)(struct ctx *x);
	void (*far)(struct ctx *x);
	void (*before)(struct ctx *x); /* near, just before connect or accept */
	void (*first)(struct ctx *x);  /* both ends, before the first socket */
	void (*watch)(struct ctx *x);  /* a third process */
	unsigned flags;
	long arg;
};

/* SCENARIO(name, .near = f, .far = far_echo, ...) */
#define SCENARIO(id, ...)                                                      \
	static const struct scenario scenario_##id = { #id, __VA_ARGS__ };     \
	static const struct scenario *const listed_##id                        \
	    __attribute__((used, section("scenarios"))) = &scenario_##id

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);
#define need(ok, ...)                                                          \
	do {                                                                   \
		if (!(ok))                                                     \
			die(__VA_ARGS__);                                      \
	} while (0)
/* What the alarm says when the scenario does not end. */
extern const char *stage;
extern char stage_more[200];

void tell(struct ctx *x, uint64_t word);
uint64_t hear(struct ctx *x);
uint64_t ms_now(void);
uint64_t ns_now(void);

/* Sockets on 127.0.0.1. */
int listen_local(uint16_t *port);
int connect_local(uint16_t port);

/* Traffic whose every byte is checked. */
void turns(struct ctx *x, int n);         /* of 16 bytes each way */
void bulk(struct ctx *x, uint64_t bytes); /* each way */
void far_echo(struct ctx *x);             /* as many bytes back, until EOF */

/* What the statistics say; nothing is checked when there are none. */
bool has_stats(void);
void stats_show(void); /* to other users */
bool stats_of(pid_t pid, struct osf_stats_header *h);
bool stats_sock(pid_t pid, uint16_t port, uint16_t peer_port,
		struct osf_stats_sock *st);
const char *reason_name(unsigned reason);
void need_upgraded(struct ctx *x);
/* The descriptor of the near end's connection, and its ports and stream. */
void connection_is(struct ctx *x, int fd, uint32_t id);
#define BIT(reason) (UINT64_C(1) << OSF_REASON_##reason)
/* The near end's connection is the kernel's, for one of these reasons. */
void need_kernel(struct ctx *x, uint64_t reasons);
void need_reason(pid_t pid, uint16_t port, uint16_t peer_port,
		 uint64_t reasons);

/* Processes. */
char proc_state(pid_t pid, uint64_t *cpu_ticks);
bool wait_asleep(pid_t pid, int timeout_ms);
void wait_word(_Atomic int *word, int timeout_ms, const char *what);
void end_child(pid_t pid, bool must_be_ok);

#endif
