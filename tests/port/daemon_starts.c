/* SPDX-License-Identifier: MIT */
/*
 * tests/port/daemon_starts.c - osfd begins and ends, and what others have left there
 *
 *     daemon_starts OSFD OSF
 *
 * osfd runs HERE.  `osf port` starts it and ends it, as administrators do.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "osfd/client.h"
#include "osfd/name.h"
#include "osfd/steer.h"
#include "osfd_run.h"
#include "unit.h"
#include "world.h"

#define SOMEBODY 12345
#define ADDS 300
#define STEP_NS 20000

static struct world world;
static const char *osf_path;

static void programs_of_others_on_tc_stay(void **state)
{
	struct program prog;
	struct reply r;
	int fd = must_connect();

	assert_int_equal(port_call(fd, MSG_DEL, 0, &r), 0);
	must_run("tc qdisc add dev va clsact && tc filter add dev va ingress "
		 "protocol ip u32 match u32 0 0 flowid 1:1");
	assert_int_equal(port_call(fd, MSG_ADD, 0, &r), -EBUSY);
	print_message("%s\n", r.reason);
	struct request q = { .port = { .dev = "va", .flags = MSG_BESIDE } };
	assert_int_equal(osfd_call(fd, MSG_ADD, &q, NULL, 0, &r, NULL), 0);
	program_open(&prog);
	program_close(&prog);
	must_run("tc filter show dev va ingress | grep -q u32");
	must_run("tc qdisc del dev va clsact");
	close(fd);
}

/* One that is about to end. */
static void osfd_wait_end(void)
{
	struct reply hello;
	int fd = 0;

	for (int i = 0; i < 5000 && fd >= 0; i++) {
		fd = osfd_connect(&hello);
		if (fd >= 0)
			close(fd);
		poll(NULL, 0, 1);
	}
	assert_true(fd == -ECONNREFUSED || fd == -EIO);
}

/* A tcx program of somebody else: the test's own, which osfd has not made. */
static void a_tcx_program_of_others_stays(void **state)
{
	struct steer theirs;
	struct reply r;
	int fd = must_connect();

	world_enter(&world, HERE);
	assert_int_equal(port_call(fd, MSG_DEL, 0, &r), 0);
	assert_int_equal(steer_open(&theirs, world.ifindex[HERE], 1), 0);
	assert_int_equal(port_call(fd, MSG_ADD, 0, &r), -EBUSY);
	assert_non_null(strstr(r.reason, "1 at ingress, 0 at egress"));
	assert_int_equal(n_tcx(&world), 1);
	steer_close(&theirs);
	assert_int_equal(port_call(fd, MSG_ADD, 0, &r), 0);
	close(fd);
}

/* A program keeps the tc program of an osfd that is gone.  One that ended orderly has left no
 * list of its ports, so they are added again. */
static void a_former_osfd_is_no_obstacle(void **state)
{
	struct program prog;
	struct reply r;

	program_open(&prog);
	osfd_kill(SIGKILL);
	osfd_forget(&world);
	osfd_run(&world);
	assert_int_equal(n_tcx(&world), 1);
	int fd = must_connect();
	assert_int_equal(port_call(fd, MSG_ADD, 0, &r), 0);
	close(fd);
	program_close(&prog);
}

/* The policy's file: one port for a user, one that is wrong. */
static void the_policy_file_says_who_may(void **state)
{
	char path[] = "/tmp/osf-policy-XXXXXX";
	struct msg_listed l;
	struct reply r;
	int status, file = mkstemp(path);
	struct request open = { .port = { .dev = "va" } };
	int fds[2];

	osfd_kill(SIGTERM);
	dprintf(file, "# ours\nport va user %d flows 3\nport none\n", SOMEBODY);
	close(file);
	must_run("%s --on-demand --policy %s 2>/dev/null", osfd_path, path);
	int fd = must_connect();
	assert_int_equal(n_listed(fd, &l), 1);
	assert_int_equal(l.port.uid, SOMEBODY);
	assert_int_equal(l.port.n_flows, 3);
	for (int other = 0; other < 2; other++) {
		pid_t pid = fork();
		if (!pid) {
			if (setgid(SOMEBODY) || setuid(SOMEBODY + (uid_t)other))
				_exit(99);
			int own = osfd_connect(&r);
			int err =
			    osfd_call(own, MSG_OPEN, &open, NULL, 0, &r, fds);
			_exit(err == (other ? -EACCES : 0) ? 0 : 2);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	assert_int_equal(port_call(fd, MSG_DEL, SOMEBODY, &r), 0);
	close(fd);
	unlink(path);
	osfd_wait_end();
	osfd_run(&world);
}

/* Each of these texts starts no osfd.  The last one is longer than osfd reads, and what osfd
 * reads of it ends within "user %d": that is another user. */
static void a_wrong_policy_file_starts_nothing(void **state)
{
	static const char *const wrong[] = { "port va user nobody-of-that-name",
					     "port va flows 0", "port va user",
					     "port" };
	char path[] = "/tmp/osf-policy-XXXXXX";
	int file = mkstemp(path);

	osfd_kill(SIGTERM);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		assert_int_equal(ftruncate(file, 0), 0);
		assert_int_equal(pwrite(file, wrong[i], strlen(wrong[i]), 0),
				 strlen(wrong[i]));
		must_run("! %s --on-demand --policy %s 2>/dev/null", osfd_path,
			 path);
	}
	assert_int_equal(ftruncate(file, 0), 0);
	must_run("yes '#' | head -c %d > %s; echo 'port va user %d' >> %s",
		 65536 - (int)strlen("port va user 1"), path, SOMEBODY, path);
	must_run("! %s --on-demand --policy %s 2>/dev/null", osfd_path, path);
	close(file);
	unlink(path);
	osfd_run(&world);
}

/* The files of osfds that have ended, in whichever namespace, go at the next start. */
static void old_files_of_ports_go(void **state)
{
	static const char empty[] = "/run/osf/ports-18446744073709551615",
			  kept[] = "/run/osf/ports-18446744073709551614",
			  old[] = "/run/osf/ports-18446744073709551613";

	must_run(": > %s && echo port x > %s && echo port x > %s && "
		 "touch -d '2 days ago' %s",
		 empty, kept, old, old);
	osfd_kill(SIGTERM);
	osfd_run(&world);
	assert_int_equal(access(empty, F_OK), -1);
	assert_int_equal(access(old, F_OK), -1);
	assert_int_equal(unlink(kept), 0);
}

/* In the background, as `osf port add' starts it. */
static void an_osfd_in_the_background_hears_sigterm(void **state)
{
	osfd_kill(SIGTERM);
	must_run("%s port add va", osf_path);
	must_run("for p in $(pgrep -x osfd); do if "
		 "[ \"$(readlink /proc/$p/ns/net)\" = "
		 "\"$(readlink /proc/self/ns/net)\" ]; "
		 "then kill $p; fi; done");
	osfd_wait_end();
	osfd_run(&world);
}

/* Who starts it has a lock, and none of the three descriptors that all programs have. */
static void an_osfd_in_the_background_keeps_nothing(void **state)
{
	char lock[] = "/tmp/osf-lock-XXXXXX";

	close(mkstemp(lock));
	osfd_kill(SIGTERM);
	must_run("exec 9>%s && flock 9 && %s port add va <&- >&- 2>&-", lock,
		 osf_path);
	must_run("flock -n %s true", lock);
	must_run("%s port del va", osf_path);
	unlink(lock);
	osfd_wait_end();
	osfd_run(&world);
}

static void osf_port_starts_osfd_and_ends_it(void **state)
{
	osfd_kill(SIGTERM);
	must_run("! %s port del va 2>/dev/null", osf_path);
	must_run("%s port add va --user %d --flows 7", osf_path, SOMEBODY);
	must_run("%s port list | grep -q 'va *%d *0 *0 *7 '", osf_path,
		 SOMEBODY);
	must_run("! %s port add nodevice 2>/dev/null", osf_path);
	must_run("%s port del va --user %d", osf_path, SOMEBODY);
	osfd_wait_end();
	osfd_run(&world);
}

/* Accepts one connection, gives the name up, and closes: an osfd that ends. */
static void end_like_osfd(int listener)
{
	int fd = accept(listener, NULL, NULL);

	close(listener);
	_exit(fd < 0);
}

static void an_osfd_that_ends_is_none(void **state)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct reply r;
	int status;

	osfd_kill(SIGTERM);
	memcpy(un.sun_path + 1, OSFD_NAME, sizeof(OSFD_NAME) - 1);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(
	    bind(fd, (struct sockaddr *)&un,
		 offsetof(struct sockaddr_un, sun_path) + sizeof(OSFD_NAME)),
	    0);
	assert_int_equal(listen(fd, 1), 0);
	pid_t pid = fork();
	if (!pid)
		end_like_osfd(fd);
	close(fd);
	assert_int_equal(osfd_connect(&r), -ECONNREFUSED);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	osfd_run(&world);
}

/* The osfd that ends with its last port still has its name for a moment: here `osf port
 * add' comes sooner and sooner before its end. */
static void osf_port_add_meets_an_osfd_that_ends(void **state)
{
	struct reply r;
	int status;

	osfd_kill(SIGTERM);
	must_run("%s port add va", osf_path);
	for (int i = 0; i < ADDS; i++) {
		int fd = must_connect();
		assert_int_equal(port_call(fd, MSG_DEL, 0, &r), 0);
		pid_t pid = fork();
		if (!pid) {
			execl(osf_path, "osf", "port", "add", "va", NULL);
			_exit(127);
		}
		for (uint64_t end = now_ns() + (uint64_t)i * STEP_NS;
		     now_ns() < end;)
			;
		close(fd);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	must_run("%s port del va", osf_path);
	osfd_wait_end();
	osfd_run(&world);
}

#define TEST(name) OSFD_TEST(name, &world)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(programs_of_others_on_tc_stay),
		TEST(a_tcx_program_of_others_stays),
		TEST(a_former_osfd_is_no_obstacle),
		TEST(the_policy_file_says_who_may),
		TEST(a_wrong_policy_file_starts_nothing),
		TEST(old_files_of_ports_go),
		TEST(an_osfd_in_the_background_hears_sigterm),
		TEST(an_osfd_in_the_background_keeps_nothing),
		TEST(osf_port_starts_osfd_and_ends_it),
		TEST(an_osfd_that_ends_is_none),
		TEST(osf_port_add_meets_an_osfd_that_ends),
	};

	if (argc != 3)
		return 1;
	osfd_path = argv[1];
	osf_path = argv[2];
	return osfd_run_tests(&world, tests);
}
