/* SPDX-License-Identifier: MIT */
/*
 * mellanox/vma_extra.h - the VMA extra API, found at run time
 *
 *     struct vma_api_t *api = vma_get_api();
 *
 * For programs that also run without the library: NULL where it is not loaded.
 * Layouts and values are libvma's since 9.0.  docs/vma.md says what each call does here.
 * vma_extra_supported_mask has the bit of each function that works; check it,
 * because the others may be NULL.
 */
#ifndef VMA_EXTRA_H
#define VMA_EXTRA_H

/* ISO C and C++ lack arrays of unknown length inside of arrays, which the layouts have;
 * with this a compiler does not say so. */
#pragma GCC system_header

#include <netinet/in.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of recvfrom_zcopy(). */
#define MSG_VMA_ZCOPY_FORCE 0x01000000 /* in: never copy into the buffer */
#define MSG_VMA_ZCOPY 0x00040000       /* out: the buffer has a vma_packets_t */

/* Options of setsockopt() at level SOL_SOCKET; and of getsockopt(-1, ...). */
#define SO_VMA_GET_API 2800
#define SO_VMA_USER_DATA 2801
#define SO_VMA_RING_ALLOC_LOGIC 2810
#define SO_VMA_RING_USER_MEMORY 2811
#define SO_VMA_FLOW_TAG 2820
#define SO_VMA_SHUTDOWN_RX 2821

/* A flag of send(), sendto(), sendmsg() and sendmmsg(): nothing is sent; the send path
 * becomes warm. */
#define VMA_SND_FLAGS_DUMMY 0x400 /* MSG_SYN */

/* What ioctl() of the table takes: a control message of level SOL_SOCKET and this type,
 * with flags, a malloc() and a free(). */
enum { CMSG_VMA_IOCTL_USER_ALLOC = 2900 };
enum {
	VMA_IOCTL_USER_ALLOC_FLAG_TX = 1 << 0,
	VMA_IOCTL_USER_ALLOC_FLAG_RX = 1 << 1
};
#pragma pack(push, 1)
typedef struct vma_cmsg_ioctl_user_alloc_t {
	uint8_t flags;
	void *(*memalloc)(size_t);
	void (*memfree)(void *);
} vma_cmsg_ioctl_user_alloc_t;
#pragma pack(pop)

/* vma_extra_supported_mask: which of the functions work. */
typedef enum {
	VMA_EXTRA_API_REGISTER_RECV_CALLBACK = 1 << 0,
	VMA_EXTRA_API_RECVFROM_ZCOPY = 1 << 1,
	VMA_EXTRA_API_FREE_PACKETS = 1 << 2,
	VMA_EXTRA_API_ADD_CONF_RULE = 1 << 3,
	VMA_EXTRA_API_THREAD_OFFLOAD = 1 << 4,
	VMA_EXTRA_API_DUMP_FD_STATS = 1 << 5,
	VMA_EXTRA_API_SOCKETXTREME_POLL = 1 << 6,
	VMA_EXTRA_API_SOCKETXTREME_FREE_VMA_PACKETS = 1 << 7,
	VMA_EXTRA_API_SOCKETXTREME_REF_VMA_BUFF = 1 << 8,
	VMA_EXTRA_API_SOCKETXTREME_FREE_VMA_BUFF = 1 << 9,
	VMA_EXTRA_API_GET_SOCKET_RINGS_NUM = 1 << 10,
	VMA_EXTRA_API_GET_SOCKET_RINGS_FDS = 1 << 11,
	VMA_EXTRA_API_GET_SOCKET_TX_RING_FD = 1 << 12,
	VMA_EXTRA_API_GET_SOCKET_NETWORK_HEADER = 1 << 13,
	VMA_EXTRA_API_GET_RING_DIRECT_DESCRIPTORS = 1 << 14,
	VMA_EXTRA_API_ADD_RING_PROFILE = 1 << 16,
	VMA_EXTRA_API_REGISTER_MEMORY_ON_RING = 1 << 17,
	VMA_EXTRA_API_DEREGISTER_MEMORY_ON_RING = 1 << 18,
	VMA_EXTRA_API_MODIFY_RING = 1 << 20,
	VMA_EXTRA_API_IOCTL = 1 << 21
} vma_extra_api_mask;

/* What a receive callback decides about a packet. */
typedef enum {
	VMA_PACKET_DROP, /* forget it */
	VMA_PACKET_RECV, /* the program will read it with recv() and the like */
	VMA_PACKET_HOLD  /* it is the program's, until free_packets() */
} vma_recv_callback_retval_t;

/* Events of a completion besides epoll's, which are the lower 32 bits. */
__extension__ typedef enum {
	VMA_SOCKETXTREME_PACKET = (1ULL << 32),
	VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED = (1ULL << 33)
} vma_socketxtreme_events_t;

struct vma_buff_t {
	struct vma_buff_t *next; /* NULL: the last */
	void *payload;
	uint16_t len;
};

struct vma_packet_desc_t {
	size_t num_bufs;
	uint16_t total_len;
	struct vma_buff_t *buff_lst;
	struct timespec hw_timestamp;
};

struct vma_completion_t {
	struct vma_packet_desc_t packet; /* if VMA_SOCKETXTREME_PACKET is set */
	uint64_t events;
	uint64_t user_data;     /* SO_VMA_USER_DATA, or the descriptor */
	struct sockaddr_in src; /* of a packet or a new connection */
	int listen_fd;          /* of a new connection */
};

/* A packet in the buffer of recvfrom_zcopy(). */
struct __attribute__((packed)) vma_packet_t {
	void *packet_id;
	size_t sz_iov;
	struct iovec iov[];
};

/* TCP: the packets follow each other, each as long as its sz_iov says. */
struct __attribute__((packed)) vma_packets_t {
	size_t n_packet_num;
	struct vma_packet_t pkts[];
};

/* Valid until the callback returns. */
struct __attribute__((packed)) vma_info_t {
	size_t struct_sz; /* sizeof(struct vma_info_t) of the library */
	void *packet_id;  /* for free_packets(), if the packet is held */
	struct sockaddr_in *src;
	struct sockaddr_in *dst;
	size_t payload_sz;
	/* What may be read from the socket before this packet. */
	uint32_t socket_ready_queue_pkt_count;
	uint32_t socket_ready_queue_byte_count;
	struct timespec hw_timestamp;
	struct timespec sw_timestamp;
};

struct vma_rate_limit_t {
	uint32_t rate;           /* kilobits a second */
	uint32_t max_burst_sz;   /* bytes */
	uint16_t typical_pkt_sz; /* bytes */
};

typedef int vma_ring_profile_key;

/* xlio_types.h has the same type. */
#ifndef MELLANOX_RING_LOGIC
#define MELLANOX_RING_LOGIC
typedef enum {
	RING_LOGIC_PER_INTERFACE = 0,
	RING_LOGIC_PER_IP = 1,
	RING_LOGIC_PER_SOCKET = 10,
	RING_LOGIC_PER_USER_ID = 11,
	RING_LOGIC_PER_THREAD = 20,
	RING_LOGIC_PER_CORE = 30,
	RING_LOGIC_PER_CORE_ATTACH_THREADS = 31,
	RING_LOGIC_PER_OBJECT = 32 /* libxlio's alone */
} ring_logic_t;
#endif
/* libxlio has one more, so a program with both headers gets its number. */
#ifndef RING_LOGIC_LAST
#define RING_LOGIC_LAST ((ring_logic_t)32)
#endif

typedef enum {
	VMA_RING_ALLOC_MASK_RING_PROFILE_KEY = 1 << 0,
	VMA_RING_ALLOC_MASK_RING_USER_ID = 1 << 1,
	VMA_RING_ALLOC_MASK_RING_INGRESS = 1 << 2,
	VMA_RING_ALLOC_MASK_RING_ENGRESS = 1 << 3
} vma_ring_alloc_logic_attr_comp_mask;

struct vma_ring_alloc_logic_attr {
	uint32_t comp_mask;
	ring_logic_t ring_alloc_logic;
	uint32_t ring_profile_key;
	uint32_t user_id;
	uint32_t ingress : 1;
	uint32_t engress : 1;
	uint32_t reserved : 30;
};

/*
 * What the calls take that need an NVIDIA NIC, so that programs for one compile.
 */

/* vma_add_ring_profile() */
typedef enum { VMA_RING_ATTR_LAST } vma_ring_type_attr_mask;
typedef enum { VMA_RING_PACKET, VMA_RING_EXTERNAL_MEM } vma_ring_type;

struct vma_packet_queue_ring_attr {
	uint32_t comp_mask;
};

struct vma_external_mem_attr {
	uint32_t comp_mask;
};

struct vma_ring_type_attr {
	uint32_t comp_mask;
	vma_ring_type ring_type;
	union {
		struct vma_packet_queue_ring_attr ring_pktq;
		struct vma_external_mem_attr ring_ext;
	};
};

/* vma_modify_ring() */
typedef enum {
	VMA_MODIFY_RING_CQ_MODERATION = 1 << 0,
	VMA_MODIFY_RING_CQ_ARM = 1 << 1
} vma_modify_ring_mask;

struct vma_cq_moderation_attr {
	uint32_t cq_moderation_count;
	uint32_t cq_moderation_period_usec;
};

struct vma_cq_arm_attr {
};

struct vma_modify_ring_attr {
	uint32_t comp_bit_mask; /* of vma_modify_ring_mask */
	int ring_fd;
	union {
		struct vma_cq_moderation_attr cq_moderation;
		struct vma_cq_arm_attr cq_arm;
	};
};

/* get_ring_direct_descriptors() */
typedef enum {
	VMA_HW_PP_EN = 1 << 0,
	VMA_HW_PP_BURST_EN = 1 << 3
} mlx_hw_device_cap;

struct dev_data {
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t device_cap; /* of mlx_hw_device_cap */
};

struct hw_cq_data {
	void *buf;
	volatile uint32_t *dbrec;
	uint32_t cq_size;
	uint32_t cqe_size;
	uint32_t cqn;
	void *uar;
	uint32_t *cons_idx;
};

struct hw_wq_data {
	void *buf;
	uint32_t wqe_cnt;
	uint32_t stride;
	volatile uint32_t *dbrec;
	struct hw_cq_data cq_data;
};

struct hw_rq_data {
	struct hw_wq_data wq_data;
	uint32_t *head;
	uint32_t *tail;
};

struct hw_sq_data {
	struct hw_wq_data wq_data;
	uint32_t sq_num;
	struct {
		void *reg;
		uint32_t size;
		uint32_t offset;
	} bf;
};

typedef enum {
	DATA_VALID_DEV,
	DATA_VALID_SQ,
	DATA_VALID_RQ
} vma_mlx_hw_valid_data_mask;

struct vma_mlx_hw_device_data {
	uint32_t valid_mask; /* of vma_mlx_hw_valid_data_mask */
	struct dev_data dev_data;
	struct hw_sq_data sq_data;
	struct hw_rq_data rq_data;
};

/**
 * vma_recv_callback_t - called for each packet before the program can read it
 * @iov, @info: valid until it returns; the bytes of a held packet until
 *              free_packets()
 *
 * Called inside of select(), poll(), epoll_wait(), recv(), recvfrom(),
 * recvmsg(), read() and readv() of the program's threads.  A receiving call on
 * @fd inside of it fails with EAGAIN.
 */
typedef vma_recv_callback_retval_t (*vma_recv_callback_t)(
    int fd, size_t sz_iov, struct iovec iov[], struct vma_info_t *vma_info,
    void *context);

/* Unless said otherwise a function returns 0, or -1 with errno. */
struct __attribute__((packed)) vma_api_t {
	/* @callback NULL: no callback any more.  EINVAL: no socket of ours. */
	int (*register_recv_callback)(int s, vma_recv_callback_t callback,
				      void *context);
	/* As recvfrom(), but @buf gets a struct vma_packets_t, and *@flags has
	 * MSG_VMA_ZCOPY.  ENOBUFS: @len is too small, or too many packets are
	 * held. */
	int (*recvfrom_zcopy)(int s, void *buf, size_t len, int *flags,
			      struct sockaddr *from, socklen_t *fromlen);
	/* EINVAL: no socket of ours; ENOENT: not a packet of @s. */
	int (*free_packets)(int s, struct vma_packet_t *pkts, size_t count);
	int (*add_conf_rule)(const char *config_line);
	int (*thread_offload)(int offload, pthread_t tid);
	int (*socketxtreme_poll)(int fd, struct vma_completion_t *completions,
				 unsigned int ncompletions, int flags);
	int (*get_socket_rings_num)(int fd);
	int (*get_socket_rings_fds)(int fd, int *ring_fds, int ring_fds_sz);
	int (*get_socket_tx_ring_fd)(int sock_fd, struct sockaddr *to,
				     socklen_t tolen);
	int (*socketxtreme_free_vma_packets)(struct vma_packet_desc_t *packets,
					     int num);
	int (*socketxtreme_ref_vma_buff)(struct vma_buff_t *buff);
	int (*socketxtreme_free_vma_buff)(struct vma_buff_t *buff);
	int (*dump_fd_stats)(int fd, int log_level);
	int (*vma_add_ring_profile)(struct vma_ring_type_attr *profile,
				    vma_ring_profile_key *key);
	int (*get_socket_network_header)(int fd, void *ptr, uint16_t *len);
	int (*get_ring_direct_descriptors)(int fd,
					   struct vma_mlx_hw_device_data *data);
	int (*register_memory_on_ring)(int fd, void *addr, size_t length,
				       uint32_t *key);
	int (*deregister_memory_on_ring)(int fd, void *addr, size_t length);
	int (*vma_modify_ring)(struct vma_modify_ring_attr *mr_data);
	uint64_t vma_extra_supported_mask;
	int (*ioctl)(void *cmsg_hdr, size_t cmsg_len);
};

/**
 * vma_get_api() - the table, if the library is there
 *
 * Return: static memory, or NULL.
 */
static inline struct vma_api_t *vma_get_api(void)
{
	struct vma_api_t *api = NULL;
	socklen_t len = sizeof(api);

	if (getsockopt(-1, SOL_SOCKET, SO_VMA_GET_API, &api, &len) < 0)
		return NULL;
	return api;
}

#ifdef __cplusplus
}
#endif

#endif
