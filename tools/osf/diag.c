/* SPDX-License-Identifier: MIT */
/* tools/osf/diag.c - see tools/osf/diag.h */
#include "osf.h"
#include "diag.h"
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DUMP_BYTES (256 * 1024) /* of one answer; the kernel makes 32 KB */
#define STATES_ALL 0xfffu
#define STATE_TIME_WAIT 6 /* has no socket any more */

struct diag_end diag_end_of(unsigned family, const uint8_t *addr, uint16_t port)
{
	struct diag_end e = { .port = port };

	if (family == AF_INET6) {
		memcpy(e.addr, addr, 16);
	} else {
		e.addr[10] = e.addr[11] = 0xff;
		memcpy(e.addr + 12, addr, 4);
	}
	return e;
}

bool diag_is_any(const struct diag_end *e)
{
	static const uint8_t any4[16] = { [10] = 0xff, [11] = 0xff };
	static const uint8_t any6[16];

	return !memcmp(e->addr, any4, 16) || !memcmp(e->addr, any6, 16);
}

/* The bytes, which stand in an attribute of the answer. */
static void take_info(struct diag_sock *s, const struct nlmsghdr *h)
{
	const struct nlattr *a;
	struct tcp_info ti = { 0 };

	mnl_attr_for_each(a, h, sizeof(struct inet_diag_msg))
	{
		size_t n = mnl_attr_get_payload_len(a);

		if (mnl_attr_get_type(a) != INET_DIAG_INFO ||
		    n < TCP_BYTES_INFO_MIN)
			continue;
		memcpy(&ti, mnl_attr_get_payload(a),
		       n < sizeof(ti) ? n : sizeof(ti));
		s->bytes = tcp_bytes_of(&ti);
		s->has_bytes = true;
	}
}

static int take(const struct nlmsghdr *h, void *arg)
{
	const struct inet_diag_msg *m = mnl_nlmsg_get_payload(h);
	struct diag *d = arg;

	if (mnl_nlmsg_get_payload_len(h) < sizeof(*m) ||
	    m->idiag_state == STATE_TIME_WAIT)
		return MNL_CB_OK;
	struct diag_sock s = {
		.local = diag_end_of(m->idiag_family,
				     (const uint8_t *)m->id.idiag_src,
				     ntohs(m->id.idiag_sport)),
		.peer = diag_end_of(m->idiag_family,
				    (const uint8_t *)m->id.idiag_dst,
				    ntohs(m->id.idiag_dport)),
		.ino = m->idiag_inode,
		.uid = m->idiag_uid,
		.state = m->idiag_state,
	};
	take_info(&s, h);
	d->socks = xgrow(d->socks, d->n, sizeof(s));
	d->socks[d->n++] = s;
	return MNL_CB_OK;
}

static int dump(struct diag *d, struct mnl_socket *nl, uint8_t family)
{
	char request[MNL_NLMSG_HDRLEN +
		     MNL_ALIGN(sizeof(struct inet_diag_req_v2))];
	struct nlmsghdr *h = mnl_nlmsg_put_header(request);
	int more = MNL_CB_OK;

	h->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	h->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	struct inet_diag_req_v2 *r = mnl_nlmsg_put_extra_header(h, sizeof(*r));
	r->sdiag_family = family;
	r->sdiag_protocol = IPPROTO_TCP;
	r->idiag_ext = 1 << (INET_DIAG_INFO - 1);
	r->idiag_states = STATES_ALL;
	if (mnl_socket_sendto(nl, h, h->nlmsg_len) < 0)
		return -errno;
	char *buf = xcalloc(1, DUMP_BYTES);
	while (more == MNL_CB_OK) {
		ssize_t n = mnl_socket_recvfrom(nl, buf, DUMP_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		more = n < 0 ? MNL_CB_ERROR
			     : mnl_cb_run(buf, (size_t)n, 0, 0, take, d);
	}
	free(buf);
	return more == MNL_CB_STOP ? 0 : -errno;
}

/* A socket in the namespace: 0 or a negative errno; we stay where we are. */
static int open_in(int ns_fd, struct mnl_socket **nl)
{
	int own = -1;

	if (ns_fd >= 0) {
		own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
		if (own < 0 || setns(ns_fd, CLONE_NEWNET) < 0) {
			int err = -errno;
			if (own >= 0)
				close(own);
			return err;
		}
	}
	*nl = mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC);
	int err = *nl ? 0 : -errno;
	if (own >= 0 && setns(own, CLONE_NEWNET) < 0) {
		complain("cannot return to the network namespace: %s",
			 strerror(errno));
		exit(EXIT_FAILURE);
	}
	if (own >= 0)
		close(own);
	return err;
}

static int compare_ends(const struct diag_sock *x, const struct diag_sock *y)
{
	if (x->local.port != y->local.port)
		return x->local.port < y->local.port ? -1 : 1;
	if (x->peer.port != y->peer.port)
		return x->peer.port < y->peer.port ? -1 : 1;
	return memcmp(x->peer.addr, y->peer.addr, sizeof(x->peer.addr));
}

static int by_ends(const void *a, const void *b) { return compare_ends(a, b); }

static int by_ino(const void *a, const void *b)
{
	const struct diag_sock *const *x = a, *const *y = b;

	return (*x)->ino < (*y)->ino ? -1 : (*x)->ino > (*y)->ino;
}

int diag_read(struct diag *d, int ns_fd)
{
	*d = (struct diag){ 0 };
	struct mnl_socket *nl = NULL;
	int err = open_in(ns_fd, &nl);
	if (err)
		return err;
	err = dump(d, nl, AF_INET);
	if (!err)
		err = dump(d, nl, AF_INET6);
	mnl_socket_close(nl);
	if (!d->n)
		return err;
	qsort(d->socks, d->n, sizeof(*d->socks), by_ends);
	d->by_ino = xcalloc(d->n, sizeof(struct diag_sock *));
	for (size_t i = 0; i < d->n; i++)
		d->by_ino[i] = &d->socks[i];
	qsort(d->by_ino, d->n, sizeof(*d->by_ino), by_ino);
	return err;
}

void diag_free(struct diag *d)
{
	free(d->socks);
	free(d->by_ino);
	*d = (struct diag){ 0 };
}

const struct diag_sock *diag_by_ino(const struct diag *d, uint64_t ino)
{
	const struct diag_sock key = { .ino = ino }, *at = &key;
	struct diag_sock **found =
	    ino && d->n ? bsearch(&at, d->by_ino, d->n, sizeof(at), by_ino)
			: NULL;

	return found ? *found : NULL;
}

const struct diag_sock *diag_by_ends(const struct diag *d,
				     const struct diag_end *local,
				     const struct diag_end *peer)
{
	const struct diag_sock key = { .local = *local, .peer = *peer };
	bool any = diag_is_any(local);
	size_t low = 0, high = d->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (compare_ends(&d->socks[mid], &key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < d->n && !compare_ends(&d->socks[low], &key); low++)
		if (any || !memcmp(d->socks[low].local.addr, local->addr, 16))
			return &d->socks[low];
	return NULL;
}
