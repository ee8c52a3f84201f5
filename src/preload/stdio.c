/* SPDX-License-Identifier: MIT */
/*
 * preload/stdio.c - stdio on a socket of ours
 *
 *     fdopen()  ->  a stream of libc's, or one with our functions
 *     fileno()  ->  the descriptor of such a stream, which libc does not know
 *     dprintf() ->  text, then write()
 *
 * stdio reads and writes with libc's internal names.  A connection still on TCP stays
 * there; an upgraded one gets a stream with our functions.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/vma/vma.h"
#include "base/atomic.h"
#include "base/libc.h"
#include "file/file.h"
#include "preload/edge.h"

/* Leave it to the kernel, or move it back there. */
static void leave(struct file *f, int fd, enum osf_reason why)
{
	sock_ops(f->sk)->fallback(f->sk, fd, why);
	sync_file(f, fd);
}

/* A stream with our functions.  They are in a list that only grows, so that it needs no
 * lock, which a fork could leave locked: one that was closed is used again. */
struct stream {
	struct stream *next;
	FILE *file; /* NULL: it was closed */
	int fd;
};
static struct stream *streams;
#define BEING_MADE ((FILE *)&streams) /* no stream has that address */

static struct stream *stream_of(const FILE *file)
{
	struct stream *s = load_acq(&streams);

	while (s && load_acq(&s->file) != file)
		s = s->next;
	return s;
}

static struct stream *stream_new(int fd)
{
	struct stream *s = load_acq(&streams);

	while (s && !cas(&s->file, NULL, BEING_MADE))
		s = s->next;
	if (s) {
		s->fd = fd;
		return s;
	}
	s = malloc(sizeof(*s));
	if (!s)
		return NULL;
	*s = (struct stream){ .file = BEING_MADE, .fd = fd };
	do
		s->next = load_acq(&streams);
	while (!cas(&streams, s->next, s));
	return s;
}

static ssize_t stream_read(void *cookie, char *buf, size_t n)
{
	return read(((struct stream *)cookie)->fd, buf, n);
}
static ssize_t stream_write(void *cookie, const char *buf, size_t n)
{
	ssize_t r = write(((struct stream *)cookie)->fd, buf, n);

	return r < 0 ? 0 : r;
}
static int stream_close(void *cookie)
{
	struct stream *s = cookie;
	int fd = s->fd;

	store_rel(&s->file, NULL);
	return close(fd);
}

static FILE *stream_open(int fd, const char *mode)
{
	struct stream *s = stream_new(fd);
	FILE *f = s ? fopencookie(s, mode,
				  (cookie_io_functions_t){
				      .read = stream_read,
				      .write = stream_write,
				      .close = stream_close,
				  })
		    : NULL;

	if (s)
		store_rel(&s->file, f);
	return f;
}

/* @fd: what libc says. */
static int stream_fd(const FILE *f, int fd, int saved)
{
	const struct stream *s = likely(fd >= 0) ? NULL : stream_of(f);

	if (likely(!s))
		return fd;
	errno = saved;
	return s->fd;
}

OSF_API int fileno(FILE *f)
{
	int saved = errno;

	return stream_fd(f, libc.fileno(f), saved);
}

OSF_API int fileno_unlocked(FILE *f)
{
	int saved = errno;

	return stream_fd(f, libc.fileno_unlocked(f), saved);
}

OSF_API FILE *fdopen(int fd, const char *mode)
{
	CALL(c) = { .file = file_get(fd) };

	if (likely(!c.file) || c.file->kind != FILE_SOCK)
		return libc.fdopen(fd, mode);
	if (!sock_is_ours(c.file->sk)) {
		leave(c.file, fd, OSF_REASON_STDIO);
		return libc.fdopen(fd, mode);
	}
	return stream_open(fd, mode);
}

OSF_API int fclose(FILE *f)
{
	int fd = f ? libc.fileno(f) : -1; /* ours closes its own */

	vma_closes(fd);
	/* libc flushes and then closes with its internal close(). */
	if (fd >= 0 && unlikely(table_load(fd))) {
		fflush(f);
		file_forget(fd);
	}
	return libc.fclose(f);
}

/* Formatted output to a descriptor: libc's version would bypass our write(). */

int __vdprintf_chk(int fd, int flag, const char *restrict fmt, va_list ap);
int __dprintf_chk(int fd, int flag, const char *restrict fmt, ...);

OSF_API int vdprintf(int fd, const char *restrict fmt, va_list ap)
{
	char *text;
	int n = vasprintf(&text, fmt, ap);

	if (n < 0)
		return -1;
	for (int done = 0; done < n;) {
		ssize_t r = write(fd, text + done, (size_t)(n - done));

		if (r < 0) {
			n = -1;
			break;
		}
		done += (int)r;
	}
	int saved = errno;
	free(text);
	errno = saved;
	return n;
}

OSF_API int dprintf(int fd, const char *restrict fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vdprintf(fd, fmt, ap);
	va_end(ap);
	return n;
}

OSF_API int __vdprintf_chk(int fd, int flag, const char *restrict fmt,
			   va_list ap)
{
	return vdprintf(fd, fmt, ap);
}

OSF_API int __dprintf_chk(int fd, int flag, const char *restrict fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vdprintf(fd, fmt, ap);
	va_end(ap);
	return n;
}
