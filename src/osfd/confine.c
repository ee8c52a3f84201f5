/* SPDX-License-Identifier: MIT */
/*
 * osfd/confine.c - what osfd gives up before it reads the first request
 *
 * Four capabilities stay: CAP_NET_ADMIN (TCP_REPAIR, tc), CAP_NET_RAW (packet sockets),
 * CAP_BPF (maps and programs), CAP_NET_BIND_SERVICE (to bind a connection of a port below
 * 1024 again).  osfd opens no file any more and executes nothing.  A call that is not in
 * the list fails with EPERM and does not kill osfd, because libbpf tries some calls that it
 * can do without.
 *
 * A worker gives up CAP_BPF, too, and what osfd needs to make ports and workers.  Of bpf()
 * it keeps the four commands that read and write a map whose descriptor it has.
 *
 * The closer has no capability, and can receive and close descriptors, and nothing else.
 */
#include "osfd/confine.h"

#include <cap-ng.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int drop_capabilities(void)
{
	capng_clear(CAPNG_SELECT_BOTH);
	if (capng_updatev(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED,
			  CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF,
			  CAP_NET_BIND_SERVICE, -1) < 0)
		return -EPERM;
	return capng_apply(CAPNG_SELECT_BOTH) < 0 ? -EPERM : 0;
}

/* libcap-ng would read files. */
static int drop_worker_capabilities(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	uint32_t kept = 1u << CAP_NET_ADMIN | 1u << CAP_NET_RAW |
			1u << CAP_NET_BIND_SERVICE;
	struct __user_cap_data_struct data[2] = { { .effective = kept,
						    .permitted = kept } };

	return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

/* Of osfd and of its workers. */
static const char *const common[] = {
	"bind",
	"brk",
	"clock_gettime",
	"close",
	"connect",
	"dup",
	"epoll_ctl",
	"epoll_pwait",
	"epoll_wait",
	"exit",
	"exit_group",
	"fcntl",
	"fstat",
	"futex",
	"getpid",
	"getrandom",
	"getsockname",
	"getpeername",
	"getsockopt",
	"lseek",
	"madvise",
	"mmap",
	"mprotect",
	"mremap",
	"munmap",
	"newfstatat",
	"pread64",
	"prctl",
	"read",
	"recvfrom",
	"recvmsg",
	"restart_syscall",
	"rt_sigaction",
	"rt_sigprocmask",
	"rt_sigreturn",
	"sendmsg",
	"sendto",
	"setsockopt",
	"shutdown",
	"statx",
	"timerfd_gettime",
	"uname",
	"write",
};

/* Of the closer, whose threads run already. */
static const char *const of_closer[] = {
	"close",   "exit_group",      "futex",
	"recvmsg", "restart_syscall", "rt_sigreturn",
};

/* Of osfd alone, and to begin a worker. */
static const char *const own[] = {
	"accept4",  "bpf",           "capset",          "close_range", "dup2",
	"dup3",     "epoll_create1", "ftruncate",       "gettid",      "ioctl",
	"listen",   "memfd_create",  "pidfd_open",      "poll",        "ppoll",
	"pwrite64", "seccomp",       "set_robust_list", "socketpair",
};

static int allow(scmp_filter_ctx ctx, const char *const *calls, size_t n)
{
	int err = 0;

	for (size_t i = 0; !err && i < n; i++) {
		int nr = seccomp_syscall_resolve_name(calls[i]);
		if (nr != __NR_SCMP_ERROR)
			err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
	}
	return err;
}

/* One call with its first argument as one of @n values. */
static int allow_with(scmp_filter_ctx ctx, int nr, const int *values, size_t n)
{
	int err = 0;

	for (size_t i = 0; !err && i < n; i++)
		err = seccomp_rule_add(
		    ctx, SCMP_ACT_ALLOW, nr, 1,
		    SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)values[i]));
	return err;
}

/* What fork() asks for: no thread, no namespace. */
static int allow_fork(scmp_filter_ctx ctx)
{
	uint64_t fork_flags =
	    CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;

	return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				SCMP_A0(SCMP_CMP_EQ, fork_flags));
}

/* The families of sockets: packets, raw segments, questions about devices and, for the
 * workers, about connections. */
static int filter_calls(void)
{
	static const int families[] = { AF_PACKET, AF_INET, AF_INET6,
					AF_NETLINK };
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int err = ctx ? 0 : -ENOMEM;

	if (!err)
		err = allow(ctx, common, ARRAY_LEN(common));
	if (!err)
		err = allow(ctx, own, ARRAY_LEN(own));
	if (!err)
		err = allow_with(ctx, SCMP_SYS(socket), families,
				 ARRAY_LEN(families));
	if (!err)
		err = allow_fork(ctx);
	if (!err)
		err = seccomp_load(ctx);
	seccomp_release(ctx);
	return err;
}

/* A worker asks about connections (beyond.c).  A part of the kernel that is not there yet
 * may be there at the next question. */
static int allow_questions(scmp_filter_ctx ctx)
{
	static const int protocols[] = { NETLINK_XFRM, NETLINK_SOCK_DIAG,
					 NETLINK_NETFILTER };
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_LEN(protocols); i++)
		err = seccomp_rule_add(
		    ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
		    SCMP_A0(SCMP_CMP_EQ, AF_NETLINK),
		    SCMP_A2(SCMP_CMP_EQ, (scmp_datum_t)protocols[i]));
	return err;
}

static int filter_worker_calls(void)
{
	static const int families[] = { AF_INET, AF_INET6 };
	static const int commands[] = { BPF_MAP_LOOKUP_ELEM,
					BPF_MAP_UPDATE_ELEM,
					BPF_MAP_DELETE_ELEM,
					BPF_MAP_GET_NEXT_KEY };
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int err = ctx ? 0 : -ENOMEM;

	if (!err)
		err = allow(ctx, common, ARRAY_LEN(common));
	if (!err)
		err = allow_with(ctx, SCMP_SYS(socket), families,
				 ARRAY_LEN(families));
	if (!err)
		err = allow_questions(ctx);
	if (!err)
		err = allow_with(ctx, SCMP_SYS(bpf), commands,
				 ARRAY_LEN(commands));
	if (!err)
		err = seccomp_load(ctx);
	seccomp_release(ctx);
	return err;
}

/* All threads get the filter. */
static int filter_closer_calls(void)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int err = ctx ? 0 : -ENOMEM;

	if (!err)
		err = allow(ctx, of_closer, ARRAY_LEN(of_closer));
	if (!err)
		err = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
	if (!err)
		err = seccomp_load(ctx);
	seccomp_release(ctx);
	return err;
}

static int give_up_exec(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		       prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0
		   ? -errno
		   : 0;
}

int confine(void)
{
	int err = give_up_exec();

	if (!err)
		err = drop_capabilities();
	return err ? err : filter_calls();
}

int confine_closer(void)
{
	int err = give_up_exec();

	return err ? err : filter_closer_calls();
}

int confine_worker(void)
{
	int err = drop_worker_capabilities();

	return err ? err : filter_worker_calls();
}
