/* SPDX-License-Identifier: MIT */
/* proto/shm/region.c - see proto/shm/region.h */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/fork_lock.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "base/vm.h"
#include "proto/shm/elsewhere.h"
#include "proto/shm/region.h"
#include "proto/shm/shm.h"

#define MAP_BYTES_MAX (1ull << 42) /* of one that a peer announces, */
#define MAPS_BYTES_MAX                                                         \
	(1ull << 46) /* and of all: the program needs addresses, too */

/*
 * Ours.
 */

static int region_number(const struct region_list *known,
			 const struct region *r)
{
	uint64_t id = load_rlx(&r->id);

	for (uint32_t i = 0; i < known->n; i++)
		if (known->id[i] == id)
			return (int)i;
	return -1;
}

/* The peer maps the region when it reaches this record. */
static int announce(struct sock *sk, int fd, struct region_list *known,
		    const struct region *r)
{
	uint64_t id = load_rlx(&r->id);
	struct ring_map map = { .region = known->n,
				.pid = (uint32_t)getpid(),
				.fd = load_rlx(&r->fd),
				.dev = r->dev,
				.ino = r->ino,
				.size = r->size };

	if (known->n == RING_REGIONS || map.fd < 0)
		return 0;
	int pushed =
	    ring_push_record(&shm_of(sk)->tx, RING_MAP, 0, &map, sizeof(map));
	if (pushed > 0) {
		known->id[known->n++] = id;
		shm_notify_data(sk, fd);
	}
	return pushed;
}

HOT ssize_t shm_send_ref(struct sock *sk, int fd, struct region_list *known,
			 const struct region *r, uint64_t off, uint32_t len)
{
	uint32_t flags = load_rlx(&shm_peer(sk)->flags);

	/* In unusual cases, let shm_send() copy. */
	if (sock_mode(sk) != SOCK_SHM || !shm_w(sk)->tx_ring || sk->w->shut ||
	    shm_of(sk)->tx_limit || shm_of(sk)->corked_bytes ||
	    load_rlx(&sk->w->anchor_end) != ANCHOR_OPEN ||
	    !(flags & SEG_TAKES_REFS) ||
	    flags & (SEG_CLOSED | SEG_FALLBACK | SEG_WANT_BACK | SEG_SHUT))
		return 0;
	int i = region_number(known, r);
	struct ring_ref ref = { .region = (uint32_t)i, .off = off };
	int pushed;
	if (unlikely(i < 0))
		pushed = announce(sk, fd, known, r);
	else if (unlikely(!(load_acq(&shm_peer(sk)->maps) & 1u << i)))
		return 0;
	else
		pushed = ring_push_record(&shm_of(sk)->tx, RING_REF, len, &ref,
					  sizeof(ref));
	if (unlikely(pushed < 0)) {
		shm_broken(sk, fd, "its tail");
		return -ECONNRESET;
	}
	if (!pushed || unlikely(i < 0))
		return 0;
	shm_notify_data(sk, fd);
	if (shm_has_fallen_back(sk)) {
		ssize_t lost = shm_tx_fell_back(sk, fd, len);

		if (lost) /* the record is behind the ring's end: copy */
			return MIN(lost, (ssize_t)0);
	}
	count(&sk->st->tx_bytes_shm, len);
	count(&sk->st->tx_bytes_ref, len);
	count(&sk->st->tx_ops, 1);
	return len;
}

uint32_t shm_refs_done(struct sock *sk, uint32_t n_done, uint32_t n_sent,
		       bool *lies)
{
	uint32_t n = load_acq(&shm_peer(sk)->refs_done); /* A3 */

	*lies = false;
	if (unlikely(load_acq(&shm_peer(sk)->flags) & SEG_REFS_OVER)) /* S5 */
		return n_sent;
	*lies = n - n_done > n_sent - n_done;
	return *lies ? n_sent : n;
}

/*
 * The peer's.
 */

/* One region of a peer, mapped once for all connections with it. */
struct peer_map {
	struct peer_map *next;
	uint64_t dev, ino, size;
	void *base;
	uint32_t n_refs;
};

static struct lock maps_lock;
static struct peer_map *maps;
static uint64_t maps_bytes;

/* Mappings stay in the child. */
static void after_fork(void) { lock_inherit(&maps_lock); }

/* Once a process; in the child it is known already. */
static void mind_forks(void)
{
	static uint32_t knows;

	if (!xchg(&knows, 1u))
		fork_lock_on_child(after_fork);
}

/* The st_dev of memory files that are on no mounted file system; 0: unknown. */
static uint64_t memory_dev(void)
{
	static uint64_t known;
	struct stat st = { 0 };

	if (!load_rlx(&known)) {
		int fd = memfd_create("osf-dev", MFD_CLOEXEC);

		if (fd >= 0) {
			libc.fstat(fd, &st);
			nocancel_close(fd);
		}
		store_rlx(&known, (uint64_t)st.st_dev);
	}
	return load_rlx(&known);
}

/*
 * Open for reading the file that @m names, if it is a memory file and the
 * announced one.  Neither the check nor open() may wait for a peer, so accept
 * no file system of the peer's and no file with a lease.
 */
static int open_of(const struct ring_map *m)
{
	char path[64];
	struct statx sx;

	snprintf(path, sizeof(path), "/proc/%u/fd/%d", m->pid, m->fd);
	int at = nocancel_open(path, O_PATH | O_CLOEXEC, 0);
	if (at < 0)
		return -errno;
	int err = statx(at, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
			STATX_TYPE | STATX_INO, &sx)
		      ? -errno
		      : 0;
	if (!err && (!S_ISREG(sx.stx_mode) || sx.stx_ino != m->ino ||
		     makedev(sx.stx_dev_major, sx.stx_dev_minor) != m->dev ||
		     m->dev != memory_dev()))
		err = -EBADMSG;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
	int got =
	    err ? err
		: nocancel_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
	if (got == -1)
		got = -errno;
	nocancel_close(at);
	return got;
}

/* Caller holds the lock. */
static int map_new(const struct ring_map *m, int fd, struct peer_map **out)
{
	if (m->size > MAPS_BYTES_MAX - maps_bytes)
		return -ENOMEM;
	struct peer_map *p = malloc(sizeof(*p));
	void *base =
	    p ? map_sparse(m->size, PROT_READ, MAP_SHARED, fd) : MAP_FAILED;
	if (base == MAP_FAILED) {
		free(p);
		return -ENOMEM;
	}
	mind_forks();
	*p = (struct peer_map){ maps, m->dev, m->ino, m->size, base, 1 };
	*out = maps = p;
	maps_bytes += m->size;
	return 0;
}

static int map_find(const struct ring_map *m, int fd, struct peer_map **out)
{
	GUARD(&maps_lock);
	for (struct peer_map *p = maps; p; p = p->next) {
		if (p->dev != m->dev || p->ino != m->ino || p->size != m->size)
			continue;
		p->n_refs++;
		*out = p;
		return 0;
	}
	return map_new(m, fd, out);
}

/* Open it even if it is mapped already, because a peer may only refer to files
 * that it has itself. */
static int map_get(const struct ring_map *m, struct peer_map **out)
{
	struct stat st;

	if (!m->size || m->size > MAP_BYTES_MAX)
		return -EBADMSG;
	int fd = open_of(m);
	if (fd < 0)
		return fd;
	int err = region_check(fd, &st);
	if (!err && (uint64_t)st.st_size < m->size)
		err = -EBADMSG;
	if (!err)
		err = map_find(m, fd, out);
	nocancel_close(fd);
	return err;
}

static void map_put(const void *base)
{
	GUARD(&maps_lock);
	for (struct peer_map **pp = &maps, *p; (p = *pp); pp = &p->next) {
		if (p->base != base || --p->n_refs)
			continue;
		*pp = p->next;
		maps_bytes -= p->size;
		discard_map(p->base, p->size);
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
	shm_of(sk)->rx.refs = refs;
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

void shm_refs_over(struct ring_refs *refs)
{
	struct seg_side *me =
	    container_of(refs->done_pub, struct seg_side, refs_done);

	store_rel(refs->done_pub, refs->n);  /* R3 */
	fetch_or(&me->flags, SEG_REFS_OVER); /* S5 */
}

COLD int shm_rx_map(struct sock *sk)
{
	struct ring_refs *refs = shm_of(sk)->rx.refs;
	struct ring_map m;
	struct peer_map *p;

	ring_take_map(&shm_of(sk)->rx, &m);
	/* Accept each region once, which bounds the work that a hostile peer
	 * can cause. */
	if (m.region >= RING_REGIONS || refs->announced & 1u << m.region)
		return -EPROTO;
	refs->announced |= 1u << m.region;
	int err = map_get(&m, &p);
	if (err) {
		log_info("memory of process %u stays unmapped, so it is "
			 "copied: %s",
			 m.pid, strerrordesc_np(-err));
		return 0;
	}
	refs->region[m.region].base = p->base;
	refs->region[m.region].size = p->size;
	fetch_or(&shm_me(sk)->maps, 1u << m.region);
	return 0;
}
