/* SPDX-License-Identifier: MIT */
/*
 * api/vma/packets.c - the program registers a callback, and frees packets
 */
#include <errno.h>

#include "api/vma/calls.h"
#include "api/vma/filter.h"
#include "api/vma/vsock.h"
#include "base/atomic.h"

int vma_register_recv_callback(int fd, vma_recv_callback_t callback,
			       void *context)
{
	int err = 0;
	VISIT(v, vsock_make(fd, &err));

	if (!v.s) {
		errno = -err;
		return -1;
	}
	/* From inside of a callback, too. */
	visit_lock_rx(&v);
	if (callback && v.s->local.ss_family == AF_UNSPEC)
		filter_prepare(v.s);
	vsock_set_callback(v.s, callback, context);
	return 0;
}

/* Finds the next packet in an array of packets: libvma packs those of TCP, and not those of
 * UDP. */
static const struct vma_packet_t *after(const struct vma_packet_t *p,
					bool is_packed)
{
	size_t n = is_packed ? p->sz_iov : 0;

	return (const struct vma_packet_t *)((const char *)p + sizeof(*p) +
					     n * sizeof(struct iovec));
}

int vma_free_packets(int fd, struct vma_packet_t *pkts, size_t n)
{
	const struct vma_packet_t *p = pkts;
	VISIT(v, vsock_get(fd));
	bool is_udp, is_open = v.s || vsock_is_inet(fd, &is_udp);
	int err = n && is_bad_ptr(pkts) ? -EINVAL : 0;

	if (!v.s && !is_open && !n)
		err = -EINVAL;
	for (size_t i = 0; i < n && !err; i++) {
		uint64_t number = (uint64_t)(uintptr_t)p->packet_id;

		err = v.s ? held_free(number, v.s->number)
			  : held_free_orphan(number, fd);
		if (!err && v.s)
			count(&v.s->packets.at->n_freed, 1);
		/* Of a socket that is no more the number says it all. */
		if (err && (v.s ? load_rlx(&v.s->is_left) : !is_open))
			err = -EINVAL;
		if (i + 1 < n) /* a program may have room for packet_id alone */
			p = after(p, v.s && !v.s->is_udp);
	}
	if (err)
		errno = -err;
	return err ? -1 : 0;
}
