/* SPDX-License-Identifier: MIT */
/*
 * cm/cmd_id.c - commands on ids before they are connected: make, bind, resolve, end
 */
#include <errno.h>
#include <string.h>

#include "cm/bridge.h"
#include "cm/id.h"

#define ACK_TIMEOUT_MAX 31 /* it has five bits */

/* As the kernel picks it: only the IB port space leaves it to the program. */
static int qp_type_of(uint16_t ps, uint8_t asked)
{
	switch (ps) {
	case RDMA_PS_TCP:
		return IBV_QPT_RC;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		return IBV_QPT_UD;
	case RDMA_PS_IB:
		return asked;
	default:
		return -EINVAL;
	}
}

int cmd_create_id(struct cm_call *c)
{
	const struct rdma_ucm_create_id *in = c->in;
	struct rdma_ucm_create_id_resp out;
	int type = qp_type_of(in->ps, in->qp_type);

	if (type < 0)
		return type;
	struct cm_id *id = id_new(c->file, in->uid, in->ps, (uint8_t)type);
	if (!id)
		return -ENOMEM;
	out.id = id->handle;
	c->response = in->response;
	int err = call_reply(c, &out, sizeof(out), sizeof(out));
	if (err)
		id_free(id);
	return err;
}

int cmd_destroy_id(struct cm_call *c)
{
	const struct rdma_ucm_destroy_id *in = c->in;
	struct cm_id *id = id_get(c->file, in->id);
	struct rdma_ucm_destroy_id_resp out;

	if (c->out < sizeof(out))
		return -ENOSPC;
	if (!id)
		return -ENOENT;
	/* The other end of a connection reads that it is over. */
	out.events_reported = id->events_reported;
	id_free(id);
	c->response = in->response;
	return call_reply(c, &out, sizeof(out), 0);
}

/* Does an id with address @a have the device?  As with the kernel, a loopback address has
 * no device, unless the device's interface is the loopback.  A program such as libfabric
 * then chooses an address that other hosts reach, too.  An id of datagrams always has it:
 * rsockets of datagrams use the device of an id that they have bound without asking whether
 * it has one. */
static bool names_device(const struct cm_id *id, const union addr *a)
{
	bool is_datagram = id->qp_type == IBV_QPT_UD;

	return !addr_is_any(a) &&
	       (is_datagram || !addr_is_loopback(a) || addr_has_gid(a));
}

static int bind_to(struct cm_id *id, const union addr *a)
{
	if (id->state != ID_IDLE)
		return -EINVAL;
	if (!addr_is_any(a)) {
		int err = addr_check_local(a);

		if (err)
			return err;
	}
	id->src = *a;
	int err = link_bind(id);
	if (err)
		return err;
	id->has_device = names_device(id, a);
	id->state = ID_BOUND;
	return 0;
}

int cmd_bind_ip(struct cm_call *c)
{
	const struct rdma_ucm_bind_ip *in = c->in;
	struct cm_id *id = id_get(c->file, in->id);
	union addr a = { .in6 = in->addr };

	if (!addr_is_ip(&a))
		return -EINVAL;
	return id ? bind_to(id, &a) : -ENOENT;
}

int cmd_listen(struct cm_call *c)
{
	const struct rdma_ucm_listen *in = c->in;
	struct cm_id *id = id_get(c->file, in->id);
	union addr any = { .sa.sa_family = AF_INET };

	if (!id)
		return -ENOENT;
	if (id->state == ID_IDLE) {
		int err = bind_to(id, &any);

		if (err)
			return err;
	}
	if (id->state != ID_BOUND)
		return -EINVAL;
	return link_listen(id, (int)in->backlog);
}

/* Give the id the address from which it will send to @dst. */
static int take_source(struct cm_id *id, const union addr *dst,
		       const union addr *src)
{
	union addr from;
	int err = src && !addr_is_any(src) ? 0 : addr_source(dst, &from);

	if (err)
		return err;
	if (src && !addr_is_any(src))
		from = *src;
	if (id->state == ID_IDLE)
		return bind_to(id, &from);
	if (addr_is_any(&id->src)) {
		addr_set_port(&from, addr_port(&id->src));
		id->src = from;
	}
	return 0;
}

/* Another host is within reach if the way to it begins at an interface that has a GID. */
static int resolve(struct cm_id *id, union addr *dst, const union addr *src)
{
	int err;

	if (addr_is_any(dst))
		addr_set_loopback(dst);
	err = take_source(id, dst, src);
	if (err)
		return err;
	if (addr_is_multicast(dst))
		return id->qp_type == IBV_QPT_UD ? 0 : -EADDRNOTAVAIL;
	if (!addr_check_local(dst))
		return 0;
	return addr_has_gid(&id->src) && !bridge_open() ? 0 : -EHOSTUNREACH;
}

int cmd_resolve_ip(struct cm_call *c)
{
	const struct rdma_ucm_resolve_ip *in = c->in;
	struct cm_id *id = id_get(c->file, in->id);
	union addr src = { .in6 = in->src_addr }, dst = { .in6 = in->dst_addr };
	bool has_src = src.sa.sa_family != AF_UNSPEC;

	if (!addr_is_ip(&dst) || (has_src && !addr_is_ip(&src)))
		return -EINVAL;
	if (!id)
		return -ENOENT;
	if (id->state != ID_IDLE && id->state != ID_BOUND)
		return -EINVAL;
	if ((has_src && src.sa.sa_family != dst.sa.sa_family) ||
	    (id->state == ID_BOUND && id->src.sa.sa_family != dst.sa.sa_family))
		return -EINVAL;
	int err = resolve(id, &dst, has_src ? &src : NULL);
	if (err) {
		event_add_plain(id, EVENT_ADDR_ERROR, err);
		return 0;
	}
	id->dst = dst;
	id->has_device = true;
	id->state = ID_ADDR;
	event_add_plain(id, EVENT_ADDR_RESOLVED, 0);
	return 0;
}

int cmd_resolve_route(struct cm_call *c)
{
	const struct rdma_ucm_resolve_route *in = c->in;
	struct cm_id *id = id_get(c->file, in->id);

	if (!id)
		return -ENOENT;
	if (id->state != ID_ADDR)
		return -EINVAL;
	id->has_route = true;
	id->state = ID_ROUTE;
	event_add_plain(id, EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

/* Options of addresses must come before the address. */
static int set_id_option(struct cm_id *id, const struct rdma_ucm_set_option *in)
{
	uint32_t wide = 0;
	size_t size = in->optname == RDMA_OPTION_ID_TOS ||
			      in->optname == RDMA_OPTION_ID_ACK_TIMEOUT
			  ? 1
			  : sizeof(wide);

	if (in->optname > RDMA_OPTION_ID_ACK_TIMEOUT)
		return -ENOSYS;
	if (in->optlen != size)
		return -EINVAL;
	int err = user_read(&wide, (const void *)(uintptr_t)in->optval, size);
	if (err)
		return err;
	if (in->optname == RDMA_OPTION_ID_TOS)
		return 0; /* of packets, which there are none of */
	if (in->optname == RDMA_OPTION_ID_ACK_TIMEOUT) {
		if (!wide || wide > ACK_TIMEOUT_MAX)
			return -EINVAL;
		id->ack_timeout = (uint8_t)wide;
		return 0;
	}
	if (in->optname == RDMA_OPTION_ID_REUSEADDR) {
		id->may_reuse = wide != 0;
		return 0;
	}
	if (id->state != ID_IDLE)
		return -EINVAL;
	id->is_v6_only = wide != 0;
	return 0;
}

int cmd_set_option(struct cm_call *c)
{
	const struct rdma_ucm_set_option *in = c->in;
	struct cm_id *id = id_get(c->file, in->id);

	if (!id)
		return -ENOENT;
	return in->level == RDMA_OPTION_ID ? set_id_option(id, in) : -ENOSYS;
}

int cmd_migrate_id(struct cm_call *c)
{
	const struct rdma_ucm_migrate_id *in = c->in;
	struct cm_file *from =
	    in->fd <= INT32_MAX ? file_at((int)in->fd) : NULL;
	struct rdma_ucm_migrate_resp out;

	if (!from)
		return -EINVAL;
	struct cm_id *id = id_get(from, in->id);
	if (!id)
		return -ENOENT;
	out.events_reported = id->events_reported;
	c->response = in->response;
	int err = call_reply(c, &out, sizeof(out), sizeof(out));
	if (!err && from != c->file)
		file_adopt(c->file, id);
	return err;
}
