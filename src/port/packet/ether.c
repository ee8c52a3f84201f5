/* SPDX-License-Identifier: MIT */
/* port/packet/ether.c - a port over a packet socket; see ether.h */
#include "port/packet/ether.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/libc.h"

#define SMALL_BYTES 2048u
#define N_SMALL 4096u
#define LARGE_BYTES (PACKET_FRAME_MAX - ETHER_HEAD)
#define N_LARGE 256u
#define RESERVE 1u /* frames that are only lent */
#define RETRY_NS (50 * NS_PER_US)
#define CSUM_OFF 16     /* of a TCP header */
#define IPV4_PLAIN 0x45 /* the first byte of a header without options */
/* Addresses that differ in few bits differ in many of the product's. */
#define HOP_MIX 0x9e3779b97f4a7c15u

static struct ether_port *of(const struct port *p)
{
	return container_of((struct port *)(uintptr_t)p, struct ether_port,
			    port);
}

/*
 * Next hops: a table with open addressing, from which nothing is removed.
 */

static struct ether_hop *hop_at(struct ether_port *p, const struct ip_addr *to)
{
	uint64_t half[2];

	memcpy(half, to->b, sizeof(half));
	uint64_t h = (half[0] ^ half[1]) * HOP_MIX >> 32;
	for (;; h++) {
		struct ether_hop *at = &p->hops[h & (ETHER_HOPS - 1)];

		if (!at->is_used || ip_addr_eq(&at->to, to))
			return at;
	}
}

int ether_hop(struct ether_port *p, const struct ip_addr *to,
	      const uint8_t mac[ETHER_MAC])
{
	struct ether_hop *at = hop_at(p, to);

	/* One entry stays free, so that a search ends. */
	if (!at->is_used && p->n_hops == ETHER_HOPS - 1)
		return -ENOSPC;
	p->n_hops += !at->is_used;
	at->is_used = true;
	at->to = *to;
	memcpy(at->mac, mac, ETHER_MAC);
	return 0;
}

/*
 * Frames that arrive.
 */

static uint32_t n_left(const struct ether_port *p)
{
	return p->small.n_free + p->large.n_free;
}

static bool ether_is_short(const struct port *port)
{
	return n_left(of(port)) <= RESERVE || of(port)->large.n_free <= RESERVE;
}

static struct extent *copy_of(struct ether_port *p, const uint8_t *data,
			      uint32_t len)
{
	bool is_small = len <= SMALL_BYTES && p->small.n_free;
	struct extent *e = extent_new(is_small ? &p->small : &p->large);

	if (e)
		memcpy(e->data, data, len);
	return e;
}

/* Return: the flags of a TCP segment with plain headers; 0: the frame is none. */
static uint8_t tcp_flags(const uint8_t *ip, uint32_t len)
{
	bool is_v6 = ip[0] >> 4 == 6;
	uint32_t at = is_v6 ? IPV6_HEAD : IPV4_HEAD;

	if (len < at + TCP_HEAD || ip[is_v6 ? 6 : 9] != IP_PROTO_TCP ||
	    (!is_v6 && ip[0] != IPV4_PLAIN))
		return 0;
	return ip[at + 13];
}

/* Return: false: the frame is not for the stack. */
static bool take(struct ether_port *p, const struct packet_frame *in,
		 struct tcp_rx_frame *out)
{
	uint16_t type = in->len > ETHER_HEAD ? load_be16(in->data + 12) : 0;
	uint32_t len = in->len - ETHER_HEAD;
	const struct packet_offload *o = &in->offload;
	bool is_last = ether_is_short(&p->port);

	if (type != ETH_P_IP && type != ETH_P_IPV6)
		return false;
	if (unlikely(len > LARGE_BYTES ||
		     tcp_flags(in->data + ETHER_HEAD, len) & TCP_URG)) {
		p->n_refused++;
		return false;
	}
	*out = (struct tcp_rx_frame){
		.ext = copy_of(p, in->data + ETHER_HEAD, len),
		.len = len,
		.flags =
		    (o->needs_csum || o->is_csum_good ? TCP_RX_SUM_GOOD : 0u) |
		    (is_last ? TCP_RX_LENT : 0u),
	};
	return out->ext != NULL;
}

static uint32_t ether_recv(struct port *port, struct tcp_rx_frame *f,
			   uint32_t max, uint64_t now_ns)
{
	struct ether_port *p = of(port);
	struct packet_frame in;
	uint32_t n = 0;

	while (n < max && !(n && ether_is_short(port)) &&
	       packet_rx(&p->io, &in)) {
		if (unlikely(tap_is_wanted(&p->tap)))
			tap_frame(&p->tap, TAP_IN,
				  &(struct iovec){ (void *)(uintptr_t)in.data,
						   in.len },
				  1);
		if (take(p, &in, &f[n]))
			n++;
		else
			p->n_strange++;
		packet_rx_done(&p->io);
	}
	return n;
}

/*
 * Frames that leave.
 */

static int put(struct ether_port *p, const struct tcp_frame *f)
{
	uint8_t head[ETHER_HEAD];
	struct iovec iov[2 + TCP_FRAME_PIECES] = {
		{ head, ETHER_HEAD },
		{ (void *)(uintptr_t)f->head, f->head_len },
	};
	bool is_v6 = f->head[0] >> 4 == 6;
	struct packet_offload o = {
		.gso_size = f->gso_size,
		.is_v6 = is_v6,
		.needs_csum = true,
		.head_len = (uint16_t)(ETHER_HEAD + f->head_len),
		.csum_start = (uint16_t)(ETHER_HEAD + f->ip_len),
		.csum_off = CSUM_OFF,
	};
	struct ip_addr to;

	if (is_v6)
		memcpy(to.b, f->head + 24, sizeof(to.b));
	else
		to = ip_addr_v4(load_be32(f->head + 16));
	const struct ether_hop *hop = hop_at(p, &to);
	if (!hop->is_used)
		return -EHOSTUNREACH;
	memcpy(head, hop->mac, ETHER_MAC);
	memcpy(head + ETHER_MAC, p->mac, ETHER_MAC);
	store_be16(head + 12, is_v6 ? ETH_P_IPV6 : ETH_P_IP);
	for (uint32_t i = 0; i < f->n_pieces; i++)
		iov[2 + i] =
		    (struct iovec){ (void *)(uintptr_t)f->pieces[i].data,
				    f->pieces[i].len };
	int err = packet_tx(&p->io, iov, 2 + f->n_pieces, &o);

	if (unlikely(tap_is_wanted(&p->tap)) && !err)
		tap_frame(&p->tap, TAP_OUT, iov, 2 + f->n_pieces);
	return err;
}

/* Sends p->frame, or keeps it for later if the device is full. */
static void try_to_send(struct ether_port *p, uint64_t now_ns)
{
	int err = put(p, &p->frame);

	p->is_full = err == -EAGAIN;
	if (p->is_full) {
		p->retry_ns = now_ns + RETRY_NS;
		return;
	}
	p->n_lost += err != 0;
	if (err == -ENETDOWN || err == -ENXIO || err == -ENODEV)
		p->err = err;
	tcp_frame_done(&p->frame);
}

static struct tcp_frame *ether_room(struct port *port, uint64_t now_ns)
{
	struct ether_port *p = of(port);

	if (unlikely(p->is_full) && now_ns >= p->retry_ns)
		try_to_send(p, now_ns);
	return p->is_full ? NULL : &p->frame;
}

static void ether_send(struct port *port, struct tcp_frame *f, uint64_t now_ns)
{
	struct ether_port *p = of(port);

	if (p->leaves && f->conn)
		p->leaves(f->conn);
	try_to_send(p, now_ns);
}

static void ether_flush(struct port *port, uint64_t now_ns) {}

static uint64_t ether_next_ns(const struct port *port)
{
	const struct ether_port *p = of(port);

	return p->is_full ? p->retry_ns : UINT64_MAX;
}

static const struct port_ops ether_ops = {
	.recv = ether_recv,
	.is_short = ether_is_short,
	.room = ether_room,
	.send = ether_send,
	.flush = ether_flush,
	.next_ns = ether_next_ns,
};

static int make_pools(struct ether_port *p)
{
	size_t small = (size_t)extent_size(SMALL_BYTES) * N_SMALL;

	p->mem_bytes = small + (size_t)extent_size(LARGE_BYTES) * N_LARGE;
	p->mem = mmap(NULL, p->mem_bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p->mem == MAP_FAILED)
		return -ENOMEM;
	pool_init(&p->small, p->mem, extent_size(SMALL_BYTES), N_SMALL);
	pool_init(&p->large, (uint8_t *)p->mem + small,
		  extent_size(LARGE_BYTES), N_LARGE);
	return 0;
}

int ether_open(struct ether_port *p, int fd, const struct packet_ring *ring)
{
	struct sockaddr_ll ll = { 0 };
	socklen_t len = sizeof(ll);

	*p = (struct ether_port){ .port = { &ether_ops }, .tap = TAP_NONE };
	int err = packet_open(&p->io, fd, ring);
	if (err)
		return err;
	if (getsockname(fd, (struct sockaddr *)&ll, &len) < 0)
		err = -errno;
	else if (ll.sll_halen != ETHER_MAC)
		err = -EINVAL;
	memcpy(p->mac, ll.sll_addr, ETHER_MAC);
	if (!err)
		err = make_pools(p);
	if (err)
		packet_close(&p->io);
	return err;
}

int ether_reopen(struct ether_port *p, int fd, const struct packet_ring *ring)
{
	struct packet_port io;
	int err = packet_open(&io, fd, ring);

	if (err)
		return err;
	io.stats = p->io.stats;
	p->io.fd = -1;
	packet_replace(&p->io, &io);
	return 0;
}

void ether_show(struct ether_port *p, const char *program)
{
	struct sockaddr_ll ll = { 0 };
	socklen_t len = sizeof(ll);
	char dev[IF_NAMESIZE];

	if (getsockname(p->io.fd, (struct sockaddr *)&ll, &len) < 0 ||
	    !if_indextoname((unsigned)ll.sll_ifindex, dev))
		return;
	if (!tap_open(&p->tap, dev, program))
		p->tap.fd = fds_hide(p->tap.fd);
}

void ether_close(struct ether_port *p)
{
	fds_close(p->tap.fd);
	p->tap.fd = -1;
	tap_close(&p->tap);
	if (p->is_full)
		tcp_frame_done(&p->frame);
	packet_close(&p->io);
	munmap(p->mem, p->mem_bytes);
}
