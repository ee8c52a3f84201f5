/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/test_greeting.c - a sender of datagrams that gets no core while it greets
 *
 *     child:  connects to the receiver, and is about to send its greeting: stopped there
 *     parent: polls, accepts, waits for the greeting in vain, and hangs up; lets the child run
 *
 * The datagram must not get lost: the child hears that nobody heard it, and greets again.  The
 * parent traces the child, and sees by the child's own descriptor that it has hung up.
 */
#include <poll.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "ends.h"

#define QKEY 7

/* The ring ends with its process, so that stays until @till says that all is read. */
static void child_sends(uint32_t qpn, int till)
{
	struct end e;
	char byte;

	end_open(&e, IBV_QPT_UD);
	end_ready(&e, QKEY);
	struct ibv_ah_attr to = { .port_num = 1, .is_global = 1 };
	CHECK(!ibv_query_gid(e.ctx, 1, 0, &to.grh.dgid));
	struct ibv_ah *ah = ibv_create_ah(e.pd, &to);
	CHECK(ah);
	struct ibv_sge part = { (uintptr_t)e.buf, 5, e.mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &part,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.ud = { ah, qpn, QKEY } };
	CHECK(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	raise(SIGSTOP);
	CHECK(!ibv_post_send(e.qp, &wr, &bad));
	CHECK(next(&e).status == IBV_WC_SUCCESS);
	CHECK(read(till, &byte, 1) == 1);
	exit(0);
}

/* Return: a descriptor of the parent's for the socket on which the child is about to send its
 * greeting. */
static int stop_at_greeting(pid_t pid)
{
	struct __ptrace_syscall_info call;
	int status, pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	CHECK(pidfd >= 0 && waitpid(pid, &status, 0) == pid);
	CHECK(!ptrace(PTRACE_SETOPTIONS, pid, NULL,
		      PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
	for (;;) {
		CHECK(!ptrace(PTRACE_SYSCALL, pid, NULL, NULL));
		CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
		CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(call),
			     &call) > 0);
		if (call.op != PTRACE_SYSCALL_INFO_ENTRY ||
		    call.entry.nr != SYS_sendto)
			continue;
		int type = 0, fd = (int)syscall(SYS_pidfd_getfd, pidfd,
						(int)call.entry.args[0], 0);
		socklen_t size = sizeof(type);

		CHECK(fd >= 0 &&
		      !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size));
		if (type == SOCK_SEQPACKET) {
			close(pidfd);
			return fd;
		}
		close(fd);
	}
}

static void hang_up(struct end *e, int greeting)
{
	struct pollfd p = { .fd = greeting, .events = 0 };
	struct ibv_wc wc;

	do
		CHECK(!ibv_poll_cq(e->cq, 1, &wc));
	while (poll(&p, 1, 0) == 0);
	CHECK(p.revents & POLLHUP);
	close(greeting);
}

int main(void)
{
	struct end e;
	int status, ready[2];
	uint32_t qpn;

	setvbuf(stdout, NULL, _IONBF, 0);
	CHECK(!pipe(ready));
	alarm(LIMIT_S * 3);
	pid_t pid = fork();
	if (!pid) {
		CHECK(read(ready[0], &qpn, sizeof(qpn)) == sizeof(qpn));
		child_sends(qpn, ready[0]);
	}
	end_open(&e, IBV_QPT_UD);
	end_ready(&e, QKEY);
	post_recv(&e, 1, 100);
	CHECK(write(ready[1], &e.qp->qp_num, sizeof(qpn)) == sizeof(qpn));
	hang_up(&e, stop_at_greeting(pid));
	CHECK(!ptrace(PTRACE_DETACH, pid, NULL, NULL));
	struct ibv_wc wc = next(&e);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == 40 + 5);
	CHECK(write(ready[1], "", 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	puts("test_greeting: ok");
	return 0;
}
