/* SPDX-License-Identifier: MIT */
/*
 * file/handoff.c - connections whose descriptor somebody else will use
 *
 *     exec(), posix_spawn(), SCM_RIGHTS, io_uring, syscall()
 *         -> young:     stays on TCP for good
 *         -> upgraded:  falls back to TCP; a relay delivers unread bytes
 *         -> upgraded, and another holder has stopped inside a call: a relay waits for it
 *
 * A connection that survives exec() and that no other process holds is handed
 * over whatever its number.  If parent or children hold it too, the program may
 * have left it open by mistake, and the others go on in shared memory.  Then we
 * hand it over only if the new program can know its number: 0 to 2, the
 * convention of LISTEN_FDS, or a number in an argument or the environment that
 * is called a descriptor ("fd=7", "/dev/fd/7", "CHILD_FD=7").  A bare number as
 * an argument may mean something else: then we hand over only if the other
 * processes can go on as well.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>

#include "base/fds.h"
#include "base/fork_lock.h"
#include "base/libc.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "file/file.h"
#include "file/hold.h"
#include "file/relay.h"
#include "ops/ops.h"
#include "ops/port.h"
#include "sock/anchor.h"
#include "sock/shared.h"
#include "sock/sleep.h"
#include "sock/sock_ops.h"

#define LISTEN_FDS_START 3 /* sd_listen_fds(3) */

/* A second caller waits until the first has finished. */
static struct lock lock;

/* @to: a relay's new descriptor, or -errno. */
static bool relay_takes(struct file *f, int fd, int to)
{
	if (to < 0) {
		log_err("fd %d: no relay: %s", fd, strerror(-to));
		return false;
	}
	if (load_rlx(&f->sk->w->shut) & SHUT_BIT_WR)
		libc.shutdown(to, SHUT_WR);
	file_to_relay(f, to);
	nocancel_close(to);
	return true;
}

/* Another process has stopped inside a call, and nobody else knows where the stream is.  So
 * a relay waits for that process.  Return: false: it has gone on meanwhile. */
static bool hand_over_late(struct file *f, int fd, enum osf_reason why)
{
	struct sock *sk = f->sk;

	if (!shared_part_begin(sk))
		return false;
	int to = relay_start_late(fd, sk, why);
	shared_part_end(sk, to >= 0);
	log_info("fd %d: a relay waits for another process", fd);
	if (!relay_takes(f, fd, to)) {
		sock_let_go(sk, 1); /* the relay */
		shared_lose(sk, "no relay");
		return true;
	}
	sock_set_mode(sk, SOCK_KERNEL);
	sleepers_wake(sk);
	return true;
}

static int fall_back(struct file *f, int fd, enum osf_reason why, bool gently,
		     struct stash *stash)
{
	int r;

	do
		r = sock_ops(f->sk)->fallback_now(f->sk, fd, why, gently,
						  stash);
	while (r == -EBUSY && !hand_over_late(f, fd, why));
	return r;
}

static void hand_over_moved(struct file *f, int fd, enum osf_reason why,
			    bool gently)
{
	const struct sock_ops *ops = sock_ops(f->sk);
	struct stash stash = { 0 };
	INSIDE_FORK_LOCK(); /* a fork comes before or after */
	GUARD(&lock);

	bool fell = fall_back(f, fd, why, gently, &stash) == 1;
	if (fell && stash_needs_relay(&stash)) {
		log_info("fd %d: a relay for %zu unread bytes", fd, stash.n);
		if (!relay_takes(f, fd, relay_start(fd, &stash)))
			ops->reset(f->sk, fd, "no relay");
		sock_set_mode(f->sk, SOCK_KERNEL);
	}
	if (fell && !is_single_threaded())
		sleepers_wake(f->sk);
	stash_free(&stash);
}

static void listener_leaves(struct file *l);

/* How sure are we that the new program uses the descriptor? */
enum named { NAMED_NOT, NAMED_MAYBE, NAMED };

static void hand_off(struct file *f, int fd, enum osf_reason why,
		     enum named named)
{
	int saved = errno;

	if (f->kind != FILE_SOCK)
		return;
	if (f->sk->st->listening) {
		if (ops_has_modules())
			listener_leaves(f);
		return;
	}
	sock_await_move(f->sk);
	if (ops_keep_kernel(f->sk, why)) {
		file_pass(f);
	} else {
		hand_over_moved(f, fd, why, named == NAMED_MAYBE);
		file_sync(f, fd);
	}
	errno = saved;
}

void file_give_back(struct file *f, int fd, enum osf_reason why, bool gently)
{
	hand_off(f, fd, why, gently ? NAMED_MAYBE : NAMED);
}

void file_hand_over(int fd, enum osf_reason why)
{
	struct file *f = likely(!table_load(fd)) ? NULL : file_get_any(fd);

	if (!f)
		return;
	hand_off(f, fd, why, NAMED);
	file_put(f);
}

static void connections_leave(void)
{
	for (int fd = file_next(0); fd >= 0; fd = file_next(fd + 1)) {
		struct file *f = file_get_any(fd);

		if (!f)
			continue;
		if (f->kind == FILE_SOCK && sock_ops(f->sk)->in_process)
			hand_off(f, fd, OSF_REASON_SHARED, NAMED_MAYBE);
		file_put(f);
	}
}

void file_drop_port(void)
{
	if (!port_is_open())
		return;
	connections_leave();
	port_drop();
}

/* Another process may accept what waits at @l.  Which connections of this process wait
 * there only their module knows: so all of them fall back. */
static void listener_leaves(struct file *l)
{
	connections_leave();
	ops_listener_shared(l->sk);
}

/* Connections first: those that wait at a listener fall back with the others. */
void file_before_fork(void)
{
	if (!ops_is_in_process())
		return;
	connections_leave();
	for (int fd = file_next(0); fd >= 0; fd = file_next(fd + 1)) {
		struct file *f = file_get_any(fd);

		if (!f)
			continue;
		if (f->kind == FILE_SOCK && f->sk->st->listening)
			ops_listener_shared(f->sk);
		file_put(f);
	}
}

/* Is the number at @at called a descriptor: fd=N, /dev/fd/N, fd://N, <&N? */
static bool is_called_fd(const char *start, const char *at)
{
	while (at > start && strchr("=:/ ", at[-1]))
		at--;
	return (at > start && at[-1] == '&') ||
	       (at - start >= 2 && !strncasecmp(at - 2, "fd", 2));
}

/* Does the word @s name the descriptor @n? */
static enum named named_in(const char *s, int n)
{
	for (const char *at = s; *at;) {
		char *end;

		if (!isdigit((unsigned char)*at)) {
			at++;
			continue;
		}
		if (strtoul(at, &end, 10) == (unsigned long)n) {
			if (is_called_fd(s, at))
				return NAMED;
			if (at == s && !*end)
				return NAMED_MAYBE;
		}
		at = end;
	}
	return NAMED_NOT;
}

static enum named named_in_any(char *const *list, int n)
{
	enum named most = NAMED_NOT;

	for (; list && *list; list++) {
		enum named named = named_in(*list, n);

		most = named > most ? named : most;
	}
	return most;
}

/* NAME_FD=3, NAME_FDS=3,4. */
static bool has_number_env(char *const *envp, int n)
{
	for (; envp && *envp; envp++) {
		const char *value = strchr(*envp, '=');
		const char *name_end = value;

		if (!value)
			continue;
		if (value > *envp && (value[-1] | 32) == 's')
			name_end--;
		bool is_fd = name_end - *envp >= 2 &&
			     !strncasecmp(name_end - 2, "fd", 2);
		for (const char *at = value + 1; is_fd && *at; at++)
			if (isdigit((unsigned char)*at) &&
			    !isdigit((unsigned char)at[-1]) &&
			    strtoul(at, NULL, 10) == (unsigned long)n)
				return true;
	}
	return false;
}

static bool is_activation(char *const *envp, int fd)
{
	for (; envp && *envp; envp++)
		if (!strncmp(*envp, "LISTEN_FDS=", 11))
			return fd >= LISTEN_FDS_START &&
			       fd < LISTEN_FDS_START + atoi(*envp + 11);
	return false;
}

static enum named is_named(int fd, char *const *argv, char *const *envp)
{
	return fd <= 2 || is_activation(envp, fd) || has_number_env(envp, fd)
		   ? NAMED
		   : named_in_any(argv, fd);
}

/* Another thread may close @fd and reuse its number: work on a duplicate of
 * what it names now. */
static void hand_off_held(struct file *f, int fd, enum named named)
{
	int held = fds_hide(libc.fcntl(fd, F_DUPFD_CLOEXEC, 3));

	/* If it is still in the table, we duplicated the right file. */
	if (held >= 0 && file_is_at(f, fd))
		hand_off(f, held, OSF_REASON_PASSED, named);
	fds_close(held);
}

/* exec() closes what an upgrade has open, and what announces a listener.  Anybody may have queued
 * descriptors there that take long to close, so they are closed as they always are.  If other
 * processes have them, too, exec() does not let go of them. */
static uint32_t n_unannounced;
static void close_before_exec(struct file *f, int fd)
{
	if (f->kind != FILE_SOCK || sock_procs(f->sk) > 1)
		return;
	if (f->sk->st->listening && load_rlx(&f->sk->announce_fd) > 0) {
		fetch_add(&n_unannounced, 1u);
		ops_unannounce(f->sk);
	} else if (ops_spare_fds(f->sk, fd, OSF_REASON_PASSED))
		file_sync(f, fd);
}

static void walk(char *const *argv, char *const *envp, bool is_exec)
{
	int saved = errno;

	if (file_has_left())
		return;
	hold_reap();
	for (int fd = file_next(0); fd >= 0; fd = file_next(fd + 1)) {
		struct file *f = file_get_any(fd);

		if (!f)
			continue;
		bool stays = f->kind == FILE_SOCK &&
			     !(libc.fcntl(fd, F_GETFD) & FD_CLOEXEC);
		enum named named = stays ? is_named(fd, argv, envp) : NAMED_NOT;

		/* Nobody else will use it. */
		if (stays && is_exec && sock_ops(f->sk)->is_ours &&
		    sock_procs(f->sk) == 1)
			named = NAMED;
		/* The kernel closes it without a word to the peer. */
		if (is_exec && f->kind == FILE_SOCK &&
		    sock_ops(f->sk)->in_process)
			named = NAMED;
		if (named)
			hand_off_held(f, fd, named);
		/* The kernel closes this one during exec() without calling us.
		 * If a doorbell were unread then, the kernel would reset the
		 * connection. */
		else if (is_exec && f->kind == FILE_SOCK &&
			 (sock_procs(f->sk) == 1 || sock_was_used(f->sk)))
			anchor_clear(f->sk, fd);
		if (is_exec)
			close_before_exec(f, fd);
		file_put(f);
	}
	errno = saved;
}

void file_before_exec(char *const *argv, char *const *envp)
{
	walk(argv, envp, true);
	port_leave(OSF_REASON_PASSED);
}

void file_exec_failed(void)
{
	int saved = errno;

	if (!xchg(&n_unannounced, 0u))
		return;
	for (int fd = file_next(0); fd >= 0; fd = file_next(fd + 1)) {
		struct file *f = file_get_any(fd);

		if (!f)
			continue;
		if (f->kind == FILE_SOCK && f->sk->st->listening)
			ops_announce(f->sk, fd);
		file_put(f);
	}
	errno = saved;
}

/*
 * posix_spawn()'s file actions, which set the child's descriptors, are opaque.
 * So note each dup2 when the program adds it.
 */

#define NOTES_MAX 64
static struct {
	const void *acts;
	int fd;
} notes[NOTES_MAX];
static struct lock notes_lock;

static bool note_add(const void *acts, int fd)
{
	GUARD(&notes_lock);
	for (int i = 0; i < NOTES_MAX; i++) {
		if (notes[i].acts)
			continue;
		notes[i].acts = acts;
		notes[i].fd = fd;
		return true;
	}
	return false;
}

/* The next descriptor that @acts names, after the @i-th note; -1. */
static int note_next(const void *acts, int *i)
{
	GUARD(&notes_lock);
	while (acts && *i < NOTES_MAX) {
		int at = (*i)++;

		if (notes[at].acts == acts)
			return notes[at].fd;
	}
	return -1;
}

void file_spawn_dup2(const void *acts, int fd)
{
	/* No room to note it: hand over now, which is early but correct. */
	if (!note_add(acts, fd))
		file_hand_over(fd, OSF_REASON_PASSED);
}

void file_spawn_forget(const void *acts)
{
	GUARD(&notes_lock);
	for (int i = 0; i < NOTES_MAX; i++)
		if (notes[i].acts == acts)
			notes[i].acts = NULL;
}

void file_before_spawn(const void *acts, char *const *argv, char *const *envp)
{
	int i = 0;

	for (int fd; (fd = note_next(acts, &i)) >= 0;)
		file_hand_over(fd, OSF_REASON_PASSED);
	walk(argv, envp, false);
}

COLD bool file_spare_fds(void)
{
	int saved = errno;
	bool any = false;

	for (int fd = file_next(0); fd >= 0; fd = file_next(fd + 1)) {
		struct file *f = file_get_any(fd);

		if (!f)
			continue;
		if (f->kind == FILE_SOCK && sock_procs(f->sk) == 1 &&
		    ops_spare_fds(f->sk, fd, OSF_REASON_NO_MEMORY)) {
			any = true;
			file_sync(f, fd);
		}
		file_put(f);
	}
	errno = saved;
	return any;
}

COLD bool file_spare_all_fds(void)
{
	int saved = errno;
	bool any = file_spare_fds() | ops_spare_own_fds();

	for (int fd = file_next(0); fd >= 0; fd = file_next(fd + 1)) {
		struct file *f = file_get_any(fd);

		if (!f)
			continue;
		if (f->kind == FILE_SOCK && load_rlx(&f->sk->announce_fd) > 0) {
			ops_unannounce(f->sk);
			any = true;
		}
		file_put(f);
	}
	errno = saved;
	return any;
}

void handoff_after_fork(void)
{
	lock_inherit(&lock);
	lock_inherit(&notes_lock);
}
