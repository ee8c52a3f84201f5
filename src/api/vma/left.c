/* SPDX-License-Identifier: MIT */
/*
 * api/vma/left.c - UDP sockets that a rule leaves to the kernel
 *
 *     bind(), connect()  ->  left_decide()  ->  udp_receiver, udp_connect
 *     a dummy send       ->  left_to()      ->  udp_sender, for its destination
 *
 * The kernel moves the bytes of all UDP sockets.  So a rule that says "os" decides
 * whether this API serves the socket, as with libvma: such a socket is none of ours.  It
 * stays so until it is closed.  A rule that is added later is for sockets that get their
 * address later.
 */
#include <errno.h>
#include <string.h>

#include "api/vma/ring.h"
#include "api/vma/vma.h"
#include "base/libc.h"
#include "ops/policy.h"

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

bool left_is(int fd)
{
	struct sockaddr_storage local = { 0 }, peer = { 0 };
	socklen_t len = sizeof(local), peer_len = sizeof(peer);
	int saved = errno;
	bool is = false;

	if (!libc.getsockname(fd, (struct sockaddr *)&local, &len) &&
	    has_port(&local))
		is = is_os(ROLE_UDP_RECEIVER, (struct sockaddr *)&local, NULL);
	if (!is && !libc.getpeername(fd, (struct sockaddr *)&peer, &peer_len))
		is = is_os(ROLE_UDP_CONNECT, (struct sockaddr *)&peer,
			   (struct sockaddr *)&local);
	errno = saved;
	return is;
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

void vma_addressed(int fd)
{
	bool is_udp;
	int err;

	if (!policy_has_rules() || !vsock_is_inet(fd, &is_udp) || !is_udp)
		return;
	VISIT(v, vsock_make(fd, &err)); /* new: it asks left_is() */
	if (!v.s || !left_is(fd))
		return;
	visit_lock_rx(&v);
	store_rlx(&v.s->is_left, true);
	vsock_set_callback(v.s, NULL, NULL);
	ring_leave(v.s);
}
