/* SPDX-License-Identifier: MIT */
/*
 * tests/port/daemon.c - osfd, as programs use it
 *
 *     daemon OSFD OSF
 *
 * osfd runs HERE, and the kernel is the peer THERE.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "osfd/client.h"
#include "osfd_run.h"
#include "unit.h"
#include "world.h"

#define SOMEBODY 12345
#define CYCLES 200
#define STEP_NS 20000

static struct world world;
static const char *osf_path;

static void ping(const struct pair *p)
{
	char c;

	assert_int_equal(send(p->end[HERE], "a", 1, 0), 1);
	assert_int_equal(recv(p->end[THERE], &c, 1, 0), 1);
	assert_int_equal(send(p->end[THERE], "b", 1, 0), 1);
	assert_int_equal(recv(p->end[HERE], &c, 1, 0), 1);
	struct tcp_info info = { .tcpi_unacked = 1 };
	socklen_t len = sizeof(info);
	for (int i = 0; i < 5000 && info.tcpi_unacked; i++) {
		assert_int_equal(getsockopt(p->end[HERE], IPPROTO_TCP, TCP_INFO,
					    &info, &len),
				 0);
		if (info.tcpi_unacked)
			poll(NULL, 0, 1);
	}
}

static void a_connection_moves_and_comes_back(void **state)
{
	struct program prog;
	struct pair p;
	struct reply r;
	uint64_t took[2] = { 0 };

	program_open(&prog);
	pair_open(&world, false, HERE, &p);
	for (int i = 0; i < CYCLES; i++) {
		ping(&p);
		uint64_t t0 = now_ns();
		assert_int_equal(program_freeze(&prog, p.end[HERE], &r), 0);
		uint64_t t1 = now_ns();
		assert_int_equal(program_thaw(&prog, p.end[HERE], &r.frozen),
				 0);
		took[0] += t1 - t0;
		took[1] += now_ns() - t1;
	}
	print_message("by messages: freeze %.1f us, thaw %.1f us on average\n",
		      (double)took[0] / CYCLES / 1000,
		      (double)took[1] / CYCLES / 1000);
	ping(&p);
	pair_close(&p);
	program_close(&prog);
}

/* Is there a packet socket HERE whose ring gets no frames?  By proc(5). */
static bool is_any_deaf(void)
{
	char line[256];
	bool any = false;

	world_enter(&world, HERE);
	FILE *f = fopen("/proc/thread-self/net/packet", "re");
	assert_non_null(f);
	while (!any && fgets(line, sizeof(line), f))
		any = strstr(line, " 88b5 ");
	fclose(f);
	return any;
}

/* Else each frame of the device would cost the kernel more for a program that has no
 * connection. */
static void a_grant_without_flows_gets_no_frames(void **state)
{
	struct packet_frame f;
	struct program prog;
	struct pair p;
	struct reply r;
	bool is_deaf = false;

	program_open(&prog);
	pair_open(&world, false, HERE, &p);
	ping(&p);
	assert_int_equal(program_freeze(&prog, p.end[HERE], &r), 0);
	assert_int_equal(program_thaw(&prog, p.end[HERE], &r.frozen), 0);
	for (int i = 0; i < 5000 && !is_deaf; i++) {
		poll(NULL, 0, 1);
		is_deaf = is_any_deaf();
	}
	assert_true(is_deaf);
	ping(&p);
	assert_int_equal(program_freeze(&prog, p.end[HERE], &r), 0);
	assert_false(is_any_deaf());
	assert_int_equal(send(p.end[THERE], "c", 1, 0), 1);
	assert_true(port_wait(&prog.port, &f));
	packet_rx_done(&prog.port);
	assert_int_equal(program_thaw(&prog, p.end[HERE], &r.frozen), 0);
	ping(&p);
	pair_close(&p);
	program_close(&prog);
}

static int rest_or_wake(const struct program *p, enum msg_type type, int got[2])
{
	struct request q = { .rest = { p->grant } };
	struct reply r;

	return osfd_call(p->osfd, type, &q, NULL, 0, &r, got);
}

/* Neither a packet socket nor a tc program looks at the frames of the device. */
static void a_grant_that_rests_leaves_no_trace(void **state)
{
	struct packet_frame f;
	struct program prog;
	struct pair p;
	struct reply r;
	int got[2];

	program_open(&prog);
	pair_open(&world, false, HERE, &p);
	ping(&p);
	assert_int_equal(n_tcx(&world), 1);
	assert_int_equal(rest_or_wake(&prog, MSG_REST, got), 0);
	assert_int_equal(got[0], -1);
	assert_int_equal(n_tcx(&world), 0);
	assert_true(is_any_deaf());
	assert_int_equal(rest_or_wake(&prog, MSG_REST, got), 0);
	assert_int_equal(program_freeze(&prog, p.end[HERE], &r), -EAGAIN);
	ping(&p);

	assert_int_equal(rest_or_wake(&prog, MSG_WAKE, got), 0);
	assert_int_equal(got[1], -1);
	assert_int_equal(n_tcx(&world), 1);
	assert_false(is_any_deaf());
	close(prog.link);
	prog.link = got[0];
	assert_int_equal(program_freeze(&prog, p.end[HERE], &r), 0);
	assert_int_equal(rest_or_wake(&prog, MSG_REST, got), -EBUSY);
	osfd_kill(SIGKILL); /* the new link is the program's, too */
	assert_int_equal(n_tcx(&world), 1);
	assert_int_equal(send(p.end[THERE], "c", 1, 0), 1);
	assert_true(port_wait(&prog.port, &f));
	packet_rx_done(&prog.port);
	osfd_run(&world);
	pair_close(&p);
	program_close(&prog);
}

static void an_answer_need_not_be_waited_for(void **state)
{
	struct request q = { .list = { 0 } };
	struct reply r;
	int fd = must_connect();

	kill(osfd_pid, SIGSTOP);
	assert_int_equal(osfd_ask(fd, MSG_LIST, &q, NULL, 0), 0);
	assert_int_equal(osfd_answer(fd, &r, NULL, false), -EAGAIN);
	assert_int_equal(r.err, 0);
	kill(osfd_pid, SIGCONT);
	assert_int_equal(osfd_answer(fd, &r, NULL, true), 0);
	assert_int_equal(r.type, MSG_LIST);
	close(fd);
}

static void who_is_not_quiet_hears_why(void **state)
{
	struct program prog;
	struct pair p;
	struct reply r;
	char c;

	program_open(&prog);
	pair_open(&world, false, HERE, &p);
	assert_int_equal(send(p.end[THERE], "a", 1, 0), 1);
	assert_int_equal(recv(p.end[HERE], &c, 1, MSG_PEEK), 1);
	assert_int_equal(program_freeze(&prog, p.end[HERE], &r), -EAGAIN);
	assert_non_null(strstr(r.reason, "not quiet"));
	pair_close(&p);
	program_close(&prog);
}

static void the_grants_of_a_killed_program_end(void **state)
{
	struct program prog;
	struct msg_listed l;
	struct pair p;
	struct reply r;
	int ready[2];
	char c;

	assert_int_equal(pipe(ready), 0);
	pair_open(&world, false, HERE, &p);
	ping(&p);
	pid_t pid = fork();
	if (!pid) {
		program_open(&prog);
		if (program_freeze(&prog, p.end[HERE], &r) == 0 &&
		    write(ready[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	int fd = must_connect();
	assert_int_equal(n_listed(fd, &l), 1);
	assert_int_equal(l.n_grants, 1);
	assert_int_equal(l.n_used, 1);
	assert_int_equal(port_call(fd, MSG_DEL, 0, &r), -EBUSY);
	assert_int_equal(port_call(fd, MSG_ADD, 0, &r), 0); /* it stays */
	close(p.end[HERE]); /* the program has the only one */
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	for (int i = 0; i < 5000 && l.n_grants; i++) {
		assert_int_equal(n_listed(fd, &l), 1);
		poll(NULL, 0, 1);
	}
	assert_int_equal(l.n_grants, 0);
	assert_int_equal(l.n_used, 0);
	/* The peer, which only waits, hears of it. */
	struct pollfd pfd = { .fd = p.end[THERE], .events = POLLIN };
	assert_int_equal(poll(&pfd, 1, 5000), 1);
	assert_int_equal(recv(p.end[THERE], &c, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	close(fd);
	close(p.end[THERE]);
}

static void a_program_goes_on_without_osfd(void **state)
{
	struct program prog;
	struct packet_frame f;
	struct msg_listed l;
	struct pair p;
	struct reply r;

	program_open(&prog);
	pair_open(&world, false, HERE, &p);
	ping(&p);
	assert_int_equal(program_freeze(&prog, p.end[HERE], &r), 0);
	osfd_kill(SIGKILL);
	assert_int_equal(send(p.end[THERE], "c", 1, 0), 1);
	assert_true(port_wait(&prog.port, &f));
	packet_rx_done(&prog.port);

	osfd_run(&world);
	int fd = must_connect();
	assert_int_equal(n_listed(fd, &l), 1); /* as before the kill */
	assert_string_equal(l.port.dev, "va");
	close(fd);

	struct program next;
	struct frozen f2 = r.frozen;
	program_open(&next);
	assert_int_equal(program_thaw(&next, p.end[THERE], &f2), -ENOTCONN);
	struct request q = { .adopt = { next.grant, f2.snd_nxt } };
	assert_int_equal(
	    osfd_call(next.osfd, MSG_ADOPT, &q, &p.end[HERE], 1, &r, NULL), 0);
	program_close(&prog);
	char c = 0;
	assert_int_equal(send(p.end[THERE], "d", 1, 0), 1);
	assert_true(port_wait(&next.port, &f));
	packet_rx_done(&next.port);
	assert_int_equal(program_thaw(&next, p.end[HERE], &f2), 0);
	assert_int_equal(recv(p.end[HERE], &c, 1, 0), 1); /* sent again */
	assert_int_equal(c, 'c');
	assert_int_equal(recv(p.end[HERE], &c, 1, 0), 1);
	assert_int_equal(c, 'd');
	ping(&p);
	program_close(&next);
	pair_close(&p);
}

/* What osfd says without being asked.  Return: its type, or 0 */
static uint16_t heard(int fd, int wait_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	struct reply r = { 0 };

	if (poll(&pfd, 1, wait_ms) > 0)
		assert_true(recv(fd, &r, sizeof(r), 0) > 0);
	return r.type;
}

/* A program that speaks version 1 does not know MSG_LEAVE, and gets none. */
static void a_port_that_is_removed_asks_for_its_connections(void **state)
{
	for (uint32_t version = 1; version <= 2; version++) {
		struct request q = { .hello = { version, 1 } };
		struct request open = { .port = { .dev = "va" } };
		struct program prog;
		struct msg_listed l;
		struct pair p;
		struct reply r, frozen;
		int fds[2], fd = must_connect();

		program_open(&prog);
		assert_int_equal(
		    osfd_call(prog.osfd, MSG_HELLO, &q, NULL, 0, &r, NULL), 0);
		pair_open(&world, false, HERE, &p);
		ping(&p);
		assert_int_equal(program_freeze(&prog, p.end[HERE], &frozen),
				 0);
		assert_int_equal(port_call(fd, MSG_DEL, 0, &r), -EBUSY);
		if (version >= MSG_VERSION_LEAVE)
			assert_int_equal(heard(prog.osfd, 5000), MSG_LEAVE);
		assert_int_equal(heard(prog.osfd, 0), 0);
		assert_int_equal(
		    osfd_call(fd, MSG_OPEN, &open, NULL, 0, &r, fds), -EACCES);
		assert_int_equal(
		    program_thaw(&prog, p.end[HERE], &frozen.frozen), 0);
		/* It goes with its last connection. */
		assert_int_equal(n_listed(fd, &l), 0);
		ping(&p);
		assert_int_equal(program_freeze(&prog, p.end[HERE], &r),
				 -EBADF);
		assert_int_equal(port_call(fd, MSG_ADD, 0, &r), 0);
		pair_close(&p);
		program_close(&prog);
		close(fd);
	}
}

/* A program has a connection on the port when osfd is asked to end, and is asked for it. */
static void moved_and_asked(struct program *prog, struct pair *p,
			    struct reply *r)
{
	program_open(prog);
	pair_open(&world, false, HERE, p);
	ping(p);
	assert_int_equal(program_freeze(prog, p->end[HERE], r), 0);
	kill(osfd_pid, SIGTERM);
	assert_int_equal(heard(prog->osfd, 5000), MSG_LEAVE);
}

/* osfd waits for a program that was asked, and ends when it has answered. */
static void sigterm_asks_for_connections(void **state)
{
	struct program prog;
	struct pair p;
	struct reply r;

	moved_and_asked(&prog, &p, &r);
	assert_int_equal(waitpid(osfd_pid, NULL, WNOHANG), 0);
	assert_int_equal(program_thaw(&prog, p.end[HERE], &r.frozen), 0);
	assert_int_equal(waitpid(osfd_pid, NULL, 0), osfd_pid);
	ping(&p);
	pair_close(&p);
	program_close(&prog);
	osfd_run(&world);
}

/* A program that does not answer has a second signal end osfd at once. */
static void a_second_sigterm_is_enough(void **state)
{
	struct program prog;
	struct pair p;
	struct reply r;

	moved_and_asked(&prog, &p, &r);
	kill(osfd_pid, SIGTERM);
	assert_int_equal(waitpid(osfd_pid, NULL, 0), osfd_pid);
	pair_close(&p);
	program_close(&prog);
	osfd_run(&world);
}

static void only_root_and_named_users_may(void **state)
{
	struct reply r;
	int status, fd = must_connect();
	struct request open = { .port = { .dev = "va" } };
	int fds[2];

	for (int may = 0; may < 2; may++) {
		pid_t pid = fork();
		if (!pid) {
			if (setgid(SOMEBODY) || setuid(SOMEBODY))
				_exit(99);
			int own = osfd_connect(&r);
			int err = port_call(own, MSG_ADD, SOMEBODY, &r);
			if (err != -EPERM ||
			    port_call(own, MSG_DEL, 0, &r) != -EPERM)
				_exit(1);
			err = osfd_call(own, MSG_OPEN, &open, NULL, 0, &r, fds);
			_exit(err == (may ? 0 : -EACCES) ? 0 : 2);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		assert_int_equal(port_call(fd, MSG_ADD, SOMEBODY, &r), 0);
	}
	assert_int_equal(port_call(fd, MSG_DEL, SOMEBODY, &r), 0);
	close(fd);
}

static void a_grant_is_its_owners(void **state)
{
	struct program a, b;
	struct pair p;
	struct reply r;

	program_open(&a);
	program_open(&b);
	pair_open(&world, false, HERE, &p);
	ping(&p);
	uint32_t own = b.grant;
	b.grant = a.grant;
	assert_int_equal(program_freeze(&b, p.end[HERE], &r), -EBADF);
	assert_int_equal(program_freeze(&a, p.end[HERE], &r), 0);
	assert_int_equal(program_thaw(&b, p.end[HERE], &r.frozen), -EBADF);
	b.grant = own;
	assert_int_equal(program_thaw(&b, p.end[HERE], &r.frozen), -ENOTCONN);
	assert_int_equal(program_thaw(&a, p.end[HERE], &r.frozen), 0);
	ping(&p);
	pair_close(&p);
	program_close(&a);
	program_close(&b);
}

static void hello_comes_first_and_versions_must_fit(void **state)
{
	struct reply r;
	int fd = must_connect();
	struct request q = { .hello = { 1000, 999 } };

	assert_int_equal(osfd_call(fd, MSG_HELLO, &q, NULL, 0, &r, NULL),
			 -EPROTONOSUPPORT);
	assert_int_equal(r.hello.version, MSG_VERSION);
	assert_int_equal(port_call(fd, MSG_ADD, 0, &r), -EPROTO);
	q.hello = (struct msg_hello){ 1000, 1 }; /* newer, and knows ours */
	assert_int_equal(osfd_call(fd, MSG_HELLO, &q, NULL, 0, &r, NULL), 0);
	assert_int_equal(port_call(fd, MSG_ADD, 0, &r), 0);
	close(fd);
}

#define GARBAGE 3000

/* A packet of random bytes, mostly with a good head, and up to four descriptors. */
static void send_garbage(int fd, struct rng *rng, int pass)
{
	uint8_t buf[MSG_BYTES_MAX + 100];
	struct request r = { .magic = MSG_MAGIC, .version = 1 };
	int fds[4] = { pass, pass, pass, pass };
	unsigned n_fds = rng_below(rng, 5);
	struct iovec iov = { buf, 1 + rng_below(rng, sizeof(buf)) };
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(sizeof(fds))];
	} control = { 0 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = rng_below(rng, 2) ? (uint8_t)rng_next(rng) : 0;
	r.type = (uint16_t)rng_below(rng, MSG_TYPES + 1);
	if (rng_below(rng, 8))
		memcpy(buf, &r, 8);
	if (n_fds) {
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		control.head = (struct cmsghdr){
			.cmsg_len = CMSG_LEN(n_fds * sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
		};
		memcpy(CMSG_DATA(&control.head), fds, n_fds * sizeof(int));
	}
	(void)sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* As a user who has a port: osfd receives no descriptors of others. */
static int connect_with_grant(void)
{
	struct request open = { .port = { .dev = "va" } };
	struct reply r;
	int fds[2], fd = osfd_connect(&r);

	if (osfd_call(fd, MSG_OPEN, &open, NULL, 0, &r, fds) == 0) {
		close(fds[0]);
		close(fds[1]);
	}
	return fd;
}

/* Random requests and descriptors from a program that hardly reads what it is told.
 * Others are served, the port stays, and no descriptor stays open in osfd. */
static void garbage_harms_nobody(void **state)
{
	struct rng rng = { 1 };
	struct msg_listed l;
	struct pair p;
	struct reply r;
	struct program prog;
	char seed[] = "OSF_TEST_SEED";

	if (getenv(seed))
		rng.state = strtoull(getenv(seed), NULL, 10);
	print_message("seed %llu\n", (unsigned long long)rng.state);
	pair_open(&world, false, HERE, &p);
	int pass[] = { memfd_create("garbage", MFD_CLOEXEC),
		       socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	int root = must_connect();
	assert_int_equal(port_call(root, MSG_ADD, SOMEBODY, &r), 0);
	unsigned n_fds = n_fds_of(osfd_pid);
	pid_t pid = fork();
	if (!pid) { /* not root, so that its requests cannot remove the port */
		if (setgid(SOMEBODY) || setuid(SOMEBODY))
			_exit(99);
		for (int i = 0, fd = -1; i < GARBAGE; i++) {
			if (fd < 0 || i % 100 == 0) {
				close(fd);
				fd = connect_with_grant();
			}
			send_garbage(fd, &rng, pass[i & 1]);
			if (rng_below(&rng, 4) == 0)
				(void)recv(fd, &r, sizeof(r), MSG_DONTWAIT);
		}
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(pass[0]);
	close(pass[1]);
	ping(&p);
	program_open(&prog);
	assert_int_equal(program_freeze(&prog, p.end[HERE], &r), 0);
	assert_int_equal(program_thaw(&prog, p.end[HERE], &r.frozen), 0);
	assert_int_equal(n_listed(prog.osfd, &l), 2);
	program_close(&prog);
	pair_close(&p);
	for (int i = 0; i < 5000 && n_fds_of(osfd_pid) > n_fds; i++)
		poll(NULL, 0, 1);
	/* Fewer, if a client of the set-up was still there at the first look. */
	assert_true(n_fds_of(osfd_pid) <= n_fds);
	assert_int_equal(port_call(root, MSG_DEL, SOMEBODY, &r), 0);
	close(root);
}

/* A port for one connection refuses the second, and takes it when the first has gone. */
static void no_more_connections_than_the_policy_says(void **state)
{
	struct program prog;
	struct pair a, b;
	struct reply r, first;
	int fd = must_connect();
	struct request q = { .port = { .dev = "va", .n_flows = 1 } };

	assert_int_equal(osfd_call(fd, MSG_ADD, &q, NULL, 0, &r, NULL), 0);
	program_open(&prog);
	pair_open(&world, false, HERE, &a);
	pair_open(&world, true, HERE, &b);
	ping(&a);
	ping(&b);
	assert_int_equal(program_freeze(&prog, a.end[HERE], &first), 0);
	assert_int_equal(program_freeze(&prog, b.end[HERE], &r), -ENOSPC);
	ping(&b); /* it is as it was */
	assert_int_equal(program_thaw(&prog, a.end[HERE], &first.frozen), 0);
	assert_int_equal(program_freeze(&prog, b.end[HERE], &r), 0);
	assert_int_equal(program_thaw(&prog, b.end[HERE], &r.frozen), 0);
	pair_close(&a);
	pair_close(&b);
	program_close(&prog);
	close(fd);
}

/* Segments of the peer's that are of no use, as many as a ring has not room for. */
static void flood(const struct pair *p, unsigned n)
{
	const struct sockaddr_in *here = (const void *)&p->local,
				 *there = (const void *)&p->peer;
	struct tcphdr h = { .source = there->sin_port,
			    .dest = here->sin_port,
			    .doff = 5,
			    .ack = 1 };

	world_enter(&world, THERE);
	int raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_TCP);
	world_enter(&world, HERE);
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr = here->sin_addr };
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(
		    sendto(raw, &h, sizeof(h), 0, (void *)&to, sizeof(to)),
		    sizeof(h));
	close(raw);
}

/* While its program is there, and afterwards. */
static void frames_that_find_a_ring_full_are_counted(void **state)
{
	struct program prog;
	struct msg_listed l;
	struct pair p;
	struct reply r;

	program_open(&prog);
	pair_open(&world, false, HERE, &p);
	ping(&p);
	assert_int_equal(program_freeze(&prog, p.end[HERE], &r), 0);
	unsigned n = 2 * prog.port.ring.n_slots;
	flood(&p, n);
	int fd = must_connect();
	for (int i = 0; i < 5000; i++) {
		assert_int_equal(n_listed(fd, &l), 1);
		if (l.n_segments >= n && l.n_dropped >= n / 2)
			break;
		poll(NULL, 0, 1);
	}
	assert_int_equal(l.n_segments, n);
	assert_int_equal(l.n_dropped, n / 2);
	assert_int_equal(program_thaw(&prog, p.end[HERE], &r.frozen), 0);
	ping(&p);
	program_close(&prog);
	for (int i = 0; i < 5000 && l.n_grants; i++) {
		assert_int_equal(n_listed(fd, &l), 1);
		poll(NULL, 0, 1);
	}
	assert_int_equal(l.n_segments, n);
	assert_int_equal(l.n_dropped, n / 2);
	must_run("%s port list | grep -q 'va .* %u *0 *%u *0 *0$'", osf_path, n,
		 n / 2);
	must_run("%s stat --json | grep -q '\"n_dropped\":[[:space:]]*%u'",
		 osf_path, n / 2);
	close(fd);
	pair_close(&p);
}

#define TEST(name) OSFD_TEST(name, &world)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(a_connection_moves_and_comes_back),
		TEST(a_grant_without_flows_gets_no_frames),
		TEST(a_grant_that_rests_leaves_no_trace),
		TEST(an_answer_need_not_be_waited_for),
		TEST(who_is_not_quiet_hears_why),
		TEST(the_grants_of_a_killed_program_end),
		TEST(a_program_goes_on_without_osfd),
		TEST(a_port_that_is_removed_asks_for_its_connections),
		TEST(sigterm_asks_for_connections),
		TEST(a_second_sigterm_is_enough),
		TEST(only_root_and_named_users_may),
		TEST(a_grant_is_its_owners),
		TEST(hello_comes_first_and_versions_must_fit),
		TEST(garbage_harms_nobody),
		TEST(no_more_connections_than_the_policy_says),
		TEST(frames_that_find_a_ring_full_are_counted),
	};

	if (argc != 3)
		return 1;
	osfd_path = argv[1];
	osf_path = argv[2];
	return osfd_run_tests(&world, tests);
}
