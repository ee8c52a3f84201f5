/* SPDX-License-Identifier: MIT */
/*
 * osfd/confine.c - what osfd gives up before it reads the first request
 *
 * Four capabilities stay: CAP_NET_ADMIN (TCP_REPAIR, tc), CAP_NET_RAW (packet sockets),
 * CAP_BPF (maps and programs), CAP_NET_BIND_SERVICE (to bind a connection of a port
 * below 1024 again).  It opens no file any more and executes nothing.  A call that is
 * not in the list fails with EPERM: libbpf tries some that it can do without.
 */
#include "osfd/confine.h"

#include <cap-ng.h>
#include <errno.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>

static int drop_capabilities(void)
{
	capng_clear(CAPNG_SELECT_BOTH);
	if (capng_updatev(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED,
			  CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF,
			  CAP_NET_BIND_SERVICE, -1) < 0)
		return -EPERM;
	return capng_apply(CAPNG_SELECT_BOTH) < 0 ? -EPERM : 0;
}

static const char *const calls[] = {
	"accept4",
	"bind",
	"bpf",
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
	"ftruncate",
	"futex",
	"getpid",
	"getrandom",
	"getsockname",
	"getpeername",
	"getsockopt",
	"ioctl",
	"listen",
	"lseek",
	"madvise",
	"memfd_create",
	"mmap",
	"mprotect",
	"mremap",
	"munmap",
	"newfstatat",
	"pread64",
	"pwrite64",
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

static int filter_calls(void)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int err = ctx ? 0 : -ENOMEM;

	for (unsigned i = 0; !err && i < sizeof(calls) / sizeof(*calls); i++) {
		int nr = seccomp_syscall_resolve_name(calls[i]);
		if (nr != __NR_SCMP_ERROR)
			err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
	}
	/* Families: packets, raw segments and questions about devices. */
	static const int families[] = { AF_PACKET, AF_INET, AF_INET6 };
	for (unsigned i = 0; !err && i < 3; i++)
		err = seccomp_rule_add(
		    ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
		    SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]));
	if (!err)
		err = seccomp_load(ctx);
	seccomp_release(ctx);
	return err;
}

int confine(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	int err = drop_capabilities();
	return err ? err : filter_calls();
}
