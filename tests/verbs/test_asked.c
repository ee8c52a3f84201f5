/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/test_asked.c - one-sided operations where the kernel refuses the receiver's
 * memory
 *
 *     test_asked NAME ...     libosf-verbs.so comes first (LD_PRELOAD)
 *
 * A filter of system calls refuses process_vm_readv() and process_vm_writev(), as
 * containers and Yama do.  This process initiates; a forked child has the memory, and
 * sleeps: it makes no call.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

#define BIG (3u << 20)

struct shared {
	uint64_t counter;
	uint8_t bytes[BIG];
};

struct owner {
	struct end e; /* our end */
	struct address theirs;
	pid_t pid;
	struct shared *mem; /* the child's, which we see */
	uint8_t *buf;
	struct ibv_mr *mr;
	int sv[2];
};

static void refuse_reach(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0,
			 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(*code), code };

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog));
}

/* The owner of the memory: one receive, and then it sleeps. */
static void own(struct owner *mine)
{
	struct ibv_mr *mr =
	    ibv_reg_mr(mine->e.pd, mine->mem, sizeof(*mine->mem),
		       IBV_ACCESS_LOCAL_WRITE | REMOTE);
	struct address a = { .addr = (uintptr_t)mine->mem };
	char byte;

	CHECK(mr);
	a.rkey = mr->rkey;
	CHECK(!post_recv(&mine->e, 1, 100));
	CHECK(write(mine->sv[1], &a, sizeof(a)) == sizeof(a));
	/* Until it is told to look for a completion. */
	CHECK(read(mine->sv[1], &byte, 1) == 1);
	struct ibv_wc wc = next(&mine->e);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.imm_data == 77 &&
	      wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.byte_len == BIG);
	CHECK(mine->mem->bytes[BIG - 1] == 0x21);
	CHECK(write(mine->sv[1], "k", 1) == 1);
	pause();
	_exit(0);
}

static void owner_start(struct owner *o)
{
	struct address mine;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, o->sv));
	o->mem = mmap(NULL, sizeof(*o->mem), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(o->mem != MAP_FAILED);
	o->pid = fork();
	CHECK(o->pid >= 0);
	if (!o->pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	end_open(&o->e, IBV_QPT_RC);
	mine = address_of(&o->e);
	int s = o->sv[!o->pid];
	CHECK(write(s, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(read(s, &o->theirs, sizeof(o->theirs)) == sizeof(o->theirs));
	end_connect(&o->e, &o->theirs);
	if (!o->pid)
		own(o);
	CHECK(read(s, &mine, sizeof(mine)) == sizeof(mine));
	o->theirs.addr = mine.addr;
	o->theirs.rkey = mine.rkey;
	CHECK((o->buf = malloc(BIG)));
	CHECK(
	    (o->mr = ibv_reg_mr(o->e.pd, o->buf, BIG, IBV_ACCESS_LOCAL_WRITE)));
}

static void owner_end(struct owner *o)
{
	CHECK(!kill(o->pid, SIGKILL) && waitpid(o->pid, NULL, 0) == o->pid);
}

static void ask(struct owner *o, enum ibv_wr_opcode op, uint64_t off,
		uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)o->buf, length, o->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = 7,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = op,
					.imm_data = 77 };

	wr.wr.rdma.rkey = o->theirs.rkey;
	wr.wr.rdma.remote_addr = o->theirs.addr + off;
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = o->theirs.addr + off;
		wr.wr.atomic.rkey = o->theirs.rkey;
		wr.wr.atomic.compare_add = 1;
	}
	CHECK(!ibv_post_send(o->e.qp, &wr, &bad));
}

static void succeed(struct owner *o)
{
	struct ibv_wc wc = next(&o->e);

	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 7);
}

#define BYTES offsetof(struct shared, bytes)

static void test_bytes(void)
{
	struct owner o;
	char byte;

	owner_start(&o);
	memset(o.buf, 0x5a, BIG);
	ask(&o, IBV_WR_RDMA_WRITE, BYTES, BIG);
	succeed(&o);
	CHECK(o.mem->bytes[0] == 0x5a && o.mem->bytes[BIG - 1] == 0x5a);
	for (uint32_t i = 0; i < BIG; i++)
		o.mem->bytes[i] = (uint8_t)(i * 7);
	ask(&o, IBV_WR_RDMA_READ, BYTES, BIG);
	succeed(&o);
	for (uint32_t i = 0; i < BIG; i++)
		CHECK(o.buf[i] == (uint8_t)(i * 7));
	for (int i = 0; i < 3; i++)
		ask(&o, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8);
	for (int i = 0; i < 3; i++)
		succeed(&o);
	CHECK(o.mem->counter == 3);
	memset(o.buf, 0x21, BIG);
	ask(&o, IBV_WR_RDMA_WRITE_WITH_IMM, BYTES, BIG);
	succeed(&o);
	CHECK(write(o.sv[0], "", 1) == 1 && read(o.sv[0], &byte, 1) == 1);
	owner_end(&o);
}

/* What is read goes on, by a request behind it that waits (IBV_SEND_FENCE). */
static void test_fence(void)
{
	struct owner o;

	owner_start(&o);
	o.mem->counter = 4711;
	memset(o.buf, 0, 8);
	ask(&o, IBV_WR_RDMA_READ, 0, 8);
	struct ibv_sge sge = { (uintptr_t)o.buf, 8, o.mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = 7,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_FENCE };
	wr.wr.rdma.rkey = o.theirs.rkey;
	wr.wr.rdma.remote_addr = o.theirs.addr + BYTES;
	CHECK(!ibv_post_send(o.e.qp, &wr, &bad));
	succeed(&o);
	succeed(&o);
	CHECK(!memcmp(o.mem->bytes, &o.mem->counter, 8));
	owner_end(&o);
}

static void test_wrong_key(void)
{
	struct owner o;

	owner_start(&o);
	o.theirs.rkey ^= 1;
	ask(&o, IBV_WR_RDMA_READ, 0, 8);
	CHECK(next(&o.e).status == IBV_WC_REM_ACCESS_ERR);
	owner_end(&o);
}

/* Memory that was registered and is gone: an error there, and no signal. */
static void test_unmapped(void)
{
	struct end a, b;
	struct address to;

	setenv("OSF_RDMA_REACH", "0", 1);
	pair(&a, &b, IBV_QPT_RC);
	uint8_t *gone = mmap(NULL, BUF, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr =
	    ibv_reg_mr(b.pd, gone, BUF, IBV_ACCESS_LOCAL_WRITE | REMOTE);
	CHECK(mr && !munmap(gone, BUF));
	to = (struct address){ .rkey = mr->rkey, .addr = (uintptr_t)gone };
	CHECK(!post(&a, IBV_WR_RDMA_WRITE, 100, a.mr->lkey, &to));
	CHECK(next(&a).status == IBV_WC_REM_ACCESS_ERR);
	unsetenv("OSF_RDMA_REACH");
}

static void test_death(void)
{
	struct owner o;

	owner_start(&o);
	CHECK(!kill(o.pid, SIGSTOP));
	CHECK(waitpid(o.pid, NULL, WUNTRACED) == o.pid);
	ask(&o, IBV_WR_RDMA_READ, 0, 8);
	owner_end(&o);
	CHECK(next(&o.e).status == IBV_WC_RETRY_EXC_ERR);
}

static const struct {
	const char *name;
	void (*run)(void);
	bool is_free; /* without the filter */
} tests[] = {
	{ "unmapped", test_unmapped, true },
	{ "bytes", test_bytes, false },
	{ "fence", test_fence, false },
	{ "wrong_key", test_wrong_key, false },
	{ "death", test_death, false },
};

int main(int argc, char **argv)
{
	bool is_filtered = false;

	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(100);
	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		if (argc > 1 && strcmp(argv[1], tests[i].name))
			continue;
		if (!tests[i].is_free && !is_filtered)
			refuse_reach();
		is_filtered |= !tests[i].is_free;
		tests[i].run();
		printf("ok %s\n", tests[i].name);
	}
	return 0;
}
