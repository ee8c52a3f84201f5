/* SPDX-License-Identifier: MIT */
/* osfd/reconnect.c - see reconnect.h */
#include "osfd/reconnect.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "osfd/sockopt.h"

#define MAXSEG_MAX 32767u /* that TCP_MAXSEG takes; lo has more */
#define LO_INDEX 1        /* in every network namespace */

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif
#ifndef IPV6_TRANSPARENT
#define IPV6_TRANSPARENT 75
#endif

static int set_seq(int fd, int queue, uint32_t seq)
{
	int err = opt_set(fd, SOL_TCP, TCP_REPAIR_QUEUE, queue);

	return err ? err : opt_set(fd, SOL_TCP, TCP_QUEUE_SEQ, (int)seq);
}

static bool is_plain_v6(const struct connection *c)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&c->peer;

	return in6->sin6_family == AF_INET6 &&
	       !IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
}

int reconnect_check(int fd, const struct connection *c, struct refusal *why)
{
	int err = 0;

	if (!is_plain_v6(c))
		return 0;
	int s = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return -errno;
	int dev = opt_get(fd, SOL_SOCKET, SO_BINDTOIFINDEX);
	if (dev > 0)
		err = opt_set(s, SOL_SOCKET, SO_BINDTOIFINDEX, dev);
	if (!err && connect(s, (const struct sockaddr *)&c->peer, c->len) < 0)
		err = -errno;
	close(s);
	/* The address may be gone from this host. */
	if (err != -ENETUNREACH && err != -EHOSTUNREACH && err != -ENODEV)
		return 0;
	refuse(why, "no route to its peer");
	return -ENETUNREACH;
}

/* A socket that bind() has bound, by the program or by us, keeps its address when it
 * disconnects, and then bind() returns -EINVAL.  Any other socket has lost its address,
 * even if getsockname() still returns it.  Return: 0, or -EINVAL for an address that is not
 * the connection's */
static int bind_again(int fd, const struct connection *c)
{
	struct sockaddr_storage is = { 0 };
	struct steer_key k;
	socklen_t len = sizeof(is);

	if (bind(fd, (const struct sockaddr *)&c->local, c->len) == 0)
		return 0;
	int err = -errno;
	if (err != -EINVAL ||
	    getsockname(fd, (struct sockaddr *)&is, &len) < 0 ||
	    steer_key_of(&is, &c->peer, &k))
		return err;
	return memcmp(&k, &c->key, sizeof(k)) ? err : 0;
}

static int bind_and_connect(int fd, const struct connection *c)
{
	int err = bind_again(fd, c);

	if (!err && connect(fd, (const struct sockaddr *)&c->peer, c->len) < 0)
		err = -errno;
	return err;
}

/* Connects although the host has lost the address or the route. */
static int connect_anyway(int fd, const struct connection *c)
{
	bool is_v6 = c->peer.ss_family == AF_INET6;
	int level = is_v6 ? IPPROTO_IPV6 : IPPROTO_IP;
	int opt = is_v6 ? IPV6_TRANSPARENT : IP_TRANSPARENT;
	int was = opt_get(fd, level, opt),
	    dev = opt_get(fd, SOL_SOCKET, SO_BINDTOIFINDEX);

	int err = opt_set(fd, level, opt, 1);
	if (!err && !is_plain_v6(c))
		err = opt_set(fd, SOL_SOCKET, SO_BINDTOIFINDEX, LO_INDEX);
	if (!err)
		err = bind_and_connect(fd, c);
	if (!is_plain_v6(c))
		opt_set(fd, SOL_SOCKET, SO_BINDTOIFINDEX, MAX(dev, 0));
	opt_set(fd, level, opt, MAX(was, 0));
	return err;
}

int reconnect(int fd, const struct connection *c, const struct frozen *f,
	      const struct queues *q)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	if (connect(fd, &none, sizeof(none)) < 0)
		return -errno;
	(void)opt_get(fd, SOL_SOCKET, SO_ERROR); /* the disconnect's */
	int err = set_seq(fd, TCP_SEND_QUEUE, f->snd_nxt - q->n_unacked);
	if (!err)
		err = set_seq(fd, TCP_RECV_QUEUE, f->rcv_nxt - q->n_unread);
	if (!err)
		err = opt_set(fd, SOL_TCP, TCP_REPAIR_QUEUE, TCP_NO_QUEUE);
	/* connect() derives the size of segments from the MSS, and TCP_REPAIR_OPTIONS,
	 * which sets the MSS, comes later.  Without TCP_MAXSEG segments would have 536
	 * bytes, or 1220. */
	if (!err)
		err = opt_set(fd, SOL_TCP, TCP_MAXSEG,
			      (int)MIN(f->mss_clamp, MAXSEG_MAX));
	if (err)
		return err;
	if (bind_and_connect(fd, c) < 0)
		err = connect_anyway(fd, c);
	if (err == -ENETUNREACH) /* it is not as before, as this would say */
		err = -EHOSTUNREACH;
	return err ? err : opt_set(fd, SOL_TCP, TCP_MAXSEG, 0);
}
