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
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
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

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#define SLOTS 16 /* processes at a time */
#define STACK_BYTES 8192
#define PATIENCE_S 5 /* of a process whose parent says nothing more */
/* How long we wait for an answer of another process, which needs a core.  On a machine that
 * runs at all, the answer comes in time. */
#define ANSWER_NS (10 * NS_PER_S)
/* How long we wait, in all calls together, for a process that sleeps in a call on the
 * peer's socket.  A fallback also waits 2 ms for its peer's bytes: 5 ms in all. */
#define ASLEEP_NS (3 * NS_PER_MS)
/* Count at most this much between two looks: if more time has passed, this thread had no
 * core. */
#define LOOK_NS (2 * NS_PER_MS)
#define FAR_BYTES 4096 /* at a time: they lie on the other process's stack */
#define KEPT_MAX 16
#define WAITING_MAX 16 /* past that, connections stay with the kernel */
#define WAITING_ROOM 1024u
#define LARGE (64 << 20) /* memory that it takes long to free: some 3 ms */
#define MESSAGES_MAX 300 /* max_dgram_qlen is 10 at first */

/* What we ask a process to do with a socket that it holds for us. */
enum { FAR_SEND, FAR_SHUT, FAR_CLOSE };
struct far_request {
	uint32_t what;
	char bytes[FAR_BYTES];
};

/* What one process works on.  It shares our memory, so its stack is ours. */
struct slot {
	uint32_t is_busy; /* the kernel clears it at the process's end */
	uint32_t go;      /* we have closed our descriptor */
	void (*work)(struct slot *s);
	int fd, pid, their_fd, out;
	int keep; /* the one descriptor that is needed there; -1: none */
	int second_pid;
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
	lock_inherit(&lock);
	lock_inherit(&table);
	for (int i = 0; i < SLOTS; i++)
		if (slots[i].is_busy)
			slots[i].is_busy = 0;
}

/*
 * Code that runs in the other process: system calls only.
 */

/* Our descriptor must be the last, so that the program's close() ends nothing.  This process
 * closes it by its end: a socket that lingers waits in a close(), and not at the end of a
 * process. */
static void close_it(struct slot *s)
{
	const struct timespec patience = { .tv_sec = PATIENCE_S };

	while (!load_acq(&s->go) && rawcall(SYS_futex, &s->go, FUTEX_WAIT, 0,
					    &patience, NULL, 0) != -ETIMEDOUT)
		;
}

static void unmap_it(struct slot *s) { rawcall(SYS_munmap, s->map, s->bytes); }

static long option_of(int fd, int name, void *value, socklen_t len)
{
	return rawcall(SYS_getsockopt, fd, SOL_SOCKET, name, value, &len);
}

/* Fails at once on what is no socket. */
static bool is_tcp(int fd)
{
	int type, protocol;

	return !option_of(fd, SO_TYPE, &type, sizeof(type)) &&
	       !option_of(fd, SO_PROTOCOL, &protocol, sizeof(protocol)) &&
	       type == SOCK_STREAM && protocol == IPPROTO_TCP;
}

/* As tcp_end_of(). */
static bool end_there(int fd, struct tcp_end *out)
{
	socklen_t len = sizeof(out->local), peer_len = sizeof(out->peer);

	*out = (struct tcp_end){ 0 };
	option_of(fd, SO_NETNS_COOKIE, &out->netns, sizeof(out->netns));
	return !rawcall(SYS_getsockname, fd, &out->local, &len) &&
	       !rawcall(SYS_getpeername, fd, &out->peer, &peer_len);
}

static bool answer(int out, const void *what, size_t n)
{
	return rawcall(SYS_sendto, out, what, n, MSG_NOSIGNAL, NULL, 0) > 0;
}

/* Does with the socket what we are asked to, until we are asked no more. */
static void serve(int out, int other)
{
	struct far_request r;
	int32_t did = 0;
	long n;

	while (answer(out, &did, sizeof(did))) {
		n = rawcall(SYS_recvfrom, out, &r, sizeof(r), 0, NULL, NULL);
		if (n < (long)offsetof(struct far_request, bytes) ||
		    r.what == FAR_CLOSE)
			return;
		n -= (long)offsetof(struct far_request, bytes);
		did = (int32_t)(r.what == FAR_SHUT
				    ? rawcall(SYS_shutdown, other, SHUT_WR)
				    : rawcall(SYS_sendto, other, r.bytes, n,
					      MSG_DONTWAIT | MSG_NOSIGNAL, NULL,
					      0));
	}
}

/* Says what the descriptor leads to, if it is a TCP socket, and serves. */
static void lend_it(struct slot *s)
{
	struct tcp_end end;
	int got = s->their_fd;

	if (!s->is_ours) {
		long pidfd = rawcall(SYS_pidfd_open, s->pid, 0);
		got = (int)rawcall(SYS_pidfd_getfd, pidfd, s->their_fd, 0);
		rawcall(SYS_close, pidfd);
	}
	if (got >= 0 && is_tcp(got) && end_there(got, &end) &&
	    answer(s->out, &end, sizeof(end)))
		serve(s->out, got);
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

	/* The program goes on when this process has ended.  By then this
	 * process must not hold the program's sockets open. */
	kept_close_others(s->keep, s->is_ours ? s->their_fd : -1, -1);
	s->second_pid =
	    libc.clone(run_second, s->second + STACK_BYTES,
		       CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_CHILD_CLEARTID,
		       s, NULL, NULL, &s->is_busy);
	if (s->second_pid < 0)
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

/* Keep the file open under the number that it has: to move it to another number is to close
 * it. */
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

/* Is anything queued?  A message without bytes may carry descriptors all the same, and may
 * hide another message behind it.  So have the kernel add control data to each message, for
 * which there is no room: MSG_CTRUNC then says that there was a message. */
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
	/* Without a free descriptor we cannot accept those who have connected: the process
	 * that closes the listener closes them, too. */
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

/* In a call that no signal ends. */
static bool is_asleep(pid_t pid)
{
	char path[32], text[128] = "";

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	int fd = nocancel_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (fd >= 0) {
		if (nocancel_read(fd, text, sizeof(text) - 1) < 0)
			text[0] = '\0';
		nocancel_close(fd);
	}
	const char *at = strrchr(text, ')');
	return at && !strncmp(at, ") D", 3);
}

/* Waits for an answer of @len bytes.  Return: 0; -EOWNERDEAD: it has ended; -ETIMEDOUT */
static int far_answer(struct far_end *far, void *out, size_t len)
{
	struct pollfd p = { .fd = far->channel, .events = POLLIN };
	uint64_t start = now_ns(), last = start, now = start;

	while (now - start < ANSWER_NS && far->asleep_ns < ASLEEP_NS) {
		if (nocancel_poll(&p, 1, 1) > 0)
			return nocancel_recv(far->channel, out, len,
					     MSG_DONTWAIT) == (ssize_t)len
				   ? 0
				   : -EOWNERDEAD;
		now = now_ns();
		if (is_asleep(far->pid))
			far->asleep_ns += MIN(now - last, LOOK_NS);
		last = now;
	}
	return -ETIMEDOUT;
}

static void far_ask(const struct far_end *far, uint32_t what, const void *bytes,
		    size_t n)
{
	struct iovec iov[] = { { &what, sizeof(what) }, { (void *)bytes, n } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	nocancel_sendmsg(far->channel, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void far_close(struct far_end *far)
{
	if (far->channel < 0)
		return;
	far_ask(far, FAR_CLOSE, NULL, 0);
	nocancel_close(far->channel);
	far->channel = -1;
}

ssize_t far_send(struct far_end *far, const void *bytes, size_t n)
{
	int32_t did;

	far_ask(far, FAR_SEND, bytes, MIN(n, (size_t)FAR_BYTES));
	int err = far_answer(far, &did, sizeof(did));
	return err ? err : did;
}

int far_shut(struct far_end *far)
{
	int32_t did;

	far_ask(far, FAR_SHUT, NULL, 0);
	return far_answer(far, &did, sizeof(did));
}

/* A process that has @their_fd of @pid, or finds that it is of no use, and ends. */
static bool lend(int pair[2], pid_t pid, int their_fd, struct far_end *out)
{
	struct slot *s = slot_get();

	if (!s)
		return false;
	s->work = lend_it;
	s->pid = pid;
	s->is_ours = pid == getpid();
	s->their_fd = their_fd;
	s->out = s->keep = pair[1];
	if (!start(s))
		return false;
	*out = (struct far_end){ .channel = pair[0], .pid = s->second_pid };
	return s->second_pid > 0;
}

static bool is_other_end(int fd, struct far_end *far)
{
	struct tcp_end ours, theirs;
	int32_t did;

	return !far_answer(far, &theirs, sizeof(theirs)) &&
	       !far_answer(far, &did, sizeof(did)) && tcp_end_of(fd, &ours) &&
	       are_two_ends(&ours, &theirs);
}

int far_open(int fd, pid_t pid, int their_fd, struct far_end *out)
{
	struct far_end far;
	int pair[2], saved = errno;

	if (pid <= 0 || their_fd < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	bool is_there = lend(pair, pid, their_fd, &far);
	nocancel_close(pair[1]);
	if (!is_there)
		nocancel_close(pair[0]);
	else if (is_other_end(fd, &far))
		*out = far;
	else {
		far_close(&far);
		is_there = false;
	}
	errno = saved;
	return is_there ? 0 : -1;
}
