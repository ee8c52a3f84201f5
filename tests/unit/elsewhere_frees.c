/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/elsewhere_frees.c - what a peer passed is let go of without its price
 *
 * A peer may fill memory, pass it, and keep no copy: whoever lets go of it last frees
 * each page.  The thread that does so here must not pay for that.  Times are compared
 * with what the same takes without help, in CPU time of this thread.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/libc.h"
#include "proto/shm/elsewhere.h"
#include "proto/shm/segment.h"
#include "unit.h"

#define BYTES ((size_t)256 << 20)
#define N_LINGERING 40 /* more than there are processes and places to wait */
#define CHEAPER 4      /* at least so many times; it is some hundred */

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int filled(size_t bytes)
{
	int fd = memfd_create("filled", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
	    0);
	if (fallocate(fd, 0, 0, (off_t)bytes))
		skip(); /* so little memory is there */
	return fd;
}

static uint64_t close_takes(void (*let_go)(int fd))
{
	int fd = filled(BYTES);
	uint64_t start = cpu_ns();

	let_go(fd);
	return cpu_ns() - start;
}

static void plain_close(int fd) { close(fd); }

static void a_large_file_is_freed_by_another_process(void **state)
{
	uint64_t plain = close_takes(plain_close);
	uint64_t ours = close_takes(discard_passed);

	assert_true(ours < plain / CHEAPER);
}

static uint64_t unmap_takes(void (*let_go)(void *map, size_t bytes))
{
	int fd = filled(BYTES);
	char *map =
	    mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(map, MAP_FAILED);
	map[BYTES / 2] = 1;
	close(fd);
	uint64_t start = cpu_ns();
	let_go(map, BYTES);
	return cpu_ns() - start;
}

static void plain_unmap(void *map, size_t bytes) { munmap(map, bytes); }

static void a_large_mapping_is_freed_by_another_process(void **state)
{
	uint64_t plain = unmap_takes(plain_unmap);
	uint64_t ours = unmap_takes(discard_map);

	assert_true(ours < plain / CHEAPER);
}

/* Is @at mapped? */
static bool is_mapped(void *at) { return !msync(at, 1, MS_ASYNC); }

static void all_of_them_are_freed_in_the_end(void **state)
{
	void *maps[12];

	for (unsigned i = 0; i < 12; i++) {
		maps[i] =
		    mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		assert_ptr_not_equal(maps[i], MAP_FAILED);
	}
	for (unsigned i = 0; i < 12; i++)
		discard_map(maps[i], BYTES);
	for (unsigned i = 0; i < 12; i++)
		while (is_mapped(maps[i]))
			usleep(100); /* the test's time limit ends it */
}

/* A message of no bytes, with @fd unless that is -1. */
static void send_empty(int to, int fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control = { .align = { .cmsg_level = SOL_SOCKET,
				 .cmsg_type = SCM_RIGHTS,
				 .cmsg_len = CMSG_LEN(sizeof(int)) } };
	struct msghdr msg = { .msg_control = fd < 0 ? NULL : &control,
			      .msg_controllen =
				  fd < 0 ? 0 : CMSG_SPACE(sizeof(int)) };

	memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	assert_int_equal(sendmsg(to, &msg, 0), 0);
}

static void what_an_empty_message_brings_is_freed_elsewhere(void **state)
{
	for (int n_before = 0; n_before < 2; n_before++) {
		int pair[2], fd = filled(BYTES);

		uint64_t plain = close_takes(plain_close);
		assert_int_equal(
		    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair),
		    0);
		for (int i = 0; i < n_before; i++)
			send_empty(pair[0], -1);
		send_empty(pair[0], fd);
		close(fd);
		close(pair[0]);
		uint64_t start = cpu_ns();
		discard_channel(pair[1]);
		assert_true(cpu_ns() - start < plain / CHEAPER);
	}
}

/* Whoever connects can queue descriptors before anybody accepts. */
static void what_waits_at_a_listener_is_freed_elsewhere(void **state)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int c = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int fd = filled(BYTES);
	socklen_t len = sizeof(un);

	uint64_t plain = close_takes(plain_close);
	assert_int_equal(bind(s, (void *)&un, sizeof(un.sun_family)), 0);
	assert_int_equal(listen(s, 1), 0);
	assert_int_equal(getsockname(s, (void *)&un, &len), 0);
	assert_int_equal(connect(c, (void *)&un, len), 0);
	send_empty(c, fd);
	close(fd);
	close(c);
	uint64_t start = cpu_ns();
	discard_listener(s);
	assert_true(cpu_ns() - start < plain / CHEAPER);
}

/* A socket whose last close() waits for a minute, unless @far ends. */
static int lingering(int *far)
{
	static const char bytes[65536];
	struct linger l = { 1, 60 };
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(at);
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(s, (void *)&at, len), 0);
	assert_int_equal(listen(s, 1), 0);
	assert_int_equal(getsockname(s, (void *)&at, &len), 0);
	assert_int_equal(connect(fd, (void *)&at, len), 0);
	*far = accept4(s, NULL, NULL, SOCK_CLOEXEC);
	assert_true(*far >= 0);
	close(s);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)),
			 0);
	return fd;
}

/* A process that ends does not wait for what lingers, and so the next one can start. */
static void sockets_that_linger_keep_no_process(void **state)
{
	int far[N_LINGERING], pair[2];

	for (unsigned i = 0; i < N_LINGERING; i++) {
		int fd = lingering(&far[i]);

		assert_int_equal(
		    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair),
		    0);
		send_empty(pair[0], fd);
		close(fd);
		close(pair[0]);
		if (i % 2)
			discard_channel(pair[1]);
		else
			discard_passed(pair[1]);
	}
	while (discard_is_full())
		usleep(100); /* the test's time limit ends it */
	for (unsigned i = 0; i < N_LINGERING; i++)
		close(far[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_large_file_is_freed_by_another_process),
		cmocka_unit_test(a_large_mapping_is_freed_by_another_process),
		cmocka_unit_test(
		    what_an_empty_message_brings_is_freed_elsewhere),
		cmocka_unit_test(what_waits_at_a_listener_is_freed_elsewhere),
		cmocka_unit_test(sockets_that_linger_keep_no_process),
		cmocka_unit_test(all_of_them_are_freed_in_the_end),
	};

	libc_resolve();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
