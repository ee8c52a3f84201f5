/* SPDX-License-Identifier: MIT */
/* tests/app/calls_raw.c - scenarios: the connection reached past libc's socket
 * calls: syscall(), io_uring, asynchronous I/O; and code that runs at a
 * program's edges, in constructors and unloaded libraries (see calls_part.h) */
#include "calls_part.h"

#include <aio.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* --- syscall() --- */

static void raw_got(struct ctx *x, const char *what, long r)
{
	res(what, r);
	got(x, buf, r);
}

static void after(struct ctx *x, const char *script)
{
	play(x, script);
	play(x, "s10r10w10f10");
}

SCENARIO(process_syscall_read)
{
	play(x, "w60s100r10");
	raw_got(x, "read", syscall(SYS_read, x->fd, buf, n(40)));
	raw_got(x, "recvfrom",
		syscall(SYS_recvfrom, x->fd, buf, n(20), 0, NULL, NULL));
	play(x, "r10");
	raw_got(x, "read", syscall(SYS_read, x->fd, buf, n(100)));
	errno = 0;
	raw_got(
	    x, "empty",
	    syscall(SYS_recvfrom, x->fd, buf, n(20), MSG_DONTWAIT, NULL, NULL));
	after(x, "f60");
}

SCENARIO(process_syscall_write)
{
	play(x, "w60s100");
	made(x, buf, 40);
	RES("write", syscall(SYS_write, x->fd, buf, n(40)));
	made(x, buf, 20);
	RES("sendto",
	    syscall(SYS_sendto, x->fd, buf, n(20), MSG_NOSIGNAL, NULL, 0));
	after(x, "w30f150r100");
}

SCENARIO(process_syscall_vectors)
{
	struct iovec iov = { buf, 30 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	play(x, "w60s100");
	raw_got(x, "readv", syscall(SYS_readv, x->fd, &iov, 1));
	raw_got(x, "recvmsg", syscall(SYS_recvmsg, x->fd, &m, 0));
	made(x, buf, 30);
	RES("writev", syscall(SYS_writev, x->fd, &iov, 1));
	made(x, buf, 30);
	RES("sendmsg", syscall(SYS_sendmsg, x->fd, &m, MSG_NOSIGNAL));
	after(x, "r40f120");
}

SCENARIO(process_syscall_poll)
{
	struct pollfd pfd = { .fd = x->fd,
			      .events = POLLIN | POLLOUT | POLLRDHUP };

	RES("none", syscall(SYS_poll, &pfd, 1, 0));
	bits("revents", pfd.revents);
	play(x, "w60s100");
	RES("poll", syscall(SYS_poll, &pfd, 1, 1000));
	bits("revents", pfd.revents);
	play(x, "r100l20");
	pfd.events = POLLIN;
	RES("later", syscall(SYS_poll, &pfd, 1, 2000));
	bits("revents", pfd.revents);
	after(x, "r20f60");
}

SCENARIO(process_syscall_epoll)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = (int)syscall(SYS_epoll_create1, EPOLL_CLOEXEC);

	play(x, "w60");
	RES("ctl", syscall(SYS_epoll_ctl, ep, EPOLL_CTL_ADD, x->fd, &ev));
	RES("none", syscall(SYS_epoll_wait, ep, &ev, 1, 0));
	play(x, "s100");
	RES("wait", syscall(SYS_epoll_wait, ep, &ev, 1, 1000));
	play(x, "r100l20");
	RES("later", syscall(SYS_epoll_wait, ep, &ev, 1, 2000));
	after(x, "r20f60");
}

SCENARIO(process_syscall_dup)
{
	int old = x->fd;

	play(x, "w60s100r10");
	x->fd = (int)syscall(SYS_dup, old);
	play(x, "r10w10");
	x->fd = (int)syscall(SYS_dup2, old, 130);
	play(x, "r10w10");
	x->fd = (int)syscall(SYS_fcntl, old, F_DUPFD_CLOEXEC, 140);
	play(x, "r10w10");
	RES("close", syscall(SYS_close, old));
	after(x, "r60w10f100");
}

SCENARIO(process_syscall_close)
{
	int p[2], fd = x->fd;

	play(x, "w60s100r100f60");
	RES("close", syscall(SYS_close, fd));
	play(x, "E");
	RES("recv", recv(fd, buf, n(10), 0));
	if (pipe(p))
		return;
	/* The lowest number is free again: the pipe has it. */
	out(" same=%d", p[0] == fd || p[1] == fd);
	RES("write", write(p[1], "abc", n(3)));
	RES("read", read(p[0], buf, n(10)));
	RES("recv", recv(fd, buf, n(10), 0));
}

SCENARIO(process_syscall_dup2_over)
{
	int p[2], fd = x->fd;

	if (pipe(p))
		return;
	play(x, "w60s100r100f60");
	RES("dup2", syscall(SYS_dup2, p[0], fd) == fd ? 0 : -1);
	play(x, "E");
	RES("write", write(p[1], "abc", n(3)));
	RES("read", read(fd, buf, n(10)));
}

SCENARIO(process_syscall_control)
{
	int value = -1;
	socklen_t len = sizeof(value);

	play(x, "w60s100");
	RES("fionread", syscall(SYS_ioctl, x->fd, FIONREAD, &value));
	out("/%d", value);
	RES("error",
	    syscall(SYS_getsockopt, x->fd, SOL_SOCKET, SO_ERROR, &value, &len));
	out("/%d", value);
	RES("nonblock", syscall(SYS_fcntl, x->fd, F_SETFL, O_NONBLOCK));
	raw_got(x, "recv", recv(x->fd, buf, n(100), 0));
	RES("empty", recv(x->fd, buf, n(100), 0));
	RES("shutdown", syscall(SYS_shutdown, x->fd, SHUT_WR));
	play(x, "f60Es10r10");
	RES("send", send(x->fd, buf, n(10), MSG_NOSIGNAL));
}

SCENARIO(process_syscall_files)
{
	int file, p[2];

	if (pipe(p))
		return;
	play(x, "w60s100");
	file = file_of(x, 100);
	RES("sendfile", syscall(SYS_sendfile, x->fd, file, NULL, n(100)));
	RES("splice", syscall(SYS_splice, x->fd, NULL, p[1], NULL, n(60), 0));
	raw_got(x, "read", read(p[0], buf, n(100)));
	after(x, "r40f160");
}

/* --- io_uring --- */

struct uring {
	int fd;
	unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

static bool uring_open(struct uring *u)
{
	struct io_uring_params p = { 0 };

	u->fd = (int)syscall(SYS_io_uring_setup, 4, &p);
	if (u->fd < 0) {
		out(" no-io_uring");
		return false;
	}
	size_t sq_size = p.sq_off.array + p.sq_entries * sizeof(unsigned);
	size_t cq_size =
	    p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
	int prot = PROT_READ | PROT_WRITE;
	char *sq =
	    mmap(NULL, sq_size, prot, MAP_SHARED, u->fd, IORING_OFF_SQ_RING);
	char *cq =
	    mmap(NULL, cq_size, prot, MAP_SHARED, u->fd, IORING_OFF_CQ_RING);
	u->sqes = mmap(NULL, p.sq_entries * sizeof(*u->sqes), prot, MAP_SHARED,
		       u->fd, IORING_OFF_SQES);
	u->sq_tail = (void *)(sq + p.sq_off.tail);
	u->sq_mask = (void *)(sq + p.sq_off.ring_mask);
	u->sq_array = (void *)(sq + p.sq_off.array);
	u->cq_head = (void *)(cq + p.cq_off.head);
	u->cq_tail = (void *)(cq + p.cq_off.tail);
	u->cq_mask = (void *)(cq + p.cq_off.ring_mask);
	u->cqes = (void *)(cq + p.cq_off.cqes);
	return true;
}

static void uring_start(struct uring *u, const struct io_uring_sqe *sqe)
{
	unsigned tail = *u->sq_tail, i = tail & *u->sq_mask;

	u->sqes[i] = *sqe;
	u->sq_array[i] = i;
	__atomic_store_n(u->sq_tail, tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, u->fd, 1, 0, 0, NULL, 0) != 1)
		out(" NOT-SUBMITTED");
}

static long uring_end(struct uring *u)
{
	unsigned head = *u->cq_head;

	while (__atomic_load_n(u->cq_tail, __ATOMIC_ACQUIRE) == head)
		if (syscall(SYS_io_uring_enter, u->fd, 0, 1,
			    IORING_ENTER_GETEVENTS, NULL, 0) < 0 &&
		    errno != EINTR)
			return -1;
	long r = u->cqes[head & *u->cq_mask].res;
	__atomic_store_n(u->cq_head, head + 1, __ATOMIC_RELEASE);
	errno = r < 0 ? (int)-r : 0;
	return r < 0 ? -1 : r;
}

static struct io_uring_sqe sqe_of(int op, int fd, size_t len)
{
	return (struct io_uring_sqe){ .opcode = (uint8_t)op,
				      .fd = fd,
				      .addr = (uintptr_t)buf,
				      .len = (uint32_t)len,
				      .off = (uint64_t)-1 };
}

static long uring_do(struct uring *u, int op, int fd, size_t len)
{
	struct io_uring_sqe sqe = sqe_of(op, fd, len);

	if (op == IORING_OP_SEND || op == IORING_OP_RECV)
		sqe.off = 0;
	uring_start(u, &sqe);
	return uring_end(u);
}

SCENARIO(process_uring_read)
{
	struct uring u;

	play(x, "w60s100r10");
	if (!uring_open(&u))
		return;
	raw_got(x, "read", uring_do(&u, IORING_OP_READ, x->fd, 40));
	raw_got(x, "recv", uring_do(&u, IORING_OP_RECV, x->fd, 20));
	play(x, "r10");
	raw_got(x, "read", uring_do(&u, IORING_OP_READ, x->fd, 100));
	after(x, "f60");
}

SCENARIO(process_uring_write)
{
	struct uring u;

	play(x, "w60s100");
	if (!uring_open(&u))
		return;
	made(x, buf, 40);
	res("write", uring_do(&u, IORING_OP_WRITE, x->fd, 40));
	made(x, buf, 20);
	res("send", uring_do(&u, IORING_OP_SEND, x->fd, 20));
	after(x, "w30f150r100");
}

/* The read is asked for before there is anything. */
SCENARIO(process_uring_later)
{
	struct io_uring_sqe sqe = sqe_of(IORING_OP_RECV, x->fd, 20);
	struct uring u;

	play(x, "w60f60");
	if (!uring_open(&u))
		return;
	sqe.off = 0;
	uring_start(&u, &sqe);
	play(x, "l20");
	raw_got(x, "recv", uring_end(&u));
	after(x, "");
}

SCENARIO(process_uring_poll)
{
	struct io_uring_sqe sqe = { .opcode = IORING_OP_POLL_ADD,
				    .fd = x->fd,
				    .poll_events = POLLIN };
	struct uring u;

	play(x, "w60f60");
	if (!uring_open(&u))
		return;
	uring_start(&u, &sqe);
	play(x, "l20");
	res("poll", uring_end(&u) & POLLIN);
	after(x, "r20");
}

/* The connection is known to the ring by an index. */
SCENARIO(process_uring_fixed)
{
	struct io_uring_sqe sqe = sqe_of(IORING_OP_RECV, 0, 40);
	struct uring u;

	play(x, "w60s100r10");
	if (!uring_open(&u))
		return;
	RES("register", syscall(SYS_io_uring_register, u.fd,
				IORING_REGISTER_FILES, &x->fd, 1));
	sqe.off = 0;
	sqe.flags = IOSQE_FIXED_FILE;
	uring_start(&u, &sqe);
	raw_got(x, "recv", uring_end(&u));
	after(x, "r50f60");
}

SCENARIO(process_uring_accept)
{
	struct uring u;
	int port = 0, listener = listener_at(&port, false);

	if (!uring_open(&u))
		return;
	far_res(x, "connect", FAR_CONNECT, (long)port << 16 | 4);
	struct io_uring_sqe sqe = { .opcode = IORING_OP_ACCEPT,
				    .fd = listener };
	uring_start(&u, &sqe);
	x->fd = (int)uring_end(&u);
	setsockopt(x->fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	play(x, "t30w60s100");
	raw_got(x, "recv", uring_do(&u, IORING_OP_RECV, x->fd, 40));
	after(x, "r60f60");
	uring_start(&u, &(struct io_uring_sqe){ .opcode = IORING_OP_CLOSE,
						.fd = x->fd });
	res("close", uring_end(&u));
	play(x, "E");
}

/* --- asynchronous I/O --- */

static void aio_by_kernel(aio_context_t ctx, struct ctx *x, int op, size_t len,
			  const char *what)
{
	struct iocb cb = { .aio_lio_opcode = (uint16_t)op,
			   .aio_fildes = (uint32_t)x->fd,
			   .aio_buf = (uintptr_t)buf,
			   .aio_nbytes = len },
		    *list[] = { &cb };
	struct io_event ev = { 0 };

	RES("submit", syscall(SYS_io_submit, ctx, 1, list));
	RES("events", syscall(SYS_io_getevents, ctx, 1, 1, &ev, NULL));
	out(" %s=%lld", what, (long long)ev.res);
}

SCENARIO(process_io_submit)
{
	aio_context_t ctx = 0;

	play(x, "w60s100r10");
	if (syscall(SYS_io_setup, 4, &ctx)) {
		out(" no-aio");
		return;
	}
	aio_by_kernel(ctx, x, IOCB_CMD_PREAD, 40, "pread");
	got(x, buf, 40);
	made(x, buf, 20);
	aio_by_kernel(ctx, x, IOCB_CMD_PWRITE, 20, "pwrite");
	after(x, "r50f80");
}

static long aio_wait(struct aiocb *cb)
{
	const struct aiocb *list[] = { cb };
	struct timespec limit = { .tv_sec = 2 };

	while (aio_error(cb) == EINPROGRESS)
		if (aio_suspend(list, 1, &limit) && errno != EINTR)
			return -1;
	errno = aio_error(cb);
	return aio_return(cb);
}

SCENARIO(process_aio)
{
	struct aiocb cb = { .aio_fildes = x->fd,
			    .aio_buf = buf,
			    .aio_nbytes = 40 };

	play(x, "w60s100r10");
	RES("read", aio_read(&cb));
	raw_got(x, "return", aio_wait(&cb));
	cb.aio_nbytes = 20;
	made(x, buf, 20);
	RES("write", aio_write(&cb));
	RES("return", aio_wait(&cb));
	after(x, "r50f80");
}

SCENARIO(process_aio_later)
{
	struct aiocb cb = { .aio_fildes = x->fd,
			    .aio_buf = buf,
			    .aio_nbytes = 40 };

	play(x, "w60f60");
	RES("read", aio_read(&cb));
	far_do(x, FAR_SEND_LATER, 40);
	raw_got(x, "return", aio_wait(&cb));
	after(x, "");
}

/* --- constructors, destructors, libraries that come and go --- */

/* Echoes what calls_preload.so says in the other process. */
static void module_visits(struct ctx *x, struct words *w, const char *preload)
{
	int port = 0, listener = listener_at(&port, false);
	long total = 0, r;
	char number[16];
	pid_t pid = fork();

	if (!pid) {
		child_begins();
		report_keep();
		close(x->fd);
		snprintf(number, sizeof(number), "%d", port);
		setenv("CALLS_PORT", number, 1);
		if (preload)
			setenv("LD_PRELOAD", preload, 1);
		execve(w->argv[0], w->argv, environment(false));
		_exit(7);
	}
	x->fd = accept(listener, NULL, NULL);
	while ((r = recv(x->fd, buf, n(16), 0)) > 0) {
		total += r;
		if (r == 16)
			send(x->fd, buf, n(16), MSG_NOSIGNAL);
	}
	out(" total=%ld last=%.3s", total, buf);
	child_ended(pid, "child");
}

PART(nothing) { return argc > 1; }

PART(load)
{
	void *module = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW);

	out(" loaded=%d", module != NULL);
	if (module && dlclose(module))
		out(" NOT-UNLOADED");
	return 0;
}

SCENARIO(process_constructor)
{
	const char *given = getenv("LD_PRELOAD");
	struct words w;
	char list[1024];

	snprintf(list, sizeof(list), "%s%s%s", given ? given : "",
		 given ? ":" : "", beside_self("calls_preload.so"));
	part_words(&w, "nothing");
	module_visits(x, &w, list);
}

SCENARIO(process_destructor)
{
	struct words w;

	part_words(&w, "load");
	word(&w, "%s", beside_self("calls_preload.so"));
	module_visits(x, &w, NULL);
}

/* A connection within this process works. */
static void pair_works(const char *what, int one, int two)
{
	char text[8] = "";

	errno = 0;
	long r = send(one, "hello", n(5), MSG_NOSIGNAL);
	res(what, r);
	res("", recv(two, text, n(5), MSG_WAITALL));
	r = write(two, text, n(5));
	res("", read(one, text, n(5)));
	out("/%s", text);
}

static void pair_open(int fd[2])
{
	struct sockaddr_in sa;
	socklen_t len = sizeof(sa);
	int port = 0, listener = listener_at(&port, false);

	getsockname(listener, (void *)&sa, &len);
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	RES("connect", connect(fd[0], (void *)&sa, len));
	fd[1] = accept(listener, NULL, NULL);
	close(listener);
}

/* @argv[1]: libosf.so, or "" on the kernel, where nothing is loaded. */
PART(unload)
{
	int first[2], second[2], third[2];

	if (argc < 2)
		return 2;
	pair_open(first);
	pair_works("first", first[0], first[1]);
	for (int i = 0; i < 2; i++) {
		int flags = i ? RTLD_NOW | RTLD_GLOBAL : RTLD_LAZY;
		void *lib = *argv[1] ? dlopen(argv[1], flags) : first;
		out(" loaded=%d", lib != NULL);
		pair_works("first", first[1], first[0]);
		pair_open(second);
		pair_works("second", second[0], second[1]);
		out(" unloaded=%d", !(*argv[1] && lib && dlclose(lib)));
		pair_works("first", first[0], first[1]);
		pair_works("second", second[1], second[0]);
		pair_open(third);
		pair_works("third", third[0], third[1]);
		close(second[0]);
		close(second[1]);
		close(third[0]);
		RES("end", recv(third[1], buf, n(10), 0));
		close(third[1]);
	}
	return 0;
}

SCENARIO(process_unload)
{
	struct words w;
	pid_t pid = fork();

	if (!pid) {
		child_begins();
		report_keep();
		part_words(&w, "unload");
		word(&w, "%s",
		     getenv("LD_PRELOAD") ? beside_self("../libosf.so") : "");
		execve(w.argv[0], w.argv, environment(true));
		_exit(7);
	}
	child_ended(pid, "child");
	play(x, "w60s100r100f60");
}
