/* SPDX-License-Identifier: MIT */
/*
 * osf/proto.h - how a protocol plugs into the offload protocol switch
 *
 *     module  --ops_proto_register()-->  switch  --ops-->  module
 *     kernel  --rtnetlink-->  ops_inet_notification()  --notify-->  module
 *     module  --ops_route()-->  switch  --RTM_GETROUTE-->  kernel
 *
 * A module is a shared object named in OSF_MODULES (colon separated paths) with
 * a function `int osf_module_init(void)` that registers its protocols and
 * returns 0 or -errno; on -errno the switch removes what it has registered.  It
 * links against nothing of osf but the names below, which the program already
 * has. docs/modules.md has a complete one.
 *
 * Replacements.  A module may move bytes itself (osf/stream.h).  Or it has no calls
 * for data and returns a connected stream descriptor, the replacement, which the
 * switch installs over the program's socket.
 * From then on the program's calls go to the replacement itself and cost what they
 * cost there; so do getsockname() and socket options.  Options that the program
 * set on the socket before are lost.  A replacement that is not a TCP socket
 * refuses TCP's options, and some programs take that for a failed connection.
 *
 * The ABI grows at its end only.  In each struct, size is what the writer was
 * compiled with; an op that is NULL, or beyond that size, is not supported.
 * Either side may be the newer one:
 *
 *     older module, newer osf   the ops it lacks are absent
 *     newer module, older osf   accepted if all that this osf does not know is
 *                               zero; otherwise -E2BIG, and the module may
 *                               register again with the size of an older
 *                               generation
 *
 * Context of every op: a thread of the program, inside that thread's call of
 * libc, without any lock of osf's; several may run at once, and in several
 * processes after a fork.  The op may block only as long as it is allowed to.
 * It may use libc freely: osf does not ask modules about what an op opens,
 * connects or accepts.  The module's own TCP sockets must be of family
 * AF_INET_DIRECT, in all its threads, so that osf does not upgrade them.  The
 * op may change errno.
 */
#ifndef OSF_PROTO_H
#define OSF_PROTO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "osf/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* socket(AF_INET_OFFLOAD, SOCK_STREAM, 0): offload, or connect() fails with
 * EHOSTUNREACH. socket(AF_INET_DIRECT, SOCK_STREAM, 0): the kernel, never
 * offload.  The socket reports AF_INET as its family; addresses passed to
 * bind() and connect() may have AF_INET or the same value as their family.  For
 * other types and protocols the kernel answers, with EAFNOSUPPORT. */
#define AF_INET_OFFLOAD 0x4f46
#define AF_INET_DIRECT 0x4f44

/*
 * What a protocol can do. osf ignores bits that it does not know.
 *
 * The switch asks the kernel for the route to a destination, and then asks only
 * the protocols that can go there:
 *
 *     this host                             OSF_CAP_LOCAL
 *     a neighbour                           OSF_CAP_REMOTE
 *     by way of a gateway                   OSF_CAP_REMOTE with OSF_CAP_GATEWAY, or a
 *                                           rule names the protocol
 *     any route, or none                    OSF_CAP_SELF_ROUTING
 */
enum osf_cap {
	OSF_CAP_SELF_ROUTING = 1 << 0, /* needs no route of the kernel's */
	OSF_CAP_LOCAL = 1 << 1,        /* reaches this host */
	OSF_CAP_REMOTE = 1 << 2,       /* reaches other hosts */
	OSF_CAP_IPV6 = 1 << 3,         /* v4-mapped addresses included */
	OSF_CAP_RDMA = 1 << 4,
	OSF_CAP_ZCOPY = 1 << 5,
	OSF_CAP_GATEWAY = 1 << 6, /* sends by the next hop of ops_route() */
};

enum osf_inet_event_kind {
	OSF_INET_ADDR_ADD = 1,
	OSF_INET_ADDR_DEL,
	OSF_INET_LINK,
	OSF_INET_ROUTE, /* or a next hop that routes share */
	OSF_INET_RULE,  /* which routes count */
	OSF_INET_LOST,  /* too much at once: anything may have changed */
};

struct osf_inet_event {
	uint32_t size;    /* bytes that are there; read no further */
	uint32_t kind;    /* enum osf_inet_event_kind; more may come */
	uint32_t ifindex; /* 0 when not known */
	uint32_t family;  /* AF_INET, AF_INET6, 0 when not known */
};

enum osf_route_kind {
	OSF_ROUTE_NONE,    /* there is no way, or none that is allowed */
	OSF_ROUTE_LOCAL,   /* this host */
	OSF_ROUTE_LINK,    /* a neighbour, or a device that needs no next hop */
	OSF_ROUTE_GATEWAY, /* another host forwards */
};

/* Where the kernel would send to.  Addresses are IPv6 ones; of IPv4, v4-mapped. */
struct osf_route {
	uint32_t size;      /* in: bytes that may be written; out: that were */
	uint32_t kind;      /* enum osf_route_kind; more may come */
	uint32_t ifindex;   /* of the device that it leaves by; 0: not known */
	uint32_t reserved;  /* 0 */
	uint8_t hop[16];    /* who is to have it next: the gateway, or the
			    * destination itself */
	uint8_t source[16]; /* what it would send from; all 0: not known */
};
#define OSF_ROUTE_SIZE_1 48

/*
 * @id names one of the program's sockets: an open file description, whatever
 * descriptors it has, from the first op that gets it until close().  The
 * children of a fork have the same @id, and osf may reuse it after close().
 * @fd is a descriptor of it that is valid during the op; the module does not
 * own it.
 */
struct osf_proto {
	uint32_t size;     /* sizeof(struct osf_proto) of whoever compiled it */
	uint32_t reserved; /* 0 */
	uint64_t
	    comp_mask;    /* what osf must know to serve this: no bits so far */
	const char *name; /* 1 to 15 characters of [a-z0-9_-]; rules use it */
	uint64_t caps;    /* OSF_CAP_* */
	int32_t priority; /* those of higher ones are asked first */
	int32_t reserved2; /* 0 */

	/**
	 * connect() - open a connection instead of the kernel
	 * @fd: not connected, maybe bound; the op must not change it
	 * @to: an IPv4 or IPv6 address that caps say can be reached
	 * @timeout_ms: milliseconds to decide in; less if @fd is non-blocking
	 * @replacement: out, on success: a connected stream descriptor
	 *
	 * The switch asks the protocols that the rules allow, in order of
	 * priority, before the kernel's connect(); not for a socket that
	 * another process holds too.  The replacement replaces each descriptor of
	 * the socket and its entries in epoll sets.  O_NONBLOCK and FD_CLOEXEC
	 * become those of @fd.
	 *
	 * Return: 0, or -errno: the next is asked, and the kernel is the last.
	 * Owns: the switch owns the replacement, also if it cannot use it.
	 */
	int (*connect)(uint64_t id, int fd, const struct sockaddr *to,
		       socklen_t len, unsigned timeout_ms, int *replacement);
	/**
	 * listen() - a socket has begun to listen; serve it too
	 * @fd: bound and listening in the kernel
	 * @backlog: as the program gave it; 0 if not known
	 *
	 * Called for all protocols that the rules allow, again when the program
	 * calls listen() again.  Arrivals go through accept().
	 *
	 * Return: 0, or -errno, which is logged: the program's listen() has
	 * succeeded.
	 */
	int (*listen)(uint64_t id, int fd, int backlog);
	/**
	 * notify() - addresses, links or routes have changed
	 *
	 * osf has no thread.  It reports rtnetlink's events inside those calls
	 * of the program that depend on addresses, or that sleep in poll(),
	 * select(), epoll_wait() or in a call on a TCP socket.  An event wakes
	 * nobody who sleeps in an epoll set that processes share after a fork.
	 */
	void (*notify)(const struct osf_inet_event *event);

	/* Generation 1 ends here. */

	/**
	 * accept() - is this arrival yours?
	 * @listener: of listen()
	 * @id, @fd: what the kernel's accept() has returned
	 * @from: in: the address it came from; out: the peer for the program
	 * @len: bytes of @from, in and out
	 * @replacement: out, on success: a connected stream descriptor
	 *
	 * The kernel's listener is the queue of arrivals of all protocols: the
	 * program polls it, it has the backlog and the order, and processes
	 * share it.  So a module (at either end) announces an arrival by a TCP
	 * connection to the listener, the token, from an address that the
	 * module recognizes here.  The token is closed when the replacement
	 * replaces it.
	 *
	 * Return: 0; -EAGAIN: not mine; the next is asked, the kernel last;
	 * -ECONNABORTED: my token, but its connection is gone: osf closes it,
	 * and the program's accept() goes on waiting.
	 * Owns: as with connect().
	 */
	int (*accept)(uint64_t listener, uint64_t id, int fd,
		      struct sockaddr_storage *from, socklen_t *len,
		      int *replacement);
	/**
	 * close() - a listener, or a socket that a replacement replaced, is closed
	 *
	 * Called for every module, and only in the process that is the last to
	 * close it.  Not called when a process ends.
	 */
	void (*close)(uint64_t id);

	/* Generation 2 ends here. */

	/* The protocol moves bytes itself: osf/stream.h.  NULL: by replacements. */
	const struct osf_stream_ops *stream;
};

/* Of osf's own shm.  A module below it is asked only where shm may not be. */
#define OSF_PRIORITY_SHM (-1000)

/* The sizes that a struct osf_proto has had. */
#define OSF_PROTO_SIZE_1 offsetof(struct osf_proto, accept)
#define OSF_PROTO_SIZE_2 offsetof(struct osf_proto, stream)
#define OSF_PROTO_SIZE_3 sizeof(struct osf_proto)

/**
 * ops_proto_register() - add a protocol to the switch
 * @proto: stays the caller's; must stay valid and unchanged
 *
 * Refusals are logged.
 *
 * Return: 0, or
 *   -EINVAL      size below that of the fields up to reserved2, or absurd; a
 *                reserved field is not 0; a bad name; streams beside connect,
 *                listen or accept here, or without an op that they require
 *   -EOPNOTSUPP  bits in a comp_mask that this osf does not know
 *   -E2BIG       something beyond what this osf knows is not 0
 *   -EEXIST      a protocol of that name is registered, or built in
 *   -ENOSPC      too many protocols
 *
 * Context: any thread, not inside an op.
 */
int ops_proto_register(const struct osf_proto *proto);

/* Remove it: 0, or -ENOENT.  Connections that it opened stay; a call that is
 * under way in another thread may still reach it. */
int ops_proto_unregister(const struct osf_proto *proto);

/**
 * ops_route() - how the kernel would send to an address
 * @fd: a socket whose source address, device and mark count; -1: none
 * @route: in: size; out: the rest
 *
 * The switch asks the same before it asks protocols.  Answers are kept until the
 * kernel tells of a change, so an op may ask each time.
 *
 * Return: 0, also for OSF_ROUTE_NONE; -EINVAL; -EAFNOSUPPORT: no IP address.
 *
 * Context: any thread, inside an op or not.
 */
int ops_route(int fd, const struct sockaddr *to, socklen_t len,
	      struct osf_route *route);

/* Report a change to the switch, and so to every protocol.  The switch's own
 * rtnetlink listener calls it, and so may a module. */
void ops_inet_notification(const struct osf_inet_event *event);

#ifdef __cplusplus
}
#endif

#endif
