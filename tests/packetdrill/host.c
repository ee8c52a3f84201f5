/* SPDX-License-Identifier: MIT */
/*
 * tests/packetdrill/host.c - the lock, the clock, and the threads that wait; see host.h
 */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_NS NS_PER_MS /* in which time passes while somebody waits */
#define SETTLE_NS                                                              \
	(100 * NS_PER_MS) /* of real time, for a thread to come back */

/* The time step in which this thread was woken and since when it has not called again;
 * 0: none. */
static _Thread_local uint64_t woken_move;

/* This thread has seen what it was woken for. */
static void has_looked(struct host *h)
{
	if (woken_move && woken_move == h->n_moves && h->n_looking) {
		h->n_looking--;
		pthread_cond_broadcast(&h->looked);
	}
	woken_move = 0;
}

void host_enter(struct host *h)
{
	pthread_mutex_lock(&h->lock);
	has_looked(h);
}

void host_leave(struct host *h) { pthread_mutex_unlock(&h->lock); }

uint64_t host_now(struct host *h) { return h->b.ops->now(h->b.self); }

/* Something has happened: notes edges, and wakes the threads that wait. */
void host_moved(struct host *h)
{
	epoll_look(h);
	if (!h->n_blocked)
		return;
	h->n_moves++;
	if (!pthread_equal(h->owner, pthread_self())) {
		pthread_cond_broadcast(&h->moved);
		return;
	}
	h->n_looking = h->n_blocked;
	pthread_cond_broadcast(&h->moved);
	struct timespec until =
	    ns_timespec(clock_ns(CLOCK_REALTIME) + SETTLE_NS);
	while (h->n_looking)
		if (pthread_cond_timedwait(&h->looked, &h->lock, &until))
			break;
	h->n_looking = 0;
}

/* Lets time pass, in steps while a timer may wake another thread. */
void host_sleep(struct host *h, uint64_t until_ns)
{
	while (h->n_blocked && host_now(h) + STEP_NS < until_ns) {
		h->b.ops->wait_until(h->b.self, host_now(h) + STEP_NS);
		host_moved(h);
	}
	h->b.ops->wait_until(h->b.self, until_ns);
	host_moved(h);
}

static void die(const char *why)
{
	fprintf(stderr, "libosf-packetdrill: %s\n", why);
	exit(EXIT_FAILURE);
}

/* The owner waits, and lets time pass meanwhile: no other thread would. */
static int owner_wait(struct host *h, uint64_t until_ns)
{
	static uint64_t in_vain_ns;
	uint64_t now = host_now(h);

	if (now >= until_ns) {
		in_vain_ns = 0;
		return -ETIMEDOUT;
	}
	in_vain_ns += STEP_NS;
	if (until_ns == NEVER && in_vain_ns > h->limit_ns)
		die("a call waits for what will never come");
	uint64_t next = now + STEP_NS;
	host_sleep(h, next < until_ns ? next : until_ns);
	return 0;
}

/* Waits until something has happened.  It need not be what the caller waits for.
 * Return: 0, or -ETIMEDOUT at @until_ns */
int host_wait(struct host *h, uint64_t until_ns)
{
	if (pthread_equal(h->owner, pthread_self()))
		return owner_wait(h, until_ns);
	uint64_t before = h->n_moves;

	if (host_now(h) >= until_ns)
		return -ETIMEDOUT;
	has_looked(h);
	h->n_blocked++;
	while (h->n_moves == before)
		pthread_cond_wait(&h->moved, &h->lock);
	h->n_blocked--;
	woken_move = h->n_moves;
	return 0;
}

/* When a call that begins now must end; never without a time-out. */
uint64_t host_deadline(struct host *h, const struct timeval *timeout)
{
	uint64_t ns = (uint64_t)timeout->tv_sec * NS_PER_S +
		      (uint64_t)timeout->tv_usec * NS_PER_US;

	return ns ? host_now(h) + ns : NEVER;
}

/* The next packet that leaves.  The tool asks for ever if there is none, so after the
 * limit the process ends here. */
ssize_t host_receive(struct host *h, void *p, size_t cap, uint64_t *at_ns)
{
	uint64_t last = host_now(h) + h->limit_ns;

	for (;;) {
		uint64_t until = last, step = host_now(h) + STEP_NS;

		if (h->n_blocked && step < last)
			until = step;
		ssize_t n = h->b.ops->receive(h->b.self, h->packet,
					      BACKEND_PACKET_MAX, until, at_ns);
		host_moved(h);
		if (n < 0)
			return n;
		if (n && (size_t)n > cap)
			return -EMSGSIZE;
		if (n) {
			memcpy(p, h->packet, (size_t)n);
			return n;
		}
		if (host_now(h) >= last)
			die("the stack has sent nothing within the limit");
	}
}

/* --- files --- */

int file_new(struct host *h, enum file_kind kind, int fd, struct file **out)
{
	if (fd < 0)
		return -errno;
	if (fd >= FILES_MAX) {
		close(fd);
		return -EMFILE;
	}
	/* The kernel gave this number out again, so the tool has closed it itself. */
	if (h->files[fd].kind == FILE_SOCKET)
		h->b.ops->close(h->b.self, h->files[fd].sock);
	h->files[fd] = (struct file){ .kind = kind };
	*out = &h->files[fd];
	return fd;
}

/* Return: the file, or NULL if it is not ours or of another kind. */
struct file *file_get(struct host *h, int fd, enum file_kind kind)
{
	if (fd < 0 || fd >= FILES_MAX || h->files[fd].kind != kind)
		return NULL;
	return &h->files[fd];
}
