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

/* Is it unreadable, or has an invalid length?  Then pass it on for the kernel to refuse. */
static bool is_bad_addr(const struct sockaddr *addr, socklen_t len)
{
	uintptr_t first = (uintptr_t)addr, last = first + len - 1;

	return len < sizeof(addr->sa_family) ||
	       len > sizeof(struct sockaddr_storage) || is_bad_ptr(addr) ||
	       !is_readable(first) ||
	       (first / 4096 != last / 4096 && !is_readable(last));
}

/* The kernel has refused @addr.  Is it of a family of ours?  Then *copy is the address that
 * the kernel understands.  Only a refusal asks this, because is_readable() is a system call. */
static COLD bool is_renamed(const struct sockaddr *addr, socklen_t len,
			    struct sockaddr_storage *copy)
{
	return !file_has_left() && !is_bad_addr(addr, len) &&
	       ops_sockaddr(addr, len, copy) != addr;
}

OSF_API int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage copy;
	int r = libc.bind(fd, addr, len);

	if (unlikely(r < 0) && is_renamed(addr, len, &copy))
		r = libc.bind(fd, (struct sockaddr *)&copy, len);
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

/* The kernel connects @f, and its connect() has returned @r.  Ours fails all the same if the
 * program insists on a protocol that cannot have the connection. */
static int connected(struct file *f, int fd, const struct sockaddr *addr, int r)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int reset, saved = errno;
	socklen_t len = sizeof(reset);
	int fail = ops_connected(f->sk, fd, addr);

	sync_file(f, fd);
	errno = saved;
	if (likely(!fail))
		return r;
	libc.connect(fd, &none, sizeof(none));
	/* The kernel's ECONNRESET, which we have caused. */
	libc.getsockopt(fd, SOL_SOCKET, SO_ERROR, &reset, &len);
	errno = fail;
	return -1;
}

/* The kernel's connect() on @f has returned @r. */
static int tried(struct file *f, int fd, const struct sockaddr *addr, int r)
{
	int saved = errno;

	went_past(past_of(fd));
	errno = saved;
	return (!r || saved == EINPROGRESS || saved == EINTR) &&
		       !(f->sk->flags & SOCK_F_ACTIVE)
		   ? connected(f, fd, addr, r)
		   : r;
}

/* Somebody has to know the address before the kernel does, and it can be read. */
static COLD int connect_known(struct file *f, int fd,
			      const struct sockaddr *addr, socklen_t len)
{
	const struct sock_ops *ops = sock_ops(f->sk);
	int saved = errno;

	if (addr->sa_family == AF_UNSPEC)
		return disconnect(f, fd, addr, len);
	if (len < sizeof(*addr))
		return libc.connect(fd, addr, len);
	if (ops->connect)
		return (int)libc_ret(ops->connect(f->sk, fd, addr, len), saved);
	if (registry_any() && !by_module(f, fd, addr, len)) {
		file_sync(f, fd);
		errno = saved;
		return 0;
	}
	return tried(f, fd, addr, connect_by_kernel(f->sk, fd, addr, len));
}

/* A socket that was never connected, and that nobody but the kernel connects now. */
static bool is_kernels_first(const struct file *f)
{
	return !(f->sk->flags &
		 (SOCK_F_ACTIVE | SOCK_F_PASSIVE | SOCK_F_LISTEN)) &&
	       !sock_ops(f->sk)->connect && likely(!registry_any()) &&
	       likely(!idle_is_on());
}

static int connect_any(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage copy;
	CALL(c) = { .file = file_get(fd) };
	bool is_ours = c.file && c.file->kind == FILE_SOCK && !ops_is_inside();

	call_may_sleep(&c);
	if (is_ours && !is_kernels_first(c.file) && !file_has_left() &&
	    !is_bad_addr(addr, len))
		return connect_known(c.file, fd, ops_sockaddr(addr, len, &copy),
				     len);
	int r = libc.connect(fd, addr, len);
	if (r < 0 && errno != EINPROGRESS && errno != EINTR &&
	    is_renamed(addr, len, &copy)) {
		addr = (struct sockaddr *)&copy;
		r = libc.connect(fd, addr, len);
	}
	if (!is_ours || file_has_left())
		return r;
	/* The kernel has read the address, unless it has refused it. */
	if (!r && addr->sa_family == AF_UNSPEC)
		return disconnect(c.file, fd, addr, len);
	return tried(c.file, fd, addr, r);
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
