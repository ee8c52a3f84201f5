/* SPDX-License-Identifier: MIT */
/*
 * tests/script/script.h - a packet script: its parts, and the files that work on it
 *
 *     file -> parse.c, parse_packet.c -> struct script -> run.c -> verdict
 *                                            |             |
 *                         names.c, packet.c -+             +-> backend.h
 *
 * docs/scripts.md describes the language.  A script is parsed before any of it runs;
 * errors name the script and the line.
 */
#pragma once

#include <stdio.h>

#include "backend.h"
#include "ip/tcp_head.h"

#define SCRIPT_EVENTS 4096
#define SCRIPT_LINES 8192
#define SCRIPT_SETTINGS 16
#define PACKET_OPTIONS 40 /* as many as there are bytes for */
#define CALL_ARGS 6
#define DEFAULT_PORT 8080  /* ours: bind(), and theirs: connect() */
#define DEFAULT_PEER 40000 /* theirs, when they open */
#define TS_ANY 1
#define ECR_ANY 2

enum opt_kind {
	OPT_EOL,
	OPT_NOP,
	OPT_MSS,
	OPT_WSCALE,
	OPT_SACK_OK,
	OPT_SACK,
	OPT_TS = 8,
};

/* An option, as written in the script or seen on the wire. */
struct tcp_option {
	uint8_t kind, len; /* the length that it claims; 0: it has none */
	uint8_t n;         /* numbers of v[], or bytes of data that follow */
	uint8_t any;       /* TS_ANY, ECR_ANY */
	uint32_t v[8];     /* MSS, scale, edges, val and ecr */
};

/* A packet in the script's numbers: ours count from 0, the peer's are as sent. */
struct packet {
	bool is_out, is_none; /* is_none: nothing may come until then */
	bool is_icmp, has_bad_sum, has_new_isn;
	bool has_any_options, has_any_flags;
	bool is_tagged;        /* the port is to be printed */
	uint16_t rport, lport; /* 0: the script's first flow */
	uint8_t ecn, flags;
	uint32_t seq, len, ack;
	int64_t win, urg; /* -1: whatever */
	uint32_t n_options;
	struct tcp_option options[PACKET_OPTIONS];
	uint32_t icmp_kind, icmp_mtu; /* index into icmp_names[] */
};

enum arg_kind { ARG_ANY, ARG_INT, ARG_PAIR, ARG_STRING, ARG_ADDR };

struct arg {
	enum arg_kind kind;
	int64_t v, w;  /* the number; both of a pair; a port */
	char text[32]; /* a string, or a field's name */
};

enum result_kind { RESULT_ANY, RESULT_IS, RESULT_RANGE, RESULT_ERRNO };

struct call {
	char name[24];
	uint32_t n_args;
	struct arg args[CALL_ARGS];
	enum result_kind result;
	int64_t from, to; /* an errno is in from */
};

struct event {
	uint32_t line;
	char *text; /* as written, for messages */
	bool is_relative, is_any_time, is_range;
	uint64_t from_ns, to_ns;
	bool is_call;
	struct call call;
	struct packet *packet;
};

struct script {
	const char *path;
	char *source;
	uint32_t mtu;
	bool is_kernel_only, is_engine_only, is_v4_only;
	struct backend_setting settings[SCRIPT_SETTINGS];
	uint32_t n_settings, n_events, n_lines;
	char *lines[SCRIPT_LINES];
	struct event events[SCRIPT_EVENTS];
};

struct run_options {
	bool is_v6, is_loud;
	bool records; /* writes the script with what came out */
	bool is_real_time;
	uint64_t tolerance_ns;
	FILE *out; /* messages */
};

/* A place in a line, and the first error in it. */
struct cursor {
	const char *at;
	const char *error; /* NULL: none */
};

/* names.c: the values of C's names */
bool name_value(const char *name, int64_t *out);
const char *name_errno(int err);
int errno_value(const char *name);

/* parse.c */
struct script *script_read(const char *path, FILE *out);
void script_free(struct script *s);
void skip_blanks(struct cursor *c);
bool take(struct cursor *c, const char *word);
int64_t take_number(struct cursor *c);
void fail(struct cursor *c, const char *why);

/* parse_packet.c: parses what follows < or > */
void parse_packet(struct cursor *c, struct packet *p);

/* packet.c: packets and their bytes */
uint8_t payload_byte(uint32_t offset);
struct flow_map {
	uint16_t lport, rport; /* lport 0: not known yet */
	uint32_t isn;          /* ours, to be added to the script's numbers */
	uint32_t peer_isn;     /* where their payload is counted from */
	uint32_t ts_base;
	bool has_isn, has_ts_base, has_peer_isn;
};
uint32_t packet_build(const struct packet *p, struct flow_map *f, bool is_v6,
		      uint8_t *out);
/* Converts bytes of the wire to the script's numbers; false: not TCP, or malformed. */
bool packet_decode(const uint8_t *bytes, uint32_t len, struct packet *out);
void packet_to_script(struct packet *p, const struct flow_map *f);
/* Whether the payload is the pattern; @p is in the script's numbers. */
bool packet_has_pattern(const uint8_t *bytes, const struct packet *p);
void packet_print(FILE *out, const struct packet *p);

/* run.c: Return: whether everything happened as the script says */
bool script_run(const struct script *s, const struct backend *b,
		const struct run_options *opt);

/* call.c: plays one call.  @why has room for 256 characters. */
struct sockets {
	const struct backend *b;
	bool is_v6;
	int fds[256];         /* by the script's numbers; -1: none */
	uint64_t n_sent[256]; /* bytes: the pattern goes on there */
	uint64_t n_got[256];
	bool is_unchecked[256]; /* urgent bytes were taken out */
	int64_t result;         /* of the last call */
	uint16_t called;        /* the port of the last connect(), or 0 */
};
bool call_play(struct sockets *s, const struct call *c, char *why);
