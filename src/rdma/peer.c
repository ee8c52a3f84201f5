/* SPDX-License-Identifier: MIT */
/* rdma/peer.c - see rdma/peer.h */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/rawcall.h"
#include "proto/shm/trust.h"
#include "rdma/lookup.h"
#include "rdma/peer.h"
#include "rdma/self.h"

static struct lock peers_lock;
static struct peer *peers;

/* Return: the process that has @block, if we may share memory with it, with its pidfd in
 * *@pidfd; or -errno */
static int find_owner(uint32_t block, int *pidfd)
{
	int s = lookup_connect(block);

	if (s < 0)
		return s;
	/* While the connection exists the listener's process exists, so no other process
	 * has its number. */
	int pid = channel_pid(s);
	*pidfd = pid > 0 ? (int)rawcall(SYS_pidfd_open, pid, 0) : -ESRCH;
	libc.close(s);
	return *pidfd < 0 ? *pidfd : pid;
}

/* The same where too many have connected already. */
static int search(uint32_t block, int *pidfd)
{
	int pid = lookup_owner(block);

	if (pid < 0)
		return pid;
	*pidfd = (int)rawcall(SYS_pidfd_open, pid, 0);
	if (*pidfd < 0)
		return *pidfd;
	/* Its number may have been another's by then. */
	return lookup_holds(pid, block) ? pid : -ESRCH;
}

/* Which process has @block's name, and may we share memory with it? */
static int owner_of(uint32_t block, int *pidfd)
{
	int pid = find_owner(block, pidfd);

	return pid == -EAGAIN ? search(block, pidfd) : pid;
}

static int map_directory(struct peer *p)
{
	char name[32], path[64];
	const void *map;
	size_t bytes;

	self_dir_name(name, sizeof(name), p->block);
	int fd = import_find(p->pid, name);
	if (fd < 0)
		return fd;
	int err = import_map(p->pid, fd, &map, &bytes);
	if (err)
		return err;
	p->dir = map;
	if (bytes != sizeof(*p->dir) ||
	    load_acq(&p->dir->magic) != EXPORT_MAGIC ||
	    p->dir->version != EXPORT_VERSION || p->dir->block != p->block) {
		munmap((void *)map, bytes);
		return -EPROTONOSUPPORT;
	}
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", p->pid, fd);
	p->flock_fd = libc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return 0;
}

/* OSF_RDMA_REACH=0: behave as where the kernel refuses process_vm_writev(). */
static bool refuses_reach(void)
{
	const char *value = secure_getenv("OSF_RDMA_REACH");

	return value && !strcmp(value, "0");
}

static int peer_open(uint32_t block, struct peer **out)
{
	struct peer *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->block = block;
	p->flock_fd = p->pidfd = -1;
	p->n_refs = 1;
	p->may_reach = refuses_reach() ? -1 : 0;
	int err = p->pid = owner_of(block, &p->pidfd);
	if (err > 0)
		err = map_directory(p);
	if (!err && peer_has_ended(p))
		err = -ESRCH;
	if (err) {
		if (p->pidfd >= 0)
			libc.close(p->pidfd);
		free(p);
		return err;
	}
	*out = p;
	return 0;
}

int peer_get(uint32_t block, struct peer **out)
{
	GUARD(&peers_lock);
	for (struct peer *p = peers; p; p = p->next)
		if (p->block == block && !peer_has_ended(p)) {
			p->n_refs++;
			*out = p;
			return 0;
		}
	int err = peer_open(block, out);
	if (err)
		return err;
	(*out)->next = peers;
	peers = *out;
	return 0;
}

void peer_put(struct peer *p)
{
	GUARD(&peers_lock);
	if (--p->n_refs)
		return;
	for (struct peer **pp = &peers; *pp; pp = &(*pp)->next)
		if (*pp == p) {
			*pp = p->next;
			break;
		}
	munmap((void *)p->dir, sizeof(*p->dir));
	libc.close(p->pidfd);
	if (p->flock_fd >= 0)
		libc.close(p->flock_fd);
	free(p);
}

void peer_after_fork(void)
{
	peers_lock = (struct lock){ 0 };
	peers = NULL; /* the old ones stay mapped: objects refer to them */
}

bool peer_has_ended(struct peer *p)
{
	struct pollfd pfd = { p->pidfd, POLLIN, 0 };

	if (!p->is_dead && libc.poll(&pfd, 1, 0) == 1 && pfd.revents)
		p->is_dead = true;
	return p->is_dead;
}

/* What the memory says of itself, read once, fits its size. */
static int adopt(struct remote *r, uint32_t qpn)
{
	const struct x_qp *x = r->x;

	if (r->bytes < sizeof(*x) || load_acq(&x->magic) != EXPORT_MAGIC)
		return -EBADMSG;
	if (x->version != EXPORT_VERSION)
		return -EPROTONOSUPPORT;
	r->ring_size = load_rlx(&x->ring_size);
	r->n_recv = load_rlx(&x->n_recv);
	r->recv_sge = load_rlx(&x->recv_sge);
	r->send_cq = load_rlx(&x->send_cq);
	r->recv_cq = load_rlx(&x->recv_cq);
	r->has_srq = load_rlx(&x->has_srq);
	r->has_reply = load_rlx(&x->has_reply);
	r->type = load_rlx(&x->type);
	r->gen = load_acq(&x->gen);
	r->qpn = qpn;
	if (load_rlx(&x->qpn) != qpn)
		return -ENOENT;
	if (r->ring_size < FRAGMENT * 2 || r->ring_size > RING_SIZE_MAX ||
	    r->ring_size & (r->ring_size - 1) || r->n_recv > N_RECV_MAX ||
	    !r->n_recv || r->n_recv & (r->n_recv - 1) || !r->recv_sge ||
	    r->recv_sge > N_SGE || r->send_cq >= N_CQS || r->recv_cq >= N_CQS)
		return -EBADMSG;
	const struct x_shape shape = { r->n_recv, r->recv_sge, r->ring_size,
				       r->has_reply };
	if (r->bytes != export_qp_bytes(&shape))
		return -EBADMSG;
	r->recv_bytes = export_recv_bytes(r->recv_sge);
	r->recv = (const uint8_t *)(x + 1);
	r->ring = (const uint8_t *)x + export_ring_offset(&shape);
	r->reply = r->ring + r->ring_size;
	return 0;
}

static int open_fd(struct remote *r, int fd, uint32_t qpn)
{
	const void *map;
	int err =
	    fd < 0 ? -ENOENT : import_map(r->peer->pid, fd, &map, &r->bytes);

	if (!err) {
		r->x = map;
		err = adopt(r, qpn);
	}
	/* The process may have ended before we opened its memory, and another process may
	 * have got its number. */
	if (!err && peer_has_ended(r->peer))
		err = -ESRCH;
	if (err)
		remote_close(r);
	return err;
}

static int remote_find(struct remote *r, uint32_t qpn)
{
	memset(r, 0, sizeof(*r));
	for (int i = 0; i <= BELL_HELPER; i++)
		r->bell[i].theirs = r->bell[i].fd = -1;
	return peer_get(qpn >> QPN_BITS, &r->peer);
}

int remote_open(struct remote *r, uint32_t qpn)
{
	int err = remote_find(r, qpn);

	return err ? err
		   : open_fd(r, load_acq(&r->peer->dir->qp_fd[qpn % N_QPS]) - 1,
			     qpn);
}

int remote_adopt(struct remote *r, int pid, int fd, uint32_t qpn)
{
	int err = remote_find(r, qpn);

	if (!err && r->peer->pid != pid) {
		remote_close(r);
		err = -EPERM;
	}
	return err ? err : open_fd(r, fd, qpn);
}

void remote_close(struct remote *r)
{
	/* Its numbers are 0 where nothing was ever opened, and 0 is the program's. */
	if (!r->peer)
		return;
	for (int i = 0; i <= BELL_HELPER; i++) {
		if (r->bell[i].fd >= 0)
			libc.close(r->bell[i].fd);
		r->bell[i].fd = -1;
	}
	if (r->x)
		munmap((void *)r->x, r->bytes);
	peer_put(r->peer);
	r->x = NULL;
	r->peer = NULL;
}

int remote_bell(struct remote *r, int which, int32_t theirs)
{
	if (r->bell[which].theirs == theirs)
		return r->bell[which].fd;
	if (r->bell[which].fd >= 0)
		libc.close(r->bell[which].fd);
	r->bell[which].theirs = theirs;
	return r->bell[which].fd = import_pipe(r->peer->pid, theirs);
}

void remote_ring(struct remote *r, int which, bool is_solicited)
{
	const struct x_cq *cq = remote_cq(r, which);

	if (!remote_may_sleep(r, which))
		return;
	fence_full(); /* against the arming, which looks afterwards */
	uint32_t arm = load_rlx(&cq->arm);
	if (likely(!(arm & CQ_ARMED)) || arm == r->bell[which].arm ||
	    (which == BELL_RECV && arm & CQ_SOLICITED && !is_solicited))
		return;
	int saved = errno, fd = remote_bell(r, which, load_rlx(&cq->bell));
	if (fd >= 0) {
		/* EAGAIN: it is full, and so readable. */
		if (libc.write(fd, "", 1) == 1 || errno == EAGAIN)
			r->bell[which].arm = arm;
	}
	errno = saved;
}
