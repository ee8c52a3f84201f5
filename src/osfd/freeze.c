/* SPDX-License-Identifier: MIT */
/*
 * osfd/freeze.c - stops the kernel's socket, and reads its numbers
 *
 * TCP_REPAIR alone stops nothing: the kernel would still acknowledge bytes, take a FIN,
 * retransmit, and send keepalives.  The steps of freeze(), in this order:
 *
 *   1  check that the connection can move and is quiet; send an ACK that was delayed
 *   2  the port gets copies of the connection's frames, so that none is lost at the change
 *   3  a filter drops all that arrives; keepalives stop
 *   4  the port alone gets its frames
 *   5  TCP_REPAIR: the kernel sends nothing more
 *   6  if it is still quiet, read its numbers; otherwise undo all
 */
#include "osfd/freeze.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "osfd/beyond.h"
#include "osfd/sockopt.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#define ESTABLISHED 1

/* Whether a socket is TCP, and of osfd's namespace. */
static int check_place(int fd, struct refusal *why)
{
	uint64_t theirs = 0, ours = 0;
	socklen_t len = sizeof(theirs);

	if (opt_get(fd, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_TCP) {
		refuse(why, "not a TCP socket");
		return -EOPNOTSUPP;
	}
	int own = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = own < 0 ||
		  getsockopt(own, SOL_SOCKET, SO_NETNS_COOKIE, &ours, &len) < 0;
	if (own >= 0)
		close(own);
	if (err || getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &theirs, &len) ||
	    ours != theirs) {
		refuse(why, "of another network namespace");
		return -EOPNOTSUPP;
	}
	return 0;
}

/* Whether no filter and no protocol above TCP stands between a socket and us. */
static int check_plain(int fd, struct refusal *why)
{
	socklen_t len = 0;
	char ulp[16];

	if (getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &len) < 0 || len ||
	    opt_get(fd, SOL_SOCKET, SO_LOCK_FILTER) != 0) {
		refuse(why, "has a socket filter");
		return -EOPNOTSUPP;
	}
	len = sizeof(ulp);
	if (getsockopt(fd, SOL_TCP, TCP_ULP, ulp, &len) < 0 || len) {
		refuse(why, "has a protocol above TCP");
		return -EOPNOTSUPP;
	}
	if (opt_get(fd, SOL_TCP, TCP_REPAIR) != 0) {
		refuse(why, "is under repair already");
		return -EOPNOTSUPP;
	}
	return 0;
}

int connection_of(int fd, struct connection *out, struct refusal *why)
{
	struct connection c = { 0 };
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (getsockopt(fd, SOL_TCP, TCP_INFO, &info, &len) < 0 ||
	    info.tcpi_state != ESTABLISHED) {
		refuse(why, "not established");
		return -ENOTCONN;
	}
	c.len = sizeof(c.local);
	if (getsockname(fd, (struct sockaddr *)&c.local, &c.len) < 0)
		return -errno;
	c.len = sizeof(c.peer);
	if (getpeername(fd, (struct sockaddr *)&c.peer, &c.len) < 0)
		return -errno;
	int err = steer_key_of(&c.local, &c.peer, &c.key);
	if (!err)
		*out = c;
	return err;
}

/* Whether the kernel has no byte of the connection that is unread, queued or not
 * acknowledged. */
static int check_quiet(int fd, struct refusal *why)
{
	uint32_t mem[SK_MEMINFO_VARS];
	socklen_t len = sizeof(mem);

	if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, mem, &len) < 0)
		return -errno;
	if (!mem[SK_MEMINFO_RMEM_ALLOC] && !mem[SK_MEMINFO_WMEM_QUEUED] &&
	    !mem[SK_MEMINFO_BACKLOG])
		return 0;
	refuse(why, "not quiet: %u bytes received, %u sent, %u waiting",
	       mem[SK_MEMINFO_RMEM_ALLOC], mem[SK_MEMINFO_WMEM_QUEUED],
	       mem[SK_MEMINFO_BACKLOG]);
	return -EAGAIN;
}

static int drop_all(int fd)
{
	struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog prog = { .len = 1, .filter = &none };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog,
			  sizeof(prog)) < 0
		   ? -errno
		   : 0;
}

/* Reads what a disconnect and TCP_REPAIR will change. */
static int read_flags(int fd, struct frozen *f)
{
	socklen_t len = sizeof(f->ca_name);

	if (opt_get(fd, SOL_SOCKET, SO_REUSEADDR) > 0)
		f->flags |= FROZEN_REUSEADDR;
	if (opt_get(fd, SOL_SOCKET, SO_REUSEPORT) > 0)
		f->flags |= FROZEN_REUSEPORT;
	if (opt_get(fd, SOL_SOCKET, SO_KEEPALIVE) > 0)
		f->flags |= FROZEN_KEEPALIVE;
	f->window_clamp = (uint32_t)opt_get(fd, SOL_TCP, TCP_WINDOW_CLAMP);
	if (getsockopt(fd, SOL_TCP, TCP_CONGESTION, f->ca_name, &len) < 0)
		return -errno;
	f->ca_name[FROZEN_CA_MAX - 1] = '\0';
	return 0;
}

static int read_seq(int fd, int queue, uint32_t *seq)
{
	socklen_t len = sizeof(*seq);
	int err = opt_set(fd, SOL_TCP, TCP_REPAIR_QUEUE, queue);

	if (err)
		return err;
	return getsockopt(fd, SOL_TCP, TCP_QUEUE_SEQ, seq, &len) < 0 ? -errno
								     : 0;
}

static int read_window(int fd, struct frozen *f)
{
	struct tcp_repair_window w;
	socklen_t len = sizeof(w);

	if (getsockopt(fd, SOL_TCP, TCP_REPAIR_WINDOW, &w, &len) < 0)
		return -errno;
	f->snd_wl1 = w.snd_wl1;
	f->snd_wnd = w.snd_wnd;
	f->max_window = w.max_window;
	f->rcv_wnd = w.rcv_wnd;
	f->rcv_wup = w.rcv_wup;
	return 0;
}

static int read_info(int fd, struct frozen *f)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (getsockopt(fd, SOL_TCP, TCP_INFO, &info, &len) < 0)
		return -errno;
	if (info.tcpi_state != ESTABLISHED)
		return -ENOTCONN;
	f->options =
	    (info.tcpi_options & TCPI_OPT_TIMESTAMPS ? FROZEN_TIMESTAMPS : 0) |
	    (info.tcpi_options & TCPI_OPT_SACK ? FROZEN_SACK : 0) |
	    (info.tcpi_options & TCPI_OPT_WSCALE ? FROZEN_WSCALE : 0) |
	    (info.tcpi_options & TCPI_OPT_ECN ? FROZEN_ECN : 0);
	f->snd_wscale = info.tcpi_snd_wscale;
	f->rcv_wscale = info.tcpi_rcv_wscale;
	f->snd_mss = info.tcpi_snd_mss;
	f->pmtu = info.tcpi_pmtu;
	f->cwnd = info.tcpi_snd_cwnd;
	f->ssthresh = info.tcpi_snd_ssthresh;
	f->srtt_us = info.tcpi_rtt;
	f->rttvar_us = info.tcpi_rttvar;
	f->min_rtt_us = info.tcpi_min_rtt;
	return 0;
}

/* Step 6.  With TCP_REPAIR on, TCP_MAXSEG is what the peer's SYN allowed. */
static int read_state(int fd, struct frozen *f, struct refusal *why)
{
	int err = read_info(fd, f);

	if (!err)
		err = read_seq(fd, TCP_SEND_QUEUE, &f->snd_nxt);
	if (!err)
		err = read_seq(fd, TCP_RECV_QUEUE, &f->rcv_nxt);
	if (!err)
		err = opt_set(fd, SOL_TCP, TCP_REPAIR_QUEUE, TCP_NO_QUEUE);
	if (!err)
		err = read_window(fd, f);
	if (err)
		return err;
	f->timestamp = (uint32_t)opt_get(fd, SOL_TCP, TCP_TIMESTAMP);
	if (!(f->timestamp & 1))
		f->timestamp +=
		    2; /* the kernel has cleared the clock's bit 0 */
	f->mss_clamp = (uint32_t)opt_get(fd, SOL_TCP, TCP_MAXSEG);
	if (f->rcv_wup == f->rcv_nxt)
		return 0;
	refuse(why, "not quiet: an ACK is owed");
	return -EAGAIN;
}

/* The end of TCP_REPAIR sends a probe each time, whether it was on or not. */
void probe_peer(int fd) { opt_set(fd, SOL_TCP, TCP_REPAIR, TCP_REPAIR_OFF); }

/* Undoes freeze() after any of its steps.  Segments that have arrived meanwhile are lost.
 * The peer sends bytes again by itself; a probe makes it repeat a reset. */
static void undo(struct grant *g, int fd, const struct connection *c,
		 const struct frozen *f)
{
	opt_set(fd, SOL_TCP, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
	opt_set(fd, SOL_SOCKET, SO_KEEPALIVE, !!(f->flags & FROZEN_KEEPALIVE));
	grant_unsteer(g, &c->key);
	opt_set(fd, SOL_SOCKET, SO_DETACH_FILTER, 0);
	probe_peer(fd);
	opt_set(fd, SOL_SOCKET, SO_REUSEADDR, !!(f->flags & FROZEN_REUSEADDR));
}

/* In the map of flows 0 means an unknown number.  An older number serves as well. */
static uint32_t known(uint32_t snd_nxt)
{
	return snd_nxt ? snd_nxt : UINT32_MAX;
}

/* Steps 2 to 6. */
static int stop(struct grant *g, int fd, const struct connection *c,
		struct frozen *f, struct refusal *why)
{
	int err = grant_steer(g, &c->key, STEER_COPY, 0);

	if (err)
		return err;
	err = drop_all(fd);
	if (!err)
		err = opt_set(fd, SOL_SOCKET, SO_KEEPALIVE, 0);
	if (!err)
		err = grant_steer(g, &c->key, STEER_OURS, 0);
	if (!err)
		err = opt_set(fd, SOL_TCP, TCP_REPAIR, TCP_REPAIR_ON);
	if (!err)
		err = check_quiet(fd, why);
	if (!err)
		err = read_state(fd, f, why);
	if (!err)
		err = grant_steer(g, &c->key, STEER_OURS, known(f->snd_nxt));
	return err;
}

int freeze(struct grant *g, int fd, struct frozen *out, struct refusal *why)
{
	struct connection c;
	struct frozen f = { 0 };

	*why = (struct refusal){ 0 };
	int err = check_place(fd, why);
	if (!err)
		err = check_plain(fd, why);
	if (!err)
		err = connection_of(fd, &c, why);
	if (!err)
		err = beyond_check(fd, &c, why);
	/* Send an ACK that waits now, because nobody would send it later.  The value 2 lets
	 * the kernel go on delaying later ACKs. */
	if (!err)
		err = opt_set(fd, SOL_TCP, TCP_QUICKACK, 2);
	if (!err)
		err = check_quiet(fd, why);
	if (!err)
		err = read_flags(fd, &f);
	if (err)
		return err;
	if (steer_has(&g->steer, &c.key))
		return -EEXIST;
	err = stop(g, fd, &c, &f, why);
	if (err) {
		undo(g, fd, &c, &f);
		if (!why->text[0])
			refuse(why, "cannot be frozen: %s", strerror(-err));
		return err;
	}
	*out = f;
	return 0;
}

int freeze_undo(struct grant *g, int fd, struct refusal *why)
{
	struct connection c;
	int err = check_place(fd, why);

	if (err)
		return err;
	if (connection_of(fd, &c, why) == 0)
		grant_unsteer(g, &c.key);
	opt_set(fd, SOL_SOCKET, SO_DETACH_FILTER, 0);
	probe_peer(fd);
	return 0;
}

int adopt(struct grant *g, int fd, uint32_t snd_nxt, struct refusal *why)
{
	struct connection c;

	int err = check_place(fd, why);
	if (!err)
		err = connection_of(fd, &c, why);
	if (!err && opt_get(fd, SOL_TCP, TCP_REPAIR) != 1) {
		refuse(why, "not frozen");
		err = -ENOTCONN;
	}
	return err ? err : grant_steer(g, &c.key, STEER_OURS, known(snd_nxt));
}
