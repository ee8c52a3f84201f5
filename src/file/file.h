/* SPDX-License-Identifier: MIT */
/*
 * file/file.h - descriptor to open file description
 *
 *     fd -> table (two levels, made as needed) -> struct file -> sock or epoll
 *
 * Only descriptors that osf handles have an entry; for all others a call costs
 * one look-up that finds nothing.  An entry with its low bit set belongs to a
 * socket that the kernel serves: calls that move data go straight to libc,
 * calls that change descriptors still see the entry.
 *
 * A file counts its descriptors and the calls inside it; the last one to leave
 * releases it.  Files are type-stable: a look-up may touch a file that is being
 * freed, and detects that afterwards.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "ops/ops.h"
#include "sock/ready.h"
#include "sock/sock_ops.h"

enum file_kind { FILE_SOCK, FILE_EPOLL };

struct epoll;
struct epitem;
struct holding;

struct file {
	uint32_t n_refs; /* descriptors plus calls in flight */
	uint8_t kind;
	uint8_t merged;     /* its epoll items are served by us */
	uint8_t hidden;     /* anchor_fd is a descriptor of our own */
	uint8_t has_left;   /* the process ends: it has counted itself out */
	uint8_t is_parents; /* at a fork: not to be shared with the child */
	int32_t anchor_fd;  /* some descriptor of the description */
	int32_t moved_fd;   /* another description took its place, or -1 */
	struct sock *sk;
	/* The table of operations that the entries and the epoll sets were last
	 * updated for; see file_sync(). */
	const struct sock_ops *synced;
	struct epoll *ep;
	struct epitem *items;    /* epoll sets a socket is in */
	struct lock lock;        /* items */
	uint32_t walk;           /* last walk over all files that saw it */
	struct holding *holding; /* our entry with the parent, if inherited */
	struct holding
	    *unshared; /* the same, of a socket that we parted from */
	struct file *next_free;
	/* At a fork: the proposal's and the channel's descriptors of a young
	 * connection.  The numbers in the sock may later belong to another
	 * process. */
	struct shared_fd {
		int32_t fd;
		uint64_t cookie;
	} shared_fds[OPS_UPGRADE_FDS];
};

#define FILE_PASS ((uintptr_t)1)
#define TABLE_BITS 10
/* Times 1 << TABLE_BITS: 16 times as many as fs.nr_open allows unless root
 * raised it.  The table is address space, which the program may have limited.
 */
#define TABLE_TOP (1u << 14)

extern uintptr_t *file_table[TABLE_TOP];

static inline uintptr_t *table_slot(int fd)
{
	uintptr_t *page =
	    (unsigned)fd < TABLE_TOP << TABLE_BITS
		? load_acq(&file_table[(unsigned)fd >> TABLE_BITS])
		: NULL;

	return page ? &page[(unsigned)fd & ((1u << TABLE_BITS) - 1)] : NULL;
}

static inline uintptr_t table_load(int fd)
{
	uintptr_t *slot = table_slot(fd);

	return slot ? load_acq(slot) : 0;
}

/* Standard input, output or error: stdio uses it without us. */
static inline bool is_standard(int fd) { return (unsigned)fd <= 2; }

/* Does @fd still name the description of @f, and not another by now? */
static inline bool file_is_at(const struct file *f, int fd)
{
	return (table_load(fd) & ~FILE_PASS) == (uintptr_t)f;
}

struct file *file_ref_slow(int fd, bool any);
void file_release(struct file *f, int fd);

/* The file that serves data calls on @fd, with a reference, or NULL: libc's. */
static inline struct file *file_get(int fd)
{
	uintptr_t entry = table_load(fd);

	if (likely(!entry || entry & FILE_PASS))
		return NULL;
	if (is_single_threaded()) {
		struct file *f = (struct file *)entry;

		f->n_refs++;
		return f;
	}
	return file_ref_slow(fd, false);
}

/* The same for calls on descriptors themselves: passed-by ones too. */
static inline struct file *file_get_any(int fd)
{
	return likely(!table_load(fd)) ? NULL : file_ref_slow(fd, true);
}

static inline void file_put(struct file *f)
{
	if (is_single_threaded()) {
		if (likely(--f->n_refs))
			return;
	} else if (fetch_sub(&f->n_refs, 1) != 1) {
		return;
	}
	file_release(f, f->anchor_fd);
}

/* Does osf move the bytes of @fd, or may it soon, so that calls on @fd must be counted? */
static inline bool file_serves(int fd)
{
	uintptr_t entry = table_load(fd);

	return unlikely(entry && !(entry & FILE_PASS));
}

/* A new socket description under @fd.  NULL: out of memory, the kernel's. */
struct file *file_new_sock(int fd);
void file_note_shared_fds(struct file *f); /* before a fork */
struct file *file_new_epoll(int fd, struct epoll *ep);
/* @fd names the description of @f too (dup). */
int file_install(int fd, struct file *f, bool pass);
/* All descriptors of @f name @to's description from now on. */
void file_move(struct file *f, int to);
/* replace.c: may another description take its place?  The caller is in a call of it. */
bool file_may_be_replaced(struct file *f);
/* For each descriptor of @fd's description, and in its epoll sets, install
 * @by's description instead; the entries in the table stay.  0, or -errno and
 * nothing has changed. */
int file_replace(int fd, int by);
/* A relay continues the stream of @f: all descriptors of @f name @to from now on. */
void file_to_relay(struct file *f, int to);
/* @fd is about to be closed by the kernel, or to be replaced. */
void file_forget(int fd);
/* Serve data calls of @f by libc from now on. */
void file_pass(struct file *f);
bool file_is_passthrough(int fd);

/* Takes the next step of an upgrade if possible, and updates sets and table. */
void file_advance(struct file *f, int fd);
/* The program needs descriptors: close those of upgrades that are not complete.
 * True: there were some. */
bool file_spare_fds(void);
/* No descriptors are left: close those that future upgrades would need, too. */
bool file_spare_all_fds(void);
/* A call of this process changed what may be ready: those who watch @f check
 * again, and report @events as new if they are set then. */
static inline void file_touched(struct file *f, unsigned events)
{
	if (unlikely(load_rlx(&f->sk->watches.first)))
		sock_notify(f->sk, events);
}

/* A call changed the socket's mode: update sets and table. */
void file_sync(struct file *f, int fd);
/* After a call: has it? */
static inline bool file_is_synced(const struct file *f)
{
	return load_rlx(&f->synced) == sock_ops(f->sk);
}

/* @each is called with every entry in the table. */
void file_for_each(void (*each)(int fd, struct file *f));
/* The smallest entry >= @from, -1 for none. */
int file_next(int from);

/* handoff.c: code that does not know osf will use the connection.  Afterwards
 * plain system calls work on @fd and every other descriptor of it. */
void file_hand_over(int fd, enum osf_reason why);
/* The same, of @f, which the caller holds.  @gently: not if it takes a relay. */
void file_give_back(struct file *f, int fd, enum osf_reason why, bool gently);
/* Before a fork: what lives in this process alone falls back, if it can. */
void file_before_fork(void);
/* The process gives up authority: connections leave its port, and it has none then. */
void file_drop_port(void);
/* This process is about to execute another program, or to start one. */
void file_before_exec(char *const *argv, char *const *envp);
/* It could not: its listeners are announced again. */
void file_exec_failed(void);
/* @acts: posix_spawn()'s file actions or NULL, known by their address alone. */
void file_before_spawn(const void *acts, char *const *argv, char *const *envp);
void file_spawn_dup2(const void *acts, int fd);
void file_spawn_forget(const void *acts);
void handoff_after_fork(void);
/* unshare.c: this process is about to give up authority; it leaves the memory that it
 * has from the process that forked it. */
void file_unshare(void);
/* A fork is about to make a child in a user namespace of its own, which starts as
 * somebody else: what is in shared memory goes back to the kernel before that. */
void file_before_stranger(void);
bool file_may_unshare(void); /* is there any? */
/* leave.c: give every connection back to the kernel and forget all files, because from now
 * on osf may make no system call of its own in this process. */
void file_leave(enum osf_reason why);
extern bool file_has_left_all;
static inline bool file_has_left(void)
{
	return unlikely(load_rlx(&file_has_left_all));
}
/* fork.c */
void fork_init(void);
void fork_before(void); /* for forks that run no atfork handlers */
void fork_child(void);
void fork_after(bool is_child); /* in both; errno stays */
/* The next fork of this thread is a vfork(); afterwards the parent waits. */
void fork_suspends(void);
void fork_wait(pid_t pid);
void file_exit(void); /* the process is about to end */
/* adopt.c: sockets that were there before us. */
void file_adopt(void);
void file_adopt_listener(int fd); /* if @fd is one; errno stays */
