/* SPDX-License-Identifier: MIT */
/*
 * cm/cmd.c - from the bytes that a program writes to a command, and back
 *
 *     {cmd, in, out} struct  ->  cmd_*()  ->  the program's `response`
 *
 * As the kernel does, we answer an address that the program does not have with EFAULT.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cm/cm.h"
#include "cm/id.h"

union any_command {
#define CMD(number, name, type, least) type name;
#include "cm/cmds.def"
#undef CMD
};

static const struct command {
	int (*run)(struct cm_call *c);
	uint16_t size, least;
} commands[] = {
#define CMD(number, name, type, least)                                         \
	[number] = { cmd_##name, sizeof(type), least },
#include "cm/cmds.def"
#undef CMD
};

/* The kernel copies the bytes, so a bad address is an error and no signal.  If a filter of
 * system calls forbids that, we copy them ourselves, and a bad address may end the program. */
static int copy(struct iovec own, struct iovec user, bool is_write)
{
	int saved = errno, err = 0;
	ssize_t n = is_write ? process_vm_writev(getpid(), &own, 1, &user, 1, 0)
			     : process_vm_readv(getpid(), &own, 1, &user, 1, 0);

	if (n < 0 && (errno == EPERM || errno == ENOSYS) &&
	    !is_bad_ptr(user.iov_base))
		memcpy(is_write ? user.iov_base : own.iov_base,
		       is_write ? own.iov_base : user.iov_base, own.iov_len);
	else if (n != (ssize_t)own.iov_len)
		err = -EFAULT;
	errno = saved;
	return err;
}

int user_read(void *to, const void *from, size_t n)
{
	return copy((struct iovec){ to, n }, (struct iovec){ (void *)from, n },
		    false);
}

int user_write(uint64_t to, const void *from, size_t n)
{
	return copy((struct iovec){ (void *)from, n },
		    (struct iovec){ (void *)(uintptr_t)to, n }, true);
}

int call_reply(const struct cm_call *c, const void *reply, size_t n,
	       size_t least)
{
	if (c->out < least)
		return -ENOSPC;
	return user_write(c->response, reply, MIN(n, (size_t)c->out));
}

static ssize_t run(struct cm_file *f, const void *buf, size_t n)
{
	struct rdma_ucm_cmd_hdr h;
	union any_command in;

	if (n < sizeof(h))
		return -EINVAL;
	int err = user_read(&h, buf, sizeof(h));
	if (err)
		return err;
	if (h.cmd > RDMA_USER_CM_CMD_JOIN_MCAST || h.in + sizeof(h) > n)
		return -EINVAL;
	const struct command *cmd =
	    h.cmd < ARRAY_LEN(commands) ? &commands[h.cmd] : NULL;
	if (!cmd || !cmd->run)
		return -ENOSYS;
	if (h.in < cmd->least)
		return -EINVAL;
	memset(&in, 0, sizeof(in));
	err = user_read(&in, (const char *)buf + sizeof(h),
			MIN((size_t)h.in, (size_t)cmd->size));
	if (err)
		return err;
	struct cm_call c = { .file = f, .in = &in, .out = h.out };
	err = cmd->run(&c);
	return err ? err : (ssize_t)n;
}

ssize_t cm_write(int fd, const void *buf, size_t n)
{
	GUARD(&cm_lock);
	struct cm_file *f = file_at(fd);

	if (!f)
		return -ENODEV;
	file_enter(f);
	ssize_t r = run(f, buf, n);
	file_leave(f);
	return r;
}

int cmd_get_event(struct cm_call *c)
{
	const struct rdma_ucm_get_event *in = c->in;
	struct cm_event *e;

	if (c->out < offsetof(struct rdma_ucm_event_resp, reserved))
		return -ENOSPC;
	for (;;) {
		file_progress(c->file);
		if ((e = c->file->events))
			break;
		int err = file_wait(c->file);
		if (err)
			return err;
	}
	c->response = in->response;
	int err = call_reply(c, &e->resp, sizeof(e->resp), 0);
	if (err)
		return err; /* the event stays */
	event_take(c->file);
	if (e->mcast)
		mcast_count_event(e->mcast);
	else
		e->owner->events_reported++;
	if (e->child) {
		e->owner->n_waiting--;
		e->child->listener = NULL;
	}
	free(e);
	return 0;
}
