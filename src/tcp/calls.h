/* SPDX-License-Identifier: MIT */
/*
 * tcp/calls.h - what a program does with connections
 *
 *     tcp_listen(), tcp_connect() -> tcp_accept(), tcp_next_ready() -> tcp_poll()
 *         -> tcp_send(), tcp_peek(), tcp_consume() -> tcp_shutdown(), tcp_close()
 *
 * No call blocks.  A call that cannot go on returns -EAGAIN, and tcp_next_ready() names
 * the connection when it can.
 */
#pragma once

#include <sys/types.h>

#include "base/extent.h"
#include "tcp/config.h"

struct tcp_stack;
struct tcp_conn;
struct tcp_listener;

/* --- opening --- */

/**
 * tcp_listen() - accept connections to a port
 * @addr: NULL for all addresses of the stack
 * @backlog: how many may wait for tcp_accept(), 1 at least
 *
 * Return: 0, or
 *   -EADDRINUSE     another listener has the port
 *   -EADDRNOTAVAIL  @addr is no address of the stack
 *   -ENFILE         too many listeners
 */
MUST_CHECK int tcp_listen(struct tcp_stack *s, const struct ip_addr *addr,
			  uint16_t port, uint32_t backlog,
			  struct tcp_listener **out);

/* As tcp_listen(), but several listeners that were made by this call may share an address
 * and port.  A hash of the peer decides which of them gets a connection (SO_REUSEPORT). */
MUST_CHECK int tcp_listen_shared(struct tcp_stack *s,
				 const struct ip_addr *addr, uint16_t port,
				 uint32_t backlog, struct tcp_listener **out);

/* Closes the listener, and resets the connections that nobody has accepted. */
void tcp_unlisten(struct tcp_listener *l, uint64_t now_ns);

/* Return: the connection that has waited longest, or NULL. */
struct tcp_conn *tcp_accept(struct tcp_listener *l);

/**
 * tcp_connect() - open a connection
 * @lport: 0 chooses a port of the configuration's (RFC 6056)
 *
 * An earlier connection with the same addresses and ports that is in TIME-WAIT does not
 * prevent it, if that connection used timestamps (RFC 6191).
 *
 * Return: 0, or
 *   -EADDRNOTAVAIL  @laddr is no address of the stack, or no port is free
 *   -EADDRINUSE     there is such a connection
 *   -EAFNOSUPPORT   one address is IPv4 and the other IPv6
 *   -ENETUNREACH    @raddr is no host's address, or there is no route to it
 *   -ENOBUFS        no memory for a connection
 */
MUST_CHECK int tcp_connect(struct tcp_stack *s, const struct ip_addr *laddr,
			   uint16_t lport, const struct ip_addr *raddr,
			   uint16_t rport, uint64_t now_ns,
			   struct tcp_conn **out);

/* As tcp_connect(), but it chooses the port from @within (IP_LOCAL_PORT_RANGE).  A limit
 * of @within that lies outside of the configured ports has no effect.
 * Return: as tcp_connect(), or -EINVAL: @within ends before it begins */
MUST_CHECK int tcp_connect_within(struct tcp_stack *s,
				  const struct ip_addr *laddr, uint16_t lport,
				  struct tcp_ports within,
				  const struct ip_addr *raddr, uint16_t rport,
				  uint64_t now_ns, struct tcp_conn **out);

/* --- sending --- */

/**
 * tcp_send() - offer bytes; the engine copies what it takes
 *
 * Return: bytes taken, 1 to @len, or
 *   -EAGAIN    not connected yet, the send buffer is full, or no memory
 *   -EPIPE     the program has shut this direction, or the connection is over
 *   another    the connection's error, once
 */
ssize_t tcp_send(struct tcp_conn *c, const void *buf, size_t len,
		 uint64_t now_ns);

enum tcp_send_how {
	TCP_SEND_URGENT = 1, /* the last byte is urgent (MSG_OOB) */
	TCP_SEND_MORE = 2,   /* a small segment waits for more (MSG_MORE) */
	/* If the call takes all bytes, no later byte shares a segment with them
	 * (MSG_EOR). */
	TCP_SEND_EOR = 4,
};

/* As tcp_send(), with enum tcp_send_how. */
ssize_t tcp_send_as(struct tcp_conn *c, const void *buf, size_t len,
		    unsigned how, uint64_t now_ns);

/* Announces a send on @c.  The engine fetches the connection into the cache; when the
 * calls for the next connections come, it also fetches what @c points to.  A program that
 * sends on many connections names each of them some eight connections ahead.  It may
 * close @c before its send. */
void tcp_send_soon(struct tcp_stack *s, const struct tcp_conn *c);

/* Bytes of the program that the engine sends without a copy.  The program owns the struct
 * as well as the bytes. */
struct tcp_lent {
	struct extent ext;
	struct list link;
	struct tcp_stack *stack;
	void *user; /* free for the program's use */
};

#define TCP_LENT_MAX (1u << 30)

/**
 * tcp_send_lent() - send bytes without a copy
 * @data: must not change until tcp_next_returned() returns @z
 * @len: 1 to TCP_LENT_MAX
 *
 * The call takes all bytes or none.  tcp_next_returned() returns @z once, when the peer
 * has acknowledged the bytes or the connection is over, and no frame refers to them.
 *
 * Return: 0, or the errors of tcp_send()
 */
MUST_CHECK int tcp_send_lent(struct tcp_conn *c, struct tcp_lent *z,
			     const void *data, uint32_t len, uint64_t now_ns);

/* Return: lent bytes that the engine needs no longer, or NULL.  Ask after
 * tcp_stack_fini(), too. */
struct tcp_lent *tcp_next_returned(struct tcp_stack *s);

/* --- receiving --- */

/**
 * tcp_peek() - the next received bytes, without a copy
 *
 * They stay valid until tcp_consume().
 *
 * Return: bytes at *@data, 0 at the end of the stream, or
 *   -EAGAIN    no bytes have arrived
 *   another    the connection's error, once
 */
ssize_t tcp_peek(struct tcp_conn *c, const uint8_t **data);

/**
 * tcp_peek_at() - received bytes further on (MSG_PEEK)
 * @off: skip so many readable bytes
 *
 * Received bytes lie in pieces.  A caller begins at 0 and adds what each call returns.
 * The bytes end before an urgent byte, as those of a read do.
 *
 * Return: bytes at *@data; 0: there are no more; for @off 0, what tcp_peek() returns
 */
ssize_t tcp_peek_at(struct tcp_conn *c, uint32_t off, const uint8_t **data);

/* Frees the first @n bytes that tcp_peek() returned. */
void tcp_consume(struct tcp_conn *c, uint32_t n, uint64_t now_ns);

/**
 * tcp_recv_urgent() - the urgent byte (MSG_OOB)
 *
 * Return: 1; 0 at the end of the stream, or
 *   -EAGAIN  the peer has announced it, and it has not arrived
 *   -EINVAL  none was announced, it was read, or it is read in line
 * Spec: RFC 6093, as Linux does it
 */
ssize_t tcp_recv_urgent(struct tcp_conn *c, uint8_t *byte, bool is_peek);

/* --- ending --- */

/* Sends a FIN after the last byte.  Return: 0, or -ENOTCONN */
int tcp_shutdown(struct tcp_conn *c, uint64_t now_ns);

/* Gives the connection back to the engine, which delivers what was sent and then sends a
 * FIN.  It resets the connection instead if there are unread bytes, if the program has set
 * a linger of 0, or if too many closed connections are not over yet.  @c is invalid on
 * return. */
void tcp_close(struct tcp_conn *c, uint64_t now_ns);

/* Resets the connection and gives it back.  @c is invalid on return. */
void tcp_abort(struct tcp_conn *c, uint64_t now_ns);

/* --- state --- */

enum tcp_events {
	TCP_READABLE = 1,    /* bytes, the end of the stream, or an error */
	TCP_WRITABLE = 2,    /* room for bytes */
	TCP_PEER_CLOSED = 4, /* the peer's FIN has arrived */
	TCP_ERROR = 8,       /* tcp_error() returns it */
	TCP_HUNG_UP = 16,    /* both directions are over */
	TCP_URGENT = 32,     /* tcp_recv_urgent() has a byte */
};

/* Return: enum tcp_events that hold now. */
unsigned tcp_poll(const struct tcp_conn *c);

/* Return: the error, 0 or a negative errno.  The call clears it. */
int tcp_error(struct tcp_conn *c);

/* Whether the next byte to read is the urgent one, or was (SIOCATMARK). */
bool tcp_is_at_mark(const struct tcp_conn *c);

/* SIOCINQ, SIOCOUTQ and SIOCOUTQNSD. */
uint32_t tcp_readable_bytes(const struct tcp_conn *c);
uint32_t tcp_unacked_bytes(const struct tcp_conn *c);
uint32_t tcp_unsent_bytes(const struct tcp_conn *c);
/* Bytes for which the send buffer has room. */
uint32_t tcp_room(const struct tcp_conn *c);

void tcp_set_user(struct tcp_conn *c, void *user);
void *tcp_user(const struct tcp_conn *c);
