/* SPDX-License-Identifier: MIT */
/*
 * tests/port/strangers.c - what others send to osfd costs its programs nothing
 *
 *     strangers OSFD
 *
 * Whoever closes the last descriptor of a socket that lingers sleeps there for a minute,
 * and whoever closes a file of a FUSE file system sleeps until that file system answers.
 * Others send such descriptors to osfd; meanwhile it answers root, within the five seconds
 * after which osfd_call() fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "osfd/client.h"
#include "osfd_run.h"
#include "unit.h"
#include "world.h"

#define SOMEBODY 12345
#define LINGER_S 60
#define COPIES 253
#define EMPTY 1100
#define CONNECTIONS 130 /* more than one user may have */

enum role { STRANGER, USER, FORMER_USER };

static struct world world;

/* Bytes wait in it that its peer does not read. */
static void make_lingering(int fd)
{
	static const char bytes[65536];
	struct linger l = { 1, LINGER_S };

	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)),
			 0);
}

/* A message of one byte, which is no request, and copies of a descriptor.  Return: false if
 * the kernel refuses it */
static bool send_copies(int to, int fd, unsigned n)
{
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(COPIES * sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(n * sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = CMSG_SPACE(n * sizeof(int)) };

	for (unsigned i = 0; i < n; i++)
		memcpy(CMSG_DATA(&control.head) + i * sizeof(int), &fd,
		       sizeof(int));
	return sendmsg(to, &msg, MSG_NOSIGNAL) == 1;
}

static bool send_as_it_is(int to, int fd) { return send_copies(to, fd, 1); }

/* As many as a message can have. */
static bool send_many(int to, int fd) { return send_copies(to, fd, COPIES); }

/* osfd reads nothing more of who has sent that. */
static bool send_behind_a_long_message(int to, int fd)
{
	static const uint8_t bytes[8192];

	(void)send(to, bytes, sizeof(bytes), MSG_NOSIGNAL);
	return send_as_it_is(to, fd);
}

static bool send_in_a_unix_socket(int osfd, int fd)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair))
		_exit(3);
	send_as_it_is(pair[0], fd);
	close(pair[0]);
	bool is_sent = send_as_it_is(osfd, pair[1]);
	if (is_sent)
		close(pair[1]);
	return is_sent;
}

static bool send_behind_empty_messages(int osfd, int fd)
{
	for (int i = 0; i < EMPTY; i++)
		(void)send(osfd, "", 0, MSG_NOSIGNAL | MSG_DONTWAIT);
	return send_as_it_is(osfd, fd);
}

/*
 * A file system that answers two questions, what it is and whether a file is there, and no
 * more.  Its root is the file.
 */

static void fuse_answer(int dev, uint64_t unique, const void *body, size_t n)
{
	char buf[256];
	struct fuse_out_header h = { .len = (uint32_t)(sizeof(h) + n),
				     .unique = unique };

	memcpy(buf, &h, sizeof(h));
	if (n)
		memcpy(buf + sizeof(h), body, n);
	assert_int_equal(write(dev, buf, h.len), h.len);
}

static void fuse_serve(int dev)
{
	static char buf[1 << 17];
	struct fuse_in_header h = { 0 };
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
				      .minor = FUSE_KERNEL_MINOR_VERSION,
				      .max_write = 4096 };
	struct fuse_open_out open = { 0 };

	while (h.opcode != FUSE_OPEN) {
		assert_true(read(dev, buf, sizeof(buf)) >= (ssize_t)sizeof(h));
		memcpy(&h, buf, sizeof(h));
		if (h.opcode == FUSE_INIT)
			fuse_answer(dev, h.unique, &init, sizeof(init));
	}
	fuse_answer(dev, h.unique, &open, sizeof(open));
}

/* Lets one process close the file. */
static void fuse_let_go(int dev, pid_t pid)
{
	static char buf[1 << 17];
	struct fuse_in_header h = { 0 };

	while (h.opcode != FUSE_FLUSH || h.pid != (uint32_t)pid) {
		assert_true(read(dev, buf, sizeof(buf)) >= (ssize_t)sizeof(h));
		memcpy(&h, buf, sizeof(h));
	}
	fuse_answer(dev, h.unique, NULL, 0);
}

/* What is sent: a socket, or a file that the attacker opens.  This process has no descriptor
 * of the file, so that its end is the end of the file system. */
struct sent {
	int fd, fuse;
	char *path; /* or NULL */
};

/*
 * The attack.
 */

/* Says that it is connected, waits for the word, sends, says so, and stays. */
static void attack(enum role role, bool (*send_it)(int, int),
		   const struct sent *what, int in, int out)
{
	struct request ask = { .port = { .dev = "va" } };
	struct reply r;
	int fds[2];
	char c;

	int fd = what->path ? open(what->path, O_RDONLY) : what->fd;
	if (what->path)
		close(what->fuse);
	if (fd < 0 || setgid(SOMEBODY) || setuid(SOMEBODY))
		_exit(99);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	int osfd = osfd_connect(&r);
	if (osfd < 0 || (role != STRANGER &&
			 osfd_call(osfd, MSG_OPEN, &ask, NULL, 0, &r, fds)))
		_exit(1);
	if (write(out, "c", 1) != 1 || read(in, &c, 1) != 1)
		_exit(2);
	if (send_it(osfd, fd) && !what->path)
		close(fd); /* else we would wait ourselves */
	close(osfd);
	if (write(out, "s", 1) == 1)
		pause();
	_exit(3);
}

/* It has closed all that the attacker had of it, or says no more within five seconds. */
static void osfd_answers(unsigned n_fds)
{
	struct msg_listed l;
	int fd = must_connect();

	for (int i = 0; i < 5000 && n_fds_of(osfd_pid) > n_fds + 2; i++) {
		n_listed(fd, &l);
		poll(NULL, 0, 1);
	}
	n_listed(fd, &l);
	assert_true(n_fds_of(osfd_pid) <= n_fds + 2); /* of @fd, two */
	close(fd);
}

struct attacker {
	pid_t pid;
	int to[2], from[2];
};

/* It has sent on return. */
static void attack_begin(struct attacker *a, enum role role,
			 bool (*send_it)(int, int), const struct sent *what)
{
	struct reply r;
	char c;

	assert_int_equal(pipe2(a->to, O_CLOEXEC) | pipe2(a->from, O_CLOEXEC),
			 0);
	a->pid = fork();
	if (!a->pid)
		attack(role, send_it, what, a->to[0], a->from[1]);
	if (what->path) {
		fuse_serve(what->fuse);
		umount2(what->path, MNT_DETACH);
		unlink(what->path);
	} else {
		close(what->fd);
	}
	assert_int_equal(read(a->from[0], &c, 1), 1);
	int root = must_connect();
	if (role == FORMER_USER)
		assert_int_equal(port_call(root, MSG_DEL, SOMEBODY, &r), 0);
	close(root);
	assert_int_equal(write(a->to[1], "g", 1), 1);
	assert_int_equal(read(a->from[0], &c, 1), 1);
}

static void attack_end(struct attacker *a)
{
	kill(a->pid, SIGKILL);
	assert_int_equal(waitpid(a->pid, NULL, 0), a->pid);
	for (int i = 0; i < 2; i++) {
		close(a->to[i]);
		close(a->from[i]);
	}
}

static void attack_with(enum role role, bool (*send_it)(int, int),
			const struct sent *what)
{
	struct attacker a;
	int root = must_connect();
	struct reply r;

	assert_int_equal(port_call(root, MSG_ADD, SOMEBODY, &r), 0);
	if (role == STRANGER)
		assert_int_equal(port_call(root, MSG_DEL, SOMEBODY, &r), 0);
	close(root);
	osfd_answers(1000);
	unsigned n_fds = n_fds_of(osfd_pid);
	attack_begin(&a, role, send_it, what);
	osfd_answers(n_fds + !!what->path);
	if (what->path)
		close(what->fuse); /* nobody waits for the file any more */
	attack_end(&a);
}

static void socket_of(enum role role, bool (*send_it)(int, int))
{
	struct pair p;

	pair_open(&world, false, HERE, &p);
	make_lingering(p.end[HERE]);
	attack_with(role, send_it, &(struct sent){ .fd = p.end[HERE] });
	close(p.end[THERE]);
}

static void sockets_of(enum role role)
{
	socket_of(role, send_as_it_is);
	socket_of(role, send_many);
	socket_of(role, send_in_a_unix_socket);
	socket_of(role, send_behind_a_long_message);
	socket_of(role, send_behind_empty_messages);
}

static void a_stranger_sends_sockets_that_linger(void **state)
{
	sockets_of(STRANGER);
}

static void a_user_sends_sockets_that_linger(void **state) { sockets_of(USER); }

static void a_former_user_sends_sockets_that_linger(void **state)
{
	sockets_of(FORMER_USER);
}

/* Return: the device of a file system whose only file is at @path, or -1 */
static int fuse_mount(char *path)
{
	char options[128];
	int file = mkstemp(path);

	assert_true(file >= 0);
	close(file);
	assert_int_equal(unshare(CLONE_NEWNS), 0);
	assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	int dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=100666,user_id=0,group_id=0", dev);
	if (dev >= 0 && mount("osf", path, "fuse", 0, options) == 0)
		return dev;
	unlink(path);
	return -1;
}

static void a_users_files_stay_open(void **state)
{
	char path[] = "/tmp/osf-fuse-XXXXXX";
	struct sent file = { .path = path, .fuse = fuse_mount(path) };

	if (file.fuse < 0)
		skip();
	attack_with(USER, send_as_it_is, &file);
}

/* osfd has so many descriptors, of clients, workers and its own. */
static void osfd_has(unsigned n_fds)
{
	for (int i = 0; i < 5000 && n_fds_of(osfd_pid) != n_fds; i++)
		poll(NULL, 0, 1);
	assert_int_equal(n_fds_of(osfd_pid), n_fds);
}

/* How many connections does SOMEBODY get? */
static unsigned n_places(void)
{
	unsigned n_fds = n_fds_of(osfd_pid);
	int status;

	pid_t pid = fork();
	if (!pid) {
		struct reply r;
		int n = 0;

		if (setgid(SOMEBODY) || setuid(SOMEBODY))
			_exit(0);
		while (n < CONNECTIONS && osfd_connect(&r) >= 0)
			n++;
		_exit(n);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	osfd_has(n_fds);
	return (unsigned)WEXITSTATUS(status);
}

/* Its program is dead, and osfd has let go of it.  But its process ends only when it has closed
 * what the program has sent. */
static void a_worker_counts_until_its_process_is_dead(void **state)
{
	char path[] = "/tmp/osf-fuse-XXXXXX";
	struct sent file = { .path = path, .fuse = fuse_mount(path) };
	struct attacker a;
	struct reply r;

	if (file.fuse < 0)
		skip();
	int root = must_connect();
	assert_int_equal(port_call(root, MSG_ADD, SOMEBODY, &r), 0);
	unsigned n_fds = n_fds_of(osfd_pid), n = n_places();
	assert_true(n && n < CONNECTIONS);
	attack_begin(&a, USER, send_as_it_is, &file);
	kill(a.pid, SIGKILL);
	fuse_let_go(file.fuse, a.pid);
	attack_end(&a);
	osfd_has(n_fds + 1); /* the pidfd of the worker */
	assert_int_equal(n_places(), n - 1);
	close(file.fuse);
	osfd_has(n_fds);
	assert_int_equal(n_places(), n);
	close(root);
}

/* osfd would wait for whatever else it watches. */
static void only_a_timer_says_that_a_program_is_away(void **state)
{
	struct program prog;
	struct reply r;

	program_open(&prog);
	struct request q = { .away = { prog.grant } };
	assert_int_equal(
	    osfd_call(prog.osfd, MSG_AWAY, &q, &prog.osfd, 1, &r, NULL),
	    -EBADF);
	program_close(&prog);
}

/*
 * Two users without a port take all connections that they get.
 */

static void take_places(uid_t uid, int out)
{
	struct reply r;

	if (setgid(uid) || setuid(uid))
		_exit(99);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < CONNECTIONS && osfd_connect(&r) >= 0; i++)
		;
	if (write(out, "x", 1) == 1)
		pause();
	_exit(1);
}

static void strangers_leave_room(void **state)
{
	int ready[2];
	pid_t pid[2];
	char c;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	for (unsigned i = 0; i < 2; i++) {
		pid[i] = fork();
		if (!pid[i])
			take_places(SOMEBODY + i, ready[1]);
		assert_int_equal(read(ready[0], &c, 1), 1);
	}
	close(must_connect());
	for (int i = 0; i < 2; i++) {
		kill(pid[i], SIGKILL);
		assert_int_equal(waitpid(pid[i], NULL, 0), pid[i]);
		close(ready[i]);
	}
}

#define TEST(name) OSFD_TEST(name, &world)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(a_stranger_sends_sockets_that_linger),
		TEST(a_user_sends_sockets_that_linger),
		TEST(a_former_user_sends_sockets_that_linger),
		TEST(a_users_files_stay_open),
		TEST(a_worker_counts_until_its_process_is_dead),
		TEST(only_a_timer_says_that_a_program_is_away),
		TEST(strangers_leave_room),
	};

	if (argc != 2)
		return 1;
	osfd_path = argv[1];
	return osfd_run_tests(&world, tests);
}
