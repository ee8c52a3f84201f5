/* SPDX-License-Identifier: MIT */
/*
 * mellanox/xlio_types.h - types, values and callbacks of the XLIO socket API
 *
 * Laid out as programs for libxlio expect (LP64); tests/xlio/abi.c compares
 * every size and offset.  Names of the published documents and of the shipped
 * headers are both here.  What works where: docs/xlio.md.
 */
#ifndef XLIO_TYPES_H
#define XLIO_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Options of setsockopt() at level SOL_SOCKET; and of getsockopt(-2, ...). */
#define SO_XLIO_GET_API 2800
#define SO_XLIO_RING_ALLOC_LOGIC 2810
#define SO_XLIO_SHUTDOWN_RX 2821
#define SO_XLIO_EXT_VLAN_TAG 2824

/* Names of libxlio until 3.51, so that programs compile.  The options answer
 * ENOPROTOOPT, and the flags and values have no meaning here. */
#define SO_XLIO_USER_DATA 2801
#define SO_XLIO_FLOW_TAG 2820
#define SO_XLIO_PD 2822
#define SCM_XLIO_PD SO_XLIO_PD
#define SCM_XLIO_NVME_PD 2823
#define SO_XLIO_ISOLATE 2825
#define CMSG_XLIO_IOCTL_USER_ALLOC 2900
#define MSG_XLIO_ZCOPY_FORCE 0x01000000
#define MSG_XLIO_ZCOPY 0x00040000
#define XLIO_SND_FLAGS_DUMMY 0x400 /* MSG_SYN */
#define SOCKETXTREME_POLL_TX (1 << 15)

typedef enum {
	XLIO_PACKET_DROP = 0,
	XLIO_PACKET_RECV = 1,
	XLIO_PACKET_HOLD = 2,
} xlio_recv_callback_retval_t;
#define XLIO_PACKET_DROP XLIO_PACKET_DROP
#define XLIO_PACKET_RECV XLIO_PACKET_RECV
#define XLIO_PACKET_HOLD XLIO_PACKET_HOLD

/* A handle: an index and a generation, never 0, never an address.  A stale one is
 * refused with EINVAL. */
typedef uintptr_t xlio_poll_group_t;
typedef uintptr_t xlio_socket_t;

/* Goes with received data until it is returned.  @userdata is the application's,
 * and holds nothing in particular when it is handed out. */
struct xlio_buf {
	uint64_t userdata;
};

/* Events of a socket. */
enum {
	/* The connection that xlio_socket_connect() began is there.  Not for
	 * accepted ones. */
	XLIO_SOCKET_EVENT_ESTABLISHED = 1,
	/* The last event, once, after all completions; the handle is stale from
	 * now on.  Buffers may still be returned to the group. */
	XLIO_SOCKET_EVENT_TERMINATED = 2,
	/* The peer sends no more.  Sending goes on. */
	XLIO_SOCKET_EVENT_CLOSED = 3,
	/* The connection has failed; value is an errno: ECONNABORTED, ECONNRESET,
	 * ECONNREFUSED or ETIMEDOUT; or ENOBUFS, of osf only: the program keeps so
	 * much received data that there is no memory for more.  Not after
	 * xlio_socket_destroy(). */
	XLIO_SOCKET_EVENT_ERROR = 4,
};
/* For #ifdef. */
#define XLIO_SOCKET_EVENT_ESTABLISHED XLIO_SOCKET_EVENT_ESTABLISHED
#define XLIO_SOCKET_EVENT_TERMINATED XLIO_SOCKET_EVENT_TERMINATED
#define XLIO_SOCKET_EVENT_CLOSED XLIO_SOCKET_EVENT_CLOSED
#define XLIO_SOCKET_EVENT_ERROR XLIO_SOCKET_EVENT_ERROR

/**
 * xlio_memory_cb_t - memory that received data may lie in
 * @len: bytes
 * @hugepage_size: bytes of a huge page; 0: ordinary pages, or an external allocator
 *
 * Context: the thread whose call needed the memory; no call of this API is allowed.
 */
typedef void (*xlio_memory_cb_t)(void *addr, size_t len, size_t hugepage_size);

/* Context of the four below: the thread that polls the group, inside
 * xlio_poll_group_poll(), and for TERMINATED also inside
 * xlio_poll_group_destroy() and xlio_exit().  All calls of this API are allowed
 * but polling, flushing out of turn or destroying this group; sending to a socket
 * that is being destroyed fails. */
typedef void (*xlio_socket_event_cb_t)(xlio_socket_t sock,
				       uintptr_t userdata_sq, int event,
				       int value);
/* The data of a send operation has been acknowledged and its memory is not used any
 * more. */
typedef void (*xlio_socket_comp_cb_t)(xlio_socket_t sock, uintptr_t userdata_sq,
				      uintptr_t userdata_op);
/* @len bytes at @data are the application's, to read, until it returns @buf, in
 * whatever order, after the socket has gone too.  It may keep as much as it likes, up
 * to a limit of memory (docs/xlio.md, "Keeping received data"). */
typedef void (*xlio_socket_rx_cb_t)(xlio_socket_t sock, uintptr_t userdata_sq,
				    void *data, size_t len,
				    struct xlio_buf *buf);
/* @sock is in the group of @parent, with a userdata_sq of 0: see
 * xlio_socket_update().  Comes before anything else of @sock. */
typedef void (*xlio_socket_accept_cb_t)(xlio_socket_t sock,
					xlio_socket_t parent,
					uintptr_t parent_userdata_sq);

struct xlio_init_attr {
	unsigned flags; /* 0 */
	xlio_memory_cb_t memory_cb;
	/* Both or none.  Received data and copies of data to send lie in what
	 * memory_alloc() gave, then: it may fail, with NULL. */
	void *(*memory_alloc)(size_t);
	void (*memory_free)(void *);
};

/* Sends may be made by one other thread at a time while the group is polled. */
#define XLIO_GROUP_FLAG_SAFE 0x1
/* Keep a list of sockets with unflushed data, for xlio_poll_group_flush(). */
#define XLIO_GROUP_FLAG_DIRTY 0x2

struct xlio_poll_group_attr {
	unsigned flags;                         /* XLIO_GROUP_FLAG_* */
	xlio_socket_event_cb_t socket_event_cb; /* required */
	xlio_socket_comp_cb_t socket_comp_cb;
	xlio_socket_rx_cb_t socket_rx_cb; /* NULL: received data is dropped */
	xlio_socket_accept_cb_t socket_accept_cb; /* required to listen */
};

struct xlio_socket_attr {
	unsigned flags; /* 0 */
	int domain;     /* AF_INET or AF_INET6 */
	xlio_poll_group_t group;
	uintptr_t
	    userdata_sq; /* first argument of callbacks after the socket */
};

/* Send now what has been gathered, this operation included. */
#define XLIO_SOCKET_SEND_FLAG_FLUSH 0x1
/* Copy the data before returning; there is no completion. */
#define XLIO_SOCKET_SEND_FLAG_INLINE 0x2

struct xlio_socket_send_attr {
	unsigned flags;        /* XLIO_SOCKET_SEND_FLAG_* */
	uint32_t mkey;         /* lkey of the memory; 0: not registered */
	uintptr_t userdata_op; /* not 0: ask for a completion */
};

/* The same by the names of the documents. */
#define xlio_send_attr xlio_socket_send_attr
#define XLIO_SEND_FLAG_FLUSH XLIO_SOCKET_SEND_FLAG_FLUSH
#define XLIO_SEND_FLAG_INLINE XLIO_SOCKET_SEND_FLAG_INLINE

/* SO_MAX_PACING_RATE of libxlio: one of these, of 12 bytes; or 4 bytes, a number of
 * bytes a second.  A rate of 0 is no limit. */
struct xlio_rate_limit_t {
	uint32_t rate;           /* Kb/s */
	uint32_t max_burst_sz;   /* bytes; not used */
	uint16_t typical_pkt_sz; /* not used */
};

/* SO_XLIO_RING_ALLOC_LOGIC: accepted, and without effect.  vma_extra.h has the
 * same type. */
#ifndef MELLANOX_RING_LOGIC
#define MELLANOX_RING_LOGIC
typedef enum {
	RING_LOGIC_PER_INTERFACE = 0,
	RING_LOGIC_PER_IP = 1,
	RING_LOGIC_PER_SOCKET = 10,
	RING_LOGIC_PER_USER_ID = 11,
	RING_LOGIC_PER_THREAD = 20,
	RING_LOGIC_PER_CORE = 30,
	RING_LOGIC_PER_CORE_ATTACH_THREADS = 31,
	RING_LOGIC_PER_OBJECT = 32,
} ring_logic_t;
#endif

#define RING_LOGIC_PER_INTERFACE RING_LOGIC_PER_INTERFACE
#define RING_LOGIC_PER_IP RING_LOGIC_PER_IP
#define RING_LOGIC_PER_SOCKET RING_LOGIC_PER_SOCKET
#define RING_LOGIC_PER_USER_ID RING_LOGIC_PER_USER_ID
#define RING_LOGIC_PER_THREAD RING_LOGIC_PER_THREAD
#define RING_LOGIC_PER_CORE RING_LOGIC_PER_CORE
#define RING_LOGIC_PER_CORE_ATTACH_THREADS RING_LOGIC_PER_CORE_ATTACH_THREADS
#define RING_LOGIC_PER_OBJECT RING_LOGIC_PER_OBJECT
#undef RING_LOGIC_LAST /* vma_extra.h has libvma's */
#define RING_LOGIC_LAST ((ring_logic_t)33)

#define XLIO_RING_ALLOC_MASK_RING_USER_ID (1 << 0)
#define XLIO_RING_ALLOC_MASK_RING_INGRESS (1 << 1)
#define XLIO_RING_ALLOC_MASK_RING_ENGRESS (1 << 2)

struct xlio_ring_alloc_logic_attr {
	uint32_t comp_mask; /* XLIO_RING_ALLOC_MASK_* */
	ring_logic_t ring_alloc_logic;
	uint32_t user_id;
	uint32_t ingress : 1;
	uint32_t engress : 1; /* spelt so */
	uint32_t reserved : 30;
};

#ifdef __cplusplus
}
#endif

#endif
