/* SPDX-License-Identifier: MIT */
/*
 * osf/stats.h - the statistics file of one process
 *
 *     libosf.so in a process  ->  segment  ->  osf stat, or any reader
 *
 * One process owns one segment: a header, then an array of socket entries.
 * The counters in it are the ones the data path itself uses, so they cost
 * nothing more when somebody looks.  A reader maps the file read-only, checks
 * magic, version and sizes, and reads; nothing is locked, each number is right
 * by itself but two numbers may be of slightly different instants.
 *
 * Where it lies:
 *   - by default a memfd named "osf-stats" that the process keeps open:
 *     /proc/PID/fd/N, a link to "/memfd:osf-stats (deleted)".  It vanishes with
 *     the process, and only the same user (or root) can open it.
 *   - with OSF_STATS_DIR=DIR in the environment, a file DIR/PID.N.osf of mode 0600
 *     (N counts execs of that PID) that outlives the process, so that totals can
 *     be read after it ended.
 *
 * The file may be longer than what is in use: entries at and above
 * header.n_socks have never been used.  All integers are in host order.
 *
 * Readers: accept any version whose major half equals OSF_STATS_VERSION's; use
 * header_size and sock_size to step, never sizeof.  What is shorter than this
 * header says is older, and lacks the members at the end: they are 0.
 */
#ifndef OSF_STATS_H
#define OSF_STATS_H

#include <stddef.h>
#include <stdint.h>

#define OSF_STATS_MAGIC 0x7461747366736f1aull
#define OSF_STATS_VERSION 0x00010006u /* major in the upper half */
#define OSF_STATS_MEMFD "osf-stats"

enum osf_reason {
#define R(name, text) OSF_REASON_##name,
#include "osf/reasons.def"
#undef R
	OSF_REASONS
};

enum osf_stats_proto {
	OSF_PROTO_NONE,   /* not connected, or a listener */
	OSF_PROTO_INET,   /* the kernel's TCP */
	OSF_PROTO_SHM,    /* shared memory */
	OSF_PROTO_MODULE, /* a module's protocol */
	OSF_PROTO_TCP,    /* our own TCP, over a port */
	OSF_PROTOS
};

/*
 * OSF_STATS_UNSEEN: the kernel serves the socket, and osf no longer counts its
 * calls: *_bytes_inet and *_ops are old.  While the process runs, a reader can
 * ask the kernel: its count of the connection's bytes (TCP_INFO), less
 * *_bytes_other, is what *_bytes_inet should be.  When the socket is closed, or
 * the process ends in an orderly way, the library does that itself, corrects
 * *_bytes_inet, and clears the flag.
 */
enum osf_stats_flags { OSF_STATS_UNSEEN = 1 };

/* What has happened in this process, closed sockets included. */
struct osf_stats_totals {
	uint64_t n_sockets;   /* TCP sockets seen: created or accepted */
	uint64_t n_connected; /* connections opened from here */
	uint64_t n_accepted;  /* connections accepted here */
	uint64_t n_upgraded;  /* of those, moved to shared memory */
	uint64_t n_fallbacks; /* of those, returned to the kernel */
	uint64_t n_broken;    /* reset because the peer's segment lied */
	uint64_t n_proposals; /* proposals made */
	uint64_t n_proposals_expired; /* proposals that no peer accepted */
	uint64_t rx_bytes_shm, tx_bytes_shm;   /* of closed sockets only */
	uint64_t rx_bytes_inet, tx_bytes_inet; /* of closed sockets only */
	uint64_t rx_ops, tx_ops;               /* of closed sockets only */
	uint64_t n_spins, n_sleeps, n_wakes;   /* of closed sockets only */
	uint64_t n_reason[64]; /* closed sockets by their last osf_reason */
	/* since 1.1 */
	uint64_t tx_bytes_ref; /* of tx_bytes_shm, by reference; closed only */
	/* since 1.2 */
	uint64_t
	    n_uncounted; /* closed sockets with OSF_STATS_UNSEEN still set */
	uint64_t
	    n_raw; /* 1: the program's system calls do not go through libc */
	/* since 1.6: frames that its own TCP has dropped, a short while ago, by
	 * reason: a line of osf's src/base/drop.def each, in that order */
	uint64_t n_drop[64];
};

/*
 * What the process logs, since 1.3: at OSF_STATS_LOG_AT bytes from the start.  Its
 * user and root may write level and details into the file; they hold from the next
 * message on.
 */
struct osf_stats_log {
	int32_t level;   /* 0 errors to 3 everything; -1 nothing */
	int32_t details; /* 1: each line has the thread; 3: the time, too */
	int32_t fd;      /* the log's descriptor in that process, or -1 */
	int32_t reserved;
};
#define OSF_STATS_LOG_AT 2048

/*
 * A socket that VMA's extra API has served, and what became of its packets, since
 * 1.3: a table of OSF_STATS_PACKETS_MAX from OSF_STATS_PACKETS_AT on, in files whose
 * header_size holds it.  With more sockets, the others are not in it.
 */
struct osf_stats_packets {
	uint32_t in_use; /* 0 free; else a number that changes on reuse */
	int32_t fd;
	uint8_t is_udp;
	uint8_t reserved[7];
	uint64_t n_received; /* the program has them, or will read them */
	uint64_t rx_bytes;   /* of those */
	uint64_t n_dropped;  /* by its callback */
	uint64_t n_held,
	    n_freed;        /* lent to the program; of those, given back */
	uint64_t n_dummies; /* sends of VMA_SND_FLAGS_DUMMY */
	uint64_t dropped_bytes;
	/* since 1.5; UDP only: sends, and calls that found nothing or failed */
	uint64_t n_sent, tx_bytes;
	uint64_t rx_eagains, tx_eagains;
	uint64_t rx_errors, tx_errors;
	uint64_t reserved2;
};
#define OSF_STATS_PACKETS_AT 4096
#define OSF_STATS_PACKETS_MAX 128

struct osf_stats_header {
	uint64_t magic;
	uint32_t version;
	uint32_t header_size; /* bytes from the start to entry 0 */
	uint32_t sock_size;   /* bytes from one entry to the next */
	uint32_t n_socks;     /* entries ever used; read with acquire */
	uint32_t pid;
	uint32_t uid;
	uint64_t started_ns; /* CLOCK_REALTIME */
	char program[64];    /* argv[0]'s last part, NUL terminated */
	struct osf_stats_totals totals;
};

/* One open socket.  An entry with in_use == 0 is free: skip it. */
struct osf_stats_sock {
	uint32_t in_use; /* 0 free; else a number that changes on reuse */
	int32_t fd;      /* lowest descriptor it was opened under */
	uint16_t family; /* AF_INET or AF_INET6, 0 when not known yet */
	uint8_t proto;   /* enum osf_stats_proto */
	uint8_t reason;  /* enum osf_reason: why it runs there */
	uint8_t passive; /* 1 accepted, 0 connected (or neither) */
	uint8_t listening;
	uint16_t local_port, peer_port; /* host order */
	uint8_t shared; /* since 1.2: several processes have had it, by fork */
	uint8_t ended;  /* since 1.2: it is closed, and not yet counted so */
	uint8_t local_addr[16], peer_addr[16]; /* v4 in the first 4 bytes */
	uint64_t opened_ns;                    /* CLOCK_REALTIME */
	uint64_t since_ns; /* CLOCK_REALTIME: on this protocol since */
	uint64_t rx_bytes_inet, tx_bytes_inet;
	uint64_t rx_bytes_shm, tx_bytes_shm;
	uint64_t rx_ops, tx_ops; /* calls that moved bytes */
	uint64_t n_spins;        /* waits that spinning ended */
	uint64_t n_sleeps;       /* waits that went to sleep in the kernel */
	uint64_t n_wakes;        /* doorbells rung for the peer */
	/* since 1.1 */
	uint64_t tx_bytes_ref; /* of tx_bytes_shm, by reference: not copied */
	/* since 1.2 */
	uint64_t
	    rx_bytes_other; /* what the kernel's own count of the connection */
	uint64_t tx_bytes_other; /* has besides the stream: doorbells */
	uint32_t flags;          /* enum osf_stats_flags */
	uint32_t reserved;
	/* since 1.3; calls that pass by osf are not counted */
	uint64_t rx_ops_inet, tx_ops_inet; /* of rx_ops, tx_ops */
	/* Calls that found nothing to do (EAGAIN), and calls that failed: first
	 * those that the kernel served, then those that another protocol
	 * served. */
	uint64_t rx_eagains_inet, tx_eagains_inet;
	uint64_t rx_errors_inet, tx_errors_inet;
	uint64_t rx_eagains, tx_eagains;
	uint64_t rx_errors, tx_errors;
	uint64_t rx_most; /* bytes that one call has found, not by the kernel */
	/* Since 1.4: our own TCP, as it was a short while ago: segments;
	 * microseconds; segments that were sent again since the connection
	 * moved to a port; how often the connection was taken from the kernel
	 * and given back. */
	uint32_t cwnd, srtt_us;
	uint64_t n_retransmitted;
	uint32_t n_freezes, n_thaws;
};

/* What version 1.0 had. */
#define OSF_STATS_HEADER_MIN                                                   \
	offsetof(struct osf_stats_header, totals.tx_bytes_ref)
#define OSF_STATS_SOCK_MIN offsetof(struct osf_stats_sock, tx_bytes_ref)

#endif
