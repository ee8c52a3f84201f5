/* SPDX-License-Identifier: MIT */
/*
 * osfd/thaw.c - makes the kernel's socket go on, from numbers and bytes
 *
 * The steps of thaw(), in this order:
 *
 *   1  disconnect; TCP_REPAIR stays on, so the peer hears nothing of it
 *   2  set the sequence numbers, bind to the same address, connect to the same peer,
 *      without a handshake
 *   3  restore what the handshake had agreed on, and the timestamp, which must not step back
 *   4  restore the bytes of both queues, and grow the buffers if they have to; a restored
 *      byte that was sent counts as sent
 *   5  restore the windows; the kernel checks them against the numbers, which the bytes of
 *      step 4 have moved
 *   6  TCP_REPAIR off; restore what the disconnect has cleared
 *   7  give the frames to the kernel, remove the filter, tell the kernel the peer's window;
 *      send bytes that were never sent as usual
 *   8  send a probe and an old byte: the peer answers with the ACK that nobody has heard
 *      meanwhile
 *   9  send an ACK, to which the peer answers with the reset that nobody has heard; repeat
 *      the peer's FIN or reset to the kernel, if the engine has seen it
 *
 * Before step 1 nothing has changed.  After it, a step that fails ends the connection, and
 * the peer gets a reset: a connection with a hole in it must not go on.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "osfd/freeze.h"
#include "osfd/reconnect.h"
#include "osfd/segment.h"
#include "osfd/sockopt.h"

/* Kinds of options in a SYN: RFC 9293 section 3.1, RFC 7323, RFC 2018. */
enum { KIND_MSS = 2, KIND_WINDOW = 3, KIND_SACK = 4, KIND_TIMESTAMP = 8 };

/* Of a segment, which is what a socket's filter sees. */
#define TCP_FLAGS_AT 13
#define TCP_RST 0x04

#define CHUNK 16384u       /* bytes in one skb of a restored queue */
#define ROOM_ALWAYS 16384u /* that each buffer has for a restored queue */
#define ROOM_BESIDE                                                            \
	65536u /* what the kernel needs beside the bytes, for these limits */

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif

/* A socket's buffers, before they grow.  0: they do not. */
struct room {
	int sndbuf, rcvbuf, lock;
};

/* Step 3. */
static int set_options(int fd, const struct frozen *f)
{
	struct tcp_repair_opt opts[4];
	int n = 0;

	opts[n++] = (struct tcp_repair_opt){ KIND_MSS, f->mss_clamp };
	if (f->options & FROZEN_WSCALE)
		opts[n++] = (struct tcp_repair_opt){
			KIND_WINDOW, f->snd_wscale | f->rcv_wscale << 16
		};
	if (f->options & FROZEN_SACK)
		opts[n++] = (struct tcp_repair_opt){ KIND_SACK, 0 };
	if (f->options & FROZEN_TIMESTAMPS)
		opts[n++] = (struct tcp_repair_opt){ KIND_TIMESTAMP, 0 };
	if (setsockopt(fd, SOL_TCP, TCP_REPAIR_OPTIONS, opts,
		       (socklen_t)(n * (int)sizeof(*opts))) < 0)
		return -errno;
	return opt_set(fd, SOL_TCP, TCP_TIMESTAMP, (int)f->timestamp);
}

/* Where a byte of the queues is in the file, and how many follow it there. */
static uint64_t place_of(const struct queues *q, uint64_t off, uint32_t *n)
{
	if (!q->ring_bytes)
		return q->at + off;
	uint64_t in_ring = (q->ring_off + off) % q->ring_bytes;

	*n = (uint32_t)MIN((uint64_t)*n, q->ring_bytes - in_ring);
	return q->at + in_ring;
}

/* Sends bytes of the file to the socket.
 * Return: 0; -EIO: the file is too short; -ENOBUFS: the socket does not take all */
static int put_bytes(int fd, const struct queues *q, uint64_t off, uint32_t n)
{
	char buf[CHUNK];

	while (n) {
		uint32_t part = MIN(n, CHUNK);
		uint64_t at = place_of(q, off, &part);
		ssize_t got = pread(q->fd, buf, part, (off_t)at);
		if (got <= 0)
			return -EIO;
		ssize_t put =
		    send(fd, buf, (size_t)got, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (put <= 0)
			return put < 0 && errno != EAGAIN ? -errno : -ENOBUFS;
		n -= (uint32_t)put;
		off += (uint64_t)put;
	}
	return 0;
}

static int grow(int fd, int opt, int force, uint32_t bytes, int *was)
{
	if (bytes <= ROOM_ALWAYS)
		return 0;
	*was = opt_get(fd, SOL_SOCKET, opt);
	/* The kernel doubles what it is given. */
	return *was > 0 && (uint64_t)*was / 2 < bytes + ROOM_BESIDE
		   ? opt_set(fd, SOL_SOCKET, force, (int)(bytes + ROOM_BESIDE))
		   : 0;
}

/* The engine's buffers may have held more than the kernel's would. */
static int make_room(int fd, const struct queues *q, struct room *r)
{
	*r = (struct room){ .lock = opt_get(fd, SOL_SOCKET, SO_BUF_LOCK) };
	int err = grow(fd, SO_RCVBUF, SO_RCVBUFFORCE, q->n_unread, &r->rcvbuf);

	return err ? err
		   : grow(fd, SO_SNDBUF, SO_SNDBUFFORCE,
			  q->n_unacked + q->n_unsent, &r->sndbuf);
}

/* Restores buffer sizes that the program has set.  The kernel goes on tuning sizes that the
 * program has not set. */
static void end_room(int fd, const struct room *r)
{
	if (r->lock < 0 || (!r->sndbuf && !r->rcvbuf))
		return;
	if (r->rcvbuf && r->lock & SOCK_RCVBUF_LOCK)
		opt_set(fd, SOL_SOCKET, SO_RCVBUFFORCE, r->rcvbuf / 2);
	if (r->sndbuf && r->lock & SOCK_SNDBUF_LOCK)
		opt_set(fd, SOL_SOCKET, SO_SNDBUFFORCE, r->sndbuf / 2);
	opt_set(fd, SOL_SOCKET, SO_BUF_LOCK, r->lock);
}

/* Step 4. */
static int put_queues(int fd, const struct queues *q)
{
	int err = opt_set(fd, SOL_TCP, TCP_REPAIR_QUEUE, TCP_RECV_QUEUE);

	if (!err)
		err = put_bytes(fd, q, 0, q->n_unread);
	if (!err)
		err = opt_set(fd, SOL_TCP, TCP_REPAIR_QUEUE, TCP_SEND_QUEUE);
	if (!err)
		err = put_bytes(fd, q, q->n_unread, q->n_unacked);
	if (!err)
		err = opt_set(fd, SOL_TCP, TCP_REPAIR_QUEUE, TCP_NO_QUEUE);
	return err;
}

/* Step 5.  A connect() under repair makes the kernel predict segments with a window of 0
 * (pred_flags), and TCP_REPAIR_WINDOW does not change that.  The kernel then takes the
 * first ACK that closes the window for an ACK that changes nothing, and sends into the
 * closed window.  A segment that changes the window makes the kernel predict anew.  So this
 * step restores a window that is one byte smaller, and step 7 sends that segment. */
static int set_window(int fd, const struct frozen *f)
{
	struct tcp_repair_window w = {
		.snd_wl1 = f->snd_wl1,
		.snd_wnd = f->snd_wnd - (f->snd_wnd > 0),
		.max_window = f->max_window,
		.rcv_wnd = f->rcv_wnd,
		.rcv_wup = f->rcv_wup,
	};

	if (f->snd_wnd > f->max_window)
		return -EINVAL;
	return setsockopt(fd, SOL_TCP, TCP_REPAIR_WINDOW, &w, sizeof(w)) < 0
		   ? -errno
		   : 0;
}

/* Step 6, where the socket has its promises again, but for SO_REUSEADDR: step 8. */
static int put_back(int fd, const struct frozen *f)
{
	char ca[FROZEN_CA_MAX] = "";
	socklen_t len = sizeof(ca);
	int err = opt_set(fd, SOL_TCP, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);

	if (!err)
		err = opt_set(fd, SOL_SOCKET, SO_REUSEPORT,
			      !!(f->flags & FROZEN_REUSEPORT));
	if (!err && f->flags & FROZEN_KEEPALIVE)
		err = opt_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	if (!err && f->flags & FROZEN_SHUT_RD && shutdown(fd, SHUT_RD) < 0)
		err = -errno;
	if (err || getsockopt(fd, SOL_TCP, TCP_CONGESTION, ca, &len) < 0)
		return err;
	/* Without the algorithm the connection is slower, and no less right. */
	if (f->ca_name[0] && strcmp(ca, f->ca_name) != 0)
		(void)setsockopt(fd, SOL_TCP, TCP_CONGESTION, f->ca_name,
				 (socklen_t)strlen(f->ca_name));
	return 0;
}

/* Drops resets that arrive.  If the peer answered the first of these bytes by a reset,
 * send() would refuse the others, and would take the error that the program should get.
 * The peer resets again in step 8. */
static void drop_resets(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, TCP_FLAGS_AT),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, TCP_RST, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	struct sock_fprog prog = { .len = ARRAY_LEN(code), .filter = code };

	/* Without it the filter of the freeze goes on: ACKs come again as well. */
	(void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

static bool has_queued(const struct queues *q)
{
	return q->n_unacked || q->n_unsent;
}

/* Step 7, when the frames are the kernel's. */
static int put_unsent(int fd, const struct connection *c,
		      const struct frozen *f, const struct queues *q)
{
	if (q->n_unsent)
		drop_resets(fd);
	else
		opt_set(fd, SOL_SOCKET, SO_DETACH_FILTER, 0);
	if (f->snd_wnd && has_queued(q))
		window_by_peer(c, f, q->n_unacked);
	return put_bytes(fd, q, (uint64_t)q->n_unread + q->n_unacked,
			 q->n_unsent);
}

/* Step 8.  The peer answers.  It may have acknowledged bytes or opened its window
 * when nobody listened, and without the answer the kernel would wait for a timer. */
static void hear_again(int fd, const struct connection *c,
		       const struct frozen *f, const struct queues *q)
{
	if (q->n_unsent)
		opt_set(fd, SOL_SOCKET, SO_DETACH_FILTER, 0);
	if (has_queued(q) && !(f->flags & FROZEN_PEER_FIN)) {
		probe_peer(fd);
		ask_peer(c, f, q->n_unacked);
	}
	opt_set(fd, SOL_SOCKET, SO_REUSEADDR, !!(f->flags & FROZEN_REUSEADDR));
}

/* Step 9.  A peer that lives does not answer an ACK.  That is wanted: an answer would make
 * the kernel send what MSG_MORE holds back.  If the peer's FIN is repeated, no ACK is
 * needed: the kernel acknowledges the FIN, which has the same effect.  And a reset that
 * came before the FIN would change what the program reads. */
static void tell_peer(const struct connection *c, const struct frozen *f,
		      const struct queues *q)
{
	bool owes_ack = f->rcv_wup != f->rcv_nxt;

	if (owes_ack || !(f->flags & FROZEN_PEER_FIN || has_queued(q)))
		ack_peer(c, f);
	if (f->flags & (FROZEN_PEER_FIN | FROZEN_PEER_RESET))
		end_by_peer(c, f, q->n_unacked);
}

static int restore(int fd, const struct connection *c, const struct frozen *f,
		   const struct queues *q, struct room *r)
{
	int err = reconnect(fd, c, f, q);

	if (!err)
		err = set_options(fd, f);
	if (!err)
		err = make_room(fd, q, r);
	if (!err)
		err = put_queues(fd, q);
	if (!err)
		err = set_window(fd, f);
	if (!err)
		err = put_back(fd, f);
	return err;
}

/* The file must be a memfd with all of the bytes.  A read of another file could take for
 * ever, and a worker has one thread. */
static int check_queues(const struct queues *q, struct refusal *why)
{
	uint64_t n = (uint64_t)q->n_unread + q->n_unacked + q->n_unsent;
	struct stat st;

	if (!n)
		return 0;
	if (fcntl(q->fd, F_GET_SEALS) >= 0 && fstat(q->fd, &st) == 0 &&
	    (uint64_t)st.st_size >= n)
		return 0;
	refuse(why, "its %llu bytes are not in a memfd", (unsigned long long)n);
	return -EBADF;
}

int thaw(struct grant *g, int fd, const struct frozen *f,
	 const struct queues *q, struct refusal *why)
{
	struct connection c;
	struct room room = { 0 };

	*why = (struct refusal){ 0 };
	int err = connection_of(fd, &c, why);
	if (!err && opt_get(fd, SOL_TCP, TCP_REPAIR) != 1) {
		refuse(why, "not frozen");
		err = -ENOTCONN;
	}
	if (!err && !steer_has(&g->steer, &c.key)) {
		refuse(why, "frozen through another grant");
		err = -ENOTCONN;
	}
	if (!err)
		err = check_queues(q, why);
	if (!err)
		err = reconnect_check(fd, &c, why);
	if (err)
		return err;
	err = restore(fd, &c, f, q, &room);
	grant_unsteer(g, &c.key);
	if (!err)
		err = put_unsent(fd, &c, f, q);
	end_room(fd, &room);
	if (err) {
		refuse(why, "cannot be thawed: %s", strerror(-err));
		reset_peer(fd, &c, f);
		return err;
	}
	hear_again(fd, &c, f, q);
	tell_peer(&c, f, q);
	return 0;
}
