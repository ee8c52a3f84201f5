/* SPDX-License-Identifier: MIT */
/*
 * preload/stdio.c - stdio on a socket of ours
 *
 *     fdopen()  ->  the connection goes to the kernel, for good
 *     fclose(), freopen()  ->  remove the entry, then call libc
 *     dprintf() ->  text, then write()
 *
 * stdio reads and writes with libc's internal names, and fileno() asks for a stream of
 * libc's own.  Standard input, output and error have their streams from the start: see
 * sock.standard.
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

OSF_API FILE *fdopen(int fd, const char *mode)
{
	CALL(c) = { 0 };

	file_hand_over(fd, OSF_REASON_STDIO);
	return libc.fdopen(fd, mode);
}

/* libc flushes and then closes with its internal close(). */
static void closes(FILE *f)
{
	int fd = f ? fileno(f) : -1;

	vma_closes(fd);
	if (fd >= 0 && unlikely(table_load(fd))) {
		fflush(f);
		file_forget(fd);
	}
}

OSF_API int fclose(FILE *f)
{
	closes(f);
	return libc.fclose(f);
}

/* The old descriptor is closed even if this fails; mostly the new file gets its number. */
OSF_API FILE *freopen(const char *restrict path, const char *restrict mode,
		      FILE *restrict f)
{
	closes(f);
	return libc.freopen(path, mode, f);
}

OSF_API FILE *freopen64(const char *restrict path, const char *restrict mode,
			FILE *restrict f)
{
	closes(f);
	return libc.freopen64(path, mode, f);
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
