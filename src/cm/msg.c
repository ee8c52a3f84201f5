/* SPDX-License-Identifier: MIT */
/* cm/msg.c - see cm/msg.h */
#include <errno.h>
#include <infiniband/verbs.h>
#include <sys/socket.h>

#include "base/nocancel.h"
#include "cm/msg.h"

#define QPN_MAX 0xffffffu

/* A REQ and a SIDR_REQ carry the addresses in 36 of their bytes (annex A11). */
uint8_t private_max(enum msg_kind kind)
{
	switch (kind) {
	case MSG_REQ:
		return 92 - 36;
	case MSG_REP:
		return 196;
	case MSG_REJ:
		return 148;
	case MSG_SIDR_REQ:
		return 216 - 36;
	case MSG_SIDR_REP:
		return 136;
	default:
		return 0;
	}
}

static bool is_ip(const union addr *a)
{
	return a->sa.sa_family == AF_INET || a->sa.sa_family == AF_INET6;
}

static bool type_is_known(uint8_t qp_type)
{
	switch (qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return true;
	default:
		return false;
	}
}

bool msg_check(const struct msg *m, size_t n)
{
	if (n != sizeof(*m) || m->magic != MSG_MAGIC ||
	    m->version != MSG_VERSION)
		return false;
	if (m->kind < MSG_REQ || m->kind >= MSG_KINDS)
		return false;
	if (m->p.private_len > private_max((enum msg_kind)m->kind) ||
	    m->p.qp_num > QPN_MAX || m->p.psn > QPN_MAX)
		return false;
	if (m->p.retry_count > 7 || m->p.rnr_retry_count > 7 ||
	    !type_is_known(m->p.qp_type))
		return false;
	if (m->kind != MSG_REQ && m->kind != MSG_SIDR_REQ)
		return true;
	return is_ip(&m->src) && is_ip(&m->dst);
}

int msg_send(int sock, const struct msg *m)
{
	ssize_t n =
	    nocancel_send(sock, m, sizeof(*m), MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	return n == sizeof(*m) ? 0 : -EPIPE;
}

int msg_recv(int sock, struct msg *m)
{
	ssize_t n =
	    nocancel_recv(sock, m, sizeof(*m), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	if (!n)
		return -EPIPE;
	return msg_check(m, (size_t)n) ? 0 : -EPROTO;
}
