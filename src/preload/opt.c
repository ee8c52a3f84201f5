/* SPDX-License-Identifier: MIT */
/*
 * preload/opt.c - socket options, shutdown, names
 *
 *     setsockopt(), getsockopt()  ->  sock/opt.c
 */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>

#include "api/api.h"
#include "api/vma/vma.h"
#include "file/epoll.h"
#include "ops/xlio_opt.h"
#include "preload/edge.h"
#include "sock/opt.h"

static int shut(struct file *f, int fd, int how)
{
	struct sock *sk = f->sk;
	int r, saved = errno;

	do
		r = sock_ops(sk)->shutdown(sk, fd, how);
	while (r == -ESTALE);
	file_sync(f, fd);
	file_touched(f, 0);
	return (int)libc_ret(r, saved);
}

OSF_API int shutdown(int fd, int how)
{
	bool past = past_of(fd);
	CALL(c) = { .file = file_get(fd) };
	int r = c.file && c.file->kind == FILE_SOCK ? shut(c.file, fd, how)
						    : libc.shutdown(fd, how);

	went_past(past);
	return r;
}

/* The kernel's MSG_PEEK applies SO_PEEK_OFF to what its own TCP connection has
 * received.  So move the stream back to TCP first. */
static void leave_at_once(struct file *f, int fd)
{
	file_hand_over(fd, OSF_REASON_OPTION);
	sock_ops(f->sk)->retire(f->sk);
	file_sync(f, fd);
}

/* An option without effect: only the descriptor can be wrong, or (@err) the value. */
static COLD int set_nothing(int fd, int err)
{
	int type, saved = errno;
	socklen_t len = sizeof(type);

	if (libc.getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0)
		return -1;
	return (int)libc_ret(err, saved);
}

OSF_API int setsockopt(int fd, int level, int name, const void *val,
		       socklen_t len)
{
	CALL(c) = { .file = file_get(fd) };
	unsigned long rate;
	int err;

	if (unlikely(xlio_opt_pacing(level, name, val, len, &rate))) {
		val = &rate;
		len = sizeof(rate);
	}
	if (unlikely(xlio_opt_check(level, name, val, len, &err))) {
		vma_ring_logic(fd, name, val, len, err);
		return set_nothing(fd, err);
	}
	if (unlikely(load_rlx(&vma_is_asked)) &&
	    vma_setsockopt(fd, level, name, val, len, &err))
		return (int)libc_ret(err, errno);
	if (likely(!c.file) || c.file->kind != FILE_SOCK)
		return libc.setsockopt(fd, level, name, val, len);
	int saved = errno;
	const struct opt *o = opt_find(level, name);
	call_may_sleep(&c);
	if (level == SOL_SOCKET && name == SO_PEEK_OFF &&
	    sock_is_ours(c.file->sk))
		leave_at_once(c.file, fd);
	err = opt_set(c.file->sk, fd, o, level, name, val, len);
	if (!file_is_synced(c.file))
		file_sync(c.file, fd);
	return (int)libc_ret(err, saved);
}

/* The error that the stream ended with; -1: the kernel knows. */
static int so_error(int fd)
{
	int seen = vma_has(fd) ? vma_so_error(fd) : 0;

	if (seen || !table_load(fd))
		return seen ? seen : -1;
	CALL(c) = { .file = file_get(fd) };

	return c.file && c.file->kind == FILE_SOCK
		   ? sock_ops(c.file->sk)->so_error(c.file->sk, fd)
		   : -1;
}

/* The protocol's own answer.  False: the anchor has the option. */
static COLD bool get_own(int fd, int level, int name, void *val, socklen_t *len,
			 int *err)
{
	CALL(c) = { .file = file_get(fd) };

	if (!c.file || c.file->kind != FILE_SOCK)
		return false;
	const struct sock_ops *ops = sock_ops(c.file->sk);
	if (!ops->getsockopt || is_bad_ptr(val) || is_bad_ptr(len))
		return false;
	*err = ops->getsockopt(c.file->sk, level, name, val, len);
	return *err != -EOPNOTSUPP;
}

OSF_API int getsockopt(int fd, int level, int name, void *restrict val,
		       socklen_t *restrict len)
{
	int our_err = -1, err, saved = errno;

	if (unlikely(file_serves(fd)) &&
	    get_own(fd, level, name, val, len, &err))
		return (int)libc_ret(err, saved);
	if (unlikely(level == SOL_SOCKET && name == SO_ERROR))
		our_err = so_error(fd);
	int r = libc.getsockopt(fd, level, name, val, len);

	if (unlikely(r < 0 && fd < 0) &&
	    (api_getsockopt(fd, level, name, val, len, &err) ||
	     vma_getsockopt(fd, level, name, val, len, &err)))
		return (int)libc_ret(err, 0);
	if (unlikely(r < 0) && load_rlx(&vma_is_asked) &&
	    vma_getopt(fd, level, name, val, len, &err))
		return (int)libc_ret(err, 0);
	if (unlikely(level == IPPROTO_UDP) && !r && vma_has(fd))
		vma_hide(fd, level, name, val, *len);
	if (likely(r < 0))
		return r;
	if (unlikely(our_err >= 0)) {
		memcpy(val, &our_err, MIN((size_t)*len, sizeof(our_err)));
		return r;
	}
	if (likely(!table_load(fd)))
		return r;
	CALL(c) = { .file = file_get(fd) };
	if (c.file && c.file->kind == FILE_SOCK && val && len)
		opt_get(c.file->sk, fd, level, name, val, *len);
	return r;
}

/* The protocol's own name for @fd.  False: the anchor has it. */
static COLD bool name_own(int fd, bool peer, struct sockaddr *addr,
			  socklen_t *len, int *err)
{
	CALL(c) = { .file = file_get(fd) };
	struct sockaddr_storage ss;
	socklen_t n = sizeof(ss);

	if (!c.file || c.file->kind != FILE_SOCK)
		return false;
	const struct sock_ops *ops = sock_ops(c.file->sk);
	if (peer && ops->is_over(c.file->sk))
		return *err = -ENOTCONN, true;
	if (!ops->name_of || is_bad_ptr(addr) || is_bad_ptr(len))
		return false;
	*err = ops->name_of(c.file->sk, peer, &ss, &n);
	if (*err)
		return *err != -EOPNOTSUPP;
	memcpy(addr, &ss, MIN(*len, n));
	*len = n;
	return true;
}

OSF_API int getsockname(int fd, struct sockaddr *restrict addr,
			socklen_t *restrict len)
{
	int err, saved = errno;

	if (unlikely(file_serves(fd)) && name_own(fd, false, addr, len, &err))
		return (int)libc_ret(err, saved);
	return libc.getsockname(fd, addr, len);
}

OSF_API int getpeername(int fd, struct sockaddr *restrict addr,
			socklen_t *restrict len)
{
	int err, saved = errno;

	if (unlikely(file_serves(fd)) && name_own(fd, true, addr, len, &err))
		return (int)libc_ret(err, saved);
	return libc.getpeername(fd, addr, len);
}
