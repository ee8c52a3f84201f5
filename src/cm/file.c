/* SPDX-License-Identifier: MIT */
/*
 * cm/file.c - event channels: see cm/cm.h and cm/id.h
 *
 *     events queued -> the eventfd `bell` is set  \
 *     a socket of an id has something to read      > the epoll set is readable
 *     a deadline has passed: `timer`              /
 *
 * The program's descriptors are copies of our own descriptor of the epoll set, so what the
 * program does to their numbers does not harm us.  The program may close a number without
 * our call (by a system call, or close_range()).  Before a command runs we notice that: no
 * other epoll set has our bell in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "cm/cm.h"
#include "cm/id.h"
#include "rdma/users.h"

#define OF_BELL (UINT64_C(1) << 32)
#define OF_TIMER (UINT64_C(2) << 32)

#define SENDS_MS 1 /* between two looks for room */

struct lock cm_lock;
void *cm_files[CM_FDS];
uint32_t cm_n_fds;

/*
 * Events.
 */

static void ring(struct cm_file *f, bool rings)
{
	uint64_t n = 1;
	int saved = errno;

	if (f->rings == rings)
		return;
	f->rings = rings;
	if ((rings ? nocancel_write(f->bell, &n, sizeof(n))
		   : nocancel_read(f->bell, &n, sizeof(n))) < 0)
		errno = saved; /* it is as we want it */
}

struct cm_event *event_new(struct cm_id *id, enum event_kind kind, int status)
{
	struct cm_event *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->owner = id;
	e->resp.uid = id->uid;
	e->resp.id = id->handle;
	e->resp.event = kind;
	e->resp.status = (uint32_t)status;
	return e;
}

/* The other end's resources are what this one may use, and the other way round. */
void event_put_conn(struct cm_event *e, const struct param *p,
		    uint8_t private_len)
{
	struct rdma_ucm_conn_param *c = &e->resp.param.conn;

	c->qp_num = p->qp_num;
	c->responder_resources = p->initiator_depth;
	c->initiator_depth = p->responder_resources;
	c->flow_control = p->flow_control;
	c->retry_count = p->retry_count;
	c->rnr_retry_count = p->rnr_retry_count;
	c->srq = p->srq;
	c->private_data_len = private_len;
	memcpy(c->private_data, p->private_data, p->private_len);
}

void event_put_ud(struct cm_event *e, const struct cm_id *id,
		  uint8_t private_len)
{
	struct rdma_ucm_ud_param *u = &e->resp.param.ud;
	union ibv_gid gid;

	u->qp_num = id->peer.qp_num;
	u->qkey = id->peer.qkey;
	addr_gid(&id->dst, &gid);
	memcpy(u->ah_attr.grh.dgid, gid.raw, sizeof(gid.raw));
	u->ah_attr.grh.sgid_index = addr_gid(&id->src, &gid);
	u->ah_attr.grh.hop_limit = 64;
	u->ah_attr.is_global = 1;
	u->ah_attr.port_num = 1;
	u->private_data_len = private_len;
	memcpy(u->private_data, id->peer.private_data, id->peer.private_len);
}

void event_queue(struct cm_event *e)
{
	struct cm_file *f = e->owner->file;

	*f->events_end = e;
	f->events_end = &e->next;
	ring(f, true);
}

void event_add_plain(struct cm_id *id, enum event_kind kind, int status)
{
	struct cm_event *e = event_new(id, kind, status);

	if (e)
		event_queue(e);
}

struct cm_event *event_take(struct cm_file *f)
{
	struct cm_event *e = f->events;

	if (!e)
		return NULL;
	f->events = e->next;
	if (!f->events) {
		f->events_end = &f->events;
		ring(f, false);
	}
	return e;
}

static bool is_of(const struct cm_event *e, const struct cm_id *id,
		  const struct cm_mcast *m)
{
	return m ? e->mcast == m : e->owner == id || e->child == id;
}

/* Take those of @id off its file's list; with @m those of that group alone. */
static struct cm_event *events_of(struct cm_id *id, const struct cm_mcast *m)
{
	struct cm_file *f = id->file;
	struct cm_event *mine = NULL, **end = &mine, **pe = &f->events;

	while (*pe) {
		struct cm_event *e = *pe;

		if (!is_of(e, id, m)) {
			pe = &e->next;
			continue;
		}
		*pe = e->next;
		e->next = NULL;
		*end = e;
		end = &e->next;
	}
	f->events_end = pe;
	ring(f, f->events != NULL);
	return mine;
}

void events_forget(struct cm_id *id) { events_forget_mcast(id, NULL); }

void events_forget_mcast(struct cm_id *id, const struct cm_mcast *m)
{
	struct cm_event *e = events_of(id, m);

	while (e) {
		struct cm_event *next = e->next;

		free(e);
		e = next;
	}
}

/*
 * What wakes: sockets and deadlines.
 */

void file_watch(struct cm_id *id)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = id->handle };

	if (!id->is_watched && id->sock >= 0 &&
	    !libc.epoll_ctl(id->file->set, EPOLL_CTL_ADD, id->sock, &ev))
		id->is_watched = true;
}

/* Before the socket is closed: a copy of it in a child would keep it in the set. */
void file_unwatch(struct cm_id *id)
{
	if (id->is_watched)
		libc.epoll_ctl(id->file->set, EPOLL_CTL_DEL, id->sock, NULL);
	id->is_watched = false;
}

static void set_timer(struct cm_file *f, uint64_t at_ns)
{
	struct itimerspec when = { .it_value = ns_timespec(at_ns) };

	f->deadline_ns = at_ns;
	timerfd_settime(f->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static uint64_t first_deadline(const struct cm_file *f)
{
	uint64_t first = 0;

	for (uint32_t i = 1; i < id_end(); i++) {
		const struct cm_id *id = id_at(i);

		if (id && id->file == f && id->deadline_ns &&
		    (!first || id->deadline_ns < first))
			first = id->deadline_ns;
	}
	return first;
}

/* A deadline that is off must not make the descriptor readable: QEMU's main loop would wait for an
 * event then, and for nothing else. */
void file_set_deadline(struct cm_id *id, uint64_t at_ns)
{
	struct cm_file *f = id->file;
	bool was_first = id->deadline_ns && id->deadline_ns == f->deadline_ns;

	id->deadline_ns = at_ns;
	if (at_ns && (!f->deadline_ns || at_ns < f->deadline_ns))
		set_timer(f, at_ns);
	else if (was_first && at_ns != f->deadline_ns)
		set_timer(f, first_deadline(f));
}

/* One id, without its events. */
static void move_id(struct cm_id *id, struct cm_file *to)
{
	uint64_t at_ns = id->deadline_ns;

	file_unwatch(id);
	file_set_deadline(id, 0);
	id->file->n_ids--;
	id->file = to;
	to->n_ids++;
	if (id->sock >= 0 && id->state >= ID_LISTEN)
		file_watch(id);
	file_set_deadline(id, at_ns);
}

/* With it go the requests that the program has not taken. */
void file_adopt(struct cm_file *to, struct cm_id *id)
{
	struct cm_event *mine = events_of(id, NULL);

	for (uint32_t i = 1; id->n_new + id->n_waiting && i < id_end(); i++)
		if (id_at(i) && id_at(i)->listener == id)
			move_id(id_at(i), to);
	move_id(id, to);
	while (mine) {
		struct cm_event *e = mine;

		mine = e->next;
		e->next = NULL;
		event_queue(e);
	}
}

/* What has come due, once each. */
static void run_deadlines(struct cm_file *f)
{
	uint64_t now = now_ns();

	set_timer(f, 0);
	for (uint32_t i = 1; i < id_end(); i++) {
		struct cm_id *id = id_at(i);

		if (!id || id->file != f || !id->deadline_ns ||
		    id->deadline_ns > now)
			continue;
		id->deadline_ns = 0;
		link_expired(id);
	}
	set_timer(f, first_deadline(f));
}

#define N_READY 32
#define N_LOOKS 64

/* How many were ready. */
static int look(struct cm_file *f)
{
	struct epoll_event evs[N_READY];
	int n = nocancel_epoll_wait(f->set, evs, N_READY, 0);

	for (int i = 0; i < n; i++) {
		uint64_t of = evs[i].data.u64;
		struct cm_id *id = of < OF_BELL ? id_at((uint32_t)of) : NULL;

		if (of == OF_TIMER)
			run_deadlines(f);
		else if (id && id->file == f && id->is_watched)
			link_ready(id);
	}
	return n;
}

/* All that is ready, so that a program that waits for a change need not look again. */
void file_progress(struct cm_file *f)
{
	for (int i = 0; i < N_LOOKS && look(f) == N_READY; i++)
		;
}

/*
 * The program's descriptors.
 */

static void file_close(struct cm_file *f)
{
	int fds[] = { f->set, f->bell, f->timer };

	for (unsigned i = 0; i < ARRAY_LEN(fds); i++)
		if (fds[i] >= 0)
			nocancel_close(fds[i]);
}

/* Frees the file if nobody refers to it any more.  As in the kernel, a call that waits for
 * an event counts as a reference, also when another thread has closed the descriptor. */
static void file_end(struct cm_file *f)
{
	if (f->n_fds || f->n_inside)
		return;
	for (uint32_t i = 1; f->n_ids && i < id_end(); i++) {
		struct cm_id *id = id_at(i);

		if (id && id->file == f)
			id_free(id);
	}
	file_close(f);
	free(f);
}

static void drop(int fd)
{
	struct cm_file *f = cm_files[fd];

	store_rlx(&cm_files[fd], NULL);
	fetch_sub(&cm_n_fds, 1);
	f->n_fds--;
	file_end(f);
}

void file_enter(struct cm_file *f) { f->n_inside++; }

void file_leave(struct cm_file *f)
{
	f->n_inside--;
	file_end(f);
}

struct cm_file *file_at(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = OF_BELL };
	struct cm_file *f = cm_has(fd) ? cm_files[fd] : NULL;

	if (!f || !libc.epoll_ctl(fd, EPOLL_CTL_MOD, f->bell, &ev))
		return f;
	drop(fd);
	return NULL;
}

static void in_child(void)
{
	lock_after_fork();
	cm_lock = (struct lock){ 0 };
	id_forget_all();
	for (int i = 0; cm_n_fds && i < CM_FDS; i++) {
		struct cm_file *f = cm_files[i];

		if (!f)
			continue;
		for (int j = i; j < CM_FDS; j++)
			if (cm_files[j] == f) {
				cm_files[j] = NULL;
				cm_n_fds--;
			}
		file_close(f);
	}
}

static int add_to_set(struct cm_file *f, int fd, uint64_t of)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = of };

	return fd < 0 || libc.epoll_ctl(f->set, EPOLL_CTL_ADD, fd, &ev) ? -errno
									: 0;
}

static int file_fill(struct cm_file *f)
{
	f->set = libc.epoll_create1(EPOLL_CLOEXEC);
	f->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	f->events_end = &f->events;
	if (f->set < 0)
		return -errno;
	int err = add_to_set(f, f->bell, OF_BELL);
	return err ? err : add_to_set(f, f->timer, OF_TIMER);
}

static int number_of(const struct cm_file *f, int flags, int least)
{
	int cmd = flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD;
	int fd = libc.fcntl(f->set, cmd, least);

	if (fd < 0 && least)
		fd = libc.fcntl(f->set, cmd, 0);
	return fd < 0 ? -errno : fd;
}

int cm_open(int flags, int least)
{
	static bool minds_forks;
	GUARD(&cm_lock);
	struct cm_file *f = calloc(1, sizeof(*f));

	if (!f || (!minds_forks && pthread_atfork(NULL, NULL, in_child))) {
		free(f);
		return -ENOMEM;
	}
	minds_forks = true;
	int err = file_fill(f);
	int fd = err ? err : number_of(f, flags, least);
	if (fd < 0 || fd >= CM_FDS) {
		if (fd >= CM_FDS)
			nocancel_close(fd);
		file_close(f);
		free(f);
		return fd < 0 ? fd : -EMFILE;
	}
	if (flags & O_NONBLOCK)
		libc.fcntl(fd, F_SETFL, O_NONBLOCK);
	if (cm_files[fd])
		drop(fd); /* of a number closed behind our back */
	f->n_fds = 1;
	fetch_add(&cm_n_fds, 1);
	store_rlx(&cm_files[fd], f);
	return fd;
}

void cm_dup(int old, int fd)
{
	GUARD(&cm_lock);
	struct cm_file *f = file_at(old);

	if (!f || old == fd || (unsigned)fd >= CM_FDS)
		return;
	f->n_fds++;
	if (cm_files[fd])
		drop(fd);
	fetch_add(&cm_n_fds, 1);
	store_rlx(&cm_files[fd], f);
}

void cm_close(int fd)
{
	GUARD(&cm_lock);
	if (cm_has(fd))
		drop(fd);
}

/*
 * Waiting.
 */

int file_wait(struct cm_file *f)
{
	struct epoll_event ev;

	if (libc.fcntl(f->set, F_GETFL) & O_NONBLOCK)
		return -EAGAIN;
	lock_put(&cm_lock);
	/* A device would go on sending. */
	bool sends = users_progress_blocked();
	int n = libc.epoll_wait(f->set, &ev, 1, sends ? SENDS_MS : -1);
	int err = n < 0 ? -errno : 0;
	lock_get(&cm_lock);
	return err;
}
