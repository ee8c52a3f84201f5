/* SPDX-License-Identifier: MIT */
/* osfd/port.c - ports and grants; see port.h */
#include "osfd/port.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "osfd/policy.h"
#include "osfd/segment.h"

#define PATIENCE_NS (500 * NS_PER_MS)
#define PATIENCE_MAX_NS (512 * NS_PER_S)

void refuse(struct refusal *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why->text, sizeof(why->text), fmt, ap);
	va_end(ap);
}

void reply_end(struct reply *out, uint16_t type, int err, struct refusal *why)
{
	out->type = type;
	out->err = err;
	if (err && !why->text[0])
		refuse(why, "%s", strerror(-err));
	memcpy(out->reason, why->text, sizeof(out->reason));
}

/* The whole policy, so that a start after a crash finds the same ports. */
static void policy_keep(struct ports *ps)
{
	char line[128];
	off_t at = 0;

	if (ps->state_fd < 0)
		return;
	if (ftruncate(ps->state_fd, 0) < 0)
		return;
	for (unsigned i = 0; i < PORTS_MAX; i++) {
		if (!ps->port[i].is.dev[0])
			continue;
		int n = policy_print(&ps->port[i].is, line, sizeof(line));
		if (pwrite(ps->state_fd, line, (size_t)n, at) != n)
			return;
		at += n;
	}
}

static struct port *port_find(const struct ports *ps, const char *dev,
			      uint32_t uid)
{
	for (unsigned i = 0; i < PORTS_MAX; i++)
		if (ps->port[i].is.uid == uid &&
		    strcmp(ps->port[i].is.dev, dev) == 0)
			return &ps->port[i];
	return NULL;
}

int port_add(struct ports *ps, const struct msg_port *p, struct refusal *why)
{
	struct port *port = port_find(ps, p->dev, p->uid);
	struct device d;

	int err = device_find(ps, p->dev, &d, why);
	if (!err && !port && !(p->flags & MSG_BESIDE))
		err = device_is_free(ps, &d, why);
	if (err)
		return err;
	for (unsigned i = 0; !port && i < PORTS_MAX; i++)
		if (!ps->port[i].is.dev[0])
			port = &ps->port[i];
	if (!port) {
		refuse(why, "there are %d ports already", PORTS_MAX);
		return -ENOSPC;
	}
	port->is = *p;
	port->is_ending = false;
	if (!port->is.n_flows)
		port->is.n_flows = POLICY_FLOWS;
	policy_keep(ps);
	return 0;
}

/* Return: false when one of its programs has just got a flow */
static bool port_remove(struct ports *ps, struct port *port)
{
	bool is_used = false;

	for (unsigned i = 0; i < GRANTS_MAX; i++) {
		struct grant *g = &ps->grant[i];

		if (g->port != port)
			continue;
		if (use_end_unused(&ps->use[i], g->number))
			grant_close(g);
		else
			is_used = true;
	}
	if (is_used)
		return false;
	*port = (struct port){ 0 };
	policy_keep(ps);
	return true;
}

uint32_t port_n_used(const struct ports *ps, const struct port *p)
{
	uint32_t index = (uint32_t)(p - ps->port), n = 0;

	for (unsigned i = 0; i < GRANTS_MAX; i++)
		if (ps->use[i].port == index)
			n += use_n(&ps->use[i]);
	return n;
}

int port_del(struct ports *ps, const struct msg_port *p, struct refusal *why)
{
	struct port *port = port_find(ps, p->dev, p->uid);

	if (!port) {
		refuse(why, "%s is no port of uid %u", p->dev, p->uid);
		return -ENOENT;
	}
	port->is_ending = true;
	uint32_t n_used = port_n_used(ps, port);
	if (!n_used && port_remove(ps, port))
		return 0;
	refuse(why, "%u connections run over %s", n_used, p->dev);
	return -EBUSY;
}

bool ports_has(const struct ports *ps, uint32_t uid)
{
	for (unsigned i = 0; i < PORTS_MAX; i++)
		if (ps->port[i].is.dev[0] && ps->port[i].is.uid == uid)
			return true;
	return false;
}

void ports_end(struct ports *ps)
{
	for (unsigned i = 0; i < PORTS_MAX; i++)
		ps->port[i].is_ending = ps->port[i].is.dev[0];
}

bool ports_sweep(struct ports *ps)
{
	bool any = false;

	for (unsigned i = 0; i < PORTS_MAX; i++) {
		struct port *p = &ps->port[i];

		if (p->is_ending && !port_n_used(ps, p))
			(void)port_remove(ps, p);
		any = any || p->is_ending;
	}
	return any;
}

struct port *port_at(struct ports *ps, uint32_t index)
{
	for (unsigned i = 0; i < PORTS_MAX; i++)
		if (ps->port[i].is.dev[0] && !index--)
			return &ps->port[i];
	return NULL;
}

/* The kernel's count begins anew with each look; a program that looks takes from ours. */
static void count_dropped(const struct grant *g)
{
	struct tpacket_stats st;
	socklen_t len = sizeof(st);

	if (g->frames_fd >= 0 && getsockopt(g->frames_fd, SOL_PACKET,
					    PACKET_STATISTICS, &st, &len) == 0)
		g->port->n_dropped += st.tp_drops;
}

static void add_counts(const struct grant *g, uint64_t counts[STEER_N_COUNTS])
{
	uint64_t of[STEER_N_COUNTS];

	count_dropped(g);
	steer_counts(&g->steer, of);
	for (unsigned c = 0; c < STEER_N_COUNTS; c++)
		counts[c] += of[c];
}

static void add_ends(const struct grant *g, uint64_t *n_thawed,
		     uint64_t *n_reset)
{
	const struct use *u = &g->ports->use[g - g->ports->grant];

	*n_thawed += load_rlx(&u->n_thawed);
	*n_reset += load_rlx(&u->n_reset);
}

void port_sum(struct ports *ps, struct port *p, struct port_sums *out)
{
	struct port_sums sums = { .n_thawed = p->n_thawed,
				  .n_reset = p->n_reset };

	memcpy(sums.counts, p->counts, sizeof(p->counts));
	for (unsigned i = 0; i < GRANTS_MAX; i++) {
		if (ps->grant[i].port != p)
			continue;
		add_counts(&ps->grant[i], sums.counts);
		add_ends(&ps->grant[i], &sums.n_thawed, &sums.n_reset);
	}
	sums.n_dropped = p->n_dropped;
	*out = sums;
}

struct port *port_for(const struct ports *ps, const char *dev, uint32_t uid)
{
	struct port *own = port_find(ps, dev, uid);

	for (unsigned i = 0; !own && uid == 0 && i < PORTS_MAX; i++)
		if (strcmp(ps->port[i].is.dev, dev) == 0)
			own = &ps->port[i];
	return own && own->is_ending ? NULL : own;
}

static struct grant *grant_find_free(struct ports *ps, const struct port *p,
				     int owner, struct refusal *why)
{
	struct grant *room = NULL;
	unsigned n_owner = 0, n_dev = 0;

	for (unsigned i = 0; i < GRANTS_MAX; i++) {
		struct grant *g = &ps->grant[i];
		if (!g->port) {
			room = g;
			continue;
		}
		n_owner += g->owner == owner;
		n_dev += strcmp(g->port->is.dev, p->is.dev) == 0;
	}
	if (room && n_owner < GRANTS_PER_CLIENT && n_dev < PORT_GRANTS_MAX)
		return room;
	refuse(why, "%s has %u programs, this one uses %u ports, all is full",
	       p->is.dev, n_dev, n_owner);
	return NULL;
}

int grant_open(struct ports *ps, const char *dev, uint32_t uid, int owner,
	       struct msg_grant *out, int fds[2], struct refusal *why)
{
	struct port *p = port_for(ps, dev, uid);
	struct device d;
	struct steer s;

	if (!p) {
		refuse(why, "uid %u may not use %s (osf port add)", uid, dev);
		return -EACCES;
	}
	struct grant *g = grant_find_free(ps, p, owner, why);
	if (!g)
		return -ENOSPC;
	int err = device_find(ps, dev, &d, why);
	if (err)
		return err;
	err = steer_open(&s, d.ifindex, p->is.n_flows);
	if (err) {
		refuse(why, "%s cannot be steered: %s", dev, strerror(-err));
		return err;
	}
	struct packet_ring ring = packet_ring_for(d.mtu);
	int fd = packet_socket(d.ifindex, &ring, s.filter_fd);
	if (fd < 0) {
		refuse(why, "%s has no ring: %s", dev, strerror(-fd));
		steer_close(&s);
		return fd;
	}
	*g = (struct grant){ .port = p,
			     .ports = ps,
			     .steer = s,
			     .number = ++ps->n_opened,
			     .ifindex = d.ifindex,
			     .idle_ns = now_ns(),
			     .patience_ns = PATIENCE_NS,
			     .is_lo = d.is_lo,
			     .owner = owner,
			     .frames_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0),
			     .escrow_fd = -1,
			     .away_fd = -1 };
	use_begin(&ps->use[g - ps->grant], g->number, (uint32_t)(p - ps->port));
	p->n_grants++;
	fds[0] = fd;
	fds[1] = s.link_fd;
	*out = (struct msg_grant){
		.grant = (uint32_t)(g - ps->grant),
		.ifindex = (uint32_t)d.ifindex,
		.mtu = d.mtu,
		.slot_bytes = ring.slot_bytes,
		.n_slots = ring.n_slots,
		.n_flows = p->is.n_flows,
	};
	return 0;
}

static void wake_peers(const struct steer *s)
{
	struct steer_key key, last;
	struct steer_flow flow;
	bool is_there = steer_next(s, NULL, &key, &flow);

	while (is_there) {
		if (flow.snd_nxt)
			wake_peer(&key, flow.snd_nxt);
		last = key;
		is_there = steer_next(s, &last, &key, &flow);
	}
}

/* The program has the descriptor, too, so closing ours would not end the watch. */
static void end_away(const struct grant *g)
{
	if (g->away_fd < 0)
		return;
	epoll_ctl(g->away_set_fd, EPOLL_CTL_DEL, g->away_fd, NULL);
	close(g->away_fd);
}

void grant_close(struct grant *g)
{
	add_counts(g, g->port->counts);
	add_ends(g, &g->port->n_thawed, &g->port->n_reset);
	use_end(&g->ports->use[g - g->ports->grant]);
	if (g->frames_fd >= 0)
		close(g->frames_fd);
	g->port->n_grants--;
	steer_detach(&g->steer);
	wake_peers(&g->steer);
	steer_close(&g->steer);
	*g = (struct grant){ 0 };
}

void grants_forget(struct ports *ps)
{
	for (unsigned i = 0; i < GRANTS_MAX; i++) {
		if (ps->grant[i].port)
			munmap(ps->grant[i].steer.used_ports, STEER_PORT_BYTES);
		ps->grant[i] = (struct grant){ 0 };
	}
}

int grant_share(struct ports *ps, const struct grant_part *p, int owner)
{
	struct grant *g = &ps->grant[p->is.grant];
	struct steer s;
	int err = steer_share(&s, p->flows_fd, p->ports_fd);

	if (err) {
		steer_drop(&s);
		close(p->frames_fd);
		return err;
	}
	*g = (struct grant){ .port = &ps->port[ps->use[p->is.grant].port],
			     .ports = ps,
			     .steer = s,
			     .number = p->number,
			     .ifindex = (int)p->is.ifindex,
			     .idle_ns = now_ns(),
			     .patience_ns = PATIENCE_NS,
			     .is_lo = p->is_lo,
			     .owner = owner,
			     .frames_fd = p->frames_fd,
			     .escrow_fd = -1,
			     .away_fd = -1 };
	return 0;
}

void grant_drop(struct grant *g)
{
	end_away(g);
	close(g->frames_fd);
	steer_drop(&g->steer);
	*g = (struct grant){ 0 };
}

bool grant_has_ended(const struct grant *g)
{
	return !use_is(&g->ports->use[g - g->ports->grant], g->number);
}

struct grant *grant_of(struct ports *ps, uint32_t id, int owner)
{
	struct grant *g = id < GRANTS_MAX ? &ps->grant[id] : NULL;

	return g && g->port && g->owner == owner && !grant_has_ended(g) ? g
									: NULL;
}

/* Lets a grant that was put to rest hear frames again, before its first flow. */
static int hear(struct grant *g)
{
	int err = grant_listen(g, true);

	if (!err)
		g->patience_ns = MIN(2 * g->patience_ns, PATIENCE_MAX_NS);
	return err;
}

int grant_listen(struct grant *g, bool is_on)
{
	if (g->is_deaf == !is_on || g->frames_fd < 0)
		return 0;
	int err = packet_listen(g->frames_fd, g->ifindex, is_on);
	if (err)
		return err;
	g->is_deaf = !is_on;
	g->idle_ns = now_ns();
	return 0;
}

int grants_rest(struct ports *ps)
{
	struct grant *due = NULL;
	uint64_t now = now_ns(), left_ns = UINT64_MAX;

	for (unsigned i = 0; i < GRANTS_MAX; i++) {
		struct grant *g = &ps->grant[i];

		if (!g->port || g->n_flows || g->is_deaf || g->frames_fd < 0)
			continue;
		if (now - g->idle_ns >= g->patience_ns)
			due = g;
		else
			left_ns =
			    MIN(left_ns, g->idle_ns + g->patience_ns - now);
	}
	if (due) {
		(void)grant_listen(due, false);
		due->idle_ns = now; /* it is tried again, if that has failed */
		return 0;
	}
	return left_ns == UINT64_MAX ? -1 : (int)(left_ns / NS_PER_MS) + 1;
}

int grant_rest(struct grant *g, struct refusal *why)
{
	uint32_t n = use_n(&g->ports->use[g - g->ports->grant]);

	if (n) {
		refuse(why, "the grant has %u flows", n);
		return -EBUSY;
	}
	steer_detach(&g->steer);
	return 0;
}

int grant_wake(struct grant *g, struct refusal *why)
{
	int err = 0;

	if (g->steer.link_fd < 0)
		err = steer_attach(&g->steer, g->ifindex);
	if (err)
		refuse(why, "%s cannot be steered: %s", g->port->is.dev,
		       strerror(-err));
	return err;
}

/* A port's limit is for all of its programs. */
static int flow_take(struct grant *g)
{
	struct use *u = &g->ports->use[g - g->ports->grant];

	if (!use_take(u, g->number))
		return -EBADF;
	if (port_n_used(g->ports, g->port) > g->port->is.n_flows) {
		use_give(u, g->number);
		return -ENOSPC;
	}
	g->n_flows++;
	return 0;
}

static void flow_give(struct grant *g)
{
	use_give(&g->ports->use[g - g->ports->grant], g->number);
	if (!--g->n_flows)
		g->idle_ns = now_ns();
}

int grant_steer(struct grant *g, const struct steer_key *k,
		enum steer_mode mode, uint32_t snd_nxt)
{
	struct steer_flow flow = { mode, snd_nxt };
	bool is_new = !steer_has(&g->steer, k);

	if (unlikely(g->is_resting))
		return -EAGAIN;
	int err = is_new ? flow_take(g) : 0;
	if (err)
		return err;
	if (unlikely(g->is_deaf))
		err = hear(g);
	if (!err)
		err = steer_set(&g->steer, k, &flow);
	if (err && is_new)
		flow_give(g);
	return err;
}

void grant_unsteer(struct grant *g, const struct steer_key *k)
{
	if (steer_del(&g->steer, k))
		flow_give(g);
}
