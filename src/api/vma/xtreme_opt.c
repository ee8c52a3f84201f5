/* SPDX-License-Identifier: MIT */
/*
 * api/vma/xtreme_opt.c - libvma's socket options
 *
 *     SO_VMA_USER_DATA         what completions say of the socket
 *     SO_VMA_RING_ALLOC_LOGIC  with which sockets it shares a ring
 *     SO_VMA_SHUTDOWN_RX       the socket receives nothing more
 *     SO_VMA_RING_USER_MEMORY  where its packets lie
 *     SO_VMA_FLOW_TAG          a number for a NIC; checked, and of no use here
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/vma/area.h"
#include "api/vma/filter.h"
#include "api/vma/joined.h"
#include "api/vma/ring.h"
#include "api/vma/vma.h"
#include "base/libc.h"
#include "ops/ops.h"

bool vma_is_xtreme;

/* The kinds of rings, above a number. */
enum { BY_SOCKET = 1, BY_USER, BY_THREAD };
#define NO_TAG 0xfffffu /* of 20 bits, the NIC's for no tag */
#define KEY(kind, n) ((uint64_t)(kind) << 32 | (uint32_t)(n))

void vma_start(void)
{
	const char *v = secure_getenv("VMA_SOCKETXTREME");

	static bool is_prepared;

	if (!is_prepared && !pthread_atfork(vma_passes_all, NULL, NULL))
		is_prepared = true;
	ops_will_lend();
	store_rlx(&vma_is_xtreme, v && atoi(v));
}

static int set_user_data(struct vsock *s, const void *val, socklen_t len)
{
	if (len != sizeof(void *))
		return -EINVAL;
	if (is_bad_ptr(val))
		return -EFAULT;
	memcpy(&s->user_data, val, sizeof(s->user_data));
	s->has_user_data = true;
	return 0;
}

/* The option is the kernel's; a callback is to see the times from then on. */
static bool set_time(int fd, int name, const void *val, socklen_t len, int *err)
{
	bool is_udp;

	if (!vsock_is_inet(fd, &is_udp) || !is_udp)
		return false;
	*err = libc.setsockopt(fd, SOL_SOCKET, name, val, len) < 0 ? -errno : 0;
	fetch_add(&filter_times, 1u);
	return true;
}

static int shut_rx(const struct vsock *s)
{
	/* Of UDP that is not connected the kernel does it, too. */
	if (shutdown(s->fd, SHUT_RD) < 0 && !(s->is_udp && errno == ENOTCONN))
		return -errno;
	return 0;
}

static int set_memory(struct visit *v, const void *val, socklen_t len)
{
	struct iovec at;
	int err;

	if (len != sizeof(at) || is_bad_ptr(val))
		return -EINVAL;
	memcpy(&at, val, sizeof(at));
	struct area *a = area_of(&at, &err);
	if (!a)
		return err;
	/* Packets have come, or one is being looked at: they lie elsewhere. */
	if (!visit_lock_rx(v) || v->s->room.chunk)
		return -EBUSY;
	v->s->room.area = a;
	return 0;
}

static int check_tag(const void *val, socklen_t len)
{
	uint32_t tag = 0;

	if (len == sizeof(tag) && !is_bad_ptr(val))
		memcpy(&tag, val, sizeof(tag));
	return tag && tag != NO_TAG ? 0 : -EINVAL;
}

static bool is_option(int name)
{
	return name == SO_VMA_USER_DATA || name == SO_VMA_SHUTDOWN_RX ||
	       name == SO_VMA_RING_USER_MEMORY || name == SO_VMA_FLOW_TAG;
}

static int set_option(struct visit *v, int name, const void *val, socklen_t len)
{
	switch (name) {
	case SO_VMA_USER_DATA:
		return set_user_data(v->s, val, len);
	case SO_VMA_RING_USER_MEMORY:
		return set_memory(v, val, len);
	case SO_VMA_FLOW_TAG:
		return check_tag(val, len);
	default:
		return shut_rx(v->s);
	}
}

bool vma_setsockopt(int fd, int level, int name, const void *val, socklen_t len,
		    int *err)
{
	if (level == SOL_SOCKET && filter_is_time(name))
		return set_time(fd, name, val, len, err);
	joined_option(fd, level, name, val, len);
	if (level != SOL_SOCKET || !is_option(name))
		return false;
	int saved = errno;
	VISIT(v, vsock_make(fd, err));
	if (!v.s)
		return *err !=
		       -EINVAL; /* not ours: the kernel says what it is */
	*err = set_option(&v, name, val, len);
	errno = saved;
	return true;
}

int vma_so_error(int fd)
{
	int err = 0;
	VISIT(v, vsock_get(fd));

	if (!v.s || !visit_lock_rx(&v))
		return 0;
	err = v.s->err;
	v.s->err = 0;
	vsock_uncount(v.s);
	return err;
}

bool vma_getopt(int fd, int level, int name, void *val, socklen_t *len,
		int *err)
{
	VISIT(v, level == SOL_SOCKET && name == SO_VMA_USER_DATA ? vsock_get(fd)
								 : NULL);

	if (!v.s)
		return false;
	uint64_t data = v.s->has_user_data ? v.s->user_data : (uint64_t)fd;
	*err = is_bad_ptr(val) || is_bad_ptr(len) ? -EFAULT
	       : *len != sizeof(void *)           ? -EINVAL
						  : 0;
	if (!*err)
		memcpy(val, &data, sizeof(data));
	return true;
}

void vma_ring_logic(int fd, int name, const void *val, socklen_t len, int err)
{
	struct vma_ring_alloc_logic_attr attr = { 0 };
	bool is_wanted = name == SO_VMA_RING_ALLOC_LOGIC && !err;
	int made = 0;
	VISIT(v, is_wanted && load_rlx(&vma_is_asked) ? vsock_make(fd, &made)
						      : NULL);

	if (!v.s)
		return;
	memcpy(&attr, val, MIN(sizeof(attr), (size_t)len));
	switch (attr.ring_alloc_logic) {
	case RING_LOGIC_PER_SOCKET:
		v.s->ring_key = KEY(BY_SOCKET, v.s->number);
		break;
	case RING_LOGIC_PER_USER_ID:
		v.s->ring_key = KEY(
		    BY_USER, attr.comp_mask & VMA_RING_ALLOC_MASK_RING_USER_ID
				 ? attr.user_id
				 : 0);
		break;
	case RING_LOGIC_PER_THREAD:
	case RING_LOGIC_PER_CORE:
	case RING_LOGIC_PER_CORE_ATTACH_THREADS:
		v.s->ring_key = KEY(BY_THREAD, gettid());
		break;
	default:
		v.s->ring_key = 0;
		break;
	}
}
