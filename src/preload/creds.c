/* SPDX-License-Identifier: MIT */
/*
 * preload/creds.c - the calls by which a process gives up authority, or gets another's
 *
 *     setuid(), setgroups(), capset(), unshare(), ...   ->  file/unshare.c, then libc
 *     prctl(PR_CAPBSET_DROP) and the like               ->  the same
 *     prctl(PR_SET_SECCOMP), seccomp()                  ->  file/leave.c, then libc
 *
 * A process that was forked leaves the memory of its parent before it is somebody else.
 * A call that changes nothing, such as setuid(0) by root, has no effect here.  A call that
 * libc then refuses has moved some connections back to TCP, and nothing else.
 *
 * A program calls some of them by number: preload/raw.c asks creds_raw() about each.
 * The kernel's calls concern one thread, and libc's all threads, so each is passed on in
 * the way in which it came.  Not seen: a change by /proc/self/attr (SELinux, AppArmor).
 */
#include <grp.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/rawcall.h"
#include "preload/creds.h"
#include "preload/edge.h"

#define SAME ((uid_t)-1) /* as an argument: this one stays */

static bool is_new(uid_t to, uid_t now) { return to != SAME && to != now; }

static void before_uids(uid_t ruid, uid_t euid, uid_t suid)
{
	uid_t r, e, s;

	if (getresuid(&r, &e, &s) || is_new(ruid, r) || is_new(euid, e) ||
	    is_new(suid, s))
		file_unshare();
}

static void before_gids(gid_t rgid, gid_t egid, gid_t sgid)
{
	gid_t r, e, s;

	if (getresgid(&r, &e, &s) || is_new(rgid, r) || is_new(egid, e) ||
	    is_new(sgid, s))
		file_unshare();
}

/* setfsuid() and setfsgid() change which files the process may open.  Shared memory is a
 * file, too. */
static void before_fs(uid_t to, uid_t now)
{
	if (is_new(to, now))
		file_unshare();
}

static void before_groups(size_t n)
{
	if (n || getgroups(0, NULL))
		file_unshare();
}

/* Are the capabilities at @data those that the thread has? */
static bool are_same_caps(const void *head, const void *data)
{
	struct __user_cap_header_struct now_head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct now[_LINUX_CAPABILITY_U32S_3];
	uint32_t version;

	if (is_bad_ptr(head) || is_bad_ptr(data))
		return true; /* the kernel refuses them */
	memcpy(&version, head, sizeof(version));
	return version == _LINUX_CAPABILITY_VERSION_3 &&
	       !rawcall(SYS_capget, &now_head, now) &&
	       !memcmp(now, data, sizeof(now));
}

static void before_capset(const void *head, const void *data)
{
	if (!are_same_caps(head, data))
		file_unshare();
}

static void before_setns(int fd, int type)
{
	/* The kernel knows the kind of a descriptor that names one namespace.  A descriptor of
	 * a process stands for the kinds in @type. */
	int kind = libc.ioctl(fd, NS_GET_NSTYPE);

	if (kind == CLONE_NEWUSER || (kind < 0 && type & CLONE_NEWUSER))
		file_unshare();
}

/* Does it change what capabilities the process or its next program may have? */
static bool is_about_caps(long option, unsigned long arg)
{
	switch (option) {
	case PR_CAPBSET_DROP:
		return libc.prctl(PR_CAPBSET_READ, arg, 0, 0, 0) == 1;
	case PR_SET_SECUREBITS:
		return libc.prctl(PR_GET_SECUREBITS, 0, 0, 0, 0) != (int)arg;
	case PR_CAP_AMBIENT:
		return arg != PR_CAP_AMBIENT_IS_SET;
	default:
		return false;
	}
}

/* The kernel refuses a filter without a program.  Some programs ask in this way
 * whether the kernel knows filters. */
static void before_prctl(long option, unsigned long a, unsigned long b)
{
	if (option == PR_SET_SECCOMP &&
	    (a == SECCOMP_MODE_STRICT ||
	     (a == SECCOMP_MODE_FILTER && !is_bad_ptr(b))))
		file_leave(OSF_REASON_SECCOMP);
	else if (is_about_caps(option, a) && file_may_unshare())
		file_unshare();
}

static void before_seccomp(long op, unsigned long flags, unsigned long arg)
{
	if ((op == SECCOMP_SET_MODE_STRICT && !flags && !arg) ||
	    (op == SECCOMP_SET_MODE_FILTER && !is_bad_ptr(arg)))
		file_leave(OSF_REASON_SECCOMP);
}

void creds_before_clone(long flags)
{
	if (flags & CLONE_NEWUSER)
		file_before_stranger();
}

void creds_after_clone(long flags)
{
	if (flags & CLONE_NEWUSER)
		file_unshare();
}

/* A process that shares nothing makes no system call here. errno stays as it was. */
#define BEFORE(what)                                                           \
	do {                                                                   \
		int saved = errno;                                             \
		if (unlikely(file_may_unshare()))                              \
			what;                                                  \
		errno = saved;                                                 \
	} while (0)

OSF_API int setuid(uid_t uid)
{
	BEFORE(before_uids(uid, uid, uid));
	return libc.setuid(uid);
}

OSF_API int seteuid(uid_t euid)
{
	BEFORE(before_uids(SAME, euid, SAME));
	return libc.seteuid(euid);
}

OSF_API int setreuid(uid_t ruid, uid_t euid)
{
	BEFORE(before_uids(ruid, euid, SAME));
	return libc.setreuid(ruid, euid);
}

OSF_API int setresuid(uid_t ruid, uid_t euid, uid_t suid)
{
	BEFORE(before_uids(ruid, euid, suid));
	return libc.setresuid(ruid, euid, suid);
}

OSF_API int setfsuid(uid_t uid)
{
	BEFORE(before_fs(uid, geteuid()));
	return libc.setfsuid(uid);
}

OSF_API int setgid(gid_t gid)
{
	BEFORE(before_gids(gid, gid, gid));
	return libc.setgid(gid);
}

OSF_API int setegid(gid_t egid)
{
	BEFORE(before_gids(SAME, egid, SAME));
	return libc.setegid(egid);
}

OSF_API int setregid(gid_t rgid, gid_t egid)
{
	BEFORE(before_gids(rgid, egid, SAME));
	return libc.setregid(rgid, egid);
}

OSF_API int setresgid(gid_t rgid, gid_t egid, gid_t sgid)
{
	BEFORE(before_gids(rgid, egid, sgid));
	return libc.setresgid(rgid, egid, sgid);
}

OSF_API int setfsgid(gid_t gid)
{
	BEFORE(before_fs(gid, getegid()));
	return libc.setfsgid(gid);
}

OSF_API int setgroups(size_t n, const gid_t *groups)
{
	BEFORE(before_groups(n));
	return libc.setgroups(n, groups);
}

OSF_API int initgroups(const char *user, gid_t group)
{
	BEFORE(file_unshare());
	return libc.initgroups(user, group);
}

int capset(void *head, const void *data);
OSF_API int capset(void *head, const void *data)
{
	BEFORE(before_capset(head, data));
	return libc.capset(head, data);
}

OSF_API int unshare(int flags)
{
	BEFORE(creds_after_clone(flags));
	return libc.unshare(flags);
}

OSF_API int setns(int fd, int type)
{
	BEFORE(before_setns(fd, type));
	return libc.setns(fd, type);
}

OSF_API int prctl(int option, ...)
{
	unsigned long a, b, c, d;
	va_list ap;

	va_start(ap, option);
	a = va_arg(ap, unsigned long);
	b = va_arg(ap, unsigned long);
	c = va_arg(ap, unsigned long);
	d = va_arg(ap, unsigned long);
	va_end(ap);
	int saved = errno;
	before_prctl(option, a, b);
	errno = saved;
	return libc.prctl(option, a, b, c, d);
}

static void before_raw(long nr, long a, long b, long c)
{
	switch (nr) {
	case SYS_setuid:
		return before_uids((uid_t)a, (uid_t)a, (uid_t)a);
	case SYS_setreuid:
		return before_uids((uid_t)a, (uid_t)b, SAME);
	case SYS_setresuid:
		return before_uids((uid_t)a, (uid_t)b, (uid_t)c);
	case SYS_setfsuid:
		return before_fs((uid_t)a, geteuid());
	case SYS_setgid:
		return before_gids((gid_t)a, (gid_t)a, (gid_t)a);
	case SYS_setregid:
		return before_gids((gid_t)a, (gid_t)b, SAME);
	case SYS_setresgid:
		return before_gids((gid_t)a, (gid_t)b, (gid_t)c);
	case SYS_setfsgid:
		return before_fs((gid_t)a, getegid());
	case SYS_setgroups:
		return before_groups((size_t)a);
	case SYS_capset:
		return before_capset((void *)a, (void *)b);
	case SYS_unshare:
		return creds_after_clone(a);
	case SYS_setns:
		return before_setns((int)a, (int)b);
#ifdef SYS_landlock_restrict_self
	case SYS_landlock_restrict_self:
		return file_unshare();
#endif
	default:
		return;
	}
}

void creds_raw(long nr, long a, long b, long c)
{
	if (nr == SYS_prctl)
		before_prctl(a, (unsigned long)b, (unsigned long)c);
	else if (nr == SYS_seccomp)
		before_seccomp(a, (unsigned long)b, (unsigned long)c);
	else
		BEFORE(before_raw(nr, a, b, c));
}
