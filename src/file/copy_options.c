/* SPDX-License-Identifier: MIT */
/* file/copy_options.c - see file/copy_options.h */
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "base/libc.h"
#include "base/sockopt.h"
#include "file/copy_options.h"

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif
#define VALUE_MAX                                                              \
	16 /* bytes: struct timeval, the name of a congestion control */

static const struct {
	int level, name;
} options[] = {
	{ SOL_SOCKET, SO_KEEPALIVE },
	{ SOL_SOCKET, SO_LINGER },
	{ SOL_SOCKET, SO_OOBINLINE },
	{ SOL_SOCKET, SO_RCVLOWAT },
	{ SOL_SOCKET, SO_RCVTIMEO },
	{ SOL_SOCKET, SO_SNDTIMEO },
	{ SOL_SOCKET, SO_PRIORITY },
	{ SOL_SOCKET, SO_MARK },
	{ SOL_SOCKET, SO_REUSEADDR },
	{ SOL_SOCKET, SO_TIMESTAMP },
	{ SOL_SOCKET, SO_TIMESTAMPNS },
	{ SOL_SOCKET, SO_TIMESTAMPING },
	{ SOL_SOCKET, SO_ZEROCOPY },
	{ IPPROTO_TCP, TCP_NODELAY },
	{ IPPROTO_TCP, TCP_CORK },
	{ IPPROTO_TCP, TCP_KEEPIDLE },
	{ IPPROTO_TCP, TCP_KEEPINTVL },
	{ IPPROTO_TCP, TCP_KEEPCNT },
	{ IPPROTO_TCP, TCP_LINGER2 },
	{ IPPROTO_TCP, TCP_USER_TIMEOUT },
	{ IPPROTO_TCP, TCP_NOTSENT_LOWAT },
	{ IPPROTO_TCP, TCP_CONGESTION },
	{ IPPROTO_TCP, TCP_INQ },
	{ IPPROTO_IP, IP_TOS },
	{ IPPROTO_IP, IP_TTL },
	{ IPPROTO_IPV6, IPV6_TCLASS },
};

static void copy_option(int from, int to, int level, int name)
{
	char v[VALUE_MAX] = { 0 }, is[VALUE_MAX] = { 0 };
	socklen_t len = sizeof(v), is_len = sizeof(is);

	if (libc.getsockopt(from, level, name, v, &len) ||
	    libc.getsockopt(to, level, name, is, &is_len) ||
	    (len == is_len && !memcmp(v, is, len)))
		return;
	libc.setsockopt(to, level, name, v, len);
}

/* The kernel says twice what was asked for, and marks a size that a program has asked for. */
static void copy_buffer(int from, int to, int name, int locked)
{
	int v = sockopt_int(from, SOL_SOCKET, name) / 2;

	if (sockopt_int(from, SOL_SOCKET, SO_BUF_LOCK) & locked)
		libc.setsockopt(to, SOL_SOCKET, name, &v, sizeof(v));
}

/* Whom the kernel signals, by which signal, and O_NONBLOCK and O_ASYNC. */
static void copy_flags(int from, int to)
{
	struct f_owner_ex owner = { 0 };
	int signal = libc.fcntl(from, F_GETSIG);
	int flags = libc.fcntl(from, F_GETFL);

	if (!libc.fcntl(from, F_GETOWN_EX, &owner) && owner.pid)
		libc.fcntl(to, F_SETOWN_EX, &owner);
	if (signal > 0)
		libc.fcntl(to, F_SETSIG, signal);
	if (flags > 0 && flags & (O_NONBLOCK | O_ASYNC))
		libc.fcntl(to, F_SETFL, flags & (O_NONBLOCK | O_ASYNC));
}

void copy_options(int from, int to)
{
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		copy_option(from, to, options[i].level, options[i].name);
	copy_buffer(from, to, SO_SNDBUF, 1); /* SOCK_SNDBUF_LOCK */
	copy_buffer(from, to, SO_RCVBUF, 2); /* SOCK_RCVBUF_LOCK */
	copy_flags(from, to);
}
