/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/trust_ended.c - the number of a process that has ended says nothing of a peer
 *
 * A unix socket outlives the process that made it listen, and the number of that process goes to
 * another one.  From Linux 6.5 on the kernel says of the socket's maker that it has ended; then
 * trust_check() must not ask /proc about the number.  Before, the number is all that there is.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/libc.h"
#include "proto/shm/trust.h"
#include "unit.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static int pidfd_error;

/* The peer was made by a process of our user, whose number our parent has by now. */
static int old_number(int fd, int level, int name, void *value, socklen_t *len)
{
	struct ucred cred = { .pid = getppid(), .uid = geteuid() };

	if (name == SO_PEERPIDFD) {
		errno = pidfd_error;
		return -1;
	}
	assert_int_equal(name, SO_PEERCRED);
	memcpy(value, &cred, sizeof(cred));
	return 0;
}

static int check_with(int error)
{
	pidfd_error = error;
	libc.getsockopt = old_number;
	int err = trust_check(0);
	libc.getsockopt = getsockopt;
	return err;
}

static void a_number_of_one_that_has_ended_is_not_asked_about(void **state)
{
	assert_int_equal(check_with(EINVAL), -ENOSYS);
	assert_int_equal(check_with(ESRCH), -ENOSYS);
}

static void without_such_a_kernel_the_number_is_asked_about(void **state)
{
	assert_int_equal(check_with(ENOPROTOOPT), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
		    a_number_of_one_that_has_ended_is_not_asked_about),
		cmocka_unit_test(
		    without_such_a_kernel_the_number_is_asked_about),
	};

	libc_resolve();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
