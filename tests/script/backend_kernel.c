/* SPDX-License-Identifier: MIT */
/*
 * tests/script/backend_kernel.c - Linux's TCP behind a TUN; see backend.h
 *
 * Calls are system calls.  Packets that come out while we wait for something else are
 * kept, with the time at which they were read.
 */
#include "backend.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "repair.h"
#include "tcp/tcp.h"
#include "tun.h"

struct kept {
	struct kept *next;
	uint64_t at_ns;
	uint32_t len;
	uint8_t bytes[];
};

struct kernel {
	struct tun tun;
	uint64_t start_ns;
	struct kept *head, **tail;
	char cc[16]; /* "": the system's */
};

static ssize_t ret(ssize_t r) { return r < 0 ? -errno : r; }

static int k_socket(void *b, int domain, int type, int protocol)
{
	const struct kernel *k = b;
	int fd = socket(domain, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);

	/* The default of a namespace may be an algorithm that the system restricts. */
	if (fd >= 0 && *k->cc &&
	    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, k->cc,
		       (socklen_t)strlen(k->cc))) {
		int err = -errno;
		close(fd);
		return err;
	}
	return (int)ret(fd);
}

static int k_bind(void *b, int fd, const struct sockaddr *a, socklen_t len)
{
	return (int)ret(bind(fd, a, len));
}

static int k_listen(void *b, int fd, int backlog)
{
	return (int)ret(listen(fd, backlog));
}

static int k_accept(void *b, int fd)
{
	return (int)ret(accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

static int k_connect(void *b, int fd, const struct sockaddr *a, socklen_t len)
{
	return (int)ret(connect(fd, a, len));
}

static ssize_t k_send(void *b, int fd, const void *buf, size_t len, int flags)
{
	return ret(send(fd, buf, len, flags | MSG_NOSIGNAL));
}

static ssize_t k_recv(void *b, int fd, void *buf, size_t len, int flags)
{
	return ret(recv(fd, buf, len, flags));
}

static int k_shutdown(void *b, int fd, int how)
{
	return (int)ret(shutdown(fd, how));
}

static int k_close(void *b, int fd) { return (int)ret(close(fd)); }

static int k_setsockopt(void *b, int fd, int level, int name, const void *v,
			socklen_t len)
{
	return (int)ret(setsockopt(fd, level, name, v, len));
}

static int k_getsockopt(void *b, int fd, int level, int name, void *v,
			socklen_t *len)
{
	return (int)ret(getsockopt(fd, level, name, v, len));
}

static int k_ioctl(void *b, int fd, unsigned long what, int *arg)
{
	return (int)ret(ioctl(fd, what, arg));
}

static int k_poll(void *b, int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n = poll(&p, 1, 0);

	return n < 0 ? -errno : p.revents;
}

static int k_getpeername(void *b, int fd, struct sockaddr *a, socklen_t *len)
{
	return (int)ret(getpeername(fd, a, len));
}

static void lent_done(struct extent *e) { assert(!e->refs); }

/* The connection passes through a stack of ours, so that Linux takes back what the engine
 * has understood. */
static int through_engine(struct repaired *r)
{
	const struct tcp_config cfg = { .addrs = { r->x.laddr },
					.n_addrs = 1,
					.mtu = 1500,
					.offers = TCP_OFFER_ALL,
					.snd_buf = REPAIR_BYTES,
					.rcv_buf = REPAIR_BYTES,
					.cc = &tcp_cubic,
					.n_conns = 1,
					.n_reqsks = 1,
					.n_ranges = 64,
					.n_extents = 1,
					.extent_bytes = 64 };
	void *mem = aligned_alloc(64, tcp_stack_bytes(&cfg));
	struct tcp_stack *s = mem ? tcp_stack_init(mem, &cfg, now_ns()) : NULL;
	uint32_t n = seq_len(r->x.snd_una, r->x.snd_end);
	struct extent queued, unread;
	struct tcp_conn *c;

	if (!s)
		return -ENOMEM;
	extent_lend(&queued, r->queued, n, lent_done);
	extent_lend(&unread, r->unread, r->x.n_unread, lent_done);
	int err = tcp_import(s, &r->x, &queued, &unread, now_ns(), &c);
	if (!err) {
		err = tcp_export(c, &r->x, now_ns());
		tcp_forget(c, now_ns());
	}
	tcp_stack_fini(s);
	free(mem);
	return err;
}

static int k_move(void *b, int fd)
{
	static struct repaired r;
	int err = repair_take(fd, &r);

	err = err ? err : through_engine(&r);
	if (!err)
		return repair_give(fd, &r);
	repair_undo(fd);
	return err;
}

static int k_inject(void *b, const uint8_t *p, uint32_t len)
{
	return tun_write(&((struct kernel *)b)->tun, p, len);
}

static uint64_t k_now(void *b)
{
	return now_ns() - ((struct kernel *)b)->start_ns;
}

static uint64_t left_until(struct kernel *k, uint64_t at_ns)
{
	uint64_t now = k_now(k);

	return at_ns > now ? at_ns - now : 0;
}

static ssize_t k_receive(void *b, uint8_t *p, uint32_t cap, uint64_t until_ns,
			 uint64_t *at_ns)
{
	struct kernel *k = b;
	struct kept *first = k->head;

	if (first) {
		uint32_t len = MIN(first->len, cap);

		memcpy(p, first->bytes, len);
		*at_ns = first->at_ns;
		k->head = first->next;
		if (!k->head)
			k->tail = &k->head;
		free(first);
		return len;
	}
	ssize_t n = tun_read(&k->tun, p, cap, left_until(k, until_ns));
	*at_ns = k_now(k);
	return n == -EAGAIN ? 0 : n;
}

static void k_wait_until(void *b, uint64_t at_ns)
{
	static uint8_t p[BACKEND_PACKET_MAX];
	struct kernel *k = b;
	ssize_t n;

	while ((n = tun_read(&k->tun, p, sizeof(p), left_until(k, at_ns))) >
	       0) {
		struct kept *new = malloc(sizeof(*new) + (size_t)n);

		if (!new)
			abort();
		*new = (struct kept){ .at_ns = k_now(k), .len = (uint32_t)n };
		memcpy(new->bytes, p, (size_t)n);
		*k->tail = new;
		k->tail = &new->next;
	}
}

static void k_free(void *b)
{
	struct kernel *k = b;

	while (k->head) {
		struct kept *first = k->head;

		k->head = first->next;
		free(first);
	}
	tun_close(&k->tun);
	free(k);
}

static const struct backend_ops ops = {
	.socket = k_socket,
	.bind = k_bind,
	.listen = k_listen,
	.accept = k_accept,
	.connect = k_connect,
	.send = k_send,
	.recv = k_recv,
	.shutdown = k_shutdown,
	.close = k_close,
	.setsockopt = k_setsockopt,
	.getsockopt = k_getsockopt,
	.ioctl = k_ioctl,
	.poll = k_poll,
	.getpeername = k_getpeername,
	.move = k_move,
	.inject = k_inject,
	.receive = k_receive,
	.now = k_now,
	.wait_until = k_wait_until,
	.free = k_free,
};

struct ip_addr backend_local(bool is_v6)
{
	struct ip_addr a = { { 0xfd, 0x3d, 0xfa, 0x7b, 0xd1, 0x7d, [15] = 1 } };

	return is_v6 ? a : ip_addr_v4(LOCAL_V4);
}

struct ip_addr backend_remote(bool is_v6)
{
	struct ip_addr a = { { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 } };

	return is_v6 ? a : ip_addr_v4(REMOTE_V4);
}

static int set_all(struct kernel *k, const struct backend_config *cfg)
{
	char path[96];

	for (uint32_t i = 0; i < cfg->n_settings; i++) {
		const struct backend_setting *set = &cfg->settings[i];

		if (!strcmp(set->name, "tcp_congestion_control")) {
			snprintf(k->cc, sizeof(k->cc), "%s", set->value);
			continue;
		}
		snprintf(path, sizeof(path), "net/ipv4/%s", set->name);
		int err = netns_sysctl(path, set->value);
		if (err)
			return -EINVAL;
	}
	return 0;
}

int backend_kernel(struct backend *b, const struct backend_config *cfg)
{
	const struct ip_addr locals[] = { backend_local(false),
					  backend_local(true) };
	int err = netns_enter();

	if (err)
		return err;
	struct kernel *k = malloc(sizeof(*k));
	if (!k)
		return -ENOMEM;
	*k = (struct kernel){ .start_ns = now_ns(), .tail = &k->head };
	err = tun_open(&k->tun, cfg->mtu, locals, 2);
	if (!err)
		err = set_all(k, cfg);
	if (err) {
		k_free(k);
		return err;
	}
	*b = (struct backend){ .name = "kernel", .ops = &ops, .self = k };
	return 0;
}
