/* SPDX-License-Identifier: MIT */
/*
 * api/xlio/table.c - the API as a table, in the layouts of libxlio's versions
 *
 *     OSF_XLIO_ABI   after magic and cap_mask
 *     3.61 to 3.70   rules, thread, stats, then the socket API; 3.61 is the default
 *     3.60           the same with register_recv_callback before the socket API
 *     3.30 to 3.51   thirteen calls of the older extra API before it, and another order;
 *                    the attributes of a group have no socket_accept_cb
 *
 * All three have one magic and one option number, and the caller passes only
 * the size of a pointer.  So the user has to say which version the program has.
 * Calls of the older tables that this API lacks return -1 with EOPNOTSUPP, and
 * their bit is not in cap_mask.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/xlio/edge.h"
#include "base/setting.h"
#include "mellanox/xlio_extra.h"
#include "ops/ops.h"
#include "ops/policy.h"
#include "osf/group.h"
#include "sock/arena.h"

#define API_FD (-2)
#define GROUP_ATTR_350 offsetof(struct xlio_poll_group_attr, socket_accept_cb)
#define CAPS                                                                   \
	(XLIO_EXTRA_API_ADD_CONF_RULE | XLIO_EXTRA_API_THREAD_OFFLOAD |        \
	 XLIO_EXTRA_API_DUMP_FD_STATS | XLIO_EXTRA_API_XLIO_ULTRA)

OSF_API int xlio_add_conf_rule(const char *config_line)
{
	int saved = errno;

	return xlio_ret(config_line ? policy_add(config_line) : -EINVAL, saved);
}

OSF_API int xlio_thread_offload(int offload, pthread_t tid)
{
	if (offload != 0 && offload != 1)
		return xlio_ret(-EINVAL, 0);
	if (!pthread_equal(tid, pthread_self()))
		return xlio_ret(-ESRCH, 0);
	ops_thread_offload(offload);
	return 0;
}

struct dump {
	int fd; /* 0: all */
	bool is_found;
};

static void dump(const struct sock *sk, void *arg)
{
	const struct osf_stats_sock *st = sk->st;
	struct dump *d = arg;

	if (d->fd && d->fd != st->fd)
		return;
	d->is_found = true;
	fprintf(stderr,
		"osf: fd %d: %s: received %llu by the kernel, %llu by rings; "
		"sent %llu, %llu\n",
		st->fd, sock_reason_text((enum osf_reason)st->reason),
		(unsigned long long)st->rx_bytes_inet,
		(unsigned long long)st->rx_bytes_shm,
		(unsigned long long)st->tx_bytes_inet,
		(unsigned long long)st->tx_bytes_shm);
}

OSF_API int xlio_dump_fd_stats(int fd, int level)
{
	struct dump d = { .fd = fd };
	int saved = errno;

	if (fd < 0)
		return xlio_ret(-EBADF, saved);
	arena_for_each(dump, &d);
	return xlio_ret(fd && !d.is_found ? -EBADF : 0, saved);
}

/* The version that the program was compiled with. */

enum abi { ABI_350, ABI_360, ABI_361, ABI_UNKNOWN };

static const struct {
	unsigned first, last; /* minor version */
	enum abi abi;
} abis[] = { { 30, 51, ABI_350 }, { 60, 60, ABI_360 }, { 61, 70, ABI_361 } };

/* "3.MINOR", with more behind another point or without. */
static enum abi abi_of(const char *s)
{
	char *end;

	if (strncmp(s, "3.", 2) || !isdigit(s[2]))
		return ABI_UNKNOWN;
	unsigned long minor = strtoul(s + 2, &end, 10);
	if (*end && *end != '.')
		return ABI_UNKNOWN;
	for (size_t i = 0; i < ARRAY_LEN(abis); i++)
		if (minor >= abis[i].first && minor <= abis[i].last)
			return abis[i].abi;
	return ABI_UNKNOWN;
}

/* A program that got a table of another layout would crash at its first call. */
static void refuse_abi(void)
{
	static bool is_notified;

	if (!is_notified)
		setting_wrong("OSF_XLIO_ABI", "3.30 to 3.51, 3.60, or 3.61 to "
					      "3.70 (the default)");
	is_notified = true;
}

static enum abi abi(void)
{
	const char *s = secure_getenv("OSF_XLIO_ABI");
	enum abi found = s && *s ? abi_of(s) : ABI_361;

	if (found == ABI_UNKNOWN)
		refuse_abi();
	return found;
}

bool xlio_abi_is_known(void) { return abi() != ABI_UNKNOWN; }

size_t xlio_group_attr_bytes(void)
{
	return abi() == ABI_350 ? GROUP_ATTR_350
				: sizeof(struct xlio_poll_group_attr);
}

static int group_create_350(const struct xlio_poll_group_attr *attr,
			    xlio_poll_group_t *out)
{
	return xlio_group_create_sized(attr, GROUP_ATTR_350, out);
}

static int group_create_361(const struct xlio_poll_group_attr *attr,
			    xlio_poll_group_t *out)
{
	return xlio_group_create_sized(attr, sizeof(*attr), out);
}

static int group_update_361(xlio_poll_group_t group,
			    const struct xlio_poll_group_attr *attr)
{
	return xlio_group_update_sized(group, attr, sizeof(*attr));
}

/* Of the same shape on every ABI that osf runs on: no argument is looked at. */
static int not_here(void) { return xlio_ret(-EOPNOTSUPP, 0); }

#define SOCKET_API                                                             \
	.init_ex = xlio_init_ex, .group_create = group_create_350,             \
	.group_destroy = xlio_poll_group_destroy,                              \
	.group_poll = xlio_poll_group_poll,                                    \
	.socket_create = xlio_socket_create,                                   \
	.socket_destroy = xlio_socket_destroy,                                 \
	.setsockopt = xlio_socket_setsockopt, .bind = xlio_socket_bind,        \
	.connect = xlio_socket_connect, .get_pd = xlio_socket_get_pd,          \
	.send = xlio_socket_send, .sendv = xlio_socket_sendv,                  \
	.group_flush = xlio_poll_group_flush,                                  \
	.socket_flush = xlio_socket_flush,                                     \
	.socket_buf_free = xlio_socket_buf_free,                               \
	.group_buf_free = xlio_poll_group_buf_free

/* The members that all layouts have, in the order of 3.50. */
struct socket_api_350 {
	typeof(&xlio_init_ex) init_ex;
	typeof(&xlio_poll_group_create) group_create;
	typeof(&xlio_poll_group_destroy) group_destroy;
	typeof(&xlio_poll_group_poll) group_poll;
	typeof(&xlio_socket_create) socket_create;
	typeof(&xlio_socket_destroy) socket_destroy;
	typeof(&xlio_socket_setsockopt) setsockopt;
	typeof(&xlio_socket_bind) bind;
	typeof(&xlio_socket_connect) connect;
	typeof(&xlio_socket_get_pd) get_pd;
	typeof(&xlio_socket_send) send;
	typeof(&xlio_socket_sendv) sendv;
	typeof(&xlio_poll_group_flush) group_flush;
	typeof(&xlio_socket_flush) socket_flush;
	typeof(&xlio_socket_buf_free) socket_buf_free;
	typeof(&xlio_poll_group_buf_free) group_buf_free;
};

struct table_350 {
	uint64_t magic, cap_mask;
	int (*recvfrom_zcopy[2])(void);
	typeof(&xlio_add_conf_rule) add_conf_rule;
	typeof(&xlio_thread_offload) thread_offload;
	int (*rings[2])(void);
	typeof(&xlio_dump_fd_stats) dump_fd_stats;
	int (*ioctl)(void);
	int (*register_recv_callback)(void);
	int (*socketxtreme[4])(void);
	struct socket_api_350 api;
};

static struct table_350 table_350 = {
	.magic = XLIO_MAGIC_NUMBER,
	.cap_mask = CAPS,
	.recvfrom_zcopy = { not_here, not_here },
	.add_conf_rule = xlio_add_conf_rule,
	.thread_offload = xlio_thread_offload,
	.rings = { not_here, not_here },
	.dump_fd_stats = xlio_dump_fd_stats,
	.ioctl = not_here,
	.register_recv_callback = not_here,
	.socketxtreme = { not_here, not_here, not_here, not_here },
	.api = { SOCKET_API },
};

static struct xlio_api_t table_361 = {
	.magic = XLIO_MAGIC_NUMBER,
	.cap_mask = CAPS,
	.add_conf_rule = xlio_add_conf_rule,
	.thread_offload = xlio_thread_offload,
	.dump_fd_stats = xlio_dump_fd_stats,
	.xlio_init_ex = xlio_init_ex,
	.xlio_exit = xlio_exit,
	.xlio_poll_group_create = group_create_361,
	.xlio_poll_group_destroy = xlio_poll_group_destroy,
	.xlio_poll_group_poll = xlio_poll_group_poll,
	.xlio_socket_create = xlio_socket_create,
	.xlio_socket_destroy = xlio_socket_destroy,
	.xlio_socket_update = xlio_socket_update,
	.xlio_socket_setsockopt = xlio_socket_setsockopt,
	.xlio_socket_getsockname = xlio_socket_getsockname,
	.xlio_socket_getpeername = xlio_socket_getpeername,
	.xlio_socket_bind = xlio_socket_bind,
	.xlio_socket_connect = xlio_socket_connect,
	.xlio_socket_listen = xlio_socket_listen,
	.xlio_socket_get_pd = xlio_socket_get_pd,
	.xlio_socket_detach_group = xlio_socket_detach_group,
	.xlio_socket_attach_group = xlio_socket_attach_group,
	.xlio_socket_send = xlio_socket_send,
	.xlio_socket_sendv = xlio_socket_sendv,
	.xlio_poll_group_flush = xlio_poll_group_flush,
	.xlio_socket_flush = xlio_socket_flush,
	.xlio_socket_buf_free = xlio_socket_buf_free,
	.xlio_poll_group_buf_free = xlio_poll_group_buf_free,
};

/* This layout has one more member after dump_fd_stats. */
struct table_360 {
	uint64_t magic, cap_mask;
	typeof(&xlio_add_conf_rule) add_conf_rule;
	typeof(&xlio_thread_offload) thread_offload;
	typeof(&xlio_dump_fd_stats) dump_fd_stats;
	int (*register_recv_callback)(void);
	char rest[sizeof(struct xlio_api_t) -
		  offsetof(struct xlio_api_t, xlio_init_ex)];
};
static_assert(sizeof(struct table_360) == sizeof(struct xlio_api_t) + 8,
	      "no padding");

static struct table_360 table_360 = {
	.magic = XLIO_MAGIC_NUMBER,
	.cap_mask = CAPS,
	.add_conf_rule = xlio_add_conf_rule,
	.thread_offload = xlio_thread_offload,
	.dump_fd_stats = xlio_dump_fd_stats,
	.register_recv_callback = not_here,
};

/* NULL: the version is unknown. */
static void *table(void)
{
	switch (abi()) {
	case ABI_350:
		return &table_350;
	case ABI_360:
		memcpy(table_360.rest, &table_361.xlio_init_ex,
		       sizeof(table_360.rest));
		return &table_360;
	case ABI_361:
		return &table_361;
	default:
		return NULL;
	}
}

OSF_API int osf_xlio_api_get(struct osf_xlio_api *api)
{
	struct osf_xlio_api full = {
		.size = sizeof(full),
		.comp_mask =
		    OSF_XLIO_API_UPDATE | OSF_XLIO_API_WAIT | OSF_XLIO_API_MEM,
		.xlio = &table_361,
		.xlio_poll_group_update = group_update_361,
		.group_poll = osf_group_poll,
		.group_fd = osf_group_fd,
		.group_arm = osf_group_arm,
		.group_wait = osf_group_wait,
		.mem_alloc = osf_mem_alloc,
		.mem_free = osf_mem_free,
	};

	if (!api ||
	    api->size < offsetof(struct osf_xlio_api, xlio_poll_group_update))
		return -EINVAL;
	if (api->comp_mask & ~full.comp_mask)
		return -EOPNOTSUPP;
	full.size = MIN(api->size, full.size);
	memcpy(api, &full, full.size);
	return 0;
}

bool api_getsockopt(int fd, int level, int name, void *val, socklen_t *len,
		    int *err)
{
	if (fd != API_FD || level != SOL_SOCKET ||
	    (name != SO_XLIO_GET_API && name != OSF_SO_XLIO_API))
		return false;
	if (!val || !len) {
		*err = -EFAULT;
	} else if (name == OSF_SO_XLIO_API) {
		struct osf_xlio_api *api = val;

		*err = *len < sizeof(api->size) || *len < api->size
			   ? -EINVAL
			   : osf_xlio_api_get(api);
	} else if (*len < sizeof(void *)) {
		*err = -EINVAL;
	} else {
		void *at = table();

		*err = at ? 0 : -EINVAL;
		if (at) {
			memcpy(val, &at, sizeof(at));
			*len = sizeof(at);
		}
	}
	return true;
}
