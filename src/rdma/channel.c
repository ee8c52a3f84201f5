/* SPDX-License-Identifier: MIT */
/*
 * rdma/channel.c - completion channels
 *
 *     cq_push(), a peer -> a byte in the pipe -> the program's poll() on channel.fd
 *                                             -> ibv_get_cq_event()
 *
 * channel.fd is an epoll set, which a program may poll like any descriptor.  It holds the
 * pipe, and a pidfd for each process that a queue pair is connected to, so that a thread
 * that sleeps learns of that process's end.  A byte in the pipe says "look"; there are at
 * least as many bytes as events.  ibv_get_cq_event() looks: it runs the queue pairs of the
 * channel's queues.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/libc.h"
#include "rdma/core.h"
#include "rdma/users.h"

#define OF_PIPE 0
#define OF_LISTENER UINT64_MAX
/* A sender that waits for a receive, for room or for an answer has times to keep. */
#define BLOCKED_MS 5
#define PATIENCE_MS 1000 /* for an event that poll() has promised */

struct ibv_comp_channel *rdma_create_comp_channel(struct ibv_context *c)
{
	struct channel *ch = calloc(1, sizeof(*ch));
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = OF_PIPE };

	if (!ch)
		return NULL;
	ch->ch.context = c;
	ch->ch.fd = libc.epoll_create1(EPOLL_CLOEXEC);
	if (ch->ch.fd < 0 || pipe2(ch->pipe, O_CLOEXEC | O_NONBLOCK)) {
		int err = errno;

		if (ch->ch.fd >= 0)
			libc.close(ch->ch.fd);
		free(ch);
		errno = err;
		return NULL;
	}
	libc.epoll_ctl(ch->ch.fd, EPOLL_CTL_ADD, ch->pipe[0], &ev);
	fetch_add(&ctx_of(c)->n_objects, 1);
	return &ch->ch;
}

int rdma_destroy_comp_channel(struct ibv_comp_channel *ibch)
{
	struct channel *ch = container_of(ibch, struct channel, ch);

	if (ibch->refcnt)
		return EBUSY;
	libc.close(ibch->fd);
	libc.close(ch->pipe[0]);
	libc.close(ch->pipe[1]);
	fetch_sub(&ctx_of(ibch->context)->n_objects, 1);
	free(ch);
	return 0;
}

void channel_add(struct channel *ch, struct cq *cq)
{
	GUARD(&ch->lock);
	cq->next_on_channel = ch->cqs;
	ch->cqs = cq;
	ch->ch.refcnt++;
	store_rlx(&self_current->dir->cq[cq->idx].bell, ch->pipe[1]);
}

void channel_notify(struct channel *ch)
{
	int saved = errno;

	/* EAGAIN: it is full, and so readable. */
	if (libc.write(ch->pipe[1], "", 1) < 0)
		errno = saved;
}

void channel_watch(struct ibv_comp_channel *ch, struct peer *p)
{
	struct epoll_event ev = { .events = EPOLLIN,
				  .data.u64 = (uint64_t)p->pidfd };
	int saved = errno;

	/* EEXIST: another queue pair has the same peer. */
	if (ch && p->pid != getpid())
		libc.epoll_ctl(ch->fd, EPOLL_CTL_ADD, p->pidfd, &ev);
	errno = saved;
}

void channel_watch_arrivals(struct ibv_comp_channel *ch)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = OF_LISTENER };
	int saved = errno;

	if (ch && self_current)
		libc.epoll_ctl(ch->fd, EPOLL_CTL_ADD, self_current->listen_fd,
			       &ev);
	errno = saved;
}

/* An event that a completion has caused, of any of the channel's queues. */
static struct cq *take_event(struct channel *ch)
{
	GUARD(&ch->lock);
	for (struct cq *cq = ch->cqs; cq; cq = cq->next_on_channel) {
		GUARD(&cq->lock);
		if (!cq->n_pending)
			continue;
		cq->n_pending--;
		cq->n_events++;
		return cq;
	}
	return NULL;
}

static void drain_one(struct channel *ch)
{
	char byte;
	int saved = errno;

	if (libc.read(ch->pipe[0], &byte, 1) < 0)
		errno = saved;
}

/* A peer rings once for each number that a queue shows.  So a thread that was woken and
 * found no completion publishes a new number, and looks again before it sleeps. */
static void arm_anew(struct channel *ch)
{
	GUARD(&ch->lock);
	for (struct cq *cq = ch->cqs; cq; cq = cq->next_on_channel) {
		GUARD(&cq->lock);
		if (cq->arm & CQ_ARMED)
			cq_show_arm(cq, cq->arm & (CQ_ARM_STEP - 1));
	}
	fence_full();
}

/* Move on what completes here.  True: something waits for a time. */
static bool look(struct channel *ch)
{
	bool waits = false;
	GUARD(&ch->lock);

	for (struct cq *cq = ch->cqs; cq; cq = cq->next_on_channel) {
		if (!(cq->arm & CQ_ARMED))
			continue;
		store_rlx(&cq->n_idle,
			  UINT32_MAX); /* look at who has ended, too */
		cq_progress(cq);
		for (uint32_t i = 0; i < cq->n_users; i++)
			waits |= cq->users[i]->sq_done != cq->users[i]->sq_head;
	}
	if (load_rlx(&users_n_local))
		users_progress();
	if (load_rlx(&users_n_xrc))
		waits |= users_progress_blocked();
	return waits;
}

/* Sleep until there may be something, for at most @ms.  1; 0: the time is over; -errno. */
static int wait_for(struct channel *ch, int ms)
{
	struct epoll_event ev;
	int n = libc.epoll_wait(ch->ch.fd, &ev, 1, ms);

	if (n <= 0)
		return n < 0 ? -errno : 0;
	if (ev.data.u64 == OF_PIPE)
		drain_one(ch);
	else if (ev.data.u64 == OF_LISTENER)
		ud_accept();
	else /* who has ended stays so */
		libc.epoll_ctl(ch->ch.fd, EPOLL_CTL_DEL, (int)ev.data.u64,
			       NULL);
	return 1;
}

/* Any queue of the channel, an armed one if there is: its program looks, and finds nothing. */
static struct cq *take_nothing(struct channel *ch)
{
	struct cq *found = NULL;
	GUARD(&ch->lock);

	for (struct cq *cq = ch->cqs; cq; cq = cq->next_on_channel)
		if (!found || (!(found->arm & CQ_ARMED) && cq->arm & CQ_ARMED))
			found = cq;
	if (!found)
		return NULL;
	GUARD(&found->lock);
	found->n_events++;
	return found;
}

/* Takes bytes out of the pipe, and puts back one for each event that is left.  The others said
 * "look".  So look, or the descriptor stays readable without an event.  @n_expected: bytes that say
 * nothing but what the caller knows. */
static void drain_events(struct channel *ch, ssize_t n_expected)
{
	char bytes[64];
	int saved = errno;
	ssize_t n = libc.read(ch->pipe[0], bytes, sizeof(bytes));

	if (n > n_expected) {
		uint32_t n_pending = 0;

		lock_get(&ch->lock);
		for (struct cq *cq = ch->cqs; cq; cq = cq->next_on_channel)
			n_pending += load_rlx(&cq->n_pending);
		lock_put(&ch->lock);
		for (uint32_t i = 0; i < MIN(n_pending, sizeof(bytes)); i++)
			channel_notify(ch);
		arm_anew(ch);
		look(ch);
	}
	errno = saved;
}

static void unlink_cq(struct channel *ch, struct cq *cq)
{
	GUARD(&ch->lock);
	for (struct cq **pc = &ch->cqs; *pc; pc = &(*pc)->next_on_channel)
		if (*pc == cq) {
			*pc = cq->next_on_channel;
			ch->ch.refcnt--;
			return;
		}
}

/* Nobody takes the queue's events any more. */
void channel_remove(struct channel *ch, struct cq *cq)
{
	unlink_cq(ch, cq);
	if (cq->n_pending &&
	    ctx_of(ch->ch.context)->generation == self_generation())
		drain_events(ch, 0);
}

/*
 * Return: a queue with an event, or NULL with an error in *err
 *
 * A program that has found the descriptor readable by its own poll() expects an event.
 * Without one, rsockets would sleep here for one connection while the others have news.
 * But a byte may arrive after another call has taken its event.  So if the first look finds
 * the descriptor readable and no event, this returns one after PATIENCE_MS, of a queue that
 * may be empty.  Programs have to expect an event of an empty queue anyway.
 */
static struct cq *wait_for_event(struct channel *ch, int *err)
{
	bool blocks = !(libc.fcntl(ch->ch.fd, F_GETFL) & O_NONBLOCK);
	uint64_t until = 0;
	struct cq *cq;

	for (int i = 0;; i++) {
		arm_anew(ch);
		bool waits = look(ch);
		if ((cq = take_event(ch))) {
			drain_events(ch, 1);
			return cq;
		}
		if (until && now_ns() >= until && (cq = take_nothing(ch)))
			return cq;
		int n = wait_for(ch, !i || !blocks ? 0
				     : waits       ? BLOCKED_MS
				     : until       ? PATIENCE_MS
						   : -1);
		*err = n < 0 ? n : !n && !blocks ? -EAGAIN : 0;
		if (*err)
			return NULL;
		if (!i && n)
			until = now_ns() + PATIENCE_MS * NS_PER_MS;
	}
}

int rdma_get_cq_event(struct ibv_comp_channel *ibch, struct ibv_cq **out,
		      void **context)
{
	struct channel *ch = container_of(ibch, struct channel, ch);
	struct cq *cq;
	int saved = errno, err = 0;

	if (ctx_of(ibch->context)->generation != self_generation()) {
		errno = EINVAL;
		return -1;
	}
	cq = take_event(ch);
	if (cq)
		drain_events(ch, 1);
	else
		cq = wait_for_event(ch, &err);
	if (!cq) {
		errno = -err;
		return -1;
	}
	*out = &cq->cq;
	*context = cq->cq.cq_context;
	errno = saved;
	return 0;
}
