/* SPDX-License-Identifier: MIT */
/*
 * osfd/msg.h - what programs and osfd say to each other
 *
 *     program -> struct request, descriptors -> osfd
 *     osfd -> struct reply, descriptors -> program, one for each request
 *
 * Both are packets of a SOCK_SEQPACKET unix socket, in the byte order of the machine.
 * Either side may be newer.  Bodies only ever grow.  The receiver takes bytes that a
 * shorter packet lacks as zero.  osfd refuses a longer request whose additional bytes are
 * not zero (-E2BIG), because they ask for something that it does not know; a program
 * ignores additional bytes of a reply.  The first request is MSG_HELLO, which finds the
 * highest version that both know.  From version 2 on, osfd may also send a reply of the
 * type MSG_LEAVE that answers no request: it asks the program to give its connections back.
 *
 * A request is input of a stranger: request_parse() is the only way in, and the fuzzer
 * tests/fuzz/fuzz_osfd.c calls it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "osfd/frozen.h"
#include "port/packet/steer.h"

#define MSG_MAGIC 0x6673666fu /* "ofsf" */
#define MSG_VERSION 2         /* what this source speaks */
#define MSG_VERSION_MIN 1     /* the oldest that it can speak */
#define MSG_BYTES_MAX 512
#define MSG_FDS_MAX 2
#define MSG_DEV_MAX 16 /* as IFNAMSIZ */
#define MSG_REASON_MAX 128
#define MSG_FLOWS_MAX (1u << 20)
/* What a thaw gives back: at most what a kernel socket's buffers hold. */
#define MSG_QUEUE_MAX (16u << 20)

/* Why osfd does not freeze a connection, in reply.err: the kernel does more to its segments
 * than our TCP would (osfd/beyond.h). */
#define MSG_E_NAT EREMCHG
#define MSG_E_IPSEC ENOKEY
#define MSG_E_SIGNED EKEYREJECTED

enum msg_type {
	MSG_NONE,
	MSG_HELLO,
	MSG_ADD,
	MSG_DEL,
	MSG_LIST,
	MSG_OPEN,
	MSG_FREEZE,
	MSG_THAW,
	MSG_DROP,
	MSG_ADOPT,
	MSG_ESCROW,
	MSG_UNDO,
	MSG_AWAY,
	MSG_REST,
	MSG_WAKE,
	MSG_PAST,
	MSG_TYPES,
};
/* Of a reply that answers no request. */
#define MSG_LEAVE 0xffffu
#define MSG_VERSION_LEAVE 2u /* that a program speaks which knows it */
/* In a reply's flags: the same.  A request that crosses MSG_LEAVE tells it so. */
#define REPLY_LEAVE 1u

struct msg_hello {
	uint32_t version, version_min;
};

/* A port: a device, and who may use it.  Root may use every port. */
struct msg_port {
	char dev[MSG_DEV_MAX];
	uint32_t uid;
	uint32_t n_flows; /* connections at a time; 0: the default */
	uint32_t flags;   /* MSG_BESIDE */
	uint32_t pad;
};
/* The device has tc programs of somebody else, which the port's flows will bypass. */
#define MSG_BESIDE 1u

struct msg_list {
	uint32_t index;
};

/* The connection that comes as a descriptor; @grant: see struct msg_grant. */
struct msg_freeze {
	uint32_t grant;
	uint32_t slot; /* of the escrow, from 1 on; 0: none */
};

/* The descriptor is the program's escrow (escrow.h).  An osfd that does not know this
 * request gives nothing back for programs that die. */
struct msg_escrow {
	uint32_t grant;
};

/* A connection that an earlier osfd has frozen.  The program has opened a new grant, has
 * osfd adopt its connections one by one, and closes what it had of the old grant. */
struct msg_adopt {
	uint32_t grant;
	uint32_t snd_nxt; /* as FREEZE has said */
	uint32_t slot;    /* as in struct msg_freeze */
	/* With a slot: as FREEZE has said, and the timestamp as it is now. */
	struct frozen state;
};

/* A connection that an earlier osfd may have frozen or not; nobody knows.  osfd makes the
 * kernel go on with it. */
struct msg_undo {
	uint32_t grant;
};

/* The descriptor is a timer of a program that has an escrow.  When it expires, osfd sends
 * the ACKs that the program owes by its escrow.  An osfd that does not know this request
 * sends none. */
struct msg_away {
	uint32_t grant;
};

/* REST: a grant without flows leaves no trace on its device until WAKE.  A trace would cost
 * each frame of the device something.  With the answer to WAKE comes the new link.  Each
 * request takes osfd some 20 to 60 ms, and the program need not wait for it.  With an osfd
 * that does not know these requests, a grant does not rest. */
struct msg_rest {
	uint32_t grant;
};

/* The answer brings a page that all processes of the user with the same command line share
 * (past.h).  An osfd that does not know this request has none. */
struct msg_past {
	uint64_t program; /* a number of the command line */
};

/* A connection that has ended, so that its anchor no longer tells its addresses.  The
 * program may name them itself, because a grant steers only connections of its own. */
struct msg_drop {
	uint32_t grant;
	struct steer_key key;
};

/* The second descriptor is a file that holds, one after the other: bytes that the
 * program has not read, bytes sent and not acknowledged, bytes not sent. */
struct msg_thaw {
	uint32_t grant;
	uint32_t n_unread, n_unacked, n_unsent;
	struct frozen state;
	uint32_t slot; /* as in struct msg_freeze */
};

struct request {
	uint32_t magic;
	uint16_t version, type;
	union {
		struct msg_hello hello;
		struct msg_port port; /* ADD, DEL, OPEN */
		struct msg_list list;
		struct msg_freeze freeze;
		struct msg_drop drop;
		struct msg_adopt adopt;
		struct msg_escrow escrow;
		struct msg_undo undo;
		struct msg_away away;
		struct msg_rest rest; /* REST, WAKE */
		struct msg_past past;
		struct msg_thaw thaw;
	};
};

/* The answer to OPEN.  With it come the packet socket and the link, which keeps the
 * steering alive if osfd ends. */
struct msg_grant {
	uint32_t grant; /* names it in later requests */
	uint32_t ifindex, mtu;
	uint32_t slot_bytes, n_slots;
	uint32_t n_flows;
};

struct msg_listed {
	struct msg_port port;
	uint32_t n_grants, n_used; /* n_used: connections at the moment */
	uint64_t n_segments, n_errors;
	/* Connections of programs that have died: given to the kernel, and reset. */
	uint64_t n_thawed, n_reset;
	uint64_t n_dropped; /* frames that found a program's ring full */
};

struct reply {
	uint32_t magic;
	uint16_t version, type;
	int32_t err;                 /* 0 or a negative errno */
	uint32_t flags;              /* REPLY_LEAVE */
	char reason[MSG_REASON_MAX]; /* for people, when err is not 0 */
	union {
		struct msg_hello hello;
		struct msg_grant grant;
		struct msg_listed listed;
		struct frozen frozen;
	};
};
_Static_assert(sizeof(struct request) <= MSG_BYTES_MAX, "a packet's limit");
_Static_assert(sizeof(struct reply) <= MSG_BYTES_MAX, "a packet's limit");

/**
 * request_parse() - judge a packet
 * @out: written on success: bytes that the packet lacks are zero, all texts end
 *
 * Return: 0, or
 *   -EBADMSG         not a request, of the wrong length, or with a wrong value
 *   -EPROTONOSUPPORT a type or a version that this osfd does not know
 *   -E2BIG           asks for something newer than this osfd
 *   -EINVAL          not as many descriptors as the type has
 */
MUST_CHECK int request_parse(const void *buf, size_t len, unsigned n_fds,
			     struct request *out);

/* How many bytes a request of a type has. */
size_t request_len(enum msg_type type);

/* The version that two sides speak.  Return: it, or 0 */
uint32_t msg_version_of(const struct msg_hello *a, const struct msg_hello *b);
