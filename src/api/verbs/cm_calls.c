/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/cm_calls.c - librdmacm's calls on its character device
 *
 *     open("/dev/infiniband/rdma_cm")  -> cm/cm.h, unless the kernel has RDMA devices
 *     open() of a file of osf0's       -> api/verbs/path_calls.h
 *     fstat()                          -> a character device, as librdmacm wants it
 *     write(), dup(), close()          -> cm/cm.h for descriptors of ours
 *
 * Calls on any other descriptor go on to the next library that defines the function:
 * libosf.so, or the C library.  That costs a load and a jump.  read() and poll() are the
 * kernel's own, because the descriptor is an epoll set.
 *
 * With OSF_RDMA_CM=1 the device is ours even if the kernel has one with RDMA devices.  With
 * OSF_RDMA_CM=0 the device is always the kernel's.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "api/verbs/front.h"
#include "api/verbs/path_calls.h"
#include "cm/cm.h"

#define DEVICE "/dev/infiniband/rdma_cm"

/* The functions of the same names in the next library.  The constructor looks them up, or
 * else the first call, if another library makes that call before our constructor runs. */
static struct {
#define NEXT(ret, name, params) ret(*name) params;
#include "api/verbs/cm_calls.def"
#undef NEXT
} next_;

static void *look_up(void **at, const char *name)
{
	void *fn = dlsym(RTLD_NEXT, name);

	store_rel(at, fn);
	return fn;
}

#define NEXT_OF(name)                                                          \
	((typeof(next_.name))(load_acq(&next_.name)                            \
				  ? (void *)next_.name                         \
				  : look_up((void **)&next_.name, #name)))

__attribute__((constructor)) static void begin(void)
{
#define NEXT(ret, name, params) look_up((void **)&next_.name, #name);
#include "api/verbs/cm_calls.def"
#undef NEXT
}

/* A function that the C library does not have is not called. */
#define CALL_NEXT(name, ...)                                                   \
	(NEXT_OF(name) ? NEXT_OF(name)(__VA_ARGS__) : (errno = ENOSYS, -1))

/* Does the kernel have devices, which its own connection manager serves? */
static bool kernel_has_devices(void)
{
	typeof(&ibv_get_device_list) list =
	    (typeof(list))front_real("ibv_get_device_list", "IBVERBS_1.1");
	typeof(&ibv_free_device_list) put =
	    (typeof(put))front_real("ibv_free_device_list", "IBVERBS_1.1");
	int n = 0;
	struct ibv_device **devices = list ? list(&n) : NULL;

	if (devices && put)
		put(devices);
	return devices && n > 0;
}

static bool is_ours_to_open(const char *path)
{
	const char *setting;

	if (is_bad_ptr(path) || path[0] != '/' || strcmp(path, DEVICE))
		return false;
	setting = secure_getenv("OSF_RDMA_CM");
	if (setting && !strcmp(setting, "0"))
		return false;
	return (setting && !strcmp(setting, "1")) || !kernel_has_devices();
}

/* Above the numbers of most programs, and one that select() takes. */
#define ABOVE_PROGRAMS 512

static int is_rspreload(struct dl_phdr_info *info, size_t size, void *data)
{
	const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : 0;

	return slash && !strncmp(slash, "/librspreload.so", 16);
}

/*
 * An rsocket has two numbers: that of its channel, and one of /dev/null, which librspreload
 * gives to the program.  librspreload's select() searches all numbers in ascending order for
 * one that belongs to the rsocket, and reports the first.  If the channel's number is lower,
 * the program hears of a descriptor that it does not have.  librdmacm opens the channel of an
 * accepted connection before librspreload opens /dev/null.  So a channel gets a high number
 * where librspreload is loaded.
 */
static int least_number(void)
{
	return dl_iterate_phdr(is_rspreload, NULL) ? ABOVE_PROGRAMS : 0;
}

static int open_ours(int flags)
{
	int saved = errno, fd = cm_open(flags, least_number());

	errno = fd < 0 ? -fd : saved;
	return fd < 0 ? -1 : fd;
}

static mode_t mode_of(int flags, va_list args)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE
		   ? va_arg(args, mode_t)
		   : 0;
}

static bool is_sysfs(const char *path)
{
	return !is_bad_ptr(path) && path[0] == '/' && path[1] == 's' &&
	       path[2] == 'y' && path[3] == 's';
}

#define OPEN(name)                                                             \
	OSF_API int name(const char *path, int flags, ...);                    \
	OSF_API int name(const char *path, int flags, ...)                     \
	{                                                                      \
		va_list args;                                                  \
                                                                               \
		va_start(args, flags);                                         \
		mode_t mode = mode_of(flags, args);                            \
		va_end(args);                                                  \
		if (unlikely(is_ours_to_open(path)))                           \
			return open_ours(flags);                               \
		if (unlikely(is_sysfs(path))) {                                \
			int fd = path_open(path, flags);                       \
                                                                               \
			if (fd >= 0)                                           \
				return fd;                                     \
		}                                                              \
		return CALL_NEXT(name, path, flags, mode);                     \
	}
OPEN(open)
OPEN(open64)

OSF_API ssize_t write(int fd, const void *buf, size_t n)
{
	if (likely(!cm_has(fd)))
		return CALL_NEXT(write, fd, buf, n);
	int saved = errno;
	ssize_t r = cm_write(fd, buf, n);
	if (r == -ENODEV)
		return CALL_NEXT(write, fd, buf, n);
	errno = r < 0 ? (int)-r : saved;
	return r < 0 ? -1 : r;
}

/* The number of the kernel's device, if the kernel has the device and no RDMA devices:
 * librdmacm has asked the kernel for the number, and compares. */
static dev_t device_number(void)
{
	struct stat st;

	return !lstat(DEVICE, &st) && S_ISCHR(st.st_mode) ? st.st_rdev : 0;
}

#define FSTAT(name, type)                                                      \
	OSF_API int name(int fd, struct type *st)                              \
	{                                                                      \
		int r = CALL_NEXT(name, fd, st);                               \
                                                                               \
		if (likely(r || !cm_has(fd)))                                  \
			return r;                                              \
		st->st_mode = S_IFCHR | 0666;                                  \
		st->st_rdev = device_number();                                 \
		return 0;                                                      \
	}
FSTAT(fstat, stat)
FSTAT(fstat64, stat64)

OSF_API int close(int fd)
{
	if (unlikely(cm_has(fd)))
		cm_close(fd);
	return CALL_NEXT(close, fd);
}

static int copied(int old, int fd)
{
	if (fd >= 0 && unlikely(cm_has(old)))
		cm_dup(old, fd);
	return fd;
}

OSF_API int dup(int fd) { return copied(fd, CALL_NEXT(dup, fd)); }

/* The kernel closes @to, and only if it takes the numbers. */
static void replaced(int fd, int to, int result)
{
	if (result == to && fd != to && unlikely(cm_has(to)))
		cm_close(to);
}

OSF_API int dup2(int fd, int to)
{
	int r = CALL_NEXT(dup2, fd, to);

	replaced(fd, to, r);
	return fd == to ? r : copied(fd, r);
}

OSF_API int dup3(int fd, int to, int flags)
{
	int r = CALL_NEXT(dup3, fd, to, flags);

	replaced(fd, to, r);
	return copied(fd, r);
}

#define FCNTL(name)                                                            \
	OSF_API int name(int fd, int cmd, ...)                                 \
	{                                                                      \
		va_list args;                                                  \
                                                                               \
		va_start(args, cmd);                                           \
		void *arg = va_arg(args, void *);                              \
		va_end(args);                                                  \
		int r = CALL_NEXT(name, fd, cmd, arg);                         \
		if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC)                  \
			return copied(fd, r);                                  \
		return r;                                                      \
	}
FCNTL(fcntl)
FCNTL(fcntl64)
