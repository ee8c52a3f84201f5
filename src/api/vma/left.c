/* SPDX-License-Identifier: MIT */
/*
 * api/vma/left.c - sockets that a rule, or a thread, leaves to the kernel
 *
 *     socket()             ->  the thread's choice (thread_offload())
 *     bind(), connect()    ->  UDP: udp_receiver, udp_connect
 *     listen(), connect()  ->  TCP: tcp_server, tcp_client
 *     a dummy send         ->  left_to()  ->  udp_sender, for its destination
 *
 * With libvma such a socket is the kernel's, and libvma's API does not know it.  Here the
 * kernel may move the bytes of any socket, so the rules only decide about the API: it does
 * not know such a socket until the program closes it.  A rule that the program adds later
 * applies to sockets that get their address later.
 */
#include <errno.h>
#include <string.h>

#include "api/vma/below.h"
#include "api/vma/fd_bits.h"
#include "api/vma/vma.h"
#include "api/vma/vsock.h"
#include "base/libc.h"
#include "ops/policy.h"
#include "ops/threads.h"

/* By a call of this process since it has asked for the table. */
static struct fd_bits addressed;

static bool is_os(enum rule_role role, const struct sockaddr *first,
		  const struct sockaddr *second)
{
	const char *says = policy_provider(role, first, second);

	return says && (!strcmp(says, "os") || !strcmp(says, "inet"));
}

static bool has_port(const struct sockaddr_storage *a)
{
	return ((const struct sockaddr_in *)a)->sin_port;
}

static bool is_listener(int fd)
{
	int is = 0;
	socklen_t len = sizeof(is);

	return !libc.getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is, &len) && is;
}

static bool udp_is_left(const void *local, const void *peer)
{
	return is_os(ROLE_UDP_RECEIVER, local, NULL) ||
	       (peer && is_os(ROLE_UDP_CONNECT, peer, local));
}

static bool tcp_is_left(int fd, const void *local, const void *peer)
{
	if (!peer)
		return is_listener(fd) && is_os(ROLE_TCP_SERVER, local, NULL);
	return fd_bits_has(&addressed, fd)
		   ? is_os(ROLE_TCP_CLIENT, peer, local)
		   : is_os(ROLE_TCP_SERVER, local, peer);
}

static bool is_ip(const struct sockaddr *a)
{
	return a && (a->sa_family == AF_INET || a->sa_family == AF_INET6);
}

/* @to: it may not be connected yet. */
static bool by_rule(int fd, bool is_udp, const struct sockaddr *to)
{
	struct sockaddr_storage local = { 0 }, at = { 0 };
	socklen_t len = sizeof(local), at_len = sizeof(at);
	const void *peer = NULL;

	if (libc.getsockname(fd, (struct sockaddr *)&local, &len) ||
	    !has_port(&local))
		return false;
	if (!libc.getpeername(fd, (struct sockaddr *)&at, &at_len))
		peer = &at;
	else if (is_ip(to))
		peer = to;
	return is_udp ? udp_is_left(&local, peer)
		      : tcp_is_left(fd, &local, peer);
}

static bool is_left_now(int fd, bool is_udp, const struct sockaddr *to)
{
	int saved = errno;
	/* The switch asks no rule where it has no protocol but the kernel. */
	bool is = (!is_udp && below_is_left(fd)) ||
		  (policy_has_rules() && by_rule(fd, is_udp, to));

	errno = saved;
	return is;
}

bool left_is(int fd, bool is_udp)
{
	/* Rules that came after its address are not for it. */
	return fd_bits_has(&addressed, fd) ? !is_udp && below_is_left(fd)
					   : is_left_now(fd, is_udp, NULL);
}

void left_forget(unsigned first, unsigned last)
{
	fd_bits_clear(&addressed, first, last);
}

bool left_to(int fd, const struct sockaddr *to)
{
	struct sockaddr_storage local = { 0 }, peer;
	socklen_t len = sizeof(local), peer_len = sizeof(peer);
	int saved = errno;

	if (!policy_has_rules())
		return false;
	libc.getsockname(fd, (struct sockaddr *)&local, &len);
	if (!to && !libc.getpeername(fd, (struct sockaddr *)&peer, &peer_len))
		to = (struct sockaddr *)&peer;
	errno = saved;
	return to && is_os(ROLE_UDP_SENDER, to, (struct sockaddr *)&local);
}

void vma_addressed(int fd, const struct sockaddr *to)
{
	bool is_udp;
	int err;

	fd_bits_set(&addressed, fd);
	if (!policy_has_rules() || !vsock_is_inet(fd, &is_udp) ||
	    !is_left_now(fd, is_udp, to))
		return;
	VISIT(v, vsock_make(fd, &err));
	if (v.s)
		vsock_leave(&v);
}

/* TCP: the switch notes the same of the socket. */
void left_by_thread(int fd)
{
	bool is_udp;
	int err;

	if (!thread_leaves() || !vsock_is_inet(fd, &is_udp) || !is_udp)
		return;
	VISIT(v, vsock_make(fd, &err));
	if (v.s)
		vsock_leave(&v);
}
