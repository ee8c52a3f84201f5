/* SPDX-License-Identifier: MIT */
/*
 * osfd/escrow.h - what a program leaves to osfd in case it dies
 *
 *     the program: a call, a frame that is about to leave -> its slot
 *     its death -> osfd: escrow_parse() -> thaw() -> the kernel sends what send() took
 *
 * A program shares one file of ESCROW_BYTES with osfd: sealed memory, of which only the
 * touched pages exist.  Each connection that has moved has a slot: a page with its numbers,
 * and a ring with the bytes that send() took and the peer has not acknowledged.
 *
 * A slot has two copies of the state, and a field that says which one counts.  The program
 * writes its state into the other copy, and then changes that field.  So if a program is
 * killed in the middle, the former state counts.  The program does this before a frame
 * leaves that tells the peer something new: what the peer has heard is never ahead of the
 * escrow.
 *
 * osfd reads the file once the program is dead, by pread() and not by a mapping.
 * Everything in it is input of that program.  Which connection it is about does not come
 * from the file: osfd holds the connection's descriptor.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "osfd/frozen.h"

#define ESCROW_SLOTS 4096u /* connections of a program */
#define ESCROW_HEAD 4096u
#define ESCROW_RING (256u << 10)
#define ESCROW_SLOT (ESCROW_HEAD + ESCROW_RING)
#define ESCROW_BYTES ((uint64_t)ESCROW_SLOTS * ESCROW_SLOT)

/* Sequence numbers as in struct frozen. */
struct escrow_state {
	uint32_t snd_una, snd_nxt;
	uint32_t snd_end;  /* behind the last byte that send() took */
	uint32_t off;      /* of snd_una's byte in the ring */
	uint32_t n_unread; /* bytes that the program has not read */
	uint32_t rcv_nxt;
	/* struct tcp_repair_window */
	uint32_t snd_wl1, snd_wnd, max_window, rcv_wnd, rcv_wup;
	uint32_t flags; /* FROZEN_PEER_FIN, FROZEN_PEER_RESET */
};

/* The beginning of a slot. */
struct escrow_head {
	/* 1 or 2: state[which - 1] counts; 0: the engine has done nothing yet */
	uint32_t which;
	uint32_t tsval; /* of a segment that leaves, at the latest */
	uint32_t pad[2];
	struct escrow_state state[2];
};
_Static_assert(sizeof(struct escrow_head) == 112, "padding");

/* What to give back of a ring. */
struct escrow_bytes {
	uint32_t off, n_unacked, n_unsent;
	bool has_unread; /* the peer's bytes are lost with the program */
};

/**
 * escrow_parse() - judge a slot
 * @h: a copy
 * @f: as the connection was frozen; changed on success
 *
 * Return: 0, or -EBADMSG where the numbers contradict themselves
 */
MUST_CHECK int escrow_parse(const struct escrow_head *h, struct frozen *f,
			    struct escrow_bytes *out);
