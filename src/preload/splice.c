/* SPDX-License-Identifier: MIT */
/*
 * preload/splice.c - splice() between a pipe and a socket of ours
 *
 *     socket  ->  buffer  ->  pipe, and the reverse
 *
 * Whatever we take from one side must fit into the other.  A pipe takes PIPE_BUF bytes when it
 * polls as writable, and a socket has room for what its protocol says.
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "preload/data.h"
#include "sock/idle.h"

#define SPLICE_BUF (64 * 1024)
#define SPLICE_FLAGS                                                           \
	(SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT)

static bool may_block(int pipe_fd, unsigned flags)
{
	return !(flags & SPLICE_F_NONBLOCK) &&
	       !(libc.fcntl(pipe_fd, F_GETFL) & O_NONBLOCK);
}

static bool pipe_is(int pipe_fd, short events, int timeout_ms)
{
	struct pollfd p = { .fd = pipe_fd, .events = events };

	return libc.poll(&p, 1, timeout_ms) > 0;
}

/* Bytes that a pipe takes at once: one that is empty takes what it can hold. */
static size_t pipe_room(int pipe_fd)
{
	int used = 0, size = libc.fcntl(pipe_fd, F_GETPIPE_SZ);

	return size > PIPE_BUF && !libc.ioctl(pipe_fd, FIONREAD, &used) && !used
		   ? (size_t)size
		   : (size_t)PIPE_BUF;
}

/* The socket is read only when the pipe can take something.  0, or -errno. */
static int await_place(int pipe_fd, bool block)
{
	struct pollfd p = { .fd = pipe_fd, .events = POLLOUT };
	int n = libc.poll(&p, 1, block ? -1 : 0);

	if (n <= 0)
		return n < 0 ? -errno : -EAGAIN;
	if (!(p.revents & POLLERR))
		return 0;
	raise(SIGPIPE); /* nobody reads it */
	return -EPIPE;
}

/* SPLICE_F_NONBLOCK is about the pipe: whether the socket waits is for O_NONBLOCK. */
static ssize_t splice_in(struct file *f, int sock, int pipe_fd, size_t n,
			 unsigned flags)
{
	char buf[SPLICE_BUF];
	size_t done = 0;
	int err = await_place(pipe_fd, may_block(pipe_fd, flags));

	if (err)
		return err;
	n = MIN(n, sizeof(buf));
	n = MIN(n, pipe_room(pipe_fd));
	ssize_t r = data_received(
	    f, sock, io_recv(f->sk, sock_ops(f->sk), sock, ONE(buf, n), 0));
	while (r > 0 && done < (size_t)r) {
		ssize_t w = libc.write(pipe_fd, buf + done, (size_t)r - done);

		if (w >= 0)
			done += (size_t)w;
		else if (errno == EAGAIN) /* others have filled it: lose none */
			pipe_is(pipe_fd, POLLOUT, -1);
		else if (errno != EINTR)
			return -errno;
	}
	return r;
}

/* Put back what could not be sent, in front of the rest. */
static COLD void pipe_put_back(int pipe_fd, const char *data, size_t n)
{
	int rest = 0;

	if (libc.ioctl(pipe_fd, FIONREAD, &rest) < 0 || rest < 0)
		return;
	/* /proc opens the other end of the pipe. */
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", pipe_fd);
	int out = libc.open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC, 0);
	char *all = malloc(n + (size_t)rest);
	if (out >= 0 && all) {
		memcpy(all, data, n);
		ssize_t more =
		    rest ? libc.read(pipe_fd, all + n, (size_t)rest) : 0;
		size_t len = n + (more > 0 ? (size_t)more : 0);
		if (libc.write(out, all, len) != (ssize_t)len)
			log_err("splice: %zu bytes were lost", len);
	}
	free(all);
	if (out >= 0)
		libc.close(out);
}

/* How many bytes may leave the pipe?  A socket that does not wait takes what it has room for.
 * @least: the answer if its protocol does not know. */
static size_t socket_room(struct sock *sk, int sock, size_t least)
{
	const struct sock_ops *ops = sock_ops(sk);

	if (!load_rlx(&sk->w->nonblock))
		return SPLICE_BUF;
	size_t room = ops->room ? ops->room(sk, sock) : 0;
	return room ? room : least;
}

/* What the pipe has, @n bytes at most, in one go: see splice_out(). */
static ssize_t splice_part(struct file *f, int sock, int pipe_fd, size_t n,
			   unsigned flags)
{
	char buf[SPLICE_BUF];
	size_t sent = 0;
	ssize_t r = libc.read(pipe_fd, buf, MIN(n, sizeof(buf)));

	if (r <= 0)
		return r < 0 ? -errno : 0;
	while (sent < (size_t)r) {
		struct iovec iov = { buf + sent, (size_t)r - sent };
		struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
		ssize_t w = data_sendmsg(f, sock, &msg,
					 flags & SPLICE_F_MORE ? MSG_MORE : 0);

		if (w < 0 && w != -EAGAIN)
			pipe_put_back(pipe_fd, buf + sent, (size_t)r - sent);

		if (w == -EAGAIN) {
			struct pollfd p = { .fd = sock, .events = POLLOUT };
			poll(&p, 1, -1);
		} else if (w < 0) {
			if (sent)
				sock_ops(f->sk)->error_later(f->sk, (int)-w);
			return sent ? (ssize_t)sent : w;
		} else {
			sent += (size_t)w;
		}
	}
	return (ssize_t)sent;
}

/* Between the pipe and a full socket no byte may be lost.  So wait for room first, then read the
 * pipe, then send all of it. */
static ssize_t splice_out(struct file *f, int sock, int pipe_fd, size_t n,
			  unsigned flags)
{
	struct sock *sk = f->sk;
	size_t done = 0;
	ssize_t r;

	if (!may_block(pipe_fd, flags) && !pipe_is(pipe_fd, POLLIN, 0))
		return -EAGAIN;
	while (!(sock_ops(sk)->events(sk, sock) & POLLOUT)) {
		struct pollfd room = { .fd = sock, .events = POLLOUT };

		if (load_rlx(&sk->w->nonblock))
			return -EAGAIN;
		if (poll(&room, 1, -1) < 0)
			return -errno;
	}
	do {
		size_t room = socket_room(sk, sock, done ? 0 : PIPE_BUF);

		r = room ? splice_part(f, sock, pipe_fd, MIN(n - done, room),
				       flags)
			 : 0;
		done += r > 0 ? (size_t)r : 0;
	} while (r > 0 && done < n && load_rlx(&sk->w->nonblock) &&
		 pipe_is(pipe_fd, POLLIN, 0));
	return done ? (ssize_t)done : r;
}

struct splicing {
	int in, out;
	off64_t *off_in, *off_out;
	size_t n;
	unsigned flags;
};

/* libc's splice() would sleep past base/idle.h.  First it waits for the pipe. */
static COLD ssize_t splice_idle(struct sock *sk, int fd, int dir,
				const struct splicing *s)
{
	bool to = dir == DIR_TX, waits = to && !load_rlx(&sk->w->nonblock);
	size_t done = 0, n = s->n;
	int saved = errno;
	ssize_t r;

	do {
		bool is_pipe_ready =
		    n && pipe_is(to ? s->in : s->out, to ? POLLIN : POLLOUT, 0);
		int err = is_pipe_ready ? wait_idle(sk, &fd, dir, 0) : 0;

		if (err) {
			errno = done ? saved : -err;
			return done ? (ssize_t)done : -1;
		}
		n = waits ? MIN(s->n - done, idle_room(fd)) : s->n;
		r = libc.splice(to ? s->in : fd, s->off_in, to ? fd : s->out,
				s->off_out, n,
				s->flags | (done ? SPLICE_F_NONBLOCK : 0));
		done += r > 0 ? (size_t)r : 0;
	} while (waits && r > 0 && done < s->n);
	if (done || !r)
		errno = saved;
	return done ? (ssize_t)done : r;
}

/* libc's splice() on a socket that may be upgraded soon. */
static ssize_t by_kernel(struct call *c, int fd, int dir,
			 const struct splicing *s)
{
	ssize_t r = unlikely(idle_is_on())
			? splice_idle(c->file->sk, fd, dir, s)
			: libc.splice(s->in, s->off_in, s->out, s->off_out,
				      s->n, s->flags);

	call_leave(c, dir, r);
	data_moved(c->file, fd, dir, r);
	return r;
}

static ssize_t from_socket(struct call *c, const struct splicing *s)
{
	int saved = errno;

	call_may_sleep(c);
	if (call_enter(c))
		return by_kernel(c, s->in, DIR_RX, s);
	return libc_ret(splice_in(c->file, s->in, s->out, s->n, s->flags),
			saved);
}

static ssize_t to_socket(struct call *c, const struct splicing *s)
{
	int saved = errno;

	call_may_sleep(c);
	data_sends(c->file, s->out);
	if (call_enter(c))
		return by_kernel(c, s->out, DIR_TX, s);
	return libc_ret(splice_out(c->file, s->out, s->in, s->n, s->flags),
			saved);
}

OURS ssize_t splice_ours(const struct splicing *s)
{
	CALL(ci) = { .file = data_file(s->in) };
	CALL(co) = { .file = data_file(s->out) };
	bool in_ours = ci.file, out_ours = co.file;
	struct stat st;

	if (!s->n)
		return 0; /* as the kernel, whatever the rest says */
	if (!in_ours && !out_ours)
		return libc.splice(s->in, s->off_in, s->out, s->off_out, s->n,
				   s->flags);
	if (in_ours == out_ours || (in_ours && s->off_in) ||
	    (out_ours && s->off_out) || s->flags & ~(unsigned)SPLICE_FLAGS ||
	    libc.fstat(in_ours ? s->out : s->in, &st) ||
	    !S_ISFIFO(st.st_mode)) {
		errno = EINVAL; /* as the kernel: one end must be a pipe */
		return -1;
	}
	return in_ours ? from_socket(&ci, s) : to_socket(&co, s);
}

OSF_API ssize_t splice(int in, off64_t *off_in, int out, off64_t *off_out,
		       size_t n, unsigned flags)
{
	if (likely(!file_serves(in) && !file_serves(out)))
		return libc.splice(in, off_in, out, off_out, n, flags);
	return splice_ours(
	    &(struct splicing){ in, out, off_in, off_out, n, flags });
}
