/* SPDX-License-Identifier: MIT */
/*
 * tests/trust/rdma_hostile.c - what others can do to a program that has the RDMA device
 *
 *     rdma_hostile NAME ...     libosf-verbs.so comes first (LD_PRELOAD)
 *
 *     this process <- healthy queue pair -> a forked child that echoes
 *                  <- queue pair         -> a forked child that attacks
 *
 * The healthy pair has to deliver right bytes before, during and after each attack, and no
 * call of this process may take long.  Strangers are another user's, which needs root.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../verbs/ends.h"

#define MIN(a, b) ((a) < (b) ? (a) : (b))

#define NOBODY 65534
#define SLOW_S 8.0 /* no call of ours may take that long */
#define ROUNDS 16
#define ECHO 3000u

struct child {
	struct end e; /* our end */
	struct address theirs;
	pid_t pid;
	int sv[2];
};

/* A child does not outlive the test. */
static pid_t fork_child(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	return pid;
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Fork a child that is connected to us, and then runs @main, which says when it is
 * ready. */
static void child_start(struct child *c, void (*main)(struct child *mine))
{
	struct address mine;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, c->sv));
	pid_t parent = getpid();
	c->pid = fork_child();
	end_open(&c->e, IBV_QPT_RC);
	mine = address_of(&c->e);
	int s = c->sv[c->pid ? 0 : 1];
	CHECK(write(s, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(read(s, &c->theirs, sizeof(c->theirs)) == sizeof(c->theirs));
	end_connect(&c->e, &c->theirs);
	if (!c->pid) {
		c->pid = parent;
		main(c);
		_exit(0);
	}
	close(c->sv[1]);
	CHECK(read(s, &mine, 1) == 1);
}

static void child_end(struct child *c)
{
	CHECK(!kill(c->pid, SIGKILL));
	CHECK(waitpid(c->pid, NULL, 0) == c->pid);
	close(c->sv[0]);
}

/* Its end: sends back what comes, each byte one more. */
static void echo(struct child *mine)
{
	struct end *e = &mine->e;

	CHECK(!post_recv(e, 1, BUF));
	CHECK(write(mine->sv[1], "e", 1) == 1);
	for (;;) {
		struct ibv_wc wc;

		do {
			while (!ibv_poll_cq(e->cq, 1, &wc))
				sched_yield();
			CHECK(wc.status == IBV_WC_SUCCESS);
		} while (wc.opcode != IBV_WC_RECV);
		for (uint32_t i = 0; i < wc.byte_len; i++)
			e->buf[i]++;
		CHECK(!post_recv(e, 1, BUF));
		CHECK(!post(e, IBV_WR_SEND, wc.byte_len, e->mr->lkey, NULL));
	}
}

static void ask(struct child *good, uint8_t fill)
{
	struct end *e = &good->e;
	bool has_answer = false;

	memset(e->buf, fill, ECHO);
	CHECK(!post_recv(e, 1, BUF));
	CHECK(!post(e, IBV_WR_SEND, ECHO, e->mr->lkey, NULL));
	while (!has_answer) {
		struct ibv_wc wc = next(e);

		CHECK(wc.status == IBV_WC_SUCCESS);
		has_answer = wc.opcode == IBV_WC_RECV;
	}
	for (uint32_t i = 0; i < ECHO; i++)
		CHECK(e->buf[i] == (uint8_t)(fill + 1));
}

/*
 * A peer that lies.
 */

/* All that the device has mapped here for writing: what is ours to lie in. */
static int own_memory(uint32_t **map, size_t *n, int max)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int found = 0;

	CHECK(f);
	while (found < max && fgets(line, sizeof(line), f)) {
		unsigned long from, to;
		char how[8];

		if (strstr(line, "/memfd:osf-rdma") &&
		    sscanf(line, "%lx-%lx %7s", &from, &to, how) == 3 &&
		    how[1] == 'w') {
			map[found] = (uint32_t *)from;
			n[found++] = (to - from) / 4;
		}
	}
	fclose(f);
	return found;
}

static void lie(struct child *mine)
{
	uint32_t *map[32], seed = (uint32_t)getpid();
	size_t n[32];
	int maps = own_memory(map, n, 32);
	struct address *to = &mine->theirs;

	CHECK(maps > 1);
	srand(seed);
	post_recv(&mine->e, 1, BUF);
	CHECK(write(mine->sv[1], "l", 1) == 1);
	for (;;) {
		int i = rand() % maps;
		struct ibv_wc wc;
		size_t at =
		    (size_t)rand() % (rand() % 2 ? n[i] : MIN(n[i], 64));

		map[i][at] = rand() % 4 ? (uint32_t)rand() : rand() % 3u;
		post(&mine->e, rand() % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE,
		     (uint32_t)rand() % 8, mine->e.mr->lkey, to);
		ibv_poll_cq(mine->e.cq, 1, &wc);
	}
}

/* Uses the pair with the liar in every way; it may fail, but not for long. */
static void use(struct child *foe)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND,
						  IBV_WR_RDMA_WRITE,
						  IBV_WR_RDMA_READ };
	struct end *e = &foe->e;
	struct ibv_wc wc;
	double start = now_s();

	for (int i = 0; i < 200; i++) {
		post_recv(e, 1, 16);
		post(e, ops[i % 3], i % 2 ? 16 : 20000, e->mr->lkey,
		     &foe->theirs);
		for (int n = 0; n < 20; n++)
			ibv_poll_cq(e->cq, 1, &wc);
	}
	CHECK(now_s() - start < SLOW_S);
}

static void test_liar(void)
{
	struct child good, foe;

	child_start(&good, echo);
	for (int i = 0; i < ROUNDS; i++) {
		double start = now_s();

		child_start(&foe, lie);
		use(&foe);
		ask(&good, (uint8_t)i);
		child_end(&foe);
		use(&foe);
		CHECK(!ibv_destroy_qp(foe.e.qp));
		CHECK(!ibv_dereg_mr(foe.e.mr));
		CHECK(!ibv_destroy_cq(foe.e.cq));
		CHECK(!ibv_destroy_comp_channel(foe.e.ch));
		CHECK(!ibv_dealloc_pd(foe.e.pd));
		free(foe.e.buf);
		CHECK(now_s() - start < 3 * SLOW_S);
	}
	child_end(&good);
}

/* One that says for ever that it is inside our memory costs a second, once. */
static void stay_inside(struct child *mine)
{
	uint32_t *map[32];
	size_t n[32];
	int maps = own_memory(map, n, 32);

	CHECK(write(mine->sv[1], "i", 1) == 1);
	/* n_inside is a word of the queue pair's third line. */
	for (;;)
		for (int i = 0; i < maps; i++)
			if (n[i] < (1u << 20) / 4)
				for (size_t k = 0; k < 16; k++)
					if (k >= 2)
						map[i][2 * 16 + k] = 1;
}

static void test_inside(void)
{
	struct child foe;

	child_start(&foe, stay_inside);
	double start = now_s();
	for (int i = 0; i < 30; i++) {
		struct ibv_mr *mr = ibv_reg_mr(foe.e.pd, foe.e.buf, 100, 0);

		CHECK(mr && !ibv_dereg_mr(mr));
	}
	CHECK(now_s() - start < SLOW_S);
	CHECK(!ibv_destroy_qp(foe.e.qp));
	child_end(&foe);
}

/* Who opens our memory as a file cannot write it, cut it or map it for writing. */
static void open_everything(struct child *mine)
{
	char path[300], target[100];
	int n_memory = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)mine->pid);
	DIR *dir = opendir(path);
	CHECK(dir);
	for (struct dirent *d; (d = readdir(dir));) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)mine->pid,
			 d->d_name);
		ssize_t len = readlink(path, target, sizeof(target) - 1);
		if (len < 0)
			continue;
		target[len] = '\0';
		if (strncmp(target, "/memfd:osf-rdma", 15) ||
		    strstr(target, "-cmd"))
			continue;
		int fd = open(path, O_RDWR);
		CHECK(fd >= 0);
		CHECK(write(fd, "liar", 4) < 0);
		CHECK(ftruncate(fd, 0) < 0);
		CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			   0) == MAP_FAILED);
		void *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
		CHECK(at != MAP_FAILED &&
		      mprotect(at, 4096, PROT_READ | PROT_WRITE));
		CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				0, 4096));
		n_memory++;
	}
	CHECK(n_memory >= 2);
	CHECK(write(mine->sv[1], "k", 1) == 1);
	for (;;)
		pause();
}

static void test_files(void)
{
	struct child good, foe;

	child_start(&good, echo);
	child_start(&foe, open_everything);
	ask(&good, 1);
	child_end(&foe);
	child_end(&good);
}

/*
 * A peer that is stopped.
 */

static void receive_one(struct child *mine)
{
	CHECK(!post_recv(&mine->e, 1, BUF));
	CHECK(write(mine->sv[1], "r", 1) == 1);
	for (;;)
		pause();
}

static void test_stopped(void)
{
	struct child good, foe;

	child_start(&good, echo);
	child_start(&foe, receive_one);
	CHECK(!kill(foe.pid, SIGSTOP));
	CHECK(waitpid(foe.pid, NULL, WUNTRACED) == foe.pid);
	CHECK(!post(&foe.e, IBV_WR_SEND, 10, foe.e.mr->lkey, NULL));
	CHECK(next(&foe.e).status == IBV_WC_SUCCESS); /* it has posted one */
	CHECK(!post(&foe.e, IBV_WR_SEND, 10, foe.e.mr->lkey, NULL));
	CHECK(next(&foe.e).status == IBV_WC_RNR_RETRY_EXC_ERR);
	ask(&good, 1);
	double start = now_s();
	CHECK(!ibv_destroy_qp(foe.e.qp));
	CHECK(!ibv_dereg_mr(foe.e.mr));
	CHECK(now_s() - start < SLOW_S);
	ask(&good, 2);
	child_end(&foe);
	child_end(&good);
}

/*
 * Strangers.
 */

static uint32_t block_of(const struct end *e) { return e->qp->qp_num >> 10; }

/* Another user's queue pair, which was told our number. */
static void stranger(struct child *mine)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)mine->pid);
	CHECK(!opendir(path) && errno == EACCES);
	CHECK(!post(&mine->e, IBV_WR_SEND, 8, mine->e.mr->lkey, NULL));
	CHECK(next(&mine->e).status == IBV_WC_RETRY_EXC_ERR);
	CHECK(write(mine->sv[1], "s", 1) == 1);
	for (;;)
		pause();
}

static void test_other_user(void)
{
	struct child good, foe;
	struct address mine;
	char byte;

	child_start(&good, echo);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, foe.sv));
	pid_t parent = getpid();
	foe.pid = fork_child();
	if (!foe.pid) {
		CHECK(!setgid(NOBODY) && !setuid(NOBODY));
		foe.pid = parent;
	}
	bool is_child = foe.pid == parent;
	end_open(&foe.e, IBV_QPT_RC);
	mine = address_of(&foe.e);
	int s = foe.sv[is_child];
	CHECK(write(s, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(read(s, &foe.theirs, sizeof(foe.theirs)) == sizeof(foe.theirs));
	end_connect(&foe.e, &foe.theirs);
	if (is_child)
		stranger(&foe);
	CHECK(!post_recv(&foe.e, 1, 100));
	CHECK(!post(&foe.e, IBV_WR_RDMA_WRITE, 8, foe.e.mr->lkey, &foe.theirs));
	CHECK(next(&foe.e).status == IBV_WC_RETRY_EXC_ERR);
	close(foe.sv[1]);
	CHECK(read(foe.sv[0], &byte, 1) == 1);
	ask(&good, 1);
	child_end(&foe);
	child_end(&good);
}

/* Connects to the name of our block until its backlog is full. */
static void fill_backlog(uint32_t block, int s)
{
	struct rlimit many = { 20000, 20000 };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int n = snprintf(un.sun_path + 1, 100, "osf-rdma/%u", block), full = 0;
	socklen_t len = (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 +
			(socklen_t)n;

	CHECK(!setrlimit(RLIMIT_NOFILE, &many));
	CHECK(!setgid(NOBODY) && !setuid(NOBODY));
	for (int i = 0; i < 19000 && !full; i++) {
		int c = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

		CHECK(c >= 0);
		if (connect(c, (struct sockaddr *)&un, len)) {
			CHECK(errno == EAGAIN);
			full = 1;
		}
	}
	CHECK(full && write(s, "f", 1) == 1);
	for (;;)
		pause();
}

/* Writes into our memory as soon as it is told to look for us. */
static void find_late(const struct address *to, int s)
{
	struct end c;
	struct address mine;
	char byte;

	end_open(&c, IBV_QPT_RC);
	mine = address_of(&c);
	CHECK(write(s, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(read(s, &byte, 1) == 1);
	end_connect(&c, to);
	memset(c.buf, 0x42, 8);
	CHECK(!post(&c, IBV_WR_RDMA_WRITE, 8, c.mr->lkey, to));
	_exit(next(&c).status != IBV_WC_SUCCESS);
}

/* A new peer finds this process, which sleeps and accepts nobody. */
static void test_backlog(void)
{
	struct end here;
	struct address mine, theirs;
	int sv[2], status;
	char byte;

	end_open(&here, IBV_QPT_RC);
	mine = address_of(&here);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	pid_t pid = fork_child();
	if (!pid)
		find_late(&mine, sv[1]);
	CHECK(read(sv[0], &theirs, sizeof(theirs)) == sizeof(theirs));
	end_connect(&here, &theirs);
	pid_t foe = fork_child();
	if (!foe)
		fill_backlog(block_of(&here), sv[1]);
	CHECK(read(sv[0], &byte, 1) == 1 && byte == 'f');
	CHECK(write(sv[0], "", 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(here.buf[7] == 0x42);
	CHECK(!kill(foe, SIGKILL) && waitpid(foe, NULL, 0) == foe);
}

static const struct {
	const char *name;
	void (*run)(void);
	bool needs_root;
} tests[] = {
	{ "liar", test_liar, false },
	{ "inside", test_inside, false },
	{ "files", test_files, false },
	{ "stopped", test_stopped, false },
	{ "other_user", test_other_user, true },
	{ "backlog", test_backlog, true },
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(100);
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		if (argc > 1 && strcmp(argv[1], tests[i].name))
			continue;
		if (tests[i].needs_root && geteuid()) {
			printf("skip %s: needs root\n", tests[i].name);
			continue;
		}
		tests[i].run();
		printf("ok %s\n", tests[i].name);
	}
	return 0;
}
