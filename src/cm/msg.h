/* SPDX-License-Identifier: MIT */
/*
 * cm/msg.h - what two connection managers on one host send to each other
 *
 *     REQ ->  <- REP,  RTU ->  ...  DREQ       a connection
 *     SIDR_REQ ->  <- SIDR_REP                 the QP number of a datagram service
 *     REJ                                      an answer to REQ or REP
 *
 * The messages have the names and the parameters of InfiniBand's (IBTA volume 1, chapter
 * 12).  Each is one record of a unix SOCK_SEQPACKET connection, and all have the same size.
 * The other side is a process of the same user, and may still send anything: msg_check() is
 * the only way in.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define MSG_MAGIC 0x6d63666fu
#define MSG_VERSION 1
#define PRIVATE_MAX 256

enum msg_kind {
	MSG_REQ = 1,
	MSG_REP,
	MSG_RTU,
	MSG_REJ,
	MSG_DREQ,
	MSG_SIDR_REQ,
	MSG_SIDR_REP,
	MSG_KINDS
};

/* Reasons of REJ, and the status of a SIDR_REP. */
enum { REJ_TIMEOUT = 4, REJ_INVALID_SERVICE_ID = 8, REJ_CONSUMER = 28 };
enum { SIDR_SUCCESS = 0, SIDR_UNSUPPORTED = 1, SIDR_REJECT = 2 };

/* Either end's address; IPv4 has the shorter struct at the same place. */
union addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* What an end says of its queue pair. */
struct param {
	uint32_t qp_num, qkey, psn;
	uint8_t responder_resources, initiator_depth, flow_control;
	uint8_t retry_count, rnr_retry_count, srq, qp_type;
	uint8_t private_len; /* at most private_max() */
	uint8_t private_data[PRIVATE_MAX];
};

struct msg {
	uint32_t magic;
	uint16_t version;
	uint8_t kind;   /* enum msg_kind */
	uint8_t reason; /* REJ, SIDR_REP */
	uint16_t ps;    /* port space */
	uint16_t pad;
	union addr src,
	    dst; /* of REQ and SIDR_REQ, as their sender sees them */
	struct param p;
};

/* Bytes of private data that a message carries over IP port spaces. */
uint8_t private_max(enum msg_kind kind);
/* Is @m, of @n bytes, a message whose numbers are in their ranges? */
MUST_CHECK bool msg_check(const struct msg *m, size_t n);
/* Sends or receives one message.  Return: 0; -EAGAIN; -EPIPE: the other end has closed;
 * -EPROTO: what came is no message; or another -errno */
MUST_CHECK int msg_send(int sock, const struct msg *m);
MUST_CHECK int msg_recv(int sock, struct msg *m);
