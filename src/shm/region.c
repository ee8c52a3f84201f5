/* SPDX-License-Identifier: MIT */
/* shm/region.c - see shm/region.h */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/gate.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/log.h"
#include "shm/region.h"
#include "shm/shm.h"

#define REGIONS 1024u              /* of this process, ever */
#define MAP_BYTES_MAX (1ull << 42) /* of one that a peer announces */

/*
 * Ours.
 */

static struct lock lock;
static struct region regions[REGIONS];
static uint32_t n_regions;

static bool is_file_of(const struct region *r, const struct stat *st)
{
	return r->fd >= 0 && r->dev == st->st_dev && r->ino == st->st_ino &&
	       r->size == (uint64_t)st->st_size;
}

static struct lock maps_lock; /* of what peers have, below */

/* The parent's files are the parent's to announce; the copies stay open until exec. */
static void after_fork(void)
{
	lock = maps_lock = (struct lock){ 0 };
	for (uint32_t i = 0; i < n_regions; i++)
		regions[i].fd = -1;
	n_regions = 0;
}

/* Once a process; in the child it is known already. */
static void mind_forks(void)
{
	static uint32_t knows;

	if (!xchg(&knows, 1u))
		gate_on_child(after_fork);
}

/* A memfd that cannot shrink, nor (by now) be made to. */
static int check_file(int fd, struct stat *st)
{
	struct statfs fs;
	int seals = libc.fcntl(fd, F_GET_SEALS);

	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return -EBADMSG;
	if (libc.fstat(fd, st) < 0 || fstatfs(fd, &fs) < 0)
		return -errno;
	/* Not of huge pages: reading a hole of such a file may fail. */
	return S_ISREG(st->st_mode) && fs.f_type == TMPFS_MAGIC && st->st_size
		   ? 0
		   : -EBADMSG;
}

int region_open(int fd, struct region **out)
{
	struct stat st;
	int err = check_file(fd, &st);

	if (err)
		return err;
	GUARD(&lock);
	for (uint32_t i = 0; i < n_regions; i++) {
		*out = &regions[i];
		if (is_file_of(*out, &st))
			return 0;
	}
	mind_forks();
	if (n_regions == REGIONS)
		return -ENOSPC;
	int own = fds_hide(libc.fcntl(fd, F_DUPFD_CLOEXEC, 0));
	if (own < 0)
		return -errno;
	*out = &regions[n_regions++];
	**out =
	    (struct region){ own, st.st_dev, st.st_ino, (uint64_t)st.st_size };
	return 0;
}

void region_close(struct region *r)
{
	GUARD(&lock);
	fds_close(r->fd);
	store_rlx(&r->fd, -1);
}

static int region_number(const struct region_list *told, const struct region *r)
{
	for (uint32_t i = 0; i < told->n; i++)
		if (told->region[i] == r)
			return (int)i;
	return -1;
}

/* The peer maps it when it comes to this record. */
static int announce(struct sock *sk, int fd, struct region_list *told,
		    const struct region *r)
{
	struct ring_map map = { .region = told->n,
				.pid = (uint32_t)getpid(),
				.fd = load_rlx(&r->fd),
				.dev = r->dev,
				.ino = r->ino,
				.size = r->size };

	if (told->n == RING_REGIONS || map.fd < 0)
		return 0;
	int pushed = ring_push_record(&sk->tx, RING_MAP, 0, &map, sizeof(map));
	if (pushed > 0) {
		told->region[told->n++] = r;
		shm_told_data(sk, fd);
	}
	return pushed;
}

HOT ssize_t shm_send_ref(struct sock *sk, int fd, struct region_list *told,
			 const struct region *r, uint64_t off, uint32_t len)
{
	uint32_t flags = load_rlx(&shm_peer(sk)->flags);

	/* Whatever is out of the ordinary is copied, in shm_send(). */
	if (sock_mode(sk) != SOCK_SHM || !sk->tx_ring || sk->shut ||
	    sk->tx_limit || load_rlx(&sk->anchor_end) != ANCHOR_OPEN ||
	    !(flags & SEG_TAKES_REFS) ||
	    flags & (SEG_CLOSED | SEG_RECALL | SEG_WANT_BACK))
		return 0;
	int i = region_number(told, r);
	struct ring_ref ref = { .region = (uint32_t)i, .off = off };
	int pushed;
	if (unlikely(i < 0))
		pushed = announce(sk, fd, told, r);
	else if (unlikely(!(load_acq(&shm_peer(sk)->maps) & 1u << i)))
		return 0;
	else
		pushed =
		    ring_push_record(&sk->tx, RING_REF, len, &ref, sizeof(ref));
	if (unlikely(pushed < 0)) {
		shm_broken(sk, fd, "its tail");
		return -ECONNRESET;
	}
	if (!pushed || unlikely(i < 0))
		return 0;
	shm_told_data(sk, fd);
	count(&sk->st.tx_bytes_shm, len);
	count(&sk->st.tx_bytes_ref, len);
	count(&sk->st.tx_ops, 1);
	return len;
}

uint32_t shm_refs_done(struct sock *sk, uint32_t n_done, uint32_t n_sent,
		       bool *lies)
{
	uint32_t n = load_acq(&shm_peer(sk)->refs_done); /* A3 */

	*lies = n - n_done > n_sent - n_done;
	return *lies ? n_sent : n;
}

/*
 * The peer's.
 */

/* One of a peer's, mapped once for all connections with it. */
struct peer_map {
	struct peer_map *next;
	uint64_t dev, ino, size;
	void *base;
	uint32_t n_refs;
};

static struct peer_map *maps;

/* The descriptor @fd of process @pid, opened for reading, if it is a regular file; opening
 * anything else may have effects. */
static int open_of(uint32_t pid, int fd)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%u/fd/%d", pid, fd);
	int at = libc.open(path, O_PATH | O_CLOEXEC);
	if (at < 0)
		return -errno;
	int err = libc.fstat(at, &st) < 0 ? -errno
		  : S_ISREG(st.st_mode)   ? 0
					  : -EBADMSG;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
	int got = err ? err : libc.open(path, O_RDONLY | O_CLOEXEC);
	if (got == -1)
		got = -errno;
	libc.close(at);
	return got;
}

static int map_new(const struct ring_map *m, void **base)
{
	struct stat st;

	if (!m->size || m->size > MAP_BYTES_MAX)
		return -EBADMSG;
	int fd = open_of(m->pid, m->fd);
	if (fd < 0)
		return fd;
	int err = check_file(fd, &st);
	if (!err && (st.st_dev != m->dev || st.st_ino != m->ino ||
		     (uint64_t)st.st_size < m->size))
		err = -EBADMSG;
	*base = err ? MAP_FAILED
		    : mmap(NULL, m->size, PROT_READ, MAP_SHARED | MAP_NORESERVE,
			   fd, 0);
	if (!err && *base == MAP_FAILED)
		err = -errno;
	libc.close(fd);
	return err;
}

static int map_get(const struct ring_map *m, struct peer_map **out)
{
	GUARD(&maps_lock);
	for (struct peer_map *p = maps; p; p = p->next) {
		if (p->dev != m->dev || p->ino != m->ino || p->size != m->size)
			continue;
		p->n_refs++;
		*out = p;
		return 0;
	}
	mind_forks();
	struct peer_map *p = malloc(sizeof(*p));
	void *base;
	int err = p ? map_new(m, &base) : -ENOMEM;
	if (err) {
		free(p);
		return err;
	}
	*p = (struct peer_map){ maps, m->dev, m->ino, m->size, base, 1 };
	*out = maps = p;
	return 0;
}

static void map_put(const void *base)
{
	GUARD(&maps_lock);
	for (struct peer_map **pp = &maps, *p; (p = *pp); pp = &p->next) {
		if (p->base != base || --p->n_refs)
			continue;
		*pp = p->next;
		munmap(p->base, p->size);
		free(p);
		return;
	}
}

bool shm_take_refs(struct sock *sk)
{
	struct ring_refs *refs = calloc(1, sizeof(*refs));

	if (!refs)
		return false;
	refs->done_pub = &shm_me(sk)->refs_done;
	sk->rx.refs = refs;
	fetch_or(&shm_me(sk)->flags, SEG_TAKES_REFS);
	return true;
}

void shm_refs_free(struct ring_refs *refs)
{
	for (uint32_t i = 0; refs && i < RING_REGIONS; i++)
		if (refs->region[i].size)
			map_put(refs->region[i].base);
	free(refs);
}

COLD void shm_rx_map(struct sock *sk)
{
	struct ring_map m;
	struct peer_map *p;

	ring_take_map(&sk->rx, &m);
	if (m.region >= RING_REGIONS || sk->rx.refs->region[m.region].size)
		return; /* nonsense, and nothing depends on it */
	int err = map_get(&m, &p);
	if (err) {
		log_info("memory of process %u stays unmapped, so it is "
			 "copied: %s",
			 m.pid, strerrordesc_np(-err));
		return;
	}
	sk->rx.refs->region[m.region].base = p->base;
	sk->rx.refs->region[m.region].size = p->size;
	fetch_or(&shm_me(sk)->maps, 1u << m.region);
}
