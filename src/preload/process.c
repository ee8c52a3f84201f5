/* SPDX-License-Identifier: MIT */
/*
 * preload/process.c - the calls that make processes, replace them and end them
 *
 *     fork, vfork, _Fork, clone, daemon   -> file/fork.c
 *     exec*, posix_spawn*, system, popen  -> file/handoff.c, then libc
 *     _exit                               -> keeps what was written readable
 *     pidfd_getfd                         -> refuses upgraded connections
 *
 * libc's versions call each other by internal names that we cannot interpose.
 * So this file defines each of them.
 */
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "api/vma/vma.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "base/rawcall.h"
#include "preload/creds.h"
#include "preload/edge.h"
#include "sock/others.h"

/* Exit. */

OSF_API void _exit(int status)
{
	file_exit();
	for (;;)
		rawcall(SYS_exit_group, status);
}

OSF_API void _Exit(int status) { _exit(status); }

/* Fork. */

/*
 * The kernel's child of vfork() runs in its parent's memory: a descriptor that
 * it closes would vanish from the parent's table.  So our vfork() forks, and
 * the parent does not see the child's stores.  The rest is as in the kernel:
 * the parent sleeps until the child executes a program or ends, and runs no
 * handler meanwhile.
 */
OSF_API pid_t vfork(void)
{
	sigset_t all, mask;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	fork_suspends();
	pid_t pid = fork();
	int saved = errno;
	fork_wait(pid);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	errno = saved;
	return pid;
}

/* Runs no atfork handlers but ours. */
OSF_API pid_t _Fork(void)
{
	vma_passes_all();
	fork_before();
	pid_t pid = libc._Fork();
	fork_after(!pid);
	return pid;
}

struct clone_start {
	int (*fn)(void *arg);
	void *arg;
	int flags;
};

static int clone_child(void *p)
{
	struct clone_start *s = p;

	fork_child();
	creds_after_clone(s->flags);
	return s->fn(s->arg);
}

/* A child with its own memory and descriptors is a fork.  If it shares either,
 * it is a thread or knows what it does: leave it to libc. */
OSF_API int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	struct clone_start start = { fn, arg, flags };
	va_list ap;

	va_start(ap, arg);
	void *ptid = va_arg(ap, void *);
	void *tls = va_arg(ap, void *);
	void *ctid = va_arg(ap, void *);
	va_end(ap);
	if (!fn || flags & (CLONE_VM | CLONE_FILES))
		return libc.clone(fn, stack, flags, arg, ptid, tls, ctid);
	vma_passes_all();
	creds_before_clone(flags);
	fork_before();
	/* The child has a copy of this frame. */
	int pid =
	    libc.clone(clone_child, stack, flags, &start, ptid, tls, ctid);
	fork_after(false);
	return pid;
}

/* libc's daemon() ends the parent without our _exit(). */
OSF_API int daemon(int nochdir, int noclose)
{
	pid_t pid = fork();

	if (pid < 0)
		return -1;
	if (pid)
		_exit(0);
	if (setsid() < 0)
		return -1;
	if (!nochdir && chdir("/") < 0)
		return -1;
	if (noclose)
		return 0;
	int null = open("/dev/null", O_RDWR);
	if (null < 0)
		return -1;
	for (int fd = 0; fd <= 2; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
	return 0;
}

/* exec.  If it fails, the connections stay on TCP, which is safe. */

static void before_exec(char *const argv[], char *const envp[])
{
	vma_passes_all();
	file_before_exec(argv, envp);
}

/* exec() has returned, so it has failed. */
static int after_exec(int r)
{
	file_exec_failed();
	return r;
}

static void before_spawn(const posix_spawn_file_actions_t *acts,
			 char *const argv[], char *const envp[])
{
	vma_passes_all();
	file_before_spawn(acts, argv, envp);
}

OSF_API int execve(const char *path, char *const argv[], char *const envp[])
{
	before_exec(argv, envp);
	return after_exec(libc.execve(path, argv, envp));
}

OSF_API int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

OSF_API int execvpe(const char *file, char *const argv[], char *const envp[])
{
	before_exec(argv, envp);
	return after_exec(libc.execvpe(file, argv, envp));
}

OSF_API int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

OSF_API int fexecve(int fd, char *const argv[], char *const envp[])
{
	before_exec(argv, envp);
	return after_exec(libc.fexecve(fd, argv, envp));
}

OSF_API int execveat(int dir, const char *path, char *const argv[],
		     char *const envp[], int flags)
{
	before_exec(argv, envp);
	return after_exec(libc.execveat(dir, path, argv, envp, flags));
}

/* The arguments of execl() as execv() wants them.  NULL, E2BIG or ENOMEM. */
static char **list_copy(const char *first, va_list *ap, size_t *bytes)
{
	va_list again;
	size_t n = 1;

	va_copy(again, *ap);
	if (first)
		for (n = 2; va_arg(again, char *);)
			n++;
	va_end(again);
	*bytes = n * sizeof(char *);
	char **argv = mmap(NULL, *bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (argv == MAP_FAILED)
		return NULL;
	argv[0] = (char *)first;
	for (size_t i = 1; i < n; i++)
		argv[i] = va_arg(*ap, char *);
	return argv;
}

static void list_free(char **argv, size_t bytes)
{
	int saved = errno;

	munmap(argv, bytes);
	errno = saved;
}

OSF_API int execl(const char *path, const char *arg, ...)
{
	size_t bytes;
	va_list ap;

	va_start(ap, arg);
	char **argv = list_copy(arg, &ap, &bytes);
	va_end(ap);
	if (!argv)
		return -1;
	execve(path, argv, environ);
	list_free(argv, bytes);
	return -1;
}

OSF_API int execlp(const char *file, const char *arg, ...)
{
	size_t bytes;
	va_list ap;

	va_start(ap, arg);
	char **argv = list_copy(arg, &ap, &bytes);
	va_end(ap);
	if (!argv)
		return -1;
	execvpe(file, argv, environ);
	list_free(argv, bytes);
	return -1;
}

OSF_API int execle(const char *path, const char *arg, ...)
{
	size_t bytes;
	va_list ap;

	va_start(ap, arg);
	char **argv = list_copy(arg, &ap, &bytes);
	char *const *envp = argv ? va_arg(ap, char *const *) : NULL;
	va_end(ap);
	if (!argv)
		return -1;
	execve(path, argv, envp);
	list_free(argv, bytes);
	return -1;
}

/* posix_spawn() and its relatives fork inside libc. */

OSF_API int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *acts,
					     int fd, int to)
{
	int r = libc.posix_spawn_file_actions_adddup2(acts, fd, to);

	if (!r && table_load(fd))
		file_spawn_dup2(acts, fd);
	return r;
}

OSF_API int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t *acts)
{
	file_spawn_forget(acts);
	return libc.posix_spawn_file_actions_destroy(acts);
}

OSF_API int posix_spawn(pid_t *pid, const char *path,
			const posix_spawn_file_actions_t *acts,
			const posix_spawnattr_t *attr, char *const argv[],
			char *const envp[])
{
	before_spawn(acts, argv, envp);
	return libc.posix_spawn(pid, path, acts, attr, argv, envp);
}

OSF_API int posix_spawnp(pid_t *pid, const char *file,
			 const posix_spawn_file_actions_t *acts,
			 const posix_spawnattr_t *attr, char *const argv[],
			 char *const envp[])
{
	before_spawn(acts, argv, envp);
	return libc.posix_spawnp(pid, file, acts, attr, argv, envp);
}

OSF_API int system(const char *command)
{
	char *const argv[] = { (char *)command, NULL };

	if (command)
		before_spawn(NULL, argv, environ);
	return libc.system(command);
}

OSF_API FILE *popen(const char *command, const char *type)
{
	char *const argv[] = { (char *)command, NULL };

	before_spawn(NULL, argv, environ);
	return libc.popen(command, type);
}

/* pidfd_getfd(): copies another process's descriptor without asking it. */

static pid_t pid_of(int pidfd)
{
	char path[48], line[128];
	int pid = -1;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	FILE *f = fopen(path, "re");
	while (f && pid < 0 && fgets(line, sizeof(line), f))
		sscanf(line, "Pid: %d", &pid);
	if (f)
		fclose(f);
	return pid;
}

/* Only the other process can move its upgraded connection back to TCP.  A copy
 * of the descriptor would read doorbells instead of the stream.  So return
 * EPERM. */
OSF_API int pidfd_getfd(int pidfd, int target, unsigned flags)
{
	int saved = errno;
	pid_t pid = pid_of(pidfd);

	if (pid == getpid() && !flags && table_load(target))
		return fcntl(target, F_DUPFD_CLOEXEC, 0);
	int fd = (int)rawcall(SYS_pidfd_getfd, pidfd, target, flags);
	if (fd >= 0 && pid > 0 && others_carry(pid, fd)) {
		log_warn("process %d moves fd %d through shared memory: it "
			 "cannot be copied",
			 (int)pid, target);
		nocancel_close(fd);
		fd = -EPERM;
	}
	errno = fd < 0 ? -fd : saved;
	return fd < 0 ? -1 : fd;
}
