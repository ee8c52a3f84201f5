/* SPDX-License-Identifier: MIT */
/*
 * tests/port/confined.c - what osfd and its processes have given up, and that it is enough
 *
 *     confined OSFD
 *
 * osfd runs HERE, and the kernel is the peer THERE.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "osfd_run.h"
#include "unit.h"
#include "world.h"

/* A field of a call, of which a filter sees the low half. */
#define CALL_ARG(of) ((uint32_t)offsetof(struct seccomp_data, of))

#define VERIFIED_MAX 10000 /* instructions: some milliseconds */

static struct world world;

/* As in a kernel that has neither IPsec nor conntrack. */
static void lack_netlink_protocols(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, CALL_ARG(nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 6),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, CALL_ARG(args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, CALL_ARG(args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NETLINK_XFRM, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NETLINK_NETFILTER, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPROTONOSUPPORT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { ARRAY_LEN(code), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		_exit(127);
}

static void a_kernel_may_lack_ipsec_and_conntrack(void **state)
{
	struct program prog;
	struct pair p;
	struct reply r;

	osfd_kill(SIGKILL);
	osfd_run_after(&world, lack_netlink_protocols);
	program_open(&prog);
	pair_open(&world, false, HERE, &p);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(program_freeze(&prog, p.end[HERE], &r), 0);
		assert_int_equal(program_thaw(&prog, p.end[HERE], &r.frozen),
				 0);
	}
	pair_close(&p);
	program_close(&prog);
}

static void status_line(pid_t pid, const char *key, char *out, size_t size)
{
	char path[64], line[256];
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	*out = '\0';
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			snprintf(out, size, "%s", strrchr(line, '\t') + 1);
	fclose(f);
}

/* The process of osfd's that has a name, or 0. */
static pid_t part_of_osfd(const char *name)
{
	char path[64];
	pid_t child = 0, found = 0;
	char of[32] = "";

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", osfd_pid,
		 osfd_pid);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	while (!found && fscanf(f, "%d", &child) == 1) {
		status_line(child, "Name:", of, sizeof(of));
		of[strcspn(of, "\n")] = '\0';
		found = strcmp(of, name) == 0 ? child : 0;
	}
	fclose(f);
	return found;
}

static void must_be_confined(pid_t pid, uint64_t capabilities)
{
	static const char *const held[] = { "CapEff:", "CapPrm:" },
				 *const lost[] = { "CapBnd:", "CapInh:",
						   "CapAmb:" };
	char value[64];

	for (size_t i = 0; i < ARRAY_LEN(held); i++) {
		status_line(pid, held[i], value, sizeof(value));
		assert_int_equal(strtoull(value, NULL, 16), capabilities);
	}
	for (size_t i = 0; i < ARRAY_LEN(lost); i++) {
		status_line(pid, lost[i], value, sizeof(value));
		assert_int_equal(strtoull(value, NULL, 16), 0);
	}
}

static void must_be_filtered(pid_t pid, int n_filters)
{
	char value[64];

	status_line(pid, "Seccomp:", value, sizeof(value));
	assert_int_equal(atoi(value), 2);
	status_line(pid, "Seccomp_filters:", value, sizeof(value));
	assert_int_equal(atoi(value), n_filters);
	status_line(pid, "NoNewPrivs:", value, sizeof(value));
	assert_int_equal(atoi(value), 1);
}

/* osfd does not wait for its closer, which may not have confined itself yet. */
static pid_t filtered_closer(void)
{
	char value[64] = "";
	pid_t pid = 0;

	for (int i = 0; i < 5000 && atoi(value) != 2; i++) {
		pid = part_of_osfd("osfd-closer");
		if (pid)
			status_line(pid, "Seccomp:", value, sizeof(value));
		poll(NULL, 0, 1);
	}
	return pid;
}

static void osfd_has_given_up_the_rest(void **state)
{
	/* NET_BIND_SERVICE, NET_ADMIN, NET_RAW; BPF */
	const uint64_t of_worker = 1ull << 10 | 1ull << 12 | 1ull << 13,
		       of_osfd = of_worker | 1ull << 39;
	struct program prog;

	program_open(&prog);
	must_be_confined(osfd_pid, of_osfd);
	must_be_filtered(osfd_pid, 1);
	must_be_confined(part_of_osfd("osfd-worker"), of_worker);
	must_be_filtered(part_of_osfd("osfd-worker"), 2);
	pid_t closer = filtered_closer();
	must_be_confined(closer, 0);
	must_be_filtered(closer, 1);
	program_close(&prog);
}

/* The verifier follows more of a program whose loader lacks CAP_PERFMON, and each grant loads
 * the programs anew. */
static void the_verifier_is_soon_done(void **state)
{
	struct program prog;

	program_open(&prog);
	assert_in_range(tcx_verified(&world), 1, VERIFIED_MAX);
	program_close(&prog);
}

#define TEST(name) OSFD_TEST(name, &world)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(osfd_has_given_up_the_rest),
		TEST(the_verifier_is_soon_done),
		TEST(a_kernel_may_lack_ipsec_and_conntrack),
	};

	if (argc != 2)
		return 1;
	osfd_path = argv[1];
	return osfd_run_tests(&world, tests);
}
