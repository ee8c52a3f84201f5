/* SPDX-License-Identifier: MIT */
/*
 * preload/socket.c - the calls that make and connect sockets
 *
 *     socket, accept  ->  a new entry in the file table
 *     listen, connect, accept  ->  src/ops: which protocol may serve the connection
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "api/vma/vma.h"
#include "base/fds.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "base/rawcall.h"
#include "file/file.h"
#include "ops/ops.h"
#include "ops/registry.h"
#include "preload/edge.h"
#include "sock/idle.h"
#include "sock/shared.h"

/* The program got a higher number than it would without osf, because of
 * descriptors of ours.  Close those that we can do without and move this one to
 * the lower number. */
static COLD int renumber(int fd)
{
	int saved = errno, cloexec = libc.fcntl(fd, F_GETFD) & FD_CLOEXEC;

	file_spare_fds();
	int low =
	    libc.fcntl(fd, cloexec ? F_DUPFD_CLOEXEC : F_DUPFD, fds_reach());
	if (low >= 0)
		nocancel_close(low < fd ? fd : low);
	errno = saved;
	return low >= 0 && low < fd ? low : fd;
}

static inline int given(int fd)
{
	return likely(fd < fds_reach()) || file_has_left() ? fd : renumber(fd);
}

OSF_API int socket(int domain, int type, int protocol)
{
	struct ops_family family;
	bool is_switched = ops_family(domain, type, protocol, &family);
	if (is_switched)
		domain = family.domain;
	int fd = libc.socket(domain, type, protocol);
	if (fd < 0 && errno == EMFILE && !file_has_left() &&
	    file_spare_all_fds())
		fd = libc.socket(domain, type, protocol);
	fd = given(fd);
	vma_makes(fd, domain);
	if (fd < 0 || !is_switched)
		return fd;
	int saved = errno;
	struct file *f = file_new_sock(fd);
	if (f) {
		f->sk->w->nonblock = (type & SOCK_NONBLOCK) != 0;
		if (unlikely(ops_nodelay))
			libc.setsockopt(fd, IPPROTO_TCP, TCP_NODELAY,
					&(int){ 1 }, sizeof(int));
		ops_created(f->sk, &family);
		sync_file(f, fd);
	}
	errno = saved;
	return fd;
}

/* -ECONNABORTED: nothing has arrived for the program, and @fd is closed. */
static int accepted(int listen_fd, int fd, int flags,
		    struct sockaddr_storage *from, socklen_t *len)
{
	CALL(l) = { .file = file_get_any(listen_fd) };
	int saved = errno, err = 0;

	if (l.file && l.file->kind == FILE_SOCK) {
		struct file *f = file_new_sock(fd);

		if (f) {
			f->sk->w->nonblock = (flags & SOCK_NONBLOCK) != 0;
			err = ops_accept_first(f->sk, fd, l.file->sk, from, len,
					       true);
			if (err == -EAGAIN)
				ops_accepted(f->sk, fd, l.file->sk,
					     (struct sockaddr *)from);
			sync_file(f, fd);
		}
	}
	if (err == -ECONNABORTED)
		close(fd);
	errno = saved;
	return err;
}

/* The kernel's accept() would sleep past base/idle.h. */
static COLD int wait_to_accept(int fd)
{
	CALL(c) = { .file = file_get_any(fd) };

	int was = fd;

	call_may_sleep(&c);
	int err =
	    c.file && c.file->kind == FILE_SOCK && c.file->sk->st->listening
		? wait_idle(c.file->sk, &fd, DIR_RX, 0)
		: 0;
	return err || fd == was ? err : -EBADF;
}

OSF_API int accept4(int fd, struct sockaddr *restrict addr,
		    socklen_t *restrict len, int flags)
{
	struct sockaddr_storage from = { 0 };
	socklen_t from_len;
	int new_fd;

	if (likely(!table_load(fd)) ||
	    (addr && (is_bad_ptr(addr) || is_bad_ptr(len))))
		return libc.accept4(fd, addr, len, flags);
	if (addr && *len > INT_MAX) {
		errno = EINVAL;
		return -1;
	}
	do {
		int err = unlikely(idle_is_on()) ? wait_to_accept(fd) : 0;

		if (err) {
			errno = -err;
			return -1;
		}
		from_len = sizeof(from);
		new_fd = libc.accept4(fd, (struct sockaddr *)&from, &from_len,
				      flags);
		if (new_fd < 0 && errno == EMFILE && file_spare_all_fds())
			continue;
		if (new_fd < 0)
			return new_fd;
		new_fd = given(new_fd);
	} while (new_fd < 0 || accepted(fd, new_fd, flags, &from, &from_len) ==
				   -ECONNABORTED);
	if (addr) {
		memcpy(addr, &from, MIN(*len, from_len));
		*len = from_len;
	}
	return new_fd;
}

OSF_API int accept(int fd, struct sockaddr *restrict addr,
		   socklen_t *restrict len)
{
	return accept4(fd, addr, len, 0);
}

/* Can the kernel read the 8 bytes at @p?  The kernel copies a signal mask
 * before it refuses an invalid @how. */
static bool is_readable(uintptr_t p)
{
	return rawcall(SYS_rt_sigprocmask, -1, p & ~UINT64_C(7), NULL, 8) !=
	       -EFAULT;
}

/* We read an address before the kernel does.  If it is unreadable or has an
 * invalid length, pass it on for the kernel to refuse. */
static bool is_bad_addr(const struct sockaddr *addr, socklen_t len)
{
	uintptr_t first = (uintptr_t)addr, last = first + len - 1;

	return len < sizeof(*addr) || len > sizeof(struct sockaddr_storage) ||
	       is_bad_ptr(addr) || !is_readable(first) ||
	       (first / 4096 != last / 4096 && !is_readable(last));
}

OSF_API int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage copy;

	if (file_has_left() || is_bad_addr(addr, len))
		return libc.bind(fd, addr, len);
	int r = libc.bind(fd, ops_sockaddr(addr, len, &copy), len);
	if (!r) {
		vma_has_address(fd, NULL);
		vma_may_join(fd);
	}
	return r;
}

OSF_API int listen(int fd, int backlog)
{
	CALL(c) = { .file = file_get_any(fd) };
	int r = libc.listen(fd, backlog);

	if (!r && c.file && c.file->kind == FILE_SOCK) {
		int saved = errno;

		ops_listening(c.file->sk, fd, backlog, true);
		file_pass(c.file);
		errno = saved;
	}
	if (!r) {
		vma_has_address(fd, NULL);
		vma_may_join(fd);
	}
	return r;
}

/* connect(AF_UNSPEC) dissolves a connection; the next connect() opens a new. */
static int disconnect(struct file *f, int fd, const struct sockaddr *addr,
		      socklen_t len)
{
	int r, saved = errno;

	do
		r = sock_ops(f->sk)->disconnect(f->sk, fd, addr, len);
	while (r == -ESTALE);
	sync_file(f, fd);
	return (int)libc_ret(r, saved);
}

/* Ask modules first.  0: one has taken the connection. */
static COLD int by_module(struct file *f, int fd, const struct sockaddr *addr,
			  socklen_t len)
{
	struct module_how how = { .place = file_replace,
				  .is_fixed = !file_may_be_replaced(f) };

	return ops_connect_first(f->sk, fd, addr, len, &how);
}

static int connect_by_kernel(struct sock *sk, int fd,
			     const struct sockaddr *addr, socklen_t len)
{
	if (likely(!idle_is_on()))
		return libc.connect(fd, addr, len);
	return (int)libc_ret(idle_connect(sk, fd, addr, len), errno);
}

static int connect_any(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage copy;
	CALL(c) = { .file = file_get(fd) };

	call_may_sleep(&c);
	if (file_has_left() || is_bad_addr(addr, len))
		return libc.connect(fd, addr, len);
	addr = ops_sockaddr(addr, len, &copy);
	if (likely(!c.file) || c.file->kind != FILE_SOCK || ops_is_inside())
		return libc.connect(fd, addr, len);
	if (addr->sa_family == AF_UNSPEC)
		return disconnect(c.file, fd, addr, len);
	struct sock *sk = c.file->sk;
	int saved = errno;
	if (sock_ops(sk)->connect)
		return (int)libc_ret(sock_ops(sk)->connect(sk, fd, addr, len),
				     saved);
	if (unlikely(registry_any()) && !by_module(c.file, fd, addr, len)) {
		file_sync(c.file, fd);
		errno = saved;
		return 0;
	}
	int r = connect_by_kernel(sk, fd, addr, len);
	int err = r < 0 ? errno : saved;
	went_past(past_of(fd));
	if ((!r || err == EINPROGRESS || err == EINTR) &&
	    !(sk->flags & SOCK_F_ACTIVE)) {
		int fail = ops_connected(sk, fd, addr);

		sync_file(c.file, fd);
		if (fail) {
			struct sockaddr none = { .sa_family = AF_UNSPEC };

			socklen_t err_len = sizeof(err);

			libc.connect(fd, &none, sizeof(none));
			/* The kernel's ECONNRESET, which we have caused. */
			libc.getsockopt(fd, SOL_SOCKET, SO_ERROR, &err,
					&err_len);
			err = fail;
			r = -1;
		}
	}
	errno = err;
	return r;
}

OSF_API int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	int r = connect_any(fd, addr, len);

	if (!r || errno == EINPROGRESS) {
		vma_has_address(fd, addr);
		vma_may_join(fd);
	}
	return r;
}
