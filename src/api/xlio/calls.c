/* SPDX-License-Identifier: MIT */
/*
 * api/xlio/calls.c - the XLIO socket API: handles and errno, on top of group/
 *
 * Each call looks its handle up, enters the group, and leaves it again.  It
 * checks pointers here; group/ checks what the values mean.
 */
#include <assert.h>
#include <string.h>

#include "api/verbs/verbs.h"
#include "api/xlio/edge.h"
#include "base/libc.h"
#include "base/setting.h"
#include "group/group.h"
#include "mellanox/xlio.h"

/*
 * The program's functions, which a group's callbacks call.  Handles and a
 * buffer's bytes are the same on both sides, so each of these is a jump.
 */

enum { OWN_EVENT, OWN_COMP, OWN_RX, OWN_ACCEPT };

static_assert((int)GROUP_ESTABLISHED == XLIO_SOCKET_EVENT_ESTABLISHED, "");
static_assert((int)GROUP_TERMINATED == XLIO_SOCKET_EVENT_TERMINATED, "");
static_assert((int)GROUP_CLOSED == XLIO_SOCKET_EVENT_CLOSED, "");
static_assert((int)GROUP_ERROR == XLIO_SOCKET_EVENT_ERROR, "");
static_assert(sizeof(struct xlio_buf) <= GROUP_BUF_BYTES, "");
static_assert(GROUP_SEND_FLUSH == XLIO_SOCKET_SEND_FLAG_FLUSH, "");
static_assert(GROUP_SEND_COPY == XLIO_SOCKET_SEND_FLAG_INLINE, "");

#define SEND_FLAGS (XLIO_SOCKET_SEND_FLAG_FLUSH | XLIO_SOCKET_SEND_FLAG_INLINE)

static void on_event(uintptr_t sock, uintptr_t userdata, enum group_event event,
		     int value, const struct group_calls *c)
{
	((xlio_socket_event_cb_t)c->own[OWN_EVENT])(sock, userdata, (int)event,
						    value);
}

static void on_comp(uintptr_t sock, uintptr_t userdata, uintptr_t op,
		    const struct group_calls *c)
{
	((xlio_socket_comp_cb_t)c->own[OWN_COMP])(sock, userdata, op);
}

HOT static void on_rx(uintptr_t sock, uintptr_t userdata, void *data,
		      size_t len, struct group_buf *buf,
		      const struct group_calls *c)
{
	((xlio_socket_rx_cb_t)c->own[OWN_RX])(
	    sock, userdata, data, len, (struct xlio_buf *)(void *)buf->api);
}

static void on_accept(uintptr_t sock, uintptr_t parent,
		      uintptr_t parent_userdata, const struct group_calls *c)
{
	((xlio_socket_accept_cb_t)c->own[OWN_ACCEPT])(sock, parent,
						      parent_userdata);
}

/* @bytes of @attr are the program's. */
static int attr_of(const struct xlio_poll_group_attr *attr, size_t bytes,
		   struct group_attr *out)
{
	struct xlio_poll_group_attr full = { 0 };

	memcpy(&full, attr, bytes);
	if (full.flags &
	    ~(unsigned)(XLIO_GROUP_FLAG_SAFE | XLIO_GROUP_FLAG_DIRTY))
		return -EINVAL;
	*out = (struct group_attr){
		.is_locked = full.flags & XLIO_GROUP_FLAG_SAFE,
		.keeps_dirty = full.flags & XLIO_GROUP_FLAG_DIRTY,
		.calls = { .event = full.socket_event_cb ? on_event : NULL,
			   .comp = full.socket_comp_cb ? on_comp : NULL,
			   .rx = full.socket_rx_cb ? on_rx : NULL,
			   .accept = full.socket_accept_cb ? on_accept : NULL,
			   .own = { [OWN_EVENT] =
					(void (*)(void))full.socket_event_cb,
				    [OWN_COMP] =
					(void (*)(void))full.socket_comp_cb,
				    [OWN_RX] =
					(void (*)(void))full.socket_rx_cb,
				    [OWN_ACCEPT] = (void (*)(
					void))full.socket_accept_cb } },
	};
	return 0;
}

/*
 * The calls.
 */

/* Of all groups, for received data and copies; libxlio takes twice as much at once. */
#define MEMORY_DEFAULT (1ull << 30)

static int init(const struct xlio_init_attr *attr)
{
	if (attr->flags)
		return -EINVAL;
	return groups_init(&(struct group_memory){
	    .announce = attr->memory_cb,
	    .alloc = attr->memory_alloc,
	    .free = attr->memory_free,
	    .limit = setting_number("OSF_XLIO_MEMORY", MEMORY_DEFAULT, 0,
				    INT64_MAX) });
}

OSF_API int xlio_init_ex(const struct xlio_init_attr *attr)
{
	int saved = errno;

	return xlio_ret(attr && xlio_abi_is_known() ? init(attr) : -EINVAL,
			saved);
}

OSF_API int xlio_init(void)
{
	static const struct xlio_init_attr nothing;

	return xlio_init_ex(&nothing);
}

OSF_API int xlio_exit(void)
{
	int saved = errno;

	return xlio_ret(groups_exit(), saved);
}

int xlio_group_create_sized(const struct xlio_poll_group_attr *attr,
			    size_t bytes, xlio_poll_group_t *out)
{
	static const struct xlio_init_attr nothing;
	struct group_attr full;
	int saved = errno;

	if (!attr || !out)
		return xlio_ret(-EINVAL, saved);
	int err = attr_of(attr, bytes, &full);
	if (!err && full.calls.event && !groups_are_ready())
		err = init(&nothing);
	return xlio_ret(err ? err : group_create(&full, out), saved);
}

OSF_API int xlio_poll_group_create(const struct xlio_poll_group_attr *attr,
				   xlio_poll_group_t *group_out)
{
	if (!xlio_abi_is_known())
		return xlio_ret(-EINVAL, 0);
	return xlio_group_create_sized(attr, xlio_group_attr_bytes(),
				       group_out);
}

OSF_API int xlio_poll_group_destroy(xlio_poll_group_t group)
{
	struct group *g = group_enter(group);
	int saved = errno, err = g ? group_destroy(g) : -EINVAL;

	if (err && g)
		group_leave(g);
	return xlio_ret(err, saved);
}

int xlio_group_update_sized(xlio_poll_group_t group,
			    const struct xlio_poll_group_attr *attr,
			    size_t bytes)
{
	struct group_attr full;
	struct group *g = attr ? group_enter(group) : NULL;
	int saved = errno, err = g ? attr_of(attr, bytes, &full) : -EINVAL;

	if (!err)
		err = group_update(g, &full);
	group_leave(g);
	return xlio_ret(err, saved);
}

OSF_API int xlio_poll_group_update(xlio_poll_group_t group,
				   const struct xlio_poll_group_attr *attr)
{
	return xlio_group_update_sized(group, attr, xlio_group_attr_bytes());
}

OSF_API HOT void xlio_poll_group_poll(xlio_poll_group_t group)
{
	struct group *g = group_enter(group);

	if (unlikely(!g)) {
		errno = EINVAL;
		return;
	}
	int saved = errno, r = group_turn(g);
	group_leave(g);
	errno = unlikely(r < 0) ? -r : saved;
}

OSF_API int xlio_socket_create(const struct xlio_socket_attr *attr,
			       xlio_socket_t *sock_out)
{
	struct group *g =
	    attr && sock_out && !attr->flags ? group_enter(attr->group) : NULL;
	int saved = errno;
	int err = g ? gsock_create(g, attr->domain, attr->userdata_sq, sock_out)
		    : -EINVAL;

	group_leave(g);
	return xlio_ret(err, saved);
}

/* One call on a socket: @expr with s and, perhaps NULL, g. */
#define ON_SOCK(expr)                                                          \
	({                                                                     \
		struct group *g = NULL;                                        \
		struct gsock *s = gsock_enter(sock, &g);                       \
		int saved_ = errno;                                            \
		int err_ = likely(s != NULL) ? (expr) : -EINVAL;               \
		if (likely(s != NULL))                                         \
			group_leave(g);                                        \
		xlio_ret(err_, saved_);                                        \
	})

OSF_API int xlio_socket_destroy(xlio_socket_t sock)
{
	return ON_SOCK(gsock_destroy(s));
}

OSF_API int xlio_socket_update(xlio_socket_t sock, unsigned flags,
			       uintptr_t userdata_sq)
{
	return ON_SOCK(flags ? -EINVAL
			     : (gsock_set_userdata(s, userdata_sq), 0));
}

OSF_API int xlio_socket_setsockopt(xlio_socket_t sock, int level, int optname,
				   const void *optval, socklen_t optlen)
{
	return ON_SOCK(xlio_opt_set(s, level, optname, optval, optlen));
}

OSF_API int xlio_socket_getsockname(xlio_socket_t sock, struct sockaddr *addr,
				    socklen_t *addrlen)
{
	return ON_SOCK(getsockname(gsock_fd(s), addr, addrlen) < 0 ? -errno
								   : 0);
}

OSF_API int xlio_socket_getpeername(xlio_socket_t sock, struct sockaddr *addr,
				    socklen_t *addrlen)
{
	return ON_SOCK(getpeername(gsock_fd(s), addr, addrlen) < 0 ? -errno
								   : 0);
}

OSF_API int xlio_socket_bind(xlio_socket_t sock, const struct sockaddr *addr,
			     socklen_t addrlen)
{
	return ON_SOCK(addr ? gsock_bind(s, addr, addrlen) : -EINVAL);
}

OSF_API int xlio_socket_connect(xlio_socket_t sock, const struct sockaddr *to,
				socklen_t tolen)
{
	return ON_SOCK(to ? gsock_connect(s, to, tolen) : -EINVAL);
}

OSF_API int xlio_socket_listen(xlio_socket_t sock)
{
	return ON_SOCK(gsock_listen(s));
}

/* libxlio has none either before it knows the device. */
OSF_API struct ibv_pd *xlio_socket_get_pd(xlio_socket_t sock)
{
	struct group *g = NULL;
	struct gsock *s = gsock_enter(sock, &g);
	bool has_route = s && gsock_has_route(s);

	if (s)
		group_leave(g);
	if (has_route)
		return verbs_pd();
	errno = EINVAL;
	return NULL;
}

OSF_API int xlio_socket_detach_group(xlio_socket_t sock)
{
	return ON_SOCK(gsock_detach(s));
}

OSF_API int xlio_socket_attach_group(xlio_socket_t sock,
				     xlio_poll_group_t group)
{
	struct group *g = group_enter(group), *old = NULL;
	struct gsock *s = g ? gsock_enter(sock, &old) : NULL;
	int saved = errno, err = s ? gsock_attach(s, g) : -EINVAL;

	group_leave(old);
	group_leave(g);
	return xlio_ret(err, saved);
}

/* The arguments of a send are valid, as far as we can check here. */
static inline bool is_send(const struct xlio_socket_send_attr *attr)
{
	return likely(attr != NULL) &&
	       likely(!(attr->flags & ~(unsigned)SEND_FLAGS));
}

OSF_API HOT int xlio_socket_send(xlio_socket_t sock, const void *data,
				 size_t len,
				 const struct xlio_socket_send_attr *attr)
{
	struct iovec iov = { (void *)data, len };

	return ON_SOCK(is_send(attr) ? gsock_send(s, &iov, 1, attr->flags,
						  attr->mkey, attr->userdata_op)
				     : -EINVAL);
}

OSF_API int xlio_socket_sendv(xlio_socket_t sock, const struct iovec *iov,
			      unsigned iovcnt,
			      const struct xlio_socket_send_attr *attr)
{
	return ON_SOCK(is_send(attr) && (iov || !iovcnt)
			   ? gsock_send(s, iov, iovcnt, attr->flags, attr->mkey,
					attr->userdata_op)
			   : -EINVAL);
}

OSF_API void xlio_poll_group_flush(xlio_poll_group_t group)
{
	struct group *g = group_enter(group);
	int saved = errno;

	if (g)
		group_flush(g);
	group_leave(g);
	errno = g ? saved : EINVAL;
}

OSF_API void xlio_socket_flush(xlio_socket_t sock)
{
	ON_SOCK((gsock_flush(s), 0));
}

OSF_API HOT void xlio_socket_buf_free(xlio_socket_t sock, struct xlio_buf *buf)
{
	ON_SOCK(group_buf_free(g, (struct group_buf *)(void *)buf));
}

OSF_API HOT void xlio_poll_group_buf_free(xlio_poll_group_t group,
					  struct xlio_buf *buf)
{
	struct group *g = group_enter(group);
	int err = likely(g != NULL)
		      ? group_buf_free(g, (struct group_buf *)(void *)buf)
		      : -EINVAL;

	group_leave(g);
	if (unlikely(err))
		errno = -err;
}
