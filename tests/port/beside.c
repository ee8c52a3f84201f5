/* SPDX-License-Identifier: MIT */
/*
 * tests/port/beside.c - XDP and tc programs of others on a port's device, as Cilium has them
 *
 *     beside OSFD OSF LIBOSF TURNS
 *
 * osfd runs HERE.  Theirs count packets, and let them pass.  Theirs come first, or the port
 * does.  Each time a program under osf takes turns with one of the kernel's THERE, each byte is
 * compared, and the connection moves to and fro.  A program of XDP sees all of it.  A port that
 * passes programs on tc by is refused, unless the administrator says that they do not matter;
 * then they see the kernel's packets alone.  Theirs are left alone.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/pkt_cls.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "osfd_run.h"
#include "unit.h"
#include "world.h"

#define TCX_INGRESS 46
#define TCX_NEXT_PROG (-1)
#define TCX_FIRST (1u << 3) /* BPF_F_BEFORE */
#define MBYTES "1"
#define MOVE_MS "20"

static struct world world;
static const char *osf_path, *turns_path;

/* A program of somebody else, which counts in @map. */
struct theirs {
	int map, prog;
};

static void theirs_open(struct theirs *t, enum bpf_prog_type type, int verdict)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts);

	t->map = bpf_map_create(BPF_MAP_TYPE_ARRAY, "seen", 4, 8, 1, NULL);
	assert_true(t->map >= 0);
	const struct bpf_insn code[] = {
		{ BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_VALUE, 0,
		  t->map },
		{ 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, 1 },
		{ BPF_STX | BPF_ATOMIC | BPF_DW, BPF_REG_1, BPF_REG_2, 0,
		  BPF_ADD },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, verdict },
		{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
	};
	t->prog =
	    bpf_prog_load(type, "theirs", "GPL", code, ARRAY_LEN(code), &opts);
	assert_true(t->prog >= 0);
}

static void theirs_close(const struct theirs *t)
{
	close(t->prog);
	close(t->map);
}

static uint64_t n_seen(const struct theirs *t)
{
	uint32_t zero = 0;
	uint64_t n = 0;

	assert_int_equal(bpf_map_lookup_elem(t->map, &zero, &n), 0);
	return n;
}

/*
 * Where theirs are attached.
 */

enum where { XDP_GENERIC, XDP_NATIVE, TCX, TCX_BEFORE_OURS, CLSACT };

static const struct kind {
	const char *name;
	enum bpf_prog_type type;
	int verdict;
	bool is_tc;
} kinds[] = {
	[XDP_GENERIC] = { "XDP, generic", BPF_PROG_TYPE_XDP, XDP_PASS, false },
	[XDP_NATIVE] = { "XDP, native", BPF_PROG_TYPE_XDP, XDP_PASS, false },
	[TCX] = { "tcx", BPF_PROG_TYPE_SCHED_CLS, TCX_NEXT_PROG, true },
	[TCX_BEFORE_OURS] = { "tcx, before ours, ends the chain",
			      BPF_PROG_TYPE_SCHED_CLS, TC_ACT_OK, true },
	[CLSACT] = { "clsact", BPF_PROG_TYPE_SCHED_CLS, TC_ACT_OK, true },
};

static struct bpf_tc_hook hook = { .sz = sizeof(hook),
				   .attach_point = BPF_TC_INGRESS };

static uint32_t xdp_flags(enum where at)
{
	return at == XDP_NATIVE ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
}

/* Return: a link, or -1 where there is none */
static int attach(enum where at, const struct theirs *t)
{
	int dev = world.ifindex[HERE], link = -1;
	LIBBPF_OPTS(bpf_tc_opts, opts, .prog_fd = t->prog);
	LIBBPF_OPTS(bpf_link_create_opts, tcx,
		    .flags = at == TCX_BEFORE_OURS ? TCX_FIRST : 0);

	hook.ifindex = dev;
	switch (at) {
	case XDP_GENERIC:
	case XDP_NATIVE:
		assert_int_equal(
		    bpf_xdp_attach(dev, t->prog, xdp_flags(at), NULL), 0);
		break;
	case TCX:
	case TCX_BEFORE_OURS:
		link = bpf_link_create(t->prog, dev, TCX_INGRESS, &tcx);
		assert_true(link >= 0);
		break;
	case CLSACT:
		assert_int_equal(bpf_tc_hook_create(&hook), 0);
		assert_int_equal(bpf_tc_attach(&hook, &opts), 0);
	}
	return link;
}

/* Fails where somebody else has removed it. */
static void detach(enum where at, int link)
{
	if (at == CLSACT) {
		hook.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS;
		assert_int_equal(bpf_tc_hook_destroy(&hook), 0);
		hook.attach_point = BPF_TC_INGRESS;
	} else if (link < 0) {
		uint32_t id = 0;
		assert_int_equal(
		    bpf_xdp_query_id(hook.ifindex, (int)xdp_flags(at), &id), 0);
		assert_int_not_equal(id, 0);
		assert_int_equal(
		    bpf_xdp_detach(hook.ifindex, xdp_flags(at), NULL), 0);
	} else {
		assert_int_equal(bpf_link_detach(link), 0);
		close(link);
	}
}

/*
 * Turns.
 */

static pid_t start(enum place at, const char *role, const char *port)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	world_enter(&world, at);
	if (at == THERE)
		execl(turns_path, "turns", role, "10.9.0.2", port, MBYTES, "1",
		      NULL);
	setenv("OSF_RULES", "use tcp tcp_client *:*", 1);
	execl(osf_path, "osf", "run", "--", turns_path, role, "10.9.0.2", port,
	      MBYTES, "1", MOVE_MS, NULL);
	_exit(127);
}

static void must_end_well(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Return: how many segments went over the port */
static uint64_t turns(void)
{
	static uint16_t port = 7000;
	struct msg_listed was, is;
	char word[8];
	int fd = must_connect();

	snprintf(word, sizeof(word), "%u", ++port);
	assert_int_equal(n_listed(fd, &was), 1);
	pid_t far = start(THERE, "listen", word);
	pid_t near = start(HERE, "connect", word);
	must_end_well(near);
	must_end_well(far);
	assert_int_equal(n_listed(fd, &is), 1);
	close(fd);
	return is.n_segments - was.n_segments;
}

/* A few packets that the port does not have. */
static void kernels_packets(void)
{
	struct pair p;
	char c;

	pair_open(&world, false, HERE, &p);
	assert_int_equal(send(p.end[THERE], "x", 1, 0), 1);
	assert_int_equal(recv(p.end[HERE], &c, 1, 0), 1);
	pair_close(&p);
	world_enter(&world, HERE);
}

static void judge(enum where at, const struct theirs *t)
{
	uint64_t before = n_seen(t);
	uint64_t n = turns();
	uint64_t of_turns = n_seen(t) - before;

	print_message("%s: the port had %llu segments, theirs saw %llu\n",
		      kinds[at].name, (unsigned long long)n,
		      (unsigned long long)of_turns);
	assert_true(n > 0);
	if (!kinds[at].is_tc) /* ours is the first on tc */
		assert_true(of_turns >= n);
	before = n_seen(t);
	kernels_packets();
	assert_true(n_seen(t) > before);
}

static void they_come_first(enum where at)
{
	struct request q = { .port = { .dev = "va", .flags = MSG_BESIDE } };
	struct theirs t;
	struct reply r;
	int fd = must_connect();

	assert_int_equal(port_call(fd, MSG_DEL, 0, &r), 0);
	theirs_open(&t, kinds[at].type, kinds[at].verdict);
	int link = attach(at, &t);
	int err = port_call(fd, MSG_ADD, 0, &r);
	if (kinds[at].is_tc) {
		assert_int_equal(err, -EBUSY);
		assert_non_null(strstr(r.reason, "1 at ingress, 0 at egress"));
		assert_int_equal(osfd_call(fd, MSG_ADD, &q, NULL, 0, &r, NULL),
				 0);
	} else {
		assert_int_equal(err, 0);
	}
	judge(at, &t);
	detach(at, link);
	theirs_close(&t);
	close(fd);
}

/* A connection that has moved is at the port, and who is in front of ours sees it. */
static void one_segment(struct program *prog, enum where at,
			const struct theirs *t)
{
	struct packet_frame frame;
	struct reply r;
	struct pair p;
	char c;

	pair_open(&world, false, HERE, &p);
	world_enter(&world, HERE);
	assert_int_equal(program_freeze(prog, p.end[HERE], &r), 0);
	uint64_t before = n_seen(t);
	assert_int_equal(send(p.end[THERE], "x", 1, 0), 1);
	assert_true(port_wait(&prog->port, &frame));
	if (!kinds[at].is_tc || at == TCX_BEFORE_OURS)
		assert_true(n_seen(t) > before);
	assert_int_equal(recv(p.end[HERE], &c, 1, MSG_DONTWAIT), -1);
	assert_int_equal(program_thaw(prog, p.end[HERE], &r.frozen), 0);
	assert_int_equal(recv(p.end[HERE], &c, 1, 0), 1);
	pair_close(&p);
}

static void we_come_first(enum where at)
{
	struct program prog;
	struct theirs t;
	struct reply r;
	int fd = must_connect();

	/* A grant that is there before theirs are. */
	program_open(&prog);
	theirs_open(&t, kinds[at].type, kinds[at].verdict);
	int link = attach(at, &t);
	one_segment(&prog, at, &t);
	judge(at, &t);
	program_close(&prog);
	assert_int_equal(port_call(fd, MSG_DEL, 0, &r), 0);
	uint64_t before = n_seen(&t);
	kernels_packets();
	assert_true(n_seen(&t) > before);
	detach(at, link);
	theirs_close(&t);
	close(fd);
}

#define BOTH(at)                                                               \
	static void at##_first(void **state) { they_come_first(at); }          \
	static void at##_second(void **state) { we_come_first(at); }
BOTH(XDP_GENERIC)
BOTH(XDP_NATIVE)
BOTH(TCX)
BOTH(TCX_BEFORE_OURS)
BOTH(CLSACT)

#define TEST(at) OSFD_TEST(at##_first, &world), OSFD_TEST(at##_second, &world)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(XDP_GENERIC),     TEST(XDP_NATIVE), TEST(TCX),
		TEST(TCX_BEFORE_OURS), TEST(CLSACT),
	};

	if (argc != 5)
		return 1;
	osfd_path = argv[1];
	osf_path = argv[2];
	setenv("OSF_LIB", argv[3], 1);
	turns_path = argv[4];
	libbpf_set_print(NULL);
	return osfd_run_tests(&world, tests);
}
