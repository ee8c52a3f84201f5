/* SPDX-License-Identifier: MIT */
/* tools/osf/diag.c - see tools/osf/diag.h */
#include "osf.h"
#include "diag.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
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
	const struct inet_diag_msg *m = NLMSG_DATA(h);
	int left = (int)h->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*m));
	struct tcp_info ti = { 0 };

	for (struct rtattr *a = (struct rtattr *)(m + 1); RTA_OK(a, left);
	     a = RTA_NEXT(a, left)) {
		size_t n = RTA_PAYLOAD(a);

		if (a->rta_type != INET_DIAG_INFO || n < TCP_BYTES_INFO_MIN)
			continue;
		memcpy(&ti, RTA_DATA(a), n < sizeof(ti) ? n : sizeof(ti));
		s->bytes = tcp_bytes_of(&ti);
		s->has_bytes = true;
	}
}

static void take(struct diag *d, const struct nlmsghdr *h)
{
	const struct inet_diag_msg *m = NLMSG_DATA(h);

	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)) ||
	    m->idiag_state == STATE_TIME_WAIT)
		return;
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
}

/* Returns 1 when there is more to come. */
static int take_all(struct diag *d, const char *buf, int n)
{
	const struct nlmsghdr *h = (const void *)buf;

	for (; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
		if (h->nlmsg_type == NLMSG_DONE)
			return 0;
		if (h->nlmsg_type == NLMSG_ERROR) {
			const struct nlmsgerr *e = NLMSG_DATA(h);
			return h->nlmsg_len < NLMSG_LENGTH(sizeof(*e)) ||
				       !e->error
				   ? -EPROTO
				   : e->error;
		}
		take(d, h);
	}
	return 1;
}

static int dump(struct diag *d, int nl, uint8_t family)
{
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} req = { .h = { .nlmsg_len = sizeof(req),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		  .r = { .sdiag_family = family,
			 .sdiag_protocol = IPPROTO_TCP,
			 .idiag_ext = 1 << (INET_DIAG_INFO - 1),
			 .idiag_states = STATES_ALL } };
	int more = 1;

	if (send(nl, &req, sizeof(req), 0) < 0)
		return -errno;
	char *buf = xcalloc(1, DUMP_BYTES);
	while (more > 0) {
		ssize_t n = recv(nl, buf, DUMP_BYTES, 0);
		if (n < 0 && errno == EINTR)
			continue;
		more = n < 0 ? -errno : take_all(d, buf, (int)n);
	}
	free(buf);
	return more;
}

/* A socket in the namespace, or a negative errno; we stay where we are. */
static int open_in(int ns_fd)
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
	int nl =
	    socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	int err = nl < 0 ? -errno : nl;
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
	int nl = open_in(ns_fd);
	if (nl < 0)
		return nl;
	int err = dump(d, nl, AF_INET);
	if (!err)
		err = dump(d, nl, AF_INET6);
	close(nl);
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
