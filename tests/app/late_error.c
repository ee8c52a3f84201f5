/* SPDX-License-Identifier: MIT */
/*
 * tests/app/late_error.c - a recv() that returns its error late
 *
 *     recv() -> libc's -> has it failed?  late_failed() returns
 *                      <- late_go_on() lets recv() return
 *
 * Preloaded behind osf, whose recv() it is then.  So a test decides what other threads
 * do between the moment in which the kernel gives its error away and the moment in
 * which osf knows of it.  Run by tests/app/test_late_error.py.
 */
#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <sys/socket.h>

static sem_t entered, failed, goes_on;

__attribute__((constructor)) static void late_begin(void)
{
	sem_init(&entered, 0, 0);
	sem_init(&failed, 0, 0);
	sem_init(&goes_on, 0, 0);
}

static void await(sem_t *sem)
{
	while (sem_wait(sem) && errno == EINTR)
		;
}

/* test_late_error.py calls these by ctypes. */
void late_entered(void);
void late_failed(void);
void late_go_on(void);

void late_entered(void) { await(&entered); }
void late_failed(void) { await(&failed); }
void late_go_on(void) { sem_post(&goes_on); }

ssize_t recv(int fd, void *buf, size_t n, int flags)
{
	ssize_t (*of_libc)(int, void *, size_t, int) = dlsym(RTLD_NEXT, "recv");

	sem_post(&entered);
	ssize_t r = of_libc(fd, buf, n, flags);
	if (r < 0 && errno == ECONNRESET) {
		sem_post(&failed);
		await(&goes_on);
		errno = ECONNRESET;
	}
	return r;
}
