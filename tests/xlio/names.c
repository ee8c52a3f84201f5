/* SPDX-License-Identifier: MIT */
/*
 * tests/xlio/names.c - programs by the names of the documents, and of the headers
 *
 * Compiled as C11 and C++17, with and without -DDOCUMENTS, and never run.
 */
#ifdef DOCUMENTS
#include <mellanox/xlio.h>
#define FLUSH_FLAG XLIO_SEND_FLAG_FLUSH
#define INLINE_FLAG XLIO_SEND_FLAG_INLINE
typedef struct xlio_send_attr send_attr;
typedef void *data_ptr;
typedef struct iovec *vectors_ptr;
typedef struct xlio_send_attr *attr_ptr;
#else
#include <mellanox/xlio_extra.h>
#define FLUSH_FLAG XLIO_SOCKET_SEND_FLAG_FLUSH
#define INLINE_FLAG XLIO_SOCKET_SEND_FLAG_INLINE
typedef struct xlio_socket_send_attr send_attr;
typedef const void *data_ptr;
typedef const struct iovec *vectors_ptr;
typedef const struct xlio_socket_send_attr *attr_ptr;
#endif
#include <string.h>

/* What programs ask with #ifdef. */
#if !defined(SO_XLIO_GET_API) || !defined(SO_XLIO_RING_ALLOC_LOGIC) ||         \
    !defined(SO_XLIO_SHUTDOWN_RX) || !defined(SO_XLIO_EXT_VLAN_TAG) ||         \
    !defined(XLIO_SOCKET_EVENT_ESTABLISHED) ||                                 \
    !defined(XLIO_RING_ALLOC_MASK_RING_USER_ID) ||                             \
    !defined(RING_LOGIC_PER_INTERFACE) || !defined(XLIO_GROUP_FLAG_SAFE)
#error "a constant is no macro"
#endif
/* Names of libxlio until 3.51. */
#if SO_XLIO_USER_DATA != 2801 || SO_XLIO_FLOW_TAG != 2820 ||                   \
    SO_XLIO_PD != 2822 || SCM_XLIO_PD != 2822 || SCM_XLIO_NVME_PD != 2823 ||   \
    SO_XLIO_ISOLATE != 2825 || CMSG_XLIO_IOCTL_USER_ALLOC != 2900 ||           \
    MSG_XLIO_ZCOPY_FORCE != 0x01000000 || MSG_XLIO_ZCOPY != 0x00040000 ||      \
    XLIO_SND_FLAGS_DUMMY != 0x400 || SOCKETXTREME_POLL_TX != 1 << 15 ||        \
    !defined(XLIO_PACKET_HOLD)
#error "a name is missing"
#endif
#if !defined(DOCUMENTS) && (!defined(XLIO_EXTRA_API_XLIO_ULTRA) ||             \
			    XLIO_EXTRA_API_XLIO_ULTRA != 0x2000)
#error "a bit of cap_mask is no macro"
#endif

static struct sockaddr_in any; /* of netinet/in.h, without asking for it */

static void on_event(xlio_socket_t sock, uintptr_t userdata_sq, int event,
		     int value)
{
	if (event == XLIO_SOCKET_EVENT_ERROR && value)
		xlio_socket_destroy(sock);
	(void)userdata_sq;
}

static void on_comp(xlio_socket_t sock, uintptr_t userdata_sq,
		    uintptr_t userdata_op)
{
	(void)sock;
	(void)userdata_sq;
	(void)userdata_op;
}

static void on_rx(xlio_socket_t sock, uintptr_t userdata_sq, void *data,
		  size_t len, struct xlio_buf *buf)
{
	(void)userdata_sq;
	(void)data;
	(void)len;
	buf->userdata = 1;
	xlio_socket_buf_free(sock, buf);
}

static int send_both(xlio_socket_t sock, data_ptr data, vectors_ptr iov,
		     attr_ptr attr)
{
	return xlio_socket_send(sock, data, 1, attr) +
	       xlio_socket_sendv(sock, iov, 1, attr);
}

int main(void)
{
	struct xlio_poll_group_attr attr;
	struct xlio_socket_attr sock_attr;
	struct xlio_init_attr init;
	xlio_poll_group_t group;
	xlio_socket_t sock;
	send_attr how;
	char byte = 0;
	struct iovec iov = { &byte, 1 };

	memset(&init, 0, sizeof(init));
	memset(&attr, 0, sizeof(attr));
	memset(&sock_attr, 0, sizeof(sock_attr));
	memset(&how, 0, sizeof(how));
	attr.socket_event_cb = &on_event;
	attr.socket_comp_cb = &on_comp;
	attr.socket_rx_cb = &on_rx;
	attr.flags = XLIO_GROUP_FLAG_DIRTY | XLIO_GROUP_FLAG_SAFE;
	how.flags = FLUSH_FLAG | INLINE_FLAG;
	if (xlio_init_ex(&init) || xlio_poll_group_create(&attr, &group))
		return 1;
	sock_attr.domain = AF_INET;
	sock_attr.group = group;
	if (xlio_socket_create(&sock_attr, &sock) ||
	    send_both(sock, &byte, &iov, &how))
		return 1;
	struct ibv_pd *pd = xlio_socket_get_pd(sock);
	xlio_poll_group_poll(group);
	xlio_poll_group_flush(group);
#ifndef DOCUMENTS
	struct xlio_api_t *api = xlio_get_api();
	if (api && api->cap_mask & XLIO_EXTRA_API_XLIO_ULTRA)
		api->xlio_poll_group_poll(group);
#endif
	return pd != NULL || any.sin_port || XLIO_PACKET_DROP || xlio_exit();
}
