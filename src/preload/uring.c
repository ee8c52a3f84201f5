/* SPDX-License-Identifier: MIT */
/*
 * preload/uring.c - io_uring
 *
 *     io_uring_submit(), ...          the connections that the new entries name
 *     io_uring_register_files(), ...  the connections that are registered
 *     a ring that we cannot follow    all connections
 *         -> file_hand_over(): back to TCP before the kernel sees the entry
 *
 * We can follow a ring of liburing's.  The program fills in entries between the
 * ring's sqe_head and sqe_tail, and the kernel sees them only after a function
 * of the library moves the tail, also with IORING_SETUP_SQPOLL.  We interpose
 * these functions.  Inline functions of the library's header use struct
 * io_uring_sq, so its layout is part of the ABI.
 *
 * We cannot follow a ring that was made by system call or by a newer liburing
 * than we know.  Then all connections of the process go to the kernel; so they
 * do when the program gives an epoll set to a ring.  We cannot see a program
 * that links liburing statically or makes its own system calls.  Spec:
 * io_uring(7), io_uring_enter(2), io_uring_register(2); liburing 2.0 to 2.14.
 */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "preload/async.h"
#include "preload/edge.h"

#define LIBURING "liburing.so.2"
#define LIBURING_MINOR_MAX 14

/* Larger entries are for drivers, and mixed sizes are newer than this. */
#define FLAGS_KNOWN (((1u << 19) - 1) & ~IORING_SETUP_SQE128)

/* Not in every kernel's header. */
enum {
	OP_SENDMSG_ZC = 48,
	OP_WAITID = 50,
	OP_FUTEX_WAIT = 51,
	OP_FUTEX_WAKE = 52,
	OP_FUTEX_WAITV = 53,
};

/* The first members of struct io_uring. */
struct io_uring {
	unsigned *khead, *ktail, *kring_mask, *kring_entries, *kflags,
	    *kdropped, *array;
	struct io_uring_sqe *sqes;
	unsigned sqe_head, sqe_tail;
};

struct io_uring_cqe;
struct __kernel_timespec;
int io_uring_major_version(void);
int io_uring_minor_version(void);

/* Descriptors that a ring gets. */

static void fd_given(int fd)
{
	struct file *f = likely(!table_load(fd)) ? NULL : file_get_any(fd);

	if (!f)
		return;
	bool is_set = f->kind == FILE_EPOLL;
	bool is_left =
	    !is_set && file_is_passthrough(fd) && !f->sk->st->listening;
	file_put(f);
	if (is_set)
		async_leave_all(); /* the kernel has to know what is ready */
	else if (!is_left)
		file_hand_over(fd, OSF_REASON_ASYNC);
}

static void fds_given(const int *fds, unsigned n)
{
	for (unsigned i = 0; i < n && !is_bad_ptr(fds); i++)
		fd_given(fds[i]);
}

/* A close() without our functions: the number may soon name another file. */
static void closed(int fd)
{
	if (unlikely(table_load(fd))) {
		file_hand_over(fd, OSF_REASON_ASYNC);
		file_forget(fd);
	}
}

static void message_given(const struct io_uring_sqe *s)
{
	const struct msghdr *msg = (const void *)(uintptr_t)s->addr;

	if (!is_bad_ptr(msg) && msg->msg_controllen &&
	    !is_bad_ptr(msg->msg_control))
		pass_on(msg);
}

static void entry_given(const struct io_uring_sqe *s)
{
	switch (s->opcode) {
	case IORING_OP_NOP:
	case IORING_OP_PROVIDE_BUFFERS:
	case IORING_OP_REMOVE_BUFFERS:
	case IORING_OP_SOCKET:
	case OP_WAITID:
	case OP_FUTEX_WAIT:
	case OP_FUTEX_WAKE:
	case OP_FUTEX_WAITV:
		return; /* their fd is something else */
	case IORING_OP_EPOLL_CTL:
		async_leave_all();
		return;
	case IORING_OP_FILES_UPDATE:
		fds_given((const int *)(uintptr_t)s->addr, s->len);
		return;
	case IORING_OP_CLOSE:
		if (!s->file_index)
			closed(s->fd);
		return;
	case IORING_OP_SPLICE:
	case IORING_OP_TEE:
		if (!(s->splice_flags & SPLICE_F_FD_IN_FIXED))
			fd_given(s->splice_fd_in);
		break;
	case IORING_OP_SENDMSG:
	case OP_SENDMSG_ZC:
		message_given(s);
		break;
	default:
		break;
	}
	if (!(s->flags & IOSQE_FIXED_FILE))
		fd_given(s->fd);
}

/* The entries that the kernel has not seen. */
static void given(const struct io_uring *ring)
{
	if (is_bad_ptr(ring) || is_bad_ptr(ring->sqes) ||
	    is_bad_ptr(ring->kring_mask))
		return;
	unsigned mask = *ring->kring_mask;
	unsigned n = MIN(ring->sqe_tail - ring->sqe_head, mask + 1);

	for (unsigned i = 0; i < n; i++)
		entry_given(&ring->sqes[(ring->sqe_head + i) & mask]);
}

void uring_registers(unsigned opcode, const void *arg, unsigned n)
{
	const struct io_uring_files_update *update = arg;
	const struct io_uring_rsrc_register *rsrc = arg;
	const struct io_uring_rsrc_update2 *update2 = arg;

	if (is_bad_ptr(arg))
		return;
	switch (opcode) {
	case IORING_REGISTER_FILES:
		fds_given(arg, n);
		break;
	case IORING_REGISTER_FILES_UPDATE:
		fds_given((const int *)(uintptr_t)update->fds, n);
		break;
	case IORING_REGISTER_FILES2:
		fds_given((const int *)(uintptr_t)rsrc->data, rsrc->nr);
		break;
	case IORING_REGISTER_FILES_UPDATE2:
		fds_given((const int *)(uintptr_t)update2->data, update2->nr);
		break;
	default:
		break;
	}
}

/* Making and finding rings. */

/* Does the library have functions that we do not know? */
static bool is_known(void)
{
	int major = ASYNC_NEXT(io_uring_major_version, LIBURING)();
	int minor = ASYNC_NEXT(io_uring_minor_version, LIBURING)();

	return major < 0 /* before 2.4 */ ||
	       (major == 2 && minor <= LIBURING_MINOR_MAX);
}

static int ring_made(int r, unsigned flags)
{
	const char *how = secure_getenv("OSF_IO_URING");

	if (r >= 0 && (flags & ~FLAGS_KNOWN || !is_known() ||
		       (how && !strcmp(how, "all"))))
		async_leave_all();
	return r;
}

#define CALL_OF(name, params, ...)                                             \
	int name params;                                                       \
	OSF_API int name params                                                \
	{                                                                      \
		return ring_made(ASYNC_NEXT(name, LIBURING)(__VA_ARGS__),      \
				 flags_of);                                    \
	}
#define flags_of flags
CALL_OF(io_uring_queue_init,
	(unsigned entries, struct io_uring *ring, unsigned flags), entries,
	ring, flags)
#undef flags_of
#define flags_of (is_bad_ptr(p) ? 0 : p->flags)
CALL_OF(io_uring_queue_init_params,
	(unsigned entries, struct io_uring *ring, struct io_uring_params *p),
	entries, ring, p)
CALL_OF(io_uring_queue_init_mem,
	(unsigned entries, struct io_uring *ring, struct io_uring_params *p,
	 void *buf, size_t size),
	entries, ring, p, buf, size)
#undef flags_of
#undef CALL_OF

/* We cannot see what the program does with a bare ring. */
int io_uring_setup(unsigned entries, struct io_uring_params *p);
OSF_API int io_uring_setup(unsigned entries, struct io_uring_params *p)
{
	int r = ASYNC_NEXT(io_uring_setup, LIBURING)(entries, p);

	if (r >= 0)
		async_leave_all();
	return r;
}

/*
 * Functions that let the kernel see new entries.
 */
#define SUBMITS(name, params, ...)                                             \
	int name params;                                                       \
	OSF_API int name params                                                \
	{                                                                      \
		given(ring);                                                   \
		return ASYNC_NEXT(name, LIBURING)(__VA_ARGS__);                \
	}
SUBMITS(io_uring_submit, (struct io_uring * ring), ring)
SUBMITS(io_uring_submit_and_wait, (struct io_uring * ring, unsigned n), ring, n)
SUBMITS(io_uring_submit_and_wait_timeout,
	(struct io_uring * ring, struct io_uring_cqe **cqe, unsigned n,
	 struct __kernel_timespec *ts, sigset_t *mask),
	ring, cqe, n, ts, mask)
SUBMITS(io_uring_submit_and_wait_min_timeout,
	(struct io_uring * ring, struct io_uring_cqe **cqe, unsigned n,
	 struct __kernel_timespec *ts, unsigned min_us, sigset_t *mask),
	ring, cqe, n, ts, min_us, mask)
SUBMITS(io_uring_submit_and_wait_reg,
	(struct io_uring * ring, struct io_uring_cqe **cqe, unsigned n,
	 int index),
	ring, cqe, n, index)
SUBMITS(io_uring_submit_and_get_events, (struct io_uring * ring), ring)
SUBMITS(io_uring_wait_cqes,
	(struct io_uring * ring, struct io_uring_cqe **cqe, unsigned n,
	 struct __kernel_timespec *ts, sigset_t *mask),
	ring, cqe, n, ts, mask)
SUBMITS(io_uring_wait_cqes_min_timeout,
	(struct io_uring * ring, struct io_uring_cqe **cqe, unsigned n,
	 struct __kernel_timespec *ts, unsigned min_us, sigset_t *mask),
	ring, cqe, n, ts, min_us, mask)
SUBMITS(io_uring_wait_cqe_timeout,
	(struct io_uring * ring, struct io_uring_cqe **cqe,
	 struct __kernel_timespec *ts),
	ring, cqe, ts)
SUBMITS(__io_uring_get_cqe,
	(struct io_uring * ring, struct io_uring_cqe **cqe, unsigned submit,
	 unsigned n, sigset_t *mask),
	ring, cqe, submit, n, mask)

/* We do not know where these calls' entries are. */
#define ENTERS(name, params, ...)                                              \
	int name params;                                                       \
	OSF_API int name params                                                \
	{                                                                      \
		if (n)                                                         \
			async_leave_all();                                     \
		return ASYNC_NEXT(name, LIBURING)(__VA_ARGS__);                \
	}
ENTERS(io_uring_enter,
       (unsigned fd, unsigned n, unsigned n_wait, unsigned flags,
	sigset_t *mask),
       fd, n, n_wait, flags, mask)
ENTERS(io_uring_enter2,
       (unsigned fd, unsigned n, unsigned n_wait, unsigned flags,
	sigset_t *mask, size_t size),
       fd, n, n_wait, flags, mask, size)

/*
 * Registered files.
 */
#define REGISTERS(name, params, ...)                                           \
	int name params;                                                       \
	OSF_API int name params                                                \
	{                                                                      \
		fds_given(fds, n);                                             \
		return ASYNC_NEXT(name, LIBURING)(__VA_ARGS__);                \
	}
REGISTERS(io_uring_register_files,
	  (struct io_uring * ring, const int *fds, unsigned n), ring, fds, n)
REGISTERS(io_uring_register_files_tags,
	  (struct io_uring * ring, const int *fds, const uint64_t *tags,
	   unsigned n),
	  ring, fds, tags, n)
REGISTERS(io_uring_register_files_update,
	  (struct io_uring * ring, unsigned off, const int *fds, unsigned n),
	  ring, off, fds, n)
REGISTERS(io_uring_register_files_update_tag,
	  (struct io_uring * ring, unsigned off, const int *fds,
	   const uint64_t *tags, unsigned n),
	  ring, off, fds, tags, n)

int io_uring_register(unsigned fd, unsigned opcode, const void *arg,
		      unsigned n);
OSF_API int io_uring_register(unsigned fd, unsigned opcode, const void *arg,
			      unsigned n)
{
	uring_registers(opcode, arg, n);
	return ASYNC_NEXT(io_uring_register, LIBURING)(fd, opcode, arg, n);
}
