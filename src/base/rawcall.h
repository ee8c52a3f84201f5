/* SPDX-License-Identifier: MIT */
/*
 * base/rawcall.h - a system call without libc
 *
 * For code that must not call us back, because we interpose syscall(), too; and for a
 * child that clone() has made alone, which must not enter libc.
 */
#pragma once

#include <sys/syscall.h>

/* Return: what the kernel returns: a negative errno on failure. */
static inline long rawcall6(long nr, long a, long b, long c, long d, long e,
			    long f)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8),
			   "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#else
#error "base/rawcall.h: this processor's system call is missing"
#endif
}

#define rawcall(nr, ...) rawcall_args(nr, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define rawcall_args(nr, a, b, c, d, e, f, ...)                                \
	rawcall6(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e),    \
		 (long)(f))
