/* SPDX-License-Identifier: MIT */
/*
 * api/vma/hardware.c - calls that hand out the rings of an NVIDIA NIC
 *
 * There are none here, so each call answers as libvma does for a socket that no
 * NIC serves, or for a number that is no ring's.
 */
#include <errno.h>

#include "api/vma/calls.h"
#include "api/vma/vsock.h"

static int fail(int err)
{
	errno = err;
	return -1;
}

int vma_no_ring_profile(struct vma_ring_type_attr *profile, int *key)
{
	return fail(EOPNOTSUPP);
}

int vma_no_network_header(int fd, void *ptr, uint16_t *len)
{
	bool is_udp;

	return fail(vsock_is_inet(fd, &is_udp) ? ENOTCONN : EINVAL);
}

int vma_no_ring_descriptors(int fd, struct vma_mlx_hw_device_data *data)
{
	return fail(EINVAL);
}

int vma_no_register_memory(int fd, void *addr, size_t len, uint32_t *key)
{
	return fail(EINVAL);
}

int vma_no_deregister_memory(int fd, void *addr, size_t len)
{
	return fail(EINVAL);
}

int vma_no_modify_ring(struct vma_modify_ring_attr *attr)
{
	return fail(EINVAL);
}
