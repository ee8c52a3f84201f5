/* SPDX-License-Identifier: MIT */
/*
 * port/tap.h - what a port sends and receives, shown to `osf tap'
 *
 *     program: tap_open() -> tap_frame() for each frame -> tap_close()
 *     osf tap: tap_reader_open() -> tap_reader_want(), tap_reader_next() -> pcapng.h
 *
 * The frames of a port bypass the kernel's queues, so the kernel does not show them to
 * packet sockets.  So the program copies them into a ring of shared memory while somebody
 * reads it.  The memory is a file without a name, among the program's descriptors.  Whoever
 * may open these (/proc/PID/fd: the same user, or root) may read it.
 *
 * A reader stores an instant until which it wants frames, and stores a later one as long as
 * it runs.  So nobody has to clean up after a reader that dies.  While nobody reads, a
 * frame costs the program one load.  The program waits for no reader: it overwrites the
 * oldest frames, and a reader that was too slow learns how many it has missed.  There may
 * be several readers.
 *
 * The only thing that readers write and the program reads is the instant.  A reader treats
 * what the program has written as input.
 *
 * Owner: a tap belongs to its port's owner; a reader to one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/atomic.h"
#include "base/compiler.h"

#define TAP_MEMFD "osf-tap"
#define TAP_MAGIC 0x5041544f53463031ull
#define TAP_HEAD_BYTES 4096u
#define TAP_RING_BYTES (4u << 20)
#define TAP_FRAME_MAX (65535u + 14u) /* bytes of a frame that are kept */
#define TAP_DEV_MAX 16
#define TAP_PROGRAM_MAX 32

enum tap_direction {
	TAP_IN = 1,
	TAP_OUT,
};

/* The beginning of the shared memory. */
struct tap_head {
	uint64_t magic;
	uint32_t pid; /* as the program sees it */
	char dev[TAP_DEV_MAX], program[TAP_PROGRAM_MAX];
	/* CLOCK_MONOTONIC; 0: nobody reads.  Readers store it. */
	alignas(CACHE_LINE) uint64_t until_ns;
	/* How many bytes were put into the ring since its beginning.  begun includes the
	 * frame that is being written, done does not. */
	alignas(CACHE_LINE) uint64_t begun, done;
};

/* In front of each frame in the ring; what follows it is padded to 8 bytes. */
struct tap_record {
	uint64_t at_ns; /* CLOCK_REALTIME */
	uint64_t nth;   /* counts the frames */
	uint32_t len;   /* bytes that follow */
	uint32_t wire_len;
	uint32_t direction;
	uint32_t zero;
};

/* --- the program's side: tap.c --- */

struct tap {
	int fd;
	bool has_memory;
	struct tap_head *head; /* NULL: there is no tap */
	uint64_t at, nth;      /* what head and the ring say */
};
#define TAP_NONE ((struct tap){ .fd = -1 })

/**
 * tap_open() - make the memory of a tap
 * @dev: the port's device
 *
 * The caller may move @t->fd to another number.  A child of fork() does not have the
 * memory.
 *
 * Return: 0 or a negative errno
 */
MUST_CHECK int tap_open(struct tap *t, const char *dev, const char *program);
void tap_close(struct tap *t);

static inline bool tap_is_wanted(const struct tap *t)
{
	return t->head && load_rlx(&t->head->until_ns);
}

/* Whether a reader still wants frames, and the ring has memory.  May make a system call, to
 * allocate the memory. */
COLD bool tap_is_due(struct tap *t);

/* A frame from its Ethernet header on, in pieces.  Call it if tap_is_wanted(). */
COLD void tap_frame(struct tap *t, enum tap_direction direction,
		    const struct iovec *iov, unsigned n);

/* --- the reader's side: tap_reader.c --- */

struct tap_reader {
	int fd;
	struct tap_head *head;
	uint64_t at, nth;
	bool has_nth;         /* nth is that of the next frame */
	struct tap_head info; /* a copy, whose texts end */
};

struct tap_seen {
	struct tap_record r; /* its lengths were checked */
	uint64_t n_lost;     /* frames before this one that were missed */
	uint8_t data[TAP_FRAME_MAX];
};

/**
 * tap_reader_open() - read what a program writes
 * @fd: of the program's file, open for reading and writing; the reader's from now on, even
 * if opening fails
 *
 * Return: 0, -EBADMSG: no tap, or another errno
 */
MUST_CHECK int tap_reader_open(struct tap_reader *r, int fd);
void tap_reader_close(struct tap_reader *r);

/* Makes the program write until @until_ns (CLOCK_MONOTONIC) at least. */
void tap_reader_want(struct tap_reader *r, uint64_t until_ns);

/* The next frame.  Return: 1, 0: none is there, or -EBADMSG: the ring contradicts itself */
MUST_CHECK int tap_reader_next(struct tap_reader *r, struct tap_seen *out);
