/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/look.c - see tools/osf/look.h
 *
 *     row -> its socket, by number and process or else by its ends
 *         -> the kernel's entry (diag.h)       bytes, local address
 *         -> who has it open (links.h)         pids; or it is gone
 *         -> the entry with the ends swapped   the peer, here or in another
 *                                              network namespace of this host
 *
 * The three sources are read at slightly different instants.  A row that does not fit its
 * socket any more keeps what its segment said.
 */
#include "osf.h"
#include "look.h"
#include "diag.h"
#include "links.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A namespace whose sockets are known. */
struct place {
	uint64_t netns;
	struct diag diag;
	int err; /* why they are not */
};

/* A row of any process, by the inode of its socket. */
struct seen {
	uint64_t ino;
	const struct seg_sock *row;
};

struct looking {
	struct links links;
	struct place **places;
	size_t n_places;

	/* What all processes say, read when the first peer is looked for. */
	bool has_all;
	struct seg_list all;
	struct seen *seen;
	size_t n_seen;
};

static int place_read(struct place *p, pid_t pid)
{
	char path[64];

	if (p->netns == netns_of(getpid()))
		return diag_read(&p->diag, -1);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	int err = diag_read(&p->diag, fd);
	close(fd);
	return err;
}

static struct place *place_of(struct looking *lk, uint64_t netns, pid_t pid)
{
	for (size_t i = 0; i < lk->n_places; i++)
		if (lk->places[i]->netns == netns)
			return lk->places[i];
	struct place *p = xcalloc(1, sizeof(*p));
	p->netns = netns;
	p->err = place_read(p, pid);
	lk->places = xgrow(lk->places, lk->n_places, sizeof(p));
	lk->places[lk->n_places++] = p;
	return p;
}

/* The ends of a row; @local is of no address when that is not known. */
static void ends_of(const struct osf_stats_sock *s, struct diag_end *local,
		    struct diag_end *peer)
{
	*local = diag_end_of(s->family, s->local_addr, s->local_port);
	*peer = diag_end_of(s->family, s->peer_addr, s->peer_port);
}

static bool may_be(const struct diag_sock *d, const struct osf_stats_sock *s)
{
	struct diag_end local, peer;

	ends_of(s, &local, &peer);
	if (s->listening)
		return d->state == DIAG_LISTEN && d->local.port == local.port;
	if (s->peer_port && (d->peer.port != peer.port ||
			     memcmp(d->peer.addr, peer.addr, 16) != 0))
		return false;
	return !s->local_port || d->local.port == s->local_port;
}

/* The row's socket in the kernel, or NULL; *@ino is its inode, or 0. */
static const struct diag_sock *find_sock(const struct looking *lk,
					 const struct place *p, pid_t pid,
					 const struct osf_stats_sock *s,
					 uint64_t *ino)
{
	uint64_t under_fd = links_ino(&lk->links, pid, s->fd);
	const struct diag_sock *d = diag_by_ino(&p->diag, under_fd);
	struct diag_end local, peer;

	*ino = under_fd;
	if (d && may_be(d, s))
		return d;
	if (under_fd && !d && !s->listening)
		return NULL; /* not connected, or not any more */
	*ino = 0;
	ends_of(s, &local, &peer);
	d = s->local_port && (s->peer_port || s->listening)
		? diag_by_ends(&p->diag, &local, &peer)
		: NULL;
	*ino = d ? d->ino : 0;
	return d;
}

static void take_local(struct osf_stats_sock *s, const struct diag_sock *d)
{
	if (s->family == AF_INET6)
		memcpy(s->local_addr, d->local.addr, 16);
	else
		memcpy(s->local_addr, d->local.addr + 12, 4);
	s->local_port = d->local.port;
}

/* What a program that osf leaves alone has connected is known here alone. */
static void take_peer(struct osf_stats_sock *s, const struct diag_sock *d)
{
	if (s->peer_port || !d->peer.port || s->listening)
		return;
	if (s->family == AF_INET6)
		memcpy(s->peer_addr, d->peer.addr, 16);
	else
		memcpy(s->peer_addr, d->peer.addr + 12, 4);
	s->peer_port = d->peer.port;
	if (s->proto == OSF_PROTO_NONE)
		s->proto = OSF_PROTO_INET;
}

static void take_bytes(struct seg_sock *row, const struct diag_sock *d)
{
	struct osf_stats_sock *s = &row->s;

	if (row->has_bytes || !d->has_bytes || s->proto == OSF_PROTO_MODULE ||
	    d->bytes.rx < s->rx_bytes_other + s->rx_bytes_inet ||
	    d->bytes.tx < s->tx_bytes_other + s->tx_bytes_inet)
		return;
	s->rx_bytes_inet = d->bytes.rx - s->rx_bytes_other;
	s->tx_bytes_inet = d->bytes.tx - s->tx_bytes_other;
	row->has_bytes = true;
}

/* Who has it open?  The segment has the pid that its process has inside its own pid
 * namespace. */
static void take_holders(const struct looking *lk, const struct seg *seg,
			 struct seg_sock *row)
{
	size_t n = 0;
	const struct link *at = links_of(&lk->links, row->ino, &n);

	for (size_t i = 0; row->ino && i < n; i++) {
		if (i && at[i].pid == at[i - 1].pid)
			continue;
		if (row->n_pids < SEG_PIDS_MAX)
			row->pids[row->n_pids] = at[i].pid == seg->found_pid
						     ? (pid_t)seg->head.pid
						     : at[i].pid;
		row->n_pids++;
	}
}

static void look_at_row(const struct looking *lk, const struct place *p,
			struct seg *seg, struct seg_sock *row)
{
	const struct diag_sock *d =
	    find_sock(lk, p, seg->found_pid, &row->s, &row->ino);

	if (d) {
		take_local(&row->s, d);
		take_peer(&row->s, d);
		take_bytes(row, d);
	}
	take_holders(lk, seg, row);
	row->is_gone = !row->n_pids && !p->err && lk->links.is_all;
	seg->n_gone += row->is_gone;
}

static void look_at_seg(struct looking *lk, struct seg *seg)
{
	uint64_t netns = seg->found_pid ? netns_of(seg->found_pid) : 0;

	if (!netns)
		return;
	const struct place *p = place_of(lk, netns, seg->found_pid);
	for (size_t i = 0; i < seg->n_socks; i++)
		look_at_row(lk, p, seg, &seg->socks[i]);
}

/* ---- peers ---- */

/* The other end of a row's connection in @p, or NULL. */
static const struct diag_sock *other_end(const struct place *p,
					 const struct osf_stats_sock *s)
{
	struct diag_end local, peer;

	ends_of(s, &local, &peer);
	return s->local_port && s->peer_port && !diag_is_any(&local)
		   ? diag_by_ends(&p->diag, &peer, &local)
		   : NULL;
}

static int by_ino(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

static void read_all(struct looking *lk)
{
	if (lk->has_all)
		return;
	lk->has_all = true;
	lk->all.is_quiet = true;
	(void)seg_list_all(&lk->all);
	for (size_t i = 0; i < lk->all.n; i++) {
		struct seg *seg = &lk->all.segs[i];

		look_at_seg(lk, seg);
		for (size_t j = 0; j < seg->n_socks; j++) {
			if (!seg->socks[j].ino)
				continue;
			lk->seen =
			    xgrow(lk->seen, lk->n_seen, sizeof(*lk->seen));
			lk->seen[lk->n_seen++] =
			    (struct seen){ seg->socks[j].ino, &seg->socks[j] };
		}
	}
	if (lk->n_seen)
		qsort(lk->seen, lk->n_seen, sizeof(*lk->seen), by_ino);
}

static const struct seg *seg_of(const struct looking *lk, pid_t pid)
{
	for (size_t i = 0; i < lk->all.n; i++)
		if (lk->all.segs[i].found_pid == pid)
			return &lk->all.segs[i];
	return NULL;
}

static const struct seg_sock *row_of(const struct looking *lk, uint64_t ino)
{
	const struct seen key = { .ino = ino };
	const struct seen *found =
	    lk->n_seen && ino
		? bsearch(&key, lk->seen, lk->n_seen, sizeof(key), by_ino)
		: NULL;

	return found ? found->row : NULL;
}

static void program_of(pid_t pid, char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	FILE *f = fopen(path, "re");
	if (!f || !fgets(name, SEG_NAME_MAX, f))
		name[0] = '\0';
	if (f)
		fclose(f);
	for (char *c = name; *c; c++)
		if (*c == '\n')
			*c = '\0';
		else if (*c < ' ' || *c > '~')
			*c = '?';
}

/* Does its osf say of itself why it would not take part? */
static bool is_pinned(unsigned reason)
{
	return reason != OSF_REASON_NONE && reason != OSF_REASON_YOUNG &&
	       reason != OSF_REASON_UPGRADED && reason != OSF_REASON_NO_PEER &&
	       reason != OSF_REASON_NO_PROPOSAL &&
	       reason != OSF_REASON_LISTENER &&
	       reason != OSF_REASON_PEER_KERNEL &&
	       reason != OSF_REASON_PEER_BACK;
}

/* The peer runs here and can be seen: what does it say? */
static void judge_process(const struct looking *lk, struct seg_sock *row,
			  const struct diag_sock *d)
{
	const struct seg *seg = seg_of(lk, row->peer_pid);
	const struct seg_sock *other = row_of(lk, d->ino);

	if (seg)
		snprintf(row->peer_program, sizeof(row->peer_program), "%s",
			 seg->head.program);
	else
		program_of(row->peer_pid, row->peer_program);
	if (other && is_pinned(other->s.reason)) {
		row->peer_reason = other->s.reason;
		if (row->reason != OSF_REASON_PEER_BACK)
			row->reason = OSF_REASON_PEER_KERNEL;
	} else if (row->reason == OSF_REASON_PEER_BACK) {
		return; /* it took part once */
	} else if (seg && !other) {
		row->reason = OSF_REASON_RAW_CALLS;
	} else if (!seg && !other) {
		row->reason = OSF_REASON_NO_PEER;
	}
}

/* Why does @row stay on the kernel?  If the library could only say that nobody has
 * answered, the peer's process tells more. */
static void judge(const struct looking *lk, const struct place *own,
		  const struct place *p, struct seg_sock *row,
		  const struct diag_sock *d)
{
	const struct diag_sock *mine = diag_by_ino(&own->diag, row->ino);
	size_t n = 0;
	const struct link *at = links_of(&lk->links, d->ino, &n);

	if (d->ino && at)
		row->peer_pid = at->pid;
	if (p != own) {
		row->reason = OSF_REASON_OTHER_NETNS;
		if (row->peer_pid)
			program_of(row->peer_pid, row->peer_program);
	} else if (row->peer_pid) {
		judge_process(lk, row, d);
	}
	bool may_be_ours = !row->peer_pid || seg_of(lk, row->peer_pid);
	bool is_unanswered = row->reason == OSF_REASON_NO_PEER ||
			     row->reason == OSF_REASON_NO_PROPOSAL;
	if (p == own && mine && mine->uid && d->uid && mine->uid != d->uid &&
	    may_be_ours && is_unanswered)
		row->reason = OSF_REASON_OTHER_UID;
}

static bool is_open_question(const struct seg_sock *row)
{
	return !row->s.listening && row->s.proto == OSF_PROTO_INET &&
	       (row->reason == OSF_REASON_NO_PEER ||
		row->reason == OSF_REASON_NO_PROPOSAL ||
		row->reason == OSF_REASON_PEER_KERNEL ||
		row->reason == OSF_REASON_PEER_BACK ||
		row->reason == OSF_REASON_OTHER_NETNS ||
		row->reason == OSF_REASON_REMOTE);
}

/* Every namespace has a loopback of its own, which leads to nobody else's. */
static bool is_loopback(const struct osf_stats_sock *s)
{
	struct diag_end local, peer;

	ends_of(s, &local, &peer);
	return (!memcmp(local.addr, (uint8_t[12]){ [10] = 0xff, [11] = 0xff },
			12) &&
		local.addr[12] == 127) ||
	       IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)local.addr);
}

static void find_peer(struct looking *lk, const struct place *own,
		      struct seg_sock *row)
{
	const struct diag_sock *d = other_end(own, &row->s);

	if (d) {
		judge(lk, own, own, row, d);
		return;
	}
	for (size_t i = 0; i < lk->n_places && !is_loopback(&row->s); i++) {
		const struct place *p = lk->places[i];

		d = p == own ? NULL : other_end(p, &row->s);
		if (!d)
			continue;
		judge(lk, own, p, row, d);
		return;
	}
}

/* The namespaces of processes that have no segment may hold peers too. */
static void read_all_places(struct looking *lk)
{
	for (size_t i = 0; i < lk->links.n_netns; i++)
		(void)place_of(lk, lk->links.netns[i].ino,
			       lk->links.netns[i].pid);
}

static void find_peers(struct looking *lk, struct seg *seg)
{
	uint64_t netns = seg->found_pid ? netns_of(seg->found_pid) : 0;

	for (size_t i = 0; i < seg->n_socks; i++) {
		if (!netns || !is_open_question(&seg->socks[i]))
			continue;
		read_all_places(lk);
		read_all(lk);
		find_peer(lk, place_of(lk, netns, seg->found_pid),
			  &seg->socks[i]);
	}
}

void seg_look(struct seg_list *l)
{
	struct looking lk = { 0 };

	if (!l->n)
		return;
	links_read(&lk.links);
	for (size_t i = 0; i < l->n; i++)
		look_at_seg(&lk, &l->segs[i]);
	for (size_t i = 0; i < l->n; i++)
		find_peers(&lk, &l->segs[i]);
	for (size_t i = 0; i < lk.n_places; i++) {
		diag_free(&lk.places[i]->diag);
		free(lk.places[i]);
	}
	free(lk.places);
	free(lk.seen);
	seg_list_free(&lk.all);
	links_free(&lk.links);
}
