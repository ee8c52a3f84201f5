/* SPDX-License-Identifier: MIT */
/* osfd/held.c - connections of programs that may die; see held.h */
#include "osfd/held.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "osfd/escrow.h"
#include "osfd/received.h"
#include "osfd/segment.h"
#include "osfd/sockopt.h"

#define OTHER_FDS 8192u /* clients, grants and their BPF programs */
#define TABLE_BYTES (ESCROW_SLOTS * sizeof(struct held))

static uint32_t n_held, n_held_max = 64;

void held_init(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return;
	rl.rlim_cur = rl.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &rl) < 0)
		return;
	uint64_t max = MIN((uint64_t)rl.rlim_cur, (uint64_t)1 << 20);
	n_held_max =
	    (uint32_t)(max > 2 * OTHER_FDS ? max - OTHER_FDS : max / 2);
}

static bool is_escrow(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && seals & F_SEAL_SHRINK && fstat(fd, &st) == 0 &&
	       (uint64_t)st.st_size == ESCROW_BYTES;
}

int held_open(struct grant *g, int fd, struct refusal *why)
{
	if (g->held) {
		refuse(why, "the grant has an escrow already");
		return -EEXIST;
	}
	if (!is_escrow(fd)) {
		refuse(why, "not a sealed memfd of %llu bytes",
		       (unsigned long long)ESCROW_BYTES);
		return -EBADF;
	}
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return -errno;
	/* Pages exist once a slot of them is used. */
	void *table = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (table == MAP_FAILED) {
		close(own);
		return -ENOMEM;
	}
	g->held = table;
	g->escrow_fd = own;
	return 0;
}

static struct held *held_at(struct grant *g, uint32_t slot)
{
	return g->held && slot > 0 && slot <= ESCROW_SLOTS ? &g->held[slot - 1]
							   : NULL;
}

int held_add(struct grant *g, uint32_t slot, int fd, struct refusal *why)
{
	struct held *h = held_at(g, slot);

	if (!slot)
		return 0;
	if (!h || h->is_used) {
		refuse(why, "no escrow, or no free slot %u in it", slot);
		return -EINVAL;
	}
	if (n_held >= n_held_max) {
		refuse(why, "osfd holds %u connections of this program",
		       n_held);
		return -ENOSPC;
	}
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return -errno;
	*h = (struct held){ .is_used = true, .fd = own };
	n_held++;
	return 0;
}

void held_set(struct grant *g, uint32_t slot, int fd, const struct frozen *f)
{
	struct held *h = held_at(g, slot);
	struct connection c;
	struct refusal why;

	if (!h)
		return;
	h->frozen = *f;
	h->since_ns = now_ns();
	if (connection_of(fd, &c, &why) == 0)
		h->key = c.key;
}

static void let_go(struct grant *g, struct held *h)
{
	socket_close(h->fd);
	*h = (struct held){ 0 };
	n_held--;
}

void held_drop(struct grant *g, uint32_t slot)
{
	struct held *h = held_at(g, slot);

	if (h && h->is_used)
		let_go(g, h);
}

void held_ended(struct grant *g, uint32_t slot)
{
	struct held *h = held_at(g, slot);
	struct connection c;
	struct refusal why;

	if (!h || !h->is_used || connection_of(h->fd, &c, &why) == 0)
		return;
	grant_unsteer(g, &h->key);
	opt_set(h->fd, SOL_TCP, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
	opt_set(h->fd, SOL_SOCKET, SO_DETACH_FILTER, 0);
}

void held_forget(struct grant *g, const struct steer_key *key)
{
	for (uint32_t i = 0; g->held && i < ESCROW_SLOTS; i++) {
		struct held *h = &g->held[i];

		if (!h->is_used || memcmp(&h->key, key, sizeof(*key)) != 0)
			continue;
		grant_unsteer(g, key);
		let_go(g, h);
	}
}

/* The engine's clock has gone on.  Rounding may have put it ahead of ours. */
static void advance(struct frozen *f, uint64_t ns)
{
	uint32_t is_us = f->timestamp & 1;
	uint64_t unit = is_us ? NS_PER_US : NS_PER_MS;

	f->timestamp += (uint32_t)(ns / unit) + 4;
	f->timestamp = (f->timestamp & ~1u) | is_us;
}

static int read_slot(const struct grant *g, uint32_t index,
		     struct escrow_head *out)
{
	return pread(g->escrow_fd, out, sizeof(*out),
		     (off_t)index * ESCROW_SLOT) == sizeof(*out)
		   ? 0
		   : -EIO;
}

/* Reads until two copies are the same.  Then no part of the copy is older than another
 * part. */
static bool read_living(const struct grant *g, uint32_t index,
			struct escrow_head *out)
{
	struct escrow_head again;

	return read_slot(g, index, out) == 0 &&
	       read_slot(g, index, &again) == 0 &&
	       memcmp(out, &again, sizeof(again)) == 0 && out->which;
}

static void acknowledge(struct grant *g, struct held *h)
{
	struct frozen f = h->frozen;
	struct escrow_head head;
	struct escrow_bytes b;
	struct connection c;
	struct refusal why;

	if (!read_living(g, (uint32_t)(h - g->held), &head) ||
	    escrow_parse(&head, &f, &b) < 0 || f.rcv_wup == f.rcv_nxt ||
	    connection_of(h->fd, &c, &why) < 0)
		return;
	/* Continues from the engine's last timestamp, so that the next segment does not
	 * seem old. */
	f.timestamp = head.tsval;
	ack_peer(&c, &f);
}

void held_acknowledge(struct grant *g)
{
	for (uint32_t i = 0; g->held && i < ESCROW_SLOTS; i++)
		if (g->held[i].is_used)
			acknowledge(g, &g->held[i]);
}

/* Sends a reset behind the bytes that were sent, as the kernel does when a program ends
 * without having read everything. */
static int end_unread(struct grant *g, struct held *h)
{
	struct connection c;
	struct refusal why;
	int err = connection_of(h->fd, &c, &why);

	if (err)
		return err;
	grant_unsteer(g, &c.key);
	reset_peer(h->fd, &c, &h->frozen);
	return 0;
}

static int give_back(struct grant *g, struct held *h)
{
	uint32_t index = (uint32_t)(h - g->held);
	struct escrow_head head;
	struct escrow_bytes b;
	struct refusal why;
	int err = read_slot(g, index, &head);

	if (!err)
		err = escrow_parse(&head, &h->frozen, &b);
	if (err)
		return err;
	advance(&h->frozen, now_ns() - h->since_ns);
	if (b.has_unread)
		return end_unread(g, h);
	struct queues q = {
		.fd = g->escrow_fd,
		.n_unacked = b.n_unacked,
		.n_unsent = b.n_unsent,
		.at = (uint64_t)index * ESCROW_SLOT + ESCROW_HEAD,
		.ring_bytes = ESCROW_RING,
		.ring_off = b.off,
	};
	return thaw(g, h->fd, &h->frozen, &q, &why);
}

/* We do not know what the engine has sent, so we ask the peer: see wake_peer(). */
static void cut_off(struct grant *g, struct held *h)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	grant_unsteer(g, &h->key);
	(void)connect(h->fd, &none, sizeof(none));
	wake_peer(&h->key, h->frozen.snd_nxt);
}

static void end_one(struct grant *g, struct held *h, bool is_dead)
{
	struct use *u = &g->ports->use[g - g->ports->grant];

	/* Somebody has ended the connection meanwhile, or a freeze was cut short. */
	if (opt_get(h->fd, SOL_TCP, TCP_REPAIR) != 1) {
		grant_unsteer(g, &h->key);
	} else if (is_dead && give_back(g, h) == 0) {
		count(&u->n_thawed, 1);
	} else {
		cut_off(g, h);
		count(&u->n_reset, 1);
	}
	let_go(g, h);
}

void held_end(struct grant *g, bool is_dead)
{
	if (!g->held)
		return;
	for (uint32_t i = 0; i < ESCROW_SLOTS; i++)
		if (g->held[i].is_used)
			end_one(g, &g->held[i], is_dead);
	munmap(g->held, TABLE_BYTES);
	close(g->escrow_fd);
	g->held = NULL;
	g->escrow_fd = -1;
}
