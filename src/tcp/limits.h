/* SPDX-License-Identifier: MIT */
/*
 * tcp/limits.h - the engine's fixed numbers
 *
 * Times, counts of retries and sizes.  They are the defaults of Linux, unless a comment
 * names an RFC.
 */
#pragma once

#include "base/clock.h"

/* Time-outs. */
#define RTO_INITIAL_NS (1 * NS_PER_S)   /* RFC 6298 (2.1) */
#define RTO_AFTER_SYN_NS (3 * NS_PER_S) /* RFC 6298 (5.7) */
#define RTO_MIN_NS (200 * NS_PER_MS)
#define RTO_MAX_NS (120 * NS_PER_S)
#define SYN_RETRIES 6
#define SYN_RETRIES_MAX 127
#define SYN_LINEAR 4 /* retries before the time-out begins to double */
#define SYN_SOON_NS (8 * NS_PER_MS)
#define SYNACK_RETRIES 5
#define DATA_RETRIES 15
#define DATA_PATIENCE_NS (924600 * NS_PER_MS) /* the sum of DATA_RETRIES */
#define ORPHAN_RETRIES 8
#define TIME_WAIT_NS (60 * NS_PER_S)
#define FIN_WAIT_2_NS (60 * NS_PER_S) /* of a connection that was closed */
#define DELACK_NS (40 * NS_PER_MS)
#define QUICK_ACKS 16
#define CHALLENGE_NS (500 * NS_PER_MS) /* between two challenge ACKs */
#define PAWS_S (24 * 24 * 3600u)

/* Sizes. */
#define INITIAL_WINDOW 10 /* segments; RFC 6928 */
#define MSS_MIN 48        /* CVE-2019-11479 */
#define DUP_THRESH 3      /* RFC 5681 */
#define TS_BYTES 12       /* the timestamp option with two NOPs */
#define RCV_BUF_MIN 1024u
#define SND_BUF_MIN 2048u
#define PORT_FIRST 32768u
#define PORT_LAST 60999u

/* What the engine remembers. */
#define OOO_MAX 1024 /* runs of bytes out of order, of a connection */
#define SACKS_KNOWN 3
#define SACK_HINTS 3
#define TX_REPLIES 256 /* a power of two */
#define PATHS_KNOWN 64 /* a power of two */
#define SOON 4         /* a power of two */
