/* SPDX-License-Identifier: MIT */
/*
 * api/vma/table.c - VMA's extra API as a table of functions
 *
 * A function that only says that it cannot has no bit in
 * vma_extra_supported_mask.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/vma/calls.h"
#include "api/vma/vma.h"
#include "base/compiler.h"
#include "base/log.h"
#include "mellanox/vma_extra.h"

#define API_FD (-1)
#define NAME "libvma.so"

bool vma_is_asked, vma_takes_dummies;

static struct vma_api_t table = {
	.register_recv_callback = vma_register_recv_callback,
	.recvfrom_zcopy = vma_recvfrom_zcopy,
	.free_packets = vma_free_packets,
	.add_conf_rule = vma_add_conf_rule,
	.thread_offload = vma_thread_offload,
	.dump_fd_stats = vma_dump_fd_stats,
	.socketxtreme_poll = vma_xtreme_poll,
	.get_socket_rings_num = vma_rings_num,
	.get_socket_rings_fds = vma_rings_fds,
	.get_socket_tx_ring_fd = vma_tx_ring_fd,
	.socketxtreme_free_vma_packets = vma_xtreme_free_packets,
	.socketxtreme_ref_vma_buff = vma_xtreme_ref,
	.socketxtreme_free_vma_buff = vma_xtreme_free,
	.ioctl = vma_ioctl,
	/* These answer and do nothing, so they have no bit. */
	.vma_add_ring_profile = vma_no_ring_profile,
	.get_socket_network_header = vma_no_network_header,
	.get_ring_direct_descriptors = vma_no_ring_descriptors,
	.register_memory_on_ring = vma_no_register_memory,
	.deregister_memory_on_ring = vma_no_deregister_memory,
	.vma_modify_ring = vma_no_modify_ring,
	.vma_extra_supported_mask =
	    VMA_EXTRA_API_REGISTER_RECV_CALLBACK |
	    VMA_EXTRA_API_RECVFROM_ZCOPY | VMA_EXTRA_API_FREE_PACKETS |
	    VMA_EXTRA_API_ADD_CONF_RULE | VMA_EXTRA_API_THREAD_OFFLOAD |
	    VMA_EXTRA_API_DUMP_FD_STATS | VMA_EXTRA_API_SOCKETXTREME_POLL |
	    VMA_EXTRA_API_SOCKETXTREME_FREE_VMA_PACKETS |
	    VMA_EXTRA_API_SOCKETXTREME_REF_VMA_BUFF |
	    VMA_EXTRA_API_SOCKETXTREME_FREE_VMA_BUFF |
	    VMA_EXTRA_API_GET_SOCKET_RINGS_NUM |
	    VMA_EXTRA_API_GET_SOCKET_RINGS_FDS |
	    VMA_EXTRA_API_GET_SOCKET_TX_RING_FD | VMA_EXTRA_API_IOCTL,
};

void vma_loaded(void)
{
	Dl_info info;
	const char *slash;

	if (!dladdr(&table, &info) || !info.dli_fname)
		return;
	slash = strrchr(info.dli_fname, '/');
	if (!strncmp(slash ? slash + 1 : info.dli_fname, NAME, strlen(NAME)))
		vma_takes_dummies = true;
	/* For scripts that look for it; there is no NIC to support it. */
	if (vma_takes_dummies || getenv("VMA_TRACELEVEL"))
		log_dbg("HW Dummy send support for QP = %d", 0);
}

bool vma_getsockopt(int fd, int level, int name, void *val, socklen_t *len,
		    int *err)
{
	void *at = &table;

	if (fd != API_FD || level != SOL_SOCKET || name != SO_VMA_GET_API)
		return false;
	*err = !val || !len ? -EFAULT : *len < sizeof(at) ? -EINVAL : 0;
	if (!*err) {
		memcpy(val, &at, sizeof(at));
		*len = sizeof(at);
		vma_start();
		store_rlx(&vma_is_asked, true);
		store_rlx(&vma_takes_dummies, true);
	}
	return true;
}
