/* SPDX-License-Identifier: MIT */
/*
 * tests/app/stress_block.c - a connection that has a thread or two of its own
 *
 *     block_main() -> block_turns()    one thread, in turns
 *                  -> block_streams()  a thread for each direction
 *                         io_rx(), io_tx(); or poll() without a timeout
 */
#include "stress.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#define ABORT_POLL_MS 20

static void block_wait(struct conn *c, short events)
{
	struct pollfd pfd = { .fd = events == POLLIN ? c->fd : c->fd_tx,
			      .events = events };

	if (poll(&pfd, 1, -1) < 0 && errno != EINTR)
		conn_fail(c, "poll: %s", strerror(errno));
}

/* Our own end may abort while we would wait here: wait in slices then. */
static bool block_may_rx(struct conn *c)
{
	int mine = c->is_server ? PLAN_SERVER_ABORTS : PLAN_CLIENT_ABORTS;
	struct pollfd pfd = { .fd = c->fd, .events = POLLIN };

	if (!(c->plan.flags & mine) || c->plan.flags & PLAN_TURNS)
		return true;
	while (!load_rlx(&c->aborts))
		if (poll(&pfd, 1, ABORT_POLL_MS) > 0)
			return true;
	return false;
}

static void block_rx(struct io *io, struct conn *c, bool until_limit)
{
	while (!load_rlx(&c->rx.done) && block_may_rx(c)) {
		if (until_limit &&
		    load_rlx(&c->rx.off) == load_rlx(&c->rx.limit))
			break;
		if (!io_rx(io, c) && rng_one_in(&io->rng, 2))
			block_wait(c, POLLIN);
	}
}

static void block_tx(struct io *io, struct conn *c)
{
	for (;;) {
		if (conn_aborts_now(c)) {
			store_rlx(&c->aborts, true);
			return;
		}
		if (load_rlx(&c->tx.done) ||
		    load_rlx(&c->tx.off) == load_rlx(&c->tx.limit))
			return;
		if (!io_tx(io, c) && rng_one_in(&io->rng, 2))
			block_wait(c, POLLOUT);
	}
}

static void block_turns(struct io *io, struct conn *c)
{
	while (c->i_turn < c->plan.n_turns && !conn_is_over(c) &&
	       !load_rlx(&c->tx.error)) {
		block_tx(io, c);
		if (!load_rlx(&c->aborts))
			block_rx(io, c, true);
		conn_turn(c);
	}
	if (!conn_is_over(c))
		block_tx(io, c);
	if (load_rlx(&c->tx.off) == c->tx.total && !load_rlx(&c->aborts))
		conn_tx_ended(io, c);
	if (!load_rlx(&c->aborts))
		block_rx(io, c, false);
}

static void *block_rx_main(void *p)
{
	struct block_arg *arg = p;
	struct io io;

	io_open(&io, arg->seed ^ 1);
	block_rx(&io, arg->c, false);
	io_close(&io);
	return NULL;
}

static void block_streams(struct io *io, struct conn *c)
{
	struct block_arg arg = { c, rng_next(&io->rng) };
	pthread_t thread;

	if (pthread_create(&thread, NULL, block_rx_main, &arg))
		die("no more threads");
	block_tx(io, c);
	if (load_rlx(&c->tx.off) == c->tx.total && !load_rlx(&c->aborts))
		conn_tx_ended(io, c);
	pthread_join(thread, NULL);
}

void *block_main(void *p)
{
	struct block_arg *arg = p;
	struct conn *c = arg->c;
	struct io io;

	io_open(&io, arg->seed);
	while (c->plan_got < sizeof(c->plan) && !conn_is_over(c))
		conn_read_plan(&io, c);
	if (c->plan.flags & PLAN_TURNS)
		block_turns(&io, c);
	else if (!conn_is_over(c))
		block_streams(&io, c);
	io_close(&io);
	conn_finish(c);
	return NULL;
}
