/* SPDX-License-Identifier: MIT */
/*
 * osf/group.h - what osf adds to the XLIO socket API
 *
 *     a poll that counts; a descriptor for a thread that sleeps; wait with timeout;
 *     a getter that says how long its table is
 *
 * Functions return a negative errno on failure and leave errno alone.  -EINVAL:
 * the handle is stale.  Context: the group's thread, not inside a callback of
 * the group (-EBUSY).
 */
#ifndef OSF_GROUP_H
#define OSF_GROUP_H

#include <stddef.h>
#include <stdint.h>

#include <mellanox/xlio_extra.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * osf_group_poll() - xlio_poll_group_poll() that returns a count
 *
 * Return: how many callbacks were made, or a negative errno.
 */
int osf_group_poll(xlio_poll_group_t group);

/**
 * osf_group_fd() - a descriptor that is readable when a group wants to be
 * polled
 *
 * Use it only in poll(), select() and epoll sets.  It reports events after
 * osf_group_arm() has returned 0, and may be readable without an event.
 *
 * Return: the descriptor, or a negative errno.
 * Owns: the group.
 */
int osf_group_fd(xlio_poll_group_t group);

/**
 * osf_group_arm() - call before a sleep on osf_group_fd()
 *
 * Return: 1: poll the group again first; 0: sleep, and poll it after that; or a
 * negative errno.
 */
int osf_group_arm(xlio_poll_group_t group);

/**
 * osf_group_wait() - poll; if nothing is ready, sleep until something is
 * @timeout_ms: milliseconds at most; 0: do not sleep; -1: for ever
 *
 * Other threads must not use the group during the call.  With
 * XLIO_GROUP_FLAG_SAFE they may send to its sockets.
 *
 * Return: how many callbacks were made; 0 at the timeout; -EINTR: a signal
 * handler has run; or another negative errno.
 */
int osf_group_wait(xlio_poll_group_t group, int timeout_ms);

/**
 * osf_mem_alloc() - memory that is sent without a copy to peers on this host
 * @size: bytes
 *
 * xlio_socket_send() over shared memory, to a peer that uses poll groups too,
 * does not copy whole pages of 4096 bytes of this memory: the peer reads them
 * in place.  As always, do not change them until the operation is complete,
 * which here means until the peer has returned its buffers.  The same holds for
 * the program's own memory, registered by ibv_reg_mr() on xlio_socket_get_pd(),
 * if it is part of a shared mapping of a memfd; the registration seals the
 * memfd against shrinking.
 *
 * Peers can read all of the memory of this allocator.  After fork() parent and
 * child share its contents, as of any shared mapping; later allocations of the
 * child are separate.
 *
 * Return: memory aligned to 64 bytes, or to 4096 if it is larger than 2048;
 * NULL: out of memory.
 * Owns: the caller, until osf_mem_free().
 * Context: any thread, callbacks included.
 */
void *osf_mem_alloc(size_t size);

/* Return what osf_mem_alloc() gave; NULL is fine.  Context: any thread. */
void osf_mem_free(void *p);

/* The functions, as osf_xlio_api_get() gives them.  Grows at its end only. */
struct osf_xlio_api {
	uint32_t size; /* in: what the caller has room for; out: what is set */
	uint32_t reserved; /* 0 */
	uint64_t
	    comp_mask; /* in: OSF_XLIO_API_* that must be there; out: that are */
	const struct xlio_api_t *xlio; /* as of libxlio 3.61 */
	int (*xlio_poll_group_update)(xlio_poll_group_t group,
				      const struct xlio_poll_group_attr *attr);
	int (*group_poll)(xlio_poll_group_t group);
	int (*group_fd)(xlio_poll_group_t group);
	int (*group_arm)(xlio_poll_group_t group);
	int (*group_wait)(xlio_poll_group_t group, int timeout_ms);
	void *(*mem_alloc)(size_t size);
	void (*mem_free)(void *p);
};

enum {
	OSF_XLIO_API_UPDATE = 1 << 0, /* xlio_poll_group_update */
	OSF_XLIO_API_WAIT = 1 << 1,   /* group_poll to group_wait */
	OSF_XLIO_API_MEM = 1 << 2,    /* mem_alloc, mem_free */
};

/* getsockopt(-2, SOL_SOCKET, OSF_SO_XLIO_API, &api, &len) is the same call, for
 * programs that do not link with the library. */
#define OSF_SO_XLIO_API 2860

/**
 * osf_xlio_api_get() - the functions, whatever OSF_XLIO_ABI says
 * @api: set size and comp_mask, and the rest to 0
 *
 * Functions beyond the caller's size are not set; those beyond the library's
 * stay 0.
 *
 * Return: 0; -EINVAL: size is too small to be one, or @api is NULL;
 * -EOPNOTSUPP: the library does not know a bit of comp_mask.
 * Context: any.
 */
int osf_xlio_api_get(struct osf_xlio_api *api);

#ifdef __cplusplus
}
#endif

#endif
