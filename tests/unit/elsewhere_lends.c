/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/elsewhere_lends.c - the other end of a connection, held by a process for us
 *
 *     ours  <- TCP ->  theirs  <- a thread inside a send(), whose page does not come
 *                         ^
 *                         the process that holds it for us: far_send(), far_shut()
 *
 * The thread makes every call on that socket wait.  Here both ends are this process's.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/libc.h"
#include "proto/shm/elsewhere.h"
#include "unit.h"

#define PAGE 4096u
/* What the header promises, and one look more. */
#define SLEEP_NS (3 * NS_PER_MS)
#define SLEEP_MAX_NS (5 * NS_PER_MS)

struct busy {
	int fd, faults;
	void *page;
	pthread_t thread;
};

static void *send_page(void *arg)
{
	struct busy *b = arg;

	send(b->fd, b->page, 64, 0);
	return NULL;
}

/* On return the thread is inside send(). */
static void busy_begin(struct busy *b, int fd)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffd_msg msg;

	b->fd = fd;
	b->faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (b->faults < 0)
		skip(); /* not allowed here */
	b->page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register reg = { .range = { (uintptr_t)b->page, PAGE },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };
	assert_int_equal(ioctl(b->faults, UFFDIO_API, &api), 0);
	assert_int_equal(ioctl(b->faults, UFFDIO_REGISTER, &reg), 0);
	assert_int_equal(pthread_create(&b->thread, NULL, send_page, b), 0);
	assert_int_equal(read(b->faults, &msg, sizeof(msg)), sizeof(msg));
}

/* Its send() fails, and has sent nothing. */
static void busy_end(struct busy *b)
{
	munmap(b->page, PAGE);
	close(b->faults);
	pthread_join(b->thread, NULL);
}

static void connected(int pair[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(l, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&at, &len), 0);
	pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(pair[0], (struct sockaddr *)&at, len), 0);
	pair[1] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	close(l);
}

static struct far_end lent(int pair[2])
{
	struct far_end far;

	connected(pair);
	assert_int_equal(far_open(pair[0], getpid(), pair[1], &far), 0);
	return far;
}

static void end(struct far_end *far, int pair[2])
{
	far_close(far);
	close(pair[0]);
	close(pair[1]);
}

static void bytes_are_written_to_the_other_end(void **state)
{
	char got[16];
	int pair[2];
	struct far_end far = lent(pair);

	assert_int_equal(far_send(&far, "bytes", 5), 5);
	assert_int_equal(recv(pair[0], got, sizeof(got), 0), 5);
	assert_int_equal(far_shut(&far), 0);
	assert_int_equal(recv(pair[0], got, sizeof(got), 0), 0);
	end(&far, pair);
}

static void all_calls_together_wait_for_a_busy_socket(void **state)
{
	struct busy busy;
	int pair[2];
	struct far_end far = lent(pair);

	busy_begin(&busy, pair[1]);
	assert_int_equal(far_send(&far, "bytes", 5), -ETIMEDOUT);
	uint64_t slept_ns = far.asleep_ns;
	assert_true(slept_ns >= SLEEP_NS && slept_ns < SLEEP_MAX_NS);
	assert_int_equal(far_shut(&far), -ETIMEDOUT);
	assert_int_equal(far.asleep_ns, slept_ns);
	busy_end(&busy);
	end(&far, pair);
}

static void a_late_call_says_how_many_bytes_it_has_written(void **state)
{
	struct busy busy;
	char got[16];
	int32_t did;
	int pair[2];
	struct far_end far = lent(pair);

	busy_begin(&busy, pair[1]);
	assert_int_equal(far_send(&far, "bytes", 5), -ETIMEDOUT);
	assert_int_equal(recv(pair[0], got, sizeof(got), MSG_DONTWAIT), -1);
	busy_end(&busy);
	assert_int_equal(recv(far.channel, &did, sizeof(did), 0), sizeof(did));
	assert_int_equal(did, 5);
	assert_int_equal(recv(pair[0], got, sizeof(got), 0), 5);
	end(&far, pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_written_to_the_other_end),
		cmocka_unit_test(all_calls_together_wait_for_a_busy_socket),
		cmocka_unit_test(
		    a_late_call_says_how_many_bytes_it_has_written),
	};

	libc_resolve();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
