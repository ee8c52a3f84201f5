/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/seg.c - reads one statistics file, which may contain anything
 *
 *     fd -> header checked -> entries copied, 64 at a time -> struct seg
 *
 * Order of the checks: a regular file, long enough for a header, the magic, the major
 * version, sizes that hold what we know of, and room in the file for the entries it claims.
 * Only entries in use are kept, so a sparse file of a gigabyte costs time and no memory.
 *
 * Two numbers of one segment may be of slightly different instants.
 */
#include "osf.h"
#include "seg.h"
#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_BYTES_MAX 65536
#define SOCK_BYTES_MAX 4096
#define SOCKS_MAX (1u << 20) /* more descriptors than a process may have */
#define BATCH 64             /* entries read at a time */
#define LOWER_MAX 24         /* of a reason's name */
/* Of one user's segments in one list: a million sockets have 256 MB. */
#define USER_BYTES_MAX (UINT64_C(512) << 20)
#define USER_SOCKS_MAX (UINT64_C(1) << 18) /* open at once */

static const struct {
	const char *name, *text;
} reasons[] = {
#define R(name, text) { #name, text },
#include "osf/reasons.def"
#undef R
};
static_assert(sizeof(reasons) / sizeof(*reasons) == OSF_REASONS,
	      "one line for each reason");
static_assert(OSF_REASONS <= 64, "n_reason[] has room for all");

static const struct {
	const char *name, *text;
} drops[] = {
#define D(name, text) { #name, text },
#include "base/drop.def"
#undef D
};

static const char *in_lower_case(const char *name, char to[LOWER_MAX])
{
	for (size_t i = 0; name[i] && i + 1 < LOWER_MAX; i++)
		to[i] = (char)tolower((unsigned char)name[i]);
	return to;
}

const char *seg_reason_name(unsigned reason)
{
	static char lower[OSF_REASONS][LOWER_MAX];

	return reason < OSF_REASONS
		   ? in_lower_case(reasons[reason].name, lower[reason])
		   : "unknown";
}

const char *seg_drop_name(unsigned reason)
{
	static char lower[DROP_REASONS][LOWER_MAX];

	return reason < DROP_REASONS
		   ? in_lower_case(drops[reason].name, lower[reason])
		   : "unknown";
}

const char *seg_drop_text(unsigned reason)
{
	return reason < DROP_REASONS ? drops[reason].text
				     : "a reason this osf does not know";
}

const char *seg_reason_text(unsigned reason)
{
	return reason < OSF_REASONS ? reasons[reason].text
				    : "a reason this osf does not know";
}

const char *seg_reason_advice(unsigned reason)
{
	static const char *const advice[OSF_REASONS] = {
#define A(name, text) [OSF_REASON_##name] = text,
#include "advice.def"
#undef A
	};

	return reason < OSF_REASONS ? advice[reason] : NULL;
}

const char *seg_proto_name(const struct osf_stats_sock *s)
{
	static const char *const names[] = {
		[OSF_PROTO_NONE] = "none", [OSF_PROTO_INET] = "kernel",
		[OSF_PROTO_SHM] = "shm",   [OSF_PROTO_MODULE] = "module",
		[OSF_PROTO_TCP] = "tcp",
	};
	static_assert(sizeof(names) / sizeof(*names) == OSF_PROTOS,
		      "one name for each protocol");

	if (s->listening)
		return "listen";
	return s->proto < OSF_PROTOS ? names[s->proto] : "unknown";
}

void seg_addr_text(const struct osf_stats_sock *s, bool is_peer, char *out)
{
	const uint8_t *addr = is_peer ? s->peer_addr : s->local_addr;
	unsigned port = is_peer ? s->peer_port : s->local_port;
	char text[INET6_ADDRSTRLEN];

	if ((s->family != AF_INET && s->family != AF_INET6) || port == 0 ||
	    !inet_ntop(s->family, addr, text, sizeof(text)))
		snprintf(out, SEG_ADDR_MAX, "*");
	else
		snprintf(out, SEG_ADDR_MAX,
			 s->family == AF_INET6 ? "[%s]:%u" : "%s:%u", text,
			 port);
}

/* All of @len bytes at @off, or an error: a file that shrinks is cut off. */
static int read_at(int fd, void *buf, size_t len, off_t off, char *why)
{
	ssize_t n = pread(fd, buf, len, off);

	if (n < 0) {
		int err = -errno;
		snprintf(why, SEG_WHY_MAX, "cannot be read: %s",
			 strerror(-err));
		return err;
	}
	if ((size_t)n == len)
		return 0;
	snprintf(why, SEG_WHY_MAX, "truncated: %zd of %zu bytes at offset %jd",
		 n, len, (intmax_t)off);
	return -EBADMSG;
}

/* Its process makes the file, gives it its size, and writes the magic last. */
static int not_begun(char *why)
{
	snprintf(why, SEG_WHY_MAX, "not begun yet");
	return -EAGAIN;
}

/* Can @h be believed, in a file of @size bytes? */
static int check_header(const struct osf_stats_header *h, off_t size, char *why)
{
	if (!h->magic)
		return not_begun(why);
	if (h->magic != OSF_STATS_MAGIC) {
		snprintf(why, SEG_WHY_MAX, "not a statistics file");
		return -EBADMSG;
	}
	if (h->version >> 16 != OSF_STATS_VERSION >> 16) {
		snprintf(why, SEG_WHY_MAX,
			 "version %u.%u is not known, only %u.*",
			 h->version >> 16, h->version & 0xffff,
			 OSF_STATS_VERSION >> 16);
		return -EPROTONOSUPPORT;
	}
	if (h->header_size < OSF_STATS_HEADER_MIN ||
	    h->header_size > HEADER_BYTES_MAX ||
	    h->sock_size < OSF_STATS_SOCK_MIN ||
	    h->sock_size > SOCK_BYTES_MAX || h->n_socks > SOCKS_MAX) {
		snprintf(why, SEG_WHY_MAX,
			 "impossible sizes: header %u, socket %u, sockets %u",
			 h->header_size, h->sock_size, h->n_socks);
		return -EBADMSG;
	}
	uint64_t need = h->header_size + (uint64_t)h->n_socks * h->sock_size;
	if ((uint64_t)size < need) {
		snprintf(why, SEG_WHY_MAX,
			 "truncated: %jd bytes, but %u sockets need %" PRIu64,
			 (intmax_t)size, h->n_socks, need);
		return -EBADMSG;
	}
	return 0;
}

/* Text from a stranger goes to terminals and into JSON. */
static void make_printable(char *s, size_t size)
{
	s[size - 1] = '\0';
	for (; *s; s++)
		if (*s < ' ' || *s > '~')
			*s = '?';
}

static void seg_totals_add(struct osf_stats_totals *t,
			   const struct seg_sock *sock)
{
	const struct osf_stats_sock *s = &sock->s;

	t->rx_bytes_shm += s->rx_bytes_shm;
	t->tx_bytes_shm += s->tx_bytes_shm;
	t->tx_bytes_ref += s->tx_bytes_ref;
	t->rx_bytes_inet += s->rx_bytes_inet;
	t->tx_bytes_inet += s->tx_bytes_inet;
	t->rx_ops += s->rx_ops;
	t->tx_ops += s->tx_ops;
	t->n_spins += s->n_spins;
	t->n_sleeps += s->n_sleeps;
	t->n_wakes += s->n_wakes;
	t->n_uncounted += !sock->has_bytes;
	if (sock->reason < 64)
		t->n_reason[sock->reason]++;
}

static void keep_used(struct seg *seg, const char *entries, uint32_t first,
		      uint32_t n)
{
	size_t n_bytes = sizeof(struct osf_stats_sock);

	if (n_bytes > seg->head.sock_size)
		n_bytes = seg->head.sock_size;
	for (uint32_t i = 0; i < n; i++) {
		struct seg_sock e = { .idx = first + i };

		memcpy(&e.s, entries + (size_t)i * seg->head.sock_size,
		       n_bytes);
		if (!e.s.in_use)
			continue;
		e.reason = e.s.reason;
		e.has_bytes = e.has_ops =
		    e.s.listening || !(e.s.flags & OSF_STATS_UNSEEN);
		if (e.s.ended) {
			seg_totals_add(&seg->head.totals, &e);
			continue;
		}
		seg->socks = xgrow(seg->socks, seg->n_socks, sizeof(e));
		seg->socks[seg->n_socks++] = e;
	}
}

static struct seg_cost *cost_of(struct seg_list *l, uid_t uid)
{
	for (size_t i = 0; i < l->n_costs; i++)
		if (l->costs[i].uid == uid)
			return &l->costs[i];
	l->costs = xgrow(l->costs, l->n_costs, sizeof(*l->costs));
	l->costs[l->n_costs] = (struct seg_cost){ .uid = uid };
	return &l->costs[l->n_costs++];
}

/* Add what the next @n_bytes and the entries kept from them cost @c. */
static int pay(struct seg_cost *c, size_t n_bytes, size_t n_kept, char *why)
{
	c->n_bytes += n_bytes;
	c->n_socks += n_kept;
	if (c->uid == geteuid() ||
	    (c->n_bytes <= USER_BYTES_MAX && c->n_socks <= USER_SOCKS_MAX))
		return 0;
	snprintf(why, SEG_WHY_MAX, "the segments of user %u are too large",
		 (unsigned)c->uid);
	return -E2BIG;
}

static int read_socks(struct seg *seg, int fd, struct seg_cost *cost, char *why)
{
	const struct osf_stats_header *h = &seg->head;
	char *batch = xcalloc(BATCH, h->sock_size);
	int err = 0;

	for (uint32_t i = 0; !err && i < h->n_socks; i += BATCH) {
		uint32_t n = h->n_socks - i < BATCH ? h->n_socks - i : BATCH;
		off_t off = h->header_size + (off_t)i * h->sock_size;

		size_t n_before = seg->n_socks;
		err = read_at(fd, batch, (size_t)n * h->sock_size, off, why);
		if (!err)
			keep_used(seg, batch, i, n);
		if (!err)
			err = pay(cost, (size_t)n * h->sock_size,
				  seg->n_socks - n_before, why);
	}
	free(batch);
	return err;
}

int seg_read(struct seg *out, int fd, struct seg_list *costs, char *why)
{
	struct seg seg = { .taken_ns = now_ns() };
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		snprintf(why, SEG_WHY_MAX, "not a regular file");
		return -EBADMSG;
	}
	seg.dev = st.st_dev;
	seg.ino = st.st_ino;
	if (!st.st_size)
		return not_begun(why);

	int err = read_at(fd, &seg.head, OSF_STATS_HEADER_MIN, 0, why);
	if (!err)
		err = check_header(&seg.head, st.st_size, why);
	if (!err && seg.head.header_size >= sizeof(seg.head))
		err = read_at(fd, &seg.head, sizeof(seg.head), 0, why);
	if (!err)
		err = read_socks(&seg, fd, cost_of(costs, st.st_uid), why);
	if (err) {
		seg_free(&seg);
		return err;
	}
	make_printable(seg.head.program, sizeof(seg.head.program));
	*out = seg;
	return 0;
}

void seg_free(struct seg *seg)
{
	free(seg->socks);
	seg->socks = NULL;
	seg->n_socks = 0;
}

/* The totals are an array of uint64_t: nothing else may come into them. */
static void totals_add(struct osf_stats_totals *to,
		       const struct osf_stats_totals *t)
{
	static_assert(sizeof(*t) % sizeof(uint64_t) == 0, "only counters");
	uint64_t *sum = &to->n_sockets;
	const uint64_t *one = &t->n_sockets;

	for (size_t i = 0; i < sizeof(*t) / sizeof(*one); i++)
		sum[i] += one[i];
}

void seg_sums_add(struct seg_sums *sums, const struct seg *seg)
{
	totals_add(&sums->t, &seg->head.totals);
	sums->n_open += seg->n_socks - seg->n_gone;

	for (size_t i = 0; i < seg->n_socks; i++)
		seg_totals_add(&sums->t, &seg->socks[i]);
}
