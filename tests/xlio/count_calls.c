/* SPDX-License-Identifier: MIT */
/*
 * tests/xlio/count_calls.c - between libosf.so and libc: counts the system calls that
 * move bytes or ask about sockets
 */
#include <poll.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

PUBLIC unsigned n_recvs, n_sends, n_others;

PUBLIC ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	n_recvs++;
	return syscall(SYS_recvfrom, fd, buf, len, flags, NULL, NULL);
}

PUBLIC ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	n_sends++;
	return syscall(SYS_sendto, fd, buf, len, flags, NULL, 0);
}

#define OTHER(ret, name, params, ...)                                          \
	PUBLIC ret name params                                                 \
	{                                                                      \
		n_others++;                                                    \
		return (ret)syscall(SYS_##name, __VA_ARGS__);                  \
	}

OTHER(ssize_t, read, (int fd, void *buf, size_t len), fd, buf, len)
OTHER(ssize_t, write, (int fd, const void *buf, size_t len), fd, buf, len)
OTHER(ssize_t, readv, (int fd, const struct iovec *iov, int n), fd, iov, n)
OTHER(ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags), fd, msg, flags)
OTHER(ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags), fd, msg,
      flags)
OTHER(int, getsockopt, (int fd, int level, int name, void *val, socklen_t *len),
      fd, level, name, val, len)

PUBLIC int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	struct timespec t = { timeout / 1000, timeout % 1000 * 1000000L };

	n_others++;
	return (int)syscall(SYS_ppoll, fds, n, timeout < 0 ? NULL : &t, NULL,
			    0);
}

PUBLIC int ioctl(int fd, unsigned long req, ...)
{
	va_list ap;

	va_start(ap, req);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	n_others++;
	return (int)syscall(SYS_ioctl, fd, req, arg);
}
