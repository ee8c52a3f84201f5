/* SPDX-License-Identifier: MIT */
/* api/vma/calls.h - the functions of the table; see mellanox/vma_extra.h */
#pragma once

#include "mellanox/vma_extra.h"

/* packets.c */
int vma_register_recv_callback(int fd, vma_recv_callback_t callback,
			       void *context);
/* zcopy.c */
int vma_recvfrom_zcopy(int fd, void *buf, size_t len, int *flags,
		       struct sockaddr *from, socklen_t *fromlen);
/* packets.c */
int vma_free_packets(int fd, struct vma_packet_t *pkts, size_t count);
