/* SPDX-License-Identifier: MIT */
/* rdma/self.c - see rdma/self.h */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/libc.h"
#include "rdma/lookup.h"
#include "rdma/mcast.h"
#include "rdma/show.h"
#include "rdma/stranger.h"
#include "rdma/users.h"
#include "rdma/wire.h"

#define BLOCKS ((1u << 24) >> QPN_BITS)
#define TRIES 4096 /* names, of which others may have taken some */
#define SUFFIXED_TRIES 16
#define BACKLOG                                                                \
	4096 /* who looks us up stays in it until a call of ours accepts */

static struct lock making;
struct self *self_current;
static struct x_counters before; /* until there is a directory */
struct x_counters *rdma_counters = &before;
static uint32_t generation = 1;
static uint8_t cq_taken[N_CQS];

void self_dir_name(char *name, size_t size, uint32_t block)
{
	snprintf(name, size, "osf-rdma-%u", block);
}

socklen_t self_socket_name(struct sockaddr_un *un, uint32_t block,
			   uint64_t suffix)
{
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	int n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1,
			 suffix ? "osf-rdma/%u/%016" PRIx64 : "osf-rdma/%u",
			 block, suffix);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)n);
}

static int listen_at(struct self *s)
{
	struct sockaddr_un un;
	socklen_t len = self_socket_name(&un, s->block, s->suffix);

	if (libc.bind(s->listen_fd, (struct sockaddr *)&un, len))
		return -errno;
	return libc.listen(s->listen_fd, BACKLOG) ? -errno : 0;
}

static int open_listener(struct self *s)
{
	s->listen_fd = libc.socket(
	    AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->listen_fd < 0)
		return -errno;
	stranger_refuse(s->listen_fd);
	return 0;
}

/* QP numbers 0 and 1 are special, and so is the highest one (mcast.h), so no process has the
 * first block or the last one. */
static uint32_t any_block(uint32_t from) { return 1 + from % (BLOCKS - 2); }

/* Strangers have the names.  A process that we trust is not to have the same block, so who
 * finds one takes another block.  Of two that begin at once both may do so. */
static int bind_suffixed(struct self *s)
{
	int err = -EADDRINUSE;

	for (int i = 0; i < SUFFIXED_TRIES && err == -EADDRINUSE; i++) {
		uint64_t any[2];

		if (getrandom(any, sizeof(any), 0) != sizeof(any))
			return -EADDRINUSE;
		s->block = any_block((uint32_t)any[0]);
		s->suffix = any[1] | 1;
		err = listen_at(s);
		if (err || !lookup_has_other(s->block, s->suffix))
			continue;
		libc.close(s->listen_fd);
		err = open_listener(s);
		err = err ? err : -EADDRINUSE;
	}
	return err;
}

/* Bind a block's name. */
static int bind_block(struct self *s)
{
	uint32_t at = 0;

	if (getrandom(&at, sizeof(at), 0) != sizeof(at))
		at = (uint32_t)getpid();
	for (uint32_t i = 0; i < TRIES; i++) {
		s->block = any_block(at + i);
		int err = listen_at(s);
		if (err != -EADDRINUSE)
			return err;
	}
	return bind_suffixed(s);
}

/*
 * Where Yama lets a process reach only its children's memory, a program may set
 * OSF_RDMA_PTRACER=1.  Then all processes of its user may reach its memory, and
 * each of them may also trace it.  So only the program's user can decide that.
 */
static void allow_reach(void)
{
	const char *value = secure_getenv("OSF_RDMA_PTRACER");

	if (value && !strcmp(value, "1"))
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

static int self_open(struct self *s)
{
	char name[32], path[64];
	void *map;

	int err = open_listener(s);
	if (!err)
		err = bind_block(s);
	if (err)
		return err;
	self_dir_name(name, sizeof(name), s->block);
	s->dir_fd = export_new(name, sizeof(struct x_dir), &map);
	if (s->dir_fd < 0)
		return s->dir_fd;
	s->dir = map;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", s->dir_fd);
	s->flock_fd = libc.open(path, O_RDONLY | O_CLOEXEC);
	if (s->flock_fd < 0)
		return -errno;
	allow_reach();
	s->dir->version = EXPORT_VERSION;
	s->dir->block = s->block;
	store_rel(&s->dir->magic, EXPORT_MAGIC);
	return 0;
}

static void self_close(struct self *s)
{
	if (s->listen_fd >= 0)
		libc.close(s->listen_fd);
	if (s->dir_fd >= 0)
		libc.close(s->dir_fd);
	if (s->flock_fd >= 0)
		libc.close(s->flock_fd);
	for (int i = 0; s->helper[1] && i < 2; i++)
		libc.close(s->helper[i]);
}

/* Only the parent has its name and its memory.  The program may still hold objects of the
 * parent, and calls on those fail. */
static void in_child(void)
{
	lock_after_fork();
	making = (struct lock){ 0 };
	generation++;
	memset(cq_taken, 0, sizeof(cq_taken));
	if (self_current)
		self_close(self_current);
	self_current = NULL;
	rdma_counters = &before;
	wire_after_fork();
	peer_after_fork();
	users_after_fork();
	mcast_after_fork();
	show_after_fork();
	stranger_after_fork();
}

struct self *self_get(void)
{
	static bool minds_forks;

	GUARD(&making);
	if (self_current)
		return self_current;
	if (!minds_forks && pthread_atfork(NULL, NULL, in_child)) {
		errno = ENOMEM;
		return NULL;
	}
	minds_forks = true;
	struct self *s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->listen_fd = s->dir_fd = s->flock_fd = -1;
	s->generation = generation;
	int err = self_open(s);
	if (err) {
		self_close(s);
		if (s->dir)
			munmap(s->dir, sizeof(*s->dir));
		free(s);
		errno = -err;
		return NULL;
	}
	rdma_counters = &s->dir->counters;
	show_open();
	return self_current = s;
}

uint32_t self_generation(void) { return load_rlx(&generation); }

int self_find_qp(struct self *s)
{
	static uint32_t next;

	/* Take the number that has been unused for longest, so that a peer of an old queue
	 * pair that sends late does not reach a new one. */
	for (uint32_t i = 0; i < N_QPS; i++) {
		uint32_t at = (next + i) % N_QPS;

		if (!s->dir->qp_fd[at]) {
			next = at + 1;
			return (int)at;
		}
	}
	return -1;
}

int self_find_cq(struct self *s)
{
	for (uint32_t i = 0; i < N_CQS; i++)
		if (!cq_taken[i]) {
			cq_taken[i] = 1;
			return (int)i;
		}
	return -1;
}

void self_put_cq(struct self *s, uint32_t i)
{
	store_rlx(&s->dir->cq[i].arm, 0);
	store_rlx(&s->dir->cq[i].bell, -1);
	store_rlx(&s->dir->cq[i].size, 0);
	cq_taken[i] = 0;
}
