/* SPDX-License-Identifier: MIT */
/*
 * tests/xlio/abi.c - the layouts that programs for libxlio were compiled with
 *
 * Compiled, as C11 and as C++17, and never run.
 */
#include <assert.h>
#include <stddef.h>

#include <mellanox/xlio_extra.h>
#include <osf/group.h>

#ifdef __cplusplus
#define SAME(a, b) static_assert((a) == (b), #a)
#else
#define SAME(a, b) _Static_assert((a) == (b), #a)
#endif
#define AT(type, member, off) SAME(offsetof(type, member), off)

SAME(sizeof(xlio_poll_group_t), 8);
SAME(sizeof(xlio_socket_t), 8);
SAME(sizeof(struct xlio_buf), 8);
SAME(sizeof(struct xlio_init_attr), 32);
AT(struct xlio_init_attr, flags, 0);
AT(struct xlio_init_attr, memory_cb, 8);
AT(struct xlio_init_attr, memory_alloc, 16);
AT(struct xlio_init_attr, memory_free, 24);
SAME(sizeof(struct xlio_poll_group_attr), 40);
AT(struct xlio_poll_group_attr, flags, 0);
AT(struct xlio_poll_group_attr, socket_event_cb, 8);
AT(struct xlio_poll_group_attr, socket_comp_cb, 16);
AT(struct xlio_poll_group_attr, socket_rx_cb, 24);
AT(struct xlio_poll_group_attr, socket_accept_cb, 32);
SAME(sizeof(struct xlio_socket_attr), 24);
AT(struct xlio_socket_attr, flags, 0);
AT(struct xlio_socket_attr, domain, 4);
AT(struct xlio_socket_attr, group, 8);
AT(struct xlio_socket_attr, userdata_sq, 16);
SAME(sizeof(struct xlio_socket_send_attr), 16);
AT(struct xlio_socket_send_attr, flags, 0);
AT(struct xlio_socket_send_attr, mkey, 4);
AT(struct xlio_socket_send_attr, userdata_op, 8);
SAME(sizeof(struct xlio_send_attr), 16);
SAME(sizeof(struct xlio_rate_limit_t), 12);
AT(struct xlio_rate_limit_t, max_burst_sz, 4);
AT(struct xlio_rate_limit_t, typical_pkt_sz, 8);
SAME(sizeof(struct xlio_ring_alloc_logic_attr), 16);
AT(struct xlio_ring_alloc_logic_attr, ring_alloc_logic, 4);
AT(struct xlio_ring_alloc_logic_attr, user_id, 8);

SAME(XLIO_GROUP_FLAG_SAFE, 1);
SAME(XLIO_GROUP_FLAG_DIRTY, 2);
SAME(XLIO_SOCKET_SEND_FLAG_FLUSH, 1);
SAME(XLIO_SOCKET_SEND_FLAG_INLINE, 2);
SAME(XLIO_SEND_FLAG_FLUSH, 1);
SAME(XLIO_SEND_FLAG_INLINE, 2);
SAME(XLIO_SOCKET_EVENT_ESTABLISHED, 1);
SAME(XLIO_SOCKET_EVENT_TERMINATED, 2);
SAME(XLIO_SOCKET_EVENT_CLOSED, 3);
SAME(XLIO_SOCKET_EVENT_ERROR, 4);
SAME(SO_XLIO_GET_API, 2800);
SAME(SO_XLIO_RING_ALLOC_LOGIC, 2810);
SAME(SO_XLIO_SHUTDOWN_RX, 2821);
SAME(SO_XLIO_EXT_VLAN_TAG, 2824);
SAME(RING_LOGIC_PER_OBJECT, 32);
SAME(RING_LOGIC_LAST, 33);
SAME(XLIO_MAGIC_NUMBER, 0x4f494c584144564eull);
SAME(XLIO_EXTRA_API_ADD_CONF_RULE, 0x8);
SAME(XLIO_EXTRA_API_THREAD_OFFLOAD, 0x10);
SAME(XLIO_EXTRA_API_DUMP_FD_STATS, 0x800);
SAME(XLIO_EXTRA_API_XLIO_ULTRA, 0x2000);

#define SLOT(member, n) AT(struct xlio_api_t, member, 16 + 8 * (n))
SLOT(add_conf_rule, 0);
SLOT(thread_offload, 1);
SLOT(dump_fd_stats, 2);
SLOT(xlio_init_ex, 3);
SLOT(xlio_exit, 4);
SLOT(xlio_poll_group_create, 5);
SLOT(xlio_poll_group_destroy, 6);
SLOT(xlio_poll_group_poll, 7);
SLOT(xlio_socket_create, 8);
SLOT(xlio_socket_destroy, 9);
SLOT(xlio_socket_update, 10);
SLOT(xlio_socket_setsockopt, 11);
SLOT(xlio_socket_getsockname, 12);
SLOT(xlio_socket_getpeername, 13);
SLOT(xlio_socket_bind, 14);
SLOT(xlio_socket_connect, 15);
SLOT(xlio_socket_listen, 16);
SLOT(xlio_socket_get_pd, 17);
SLOT(xlio_socket_detach_group, 18);
SLOT(xlio_socket_attach_group, 19);
SLOT(xlio_socket_send, 20);
SLOT(xlio_socket_sendv, 21);
SLOT(xlio_poll_group_flush, 22);
SLOT(xlio_socket_flush, 23);
SLOT(xlio_socket_buf_free, 24);
SLOT(xlio_poll_group_buf_free, 25);
SAME(sizeof(struct xlio_api_t), 16 + 8 * 26);
