/* SPDX-License-Identifier: MIT */
/* tests/app/odd_fds.c - see odd_fds.h */
#include "odd_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/io_uring.h>
#include <linux/memfd.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LINGER_S 12
#define NESTED 5 /* as deep as the kernel lets epoll sets be */
#define MEGABYTE (1 << 20)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define MOUNT_POINT "/mnt"

static int fuse_dev = -1, locked_file = -1;
static int fuse_folder = -1;

/* --- a file system that lets files be opened, and then answers nothing --- */

static void fuse_say(uint64_t unique, int err, const void *body, size_t len)
{
	char out[512];
	struct fuse_out_header h = { .len = (uint32_t)(sizeof(h) + len),
				     .error = -err,
				     .unique = unique };

	memcpy(out, &h, sizeof(h));
	if (len)
		memcpy(out + sizeof(h), body, len);
	if (write(fuse_dev, out, sizeof(h) + len) < 0 && errno != ENOENT)
		_exit(0);
}

static void fuse_answer(const struct fuse_in_header *in)
{
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
				      .minor = 31,
				      .max_write = 4096 };
	struct fuse_entry_out entry = { .nodeid = 2,
					.entry_valid = 1000,
					.attr = { .ino = 2,
						  .mode = S_IFREG | 0666,
						  .nlink = 1,
						  .size = 1 << 20 } };
	struct fuse_open_out opened = { .fh = 1 };

	if (in->opcode == FUSE_INIT)
		fuse_say(in->unique, 0, &init, sizeof(init));
	else if (in->opcode == FUSE_LOOKUP)
		fuse_say(in->unique, 0, &entry, sizeof(entry));
	else if (in->opcode == FUSE_OPEN || in->opcode == FUSE_OPENDIR)
		fuse_say(in->unique, 0, &opened, sizeof(opened));
	else if (in->opcode == FUSE_FLUSH && in->pid == (uint32_t)getppid())
		fuse_say(in->unique, 0, NULL, 0); /* our own close() */
}

static void fuse_serve(void)
{
	union {
		struct fuse_in_header h;
		char bytes[FUSE_MIN_READ_BUFFER];
	} in;

	struct pollfd p = { .fd = fuse_dev, .events = POLLIN };
	pid_t parent = getppid();

	alarm(20); /* then nobody waits any more */
	while (getppid() == parent) {
		if (poll(&p, 1, 50) != 1)
			continue;
		ssize_t n = read(fuse_dev, &in, sizeof(in));

		if (n >= (ssize_t)sizeof(in.h))
			fuse_answer(&in.h);
		else if (errno != EINTR && errno != ENOENT)
			break;
	}
	_exit(0);
}

/* In a mount namespace of our own, so nothing is left behind. */
static void fuse_mount(void)
{
	char options[100];

	fuse_dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fuse_dev < 0 || unshare(CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return;
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
		 fuse_dev);
	if (mount("osf-test", MOUNT_POINT, "fuse", MS_NOSUID | MS_NODEV,
		  options))
		return;
	if (!fork())
		fuse_serve();
	/* The server's end is the end of all who wait. */
	close(fuse_dev);
	fuse_folder = open(MOUNT_POINT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int a_fuse_file(void)
{
	return openat(fuse_folder, "file", O_RDWR | O_CLOEXEC);
}

static int a_fuse_folder(void) { return dup(fuse_folder); }
static int a_fuse_device(void) { return open("/dev/fuse", O_RDWR | O_CLOEXEC); }

/* --- sockets --- */

/* Its last close() sleeps: the far end, which the kernel keeps, never reads. */
static int a_lingering_socket(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger linger = { 1, LINGER_S };
	static char bytes[65536];
	static int far_end[8]; /* of the last ones */
	static unsigned n;
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(listener, (void *)&at, len) || listen(listener, 1) ||
	    getsockname(listener, (void *)&at, &len) ||
	    connect(fd, (void *)&at, len))
		return -1;
	if (far_end[n % 8])
		close(far_end[n % 8]);
	far_end[n++ % 8] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	close(listener);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	return fd;
}

static void send_fd(int to, int fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control = { .align = { .cmsg_level = SOL_SOCKET,
				 .cmsg_type = SCM_RIGHTS,
				 .cmsg_len = CMSG_LEN(sizeof(int)) } };
	struct iovec iov = { (void *)"x", 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = CMSG_SPACE(sizeof(int)) };

	memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	sendmsg(to, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Its last close() closes what waits in it. */
static int a_socket_with_a_lingering_one(void)
{
	int pair[2], fd = a_lingering_socket();

	if (fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -1;
	send_fd(pair[0], fd);
	close(fd);
	close(pair[0]);
	return pair[1];
}

static int a_netlink_socket(void)
{
	return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
}

/* --- memory that is not what it should be --- */

static int memory(unsigned flags, off_t size, int seals)
{
	int fd = memfd_create("odd", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd >= 0 && !ftruncate(fd, size) && !fcntl(fd, F_ADD_SEALS, seals))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static int unsealed_memory(void) { return memory(0, MEGABYTE, 0); }
static int sealed_memory(void) { return memory(0, MEGABYTE, SEALS); }
static int empty_memory(void) { return memory(0, 0, SEALS); }

static int huge_memory(void)
{
	return memory(MFD_HUGETLB, 4 * MEGABYTE, SEALS);
}

static int memory_of_no_use_later(void)
{
	return memory(0, MEGABYTE, SEALS | F_SEAL_FUTURE_WRITE);
}

static int memory_to_read(void)
{
	return memory(0, MEGABYTE, SEALS | F_SEAL_WRITE);
}

static int secret_memory(void)
{
	return (int)syscall(SYS_memfd_secret, O_CLOEXEC);
}

/* --- files and devices --- */

static int a_terminals_master(void)
{
	return open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
}

static int a_terminal(void)
{
	int no = 0, master = a_terminals_master();
	int fd = master < 0 || ioctl(master, TIOCSPTLCK, &no)
		     ? -1
		     : ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY);

	if (master >= 0)
		close(master);
	return fd;
}

static int a_device(void) { return open("/dev/zero", O_RDWR | O_CLOEXEC); }

static int a_path(void) { return open("/", O_PATH | O_CLOEXEC); }
static int a_folder(void) { return open("/", O_DIRECTORY | O_CLOEXEC); }
static int a_locked_file(void) { return dup(locked_file); }

static int a_pipe(void)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	if (write(ends[1], "x", 1) < 0)
		return -1;
	close(ends[1]);
	return ends[0];
}

/* --- what has no file --- */

static int nested_epoll_sets(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int inner = eventfd(1, EFD_CLOEXEC);

	for (int i = 0; i < NESTED; i++) {
		int outer = epoll_create1(EPOLL_CLOEXEC);

		if (outer < 0 || epoll_ctl(outer, EPOLL_CTL_ADD, inner, &ev))
			return -1;
		close(inner);
		inner = outer;
	}
	return inner;
}

static int an_io_uring(void)
{
	struct io_uring_params p = { 0 };

	return (int)syscall(SYS_io_uring_setup, 4, &p);
}

static int a_process(void) { return (int)syscall(SYS_pidfd_open, getpid(), 0); }

static int an_event_counter(void) { return eventfd(1, EFD_CLOEXEC); }

static int a_timer(void)
{
	return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
}

static int signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	return signalfd(-1, &none, SFD_CLOEXEC);
}

static int a_watch_on_files(void)
{
	int fd = inotify_init1(IN_CLOEXEC);

	if (fd >= 0)
		inotify_add_watch(fd, "/", IN_ALL_EVENTS);
	return fd;
}

static int a_watch_on_all_files(void)
{
	return fanotify_init(FAN_CLOEXEC, O_RDONLY);
}

static int page_faults(void)
{
	return (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
}

static const struct {
	const char *name;
	int (*make)(void);
} kinds[] = {
#define KIND(name)                                                             \
	{                                                                      \
#name, name                                                    \
	}
	KIND(a_fuse_file),
	KIND(a_fuse_folder),
	KIND(a_fuse_device),
	KIND(a_lingering_socket),
	KIND(a_socket_with_a_lingering_one),
	KIND(a_netlink_socket),
	KIND(unsealed_memory),
	KIND(sealed_memory),
	KIND(empty_memory),
	KIND(huge_memory),
	KIND(memory_of_no_use_later),
	KIND(memory_to_read),
	KIND(secret_memory),
	KIND(a_terminal),
	KIND(a_terminals_master),
	KIND(a_device),
	KIND(a_path),
	KIND(a_folder),
	KIND(a_locked_file),
	KIND(a_pipe),
	KIND(nested_epoll_sets),
	KIND(an_io_uring),
	KIND(a_process),
	KIND(an_event_counter),
	KIND(a_timer),
	KIND(signals),
	KIND(a_watch_on_files),
	KIND(a_watch_on_all_files),
	KIND(page_faults),
#undef KIND
};

const unsigned n_odd_fds = sizeof(kinds) / sizeof(*kinds);

void odd_fds_init(void)
{
	fuse_mount();
	locked_file = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

int odd_fd(unsigned kind) { return kinds[kind % n_odd_fds].make(); }

const char *odd_fd_name(unsigned kind) { return kinds[kind % n_odd_fds].name; }
