/* SPDX-License-Identifier: MIT */
/* proto/tcp/drive.c - connects a stack to a port; see drive.h */
#include "proto/tcp/drive.h"

#include "port/port.h"
#include "tcp/tcp.h"

/* The stack fetches what later frames will touch while it works on earlier ones; more
 * frames at once gain nothing. */
#define BATCH 32

uint32_t drive_in(struct tcp_stack *s, struct port *p, uint64_t now_ns)
{
	struct tcp_rx_frame f[BATCH];
	uint32_t n, n_all = 0;

	do {
		/* Bytes out of order may hold the frames that the missing ones need. */
		if (p->ops->is_short(p))
			tcp_reclaim(s);
		n = p->ops->recv(p, f, BATCH, now_ns);
		tcp_rx_batch(s, f, n, now_ns);
		for (uint32_t i = 0; i < n; i++)
			extent_put(f[i].ext);
		n_all += n;
	} while (n);
	tcp_timers(s, now_ns);
	return n_all;
}

void drive_out(struct tcp_stack *s, struct port *p, uint64_t now_ns)
{
	struct tcp_frame *f;

	while ((f = p->ops->room(p, now_ns)) && tcp_tx(s, f, now_ns))
		p->ops->send(p, f, now_ns);
	p->ops->flush(p, now_ns);
}

uint64_t drive_next_ns(const struct tcp_stack *s, const struct port *p)
{
	uint64_t stack = tcp_next_ns(s), port = p->ops->next_ns(p);

	return MIN(stack, port);
}
