/* SPDX-License-Identifier: MIT */
/*
 * mellanox/xlio_extra.h - the XLIO API as a table of functions, found at run time
 *
 *     struct xlio_api_t *api = xlio_get_api();
 *
 * For programs that do not link with the library: NULL where it is not loaded.  The
 * table is libxlio's since 3.61; OSF_XLIO_ABI in the environment chooses an older
 * one (docs/xlio.md), which has the same magic.  include/osf/group.h has a getter
 * that says how long its table is.
 */
#ifndef XLIO_EXTRA_H
#define XLIO_EXTRA_H

#include <mellanox/xlio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XLIO_MAGIC_NUMBER UINT64_C(0x4f494c584144564e) /* "NVDAXLIO" */

/* cap_mask: which of the functions work. */
#define XLIO_EXTRA_API_ADD_CONF_RULE (1 << 3)
#define XLIO_EXTRA_API_THREAD_OFFLOAD (1 << 4)
#define XLIO_EXTRA_API_DUMP_FD_STATS (1 << 11)
#define XLIO_EXTRA_API_XLIO_ULTRA (1 << 13)

/* All as in mellanox/xlio.h. */
struct xlio_api_t {
	uint64_t magic;
	uint64_t cap_mask;
	int (*add_conf_rule)(const char *config_line);
	int (*thread_offload)(int offload, pthread_t tid);
	int (*dump_fd_stats)(int fd, int log_level);
	int (*xlio_init_ex)(const struct xlio_init_attr *attr);
	int (*xlio_exit)(void);
	int (*xlio_poll_group_create)(const struct xlio_poll_group_attr *attr,
				      xlio_poll_group_t *group_out);
	int (*xlio_poll_group_destroy)(xlio_poll_group_t group);
	void (*xlio_poll_group_poll)(xlio_poll_group_t group);
	int (*xlio_socket_create)(const struct xlio_socket_attr *attr,
				  xlio_socket_t *sock_out);
	int (*xlio_socket_destroy)(xlio_socket_t sock);
	int (*xlio_socket_update)(xlio_socket_t sock, unsigned flags,
				  uintptr_t userdata_sq);
	int (*xlio_socket_setsockopt)(xlio_socket_t sock, int level,
				      int optname, const void *optval,
				      socklen_t optlen);
	int (*xlio_socket_getsockname)(xlio_socket_t sock,
				       struct sockaddr *addr,
				       socklen_t *addrlen);
	int (*xlio_socket_getpeername)(xlio_socket_t sock,
				       struct sockaddr *addr,
				       socklen_t *addrlen);
	int (*xlio_socket_bind)(xlio_socket_t sock, const struct sockaddr *addr,
				socklen_t addrlen);
	int (*xlio_socket_connect)(xlio_socket_t sock,
				   const struct sockaddr *to, socklen_t tolen);
	int (*xlio_socket_listen)(xlio_socket_t sock);
	struct ibv_pd *(*xlio_socket_get_pd)(xlio_socket_t sock);
	int (*xlio_socket_detach_group)(xlio_socket_t sock);
	int (*xlio_socket_attach_group)(xlio_socket_t sock,
					xlio_poll_group_t group);
	int (*xlio_socket_send)(xlio_socket_t sock, const void *data,
				size_t len,
				const struct xlio_socket_send_attr *attr);
	int (*xlio_socket_sendv)(xlio_socket_t sock, const struct iovec *iov,
				 unsigned iovcnt,
				 const struct xlio_socket_send_attr *attr);
	void (*xlio_poll_group_flush)(xlio_poll_group_t group);
	void (*xlio_socket_flush)(xlio_socket_t sock);
	void (*xlio_socket_buf_free)(xlio_socket_t sock, struct xlio_buf *buf);
	void (*xlio_poll_group_buf_free)(xlio_poll_group_t group,
					 struct xlio_buf *buf);
};

/**
 * xlio_get_api() - the table, if the library is there
 *
 * Return: static memory, or NULL with EBADF.
 */
static inline struct xlio_api_t *xlio_get_api(void)
{
	struct xlio_api_t *api = NULL;
	socklen_t len = sizeof(api);

	if (getsockopt(-2, SOL_SOCKET, SO_XLIO_GET_API, &api, &len) < 0 ||
	    len < (socklen_t)sizeof(struct xlio_api_t *) || !api ||
	    api->magic != XLIO_MAGIC_NUMBER)
		return NULL;
	return api;
}

#ifdef __cplusplus
}
#endif

#endif
