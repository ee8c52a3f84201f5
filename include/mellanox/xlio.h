/* SPDX-License-Identifier: MIT */
/*
 * mellanox/xlio.h - the XLIO socket API, over whatever moves the bytes
 *
 *     init -> group -> socket -> connect or listen -> poll: callbacks -> destroy
 *
 * A group and its sockets belong to one thread at a time; groups share nothing.
 * Sockets are TCP over IPv4 or IPv6, never block, and take all bytes of a send or
 * none.  Nothing happens but inside these calls, most of it inside
 * xlio_poll_group_poll().
 *
 * Functions that return int return 0, or -1 with errno; each may fail with EINVAL
 * for a handle that is stale or of the wrong kind and for a NULL that must not be;
 * what else they fail with is listed.  Those that return nothing set errno to
 * EINVAL for such a handle and do nothing.  In a child of fork() all handles of
 * the parent are stale.
 */
#ifndef XLIO_H
#define XLIO_H

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include <mellanox/xlio_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_pd;
struct mmsghdr;

/* The C library's calls under names of their own: what osf answers for, it answers
 * for here too, preloaded or not. */
int xlio_socket(int domain, int type, int protocol);
int xlio_close(int fd);
int xlio_shutdown(int fd, int how);
int xlio_listen(int fd, int backlog);
int xlio_accept(int fd, struct sockaddr *addr, socklen_t *addrlen);
int xlio_accept4(int fd, struct sockaddr *addr, socklen_t *addrlen, int flags);
int xlio_bind(int fd, const struct sockaddr *addr, socklen_t addrlen);
int xlio_connect(int fd, const struct sockaddr *to, socklen_t tolen);
int xlio_setsockopt(int fd, int level, int optname, const void *optval,
		    socklen_t optlen);
int xlio_getsockopt(int fd, int level, int optname, void *optval,
		    socklen_t *optlen);
int xlio_fcntl(int fd, int cmd, ...);
int xlio_fcntl64(int fd, int cmd, ...);
int xlio_getsockname(int fd, struct sockaddr *name, socklen_t *namelen);
int xlio_getpeername(int fd, struct sockaddr *name, socklen_t *namelen);
ssize_t xlio_read(int fd, void *buf, size_t nbytes);
ssize_t xlio_readv(int fd, const struct iovec *iov, int iovcnt);
ssize_t xlio_recv(int fd, void *buf, size_t nbytes, int flags);
ssize_t xlio_recvmsg(int fd, struct msghdr *msg, int flags);
int xlio_recvmmsg(int fd, struct mmsghdr *mmsghdr, unsigned int vlen, int flags,
		  const struct timespec *timeout);
ssize_t xlio_recvfrom(int fd, void *buf, size_t nbytes, int flags,
		      struct sockaddr *from, socklen_t *fromlen);
ssize_t xlio_write(int fd, const void *buf, size_t nbytes);
ssize_t xlio_writev(int fd, const struct iovec *iov, int iovcnt);
ssize_t xlio_send(int fd, const void *buf, size_t nbytes, int flags);
ssize_t xlio_sendmsg(int fd, const struct msghdr *msg, int flags);
int xlio_sendmmsg(int fd, struct mmsghdr *mmsghdr, unsigned int vlen,
		  int flags);
ssize_t xlio_sendto(int fd, const void *buf, size_t nbytes, int flags,
		    const struct sockaddr *to, socklen_t tolen);
ssize_t xlio_sendfile(int out_fd, int in_fd, off_t *offset, size_t count);
ssize_t xlio_sendfile64(int out_fd, int in_fd, int64_t *offset, size_t count);
int xlio_select(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
		struct timeval *timeout);
int xlio_pselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
		 const struct timespec *timeout, const sigset_t *sigmask);
int xlio_poll(struct pollfd *fds, nfds_t nfds, int timeout);
int xlio_ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout,
	       const sigset_t *sigmask);
int xlio_epoll_create(int size);
int xlio_epoll_create1(int flags);
int xlio_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int xlio_epoll_wait(int epfd, struct epoll_event *events, int maxevents,
		    int timeout);
int xlio_epoll_pwait(int epfd, struct epoll_event *events, int maxevents,
		     int timeout, const sigset_t *sigmask);
int xlio_socketpair(int domain, int type, int protocol, int sv[2]);
int xlio_pipe(int filedes[2]);
int xlio_open(const char *file, int oflag, ...);
int xlio_creat(const char *pathname, mode_t mode);
int xlio_dup(int fildes);
int xlio_dup2(int fildes, int fildes2);

/**
 * xlio_add_conf_rule() - put a rule before those that are in force
 * @config_line: one line of docs/rules.md, as "use os tcp_client *:80"
 *
 * Return: 0, or -1: EINVAL the line is no rule; ENOMEM.
 * Context: any; sockets that exist keep what was decided for them.
 */
int xlio_add_conf_rule(const char *config_line);

/**
 * xlio_thread_offload() - are sockets that a thread makes to be offloaded?
 * @offload: 0 no, 1 yes
 * @tid: the calling thread, as pthread_self() names it
 *
 * Return: 0, or -1: EINVAL @offload is neither; ESRCH @tid is another thread.
 */
int xlio_thread_offload(int offload, pthread_t tid);

/**
 * xlio_dump_fd_stats() - write what is known of sockets to standard error
 * @fd: of which; 0: of all
 * @log_level: of libxlio; taken and not looked at
 *
 * Return: 0, or -1: EBADF nothing is known of @fd.
 */
int xlio_dump_fd_stats(int fd, int log_level);

/**
 * xlio_init_ex() - prepare the API in this process
 * @attr: may go away afterwards
 *
 * Return: 0, or -1: EINVAL @attr is NULL, or has unknown flags or one of the two
 * allocator functions; EEXIST @attr has an allocator, and it is prepared already;
 * ENOMEM.  The second time without an allocator it returns 0 and changes nothing.
 * Context: one thread, before all others of this part.
 */
int xlio_init_ex(const struct xlio_init_attr *attr);

/* xlio_init() - the same with nothing set. */
int xlio_init(void);

/**
 * xlio_exit() - destroy all groups and sockets, and forget what was prepared
 *
 * Sockets end as by xlio_poll_group_destroy(), their TERMINATED comes from here.
 * Received data that the application still has is no longer valid.
 *
 * Return: 0.
 * Context: no other thread is inside the API, and not from a callback (-1, EBUSY).
 */
int xlio_exit(void);

/**
 * xlio_poll_group_create() - make a group
 *
 * Return: 0 with *@group_out, or -1: EINVAL also for unknown flags and without
 * socket_event_cb; ENOMEM; EMFILE no descriptor is left.
 * Owns: the caller, until xlio_poll_group_destroy().
 */
int xlio_poll_group_create(const struct xlio_poll_group_attr *attr,
			   xlio_poll_group_t *group_out);

/**
 * xlio_poll_group_destroy() - end a group and the sockets in it
 *
 * What the kernel or the peer has been given is delivered, what waits to be sent
 * is not; operations complete, and each socket gets its TERMINATED, inside this
 * call.
 *
 * Return: 0, or -1: EBUSY from a callback of this group.
 */
int xlio_poll_group_destroy(xlio_poll_group_t group);

/**
 * xlio_poll_group_update() - other callbacks
 *
 * Return: 0, or -1: EINVAL also when @attr has other flags than the group, or no
 * socket_event_cb.
 */
int xlio_poll_group_update(xlio_poll_group_t group,
			   const struct xlio_poll_group_attr *attr);

/* xlio_poll_group_poll() - one turn: arrivals, completions, ends.  Never blocks.
 * From a callback of the same group it does nothing: errno is EBUSY. */
void xlio_poll_group_poll(xlio_poll_group_t group);

/**
 * xlio_socket_create() - make a socket in a group
 *
 * Return: 0 with *@sock_out, or -1: EINVAL also for a domain that is not AF_INET or
 * AF_INET6 and for flags; ENOMEM; EMFILE, ENFILE no descriptor is left.
 * Owns: the caller, until TERMINATED.
 */
int xlio_socket_create(const struct xlio_socket_attr *attr,
		       xlio_socket_t *sock_out);

/**
 * xlio_socket_destroy() - close a socket
 *
 * Marks it; the rest happens in the next polls: what was sent is flushed and
 * delivered, operations complete, then comes TERMINATED.  Nothing is received any
 * more.  With SO_LINGER and no time the connection is reset instead.
 *
 * Return: 0, or -1: EINVAL also the second time.
 * Context: the group's thread, any callback.  A socket in no group gets its
 * TERMINATED here.
 */
int xlio_socket_destroy(xlio_socket_t sock);

/* xlio_socket_update() - another userdata_sq.  @flags is 0, else EINVAL. */
int xlio_socket_update(xlio_socket_t sock, unsigned flags,
		       uintptr_t userdata_sq);

/* xlio_socket_setsockopt() - setsockopt(2), with its errors; TCP_USER_TIMEOUT
 * bounds connecting, too.  SO_MAX_PACING_RATE: see struct xlio_rate_limit_t, EINVAL
 * for another length.  SO_XLIO_RING_ALLOC_LOGIC (EINVAL: another length than its
 * struct's), SO_XLIO_EXT_VLAN_TAG (EINVAL: not an int from 0 to 4095) and
 * SO_XLIO_SHUTDOWN_RX are taken without effect. */
int xlio_socket_setsockopt(xlio_socket_t sock, int level, int optname,
			   const void *optval, socklen_t optlen);

/* xlio_socket_getsockname(), xlio_socket_getpeername() - as getsockname(2) and
 * getpeername(2), with their errors; EFAULT for NULL. */
int xlio_socket_getsockname(xlio_socket_t sock, struct sockaddr *addr,
			    socklen_t *addrlen);
int xlio_socket_getpeername(xlio_socket_t sock, struct sockaddr *addr,
			    socklen_t *addrlen);

/* xlio_socket_bind() - bind(2), with its errors. */
int xlio_socket_bind(xlio_socket_t sock, const struct sockaddr *addr,
		     socklen_t addrlen);

/**
 * xlio_socket_connect() - begin to connect
 *
 * What comes of it is told by ESTABLISHED or ERROR.
 *
 * Return: 0, or -1: EISCONN it is connected; EALREADY it is connecting;
 * ECONNABORTED it has failed before; EINVAL it listens, or is in no group;
 * EAFNOSUPPORT, EADDRNOTAVAIL, EADDRINUSE, EACCES, EPERM as connect(2).
 */
int xlio_socket_connect(xlio_socket_t sock, const struct sockaddr *to,
			socklen_t tolen);

/**
 * xlio_socket_listen() - accept connections, by socket_accept_cb
 *
 * The queue is as long as the system allows (somaxconn).
 *
 * Return: 0, or -1: ENOTCONN the group has no socket_accept_cb; EINVAL it is
 * connected, or not bound; EADDRINUSE.
 */
int xlio_socket_listen(xlio_socket_t sock);

/**
 * xlio_socket_get_pd() - where memory to send from may be registered
 *
 * ibv_reg_mr() on it gives an lkey, with the system's libibverbs or without it.  Under
 * `osf run' it is a domain of the RDMA device osf0, which may have queue pairs, too.
 *
 * Return: never freed, the same for all sockets; NULL, EINVAL, before connect, and
 *   with another errno where the device cannot be opened.
 */
struct ibv_pd *xlio_socket_get_pd(xlio_socket_t sock);

/**
 * xlio_socket_detach_group() - take a connected socket out of its group
 *
 * Nothing is lost: what arrives meanwhile waits.
 *
 * Return: 0, or -1: EINVAL also when it is not connected or in no group; ENOTSUP
 * it listens.
 * Context: the group's thread.  Any thread may go on with it afterwards.
 */
int xlio_socket_detach_group(xlio_socket_t sock);

/**
 * xlio_socket_attach_group() - put it into a group
 *
 * Return: 0, or -1: EINVAL also when it is in one; ENOMEM.
 * Context: the new group's thread.
 */
int xlio_socket_attach_group(xlio_socket_t sock, xlio_poll_group_t group);

/**
 * xlio_socket_send() - queue bytes: all, or none
 * @data: not to be changed before the operation completes, unless it is inline; an
 *        operation without a completion is through when a later one completes
 * @len: bytes; with 0 it completes when all before it has
 *
 * Sent when flushed, no sooner.
 *
 * Return: 0, or -1: EINVAL also for unknown flags; EAGAIN still connecting;
 * ENOTCONN neither connected nor connecting; EPIPE it is being destroyed;
 * ECONNRESET, ECONNREFUSED, ETIMEDOUT, ECONNABORTED, ENOBUFS the connection has
 * failed, as ERROR said; ENOMEM nothing was queued, and it may be tried again.
 */
int xlio_socket_send(xlio_socket_t sock, const void *data, size_t len,
		     const struct xlio_socket_send_attr *attr);

/* xlio_socket_sendv() - the same of several places; @iov may go away afterwards. */
int xlio_socket_sendv(xlio_socket_t sock, const struct iovec *iov,
		      unsigned iovcnt,
		      const struct xlio_socket_send_attr *attr);

/* xlio_poll_group_flush() - send what the sockets of a group with
 * XLIO_GROUP_FLAG_DIRTY have gathered. */
void xlio_poll_group_flush(xlio_poll_group_t group);

/* xlio_socket_flush() - send what one has gathered. */
void xlio_socket_flush(xlio_socket_t sock);

/* xlio_socket_buf_free(), xlio_poll_group_buf_free() - return received data.  The
 * handle only says whose thread is calling; that of a socket must not be stale. */
void xlio_socket_buf_free(xlio_socket_t sock, struct xlio_buf *buf);
void xlio_poll_group_buf_free(xlio_poll_group_t group, struct xlio_buf *buf);

#ifdef __cplusplus
}
#endif

#endif
