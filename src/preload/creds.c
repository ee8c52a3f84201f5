/* SPDX-License-Identifier: MIT */
/*
 * preload/creds.c - the calls by which a process gives up authority
 *
 *     prctl(PR_SET_SECCOMP), seccomp()  ->  file/leave.c, then libc
 *
 * A program calls some of them by number: preload/raw.c asks creds_raw() about each.
 */
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>

#include "base/rawcall.h"
#include "preload/creds.h"
#include "preload/edge.h"

/* The kernel refuses a filter without a program; some ask that way whether it knows
 * filters. */
static void before_prctl(long option, unsigned long a, unsigned long b)
{
	if (option == PR_SET_SECCOMP &&
	    (a == SECCOMP_MODE_STRICT ||
	     (a == SECCOMP_MODE_FILTER && !is_bad_ptr(b))))
		file_leave(OSF_REASON_SECCOMP);
}

static void before_seccomp(long op, unsigned long flags, unsigned long arg)
{
	if ((op == SECCOMP_SET_MODE_STRICT && !flags && !arg) ||
	    (op == SECCOMP_SET_MODE_FILTER && !is_bad_ptr(arg)))
		file_leave(OSF_REASON_SECCOMP);
}

OSF_API int prctl(int option, ...)
{
	unsigned long a, b, c, d;
	va_list ap;

	va_start(ap, option);
	a = va_arg(ap, unsigned long);
	b = va_arg(ap, unsigned long);
	c = va_arg(ap, unsigned long);
	d = va_arg(ap, unsigned long);
	va_end(ap);
	before_prctl(option, a, b);
	return libc.prctl(option, a, b, c, d);
}

void creds_raw(long nr, long a, long b, long c)
{
	switch (nr) {
	case SYS_prctl:
		before_prctl(a, (unsigned long)b, (unsigned long)c);
		break;
	case SYS_seccomp:
		before_seccomp(a, (unsigned long)b, (unsigned long)c);
		break;
	default:
		break;
	}
}
