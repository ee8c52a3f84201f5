/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/steps.c - freeze and thaw, during which osfd may end
 *
 *     grant_freeze(), grant_thaw() -> done, refused
 *                                  -> osfd has gone -> the next one -> undone, done again
 *
 * A thaw waits for the next osfd, as long as wire_wait_for_osfd() does.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "base/libc.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "base/sockopt.h"
#include "proto/tcp/conn.h"
#include "proto/tcp/grant.h"
#include "proto/tcp/wire.h"

#define OSFDS_MAX 4 /* that may end while they do one step of a connection */

/* What a freeze changes and its undoing does not restore. */
static const int switched[] = { SO_REUSEADDR, SO_REUSEPORT, SO_KEEPALIVE };

/* osfd has gone, and nobody knows how far it came. */
static int unfreeze(struct moved *m, const int values[ARRAY_LEN(switched)])
{
	struct sockaddr unspec = { .sa_family = AF_UNSPEC };
	int err = -EIO;

	for (int i = 0; err == -EIO && grant_fd() < 0 && i < OSFDS_MAX; i++) {
		err = wire_wait_for_osfd();
		if (!err)
			err = grant_undo(m);
	}
	for (size_t i = 0; !err && i < ARRAY_LEN(switched); i++)
		libc.setsockopt(m->fd, SOL_SOCKET, switched[i], &values[i],
				sizeof(values[i]));
	if (!err)
		return -EAGAIN;
	log_err("fd %d: connection reset: osfd has gone", m->fd);
	nocancel_connect(m->fd, &unspec, sizeof(unspec));
	return err;
}

int wire_freeze(struct moved *m)
{
	int values[ARRAY_LEN(switched)];

	if (grant_fd() < 0)
		return -EAGAIN;
	for (size_t i = 0; i < ARRAY_LEN(switched); i++)
		values[i] = sockopt_int(m->fd, SOL_SOCKET, switched[i]);
	int err = grant_freeze(m);
	return err == -EIO && grant_fd() < 0 ? unfreeze(m, values) : err;
}

/* osfd has gone.  Had it done all, except perhaps for an ACK? */
static bool is_thawed(const struct moved *m, const struct image_queues *q)
{
	struct tcp_info i = { 0 };
	socklen_t len = sizeof(i), filter = 0;

	return !q->n_unsent && !(m->frozen.flags & FROZEN_PEER_RESET) &&
	       !sockopt_int(m->fd, IPPROTO_TCP, TCP_REPAIR) &&
	       !libc.getsockopt(m->fd, IPPROTO_TCP, TCP_INFO, &i, &len) &&
	       i.tcpi_state == TCP_ESTABLISHED &&
	       !libc.getsockopt(m->fd, SOL_SOCKET, SO_GET_FILTER, NULL,
				&filter) &&
	       !filter;
}

/* osfd has gone, and the connection can stay: the next thaw does all of it again. */
static bool is_frozen(const struct moved *m)
{
	struct tcp_info i = { 0 };
	socklen_t len = sizeof(i);

	return sockopt_int(m->fd, IPPROTO_TCP, TCP_REPAIR) == 1 &&
	       !libc.getsockopt(m->fd, IPPROTO_TCP, TCP_INFO, &i, &len) &&
	       i.tcpi_state == TCP_ESTABLISHED;
}

int wire_thaw(struct moved *m, const struct image_queues *q, const void *bytes,
	      bool may_stay)
{
	int err = grant_thaw(m, q, bytes);

	for (int i = 0; err == -EIO && grant_fd() < 0 && i < OSFDS_MAX; i++) {
		bool was_done = is_thawed(m, q);

		if (may_stay && is_frozen(m))
			return -EAGAIN;
		err = wire_wait_for_osfd(); /* also for the other connections */
		if (was_done)
			return 0;
		if (!err)
			err = grant_thaw(m, q, bytes);
	}
	return err;
}
