/* SPDX-License-Identifier: MIT */
/*
 * api/vma/xtreme.c - SocketXtreme: the calls on rings and their buffers
 */
#include <errno.h>

#include "api/vma/calls.h"
#include "api/vma/ring.h"
#include "api/vma/vma.h"
#include "api/vma/xbuf.h"

/* A poll of a ring; ends with the block, also by longjmp() and cancellation. */
struct stay {
	struct unwind u;
	struct ring *r;
};

static void stay_end(struct unwind *u) { ring_exit(((struct stay *)u)->r); }

static int fail(int err)
{
	errno = err;
	return -1;
}

int vma_xtreme_poll(int fd, struct vma_completion_t *to, unsigned n, int flags)
{
	if (is_bad_ptr(to) || !n)
		return fail(EINVAL);
	struct ring *r = ring_get(fd);
	if (unlikely(!r))
		return fail(EBADFD);
	if (unlikely(!ring_enter(r))) {
		to->events = 0;
		return 0;
	}
	int *err = &errno, saved = *err;
	UNWIND(struct stay, stay) = { .r = r };
	unwind_push(&stay.u, stay_end);
	int got = ring_turn(r, to, n);
	*err = saved;
	return likely(got >= 0) ? got : fail(-got);
}

/* Its ring's descriptor, 0, or -errno. */
static int ring_fd_of(int fd)
{
	int err;
	VISIT(v, vsock_make(fd, &err));

	return v.s ? ring_of(v.s) : err;
}

int vma_rings_num(int fd)
{
	int ring = ring_fd_of(fd);

	return ring < 0 ? fail(-ring) : ring > 0;
}

int vma_rings_fds(int fd, int *ring_fds, int n)
{
	if (is_bad_ptr(ring_fds) || n <= 0)
		return fail(EINVAL);
	int ring = ring_fd_of(fd);
	if (ring < 0)
		return fail(-ring);
	if (ring)
		*ring_fds = ring;
	return ring > 0;
}

int vma_tx_ring_fd(int fd, struct sockaddr *to, socklen_t len)
{
	bool is_udp = false;
	int ring = ring_fd_of(fd);

	if (!ring && vsock_is_inet(fd, &is_udp) && is_udp && to)
		ring = ring_default();
	if (!ring)
		ring = is_udp ? -ENODATA : -ENOTCONN;
	return ring > 0 ? ring : fail(-ring);
}

void vma_join(int fd)
{
	int saved = errno;

	if (load_rlx(&vma_is_asked))
		ring_fd_of(fd);
	errno = saved;
}

int vma_xtreme_free_packets(struct vma_packet_desc_t *packets, int n)
{
	if (n < 0 || (n && is_bad_ptr(packets)))
		return fail(EINVAL);
	for (int i = 0; i < n; i++) {
		struct vma_buff_t *b = packets[i].buff_lst, *next;

		for (; b; b = next)
			if (xbuf_unref(b, &next) < 0)
				return fail(EINVAL);
	}
	return 0;
}

static int answer(int r) { return r < 0 ? fail(-r) : r; }

int vma_xtreme_ref(struct vma_buff_t *b) { return answer(xbuf_ref(b)); }

int vma_xtreme_free(struct vma_buff_t *b)
{
	return answer(xbuf_unref(b, NULL));
}
