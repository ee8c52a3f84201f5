/* SPDX-License-Identifier: MIT */
/*
 * osf/proto.h - how a protocol plugs into the offload protocol switch
 *
 *     module  --ops_proto_register()-->  switch  --ops-->  module
 *     kernel  --rtnetlink-->  ops_inet_notification()  --notify-->  module
 *
 * A module is a shared object named in OSF_MODULES (colon separated paths) with a
 * function `int osf_module_init(void)` that registers its protocols; it links
 * against nothing of osf but these names, which the program has by then.
 *
 * The ABI grows at its end only.  A struct says how large its writer believes it
 * to be, optional fields are announced in comp_mask, an op that is absent (NULL,
 * or beyond size) is not supported.  Either side may be the newer one.
 */
#ifndef OSF_PROTO_H
#define OSF_PROTO_H

#include <stdint.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* socket(AF_INET_OFFLOAD, SOCK_STREAM, 0): offload, or connect() fails.
 * socket(AF_INET_DIRECT, ...): the kernel, never offload.  Addresses passed to
 * bind() and connect() may have AF_INET or the same value as their family. */
#define AF_INET_OFFLOAD 0x4f46
#define AF_INET_DIRECT 0x4f44

enum osf_cap {
	OSF_CAP_SELF_ROUTING = 1 << 0, /* needs no route of the kernel's */
	OSF_CAP_LOCAL = 1 << 1,        /* reaches this host */
	OSF_CAP_REMOTE = 1 << 2,       /* reaches other hosts */
	OSF_CAP_IPV6 = 1 << 3,
	OSF_CAP_RDMA = 1 << 4,
	OSF_CAP_ZCOPY = 1 << 5,
};

enum osf_inet_event_kind {
	OSF_INET_ADDR_ADD = 1,
	OSF_INET_ADDR_DEL,
	OSF_INET_LINK,
	OSF_INET_ROUTE,
};

struct osf_inet_event {
	uint32_t size;
	uint32_t kind;    /* enum osf_inet_event_kind */
	uint32_t ifindex; /* 0 when not known */
	uint32_t family;  /* AF_INET, AF_INET6, 0 */
};

struct osf_proto {
	uint32_t size; /* sizeof(struct osf_proto) of whoever compiled it */
	uint32_t reserved;
	uint64_t comp_mask; /* optional fields that are set; none so far */
	const char *name;   /* 1 to 15 characters of [a-z0-9_-]; rules use it */
	uint64_t caps;      /* OSF_CAP_* */
	int32_t priority;   /* higher is asked first; shm 100, inet 0 */
	int32_t reserved2;

	/*
	 * Try to open a connection.  @fd is the program's socket, not connected,
	 * maybe bound.  On success the module has put a connected stream
	 * descriptor in its place (dup2) and returns 0; -errno lets the switch try
	 * the next candidate, so nothing may have happened to @fd.  It must decide
	 * within @timeout_ms.
	 */
	int (*connect)(int fd, const struct sockaddr *to, socklen_t len,
		       unsigned timeout_ms);
	/* @fd has begun to listen; serve it too.  Errors are ignored. */
	int (*listen)(int fd, int backlog);
	/* Addresses, links or routes changed. */
	void (*notify)(const struct osf_inet_event *event);
};

/**
 * ops_proto_register() - add a protocol to the switch
 * @proto: stays the caller's and must stay valid
 *
 * Return: 0, or
 *   -EINVAL  size smaller than the fields up to priority, a bad name, unknown
 *            bits in comp_mask
 *   -EEXIST  a protocol of that name is registered
 *   -ENOSPC  too many protocols
 */
int ops_proto_register(const struct osf_proto *proto);

/* Take it out again: 0, or -ENOENT.  Connections it opened stay. */
int ops_proto_unregister(const struct osf_proto *proto);

/* Tell the switch, and through it every protocol, of a change.  Called by the
 * switch's own rtnetlink listener, and by modules that know better. */
void ops_inet_notification(const struct osf_inet_event *event);

#ifdef __cplusplus
}
#endif

#endif
