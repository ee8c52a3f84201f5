/* SPDX-License-Identifier: MIT */
/*
 * preload/stdio.c - stdio on a socket of ours
 *
 *     fdopen()  ->  a stream of libc's, or one with our functions
 *     dprintf() ->  text, then write()
 *
 * stdio reads and writes with libc's internal names.  A connection still on TCP stays
 * there; an upgraded one gets a stream with our functions.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/vma/vma.h"
#include "base/libc.h"
#include "file/file.h"
#include "preload/edge.h"

/* Leave it to the kernel, or move it back there. */
static void leave(struct file *f, int fd, enum osf_reason why)
{
	sock_ops(f->sk)->fallback(f->sk, fd, why);
	sync_file(f, fd);
}

static ssize_t stream_read(void *cookie, char *buf, size_t n)
{
	return read((int)(intptr_t)cookie, buf, n);
}
static ssize_t stream_write(void *cookie, const char *buf, size_t n)
{
	ssize_t r = write((int)(intptr_t)cookie, buf, n);

	return r < 0 ? 0 : r;
}
static int stream_close(void *cookie) { return close((int)(intptr_t)cookie); }

OSF_API FILE *fdopen(int fd, const char *mode)
{
	CALL(c) = { .file = file_get(fd) };

	if (likely(!c.file) || c.file->kind != FILE_SOCK)
		return libc.fdopen(fd, mode);
	if (!sock_is_ours(c.file->sk)) {
		leave(c.file, fd, OSF_REASON_STDIO);
		return libc.fdopen(fd, mode);
	}
	return fopencookie((void *)(intptr_t)fd, mode,
			   (cookie_io_functions_t){
			       .read = stream_read,
			       .write = stream_write,
			       .close = stream_close,
			   });
}

OSF_API int fclose(FILE *f)
{
	int fd = f ? fileno(f) : -1;

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
