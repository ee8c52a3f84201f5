/* SPDX-License-Identifier: MIT */
/* proto/shm/elsewhere.c - see proto/shm/elsewhere.h */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/fds.h"
#include "base/fork_lock.h"
#include "base/kept.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "base/rawcall.h"
#include "proto/shm/elsewhere.h"
#include "proto/shm/rendezvous.h"
#include "proto/shm/segment.h"
#include "proto/shm/trust.h"

#define SLOTS 16 /* processes at a time */
#define STACK_BYTES 8192
#define PATIENCE_S 5 /* of a process whose parent says nothing more */
/* How long we wait for an answer.  The peer cannot delay it, because the kernel
 * answers; but the other process needs a core.  On a machine that runs at all,
 * the answer comes in time. */
#define BORROW_MS 10000
#define KEPT_MAX 16
#define WAITING_MAX 16 /* past that, connections stay with the kernel */
#define WAITING_ROOM 1024u
#define LARGE (64 << 20) /* memory that it takes long to free: some 3 ms */
#define MESSAGES_MAX 300 /* max_dgram_qlen is 10 at first */

/* What one process works on.  It shares our memory, so its stack is ours. */
struct slot {
	uint32_t is_busy; /* the kernel clears it at the process's end */
	uint32_t go;      /* we have closed our descriptor */
	void (*work)(struct slot *s);
	int fd, pid, their_fd, out;
	int keep; /* the one descriptor that is needed there; -1: none */
	void *map;
	size_t bytes;
	bool is_ours; /* @their_fd is one of our own */
	alignas(16) uint8_t first[STACK_BYTES];
	alignas(16) uint8_t second[STACK_BYTES];
};

static struct slot slots[SLOTS];
static struct lock lock;
static struct {
	uint32_t n;
	int fd[WAITING_ROOM];
} waiting; /* to be closed by a process, when there is one for it */
/* A thread that receives descriptors holds this lock until it knows which of
 * them are files.  A thread that copies the descriptor table holds it, too. */
static struct lock table;

static void after_fork(void)
{
	lock = table = (struct lock){ 0 };
	for (int i = 0; i < SLOTS; i++)
		slots[i].is_busy = 0;
}

/*
 * Code that runs in the other process: system calls only.
 */

/* Our descriptor must be the last, so that the program's close() ends nothing. */
static void close_it(struct slot *s)
{
	const struct timespec patience = { .tv_sec = PATIENCE_S };

	while (!load_acq(&s->go) && rawcall(SYS_futex, &s->go, FUTEX_WAIT, 0,
					    &patience, NULL, 0) != -ETIMEDOUT)
		;
	rawcall(SYS_close, s->fd);
}

static void unmap_it(struct slot *s) { rawcall(SYS_munmap, s->map, s->bytes); }

static int option_of(int fd, int name)
{
	int v = -1;
	socklen_t len = sizeof(v);

	return rawcall(SYS_getsockopt, fd, SOL_SOCKET, name, &v, &len) ? -1 : v;
}

/* Fails at once on what is no socket. */
static bool is_tcp(int fd)
{
	return option_of(fd, SO_TYPE) == SOCK_STREAM &&
	       option_of(fd, SO_PROTOCOL) == IPPROTO_TCP;
}

static void send_it(int out, int fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	*(int *)CMSG_DATA(c) = fd;
	rawcall(SYS_sendmsg, out, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Send the descriptor back if it is a TCP socket. */
static void borrow_it(struct slot *s)
{
	int got = s->their_fd;

	if (!s->is_ours) {
		long pidfd = rawcall(SYS_pidfd_open, s->pid, 0);
		got = (int)rawcall(SYS_pidfd_getfd, pidfd, s->their_fd, 0);
		rawcall(SYS_close, pidfd);
	}
	if (got >= 0 && is_tcp(got))
		send_it(s->out, got);
	rawcall(SYS_close, s->out);
}

static int run_second(void *arg)
{
	struct slot *s = arg;

	rawcall(SYS_setsid);
	s->work(s);
	rawcall(SYS_exit, 0);
	return 0;
}

static int run_first(void *arg)
{
	struct slot *s = arg;

	if (s->is_ours) {
		s->work(s);
		store_rel(&s->is_busy, 0u);
		rawcall(SYS_exit, 0);
	}
	/* The program goes on when this process has ended.  By then this
	 * process must not hold the program's sockets open. */
	kept_close_others(s->keep, -1);
	if (libc.clone(run_second, s->second + STACK_BYTES,
		       CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_CHILD_CLEARTID,
		       s, NULL, NULL, &s->is_busy) < 0)
		store_rel(&s->is_busy, 0u);
	rawcall(SYS_exit, 0);
	return 0;
}

/*
 * Code that runs in the program.
 */

static struct slot *slot_get(void)
{
	static uint32_t knows;

	if (!xchg(&knows, 1u))
		fork_lock_on_child(after_fork);
	GUARD(&lock);
	for (int i = 0; i < SLOTS; i++)
		if (!load_acq(&slots[i].is_busy)) {
			slots[i].is_busy = 1;
			slots[i].go = 0;
			return &slots[i];
		}
	return NULL;
}

/* Start a process that has a copy of our descriptors. */
static bool start(struct slot *s)
{
	int saved = errno, status;
	sigset_t all, was;

	/* A handler of the program must not run there. */
	sigfillset(&all);
	rawcall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &was, 8);
	lock_get(&table);
	int pid = libc.clone(run_first, s->first + STACK_BYTES,
			     CLONE_VM | CLONE_VFORK, s);
	if (pid < 0)
		store_rel(&s->is_busy, 0u);
	else
		while (rawcall(SYS_wait4, pid, &status, __WALL, NULL) == -EINTR)
			;
	lock_put(&table);
	rawcall(SYS_rt_sigprocmask, SIG_SETMASK, &was, NULL, 8);
	errno = saved;
	return pid >= 0;
}

/* Close @fd there.  False: it stays open. */
static bool close_elsewhere(int fd)
{
	struct slot *s = slot_get();

	if (!s)
		return false;
	s->work = close_it;
	s->is_ours = false;
	s->fd = s->keep = fd;
	if (!start(s))
		return false;
	fds_close(fd);
	store_rel(&s->go, 1u);
	rawcall(SYS_futex, &s->go, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	return true;
}

/* At the number that it has: to move it is to close it. */
static void keep(int fd)
{
	kept_add(fd);
	log_warn("a file that a peer sent stays open: %d", fd);
}

/* Other processes are busy with what strangers have sent. */
static void close_later(int fd)
{
	GUARD(&lock);
	if (waiting.n < WAITING_ROOM)
		waiting.fd[waiting.n++] = fd;
	log_info("descriptor %d is to be closed later", fd);
}

static int next_waiting(void)
{
	GUARD(&lock);
	return waiting.n ? waiting.fd[--waiting.n] : -1;
}

/* Lets go of a socket, or of a descriptor without a file.  If it cannot be
 * closed yet, it moves to a number that the program does not see, which closes
 * only a second number of the same file. */
static void let_go(int fd)
{
	if (!close_elsewhere(fd))
		close_later(fds_is_ours(fd) ? fd : fds_hide(fd));
}

static void close_waiting(void)
{
	int fd;

	while (load_rlx(&waiting.n) && (fd = next_waiting()) >= 0)
		if (!close_elsewhere(fd)) {
			close_later(fd);
			return;
		}
}

bool discard_is_full(void)
{
	close_waiting();
	return kept_count() >= KEPT_MAX || load_rlx(&waiting.n) >= WAITING_MAX;
}

/* Memory.  The question fails at once on anything else. */
static bool is_memory(int fd, bool *is_large)
{
	bool is_sealed = sealed_is(fd);
	struct stat st;

	*is_large = is_sealed && (libc.fstat(fd, &st) || st.st_size > LARGE);
	return is_sealed;
}

static bool is_timer(int fd)
{
	struct itimerspec at;

	return !timerfd_gettime(fd, &at);
}

/* Harmless memory and timers, and what is no file, which can be closed elsewhere. */
static bool is_to_keep(int fd)
{
	bool is_large;

	return !is_memory(fd, &is_large) && !is_timer(fd) && kept_is_file(fd);
}

ssize_t receive_passed(int channel, struct msghdr *msg, int *fds, size_t *n_fds)
{
	GUARD(&table);
	ssize_t n =
	    nocancel_recvmsg(channel, msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int saved = errno;

	*n_fds = 0;
	for (struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		*n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(c), *n_fds * sizeof(int));
	}
	for (size_t i = 0; i < *n_fds; i++)
		if (is_to_keep(fds[i])) {
			keep(fds[i]);
			fds[i] = -1;
		}
	errno = saved;
	return n;
}

/* Receive what a process that we trust has queued: mostly it is in order. */
static void drain(int fd)
{
	struct hello h;
	int fds[HELLO_FDS];

	for (int i = 0; i < MESSAGES_MAX; i++) {
		int err = hello_recv(fd, &h, fds);

		for (int k = 0; !err && k < HELLO_FDS; k++)
			discard_passed(fds[k]);
		if (err == -EPIPE || err == -EAGAIN)
			return;
	}
}

/* Is anything queued?  A message may be empty, and have descriptors all the same, or hide
 * one that has.  So ask for a part of each message that there is no room for. */
static bool has_more(int fd)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	int one = 1;

	libc.setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one));
	return nocancel_recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT) > 0 ||
	       msg.msg_flags & MSG_CTRUNC;
}

void discard_channel(int fd)
{
	if (fd <= 0)
		return;
	libc.shutdown(fd, SHUT_RDWR); /* nothing more comes */
	bool is_full = has_more(fd);
	if (is_full && !trust_check(fd)) {
		drain(fd);
		is_full = has_more(fd);
	}
	if (!is_full)
		fds_close(fd);
	else
		let_go(fd);
}

void discard_listener(int fd)
{
	int ch, saved = errno;

	libc.shutdown(fd, SHUT_RDWR); /* nobody can connect any more */
	while ((ch = nocancel_accept4(fd, NULL, NULL,
				      SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
		discard_channel(ch);
	/* Without a free number, those who have connected stay in there. */
	if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
		let_go(fd);
	else
		fds_close(fd);
	errno = saved;
}

void discard_map(void *map, size_t bytes)
{
	struct slot *s = bytes > LARGE ? slot_get() : NULL;

	if (s) {
		s->work = unmap_it;
		s->is_ours = false;
		s->keep = -1;
		s->map = map;
		s->bytes = bytes;
	}
	if (!s || !start(s))
		munmap(map, bytes);
}

void discard_passed(int fd)
{
	bool is_large;
	int saved = errno;

	if (fd < 0)
		return;
	bool is_good = is_memory(fd, &is_large) || is_timer(fd);
	errno = saved;
	if (is_good) {
		if (!is_large || !close_elsewhere(fd))
			nocancel_close(fd);
		return;
	}
	if (kept_is_file(fd))
		keep(fd);
	else
		let_go(fd);
}

/* The descriptor that the other process sends, or -1. */
static int receive_it(int fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int got = -1;

	if (nocancel_poll(&p, 1, BORROW_MS) != 1 ||
	    nocancel_recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1)
		return -1;
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&got, CMSG_DATA(c), sizeof(got));
	return got;
}

static int borrow_over(int pair[2], int fd, pid_t pid, int their_fd)
{
	struct slot *s = slot_get();

	if (!s)
		return -1;
	s->work = borrow_it;
	s->pid = pid;
	s->is_ours = pid == getpid();
	s->their_fd = their_fd;
	s->out = s->keep = pair[1];
	if (!start(s))
		return -1;
	nocancel_close(pair[1]);
	pair[1] = -1;
	int other = receive_it(pair[0]);
	if (other < 0 || are_two_ends(fd, other))
		return other;
	discard_passed(other);
	return -1;
}

int borrow_other_end(int fd, pid_t pid, int their_fd)
{
	int pair[2], saved = errno, other;

	if (pid <= 0 || their_fd < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	other = borrow_over(pair, fd, pid, their_fd);
	nocancel_close(pair[0]);
	if (pair[1] >= 0)
		nocancel_close(pair[1]);
	errno = saved;
	return other;
}
