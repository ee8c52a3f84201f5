/* SPDX-License-Identifier: MIT */
/*
 * tests/app/stress_io.c - one call that moves bytes, chosen at random
 *
 *     stress_loop.c -> io_rx() -> one of rx_ways[] -> bytes checked
 *                      io_tx() -> pattern filled -> one of tx_ways[]
 *
 * Every way gets @n bytes to move at most and answers as recv() and send() do.
 * A way may wait only on a blocking connection, and then only for bytes that
 * the peer will send without hearing from us first (half.limit).
 *
 * Runs on the thread that owns the half.
 */
#include "stress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pattern.h"

#define PIECES_MAX 8
#define PIPE_BYTES 65536u
#define TMP_RENEW_BYTES (32u << 20)
#define POISON 0xa5

struct way {
	const char *name;
	ssize_t (*move)(struct io *io, struct conn *c, size_t n);
	/* A count below n means that there was no more, so an edge will come. */
	bool short_means_blocked;
	bool hides_bytes; /* received bytes are not in io->buf */
};

uint64_t rng_next(struct rng *r)
{
	r->s += 0x9e3779b97f4a7c15ull;
	return pattern_mix(pattern_mix(r->s));
}

size_t rng_size(struct rng *r, size_t max)
{
	unsigned bits = 0;

	while (max >> (bits + 1))
		bits++;
	size_t top = (size_t)1 << rng_below(r, bits + 1);
	size_t n = top + rng_below(r, top);
	return n < max ? n : max;
}

static int tmp_open(void)
{
	int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		fd = memfd_create("stress", MFD_CLOEXEC);
	if (fd < 0)
		die("no temporary file: %s", strerror(errno));
	return fd;
}

void io_open(struct io *io, uint64_t seed)
{
	io->rng.s = seed;
	io->buf = malloc(MSG_MAX);
	io->peeked = malloc(MSG_MAX);
	io->tmp = tmp_open();
	io->tmp_off = 0;
	if (!io->buf || !io->peeked || pipe2(io->pipe, O_CLOEXEC))
		die("no memory or descriptors: %s", strerror(errno));
}

void io_close(struct io *io)
{
	free(io->buf);
	free(io->peeked);
	close(io->tmp);
	close(io->pipe[0]);
	close(io->pipe[1]);
}

/* Cuts @n bytes at @buf into up to PIECES_MAX pieces, some of them empty. */
static int cut(struct rng *r, uint8_t *buf, size_t n, struct iovec *iov)
{
	int pieces = 1 + (int)rng_below(r, PIECES_MAX);

	for (int i = 0; i < pieces; i++) {
		size_t len = i == pieces - 1 ? n : rng_below(r, n + 1);

		iov[i] = (struct iovec){ buf, len };
		buf += len;
		n -= len;
	}
	return pieces;
}

/* --- receiving --- */

static ssize_t rx_recv(struct io *io, struct conn *c, size_t n)
{
	return recv(c->fd, io->buf, n, 0);
}

static ssize_t rx_read(struct io *io, struct conn *c, size_t n)
{
	return read(c->fd, io->buf, n);
}

static ssize_t rx_recvfrom(struct io *io, struct conn *c, size_t n)
{
	struct sockaddr_in6 from;
	socklen_t len = sizeof(from);

	return recvfrom(c->fd, io->buf, n, 0, (void *)&from, &len);
}

static ssize_t rx_readv(struct io *io, struct conn *c, size_t n)
{
	struct iovec iov[PIECES_MAX];

	return readv(c->fd, iov, cut(&io->rng, io->buf, n, iov));
}

static ssize_t rx_recvmsg(struct io *io, struct conn *c, size_t n)
{
	struct iovec iov[PIECES_MAX];
	char control[128];
	struct msghdr msg = { .msg_iov = iov,
			      .msg_iovlen =
				  (size_t)cut(&io->rng, io->buf, n, iov),
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	ssize_t r = recvmsg(c->fd, &msg, MSG_CMSG_CLOEXEC);

	if (r >= 0 && (msg.msg_controllen || msg.msg_flags & MSG_TRUNC))
		conn_fail(c, "recvmsg: control %zu, flags 0x%x",
			  (size_t)msg.msg_controllen, msg.msg_flags);
	return r;
}

static ssize_t rx_recvmmsg(struct io *io, struct conn *c, size_t n)
{
	struct mmsghdr msg[4] = { 0 };
	struct iovec iov[4];
	size_t each = n / 4 ? n / 4 : 1;

	for (int i = 0; i < 4; i++) {
		iov[i] = (struct iovec){ io->buf + (size_t)i * each, each };
		msg[i].msg_hdr.msg_iov = &iov[i];
		msg[i].msg_hdr.msg_iovlen = 1;
	}
	int got = recvmmsg(c->fd, msg, n < 4 ? 1 : 4, MSG_WAITFORONE, NULL);
	if (got <= 0)
		return got;

	size_t sum = 0;
	for (int i = 0; i < got; i++) {
		memmove(io->buf + sum, iov[i].iov_base, msg[i].msg_len);
		sum += msg[i].msg_len;
	}
	return (ssize_t)sum;
}

static ssize_t rx_peek(struct io *io, struct conn *c, size_t n)
{
	ssize_t r = recv(c->fd, io->peeked, n, MSG_PEEK);

	if (r <= 0)
		return r;
	ssize_t again = recv(c->fd, io->buf, (size_t)r, 0);
	if (again < 0 && errno == EINTR)
		return again;
	if (again != r)
		conn_fail(c, "peeked %zd, then received %zd", r, again);
	if (memcmp(io->peeked, io->buf, (size_t)r))
		conn_fail(c, "peeked other bytes than received");
	return r;
}

static ssize_t rx_dontwait(struct io *io, struct conn *c, size_t n)
{
	return recv(c->fd, io->buf, n, MSG_DONTWAIT);
}

static size_t left(const struct half *h)
{
	uint64_t n = load_rlx(&h->limit) - load_rlx(&h->off);
	return n < MSG_MAX ? (size_t)n : MSG_MAX;
}

static ssize_t rx_waitall(struct io *io, struct conn *c, size_t n)
{
	if (left(&c->rx) && n > left(&c->rx))
		n = left(&c->rx);
	return recv(c->fd, io->buf, n, MSG_WAITALL);
}

static ssize_t rx_discard(struct io *io, struct conn *c, size_t n)
{
	if (n > 4096)
		n = 4096; /* few bytes may go unchecked */
	memset(io->buf, POISON, n);
	ssize_t r = recv(c->fd, io->buf, n, MSG_TRUNC);
	for (ssize_t i = 0; i < r; i++)
		if (io->buf[i] != POISON)
			conn_fail(c, "MSG_TRUNC wrote to the buffer");
	return r;
}

static ssize_t rx_timeo(struct io *io, struct conn *c, size_t n)
{
	struct timeval tv = { .tv_usec =
				  1000 + (int)rng_below(&io->rng, 9000) };
	struct timeval none = { 0 };

	if (setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)))
		conn_fail(c, "SO_RCVTIMEO: %s", strerror(errno));
	ssize_t r = recv(c->fd, io->buf, n, 0);
	int err = errno;
	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
	errno = err;
	return r;
}

/*
 * A socket is readable with SO_RCVLOWAT bytes, or with fewer when the receive window is
 * nearly shut, so this test does not judge the count.  It waits by poll(), because recv()
 * may sleep for ever in Linux: recv() takes the bytes that are there, and later bytes wake
 * it only if they alone reach SO_RCVLOWAT.
 */
static ssize_t rx_lowat(struct io *io, struct conn *c, size_t n)
{
	int one = 1, low = (int)(left(&c->rx) < 1024 ? left(&c->rx) : 1024);
	struct pollfd pfd = { .fd = c->fd, .events = POLLIN };

	if (c->nonblock || !low || c->plan.flags & PLAN_TINY)
		return rx_recv(io, c, n);
	low = 1 + (int)rng_below(&io->rng, (uint64_t)low);
	if ((size_t)low > n)
		n = (size_t)low;
	if (setsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)))
		conn_fail(c, "SO_RCVLOWAT: %s", strerror(errno));
	while (poll(&pfd, 1, -1) < 0)
		if (errno != EINTR)
			conn_fail(c, "poll: %s", strerror(errno));
	ssize_t r = recv(c->fd, io->buf, n, MSG_DONTWAIT);
	int err = errno;
	setsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
	errno = err;
	return r;
}

static ssize_t rx_fionread(struct io *io, struct conn *c, size_t n)
{
	int avail = -1;

	if (ioctl(c->fd, FIONREAD, &avail) || avail < 0)
		conn_fail(c, "FIONREAD: %d, %s", avail, strerror(errno));
	if ((uint64_t)avail > load_rlx(&c->rx.limit) - load_rlx(&c->rx.off))
		conn_fail(c, "FIONREAD: %d, more than was sent", avail);
	ssize_t r = recv(c->fd, io->buf, n, MSG_DONTWAIT);
	if (avail > 0 && r <= 0)
		conn_fail(c, "FIONREAD: %d, then recv %zd", avail, r);
	return r;
}

static ssize_t rx_splice(struct io *io, struct conn *c, size_t n)
{
	ssize_t r = splice(c->fd, NULL, io->pipe[1], NULL,
			   n < PIPE_BYTES ? n : PIPE_BYTES, 0);

	for (ssize_t got = 0; got < r;) {
		ssize_t more =
		    read(io->pipe[0], io->buf + got, (size_t)(r - got));
		if (more <= 0 && errno != EINTR)
			conn_fail(c, "spliced %zd, the pipe had %zd", r, got);
		got += more > 0 ? more : 0;
	}
	return r;
}

static const struct way rx_ways[] = {
	{ "recv", rx_recv, true, false },
	{ "recv", rx_recv, true, false },
	{ "read", rx_read, true, false },
	{ "readv", rx_readv, true, false },
	{ "recvmsg", rx_recvmsg, true, false },
	{ "recvmmsg", rx_recvmmsg, false, false },
	{ "recvfrom", rx_recvfrom, true, false },
	{ "recv MSG_PEEK", rx_peek, false, false },
	{ "recv MSG_DONTWAIT", rx_dontwait, true, false },
	{ "recv MSG_WAITALL", rx_waitall, false, false },
	{ "recv MSG_TRUNC", rx_discard, false, true },
	{ "recv SO_RCVTIMEO", rx_timeo, false, false },
	{ "recv SO_RCVLOWAT", rx_lowat, false, false },
	{ "FIONREAD", rx_fionread, false, false },
	{ "splice out", rx_splice, false, false },
};

/* Is @name in @list, whose members are separated by commas? */
static bool is_listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, n) && (!at[n] || at[n] == ','))
			return true;
	}
	return false;
}

/* Any of @ways, or of those that were asked for: @only is a list of names, or NULL. */
static const struct way *way_choose(struct rng *r, const struct way *ways,
				    size_t n_ways, const char *only)
{
	for (size_t tries = 0; tries < 100 * n_ways; tries++) {
		const struct way *way = &ways[rng_below(r, n_ways)];

		if (!only || is_listed(only, way->name))
			return way;
	}
	die("no call is named %s", only);
}

static void rx_check(struct io *io, struct conn *c, size_t n)
{
	uint64_t off = load_rlx(&c->rx.off), really = UINT64_MAX;
	size_t i = pattern_check(c->rx.key, off, io->buf, n);

	if (i == n)
		return;
	if (n - i >= 8)
		really = pattern_find(c->rx.key, off + i, io->buf + i, 8 << 20);
	conn_fail(c,
		  "wrong byte at offset %llu (%zu of %zu in this call): "
		  "expected 0x%02x, got 0x%02x; the bytes there belong to "
		  "offset %lld",
		  (unsigned long long)(off + i), i, n,
		  pattern_byte(c->rx.key, off + i), io->buf[i],
		  (long long)really);
}

static void rx_ended(struct conn *c, int err)
{
	bool is_early = load_rlx(&c->rx.off) < c->rx.total;

	if (err && (err != ECONNRESET || !conn_may_abort(c)))
		conn_fail(c, "%s: %s", c->rx.call, strerror(err));
	if (!err && is_early && !conn_may_abort(c))
		conn_fail(c, "%s: early end of stream", c->rx.call);
	store_rlx(&c->rx.error, err);
	store_rlx(&c->rx.done, true);
}

bool io_rx(struct io *io, struct conn *c)
{
	const size_t n_ways = sizeof(rx_ways) / sizeof(*rx_ways);
	const struct way *way = way_choose(&io->rng, rx_ways, n_ways, opt.rx);
	size_t n = rng_size(&io->rng, MSG_MAX);

	c->rx.call = way->name;
	errno = 0;
	ssize_t r = way->move(io, c, n);
	int err = errno;

	atomic_fetch_add_explicit(&progress, r >= 0, memory_order_relaxed);
	if (r < 0 && err == EINTR)
		return true;
	if (r < 0 && err == EAGAIN) {
		c->rx.blocked = true;
		return false;
	}
	if (r <= 0) {
		rx_ended(c, r < 0 ? err : 0);
		return true;
	}
	if ((uint64_t)r > load_rlx(&c->rx.limit) - load_rlx(&c->rx.off))
		conn_fail(c, "%s: %zd bytes, more than was sent", way->name, r);
	if (!way->hides_bytes)
		rx_check(io, c, (size_t)r);
	store_rlx(&c->rx.off, load_rlx(&c->rx.off) + (uint64_t)r);
	c->rx.blocked = c->trusts_short && !c->saw_rdhup &&
			way->short_means_blocked && (size_t)r < n;
	return true;
}

/* --- sending --- */

static ssize_t tx_send(struct io *io, struct conn *c, size_t n)
{
	return send(c->fd_tx, io->buf, n, MSG_NOSIGNAL);
}

static ssize_t tx_write(struct io *io, struct conn *c, size_t n)
{
	return write(c->fd_tx, io->buf, n);
}

static ssize_t tx_sendto(struct io *io, struct conn *c, size_t n)
{
	return sendto(c->fd_tx, io->buf, n, 0, NULL, 0);
}

static ssize_t tx_writev(struct io *io, struct conn *c, size_t n)
{
	struct iovec iov[PIECES_MAX];

	return writev(c->fd_tx, iov, cut(&io->rng, io->buf, n, iov));
}

static ssize_t tx_sendmsg(struct io *io, struct conn *c, size_t n)
{
	struct iovec iov[PIECES_MAX];
	struct msghdr msg = { .msg_iov = iov,
			      .msg_iovlen =
				  (size_t)cut(&io->rng, io->buf, n, iov) };

	return sendmsg(c->fd_tx, &msg, 0);
}

/* No empty messages: an error at one would be the kernel's secret. */
static ssize_t tx_sendmmsg(struct io *io, struct conn *c, size_t n)
{
	unsigned pieces = 1 + (unsigned)rng_below(&io->rng, PIECES_MAX);
	struct iovec iov[PIECES_MAX];
	struct mmsghdr msg[PIECES_MAX] = { 0 };

	if (pieces > n)
		pieces = (unsigned)n;
	for (unsigned i = 0; i < pieces; i++) {
		size_t from = n * i / pieces, to = n * (i + 1) / pieces;

		iov[i] = (struct iovec){ io->buf + from, to - from };
		msg[i].msg_hdr.msg_iov = &iov[i];
		msg[i].msg_hdr.msg_iovlen = 1;
	}
	int sent = sendmmsg(c->fd_tx, msg, pieces, MSG_NOSIGNAL);
	if (sent <= 0)
		return sent;

	ssize_t sum = 0;
	for (int i = 0; i < sent; i++)
		sum += msg[i].msg_len;
	return sum;
}

static ssize_t tx_dontwait(struct io *io, struct conn *c, size_t n)
{
	return send(c->fd_tx, io->buf, n, MSG_DONTWAIT);
}

static ssize_t tx_more(struct io *io, struct conn *c, size_t n)
{
	/* The last bytes that may go now must not linger in the kernel. */
	return send(c->fd_tx, io->buf, n, n < left(&c->tx) ? MSG_MORE : 0);
}

static ssize_t tx_timeo(struct io *io, struct conn *c, size_t n)
{
	struct timeval tv = { .tv_usec =
				  1000 + (int)rng_below(&io->rng, 9000) };
	struct timeval none = { 0 };

	if (setsockopt(c->fd_tx, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)))
		conn_fail(c, "SO_SNDTIMEO: %s", strerror(errno));
	ssize_t r = send(c->fd_tx, io->buf, n, 0);
	int err = errno;
	setsockopt(c->fd_tx, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
	errno = err;
	return r;
}

/* The kernel sends the file's own pages, so none is written a second time. */
static ssize_t tx_sendfile(struct io *io, struct conn *c, size_t n)
{
	if (io->tmp_off > TMP_RENEW_BYTES) {
		close(io->tmp);
		io->tmp = tmp_open();
		io->tmp_off = 0;
	}
	off_t from = (off_t)io->tmp_off, off = from;
	if (pwrite(io->tmp, io->buf, n, from) != (ssize_t)n)
		die("temporary file: %s", strerror(errno));
	io->tmp_off += n;

	if (rng_one_in(&io->rng, 2)) {
		lseek(io->tmp, from, SEEK_SET);
		return sendfile(c->fd_tx, io->tmp, NULL, n);
	}
	ssize_t r = sendfile(c->fd_tx, io->tmp, &off, n);
	int err = errno;
	if (r > 0 && off != from + r)
		conn_fail(c, "sendfile %zd moved the offset by %lld", r,
			  (long long)(off - from));
	errno = err;
	return r;
}

static ssize_t tx_splice(struct io *io, struct conn *c, size_t n)
{
	uint8_t rest[4096];

	n = n < PIPE_BYTES ? n : PIPE_BYTES;
	if (write(io->pipe[1], io->buf, n) != (ssize_t)n)
		die("write to a pipe: %s", strerror(errno));
	ssize_t r = splice(io->pipe[0], NULL, c->fd_tx, NULL, n, 0);
	int err = errno;
	for (size_t have = n - (r > 0 ? (size_t)r : 0); have;) {
		ssize_t got = read(io->pipe[0], rest,
				   have < sizeof(rest) ? have : sizeof(rest));
		if (got <= 0 && errno != EINTR)
			conn_fail(c, "splice %zd of %zu lost bytes", r, n);
		have -= got > 0 ? (size_t)got : 0;
	}
	errno = err;
	return r;
}

static const struct way tx_ways[] = {
	{ "send", tx_send, true, false },
	{ "send", tx_send, true, false },
	{ "write", tx_write, true, false },
	{ "writev", tx_writev, true, false },
	{ "sendto", tx_sendto, true, false },
	{ "sendmsg", tx_sendmsg, true, false },
	{ "sendmmsg", tx_sendmmsg, false, false },
	{ "send MSG_DONTWAIT", tx_dontwait, true, false },
	{ "send MSG_MORE", tx_more, true, false },
	{ "send SO_SNDTIMEO", tx_timeo, false, false },
	{ "sendfile", tx_sendfile, true, false },
	{ "splice in", tx_splice, false, false },
};

static void tx_ended(struct conn *c, int err)
{
	if (!conn_may_abort(c) || (err != ECONNRESET && err != EPIPE))
		conn_fail(c, "%s: %s", c->tx.call, strerror(err));
	store_rlx(&c->tx.error, err);
	store_rlx(&c->tx.done, true);
}

bool io_tx(struct io *io, struct conn *c)
{
	const size_t n_ways = sizeof(tx_ways) / sizeof(*tx_ways);
	const struct way *way = way_choose(&io->rng, tx_ways, n_ways, opt.tx);
	size_t n = rng_size(&io->rng, left(&c->tx));

	pattern_fill(c->tx.key, load_rlx(&c->tx.off), io->buf, n);
	c->tx.call = way->name;
	errno = 0;
	ssize_t r = way->move(io, c, n);
	int err = errno;

	atomic_fetch_add_explicit(&progress, r >= 0, memory_order_relaxed);
	if (r < 0 && err == EINTR)
		return true;
	if (r < 0 && err == EAGAIN) {
		c->tx.blocked = true;
		return false;
	}
	if (r < 0) {
		tx_ended(c, err);
		return true;
	}
	if (r == 0 || (size_t)r > n)
		conn_fail(c, "%s: %zd of %zu bytes", way->name, r, n);
	store_rlx(&c->tx.off, load_rlx(&c->tx.off) + (uint64_t)r);
	c->tx.blocked =
	    c->trusts_short && way->short_means_blocked && (size_t)r < n;
	return true;
}
