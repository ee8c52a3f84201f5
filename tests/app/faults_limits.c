/* SPDX-License-Identifier: MIT */
/*
 * tests/app/faults_limits.c - no descriptors, no memory, or system calls refused
 *
 *     a limit is set  ->  connect() or accept(), the upgrade fails  ->  traffic
 *
 * The limit is set just before the connection is there, so that the program itself
 * is not short of anything.  The connection then stays with the kernel, nothing
 * of it shows in the program's calls, and the statistics say NO_MEMORY.  Called by
 * faults.c; those named limited_from_start have their limits from test_faults.py.
 */
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOFILE_LIMIT 64

static struct rlimit old_limit;
static int limited = -1;

static void limit_set(int what, rlim_t soft)
{
	need(!getrlimit((__rlimit_resource_t)what, &old_limit),
	     "getrlimit: %m");
	struct rlimit l = { soft, old_limit.rlim_max };
	need(!setrlimit((__rlimit_resource_t)what, &l), "setrlimit: %m");
	limited = what;
}

static void limit_lift(void)
{
	if (limited >= 0)
		need(!setrlimit((__rlimit_resource_t)limited, &old_limit),
		     "setrlimit: %m");
}

/* Leaves arg numbers free, and what accept() itself needs. */
static void limit_nofile(struct ctx *x)
{
	int fd, top = -1, spare = (int)x->sc->arg + !x->is_client;

	limit_set(RLIMIT_NOFILE, NOFILE_LIMIT);
	while ((fd = fcntl(x->ctl, F_DUPFD_CLOEXEC, 0)) >= 0)
		top = fd;
	need(errno == EMFILE && top == NOFILE_LIMIT - 1, "top %d: %m", top);
	for (int i = 0; i < spare; i++)
		close(top - i);
}

static void limit_as(struct ctx *x)
{
	volatile char stack[512 * 1024]; /* it grows before, not after */
	unsigned long pages;

	for (size_t i = 0; i < sizeof(stack); i += 4096)
		stack[i] = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	need(f && fscanf(f, "%lu", &pages) == 1, "statm");
	fclose(f);
	limit_set(RLIMIT_AS, pages * (rlim_t)sysconf(_SC_PAGESIZE) +
				 (rlim_t)x->sc->arg * 1024);
}

static void limit_fsize(struct ctx *x)
{
	limit_set(RLIMIT_FSIZE, (rlim_t)x->sc->arg * 1024);
}

/* --- seccomp --- */

#define LOAD(field)                                                            \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS,                                     \
		 (uint32_t)offsetof(struct seccomp_data, field))
#define SKIP_UNLESS(value, n)                                                  \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, n)
#define SKIP_UNLESS_BIT(bit, n) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bit, 0, n)
#define ANSWER(what) BPF_STMT(BPF_RET | BPF_K, what)
#define FAIL_WITH(err) ANSWER(SECCOMP_RET_ERRNO | (uint32_t)(err))

/* When a program sets a filter by prctl() or syscall(), osf notices and leaves everything to
 * the kernel.  This test sets the filter so that osf does not notice it. */
static long set_filter(const struct sock_fprog *prog)
{
	long r;

	asm volatile("syscall"
		     : "=a"(r)
		     : "a"(SYS_prctl), "D"(PR_SET_SECCOMP),
		       "S"(SECCOMP_MODE_FILTER), "d"(prog)
		     : "rcx", "r11", "memory");
	return r;
}

static void filter(struct sock_filter *code, unsigned short len)
{
	struct sock_fprog prog = { .len = len, .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || set_filter(&prog)) {
		fprintf(stderr, "skip: no seccomp\n");
		_exit(77);
	}
}

static void refuse_memfd(struct ctx *x)
{
	struct sock_filter code[] = {
		LOAD(nr),
		SKIP_UNLESS(SYS_memfd_create, 1),
		FAIL_WITH(x->sc->arg),
		ANSWER(SECCOMP_RET_ALLOW),
	};

	filter(code, 4);
}

static void refuse_unix(struct ctx *x)
{
	struct sock_filter code[] = {
		LOAD(nr),
		SKIP_UNLESS(SYS_socket, 3),
		LOAD(args[0]),
		SKIP_UNLESS(AF_UNIX, 1),
		FAIL_WITH(x->sc->arg),
		ANSWER(SECCOMP_RET_ALLOW),
	};

	filter(code, 6);
}

static void refuse_shared_mmap(struct ctx *x)
{
	struct sock_filter code[] = {
		LOAD(nr),
		SKIP_UNLESS(SYS_mmap, 3),
		LOAD(args[3]),
		SKIP_UNLESS_BIT(MAP_SHARED, 1),
		FAIL_WITH(x->sc->arg),
		ANSWER(SECCOMP_RET_ALLOW),
	};

	filter(code, 6);
}

/* --- near ends --- */

static void works_on_the_kernel(struct ctx *x)
{
	turns(x, WARM_TURNS);
	bulk(x, 1 << 20);
	turns(x, WARM_TURNS);
	limit_lift();
	need_kernel(x, BIT(NO_MEMORY));
}

/* With some descriptors to be had either is right, but no half of it. */
static void works_somehow(struct ctx *x)
{
	struct osf_stats_sock st;

	turns(x, WARM_TURNS);
	bulk(x, 1 << 20);
	turns(x, WARM_TURNS);
	limit_lift();
	if (!has_stats())
		return;
	need(stats_sock(x->near_pid, x->port, x->far_port, &st), "no entry");
	if (st.reason == OSF_REASON_UPGRADED)
		need_upgraded(x);
	else
		need_kernel(x, BIT(NO_MEMORY));
}

static void works(struct ctx *x)
{
	turns(x, WARM_TURNS);
	bulk(x, 1 << 20);
}

SCENARIO(no_descriptor, .near = works_on_the_kernel, .far = far_echo,
	 .before = limit_nofile);
#define FEW_DESCRIPTORS(n)                                                     \
	SCENARIO(descriptors_##n, .near = works_somehow, .far = far_echo,      \
		 .before = limit_nofile, .arg = n)
FEW_DESCRIPTORS(1);
FEW_DESCRIPTORS(2);
FEW_DESCRIPTORS(3);
FEW_DESCRIPTORS(4);
FEW_DESCRIPTORS(6);

/* After the connection is made, the program gives up the right to open files, as programs do
 * that put themselves into a sandbox. */
static void works_without_new_descriptors(struct ctx *x)
{
	limit_set(RLIMIT_NOFILE, 0);
	works_somehow(x);
}

SCENARIO(descriptors_none_from_now, .near = works_without_new_descriptors,
	 .far = far_echo, .flags = LAZY_TOO);
SCENARIO(no_address_space, .near = works_on_the_kernel, .far = far_echo,
	 .before = limit_as, .arg = 300);
SCENARIO(address_space_for_an_inbox, .near = works_on_the_kernel,
	 .far = far_echo, .before = limit_as, .arg = 800);
SCENARIO(file_size_for_nothing, .near = works_on_the_kernel, .far = far_echo,
	 .before = limit_fsize, .arg = 100);
SCENARIO(memfd_out_of_memory, .near = works_on_the_kernel, .far = far_echo,
	 .before = refuse_memfd, .arg = ENOMEM);
SCENARIO(memfd_out_of_files, .near = works_on_the_kernel, .far = far_echo,
	 .before = refuse_memfd, .arg = EMFILE);
SCENARIO(memfd_unknown, .near = works_on_the_kernel, .far = far_echo,
	 .before = refuse_memfd, .arg = ENOSYS);
SCENARIO(unix_out_of_files, .near = works_on_the_kernel, .far = far_echo,
	 .before = refuse_unix, .arg = EMFILE);
SCENARIO(unix_not_supported, .near = works_on_the_kernel, .far = far_echo,
	 .before = refuse_unix, .arg = EAFNOSUPPORT);
SCENARIO(unix_not_permitted, .near = works_on_the_kernel, .far = far_echo,
	 .before = refuse_unix, .arg = EPERM);
SCENARIO(map_out_of_memory, .near = works_on_the_kernel, .far = far_echo,
	 .before = refuse_shared_mmap, .arg = ENOMEM);
/* --- both ends write before they read --- */

#define FIRST_BYTES (2u << 20) /* TCP over loopback takes 4 MB */

enum { POLLS = 1, EPOLLS };

/* Sleeps until there is room. */
static bool await_room(struct ctx *x, int ep)
{
	struct pollfd p = { .fd = x->fd, .events = POLLOUT };
	struct epoll_event ev;

	return x->sc->arg == POLLS ? poll(&p, 1, -1) == 1
				   : epoll_wait(ep, &ev, 1, -1) == 1;
}

static void write_first(struct ctx *x)
{
	bool polls = x->sc->arg == POLLS || x->sc->arg == EPOLLS;
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	need(!epoll_ctl(ep, EPOLL_CTL_ADD, x->fd, &ev), "epoll_ctl: %m");
	stage = "both ends write";
	for (uint64_t end = x->s.out + FIRST_BYTES; x->s.out < end;) {
		ssize_t r = stream_send_some(&x->s, end - x->s.out,
					     polls ? MSG_DONTWAIT : 0);

		need(r > 0 || (polls && errno == EAGAIN), "send: %m");
		need(r > 0 || await_room(x, ep), "no room: %m");
	}
	stage = "and then read";
	need(stream_recv(&x->s, FIRST_BYTES), "recv: %m");
}

static void near_writes_first(struct ctx *x)
{
	turns(x, WARM_TURNS);
	write_first(x);
}

static void far_writes_first(struct ctx *x)
{
	for (int i = 0; i < WARM_TURNS; i++)
		need(stream_recv(&x->s, 16) && stream_send(&x->s, 16),
		     "a turn: %m");
	write_first(x);
}

SCENARIO(both_write_first, .near = near_writes_first, .far = far_writes_first,
	 .flags = LAZY_TOO);
SCENARIO(both_write_first_by_poll, .near = near_writes_first,
	 .far = far_writes_first, .arg = POLLS);
SCENARIO(both_write_first_by_epoll, .near = near_writes_first,
	 .far = far_writes_first, .arg = EPOLLS);
SCENARIO(both_write_first_in_600_mb, .near = near_writes_first,
	 .far = far_writes_first, .before = limit_as, .arg = 600 << 10);
SCENARIO(both_write_first_in_60_mb, .near = near_writes_first,
	 .far = far_writes_first, .before = limit_as, .arg = 60 << 10);
SCENARIO(limited_from_start, .near = works, .far = far_echo,
	 .flags = FROM_START);

/* --- a buffer that the program may not write to --- */

#define N_PARTS 16 /* so many make a connection worth a move */
#define PART_BYTES 20000
#define ANSWER_BYTES 100

static void far_answers(struct ctx *x)
{
	for (int i = 0; i < N_PARTS; i++) {
		need(stream_recv(&x->s, PART_BYTES), "recv: %m");
		need(stream_send(&x->s, ANSWER_BYTES), "send: %m");
		tell(x, 1);
	}
	far_echo(x);
}

static void need_fault(struct ctx *x)
{
	void *page =
	    mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	errno = 0;
	ssize_t r = recv(x->fd, page, 50, MSG_DONTWAIT);
	need(r == -1 && errno == EFAULT, "%s: %zd, %m", stage, r);
	munmap(page, 4096);
}

/* The connection moves while bytes lie unread in TCP.  If it moves at once they lie in the
 * ring, where such a read is the program's fault. */
static void near_reads_to_nowhere(struct ctx *x)
{
	const char *after = getenv("OSF_UPGRADE_TURNS");

	for (int i = 0; i < N_PARTS; i++) {
		need(stream_send(&x->s, PART_BYTES), "send: %m");
		hear(x);
	}
	stage = "a read to a page without access";
	if (!after || strcmp(after, "0"))
		need_fault(x);
	need(stream_recv(&x->s, N_PARTS * ANSWER_BYTES), "the same bytes: %m");
	need_upgraded(x);
}

SCENARIO(no_access, .near = near_reads_to_nowhere, .far = far_answers,
	 .flags = LAZY_TOO);
