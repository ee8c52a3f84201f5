/* SPDX-License-Identifier: MIT */
/*
 * tests/app/soak.h - what the modes of the soak test share (see soak.c)
 *
 *     soak.c        modes, processes, sockets, what a process holds
 *     soak_kills.c  peers that are killed
 *     soak_conns.c  many connections, one after another and all at once
 *     soak_share.c  processes that use one connection together
 *     soak_mix.c    the processes of the mix, its totals and its watchdog
 *     soak_end.c    one end of a stream of the mix, and what happens to it
 *
 * Streams are patterns (pattern.h) of the seed, the connection's number and the
 * direction, so an end can be gone on with from its offsets alone.
 */
#ifndef TESTS_SOAK_H
#define TESTS_SOAK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pattern.h"

/* Without progress.  A sanitizer makes each fork and exec many times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HANG_S 90
#else
#define HANG_S 20
#endif

struct rng {
	uint64_t s;
};

static inline uint64_t rng_next(struct rng *r)
{
	r->s += 0x9e3779b97f4a7c15ull;
	return pattern_mix(pattern_mix(r->s));
}

static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
	return rng_next(r) % n;
}

static inline bool rng_one_in(struct rng *r, unsigned n)
{
	return rng_next(r) % n == 0;
}

/* 1 to @max, small and large alike. */
static inline size_t rng_size(struct rng *r, size_t max)
{
	size_t top = (size_t)2 << rng_below(r, 17);

	return 1 + rng_below(r, top < max ? top : max);
}

/* soak.c */
extern uint64_t seed;
extern const char *mode; /* for reports */
/* Where processes fail together, one of them says why: what the others meet follows from
 * that. */
enum { FAILED_NOT, FAILED_TELLING, FAILED };
extern _Atomic int *failed; /* or NULL */

/* Before more than die() is printed.  Ends this process, unless it is the first to fail. */
void die_first(void);

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);
uint64_t now_us(void);
void sleep_us(uint64_t us);

int listener_open(uint32_t addr, uint16_t *port); /* addr: host order */
int connect_to(uint32_t addr, uint16_t port);
uint16_t local_port(int fd);
void send_all(int fd, const void *p, size_t n);
/* Return: false at the end of the stream, before the first byte. */
bool recv_all(int fd, void *p, size_t n);
unsigned nofile_raise(void); /* Return: descriptors that may be open */

/* This program again: soak @seed part... */
pid_t part_start(char *const words[], bool is_bare);
void part_exec(char *const words[], bool is_bare);
char *text(uint64_t n); /* of a ring of texts, for words */
/* Dies unless it ends with 0 in that time. */
void part_wait(pid_t pid, const char *what, unsigned seconds);

/* What this process holds. */
struct holdings {
	unsigned n_fds, n_memfds, n_maps, n_shared_maps;
	unsigned n_bells;   /* timerfds, which n_fds leaves out */
	unsigned n_names;   /* abstract unix names of osf's */
	uint64_t rss;       /* bytes */
	uint64_t anonymous; /* of rss */
};
void holdings_take(struct holdings *h);
/* Entries of /dev/shm with "osf" in them, but not osf.XXXXXX: those are folders of
 * the command, and other people's commands run here too. */
unsigned shm_files(void);

/* Modes: the exit status.  Parts are what part_start() runs. */
int kills_run(unsigned n);
int kills_part(int argc, char **argv);
int conns_run(unsigned n);
int conns_part(int argc, char **argv);
int many_run(unsigned n);
int many_part(int argc, char **argv);
int share_run(unsigned seconds);
int mix_run(unsigned seconds, char *const words[]);
int mix_part(int argc, char **argv);

#endif
