/* SPDX-License-Identifier: MIT */
/*
 * tests/packetdrill/host.h - sockets that may block, over a back end in virtual time
 *
 *     entry.c (the tool's table) -> socket.c, data.c, wait.c -> struct backend
 *
 * The back end's sockets are numbers and never block.  Here each has a kernel
 * descriptor, which reserves its number and makes the tool's own close() work.  Calls
 * here may block.
 *
 * The owner is the thread that made the host.  Time advances only in calls of the
 * owner, or when another thread asks for the time again and again.  Another thread that
 * blocks sleeps until the owner has let something happen.  The owner then waits until
 * all sleepers have looked, and until those that were woken have made their next call
 * (or seem to have none).  So they see the time at which it happened.  A blocking call
 * of the owner advances time itself.
 *
 * Lock: host->lock; all functions here except host_enter() need it.  Functions return 0
 * or a negative errno; entry.c turns that into -1 and errno.
 */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/clock.h"
#include "interface.h"
#include "../script/backend.h"

#define FILES_MAX 4096
#define WATCHES_MAX 64
#define NEVER UINT64_MAX

enum file_kind {
	FILE_NONE, /* not ours: the kernel's */
	FILE_SOCKET,
	FILE_EPOLL,
};

struct watch {
	int fd; /* -1: free */
	uint32_t events;
	epoll_data_t data;
	uint32_t seen;  /* the events at the last look */
	int n_readable; /* bytes, at the last look */
	bool is_new;    /* something has happened that was not reported */
	bool is_off;    /* EPOLLONESHOT has fired */
};

struct file {
	enum file_kind kind;
	int sock; /* the back end's number */
	int domain;
	bool is_nonblock;
	bool is_inq;                             /* TCP_INQ */
	struct timeval rcv_timeout, snd_timeout; /* 0: none */
	struct linger linger;
	struct watch *watches; /* of an epoll: WATCHES_MAX */
};

struct host {
	struct backend b;
	pthread_mutex_t lock;
	pthread_cond_t moved, looked;
	pthread_t owner;
	uint64_t n_moves;             /* counts what the owner let happen */
	unsigned n_blocked;           /* threads that sleep in host_wait() */
	unsigned n_looking;           /* of those, who has not looked since */
	bool is_local_known;          /* our address has been used */
	uint64_t limit_ns;            /* after which waiting is in vain */
	char sysctls[256];            /* the folder: see settings.c */
	uint32_t settings_kept;       /* a bit each, by a flag */
	uint8_t *packet;              /* BACKEND_PACKET_MAX */
	struct file files[FILES_MAX]; /* by descriptor */
};

/* host.c */
void host_enter(struct host *h);
void host_leave(struct host *h);
uint64_t host_now(struct host *h);
void host_moved(struct host *h);
void host_sleep(struct host *h, uint64_t until_ns);
MUST_CHECK int host_wait(struct host *h, uint64_t until_ns);
uint64_t host_deadline(struct host *h, const struct timeval *timeout);
ssize_t host_receive(struct host *h, void *p, size_t cap, uint64_t *at_ns);
MUST_CHECK int file_new(struct host *h, enum file_kind kind, int fd,
			struct file **out);
struct file *file_get(struct host *h, int fd, enum file_kind kind);

/* settings.c */
void settings_keep(struct host *h, const char *name);
void settings_look(struct host *h);

/* socket.c */
int pd_socket(struct host *h, int domain, int type, int protocol);
int pd_bind(struct host *h, int fd, const struct sockaddr *a, socklen_t len);
int pd_listen(struct host *h, int fd, int backlog);
int pd_accept(struct host *h, int fd, struct sockaddr *a, socklen_t *len);
int pd_connect(struct host *h, int fd, const struct sockaddr *a, socklen_t len);
int pd_close(struct host *h, int fd);
int pd_shutdown(struct host *h, int fd, int how);
int pd_fcntl(struct host *h, int fd, int cmd, long arg);
int pd_ioctl(struct host *h, int fd, unsigned long what, void *arg);
int pd_getsockopt(struct host *h, int fd, int level, int name, void *v,
		  socklen_t *len);
int pd_setsockopt(struct host *h, int fd, int level, int name, const void *v,
		  socklen_t len);

/* data.c */
ssize_t pd_recv(struct host *h, int fd, void *buf, size_t len, int flags);
ssize_t pd_send(struct host *h, int fd, const void *buf, size_t len, int flags);
ssize_t pd_recv_iov(struct host *h, int fd, const struct iovec *iov, size_t n,
		    int flags);
ssize_t pd_send_iov(struct host *h, int fd, const struct iovec *iov, size_t n,
		    int flags);
int pd_pipe(struct host *h, int fds[2]);
ssize_t pd_splice(struct host *h, int in, loff_t *off_in, int out,
		  loff_t *off_out, size_t len, unsigned flags);

/* wait.c */
int pd_poll(struct host *h, struct pollfd *fds, nfds_t n, int timeout_ms);
int pd_epoll_create(struct host *h, int size);
int pd_epoll_ctl(struct host *h, int epfd, int op, int fd,
		 struct epoll_event *ev);
int pd_epoll_wait(struct host *h, int epfd, struct epoll_event *evs, int max,
		  int timeout_ms);
void epoll_forget(struct host *h, int fd);
void epoll_look(struct host *h);
