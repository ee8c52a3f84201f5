/* SPDX-License-Identifier: MIT */
/* api/vma/epset.c - see api/vma/epset.h */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/vma/below.h"
#include "api/vma/epset.h"
#include "api/vma/vma.h"
#include "base/atomic.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/nocancel.h"

struct member {
	int fd;
	uint32_t events;
	uint64_t data;
};

struct epset {
	int epfd;
	unsigned n, room;
	struct member *members;
	struct epset *next;
};

bool epset_has_edges;
static struct lock lock; /* all below */
static struct epset *sets;

static struct epset *lookup(int epfd)
{
	struct epset *e = sets;

	while (e && e->epfd != epfd)
		e = e->next;
	return e;
}

static struct member *member_of(struct epset *e, int fd)
{
	for (unsigned i = 0; i < e->n; i++)
		if (e->members[i].fd == fd)
			return &e->members[i];
	return NULL;
}

/* If there is no memory, the set does not know the descriptor, and its events reach the
 * program as the kernel reports them. */
static void put(struct epset *e, struct member m)
{
	struct member *old = member_of(e, m.fd);

	if (!old && e->n == e->room) {
		unsigned room = e->room ? 2 * e->room : 16;
		void *more = realloc(e->members, room * sizeof(*e->members));

		if (!more)
			return;
		e->members = more;
		e->room = room;
	}
	if (!old)
		old = &e->members[e->n++];
	*old = m;
	if (m.events & EPOLLET)
		store_rlx(&epset_has_edges, true);
}

static void drop(struct epset *e, int fd)
{
	struct member *m = member_of(e, fd);

	if (m)
		*m = e->members[--e->n];
}

/* A whole file, for free(), or NULL. */
static char *file_text(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0, room = 0;
	char *text = NULL;
	ssize_t r = fd >= 0;

	while (r > 0) {
		if (room - n < 2) {
			char *more = realloc(text, room = 2 * room + 4096);

			if (!more)
				break;
			text = more;
		}
		r = nocancel_read(fd, text + n, room - n - 1);
		n += r > 0 ? (size_t)r : 0;
	}
	if (text)
		text[n] = '\0';
	if (fd >= 0)
		nocancel_close(fd);
	return text;
}

/* What was in the set before the program asked for the API. */
static void load(struct epset *e)
{
	char path[64], *at;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", e->epfd);
	char *text = file_text(path);
	for (at = text; at && (at = strstr(at, "tfd:")); at++) {
		struct member m;

		if (sscanf(at, "tfd: %d events: %" SCNx32 " data: %" SCNx64,
			   &m.fd, &m.events, &m.data) == 3)
			put(e, m);
	}
	free(text);
}

static struct epset *set_of(int epfd)
{
	struct epset *e = lookup(epfd);

	if (e || !(e = calloc(1, sizeof(*e))))
		return e;
	e->epfd = epfd;
	e->next = sets;
	sets = e;
	load(e);
	return e;
}

int vma_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	GUARD(&lock); /* or epset_again() says what was true before */
	int r = below_epoll_ctl(epfd, op, fd, ev), saved = errno;

	if (r)
		return r;
	struct epset *e = set_of(epfd);
	if (e && op == EPOLL_CTL_DEL)
		drop(e, fd);
	else if (e)
		put(e, (struct member){ fd, ev->events, ev->data.u64 });
	errno = saved;
	return 0;
}

void epset_again(int fd)
{
	int saved = errno;

	GUARD(&lock);
	for (struct epset *e = sets; e; e = e->next) {
		const struct member *m = member_of(e, fd);
		struct epoll_event ev;

		if (!m || !(m->events & EPOLLET) || m->events & EPOLLONESHOT)
			continue;
		ev = (struct epoll_event){ m->events, { .u64 = m->data } };
		below_epoll_ctl(e->epfd, EPOLL_CTL_MOD, fd, &ev);
	}
	errno = saved;
}

unsigned epset_find(int epfd, uint64_t data,
		    struct epset_found found[EPSET_SAME_MAX])
{
	int saved = errno;
	unsigned n = 0;

	GUARD(&lock);
	struct epset *e = set_of(epfd);
	for (unsigned i = 0; e && i < e->n; i++) {
		if (e->members[i].data != data)
			continue;
		if (n == EPSET_SAME_MAX)
			return 0;
		found[n++] = (struct epset_found){ e->members[i].fd,
						   e->members[i].events };
	}
	errno = saved;
	return n;
}

void epset_forget(int fd)
{
	GUARD(&lock);
	for (struct epset **at = &sets; *at;) {
		struct epset *e = *at;

		drop(e, fd);
		if (e->epfd != fd) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		free(e->members);
		free(e);
	}
}
