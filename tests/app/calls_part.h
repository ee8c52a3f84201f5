/* SPDX-License-Identifier: MIT */
/*
 * tests/app/calls_part.h - other processes, for scenarios (see calls.h)
 *
 *     play()         does what a script says, on x->fd and at the far end
 *     child_plays()  the same in a forked child, and waits for it
 *     part_words()   the command that executes this program again as a part: a
 *                    function PART(name), which is given the words behind its name
 *
 * A script is a row of steps, a letter and a number of bytes, such as "w60s100r40":
 *
 *     rN  receive N, all of them       sN  the far end sends N
 *     wN  send N                       lN  the same, 60 ms later
 *     e   expect the end               fN  the far end receives N
 *     c   close                        E   the far end expects the end
 *     tN  N turns of 16 bytes           pN  print N to standard output, the connection
 *         with the far end
 *
 * Both stream offsets are in x; who did not play a script itself follows with
 * played().  The part "talk" plays scripts on an inherited descriptor.
 */
#ifndef TESTS_CALLS_PART_H
#define TESTS_CALLS_PART_H

#include <unistd.h>

#include "calls.h"

#define CHILD_S 45 /* alarm of every child: less than a scenario may take */
#define PART_REPORT 190 /* where parts report: 1 may be the connection */

struct part {
	const char *name;
	int (*run)(int argc, char **argv); /* argv[0] is its name */
};

#define PART(name)                                                             \
	static int part_##name(int argc, char **argv);                         \
	static const struct part part_entry_##name                             \
	    __attribute__((used, section("parts"))) = { #name, part_##name };  \
	static int part_##name(int argc, char **argv)

int part_main(int argc, char **argv); /* behind --part */

void play(struct ctx *x, const char *script);
void played(struct ctx *x, const char *script);
pid_t child_starts(struct ctx *x, const char *script);
void child_plays(struct ctx *x, const char *script);
void child_begins(void); /* in a child: it shall not stay */
/* Waits, and prints how it ended; true: as it should. */
bool child_ended(pid_t pid, const char *what);

/* The words of a command: those that are fixed, and those that are made. */
#define ARGV(...) ((char **)(const char *const[]){ __VA_ARGS__, NULL })
struct words {
	char text[12][128];
	char *argv[13];
	int n;
};
__attribute__((format(printf, 2, 3))) void word(struct words *w,
						const char *fmt, ...);
/* calls --part @name */
void part_words(struct words *w, const char *name);
/* ... talk @fd @script */
void talk_words(struct words *w, const struct ctx *x, int fd,
		const char *script);
char **environment(bool is_bare); /* bare: without LD_PRELOAD */
const char *self_path(void);
const char *beside_self(const char *name);
void report_keep(void); /* makes PART_REPORT, which exec() leaves open */

/* Until the others are where they wait. */
static inline void wait_a_bit(void) { usleep(LATER_MS * 1000); }

void inherit(int fd); /* clears FD_CLOEXEC */
int listener_at(int *port, bool is_shared);
/* A connection from the far end in place of x->fd; its own end is left. */
int far_connects(struct ctx *x);
void turns(struct ctx *x, int count);
void pass_fd(int channel, int fd);
int passthrough_fd(int channel);

#endif
