/* SPDX-License-Identifier: MIT */
/*
 * sock/arena.c - see sock/arena.h
 *
 * The segment is sized once, sparsely, and mapped whole: a limit on sockets of
 * ARENA_SOCKS costs address space, not memory.  Free entries are threaded
 * through a stack of indices in process memory, so a reader never sees it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/libc.h"
#include "base/log.h"
#include "sock/arena.h"

/* A process has at most a million descriptors unless root raised fs.nr_open. */
#define ARENA_SOCKS (1u << 20)
#define HEADER_BYTES 4096

static_assert(sizeof(struct osf_stats_header) <= HEADER_BYTES, "header grew");
static_assert(sizeof(struct sock) % CACHE_LINE == 0, "entries are aligned");

static struct osf_stats_header *header;
static struct sock *socks;
static int fd_arena = -1;
static struct lock lock;
static uint32_t *free_stack; /* indices of freed entries, reserved sparsely */
static uint32_t n_free;

static const char *const reason_texts[] = {
#define R(name, text) text,
#include "osf/reasons.def"
#undef R
};

const char *sock_reason_text(enum osf_reason reason)
{
	return reason_texts[reason];
}

static int segment_file(void)
{
	const char *dir = getenv("OSF_STATS_DIR");
	char path[512];

	if (!dir || !*dir)
		return memfd_create(OSF_STATS_MEMFD, MFD_CLOEXEC);
	for (int n = 0; n < 1000; n++) {
		snprintf(path, sizeof(path), "%s/%d.%d.osf", dir, (int)getpid(),
			 n);
		int fd = libc.open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
				   0600);
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	return -1;
}

int arena_open(void)
{
	size_t bytes = HEADER_BYTES + (size_t)ARENA_SOCKS * sizeof(struct sock);

	if (header)
		return 0;
	struct rlimit rl;
	if (!getrlimit(RLIMIT_FSIZE, &rl) && rl.rlim_cur < bytes)
		return -EFBIG;
	int fd = segment_file();
	if (fd < 0)
		fd = memfd_create(OSF_STATS_MEMFD, MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	fchmod(fd, 0600);
	void *map = MAP_FAILED;
	uint32_t *stack = MAP_FAILED;
	if (!ftruncate(fd, (off_t)bytes)) {
		map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_NORESERVE, fd, 0);
		stack =
		    mmap(NULL, ARENA_SOCKS * sizeof(uint32_t),
			 PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	if (map == MAP_FAILED || stack == MAP_FAILED) {
		int err = -errno;

		if (map != MAP_FAILED)
			munmap(map, bytes);
		libc.close(fd);
		return err;
	}
	struct osf_stats_header *h = map;
	h->version = OSF_STATS_VERSION;
	h->header_size = HEADER_BYTES;
	h->sock_size = sizeof(struct sock);
	h->pid = (uint32_t)getpid();
	h->uid = getuid();
	h->started_ns = clock_ns(CLOCK_REALTIME);
	snprintf(h->program, sizeof(h->program), "%s",
		 program_invocation_short_name);
	store_rel(&h->magic, OSF_STATS_MAGIC); /* readers check it first */
	socks = (struct sock *)((char *)map + HEADER_BYTES);
	free_stack = stack;
	n_free = 0;
	fd_arena = fds_hide(fd);
	header = h;
	return 0;
}

void arena_after_fork(void)
{
	lock = (struct lock){ 0 };
	if (!header)
		return;
	/* The old mapping stays: inherited sockets live in it. */
	fds_close(fd_arena);
	fd_arena = -1;
	header = NULL;
	if (arena_open())
		log_err("no memory for a statistics segment: %m");
}

int arena_fd(void) { return fd_arena; }

struct osf_stats_totals *arena_totals(void) { return &header->totals; }

/* Entries that a child was the last to free: it could not put them on our stack.
 * Looked for when the stack is empty and half as many have been made since. */
static void sweep(void)
{
	static uint32_t n_made;

	if (n_free || ++n_made < 64 + header->n_socks / 2)
		return;
	n_made = 0;
	for (uint32_t i = 0; i < header->n_socks; i++)
		if (!load_acq(&socks[i].st.in_use))
			free_stack[n_free++] = i;
}

struct sock *sock_new(int fd)
{
	static uint32_t generation;
	struct sock *sk = NULL;

	if (!header)
		return NULL;
	lock_get(&lock);
	sweep();
	if (n_free)
		sk = &socks[free_stack[--n_free]];
	else if (header->n_socks < ARENA_SOCKS)
		sk = &socks[header->n_socks];
	if (!sk) {
		lock_put(&lock);
		return NULL;
	}
	memset(sk, 0, sizeof(*sk));
	sk->offer_fd = sk->channel_fd = -1;
	sk->n_procs = 1;
	sk->rcvlowat = 1;
	sk->generation = ++generation;
	sk->st.fd = fd;
	sk->st.opened_ns = sk->st.since_ns = clock_ns(CLOCK_REALTIME);
	store_rel(&sk->st.in_use, generation ? generation : 1);
	if (sk == &socks[header->n_socks])
		store_rel(&header->n_socks, header->n_socks + 1);
	header->totals.n_sockets++;
	lock_put(&lock);
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
}

void sock_free(struct sock *sk)
{
	lock_get(&lock);
	totals_add(&sk->st);
	sk->seg = NULL;
	sk->state = SOCK_STATE(SOCK_KERNEL);
	store_rel(&sk->st.in_use, 0); /* the last: see sweep() */
	if (sk >= socks && sk < socks + ARENA_SOCKS)
		free_stack[n_free++] = (uint32_t)(sk - socks);
	lock_put(&lock);
}

void sock_set_mode(struct sock *sk, enum sock_mode mode)
{
	uint32_t old;

	do
		old = load_rlx(&sk->state);
	while (
	    !cas(&sk->state, old, SOCK_STATE(mode) | (old & SOCK_COUNT_MASK)));
}

void sock_set_reason(struct sock *sk, enum osf_reason reason)
{
	sk->st.reason = (uint8_t)reason;
	log_dbg("fd %d: %s", sk->st.fd, reason_texts[reason]);
}

void arena_for_each(void (*each)(const struct sock *sk, void *arg), void *arg)
{
	if (!header)
		return;
	GUARD(&lock);
	for (uint32_t i = 0; i < header->n_socks; i++)
		if (load_acq(&socks[i].st.in_use))
			each(&socks[i], arg);
}
