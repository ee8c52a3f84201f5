/* SPDX-License-Identifier: MIT */
/* api/vma/calls.h - the functions of the table; see mellanox/vma_extra.h */
#pragma once

#include "mellanox/vma_extra.h"

/* packets.c */
int vma_register_recv_callback(int fd, vma_recv_callback_t callback,
			       void *context);
/* control.c */
int vma_add_conf_rule(const char *line);
int vma_thread_offload(int offload, pthread_t tid);
int vma_dump_fd_stats(int fd, int level);
/* hardware.c */
int vma_no_ring_profile(struct vma_ring_type_attr *profile, int *key);
int vma_no_network_header(int fd, void *ptr, uint16_t *len);
int vma_no_ring_descriptors(int fd, struct vma_mlx_hw_device_data *data);
int vma_no_register_memory(int fd, void *addr, size_t len, uint32_t *key);
int vma_no_deregister_memory(int fd, void *addr, size_t len);
int vma_no_modify_ring(struct vma_modify_ring_attr *attr);
/* zcopy.c */
int vma_recvfrom_zcopy(int fd, void *buf, size_t len, int *flags,
		       struct sockaddr *from, socklen_t *fromlen);
/* packets.c */
int vma_free_packets(int fd, struct vma_packet_t *pkts, size_t count);
/* xtreme.c */
int vma_xtreme_poll(int fd, struct vma_completion_t *to, unsigned n, int flags);
int vma_rings_num(int fd);
int vma_rings_fds(int fd, int *ring_fds, int n);
int vma_tx_ring_fd(int fd, struct sockaddr *to, socklen_t len);
int vma_xtreme_free_packets(struct vma_packet_desc_t *packets, int n);
int vma_xtreme_ref(struct vma_buff_t *b);
int vma_xtreme_free(struct vma_buff_t *b);
/* control.c */
int vma_ioctl(void *cmsg, size_t len);
