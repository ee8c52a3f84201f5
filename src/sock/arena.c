/* SPDX-License-Identifier: MIT */
/*
 * sock/arena.c - see sock/arena.h
 *
 * The file (sock/stats_file.h) grows with the number of sockets, in chunks that double.  Each
 * chunk is mapped where there is room, so entries never move, and they are
 * contiguous in the file.  A program with a limited address space only pays
 * for its sockets.
 *
 * A stack of indices in process memory holds the free entries, so readers of
 * the file never see it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/fork_lock.h"
#include "base/libc.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "base/program.h"
#include "sock/arena.h"
#include "sock/packets.h"
#include "sock/shared.h"
#include "sock/stats_file.h"

/* A process has at most a million descriptors unless root raised fs.nr_open. */
#define ARENA_SOCKS (1u << 20)
#define FIRST_SOCKS 64u /* whole pages, whatever the size of an entry */
#define N_CHUNKS 15u
#define NOT_HERE UINT32_MAX

/* From one entry of the file to the next. */
#define ENTRY_BYTES                                                            \
	((sizeof(struct osf_stats_sock) + CACHE_LINE - 1) / CACHE_LINE *       \
	 CACHE_LINE)

static_assert(FIRST_SOCKS * ENTRY_BYTES % 4096 == 0, "whole pages");
static_assert(FIRST_SOCKS << (N_CHUNKS - 1) == ARENA_SOCKS, "the last is full");

static struct osf_stats_header *header; /* NULL: there is no file, or not yet */
static bool is_due;   /* a child of a fork makes one when it needs it */
static bool is_named; /* or at once: it stays behind for the user */
/* The entries, and the sockets that they describe, in the same order. */
static struct chunk {
	uint8_t *entries;
	struct sock *socks;      /* this process's own */
	struct holders *holders; /* shared: of those that have no page */
} chunks[N_CHUNKS];
static uint32_t n_chunks, n_room; /* what is mapped, and the entries in it */
static uint32_t n_used;           /* of them, those that were ever in use */
static int fd_arena = -1;
static dev_t arena_dev; /* what fd_arena is, as long as nobody closes it */
static ino_t arena_ino;
static struct lock lock;
static uint32_t *free_stack; /* indices of freed entries; room for n_room */
static uint32_t n_free;
static uint32_t n_made; /* sockets, ever */

/* Chunk 0 has FIRST_SOCKS; each later one has as many as all before it. */
static uint32_t chunk_first(uint32_t c)
{
	return c ? FIRST_SOCKS << (c - 1) : 0;
}
static uint32_t chunk_len(uint32_t c) { return FIRST_SOCKS << (c ? c - 1 : 0); }

static uint32_t chunk_of(uint32_t i)
{
	return i < FIRST_SOCKS ? 0
			       : (uint32_t)(__builtin_clz(FIRST_SOCKS) -
					    __builtin_clz(i) + 1);
}

static struct sock *sock_at(uint32_t i)
{
	uint32_t c = chunk_of(i);

	return &chunks[c].socks[i - chunk_first(c)];
}

static struct holders *holders_at(uint32_t i)
{
	uint32_t c = chunk_of(i);

	return &chunks[c].holders[i - chunk_first(c)];
}

static struct osf_stats_sock *entry_at(uint32_t i)
{
	uint32_t c = chunk_of(i);

	return (void *)(chunks[c].entries + (i - chunk_first(c)) * ENTRY_BYTES);
}

static uint32_t index_of(const struct sock *sk)
{
	for (uint32_t c = 0; c < n_chunks; c++)
		if (sk >= chunks[c].socks &&
		    sk < chunks[c].socks + chunk_len(c))
			return chunk_first(c) +
			       (uint32_t)(sk - chunks[c].socks);
	return NOT_HERE;
}

bool arena_has(const struct sock *sk) { return index_of(sk) != NOT_HERE; }

static size_t bytes_with(uint32_t c)
{
	return STATS_HEADER_BYTES +
	       (size_t)(chunk_first(c) + chunk_len(c)) * ENTRY_BYTES;
}

static void unmap_chunk(uint32_t c)
{
	munmap(chunks[c].entries, chunk_len(c) * ENTRY_BYTES);
	if (chunks[c].socks)
		munmap(chunks[c].socks, chunk_len(c) * sizeof(struct sock));
	if (chunks[c].holders)
		munmap(chunks[c].holders,
		       chunk_len(c) * sizeof(struct holders));
	chunks[c] = (struct chunk){ 0 };
}

/* Map chunk @c, and @skip bytes before its entries.  Return the address of the
 * mapping, or NULL if there is no memory. */
static void *map_chunk(int fd, uint32_t c, size_t skip)
{
	off_t at =
	    (off_t)(STATS_HEADER_BYTES + chunk_first(c) * ENTRY_BYTES - skip);
	size_t bytes = skip + chunk_len(c) * ENTRY_BYTES;
	int prot = PROT_READ | PROT_WRITE;
	void *map = mmap(NULL, bytes, prot, MAP_SHARED | MAP_NORESERVE, fd, at);

	if (map == MAP_FAILED)
		return NULL;
	int flags = MAP_ANONYMOUS | MAP_NORESERVE;
	void *socks = mmap(NULL, chunk_len(c) * sizeof(struct sock), prot,
			   MAP_PRIVATE | flags, -1, 0);
	void *holders = mmap(NULL, chunk_len(c) * sizeof(struct holders), prot,
			     MAP_SHARED | flags, -1, 0);
	chunks[c] = (struct chunk){ (uint8_t *)map + skip,
				    socks == MAP_FAILED ? NULL : socks,
				    holders == MAP_FAILED ? NULL : holders };
	if (chunks[c].socks && chunks[c].holders) {
		madvise(map, bytes, MADV_DONTDUMP);
		madvise(socks, chunk_len(c) * sizeof(struct sock),
			MADV_DONTDUMP);
		madvise(holders, chunk_len(c) * sizeof(struct holders),
			MADV_DONTDUMP);
		return map;
	}
	if (skip)
		munmap(map, skip);
	unmap_chunk(c);
	return NULL;
}

static int open_file(int fd, void **map)
{
	struct stat st;

	fchmod(fd, 0600);
	if (libc.fstat(fd, &st))
		return -errno;
	int err = stats_file_resize(fd, bytes_with(0));
	if (err)
		return err;
	if (!free_stack)
		free_stack = mmap(NULL, FIRST_SOCKS * sizeof(*free_stack),
				  PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (free_stack == MAP_FAILED) {
		free_stack = NULL;
		return -errno;
	}
	*map = map_chunk(fd, 0, STATS_HEADER_BYTES);
	if (!*map)
		return -errno;
	arena_dev = st.st_dev;
	arena_ino = st.st_ino;
	return 0;
}

int arena_open(void)
{
	void *map;

	if (header)
		return 0;
	int fd = stats_file_open(bytes_with(0));
	is_named = stats_file_is_named();
	if (fd < 0)
		fd = memfd_create(OSF_STATS_MEMFD, MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	int err = open_file(fd, &map);
	if (err) {
		nocancel_close(fd);
		return err;
	}
	struct osf_stats_header *h = map;
	h->version = OSF_STATS_VERSION;
	h->header_size = STATS_HEADER_BYTES;
	h->sock_size = ENTRY_BYTES;
	h->pid = (uint32_t)getpid();
	h->uid = getuid();
	h->started_ns = clock_ns(CLOCK_REALTIME);
	snprintf(h->program, sizeof(h->program), "%s", program_name());
	store_rel(&h->magic, OSF_STATS_MAGIC); /* readers check it first */
	n_chunks = 1;
	n_room = FIRST_SOCKS;
	n_free = n_used = 0;
	fd_arena = fds_hide(fd);
	store_rel(&header, h);
	log_move((void *)((uint8_t *)map + OSF_STATS_LOG_AT));
	return 0;
}

bool arena_is_open(void) { return header || is_due; }

static void open_due(void)
{
	GUARD(&lock);
	if (is_due && arena_open())
		log_err("no memory for a statistics file: %m");
	is_due = false;
}

/* Most children of a server that forks for each connection end before they need a file.  A
 * thread that may hold a lock of a socket does not wait for another one that forks. */
static COLD bool open_late(void)
{
	int saved = errno;

	if (!is_due || !fork_lock_try())
		return false;
	open_due();
	fork_lock_leave();
	errno = saved;
	return header;
}

static inline bool is_opened(void)
{
	return likely(load_acq(&header) != NULL) || open_late();
}

/* Mappings of ancestors, as far as there is room to note them. */
#define INHERITED_MAX 256
static struct mapped {
	void *at;
	size_t bytes;
	bool is_socks;
} inherited[INHERITED_MAX];
static unsigned n_inherited;

static void note_inherited(void *at, size_t bytes, bool is_socks)
{
	if (n_inherited < INHERITED_MAX)
		inherited[n_inherited++] =
		    (struct mapped){ at, bytes, is_socks };
}

static void note_chunks(void)
{
	for (uint32_t c = 0; c < n_chunks; c++) {
		size_t skip = c ? 0 : STATS_HEADER_BYTES;

		note_inherited(chunks[c].entries - skip,
			       skip + chunk_len(c) * ENTRY_BYTES, false);
		note_inherited(chunks[c].socks,
			       chunk_len(c) * sizeof(struct sock), true);
		note_inherited(chunks[c].holders,
			       chunk_len(c) * sizeof(struct holders), false);
	}
}

bool arena_inherits(void) { return n_inherited; }

/* The pages of sockets that this process inherited. */
static void drop_pages(const struct mapped *m)
{
	const struct sock *socks = m->at;

	for (size_t i = 0; i < m->bytes / sizeof(*socks); i++)
		shared_drop(&socks[i]);
}

void arena_drop_inherited(void)
{
	for (unsigned i = 0; i < n_inherited; i++)
		if (inherited[i].is_socks)
			drop_pages(&inherited[i]);
	while (n_inherited) {
		struct mapped *m = &inherited[--n_inherited];

		munmap(m->at, m->bytes);
	}
}

void arena_after_fork(void)
{
	lock_inherit(&lock);
	if (!header)
		return;
	/* The old mappings stay: inherited sockets live there. */
	log_move(NULL);
	shared_child();
	note_chunks();
	fds_close(fd_arena);
	fd_arena = -1;
	if (n_room > FIRST_SOCKS) {
		munmap(free_stack, n_room * sizeof(*free_stack));
		free_stack = NULL;
	}
	memset(chunks, 0, sizeof(chunks));
	n_chunks = n_room = n_free = n_used = 0;
	header = NULL;
	is_due = true;
	if (is_named)
		open_due();
	packets_after_fork();
}

/* Is it still our file?  The program may have closed our descriptor and reused
 * the number. */
static bool fd_is_arena(void)
{
	struct stat st;

	return fd_arena >= 0 && !libc.fstat(fd_arena, &st) &&
	       st.st_dev == arena_dev && st.st_ino == arena_ino;
}

static bool grow_stack(uint32_t n)
{
	void *at = mremap(free_stack, n_room * sizeof(*free_stack),
			  n * sizeof(*free_stack), MREMAP_MAYMOVE);

	if (at == MAP_FAILED)
		return false;
	free_stack = at;
	return true;
}

/* Double the number of entries. */
static COLD void grow(void)
{
	int saved = errno;
	uint32_t c = n_chunks;

	if (c < N_CHUNKS && fd_is_arena() &&
	    !stats_file_resize(fd_arena, bytes_with(c))) {
		bool mapped = map_chunk(fd_arena, c, 0) != NULL;

		if (mapped && !grow_stack(n_room + chunk_len(c))) {
			unmap_chunk(c);
		} else if (mapped) {
			n_room += chunk_len(c);
			n_chunks = c + 1;
		}
	}
	errno = saved;
}

struct osf_stats_totals *arena_totals(void)
{
	static struct osf_stats_totals
	    unseen; /* there is no memory for a file */

	return is_opened() ? &header->totals : &unseen;
}

struct osf_stats_packets *arena_packets(void)
{
	return is_opened() && fd_is_arena() &&
		       !stats_file_fill(fd_arena, OSF_STATS_PACKETS_AT,
					STATS_HEADER_BYTES)
		   ? (void *)((uint8_t *)header + OSF_STATS_PACKETS_AT)
		   : NULL;
}

bool arena_is_full(void)
{
	return header && !load_rlx(&n_free) &&
	       load_rlx(&n_used) == load_rlx(&n_room);
}

/* arena_is_full() looks at the counts without the lock. */
static void put_entry(uint32_t i)
{
	free_stack[n_free] = i;
	store_rlx(&n_free, n_free + 1);
}

/* Find entries whose last holder was a child: it could not put them on our
 * stack. */
static void sweep(void)
{
	for (uint32_t i = 0; i < n_used; i++) {
		struct sock *sk = sock_at(i);

		if (load_acq(&entry_at(i)->in_use) || sk->is_held)
			continue;
		sk->is_live = 0;
		shared_unmap(sk);
		put_entry(i);
	}
}

/* All entries have been used.  Find those that other processes have freed and,
 * if they are few, get more.  So each new socket looks at four entries at
 * most. */
static COLD void make_room(void)
{
	static uint32_t n_then; /* made, at the last look */

	/* The arena cannot grow: do not look at a million entries each time. */
	if (n_room == ARENA_SOCKS && n_made - n_then < n_room / 8)
		return;
	n_then = n_made;
	sweep();
	if (n_free < n_room / 4)
		grow();
}

/* The index of a free entry, or NOT_HERE. */
static uint32_t take_entry(void)
{
	if (!n_free && n_used == n_room)
		make_room();
	if (n_free) {
		store_rlx(&n_free, n_free - 1);
		return free_stack[n_free];
	}
	return n_used < n_room ? n_used : NOT_HERE;
}

struct sock *sock_new(int fd)
{
	static uint32_t generation;

	if (!is_opened())
		return NULL;
	GUARD(&lock);
	uint32_t i = take_entry();
	if (i == NOT_HERE)
		return NULL;
	struct sock *sk = sock_at(i);
	memset(sk, 0, sizeof(*sk));
	sk->st = entry_at(i);
	memset(sk->st, 0, sizeof(*sk->st));
	sk->is_live = sk->is_held = 1;
	shared_init(sk, holders_at(i));
	sk->w->rcvlowat = 1;
	sk->generation = ++generation;
	sk->st->fd = fd;
	sk->st->opened_ns = sk->st->since_ns = clock_ns(CLOCK_REALTIME);
	store_rel(&sk->st->in_use, generation ? generation : 1);
	if (i == n_used) {
		store_rlx(&n_used, i + 1);
		store_rel(&header->n_socks, i + 1);
	}
	header->totals.n_sockets++;
	n_made++;
	return sk;
}

static void totals_add(const struct osf_stats_sock *st)
{
	struct osf_stats_totals *t = &header->totals;

	t->rx_bytes_shm += st->rx_bytes_shm;
	t->tx_bytes_shm += st->tx_bytes_shm;
	t->tx_bytes_ref += st->tx_bytes_ref;
	t->rx_bytes_inet += st->rx_bytes_inet;
	t->tx_bytes_inet += st->tx_bytes_inet;
	t->rx_ops += st->rx_ops;
	t->tx_ops += st->tx_ops;
	t->n_spins += st->n_spins;
	t->n_sleeps += st->n_sleeps;
	t->n_wakes += st->n_wakes;
	t->n_reason[st->reason % 64]++;
	t->n_uncounted += st->flags & OSF_STATS_UNSEEN;
}

void sock_free(struct sock *sk)
{
	GUARD(&lock);
	uint32_t i = index_of(sk);

	/* Other processes may have lied about how many of them share it, so that we are
	 * called a second time. */
	if (!sk->is_live)
		return;
	sk->is_live = sk->is_held = 0;
	shared_unmap(sk);
	if (likely(header))
		totals_add(sk->st);
	sk->state = SOCK_STATE(SOCK_KERNEL);
	store_rel(&sk->st->in_use, 0); /* the last: see sweep() */
	if (i != NOT_HERE)
		put_entry(i);
}

bool arena_let_go(struct sock *sk, int32_t n)
{
	GUARD(&lock);
	return sk->is_live && sock_let_go(sk, n);
}

void arena_for_each(void (*each)(const struct sock *sk, void *arg), void *arg)
{
	if (!header)
		return;
	GUARD(&lock);
	for (uint32_t i = 0; i < n_used; i++)
		if (sock_at(i)->is_live && load_acq(&entry_at(i)->in_use))
			each(sock_at(i), arg);
}
