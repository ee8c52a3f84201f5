/* SPDX-License-Identifier: MIT */
/*
 * tests/port/locks.c - who keeps the lock of its own sockets makes nobody else wait
 *
 *     locks OSFD
 *
 * A call that copies from memory while it has a socket's lock waits there, as long as that memory
 * does not come, and so does each other call that needs the lock.  A user with a port keeps the
 * lock of a socket that osfd has to work on, in turn each kind of them.  Meanwhile another user's
 * program moves a connection and gets it back, and another program of the same user, too, within
 * the five seconds after which osfd_call() fails.  Then the user lets go, and has its answer.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "osfd/client.h"
#include "osfd_run.h"
#include "unit.h"
#include "world.h"

#define SOMEBODY 12345
#define PAGE 4096

static struct world world;

/*
 * A page that does not come.
 */

struct lock {
	int uffd, fd;
	bool is_packet_socket;
	uint8_t *pages; /* two, of which the second one does not come */
	pthread_t thread;
};

static int uffd_open(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) < 0)
		return -1;
	return fd;
}

/* The kernel reads an int of IP_OPTIONS before it takes the lock, and the rest with the lock.
 * Nothing changes: there is no option of this kind. */
static void *keep_lock(void *arg)
{
	static const uint8_t no_option[4] = { 0xff };
	const struct lock *l = arg;
	uint8_t *page = l->pages + PAGE;

	memcpy(page - sizeof(no_option), no_option, sizeof(no_option));
	if (l->is_packet_socket)
		(void)setsockopt(l->fd, SOL_PACKET, PACKET_TX_RING, page,
				 sizeof(struct tpacket_req));
	else
		(void)setsockopt(l->fd, IPPROTO_IP, IP_OPTIONS,
				 page - sizeof(no_option),
				 2 * sizeof(no_option));
	return NULL;
}

/* On return a thread waits for the page, with the lock of l->fd. */
static void lock_keep(struct lock *l)
{
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffd_msg fault;

	l->pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	reg.range.start = (uintptr_t)l->pages + PAGE;
	reg.range.len = PAGE;
	if (l->pages == MAP_FAILED ||
	    ioctl(l->uffd, UFFDIO_REGISTER, &reg) < 0 ||
	    pthread_create(&l->thread, NULL, keep_lock, l) ||
	    read(l->uffd, &fault, sizeof(fault)) != sizeof(fault))
		_exit(90);
}

static void lock_release(struct lock *l)
{
	close(l->uffd); /* the page comes, full of zeroes */
	pthread_join(l->thread, NULL);
}

/*
 * The user who keeps a lock.
 */

/* What it does in front of it, and what it asks osfd for while it has the lock. */
struct attack {
	bool is_frozen, is_packet_socket;
	enum msg_type asks;
};

static void ask(const struct program *prog, const struct attack *a,
		const struct reply *frozen, int fd)
{
	struct request q = { 0 };
	int fds[2] = { fd, fd }, err;

	if (a->asks == MSG_FREEZE) {
		q.freeze.grant = prog->grant;
		err = osfd_ask(prog->osfd, MSG_FREEZE, &q, fds, 1);
	} else if (a->asks == MSG_THAW) {
		q.thaw.grant = prog->grant;
		q.thaw.state = frozen->frozen;
		err = osfd_ask(prog->osfd, MSG_THAW, &q, fds, 2);
	} else {
		q.rest.grant = prog->grant;
		err = osfd_ask(prog->osfd, MSG_REST, &q, NULL, 0);
	}
	if (err)
		_exit(91);
}

/* Says when osfd has the request, waits for the word, and lets go. */
static void attack(const struct attack *a, int fd, int in, int out)
{
	struct lock l = { .uffd = uffd_open() };
	struct program prog;
	struct reply r, frozen;
	char c;

	if (l.uffd < 0)
		_exit(77);
	if (setgid(SOMEBODY) || setuid(SOMEBODY))
		_exit(92);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* another user's id has cleared it */
	program_open(&prog);
	if (a->is_frozen && program_freeze(&prog, fd, &frozen))
		_exit(93);
	l.is_packet_socket = a->is_packet_socket;
	l.fd = a->is_packet_socket ? prog.port.fd : fd;
	lock_keep(&l);
	ask(&prog, a, &frozen, fd);
	if (write(out, "s", 1) != 1 || read(in, &c, 1) != 1)
		_exit(94);
	lock_release(&l);
	_exit(osfd_answer(prog.osfd, &r, NULL, true) ? 95 : 0);
}

/*
 * Others.
 */

static int end_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* A step that fails is its exit status. */
static void move_and_back(int fd)
{
	struct request q = { .port = { .dev = "va" } };
	struct reply r;
	int fds[2], osfd = osfd_connect(&r);

	if (osfd < 0)
		_exit(1);
	if (osfd_call(osfd, MSG_OPEN, &q, NULL, 0, &r, fds))
		_exit(2);
	q = (struct request){ .freeze = { r.grant.grant } };
	uint32_t grant = r.grant.grant;
	if (osfd_call(osfd, MSG_FREEZE, &q, &fd, 1, &r, NULL))
		_exit(3);
	q = (struct request){ .thaw = { .grant = grant, .state = r.frozen } };
	fds[0] = fds[1] = fd; /* there are no bytes to read */
	_exit(osfd_call(osfd, MSG_THAW, &q, fds, 2, &r, NULL) ? 4 : 0);
}

/* A program of a user moves a connection, and it goes on in the kernel after that. */
static void must_go_on(uid_t uid)
{
	struct pair p;
	char c;

	pair_open(&world, false, HERE, &p);
	assert_int_equal(send(p.end[HERE], "a", 1, 0), 1);
	assert_int_equal(recv(p.end[THERE], &c, 1, 0), 1);
	assert_int_equal(send(p.end[THERE], "b", 1, 0), 1);
	assert_int_equal(recv(p.end[HERE], &c, 1, 0), 1);
	world_enter(&world, HERE);
	pid_t pid = fork();
	if (!pid) {
		if (setegid(uid) || seteuid(uid))
			_exit(5);
		move_and_back(p.end[HERE]);
	}
	assert_int_equal(end_of(pid), 0);
	assert_int_equal(send(p.end[HERE], "c", 1, 0), 1);
	assert_int_equal(recv(p.end[THERE], &c, 1, 0), 1);
	pair_close(&p);
}

static void others_go_on(const struct attack *a)
{
	int to[2], from[2], root = must_connect();
	struct pair p;
	struct reply r;
	char c;

	assert_int_equal(port_call(root, MSG_ADD, SOMEBODY, &r), 0);
	pair_open(&world, false, HERE, &p);
	world_enter(&world, HERE);
	assert_int_equal(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (!pid) {
		close(from[0]);
		attack(a, p.end[HERE], to[0], from[1]);
	}
	close(from[1]);
	if (read(from[0], &c, 1) != 1) {
		assert_int_equal(end_of(pid), 77);
		skip();
	}
	must_go_on(0);
	must_go_on(SOMEBODY);
	assert_int_equal(write(to[1], "g", 1), 1);
	assert_int_equal(end_of(pid), 0);
	pair_close(&p);
	close(to[0]);
	close(to[1]);
	close(from[0]);
	close(root);
}

static void in_front_of_a_freeze(void **state)
{
	others_go_on(&(struct attack){ .asks = MSG_FREEZE });
}

static void in_front_of_a_thaw(void **state)
{
	others_go_on(&(struct attack){ .is_frozen = true, .asks = MSG_THAW });
}

static void of_the_packet_socket(void **state)
{
	others_go_on(
	    &(struct attack){ .is_packet_socket = true, .asks = MSG_REST });
}

#define TEST(name) OSFD_TEST(name, &world)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(in_front_of_a_freeze),
		TEST(in_front_of_a_thaw),
		TEST(of_the_packet_socket),
	};

	if (argc != 2)
		return 1;
	osfd_path = argv[1];
	return osfd_run_tests(&world, tests);
}
