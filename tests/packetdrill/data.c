/* SPDX-License-Identifier: MIT */
/*
 * tests/packetdrill/data.c - moves bytes to and from sockets and pipes
 *
 * The back end takes one buffer.  A call with several buffers joins them, so it stays
 * one write.  Pipes are the kernel's.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "host.h"

#define SPLICE_MAX 65536

static bool may_wait(const struct file *f, int flags)
{
	return !f->is_nonblock && !(flags & (MSG_DONTWAIT | MSG_ERRQUEUE));
}

static ssize_t kernel_ret(ssize_t r) { return r < 0 ? -errno : r; }

ssize_t pd_recv(struct host *h, int fd, void *buf, size_t len, int flags)
{
	struct file *f = file_get(h, fd, FILE_SOCKET);
	size_t done = 0,
	       want = flags & MSG_WAITALL && !(flags & MSG_PEEK) ? len : 1;

	if (!f)
		return kernel_ret(read(fd, buf, len));
	if (!buf && len)
		return -EFAULT;
	uint64_t until = host_deadline(h, &f->rcv_timeout);
	for (;;) {
		ssize_t n =
		    h->b.ops->recv(h->b.self, f->sock, (uint8_t *)buf + done,
				   len - done, flags & ~MSG_WAITALL);

		done += n > 0 ? (size_t)n : 0;
		if (n == 0 || (n < 0 && n != -EAGAIN) || done >= want ||
		    !may_wait(f, flags))
			return done ? (ssize_t)done : n;
		if (n > 0)
			host_moved(h);
		if (host_wait(h, until))
			return done ? (ssize_t)done : -EAGAIN;
		f = file_get(h, fd, FILE_SOCKET);
		if (!f)
			return -EBADF;
	}
}

ssize_t pd_send(struct host *h, int fd, const void *buf, size_t len, int flags)
{
	struct file *f = file_get(h, fd, FILE_SOCKET);
	size_t done = 0;

	if (!f)
		return kernel_ret(write(fd, buf, len));
	if (!buf && len)
		return -EFAULT;
	uint64_t until = host_deadline(h, &f->snd_timeout);
	for (;;) {
		ssize_t n = h->b.ops->send(h->b.self, f->sock,
					   (const uint8_t *)buf + done,
					   len - done, flags);

		done += n > 0 ? (size_t)n : 0;
		if ((n < 0 && n != -EAGAIN) || done == len ||
		    !may_wait(f, flags))
			return done ? (ssize_t)done : n;
		host_moved(h);
		if (host_wait(h, until))
			return done ? (ssize_t)done : -EAGAIN;
		f = file_get(h, fd, FILE_SOCKET);
		if (!f)
			return -EBADF;
	}
}

/* Return: the bytes of all buffers, or a negative errno. */
static ssize_t iov_bytes(const struct iovec *iov, size_t n)
{
	size_t sum = 0;

	if (n > 1024)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (iov[i].iov_len > SSIZE_MAX - sum)
			return -EINVAL;
		if (!iov[i].iov_base && iov[i].iov_len)
			return -EFAULT;
		sum += iov[i].iov_len;
	}
	return (ssize_t)sum;
}

ssize_t pd_recv_iov(struct host *h, int fd, const struct iovec *iov, size_t n,
		    int flags)
{
	ssize_t all = iov_bytes(iov, n), left;

	if (all < 0)
		return all;
	uint8_t *buf = malloc(all ? (size_t)all : 1);
	if (!buf)
		return -ENOMEM;
	ssize_t got = pd_recv(h, fd, buf, (size_t)all, flags);
	left = flags & MSG_TRUNC ? 0 : got;
	for (size_t i = 0, at = 0; left > 0; i++) {
		size_t part = MIN(iov[i].iov_len, (size_t)left);

		memcpy(iov[i].iov_base, buf + at, part);
		at += part;
		left -= (ssize_t)part;
	}
	free(buf);
	return got;
}

ssize_t pd_send_iov(struct host *h, int fd, const struct iovec *iov, size_t n,
		    int flags)
{
	ssize_t all = iov_bytes(iov, n);
	size_t at = 0;

	if (all < 0)
		return all;
	uint8_t *buf = malloc(all ? (size_t)all : 1);
	if (!buf)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		memcpy(buf + at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	ssize_t sent = pd_send(h, fd, buf, (size_t)all, flags);
	free(buf);
	return sent;
}

int pd_pipe(struct host *h, int fds[2]) { return pipe(fds) ? -errno : 0; }

/* Reads the bytes of a pipe without taking them: tee() copies them to a second pipe. */
static ssize_t pipe_peek(int fd, uint8_t *buf, size_t len, unsigned flags)
{
	int copy[2];

	if (pipe(copy))
		return -errno;
	ssize_t n = kernel_ret(tee(fd, copy[1], len, flags));
	if (n > 0)
		n = kernel_ret(read(copy[0], buf, (size_t)n));
	close(copy[0]);
	close(copy[1]);
	return n;
}

/* What the socket does not accept stays in the pipe. */
static ssize_t splice_out(struct host *h, int in, int out, size_t len,
			  unsigned flags)
{
	static uint8_t buf[SPLICE_MAX];
	ssize_t n = pipe_peek(in, buf, len, flags & SPLICE_F_NONBLOCK);

	if (n <= 0)
		return n;
	n = pd_send(h, out, buf, (size_t)n,
		    (flags & SPLICE_F_MORE ? MSG_MORE : 0) |
			(flags & SPLICE_F_NONBLOCK ? MSG_DONTWAIT : 0));
	return n <= 0 ? n : kernel_ret(read(in, buf, (size_t)n));
}

/* Whether the next byte is the urgent one, which only MSG_OOB reads. */
static bool is_at_urgent(struct host *h, int fd)
{
	int sock = h->files[fd].sock;
	uint8_t byte;

	return h->b.ops->poll(h->b.self, sock, POLLPRI) & POLLPRI &&
	       h->b.ops->recv(h->b.self, sock, &byte, 1,
			      MSG_PEEK | MSG_DONTWAIT) == -EAGAIN;
}

/* What the pipe does not accept stays in the socket. */
static ssize_t splice_in(struct host *h, int in, int out, size_t len,
			 unsigned flags)
{
	static uint8_t buf[SPLICE_MAX];
	int wait = flags & SPLICE_F_NONBLOCK ? MSG_DONTWAIT : 0;
	int used = 0, room = fcntl(out, F_GETPIPE_SZ);

	if (room < 0 || ioctl(out, FIONREAD, &used))
		return -errno;
	if (used >= room)
		return -EAGAIN;
	len = MIN(len, (size_t)(room - used));
	if (is_at_urgent(h, in))
		return 0;
	ssize_t n = pd_recv(h, in, buf, len, wait);
	return n <= 0 ? n : kernel_ret(write(out, buf, (size_t)n));
}

ssize_t pd_splice(struct host *h, int in, loff_t *off_in, int out,
		  loff_t *off_out, size_t len, unsigned flags)
{
	bool is_in = file_get(h, in, FILE_SOCKET);
	bool is_out = file_get(h, out, FILE_SOCKET);

	if (!is_in && !is_out)
		return kernel_ret(splice(in, off_in, out, off_out, len, flags));
	if (is_in && is_out)
		return -EINVAL;
	if (off_in || off_out)
		return -ESPIPE;
	len = MIN(len, (size_t)SPLICE_MAX);
	return is_in ? splice_in(h, in, out, len, flags)
		     : splice_out(h, in, out, len, flags);
}
