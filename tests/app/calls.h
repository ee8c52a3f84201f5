/* SPDX-License-Identifier: MIT */
/*
 * tests/app/calls.h - what the scenarios of calls.c may use
 *
 * A scenario is a function over one fresh TCP connection: x->fd is its near
 * end, the far end obeys far_do().  It prints what every call answered with
 * RES() and out(), in words that do not depend on the machine: what it prints
 * on the kernel is what it must print under the library.
 *
 *     SCENARIO(recv_empty)
 *     {
 *             RES("recv", recv(x->fd, buf, n(10), MSG_DONTWAIT));
 *     }
 *
 * prints "recv_empty: recv=EAGAIN".  Every wait is bounded: the scenario's
 * process has an alarm.
 */
#ifndef TESTS_CALLS_H
#define TESTS_CALLS_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct ctx {
	int fd;                  /* near end */
	int far_ctl;             /* commands to the far end */
	bool is_client, is_same; /* near connects; one process has both ends */
	int family;              /* near end's */
	uint16_t near_port, far_port;
	uint64_t got, sent; /* stream offsets of the near end */
};

/* The argument, and what far_do() returns. */
enum far_op {
	FAR_LISTEN,     /* family -> port */
	FAR_ACCEPT,     /* - -> 0 */
	FAR_CONNECT,    /* port << 16 | family -> 0 */
	FAR_ECHO,       /* messages of 16 bytes -> 0 */
	FAR_SEND,       /* bytes -> bytes */
	FAR_SEND_LATER, /* the same, 60 ms after it answered */
	FAR_SEND_MORE,  /* the same with MSG_MORE; at most 16384 */
	FAR_SEND_MORE_LATER,
	FAR_NOW,        /* bytes at most, without waiting -> right bytes */
	FAR_TEXT,       /* lines "line N\n" -> bytes */
	FAR_RECV,       /* bytes at most, waits for all -> right bytes */
	FAR_RECV_LATER, /* the same 60 ms after it answered 0 */
	FAR_COUNT,      /* bytes at most -> bytes, whatever they are */
	FAR_DRAIN, /* bytes at least, until EOF or 300 ms of silence -> bytes */
	FAR_SHUT,  /* how -> 0 */
	FAR_SHUT_LATER,
	FAR_CLOSE, /* - -> 0 */
	FAR_CLOSE_LATER,
	FAR_RESET, /* - -> 0 */
	FAR_RESET_LATER,
	FAR_SEND_OOB, /* - -> 1 */
	FAR_SEND_OOB_LATER,
	FAR_INLINE, /* SO_OOBINLINE, which goes back to TCP -> 0 */
	FAR_PORT,   /* - -> far end's port */
	FAR_END,
};

#define LATER_MS 60

struct scenario {
	const char *name;
	void (*run)(struct ctx *x);
};

#define SCENARIO(name)                                                         \
	static void name(struct ctx *x);                                       \
	static const struct scenario scenario_##name                           \
	    __attribute__((used, section("scenarios"))) = { #name, name };     \
	static void name(struct ctx *x)

__attribute__((format(printf, 1, 2))) void out(const char *fmt, ...);
int out_to(int fd); /* out() writes there; -1 asks.  Return: where now */
void res(const char *what, long r); /* " what=r", or errno's name */
#define RES(what, call)                                                        \
	do {                                                                   \
		errno = 0;                                                     \
		res(what, (long)(call));                                       \
	} while (0)

long far_do(struct ctx *x, enum far_op op, long arg); /* -errno on failure */
void far_begin(struct ctx *x, enum far_op op, long arg);
long far_end(struct ctx *x);
void far_res(struct ctx *x, const char *what, enum far_op op, long arg);

void bits(const char *what, int revents);    /* poll's, by name */
void state(struct ctx *x, const char *what); /* all bits poll() gives now */
void settle(struct ctx *x, int events);      /* until all of them are there */
void got(struct ctx *x, const void *p, long len); /* right bytes? counts them */
void made(struct ctx *x, void *p, size_t len);    /* next bytes to send */
void others_sleep(void); /* until all other threads of this process do */
long long ms_now(void);
void took(long long since_ms, int expected_ms);
void on_signal(int sig, int flags);   /* counts into signals */
void signal_after(int ms, int flags); /* SIGALRM */
/* Every @ms, in case that the call that one has to end begins late. */
void signals_begin(int ms);
void signals_end(void);
/* The same around one call, which has to sleep when the signal comes.  interrupt_over() counts
 * into interrupted, once for a call. */
void interrupt_after(int ms, int flags);
void interrupt_over(void);
size_t n(size_t len);          /* @len, unknown to the compiler */
size_t fill_up(struct ctx *x); /* sends until EAGAIN; bytes */
/* The same with pieces of that size alone; until EAGAIN so many times in a row. */
size_t fill_with(struct ctx *x, size_t piece, int patience);
int file_of(struct ctx *x, size_t len); /* a file with the next bytes to send */
void set_nonblock(int fd);

extern _Atomic int signals;
extern int interrupted; /* calls: see interrupt_after() */
extern char buf[1 << 20];
#define BAD_POINTER ((void *)n(8))

#endif
