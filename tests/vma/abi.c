/* SPDX-License-Identifier: MIT */
/*
 * tests/vma/abi.c - the layouts that programs for libvma were compiled with
 *
 * Compiled, as C11 and as C++17, and never run.
 */
#include <assert.h>
#include <stddef.h>

#include <mellanox/vma_extra.h>

#ifdef __cplusplus
#define SAME(a, b) static_assert((a) == (b), #a)
#else
#define SAME(a, b) _Static_assert((a) == (b), #a)
#endif
#define AT(type, member, off) SAME(offsetof(type, member), off)
/* The table of functions: @n is the member's place. */
#define NTH(member, n) AT(struct vma_api_t, member, (n) * sizeof(void *))

NTH(register_recv_callback, 0);
NTH(recvfrom_zcopy, 1);
NTH(free_packets, 2);
NTH(add_conf_rule, 3);
NTH(thread_offload, 4);
NTH(socketxtreme_poll, 5);
NTH(get_socket_rings_num, 6);
NTH(get_socket_rings_fds, 7);
NTH(get_socket_tx_ring_fd, 8);
NTH(socketxtreme_free_vma_packets, 9);
NTH(socketxtreme_ref_vma_buff, 10);
NTH(socketxtreme_free_vma_buff, 11);
NTH(dump_fd_stats, 12);
NTH(vma_add_ring_profile, 13);
NTH(get_socket_network_header, 14);
NTH(get_ring_direct_descriptors, 15);
NTH(register_memory_on_ring, 16);
NTH(deregister_memory_on_ring, 17);
NTH(vma_modify_ring, 18);
NTH(vma_extra_supported_mask, 19);
NTH(ioctl, 20);
SAME(sizeof(struct vma_api_t), 168);

SAME(sizeof(struct vma_buff_t), 24);
AT(struct vma_buff_t, next, 0);
AT(struct vma_buff_t, payload, 8);
AT(struct vma_buff_t, len, 16);
SAME(sizeof(struct vma_packet_desc_t), 40);
AT(struct vma_packet_desc_t, num_bufs, 0);
AT(struct vma_packet_desc_t, total_len, 8);
AT(struct vma_packet_desc_t, buff_lst, 16);
AT(struct vma_packet_desc_t, hw_timestamp, 24);
SAME(sizeof(struct vma_completion_t), 80);
AT(struct vma_completion_t, packet, 0);
AT(struct vma_completion_t, events, 40);
AT(struct vma_completion_t, user_data, 48);
AT(struct vma_completion_t, src, 56);
AT(struct vma_completion_t, listen_fd, 72);
SAME(sizeof(struct vma_packet_t), 16);
AT(struct vma_packet_t, packet_id, 0);
AT(struct vma_packet_t, sz_iov, 8);
AT(struct vma_packet_t, iov, 16);
SAME(sizeof(struct vma_packets_t), 8);
AT(struct vma_packets_t, n_packet_num, 0);
AT(struct vma_packets_t, pkts, 8);
SAME(sizeof(struct vma_info_t), 80);
AT(struct vma_info_t, struct_sz, 0);
AT(struct vma_info_t, packet_id, 8);
AT(struct vma_info_t, src, 16);
AT(struct vma_info_t, dst, 24);
AT(struct vma_info_t, payload_sz, 32);
AT(struct vma_info_t, socket_ready_queue_pkt_count, 40);
AT(struct vma_info_t, socket_ready_queue_byte_count, 44);
AT(struct vma_info_t, hw_timestamp, 48);
AT(struct vma_info_t, sw_timestamp, 64);
SAME(sizeof(struct vma_rate_limit_t), 12);
SAME(sizeof(struct vma_ring_alloc_logic_attr), 20);
AT(struct vma_ring_alloc_logic_attr, ring_alloc_logic, 4);
AT(struct vma_ring_alloc_logic_attr, ring_profile_key, 8);
AT(struct vma_ring_alloc_logic_attr, user_id, 12);
SAME(sizeof(struct vma_ring_type_attr), 12);
AT(struct vma_ring_type_attr, ring_pktq, 8);
SAME(sizeof(struct vma_modify_ring_attr), 16);
AT(struct vma_modify_ring_attr, cq_moderation, 8);
SAME(sizeof(struct dev_data), 12);
SAME(sizeof(struct hw_cq_data), 48);
AT(struct hw_cq_data, uar, 32);
SAME(sizeof(struct hw_wq_data), 72);
AT(struct hw_wq_data, cq_data, 24);
SAME(sizeof(struct hw_rq_data), 88);
SAME(sizeof(struct hw_sq_data), 96);
AT(struct hw_sq_data, bf, 80);
SAME(sizeof(struct vma_mlx_hw_device_data), 200);
AT(struct vma_mlx_hw_device_data, sq_data, 16);
AT(struct vma_mlx_hw_device_data, rq_data, 112);
SAME(sizeof(vma_cmsg_ioctl_user_alloc_t), 17);
SAME(sizeof(struct vma_cmsg_ioctl_user_alloc_t), 17);
AT(vma_cmsg_ioctl_user_alloc_t, memalloc, 1);
AT(vma_cmsg_ioctl_user_alloc_t, memfree, 9);

SAME(MSG_VMA_ZCOPY_FORCE, 0x01000000);
SAME(MSG_VMA_ZCOPY, 0x00040000);
SAME(SO_VMA_GET_API, 2800);
SAME(SO_VMA_USER_DATA, 2801);
SAME(SO_VMA_RING_ALLOC_LOGIC, 2810);
SAME(SO_VMA_RING_USER_MEMORY, 2811);
SAME(SO_VMA_FLOW_TAG, 2820);
SAME(SO_VMA_SHUTDOWN_RX, 2821);
SAME((int)CMSG_VMA_IOCTL_USER_ALLOC, 2900);
SAME((int)VMA_IOCTL_USER_ALLOC_FLAG_TX, 1);
SAME((int)VMA_IOCTL_USER_ALLOC_FLAG_RX, 2);
SAME(VMA_SND_FLAGS_DUMMY, 0x400);
SAME((int)VMA_PACKET_DROP, 0);
SAME((int)VMA_PACKET_RECV, 1);
SAME((int)VMA_PACKET_HOLD, 2);
SAME(VMA_SOCKETXTREME_PACKET, 0x100000000);
SAME(VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED, 0x200000000);
SAME((int)RING_LOGIC_PER_SOCKET, 10);
SAME((int)RING_LOGIC_PER_USER_ID, 11);
SAME((int)RING_LOGIC_PER_THREAD, 20);
SAME((int)RING_LOGIC_PER_CORE, 30);
SAME((int)RING_LOGIC_PER_CORE_ATTACH_THREADS, 31);
SAME((int)RING_LOGIC_LAST, 32);
SAME((int)VMA_RING_PACKET, 0);
SAME((int)VMA_RING_EXTERNAL_MEM, 1);
SAME((int)VMA_MODIFY_RING_CQ_MODERATION, 1);
SAME((int)VMA_MODIFY_RING_CQ_ARM, 2);
SAME((int)VMA_HW_PP_EN, 1);
SAME((int)VMA_HW_PP_BURST_EN, 8);
SAME((int)DATA_VALID_RQ, 2);
SAME(sizeof(vma_extra_api_mask), 4);

#define BIT(name, n) SAME((int)VMA_EXTRA_API_##name, 1 << (n))
BIT(REGISTER_RECV_CALLBACK, 0);
BIT(RECVFROM_ZCOPY, 1);
BIT(FREE_PACKETS, 2);
BIT(ADD_CONF_RULE, 3);
BIT(THREAD_OFFLOAD, 4);
BIT(DUMP_FD_STATS, 5);
BIT(SOCKETXTREME_POLL, 6);
BIT(SOCKETXTREME_FREE_VMA_PACKETS, 7);
BIT(SOCKETXTREME_REF_VMA_BUFF, 8);
BIT(SOCKETXTREME_FREE_VMA_BUFF, 9);
BIT(GET_SOCKET_RINGS_NUM, 10);
BIT(GET_SOCKET_RINGS_FDS, 11);
BIT(GET_SOCKET_TX_RING_FD, 12);
BIT(GET_SOCKET_NETWORK_HEADER, 13);
BIT(GET_RING_DIRECT_DESCRIPTORS, 14);
BIT(ADD_RING_PROFILE, 16);
BIT(REGISTER_MEMORY_ON_RING, 17);
BIT(DEREGISTER_MEMORY_ON_RING, 18);
BIT(MODIFY_RING, 20);
BIT(IOCTL, 21);

/* The documents' form: a callback and the getter, as a program writes them. */
vma_recv_callback_retval_t keep(int fd, size_t n, struct iovec iov[],
				struct vma_info_t *info, void *context);
vma_recv_callback_retval_t keep(int fd, size_t n, struct iovec iov[],
				struct vma_info_t *info, void *context)
{
	(void)fd, (void)n, (void)iov, (void)info, (void)context;
	return VMA_PACKET_RECV;
}

int main(void)
{
	static struct vma_api_t *api = NULL;
	struct vma_completion_t comp;

	api = vma_get_api();
	if (api == NULL)
		return 1;
	comp.packet.buff_lst = NULL;
	return api->register_recv_callback(0, keep, &comp);
}
