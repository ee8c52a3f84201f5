/* SPDX-License-Identifier: MIT */
/* proto/shm/notice.c - see proto/shm/notice.h */
#include <errno.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/fds.h"
#include "base/libc.h"
#include "proto/shm/notice.h"
#include "proto/shm/other_end.h"
#include "proto/shm/trust.h"

#define NOTICE_BASE (UINT64_C(1) << 62)
#define NOTICE_MASK ((UINT64_C(1) << NOTICE_BITS) - 1)

static bool rate_get(int fd, uint64_t *rate)
{
	socklen_t len = sizeof(*rate);

	*rate = 0;
	return !libc.getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, rate,
				&len) &&
	       len == sizeof(*rate);
}

static bool rate_set(int fd, uint64_t rate)
{
	return !libc.setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate,
				sizeof(rate));
}

uint64_t notice_number(void)
{
	uint64_t number = 0;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) !=
	    (ssize_t)sizeof(number))
		return 0;
	return number & NOTICE_MASK;
}

int notice_put(struct notice *n, int fd, uint64_t number)
{
	uint64_t now;

	/* A socket may still show the number of a process that was killed. */
	if (!rate_get(fd, &n->was))
		return -EOPNOTSUPP;
	if ((n->was & ~NOTICE_MASK) == NOTICE_BASE)
		n->was = UINT64_MAX;
	if (!rate_set(fd, NOTICE_BASE | number))
		return -EOPNOTSUPP;
	n->number = number;
	n->cookie = fds_cookie(fd);
	n->fd = fd;
	if (rate_get(fd, &now) && now == (NOTICE_BASE | number))
		return 0;
	rate_set(fd, n->was); /* before Linux 4.20: 32 bits */
	n->number = 0;
	return -EOPNOTSUPP;
}

uint64_t notice_rate(const struct notice *n)
{
	return n->number ? NOTICE_BASE | n->number : 0;
}

bool notice_remove(struct notice *n)
{
	uint64_t now;

	if (!n->number)
		return true;
	if (fds_cookie(n->fd) != n->cookie)
		return false;
	if (rate_get(n->fd, &now) && now == notice_rate(n))
		rate_set(n->fd, n->was);
	n->number = 0;
	return true;
}

int notice_read_again(int fd, struct other_end *who, uint64_t *number)
{
	int err = other_end_rate(fd, who);

	if (err)
		return err;
	if ((who->rate & ~NOTICE_MASK) != NOTICE_BASE ||
	    !(who->rate & NOTICE_MASK))
		return -ENOENT;
	*number = who->rate & NOTICE_MASK;
	return 0;
}

int notice_read(int fd, struct other_end *who, uint64_t *number)
{
	int err = other_end_ask(fd, who);

	if (err)
		return err == -ENOENT ? -EXDEV : err;
	if (!trust_owns(who->uid)) /* it may keep the lock of its socket */
		return -EPERM;
	return notice_read_again(fd, who, number);
}
