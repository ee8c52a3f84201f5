/* SPDX-License-Identifier: MIT */
/*
 * base/libc.h - the C library below us
 *
 *     libc.read(fd, buf, n)   is the real read(), whatever we interpose
 *
 * Each pointer first leads to a function that looks all names up.  So the first call
 * may come from anywhere: another library's constructor, malloc, a signal handler.
 */
#pragma once

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

struct aiocb;
struct stat;
struct __jmp_buf_tag;

struct libc {
#define F(ret, name, params, args) ret(*name) params;
#define V(ret, name, params) ret(*name) params;
#include "base/libc.def"
#undef F
#undef V
};

extern struct libc libc;

/* Looks every name up now; idempotent, safe from any context. */
void libc_resolve(void);
