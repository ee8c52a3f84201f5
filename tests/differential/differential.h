/* SPDX-License-Identifier: MIT */
/*
 * tests/differential/differential.h - does the same random things to Linux and to src/tcp
 *
 *     gen.c: a seed -> sequence (segments, calls, pauses) <-> text.c: its text
 *     play.c: sequence, back end -> run.c: observations after each step, as text
 *     main.c: compares both texts; known.c: known differences, and their reasons
 *
 * One peer plays a sequence.  It remembers the numbers of the segments that it sends
 * and sees.  So a step can say "1460 bytes further on", whatever the first numbers
 * were.  After each step it writes down everything that it can observe, normalised.
 * Numbers are relative.  Plain ACKs of bytes in order are left out, because each stack
 * may choose when to send them (RFC 9293 section 3.8.6.3).  After long pauses it checks
 * that everything was acknowledged.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "ip/tcp_head.h"
#include "../script/backend.h"

#define STEPS_MAX 40
#define SAID_MAX 1200 /* bytes of text after a step */
#define TAGS_TEXT_MAX 240
#define LONG_PAUSE_MS 250

enum step_kind {
#define S(name, text, n_args) STEP_##name,
#include "steps.def"
#undef S
	STEP_KINDS
};

/* A segment, relative to what the peer knows. */
struct seg_step {
	uint8_t flags;
	int32_t seq; /* from the next byte that the peer has not sent */
	int32_t ack; /* from the highest byte that the stack has sent */
	uint32_t len, wnd;
	uint16_t mss;   /* 0: none */
	uint8_t wscale; /* TCP_NO_WSCALE: none */
	bool is_sack_ok;
	bool has_ts, is_ts_old;
	uint8_t n_sacks;
	struct {
		int32_t from, to; /* from the highest ACK of the peer */
	} sacks[TCP_SACK_MAX];
};

struct step {
	enum step_kind kind;
	int32_t arg;
	struct seg_step seg;
	uint32_t took_ms; /* a pause: how long it was, after the engine */
};

struct sequence {
	uint64_t seed;
	uint32_t n;
	struct step steps[STEPS_MAX];
};

#define RUN_PACKETS 64
#define GAPS_MAX 16
#define ENDS_MAX 128

/* Plain ACKs that a step leaves out. */
enum ack_fold {
	FOLD_ALL,     /* the stack may acknowledge now or later */
	FOLD_DELAYED, /* those that might have come earlier */
	FOLD_NONE,    /* something is wrong: now, or never */
};

/* What has happened on a connection, for rules that apply only after it. */
enum tag {
#define T(name, text) TAG_##name,
#include "tags.def"
#undef T
	TAGS
};

/* The state of a sequence that a back end plays, and what its peer knows. */
struct run {
	struct backend *b;
	struct sequence *q;
	uint32_t at;      /* the step that is next */
	uint64_t next_ns; /* and when */
	uint64_t begin_ns;
	uint16_t lport, rport;
	struct ip_addr raddr;
	int listener, sock;

	uint32_t snd_nxt,
	    snd_una;      /* the stack's, as the peer has seen and said */
	uint32_t irs;     /* the stack's first number */
	uint32_t syn_ack; /* the peer's first byte, as the stack's SYN said */
	bool has_irs, is_late;
	bool has_ts;      /* the stack uses timestamps */
	bool is_over;     /* somebody has sent a reset */
	bool has_fin;     /* the peer has sent one */
	uint32_t seg_len; /* of what was sent last */
	uint32_t again;   /* what was sent again last */
	uint32_t probe;   /* what was sent last in a pause */
	bool has_probe;
	unsigned tag;         /* bits of enum tag */
	seq32 ends[ENDS_MAX]; /* of segments that the stack has sent */
	uint32_t n_ends;
	enum ack_fold fold;             /* of the step that is being played */
	uint32_t ack_before;            /* the stack's, before the step */
	uint32_t nxt;                   /* the peer's */
	struct tcp_sack said_now;       /* by the step that is being played */
	struct tcp_sack gaps[GAPS_MAX]; /* what it has sent behind them */
	uint32_t n_gaps;
	uint32_t stack_ack; /* the last the stack has sent */
	uint16_t stack_wnd;
	uint32_t tsval, ts_echo;
	uint32_t n_sent, n_got; /* bytes of the calls */

	struct tcp_seg packets[RUN_PACKETS];
	bool is_again[RUN_PACKETS], is_next[RUN_PACKETS];
	uint32_t n_packets;
	char call[64]; /* what a call said */
	/* enum tag as bits, from before the end of the step. */
	uint32_t tags[STEPS_MAX];
	char said[STEPS_MAX][SAID_MAX];
};

/* gen.c */
void sequence_random(struct sequence *q, uint64_t seed);

/* text.c */
int tags_print(char *out, size_t len, unsigned tags);
int step_print(char *out, size_t len, const struct step *s);
void sequence_print(FILE *f, const struct sequence *q);
MUST_CHECK bool sequence_parse(struct sequence *q, const char *text);
void flags_print(char *out, unsigned flags);

/* What all sequences run over; a seed means the same with each. */
struct way {
	bool is_v6;
	const char *scheme; /* of congestion control */
};

/* run.c */
extern bool run_is_traced; /* packets are printed, with their times in ms */
extern struct way run_way;
void run_begin(struct run *r, struct backend *b, struct sequence *q,
	       uint32_t index);
void run_do(struct run *r);
void run_packet(struct run *r, const uint8_t *p, uint32_t len, uint64_t at_ns);
void run_said(struct run *r);
void run_end(struct run *r);

/* play.c */
void play_engine(struct run *r, struct sequence *q);
void play_kernel(struct backend *kernel, struct run *runs, uint32_t n);

/* link.c */
MUST_CHECK int link_without_gso(const char *name);

/* known.c */
#define KNOWN_MAX 96

struct known {
	char *name, *reason;
	struct sequence *witnesses;
	uint32_t n_witnesses;
	bool is_over; /* afterwards both are as they would be without it */
	void *rule;   /* a compiled expression */
	uint64_t n_used;
};

struct known_list {
	struct known k[KNOWN_MAX];
	uint32_t n;
};

/* compare.c */
struct verdict {
	bool is_wrong; /* they differ, and nobody knows why */
	struct known
	    *why;    /* else, of the first difference; NULL: there is none */
	uint32_t at; /* the step of the text */
	char text[2 * SAID_MAX +
		  300]; /* of the last that was looked at; or "" */
};

void verdict_of(struct verdict *v, struct known_list *l,
		const struct run *kernel, const struct run *engine);

MUST_CHECK bool known_read(struct known_list *l, const char *path);
struct known *known_find(struct known_list *l, const char *difference);
void known_free(struct known_list *l);
