/* SPDX-License-Identifier: MIT */
/* ops/port.c - see ops/port.h */
#include "ops/port.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/libc.h"
#include "base/setting.h"
#include "ops/ops.h"
#include "ops/route.h"
#include "proto/shm/shm.h"
#include "proto/tcp/conn.h"
#include "proto/tcp/judge.h"
#include "proto/tcp/wire.h"
#include "sock/shared.h"

/* Bytes between two changes of direction; above it a connection is bulk. */
#define PINGPONG_BYTES_MAX (32u << 10)
/* Looks that found the connection busy; the distance grows with them. */
#define LOOKS_MAX 200u
#define LOOKS_UNTOLD                                                           \
	8u /* after so many the reason is no longer that it is young */
#define FORCED_PINGPONGS 2u
#define ASK_PINGPONGS 16u /* until the judge is asked again */
#define LO_IFINDEX 1      /* in every network namespace */

/* Unless OSF_TCP is 1, only a rule moves a connection to our own TCP.  Our TCP sends and
 * acknowledges only while the program makes a call on one of its connections, or sleeps in
 * one.  We cannot know whether an unmodified program does that often enough. */
static bool is_on = true, may_choose;

void port_configure(void)
{
	is_on = setting_bool("OSF_TCP", true, false);
	may_choose = setting_bool("OSF_TCP", false, false);
}

bool port_is_open(void) { return load_rlx(&wire_engine) != NULL; }

static void (*owners_leave)(enum osf_reason why);

void port_on_leave(void (*leave)(enum osf_reason why)) { owners_leave = leave; }

void port_leave(enum osf_reason why)
{
	if (port_is_open() && owners_leave)
		owners_leave(why);
}

void port_drop(void)
{
	port_leave(OSF_REASON_SHARED);
	wire_drop();
}

static bool is_forced(const char *provider)
{
	return provider && !strcmp(provider, "tcp");
}

static bool rule_allows(const char *provider)
{
	return is_forced(provider) ||
	       (may_choose && (!provider || !strcmp(provider, "osf")));
}

/* A port is for a device; this host's own addresses are on lo. */
static bool may_reach(struct question *q)
{
	if (!q->route.size) {
		q->route.size = sizeof(q->route);
		route_get(q->fd, q->peer, &q->route);
	}
	return q->route.kind == OSF_ROUTE_LINK ||
	       q->route.kind == OSF_ROUTE_GATEWAY ||
	       (q->route.kind == OSF_ROUTE_LOCAL && is_forced(q->provider));
}

bool port_may_take(struct sock *sk, struct question *q, enum osf_reason *why)
{
	if (!is_on || sock_procs(sk) > 1 || !rule_allows(q->provider) ||
	    !may_reach(q))
		return false;
	bool forced = is_forced(q->provider);

	if (!wire_is_there(!forced))
		return false;
	if (!forced && judge_has_settled()) {
		*why = OSF_REASON_SLOWER;
		return false;
	}
	sk->flags |= SOCK_F_PORT | (forced ? SOCK_F_EAGER : 0);
	sk->pingpongs_next =
	    forced ? FORCED_PINGPONGS
		   : MAX(shm_config.upgrade_pingpongs, FORCED_PINGPONGS);
	sk->bytes_next = UINT64_MAX;
	return true;
}

/* Leave the connection with the kernel, and look again after ASK_PINGPONGS changes of
 * direction. */
static void wait(struct sock *sk)
{
	store_rlx(&sk->pingpongs_next,
		  load_rlx(&sk->pingpongs) + ASK_PINGPONGS);
	sock_set_mode(sk, SOCK_YOUNG);
}

/* The connection was busy, for @why: look again later, and later each time. */
static void later(struct sock *sk, enum osf_reason why)
{
	uint32_t n = fetch_add(&sk->n_attempts, 1) + 1;
	uint32_t done = load_rlx(&sk->pingpongs);

	if (n >= LOOKS_UNTOLD && sk->st->reason == OSF_REASON_YOUNG)
		sock_set_reason(sk, why);
	store_rlx(&sk->pingpongs_next, done + 1 + n / 8);
}

static void stay(struct sock *sk, enum osf_reason why)
{
	sock_set_reason(sk, why);
	sock_set_mode(sk, SOCK_KERNEL);
}

static bool is_bulk(const struct sock *sk)
{
	uint64_t bytes =
	    load_rlx(&sk->st->rx_bytes_inet) + load_rlx(&sk->st->tx_bytes_inet);

	return bytes / MAX(load_rlx(&sk->pingpongs), 1u) > PINGPONG_BYTES_MAX;
}

/* Find the device and the hardware address of the next hop.  Return: 0; -EAGAIN: there is
 * no route now, but one may come back. */
static int find_hop(int fd, struct osf_route *r, uint8_t mac[6])
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);

	*r = (struct osf_route){ .size = sizeof(*r) };
	if (libc.getpeername(fd, (struct sockaddr *)&peer, &len) < 0)
		return -ENOTCONN;
	route_get(fd, (struct sockaddr *)&peer, r);
	memset(mac, 0, 6);
	if (r->kind == OSF_ROUTE_LOCAL) {
		r->ifindex = LO_IFINDEX;
		return 0;
	}
	return r->ifindex ? route_neigh(r, mac) : -EAGAIN;
}

void port_look(struct sock *sk, int fd)
{
	bool eager = sk->flags & SOCK_F_EAGER;
	enum osf_reason why = OSF_REASON_NO_NEIGHBOUR;
	struct osf_route r;
	uint8_t mac[6];

	if (!eager && is_bulk(sk)) {
		uint32_t done = load_rlx(&sk->pingpongs);

		sock_set_reason(sk, OSF_REASON_BULK);
		store_rlx(&sk->pingpongs_next, done * 2 + 1);
		sock_set_mode(sk, SOCK_YOUNG);
		return;
	}
	enum judgement may = eager ? JUDGE_MOVE : judge_ask();

	if (may == JUDGE_REST)
		wire_rest();
	bool may_soon = may == JUDGE_SOON || may == JUDGE_MOVE;

	if (!may_soon && judge_has_settled())
		return stay(sk, OSF_REASON_SLOWER);
	if (!may_soon || (!eager && wire_is_waiting()))
		return wait(sk);
	int err = find_hop(fd, &r, mac);
	/* osfd may need some time to open the port.  A program whose rule says tcp waits
	 * for it; others look again later. */
	if (!err && !eager && wire_prepare(r.ifindex) == -EAGAIN) {
		err = -EAGAIN;
		why = OSF_REASON_BUSY;
	}
	if (may == JUDGE_SOON)
		return wait(sk);
	if (err)
		sock_set_mode(sk, SOCK_YOUNG);
	else
		err = moved_try(sk, fd, r.ifindex, mac, &why);
	if (!err) {
		if (!eager)
			judge_moved();
		return;
	}
	if (err == -EAGAIN &&
	    (eager || load_rlx(&sk->n_attempts) < LOOKS_MAX)) {
		later(sk, why);
		return;
	}
	if (sock_start_moving(sk))
		stay(sk, why);
}
