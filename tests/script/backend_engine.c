/* SPDX-License-Identifier: MIT */
/*
 * tests/script/backend_engine.c - src/tcp in virtual time; see backend.h
 *
 * Time advances only in receive() and wait_until(), from one deadline of the stack to
 * the next.  What a call makes pending is sent at the same instant.  Large frames are
 * cut as by a device.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine_sock.h"
#include "proto/tcp/drive.h"

#define RX_EXTENTS 1024
#define RX_BYTES 65536
#define FRAME_BYTES 9216u
#define SEG_BYTES 1460ul
#define GSO_MAX 65000ul

struct engine_packet {
	struct engine_packet *next;
	uint64_t at_ns;
	uint32_t len;
	uint8_t bytes[];
};

static void keep(struct engine *e, const uint8_t *p, uint32_t len)
{
	struct engine_packet *new = malloc(sizeof(*new) + len);

	if (!new)
		abort();
	*new = (struct engine_packet){ .at_ns = e->now_ns - e->start_ns,
				       .len = len };
	memcpy(new->bytes, p, len);
	*e->tail = new;
	e->tail = &new->next;
}

/* --- the port: packets are kept for receive(), and come from inject() --- */

static struct engine *engine_of(struct port *p)
{
	return container_of(p, struct engine, port);
}

static uint32_t port_recv(struct port *p, struct tcp_rx_frame *f, uint32_t max,
			  uint64_t now_ns)
{
	struct engine *e = engine_of(p);

	if (!e->arrived.ext)
		return 0;
	*f = e->arrived;
	e->arrived.ext = NULL;
	return 1;
}

static bool port_is_short(const struct port *p) { return false; }

static struct tcp_frame *port_room(struct port *p, uint64_t now_ns)
{
	return &engine_of(p)->frame;
}

static void port_send(struct port *p, struct tcp_frame *f, uint64_t now_ns)
{
	static uint8_t out[TCP_PACKET_MAX];
	uint32_t n;

	for (uint32_t i = 0; (n = frame_packet(f, i, out)); i++)
		keep(engine_of(p), out, n);
	tcp_frame_done(f);
}

static void port_flush(struct port *p, uint64_t now_ns) {}
static uint64_t port_next_ns(const struct port *p) { return UINT64_MAX; }

static const struct port_ops port_ops = {
	.recv = port_recv,
	.is_short = port_is_short,
	.room = port_room,
	.send = port_send,
	.flush = port_flush,
	.next_ns = port_next_ns,
};

void engine_flush(struct engine *e)
{
	drive_out(e->stack, &e->port, e->now_ns);
	while (tcp_next_ready(e->stack))
		;
	for (struct list *l = e->stack->conns.next; l != &e->stack->conns;
	     l = l->next)
		conn_check(container_of(l, struct tcp_conn, all_link));
}

/* Moves time to the next deadline, or to @until_ns.  Return: whether that is reached */
static bool step(struct engine *e, uint64_t until_ns)
{
	uint64_t next = drive_next_ns(e->stack, &e->port);

	if (next > until_ns) {
		e->now_ns = until_ns > e->now_ns ? until_ns : e->now_ns;
		return true;
	}
	e->now_ns = next > e->now_ns ? next : e->now_ns;
	drive_in(e->stack, &e->port, e->now_ns);
	engine_flush(e);
	return false;
}

static void e_wait_until(void *b, uint64_t at_ns)
{
	struct engine *e = b;

	while (!step(e, e->start_ns + at_ns))
		;
}

static uint64_t e_now(void *b)
{
	struct engine *e = b;

	return e->now_ns - e->start_ns;
}

static int e_inject(void *b, const uint8_t *p, uint32_t len)
{
	struct engine *e = b;
	struct extent *x = extent_new(&e->rx_pool);

	if (!x || len > x->cap)
		return -ENOBUFS;
	memcpy(x->data, p, len);
	/* The connection pays for a whole frame, as with a real port. */
	x->cap = len > FRAME_BYTES ? len : FRAME_BYTES;
	e->arrived = (struct tcp_rx_frame){ .ext = x, .len = len };
	drive_in(e->stack, &e->port, e->now_ns);
	engine_flush(e);
	return 0;
}

static ssize_t e_receive(void *b, uint8_t *p, uint32_t cap, uint64_t until_ns,
			 uint64_t *at_ns)
{
	struct engine *e = b;

	while (!e->head && !step(e, e->start_ns + until_ns))
		;
	struct engine_packet *first = e->head;
	*at_ns = e_now(e);
	if (!first)
		return 0;
	uint32_t len = MIN(first->len, cap);
	memcpy(p, first->bytes, len);
	*at_ns = first->at_ns;
	e->head = first->next;
	if (!e->head)
		e->tail = &e->head;
	free(first);
	return len;
}

static void e_set_local(void *b, const struct ip_addr *a)
{
	struct engine *e = b;

	e->stack->cfg.addrs[!ip_addr_is_v4(a)] = *a;
}

static void e_free(void *b)
{
	struct engine *e = b;

	while (e->head) {
		struct engine_packet *first = e->head;

		e->head = first->next;
		free(first);
	}
	tcp_stack_fini(e->stack);
	assert(e->rx_pool.n_free == e->rx_pool.n);
	free(e->mem);
	free(e->rx_mem);
	free(e);
}

/* --- settings --- */

static struct tcp_config config_default(uint32_t mtu)
{
	return (struct tcp_config){
		.key = { { 0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull } },
		.addrs = { backend_local(false), backend_local(true) },
		.n_addrs = 2,
		.mtu = mtu,
		.gso_max = GSO_MAX,
		.offers = TCP_OFFER_ALL,
		.snd_buf = 1 << 22,
		.rcv_buf = 1 << 18,
		.cc = &tcp_cubic,
		.n_conns = 256,
		.n_reqsks = 256,
		.n_ranges = 16384,
		.n_extents = 4096,
		.extent_bytes = 4000,
	};
}

/* Parses "min default max".  Return: false if it is malformed */
static bool buffer_read(const char *value, uint32_t *first, uint32_t *max)
{
	unsigned long least, begin, most;

	if (sscanf(value, "%lu %lu %lu", &least, &begin, &most) != 3 ||
	    begin > 1u << 30 || most > 1u << 30)
		return false;
	*first = (uint32_t)begin;
	*max = (uint32_t)most;
	return true;
}

/* As in Linux, half of a buffer holds bytes; the window scale is for all of it. */
static int set_rmem(struct tcp_config *c, const char *value)
{
	uint32_t first, max;

	if (!buffer_read(value, &first, &max) || first / 2 < RCV_BUF_MIN)
		return -EINVAL;
	c->rcv_buf = first / 2;
	c->rcv_buf_max = max;
	return 0;
}

static int set_wmem(struct tcp_config *c, const char *value)
{
	return buffer_read(value, &c->snd_buf, &c->snd_buf_max) ? 0 : -EINVAL;
}

static void set_offer(struct tcp_config *c, uint32_t offer, const char *value)
{
	c->offers &= ~offer;
	if (*value != '0')
		c->offers |= offer;
}

static struct tcp_ports ports_read(const char *value)
{
	char *end;
	uint16_t first = (uint16_t)strtoul(value, &end, 10);

	return (struct tcp_ports){ first, (uint16_t)strtoul(end, NULL, 10) };
}

/* The largest frame.  Linux sends its smallest ones at the low rates of scripts. */
static int set_tso(struct tcp_config *c, const char *value)
{
	unsigned long n = strtoul(value, NULL, 10);

	c->gso_max = (uint32_t)MIN(n * SEG_BYTES + 1, GSO_MAX);
	return 0;
}

static int set_cc(struct tcp_config *c, const char *value)
{
	if (!strcmp(value, "cubic"))
		c->cc = &tcp_cubic;
	else if (!strcmp(value, "reno"))
		c->cc = &tcp_newreno;
	else
		return -EINVAL;
	return 0;
}

static int set_one(struct engine *e, struct tcp_config *c, const char *name,
		   const char *value)
{
	if (!strcmp(name, "tcp_timestamps"))
		set_offer(c, TCP_OFFER_TS, value);
	else if (!strcmp(name, "tcp_sack"))
		set_offer(c, TCP_OFFER_SACK, value);
	else if (!strcmp(name, "tcp_window_scaling"))
		set_offer(c, TCP_OFFER_WSCALE, value);
	else if (!strcmp(name, "tcp_rmem"))
		return set_rmem(c, value);
	else if (!strcmp(name, "tcp_wmem"))
		return set_wmem(c, value);
	else if (!strcmp(name, "tcp_congestion_control"))
		return set_cc(c, value);
	else if (!strcmp(name, "tcp_ecn") && *value <= '2')
		c->ecn = *value == '0'   ? TCP_ECN_OFF
			 : *value == '1' ? TCP_ECN_ASK
					 : TCP_ECN_ACCEPT;
	else if (!strcmp(name, "ip_local_port_range"))
		c->ports = ports_read(value);
	else if (!strcmp(name, "tcp_tw_reuse"))
		c->reuse = *value == '0'   ? TCP_REUSE_NEVER
			   : *value == '1' ? TCP_REUSE_ALWAYS
					   : TCP_REUSE_LOCAL;
	else if (!strcmp(name, "tcp_min_tso_segs"))
		return set_tso(c, value);
	else if (!strcmp(name, "tcp_fin_timeout"))
		e->fin_timeout_s = atoi(value);
	else if (strcmp(name, "tcp_no_metrics_save")) /* none are kept */
		return -EINVAL;
	return 0;
}

static int e_set(void *b, const struct backend_setting *s)
{
	struct engine *e = b;

	return set_one(e, &e->stack->cfg, s->name, s->value);
}

static const struct backend_ops ops = {
	.socket = engine_socket,
	.bind = engine_bind,
	.listen = engine_listen,
	.accept = engine_accept,
	.connect = engine_connect,
	.send = engine_send,
	.recv = engine_recv,
	.shutdown = engine_shutdown,
	.close = engine_close,
	.setsockopt = engine_setsockopt,
	.getsockopt = engine_getsockopt,
	.ioctl = engine_ioctl,
	.poll = engine_poll,
	.getpeername = engine_getpeername,
	.move = engine_move,
	.inject = e_inject,
	.receive = e_receive,
	.now = e_now,
	.set_local = e_set_local,
	.set = e_set,
	.wait_until = e_wait_until,
	.free = e_free,
};

int backend_engine(struct backend *b, const struct backend_config *cfg)
{
	struct tcp_config c = config_default(cfg->mtu);

	struct engine *e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	for (uint32_t i = 0; i < cfg->n_settings; i++) {
		int err = set_one(e, &c, cfg->settings[i].name,
				  cfg->settings[i].value);
		if (err) {
			free(e);
			return err;
		}
	}
	e->now_ns = e->start_ns = 1000 * NS_PER_S;
	e->tail = &e->head;
	e->port.ops = &port_ops;
	e->mem = aligned_alloc(64, tcp_stack_bytes(&c));
	e->rx_mem =
	    aligned_alloc(64, (size_t)extent_size(RX_BYTES) * RX_EXTENTS);
	assert(e->mem);
	assert(e->rx_mem);
	e->stack = tcp_stack_init(e->mem, &c, e->now_ns);
	pool_init(&e->rx_pool, e->rx_mem, extent_size(RX_BYTES), RX_EXTENTS);
	*b = (struct backend){ .name = "engine", .ops = &ops, .self = e };
	return 0;
}
