/* SPDX-License-Identifier: MIT */
/*
 * file/relay.c - see file/relay.h
 *
 * The relay is a grandchild made by clone().  It runs no code of libc or of the
 * program: no handlers, no atfork functions, only system calls.  Its parent
 * ends at once, so the program can neither wait for the relay nor learn of its
 * end.
 *
 * A relay that waits for another holder of the connection (relay_start_late()) runs a
 * protocol's code first.  That code waits for no lock that another thread of the program may
 * have had when the relay was made, and takes no memory from malloc().
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/kept.h"
#include "base/libc.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "base/rawcall.h"
#include "file/copy_options.h"
#include "file/relay.h"
#include "file/unmap.h"
#include "sock/shared.h"
#include "sock/sock_ops.h"

#define BUF_BYTES (64u * 1024)
/* Strangers may connect before we do, and our connect() waits where the queue is full. */
#define BACKLOG 4096
#define GATE_TICK_NS (5 * NS_PER_MS)
#define BELLS_NS (60 * NS_PER_S) /* for doorbells behind both ends */

/* Code that runs in the relay process: system calls only. */

struct way {
	int from, to;
	uint8_t *buf;
	size_t cap;
	const uint8_t *at; /* what is still to be written */
	size_t n;
	const struct stash
	    *stash;           /* the part behind n_first comes later; or NULL */
	uint64_t n_gap;       /* to be moved before that part */
	uint64_t n_skip;      /* to be thrown away behind it */
	const uint32_t *rung; /* as many more, sock/stash.h; or NULL */
	uint32_t n_drained;
	const struct stash *gate; /* it has a gate that is closed; or NULL */
	int writer;               /* sock/stash.h; -1: nobody is writing */
	bool is_urgent;           /* the one byte at @at */
	bool has_end;             /* nothing more of the stream comes */
	bool done;                /* and @to has been told so */
};

/* The process that starts a relay, as the relay and it itself know it.  The program waits
 * for its end.  The last of the two to end closes files whose close() may block, so the
 * relay ends after its starter. */
static long starter;

static void relay_exit(void)
{
	const struct timespec ms = { .tv_nsec = NS_PER_MS };

	while (rawcall(SYS_getppid) == starter)
		rawcall(SYS_nanosleep, &ms, NULL);
	for (;;)
		rawcall(SYS_exit_group, 0);
}

/* One end was reset: reset the other. */
static void relay_reset(const struct way *w)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	rawcall(SYS_setsockopt, w->from, SOL_SOCKET, SO_LINGER, &now,
		sizeof(now));
	rawcall(SYS_setsockopt, w->to, SOL_SOCKET, SO_LINGER, &now,
		sizeof(now));
	relay_exit();
}

/* The gap is filled: what was put aside is next. */
static void way_take_stash(struct way *w)
{
	w->at = w->stash->data + w->stash->n_first;
	w->n = w->stash->n - w->stash->n_first;
	w->n_skip = w->stash->n_skip;
	w->rung = w->stash->rung;
	w->n_drained = w->stash->n_drained;
	w->has_end = w->stash->has_end;
	w->stash = NULL;
}

/* Read at most what comes before the next change of source. */
static size_t way_most(const struct way *w)
{
	uint64_t n = w->stash ? w->n_gap : w->n_skip ? w->n_skip : w->cap;

	return n < w->cap ? (size_t)n : w->cap;
}

static void way_got(struct way *w, size_t n)
{
	if (!w->stash && w->n_skip) {
		w->n_skip -= n;
		return;
	}
	if (w->has_end)
		return;
	w->at = w->buf;
	w->n = n;
	w->n_gap -= w->stash ? n : 0;
}

/* How many of the bytes that have come are doorbells?  False: none have come. */
static bool way_knows_bells(struct way *w)
{
	int has = 0;

	rawcall(SYS_ioctl, w->from, FIONREAD, &has);
	if (has <= 0)
		return false;
	fence_full(); /* first the bytes, then their number */
	uint32_t due = load_acq(w->rung) - w->n_drained;
	w->n_skip = MIN(due, (uint32_t)has);
	w->n_drained += (uint32_t)w->n_skip;
	if (!due)
		w->rung = NULL;
	return true;
}

/* The stream stops at an urgent byte, which one call reads apart.  After that the kernel skips
 * it.  False: no such byte is next. */
static bool way_read_urgent(struct way *w)
{
	int is_next = 0;

	if (w->stash || w->n_skip || w->has_end)
		return false;
	rawcall(SYS_ioctl, w->from, SIOCATMARK, &is_next);
	if (!is_next || rawcall(SYS_recvfrom, w->from, w->buf, 1,
				MSG_OOB | MSG_DONTWAIT) != 1)
		return false;
	w->rung = NULL; /* doorbells are not urgent */
	w->at = w->buf;
	w->n = 1;
	w->is_urgent = true;
	return true;
}

static void way_read(struct way *w)
{
	if (way_read_urgent(w))
		return;
	bool is_look =
	    w->rung && !w->stash && !w->n_skip && !way_knows_bells(w);
	long r = rawcall(SYS_recvfrom, w->from, w->buf, way_most(w),
			 MSG_DONTWAIT | (is_look ? MSG_PEEK : 0));

	if (r > 0) {
		if (!is_look) /* else they have come meanwhile */
			way_got(w, (size_t)r);
	} else if (!r && !w->stash) {
		w->has_end = true;
		w->n_skip = 0;
		w->rung = NULL;
	} else if (!r || (r != -EAGAIN && r != -EINTR)) {
		relay_reset(w); /* or it ended inside the gap */
	}
}

static void way_write(struct way *w)
{
	long r =
	    rawcall(SYS_sendto, w->to, w->at, w->n,
		    MSG_DONTWAIT | MSG_NOSIGNAL | (w->is_urgent ? MSG_OOB : 0));

	if (r > 0) {
		w->is_urgent = false;
		w->at += r;
		w->n -= (size_t)r;
	} else if (r != -EAGAIN && r != -EINTR) {
		relay_reset(w);
	}
}

/* Has a process written to @from what stands in the stash, too?  If it has died, nobody knows
 * what comes next. */
static void way_hear(struct way *w, const struct stash *st)
{
	int32_t did = 0;
	long r = rawcall(SYS_recvfrom, w->writer, &did, sizeof(did),
			 MSG_DONTWAIT, NULL, NULL);

	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r != sizeof(did))
		relay_reset(w);
	w->n_skip += did > 0 ? (uint64_t)did : 0;
	fetch_or(st->told, st->told_bit);
	fence_full();
	if (load_acq(st->ended) & st->ended_bit)
		w->has_end = true;
	rawcall(SYS_close, w->writer);
	w->writer = -1;
}

/* May more be read?  Behind the end of the stream it is thrown away: a close() with unread bytes
 * would reset the connection. */
static bool way_wants(const struct way *w)
{
	return !w->gate && !w->n && w->writer < 0 &&
	       (!w->has_end || w->n_skip || w->rung);
}

static void way_step(struct way *w)
{
	if (w->gate && load_acq(w->gate->gate) & w->gate->gate_bit)
		w->gate = NULL;
	if (w->gate)
		return;
	if (!w->n && w->stash && !w->n_gap)
		way_take_stash(w);
	if (way_wants(w))
		way_read(w);
	if (w->n)
		way_write(w);
	if (w->has_end && !w->n && !w->done) {
		w->done = true;
		rawcall(SYS_shutdown, w->to, SHUT_WR);
	}
}

/* The other end's process may have died before it could open the gate.  Its FIN alone does not
 * say so, because it may only have shut its direction down.  The kernel answers for a socket
 * without a process for a minute, and then resets the connection. */
struct probe {
	bool is_on;
	int keepalive, idle_s; /* what they were before */
};

static void set_option(int fd, int level, int name, int value)
{
	rawcall(SYS_setsockopt, fd, level, name, &value, sizeof(value));
}

static void set_keepalive(int fd, int on, int idle_s)
{
	set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
	set_option(fd, SOL_SOCKET, SO_KEEPALIVE, on);
}

static int int_option(int fd, int level, int name)
{
	int v = 0;
	socklen_t len = sizeof(v);

	rawcall(SYS_getsockopt, fd, level, name, &v, &len);
	return v;
}

static void probe_set(struct probe *p, int fd, bool on)
{
	if (p->is_on == on)
		return;
	p->is_on = on;
	if (on) {
		p->keepalive = int_option(fd, SOL_SOCKET, SO_KEEPALIVE);
		p->idle_s = int_option(fd, IPPROTO_TCP, TCP_KEEPIDLE);
		set_keepalive(fd, 1, 1);
	} else {
		set_keepalive(fd, p->keepalive, p->idle_s);
	}
}

/* What either direction waits for at @fd. */
static short wanted(const struct way *in, const struct way *out)
{
	return (short)((way_wants(in) ? POLLIN | POLLPRI : 0) |
		       (out->n ? POLLOUT : 0));
}

/* The new socket has the program's options.  On the anchor they would hold bytes back, make an
 * urgent byte one of many, or reset the connection when the relay ends. */
static void make_plain(int anchor)
{
	struct linger none = { 0 };

	set_option(anchor, SOL_SOCKET, SO_RCVLOWAT, 1);
	set_option(anchor, SOL_SOCKET, SO_OOBINLINE, 0);
	set_option(anchor, IPPROTO_TCP, TCP_CORK, 0);
	set_option(anchor, IPPROTO_TCP, TCP_NODELAY, 1);
	rawcall(SYS_setsockopt, anchor, SOL_SOCKET, SO_LINGER, &none,
		sizeof(none));
}

/* Both directions have ended.  Doorbells that are to be thrown away may still come, if the peer
 * has not taken them back.  The kernel waits for the peer's FIN as long (tcp_fin_timeout), and
 * after that answers by a reset, too. */
static bool relay_is_over(struct way *down, const struct way *up,
			  uint32_t n_ticks)
{
	if (!down->done || !up->done || down->writer >= 0)
		return false;
	if (down->rung && load_acq(down->rung) == down->n_drained)
		down->rung = NULL;
	return (!down->n_skip && !down->rung) ||
	       n_ticks > BELLS_NS / GATE_TICK_NS;
}

static void relay_run(int anchor, int inner, const struct stash *stash,
		      uint8_t *bufs)
{
	struct way down = { .from = anchor,
			    .to = inner,
			    .buf = bufs,
			    .cap = BUF_BYTES,
			    .at = stash->data,
			    .n = stash->n_first,
			    .stash = stash,
			    .n_gap = stash->n_gap,
			    .writer = stash->writer1 - 1 };
	struct way up = { .from = inner,
			  .to = anchor,
			  .buf = bufs + BUF_BYTES,
			  .cap = BUF_BYTES,
			  .gate = stash->gate ? stash : NULL,
			  .writer = -1 };
	struct probe probe = { 0 };
	uint32_t n_ticks = 0;

	make_plain(anchor);
	while (!relay_is_over(&down, &up, n_ticks)) {
		struct timespec tick = ns_timespec(GATE_TICK_NS);

		if (down.writer >= 0 && !down.stash)
			way_hear(&down, stash);
		way_step(&down);
		way_step(&up);
		probe_set(&probe, anchor, up.gate && down.has_end);
		if (probe.is_on && int_option(anchor, SOL_SOCKET, SO_ERROR))
			relay_reset(&up);
		/* Do not poll an idle end: its POLLHUP would spin. */
		bool waits = down.done && up.done;
		short a = wanted(&down, &up), i = wanted(&up, &down);
		int writer = down.stash ? -1 : down.writer;
		struct pollfd p[] = { { .fd = a ? anchor : -1, .events = a },
				      { .fd = i ? inner : -1, .events = i },
				      { .fd = writer, .events = POLLIN } };
		if ((a || i || writer >= 0 || up.gate) &&
		    !(down.stash && !down.n && !down.n_gap) &&
		    !rawcall(SYS_ppoll, p, 3, up.gate || waits ? &tick : NULL,
			     NULL, 0))
			n_ticks += waits;
	}
	relay_exit();
}

/* What a relay is made for. */
struct job {
	int anchor, inner;
	uint8_t *bufs;
	struct stash stash;
	/* Another process keeps a half: fall back for @why when it is free.  Or NULL. */
	struct sock *sk;
	enum osf_reason why;
};

/* The program's bytes wait in the new connection meanwhile, and the peer's in the ring. */
static void relay_waits(struct job *job)
{
	shared_in_relay(job->sk);
	int r = sock_ops(job->sk)->fallback_late(job->sk, job->anchor, job->why,
						 &job->stash);
	sock_let_go(job->sk, 1);
	if (r < 0)
		relay_reset(
		    &(struct way){ .from = job->anchor, .to = job->inner });
}

static void relay_main(struct job *job)
{
	rawcall(SYS_setsid);
	rawcall(SYS_chdir, "/");
	rawcall(SYS_prctl, PR_SET_NAME, "osf-relay");
	log_end();
	kept_close_others(job->anchor, job->inner, job->stash.writer1 - 1);
	unmap_objects((char *)job->bufs, BUF_BYTES);
	if (job->sk)
		relay_waits(job);
	relay_run(job->anchor, job->inner, &job->stash, job->bufs);
}

/* Code that runs in the program. */

static int listen_loopback(int family, struct sockaddr_storage *at,
			   socklen_t *len)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in v4 = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const void *addr = family == AF_INET6 ? (void *)&v6 : (void *)&v4;

	int fd = libc.socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	*len = family == AF_INET6 ? sizeof(v6) : sizeof(v4);
	if (fd < 0)
		return -errno;
	if (libc.bind(fd, addr, *len) || libc.listen(fd, BACKLOG) ||
	    getsockname(fd, (struct sockaddr *)at, len)) {
		int err = -errno;

		nocancel_close(fd);
		return err;
	}
	return fd;
}

/* Accepts the connection from @mine and drops those of strangers. */
static int accept_mine(int listener, const struct sockaddr_storage *mine,
		       socklen_t mine_len)
{
	for (;;) {
		struct sockaddr_storage from = { 0 };
		socklen_t len = sizeof(from);
		int fd = nocancel_accept4(listener, (struct sockaddr *)&from,
					  &len, SOCK_CLOEXEC);

		if (fd < 0)
			return -errno;
		if (len == mine_len && !memcmp(&from, mine, len))
			return fd;
		nocancel_close(fd);
	}
}

/* Two ends of one loopback connection: [0] for the program, [1] for the relay. */
static int loopback_pair(int family, int pair[2])
{
	struct sockaddr_storage at = { 0 }, mine = { 0 };
	socklen_t len, mine_len = sizeof(mine);
	int one = 1, listener = listen_loopback(family, &at, &len);

	if (listener < 0)
		return listener;
	int out = libc.socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int in = -1, err = 0;
	if (out < 0 || nocancel_connect(out, (struct sockaddr *)&at, len) ||
	    getsockname(out, (struct sockaddr *)&mine, &mine_len))
		err = -errno;
	if (!err && (in = accept_mine(listener, &mine, mine_len)) < 0)
		err = in;
	nocancel_close(listener);
	if (err) {
		if (out >= 0)
			nocancel_close(out);
		return err;
	}
	libc.setsockopt(in, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	pair[0] = out;
	pair[1] = in;
	return 0;
}

static int family_of(int fd)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof(ss);

	getsockname(fd, (struct sockaddr *)&ss, &len);
	return ss.ss_family == AF_INET6 ? AF_INET6 : AF_INET;
}

static int detach(struct job *job)
{
	int status;

	long pid = rawcall(SYS_clone, 0, 0, 0, 0, 0);
	if (!pid) {
		starter = rawcall(SYS_getpid);
		/* The program waits for our end, which must not close such files. */
		if (!rawcall(SYS_clone, kept_count() ? CLONE_FILES : 0, 0, 0, 0,
			     0))
			relay_main(job);
		relay_exit();
	}
	if (pid > 0)
		while (rawcall(SYS_wait4, pid, &status, __WALL, NULL) == -EINTR)
			;
	return pid < 0 ? (int)pid : 0;
}

/* The next reader must find the bytes in the new socket, as it did in the old
 * one.  So send at once what has room and does not stand behind a gap.  The
 * rest is left for the relay. */
static struct stash send_first(int to, const struct stash *stash)
{
	struct stash rest = *stash;
	size_t now = stash->n_gap ? stash->n_first : stash->n;

	while (now) {
		ssize_t r = nocancel_send(to, rest.data, now,
					  MSG_DONTWAIT | MSG_NOSIGNAL);
		if (r <= 0)
			break;
		rest.data += r;
		rest.n -= (size_t)r;
		rest.n_first -= MIN((size_t)r, rest.n_first);
		now -= (size_t)r;
	}
	return rest;
}

/* The new descriptor. */
static int start(struct job *job)
{
	int pair[2];
	int err = loopback_pair(family_of(job->anchor), pair);

	if (err)
		return err;
	copy_options(job->anchor, pair[0]);
	if (job->stash.is_shut)
		libc.shutdown(pair[0], SHUT_WR);
	job->inner = pair[1];
	job->bufs = mmap(NULL, 2 * BUF_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	job->stash = send_first(pair[1], &job->stash);
	err = job->bufs == MAP_FAILED ? -ENOMEM : detach(job);
	if (job->bufs != MAP_FAILED)
		munmap(job->bufs, 2 * BUF_BYTES);
	nocancel_close(pair[1]);
	if (!err)
		return pair[0];
	nocancel_close(pair[0]);
	return err;
}

/* A signal of the program must not interrupt our connect(), nor run the
 * program's handlers in the relay. */
static int start_undisturbed(struct job *job)
{
	uint64_t all = ~UINT64_C(0), before = 0;

	rawcall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
	int r = start(job);
	rawcall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(all));
	return r;
}

int relay_start(int anchor, const struct stash *stash)
{
	struct job job = { .anchor = anchor, .stash = *stash };

	return start_undisturbed(&job);
}

int relay_start_late(int anchor, struct sock *sk, enum osf_reason why)
{
	struct job job = { .anchor = anchor, .sk = sk, .why = why };

	return start_undisturbed(&job);
}
