/* SPDX-License-Identifier: MIT */
/*
 * group/group.h - sets of sockets that one thread serves, by callbacks
 *
 *     group_create -> gsock_create -> gsock_connect, gsock_listen
 *     group_turn: arrivals, room, completions, ends  ->  callbacks
 *
 *   handle.c  indices with generations, for applications to hold
 *   buf.c     memory for what was received
 *   memory.c  memory that may be sent by reference; registered.c, the program's own
 *   gsock.c   the state of a group and of a socket in it; calling back
 *   wake.c    waking a thread that sleeps on a group
 *   set.c     the epoll set, hot places and lists that a socket is in
 *   lent.c    bytes that the application reads in place
 *   txop.c    send operations
 *   ref.c     sending by reference
 *   sync.c    what a group does after an upgrade or a fallback
 *   ack.c     when sent operations are complete
 *   fail.c    a connection that has failed
 *   push.c    sends bytes
 *   rx.c      delivers bytes to the application
 *   tx.c      operations: gathered and flushed
 *   end.c     destroy, TERMINATED
 *   open.c    sockets: create, connect, listen, accept, move between groups
 *   wait.c    sleeping until there is something to do
 *   turn.c    one turn
 *   group.c   the life of groups; fork, exit
 *
 * That is an order: a file calls those above it in this list, as src/LAYERS
 * says.
 *
 * A group's sockets are served by their kernel socket or, after an upgrade, by
 * a protocol (sock/sock_ops.h, sock/lend.h).  Their descriptors are the group's
 * own: the file table has no entry for them.  A group has a kernel epoll set
 * for its descriptors, and a ready set (sock/ready.h) for notifications without
 * the kernel.
 *
 * Owner: one thread at a time.  No locks inside, except the group's own if the
 * program asks for it.  Functions return 0 or negative errno.  Those that may
 * call back say so.
 *
 * Guarantees for a socket:
 *   G1  no callback after TERMINATED, which is called back once
 *   G2  each operation with a userdata is completed once, before TERMINATED
 *   G3  after destroy only completions and TERMINATED are called back
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/compiler.h"

struct group;
struct gsock;

/* Belongs to received data until the application returns it.  The bytes are the
 * API's, which may show them to the program. */
#define GROUP_BUF_BYTES 16u

struct group_buf {
	alignas(8) uint8_t api[GROUP_BUF_BYTES];
};

enum group_event {
	GROUP_ESTABLISHED = 1, /* of one that was connected, not accepted */
	GROUP_TERMINATED,      /* the last: the handle is stale from now on */
	GROUP_CLOSED,          /* the peer sends no more */
	GROUP_ERROR,           /* the value is an errno */
};

/*
 * The callbacks.  A socket is passed as its handle, with the userdata that the
 * API gave it.  Each callback also gets the group's copy of this struct, in
 * which the API finds the program's own functions.
 */
struct group_calls {
	void (*event)(uintptr_t sock, uintptr_t userdata,
		      enum group_event event, int value,
		      const struct group_calls *c);
	/* NULL: no completions.  @op: the operation's userdata. */
	void (*comp)(uintptr_t sock, uintptr_t userdata, uintptr_t op,
		     const struct group_calls *c);
	/* NULL: received data is dropped. */
	void (*rx)(uintptr_t sock, uintptr_t userdata, void *data, size_t len,
		   struct group_buf *buf, const struct group_calls *c);
	/* NULL: sockets of this group do not listen. */
	void (*accept)(uintptr_t sock, uintptr_t parent,
		       uintptr_t parent_userdata, const struct group_calls *c);
	void (*own[4])(void); /* the program's, each of a type of its API's */
};

struct group_attr {
	bool
	    is_locked; /* threads may enter it at once, and wait for each other */
	bool keeps_dirty; /* for group_flush() */
	struct group_calls calls;
};

/* Where received data and copies may lie. */
struct group_memory {
	/* NULL, or called with each block before its first use; @page: bytes of
	 * a huge page, or 0. */
	void (*announce)(void *addr, size_t len, size_t page);
	/* Both or none: the program's allocator. */
	void *(*alloc)(size_t len);
	void (*free)(void *addr);
	uint64_t limit; /* bytes, of all groups; 0: none */
};

/* For the whole process.  -EEXIST: done before, and @memory has an allocator.
 * -EBUSY: called inside a callback. */
MUST_CHECK int groups_init(const struct group_memory *memory);
bool groups_are_ready(void);
MUST_CHECK int groups_exit(void); /* calls back */
/* The process ends: do what is needed to not lose written bytes. */
void groups_at_exit(void);

/* From handles, with the group entered; NULL: stale. */
struct group *group_enter(uintptr_t handle);
void group_leave(struct group *g);
/* @g may be NULL: the socket is in none. */
struct gsock *gsock_enter(uintptr_t handle, struct group **g);

MUST_CHECK int group_create(const struct group_attr *attr, uintptr_t *out);
MUST_CHECK int group_destroy(struct group *g); /* calls back; leaves it, too */
MUST_CHECK int group_update(struct group *g, const struct group_attr *attr);
/* Calls back.  The number of callbacks; -EBUSY from inside of one. */
int group_turn(struct group *g);
void group_flush(struct group *g);
/* wait.c: the epoll set; 1: an event is there already, 0: sleep on the set. */
int group_fd(const struct group *g);
int group_arm(struct group *g);

MUST_CHECK int gsock_create(struct group *g, int domain, uintptr_t userdata,
			    uintptr_t *out);
/* Calls back if the socket is in no group, and then it is gone. */
MUST_CHECK int gsock_destroy(struct gsock *s);
void gsock_set_userdata(struct gsock *s, uintptr_t userdata);
int gsock_fd(const struct gsock *s);
MUST_CHECK int gsock_setsockopt(struct gsock *s, int level, int name,
				const void *val, socklen_t len);
MUST_CHECK int gsock_bind(struct gsock *s, const struct sockaddr *addr,
			  socklen_t len);
MUST_CHECK int gsock_connect(struct gsock *s, const struct sockaddr *to,
			     socklen_t len);
MUST_CHECK int gsock_listen(struct gsock *s);
bool gsock_has_route(const struct gsock *s); /* connected, or about to be */
MUST_CHECK int gsock_detach(struct gsock *s);
MUST_CHECK int gsock_attach(struct gsock *s, struct group *g);

/* Flags of a send. */
#define GROUP_SEND_FLUSH 1u /* it goes out now, with all that was not flushed */
#define GROUP_SEND_COPY 2u /* the memory is the caller's again; no completion */

/* Sends all or nothing.  @key: from memory_register(), or 0.  @op: the
 * completion callback gets it; 0: no completion. */
MUST_CHECK int gsock_send(struct gsock *s, const struct iovec *iov, size_t n,
			  unsigned flags, uint32_t key, uintptr_t op);
void gsock_flush(struct gsock *s);
/* @g: whose thread it is, or NULL.  -EINVAL: the application has no such buffer. */
MUST_CHECK int group_buf_free(struct group *g, struct group_buf *buf);
