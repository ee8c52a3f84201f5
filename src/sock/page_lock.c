/* SPDX-License-Identifier: MIT */
/* sock/page_lock.c - see sock/page_lock.h */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/rawcall.h"
#include "sock/page_lock.h"
#include "sock/shared.h"

#define SPINS 200
/* How often a thread that is not to sleep looks: another process may have the half for a
 * moment only. */
#define SPINS_VAIN 50
#define KERNELS 0x00200000l /* PF_KTHREAD, since Linux 2.6.27 */
#define FOREIGN 0x40000000u /* above all thread ids */

/* The owner of an honest lock may change while somebody finds out who the owner is.  If that
 * happens so often in a row, and no owner has our user, a hostile process writes the word. */
#define CHANGES_MAX 3
#define TAKEN_MAX 1000 /* times that it was free, and others were faster */

/* A program that looks at many sockets (poll) may find another process in each of their
 * locks.  After one wait in vain, this thread does not sleep for any other lock for OTHERS_NS,
 * and not for the same one for SAME_NS: a program that asks in a loop is to sleep most of the
 * time.  Meanwhile a lock of a process that has died is taken over at once, so the first time
 * that such a lock names another owner than before, the thread finds out if that one lives. */
#define OTHERS_NS PAGE_WAIT_NS
#define SAME_NS (PAGE_WAIT_NS / 25)
static __thread struct {
	const uint32_t *word;
	uint64_t at_ns; /* when that wait was over */
	uint32_t
	    living;    /* the owner that was found to live, or not to be ours */
	uint32_t dead; /* the owner that was found to be dead */
} vain;

static bool is_foreign; /* or an ancestor, since it has pages */

/* The kernel shows no parent from outside a PID namespace. */
void page_lock_child(void) { is_foreign |= rawcall(SYS_getppid) == 0; }

uint32_t page_self(void) { return lock_self() | (is_foreign ? FOREIGN : 0); }

/* The number behind @name in /proc's status; -1. */
static long number_of(const char *status, const char *name, int nth)
{
	const char *at = strstr(status, name);
	char *end;
	long n = -1;

	if (!at)
		return -1;
	at += strlen(name);
	for (int i = 0; i <= nth; i++, at = end)
		n = strtol(at, &end, 10);
	return n;
}

static int proc_open(uint32_t tid, const char *file)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%u/%s", tid, file);
	return (int)rawcall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

/* A line of maps: does shared memory without a file lie at @at? */
static bool line_has(const char *line, uintptr_t at)
{
	char *end;
	uintptr_t from = strtoul(line, &end, 16);
	uintptr_t to = *end == '-' ? strtoul(end + 1, &end, 16) : 0;

	return at >= from && at < to && strstr(end, "s ") &&
	       strstr(end, "/dev/zero");
}

/* Is it a thread of the kernel's own? Those have no memory either.  In
 * /proc/PID/stat the flags are the seventh number after the name. */
static COLD bool is_kernels(uint32_t tid)
{
	char text[512];
	int fd = proc_open(tid, "stat");
	long n = fd < 0 ? 0 : rawcall(SYS_read, fd, text, sizeof(text) - 1);

	if (fd >= 0)
		rawcall(SYS_close, fd);
	text[n > 0 ? n : 0] = '\0';
	char *at = strrchr(text, ')');
	if (!at || !at[1] || !at[2])
		return false;
	at += 3; /* behind the state */
	for (int i = 0; i < 5; i++)
		strtol(at, &at, 10);
	return strtol(at, NULL, 10) & KERNELS;
}

/* Could the owner be inside, that is, does it have the page mapped where all
 * holders have it? True if we may not know, and if it has no memory any more,
 * because then it is about to end. */
static COLD bool may_have_page(uint32_t tid, const uint32_t *word)
{
	char text[4096 + 1];
	size_t kept = 0;
	bool has = false, any = false;
	int fd = proc_open(tid, "maps");
	long n;

	if (fd < 0) /* root may look at every holder */
		return fd != -EACCES || geteuid();
	while (!has && (n = rawcall(SYS_read, fd, text + kept,
				    sizeof(text) - 1 - kept)) > 0) {
		char *line = text, *end;

		text[kept + (size_t)n] = '\0';
		any = true;
		for (; !has && (end = strchr(line, '\n')); line = end + 1) {
			*end = '\0';
			has = line_has(line, (uintptr_t)word);
		}
		kept = has ? 0 : strlen(line);
		memmove(text, line, kept);
	}
	rawcall(SYS_close, fd);
	return has || (!any && !is_kernels(tid));
}

#define STATUS_BYTES 1024 /* what is looked for stands before that */

/* 0, or -errno. */
static int status_read(uint32_t tid, char text[STATUS_BYTES])
{
	int fd = proc_open(tid, "status");

	if (fd < 0)
		return fd;
	long n = rawcall(SYS_read, fd, text, STATUS_BYTES - 1);
	rawcall(SYS_close, fd);
	text[n > 0 ? n : 0] = '\0';
	return 0;
}

/* The letter that proc(5) lists; 0. */
static char state_of(const char *status)
{
	const char *at = strstr(status, "\nState:\t");

	return at ? at[8] : '\0';
}

/* The user of a living process.  The owner of its /proc entry does not tell:
 * that is root once the process has dropped its privileges. */
static COLD enum page_owner owner_by_status(uint32_t tid, const uint32_t *word)
{
	char text[STATUS_BYTES];
	int err = status_read(tid, text);

	if (err) /* no /proc, or no descriptor left: give it time */
		return err == -ENOENT && rawcall(SYS_faccessat, AT_FDCWD,
						 "/proc/self/status", R_OK) == 0
			   ? OWNER_DEAD
			   : OWNER_OURS;
	if (state_of(text) == 'Z' || state_of(text) == 'X')
		return OWNER_DEAD;
	/* Our own threads hold no lock of the page: the caller holds ours. */
	if (number_of(text, "\nTgid:", 0) == (long)getpid())
		return OWNER_STRANGER;
	return number_of(text, "\nUid:", 1) == (long)geteuid() &&
		       may_have_page(tid, word)
		   ? OWNER_OURS
		   : OWNER_STRANGER;
}

static bool is_known_here(uint32_t tid)
{
	return tid <= INT32_MAX && !is_foreign && !(tid & FOREIGN);
}

/* Has the owner gone?  This is cheap, but a zombie, which its parent has not waited for
 * yet, counts as living. */
static bool is_gone(uint32_t seen)
{
	uint32_t tid = seen & ~LOCK_WAITERS;

	return tid && is_known_here(tid) &&
	       rawcall(SYS_tkill, tid, 0) == -ESRCH;
}

COLD enum page_owner page_owner(const uint32_t *word, uint32_t seen)
{
	uint32_t tid = seen & ~LOCK_WAITERS;

	if (!tid)
		return OWNER_NONE;
	if (!is_known_here(tid))
		return OWNER_STRANGER;
	return is_gone(seen) ? OWNER_DEAD : owner_by_status(tid, word);
}

COLD bool page_owner_is_stopped(uint32_t seen)
{
	char text[STATUS_BYTES];
	uint32_t tid = seen & ~LOCK_WAITERS;

	return tid && tid <= INT32_MAX && !status_read(tid, text) &&
	       state_of(text) == 'T';
}

/* Sleep until somebody releases the word @seen, or @ns have passed. */
static void sleep_on(uint32_t *word, uint32_t seen, uint64_t ns)
{
	struct timespec ts = { .tv_nsec = (long)ns };

	if (!(seen & LOCK_WAITERS) && !cas(word, seen, seen | LOCK_WAITERS))
		return;
	rawcall(SYS_futex, word, FUTEX_WAIT, seen | LOCK_WAITERS, &ts, NULL, 0);
}

COLD void page_lock_gives_up(const uint32_t *word)
{
	vain.word = word;
	vain.living = 0;
	vain.at_ns = now_ns();
}

COLD bool page_lock_is_vain(const uint32_t *word)
{
	uint64_t ns = vain.word == word ? SAME_NS : OTHERS_NS;

	if (!vain.word)
		return false;
	if (now_ns() - vain.at_ns < ns)
		return true;
	vain.word = NULL;
	return false;
}

static COLD enum page_owner ask_owner(const uint32_t *word, uint32_t seen)
{
	enum page_owner owner = page_owner(word, seen);

	if (owner == OWNER_DEAD)
		vain.dead = seen & ~LOCK_WAITERS;
	else
		vain.living = seen & ~LOCK_WAITERS;
	return owner;
}

/* Without a wait. */
static COLD enum page_got take_or_leave(uint32_t *word)
{
	uint32_t seen = load_rlx(word), self = page_self();

	if (!seen && cas(word, 0u, self))
		return PAGE_FREE;
	if ((seen & ~LOCK_WAITERS) != vain.living &&
	    ask_owner(word, seen) == OWNER_DEAD &&
	    cas(word, seen, self | LOCK_WAITERS))
		return PAGE_OF_DEAD;
	return PAGE_KEPT;
}

/* Is the owner a process that this thread has found dead before?  A process that was killed
 * may leave many locks.  While it is a zombie only /proc tells that it is dead, so we ask
 * /proc only about such an owner. */
static bool is_known_dead(const uint32_t *word, uint32_t seen)
{
	uint32_t tid = seen & ~LOCK_WAITERS;

	return tid && tid == vain.dead && page_owner(word, seen) == OWNER_DEAD;
}

static enum page_got given_up(const uint32_t *word, enum page_got got)
{
	page_lock_gives_up(word);
	return got;
}

static COLD enum page_got lock_slow_page(uint32_t *word, bool is_patient)
{
	uint32_t self = page_self(), n_changed = 0, n_taken = 0;
	uint32_t seen = load_rlx(word);
	uint64_t start = now_ns();

	if ((is_gone(seen) || is_known_dead(word, seen)) &&
	    cas(word, seen, self | LOCK_WAITERS))
		return PAGE_OF_DEAD;
	for (;; seen = load_rlx(word)) {
		uint64_t waited = now_ns() - start;

		/* Others may wait as well, so wake one when done. */
		if (!seen && cas(word, 0u, self | LOCK_WAITERS))
			return PAGE_FREE;
		if (waited > PAGE_PATIENCE_NS ||
		    (!seen && ++n_taken > TAKEN_MAX && waited > PAGE_WAIT_NS))
			return given_up(word, PAGE_NOT);
		if (seen && waited > PAGE_WAIT_NS) {
			enum page_owner owner = ask_owner(word, seen);

			if (owner == OWNER_OURS && !is_patient)
				return given_up(word, PAGE_KEPT);
			if (owner == OWNER_DEAD &&
			    cas(word, seen, self | LOCK_WAITERS))
				return PAGE_OF_DEAD;
			if (owner != OWNER_OURS && (load_rlx(word) == seen ||
						    ++n_changed > CHANGES_MAX))
				return given_up(word, PAGE_NOT);
		}
		if (seen)
			sleep_on(word, seen, PAGE_WAIT_NS);
	}
}

enum page_got page_lock(uint32_t *word, bool is_patient)
{
	uint32_t self = page_self();

	for (int i = 0; i < SPINS; i++) {
		if (likely(!load_rlx(word) && cas(word, 0u, self)))
			return PAGE_FREE;
		if (unlikely(vain.word) && i >= SPINS_VAIN && !is_patient &&
		    page_lock_is_vain(word))
			return take_or_leave(word);
		cpu_relax();
	}
	return lock_slow_page(word, is_patient);
}

void page_unlock(uint32_t *word)
{
	if (unlikely(xchg(word, 0u) & LOCK_WAITERS))
		rawcall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}
