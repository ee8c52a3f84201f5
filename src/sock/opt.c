/* SPDX-License-Identifier: MIT */
/* sock/opt.c - see sock/opt.h */
#include <errno.h>
#include <linux/net_tstamp.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/libc.h"
#include "base/sockopt.h"
#include "base/unwind.h"
#include "sock/errq.h"
#include "sock/opt.h"
#include "sock/shared.h"
#include "sock/sock_ops.h"

#ifndef TCP_AO_ADD_KEY
#define TCP_AO_ADD_KEY 38
#endif
#ifndef SO_TIMESTAMP_NEW
#define SO_TIMESTAMP_NEW 63
#define SO_TIMESTAMPNS_NEW 64
#define SO_TIMESTAMPING_NEW 65
#endif
#ifndef SO_RCVTIMEO_NEW
#define SO_RCVTIMEO_NEW 66
#define SO_SNDTIMEO_NEW 67
#endif

/* SO_TIMESTAMPING flags that put send times into the error queue.  The last is
 * SOF_TIMESTAMPING_TX_COMPLETION, which some headers lack. */
#define TIMES_SENT                                                             \
	(SOF_TIMESTAMPING_TX_RECORD_MASK | SOF_TIMESTAMPING_TX_ACK | 1u << 18)

static const struct opt opts[] = {
#define O(level, name, whose, why)                                             \
	{ level, name, OPT_##whose, OSF_REASON_##why },
#include "sock/opts.def"
#undef O
};

/* A bit for each name of the level, modulo 64: most options are in no list. */
static uint64_t names_of(int of_level)
{
	return 0
#define O(level, name, whose, why)                                             \
	| (uint64_t)(of_level == (level)) << ((name) % 64)
#include "sock/opts.def"
#undef O
	    ;
}

const struct opt *opt_find(int level, int name)
{
	uint64_t names = level == SOL_SOCKET    ? names_of(SOL_SOCKET)
			 : level == IPPROTO_TCP ? names_of(IPPROTO_TCP)
						: 0;

	if (!(names >> (name & 63) & 1))
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(opts); i++)
		if (opts[i].name == name && opts[i].level == level)
			return &opts[i];
	return NULL;
}

static bool is(const struct opt *o, int level, int name)
{
	return o->level == level && o->name == name;
}

bool opt_leaves(const struct opt *o, const void *val, socklen_t len)
{
	uint32_t v = 0;

	if (!o || (o->whose != OPT_TIMES && o->whose != OPT_KERNEL))
		return false;
	if (!is_bad_ptr(val) && len >= sizeof(v))
		memcpy(&v, val, sizeof(v));
	/* Off is how a socket begins.  One that had it on is the kernel's. */
	if (is(o, SOL_SOCKET, SO_OOBINLINE))
		return v;
	if (o->whose == OPT_KERNEL)
		return true;
	return (o->name == SO_TIMESTAMPING || o->name == SO_TIMESTAMPING_NEW) &&
	       v & TIMES_SENT;
}

static int set_anchor(int fd, int level, int name, const void *val,
		      socklen_t len)
{
	return libc.setsockopt(fd, level, name, val, len) < 0 ? -errno : 0;
}

static int anchor_has(int fd, int name)
{
	return sockopt_int(fd, SOL_SOCKET, name);
}

/* Set the option.  True: do not tell the anchor. */
static bool set_ours(struct sock *sk, int fd, const struct opt *o,
		     const void *val, socklen_t len)
{
	int v;

	if (!o || o->whose != OPT_OURS || is_bad_ptr(val) ||
	    (int)len < (int)sizeof(v)) /* the kernel's length has a sign */
		return false;
	memcpy(&v, val, sizeof(v));
	if (o->name == SO_RCVLOWAT && o->level == SOL_SOCKET) {
		/* The kernel limits the value, and makes room for it. */
		libc.setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &v, sizeof(v));
		SOCK_PUT(sk, rcvlowat, anchor_has(fd, SO_RCVLOWAT));
	} else if (o->name == TCP_NODELAY) {
		SOCK_PUT(sk, nodelay, (uint8_t)(v != 0));
	} else {
		SOCK_PUT(sk, cork, (uint8_t)(v != 0));
	}
	return sock_ops(sk)->opt_changed(sk, fd, o->level, o->name);
}

static uint64_t timeval_ns(const void *val)
{
	struct timeval tv;

	memcpy(&tv, val, sizeof(tv));
	return (uint64_t)tv.tv_sec * NS_PER_S +
	       (uint64_t)tv.tv_usec * NS_PER_US;
}

uint64_t opt_timeout_ns(int fd, int name)
{
	struct timeval tv = { 0 };
	socklen_t len = sizeof(tv);

	libc.getsockopt(fd, SOL_SOCKET, name, &tv, &len);
	return timeval_ns(&tv);
}

void opt_read(struct sock *sk, int fd)
{
	struct sock_words *w = sk->w;

	w->nodelay = (uint8_t)sockopt_int(fd, IPPROTO_TCP, TCP_NODELAY);
	w->cork = (uint8_t)sockopt_int(fd, IPPROTO_TCP, TCP_CORK);
	w->inq = (uint8_t)sockopt_int(fd, IPPROTO_TCP, TCP_INQ);
	w->rcvlowat = anchor_has(fd, SO_RCVLOWAT);
	w->rcvtimeo_ns = opt_timeout_ns(fd, SO_RCVTIMEO);
	w->sndtimeo_ns = opt_timeout_ns(fd, SO_SNDTIMEO);
}

/* The anchor has accepted the option, and the bytes are ours. */
static void set_both(struct sock *sk, int fd, const struct opt *o,
		     const void *val, socklen_t len)
{
	bool is_time = len >= sizeof(struct timeval);

	if (is(o, IPPROTO_TCP, TCP_INQ))
		SOCK_PUT(sk, inq, *(const int *)val != 0);
	else if (is_time && (is(o, SOL_SOCKET, SO_RCVTIMEO) ||
			     is(o, SOL_SOCKET, SO_RCVTIMEO_NEW)))
		SOCK_PUT(sk, rcvtimeo_ns, timeval_ns(val));
	else if (is_time && (is(o, SOL_SOCKET, SO_SNDTIMEO) ||
			     is(o, SOL_SOCKET, SO_SNDTIMEO_NEW)))
		SOCK_PUT(sk, sndtimeo_ns, timeval_ns(val));
	sock_ops(sk)->opt_changed(sk, fd, o->level, o->name);
}

/* Each of these options only reports its own form. */
static void times_changed(struct sock *sk, int fd)
{
	bool on = anchor_has(fd, SO_TIMESTAMP) ||
		  anchor_has(fd, SO_TIMESTAMPNS) ||
		  anchor_has(fd, SO_TIMESTAMP_NEW) ||
		  anchor_has(fd, SO_TIMESTAMPNS_NEW) ||
		  anchor_has(fd, SO_TIMESTAMPING) & SOF_TIMESTAMPING_SOFTWARE;

	SOCK_PUT(sk, times, (uint8_t)on);
}

/* A socket that is not ours, kept in its mode. */
struct held {
	struct unwind u;
	struct sock *sk;
	const struct sock_ops *ops;
};

static void held_end(struct unwind *u)
{
	const struct held *h = (struct held *)u;

	h->ops->leave(h->sk, DIR_NONE, 0);
}

/* An upgrade copies these options, so they must not change during it. */
static int set_held(struct sock *sk, int fd, int level, int name,
		    const void *val, socklen_t len)
{
	UNWIND(struct held, h) = { .sk = sk, .ops = sock_keep_table(sk) };

	if (!h.ops)
		return -ESTALE;
	unwind_push(&h.u, held_end);
	return set_anchor(fd, level, name, val, len);
}

int opt_set(struct sock *sk, int fd, const struct opt *o, int level, int name,
	    const void *val, socklen_t len)
{
	bool leaves = opt_leaves(o, val, len);
	int err = set_held(sk, fd, level, name, val, len);
	bool ours = err == -ESTALE;

	if (ours && sock_ops(sk)->setsockopt) {
		err = sock_ops(sk)->setsockopt(sk, fd, level, name, val, len);
		if (err != -EOPNOTSUPP)
			return err;
	}
	if (ours && set_ours(sk, fd, o, val, len))
		return 0;
	if (ours && leaves && o->whose == OPT_TIMES)
		/* Fall back first, so that the last doorbell gets no time
		 * stamp. */
		sock_ops(sk)->fallback(sk, fd, o->why);
	if (ours)
		err = set_anchor(fd, level, name, val, len);
	if (err || !o)
		return err;
	if (is(o, SOL_SOCKET, SO_ZEROCOPY))
		errq_zerocopy_changed(sk, fd);
	if (o->whose == OPT_TIMES)
		times_changed(sk, fd);
	if (leaves)
		sock_ops(sk)->fallback(sk, fd, o->why);
	else if (ours && o->whose == OPT_BOTH)
		set_both(sk, fd, o, val, len);
	return 0;
}

/* In 32 bits the kernel says what it says of no rate at all. */
static void get_rate(const struct sock *sk, void *val, socklen_t len)
{
	uint64_t shown = load_acq(&sk->rate_shown),
		 was = load_rlx(&sk->rate_was);

	if (shown && len == sizeof(shown) && !memcmp(val, &shown, len))
		memcpy(val, &was, len);
}

/* The same in TCP_INFO, of which the program may want only a part. */
static void get_info_rate(const struct sock *sk, void *val, socklen_t len)
{
	const size_t at = offsetof(struct tcp_info, tcpi_max_pacing_rate);
	uint64_t shown = load_acq(&sk->rate_shown),
		 was = load_rlx(&sk->rate_was);
	size_t n = len > at ? MIN(len - at, sizeof(shown)) : 0;

	if (shown && n && !memcmp((char *)val + at, &shown, n))
		memcpy((char *)val + at, &was, n);
}

void opt_get(struct sock *sk, int fd, int level, int name, void *val,
	     socklen_t len)
{
	const struct sock_ops *ops = sock_ops(sk);
	int v;

	if (level == SOL_SOCKET && name == SO_MAX_PACING_RATE)
		get_rate(sk, val, len);
	if (level == IPPROTO_TCP && name == TCP_INFO)
		get_info_rate(sk, val, len);
	if (!ops->is_ours)
		return;
	if (level == IPPROTO_TCP && name == TCP_INFO) {
		ops->tcp_info(sk, fd, val, len);
		return;
	}
	if (level == IPPROTO_TCP && name == TCP_NODELAY)
		v = load_rlx(&sk->w->nodelay);
	else if (level == IPPROTO_TCP && name == TCP_CORK)
		v = load_rlx(&sk->w->cork);
	else if (level == SOL_SOCKET && name == SO_RCVLOWAT)
		v = load_rlx(&sk->w->rcvlowat);
	else
		return;
	memcpy(val, &v, MIN((size_t)len, sizeof(v)));
}
