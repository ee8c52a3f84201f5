/* SPDX-License-Identifier: MIT */
/* osfd/msg.c - requests, judged; see msg.h.  Pure: no descriptor, no clock. */
#include "osfd/msg.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define HEAD offsetof(struct request, hello)

/* Of each type: bytes of its body, and descriptors. */
static const struct {
	uint16_t n_bytes;
	uint8_t n_fds;
} types[MSG_TYPES] = {
	[MSG_HELLO] = { sizeof(struct msg_hello), 0 },
	[MSG_ADD] = { sizeof(struct msg_port), 0 },
	[MSG_DEL] = { sizeof(struct msg_port), 0 },
	[MSG_LIST] = { sizeof(struct msg_list), 0 },
	[MSG_OPEN] = { sizeof(struct msg_port), 0 },
	[MSG_FREEZE] = { sizeof(struct msg_freeze), 1 },
	[MSG_THAW] = { sizeof(struct msg_thaw), 2 },
	[MSG_DROP] = { sizeof(struct msg_drop), 0 },
	[MSG_ADOPT] = { sizeof(struct msg_adopt), 1 },
	[MSG_ESCROW] = { sizeof(struct msg_escrow), 1 },
	[MSG_UNDO] = { sizeof(struct msg_undo), 1 },
	[MSG_AWAY] = { sizeof(struct msg_away), 1 },
	[MSG_REST] = { sizeof(struct msg_rest), 0 },
	[MSG_WAKE] = { sizeof(struct msg_rest), 0 },
	[MSG_PAST] = { sizeof(struct msg_past), 0 },
};

size_t request_len(enum msg_type type) { return HEAD + types[type].n_bytes; }

uint32_t msg_version_of(const struct msg_hello *a, const struct msg_hello *b)
{
	uint32_t version = MIN(a->version, b->version);

	return version >= a->version_min && version >= b->version_min ? version
								      : 0;
}

/* What the kernel accepts as the name of a device. */
static bool dev_is_sane(const char dev[MSG_DEV_MAX])
{
	size_t len = strnlen(dev, MSG_DEV_MAX);

	if (len == 0 || len == MSG_DEV_MAX || !strcmp(dev, ".") ||
	    !strcmp(dev, ".."))
		return false;
	for (size_t i = 0; i < len; i++)
		if (dev[i] <= ' ' || dev[i] >= 0x7f || dev[i] == '/' ||
		    dev[i] == ':')
			return false;
	return true;
}

static bool port_is_sane(const struct msg_port *p)
{
	return dev_is_sane(p->dev) && p->n_flows <= MSG_FLOWS_MAX &&
	       !(p->flags & ~MSG_BESIDE) && !p->pad;
}

/* The kernel refuses windows that do not fit each other.  This function checks what the
 * kernel does not. */
static bool frozen_is_sane(const struct frozen *f)
{
	return !(f->options & ~FROZEN_OPTIONS) && !(f->flags & ~FROZEN_FLAGS) &&
	       f->snd_wscale <= 14 && f->rcv_wscale <= 14 &&
	       f->mss_clamp <= UINT16_MAX &&
	       strnlen(f->ca_name, FROZEN_CA_MAX) < FROZEN_CA_MAX;
}

static bool body_is_sane(const struct request *r)
{
	switch ((enum msg_type)r->type) {
	case MSG_HELLO:
		return r->hello.version >= r->hello.version_min &&
		       r->hello.version_min > 0;
	case MSG_ADD:
	case MSG_DEL:
	case MSG_OPEN:
		return port_is_sane(&r->port);
	case MSG_THAW:
		return r->thaw.n_unread <= MSG_QUEUE_MAX &&
		       r->thaw.n_unacked <= MSG_QUEUE_MAX &&
		       r->thaw.n_unsent <= MSG_QUEUE_MAX &&
		       frozen_is_sane(&r->thaw.state);
	case MSG_LIST:
	case MSG_FREEZE:
	case MSG_DROP:
	case MSG_ESCROW:
	case MSG_UNDO:
	case MSG_AWAY:
	case MSG_REST:
	case MSG_WAKE:
	case MSG_PAST:
		return true;
	case MSG_ADOPT:
		return frozen_is_sane(&r->adopt.state);
	case MSG_NONE:
	case MSG_TYPES:
		break;
	}
	return false;
}

int request_parse(const void *buf, size_t len, unsigned n_fds,
		  struct request *out)
{
	struct request r = { 0 };
	const uint8_t *bytes = buf;

	if (len < HEAD || len > MSG_BYTES_MAX)
		return -EBADMSG;
	memcpy(&r, buf, HEAD);
	if (r.magic != MSG_MAGIC)
		return -EBADMSG;
	if (r.type == MSG_NONE || r.type >= MSG_TYPES)
		return -EPROTONOSUPPORT;

	size_t known = request_len((enum msg_type)r.type);
	for (size_t i = known; i < len; i++)
		if (bytes[i])
			return -E2BIG;
	memcpy((uint8_t *)&r + HEAD, bytes + HEAD, MIN(len, known) - HEAD);
	if (n_fds != types[r.type].n_fds)
		return -EINVAL;
	if (!body_is_sane(&r))
		return -EBADMSG;
	*out = r;
	return 0;
}
