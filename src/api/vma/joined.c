/* SPDX-License-Identifier: MIT */
/* api/vma/joined.c - see api/vma/joined.h */
#include <errno.h>
#include <linux/sock_diag.h>
#include <stdlib.h>
#include <string.h>

#include "api/vma/fd_bits.h"
#include "api/vma/joined.h"
#include "api/vma/vma.h"
#include "base/libc.h"
#include "base/nocancel.h"

/* The least that the kernel counts for a datagram in the socket's buffer. */
#define DATAGRAM_BYTES 512u
#define OLD_MAX 4096u
#define FAILED_MAX 6u
#define EVERY 1024u /* datagrams, until the option is tried again */

/* Who is alone with a socket. */

static struct fd_bits may;

void vma_made(int fd)
{
	held_start();
	fd_bits_set(&may, fd);
	left_by_thread(fd);
}

bool joined_may(int fd) { return fd_bits_has(&may, fd); }

void joined_forget(unsigned first, unsigned last)
{
	fd_bits_clear(&may, first, last);
}

/* The option. */

bool joined_set_option(int fd, int on)
{
	int saved = errno;
	bool is = !libc.setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));

	errno = saved;
	return is;
}

/* @at_once: the option goes now, because others may read; else when the socket is empty. */
static void stop(struct vsock *s, struct joined *j, bool at_once)
{
	uint32_t on = JOINED_ON;

	cas(&j->state, on, (uint32_t)JOINED_LEAVES);
	if (at_once && !load_rlx(&j->is_theirs) && xchg(&j->is_set, false))
		joined_set_option(s->fd, 0);
}

/* Does the program use nothing that joined datagrams would disturb? */
static bool is_free(const struct vsock *s)
{
	int joins = 0, peek_off = 0, saved = errno;
	socklen_t len = sizeof(joins), len2 = sizeof(peek_off);
	bool is = !libc.getsockopt(s->fd, IPPROTO_UDP, UDP_GRO, &joins, &len) &&
		  !joins &&
		  !libc.getsockopt(s->fd, SOL_SOCKET, SO_PEEK_OFF, &peek_off,
				   &len2) &&
		  peek_off < 0;

	errno = saved;
	return is;
}

/* At most so many datagrams are in the socket already. */
static uint32_t queued(int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 };
	socklen_t len = sizeof(info);
	int saved = errno;

	if (libc.getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len))
		info[SK_MEMINFO_RMEM_ALLOC] = UINT32_MAX;
	errno = saved;
	return MIN(info[SK_MEMINFO_RMEM_ALLOC] / DATAGRAM_BYTES, OLD_MAX);
}

void joined_try(struct vsock *s)
{
	struct joined *j = s->joined;

	if (!joined_may(s->fd) || !is_free(s))
		return; /* never again */
	s->until_try = EVERY << (j ? j->n_failed : 0);
	/* Each look takes two calls until it is known if it helps. */
	if (!xchg(&s->was_empty, false))
		return;
	/* Without a callback another thread may be in a call of the kernel's. */
	if (!load_rlx(&s->callback) && !is_single_threaded())
		return;
	if (!j && !(j = calloc(1, sizeof(*j))))
		return;
	j->n_refs = s->joined ? j->n_refs : 1;
	j->n_looks = JOINED_LOOKS;
	j->n_parts = 0;
	s->joined = j;
	vsock_count(s);
	store_rel(&j->state, (uint32_t)JOINED_ON);
	if (!joined_set_again(s, j)) {
		store_rel(&j->state, (uint32_t)JOINED_OFF);
		s->until_try = 0;
		return;
	}
	j->n_old = queued(s->fd);
}

bool joined_set_again(struct vsock *s, struct joined *j)
{
	store_rlx(&j->is_set, true);
	bool is = joined_set_option(s->fd, 1);
	fence_full(); /* with joined_forget() and stop() of who shares it */
	if (!joined_may(s->fd))
		joined_forbid(s);
	return is;
}

void joined_forbid(struct vsock *s)
{
	s->until_try = 0;
	if (s->joined && load_rlx(&s->joined->state) != JOINED_OFF)
		stop(s, s->joined, true);
}

/* Receiving. */

/* The size of the parts, or 0.  Takes the control message out. */
static uint32_t take_size(struct packet *p)
{
	struct msghdr m = { .msg_control = p->control,
			    .msg_controllen = p->control_len };
	int size = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		uint8_t *at = (uint8_t *)c;
		size_t bytes = CMSG_SPACE(sizeof(size)),
		       behind = (size_t)(p->control + p->control_len - at);

		if (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO)
			continue;
		memcpy(&size, CMSG_DATA(c), sizeof(size));
		bytes = MIN(bytes, behind);
		memmove(at, at + bytes, behind - bytes);
		p->control_len -= bytes;
		break;
	}
	return size > 0 ? (uint32_t)size : 0;
}

/* The option stays while it brings more than it costs. */
static void think(struct vsock *s, struct joined *j)
{
	if (load_rlx(&j->state) != JOINED_ON)
		return;
	if (j->n_old && j->left == 1) {
		j->n_old--;
		return;
	}
	j->n_parts += j->left;
	if (--j->n_looks)
		return;
	if (j->n_parts < 2 * JOINED_LOOKS) {
		j->n_failed += j->n_failed < FAILED_MAX;
		stop(s, j, false);
	} else {
		j->n_failed = 0;
	}
	j->n_looks = JOINED_LOOKS;
	j->n_parts = 0;
}

/* A receive has found the socket empty, so nothing joined is in it.  If the option is to
 * go, it goes now, unless something joined has come since that receive. */
static void left(struct vsock *s, struct joined *j)
{
	uint8_t byte;
	uint32_t leaves = JOINED_LEAVES;

	j->n_old = 0;
	s->was_empty = true;
	if (load_rlx(&j->state) != JOINED_LEAVES)
		return;
	if (!load_rlx(&j->is_theirs) && xchg(&j->is_set, false))
		joined_set_option(s->fd, 0);
	if (nocancel_recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
	    errno == EAGAIN && cas(&j->state, leaves, (uint32_t)JOINED_OFF))
		vsock_uncount(s);
}

/* With the option, which says how large the parts are. */
static ssize_t peek(const struct vsock *s, struct joined *j, struct msghdr *m)
{
	bool is_set = load_rlx(&j->is_set) || load_rlx(&j->is_theirs);

	if (!is_set)
		joined_set_option(s->fd, 1);
	ssize_t r = nocancel_recvmsg(s->fd, m, MSG_PEEK | MSG_DONTWAIT);
	if (!is_set)
		joined_set_option(s->fd, 0);
	return r;
}

/* Shows the next joined datagram, or one that is not.  0 or -errno. */
static int fetch(struct vsock *s, struct joined *j)
{
	uint8_t *to;

	if (j->chunk)
		held_chunk_put(j->chunk);
	j->chunk = NULL;
	if (!(to = room_reserve(&s->room)))
		return -ENOBUFS;
	struct iovec iov = { to, PACKET_MAX };
	struct msghdr m = { .msg_name = &j->p.from,
			    .msg_namelen = sizeof(j->p.from),
			    .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = j->p.control,
			    .msg_controllen = sizeof(j->p.control) };
	ssize_t r = peek(s, j, &m);
	if (r < 0) {
		int err = errno;

		if (err == EAGAIN)
			left(s, j);
		return -err;
	}
	j->p.data = to;
	j->p.from_len = m.msg_namelen;
	j->p.flags = m.msg_flags & MSG_CTRUNC;
	j->p.control_len = m.msg_controllen;
	j->len = (uint32_t)r;
	j->off = 0;
	j->size = take_size(&j->p);
	j->size = j->size && j->size < j->len ? j->size : j->len;
	j->left = j->size ? (j->len + j->size - 1) / j->size : 1;
	/* More than one will use the place, or another descriptor. */
	if (j->left > 1 || load_rlx(&j->n_refs) > 1)
		j->chunk = room_keep(&s->room, j->len);
	think(s, j);
	return 0;
}

/* The part that @s was shown is the program's; after the last one the socket has the next. */
static void take(const struct vsock *s, struct joined *j)
{
	uint8_t byte;
	int saved = errno;

	if (!j->left || j->n_taken != s->seen)
		return; /* another descriptor's reader was faster */
	j->n_taken++;
	j->off += MIN(j->size, j->len - j->off);
	if (!--j->left)
		nocancel_recv(s->fd, &byte, sizeof(byte), MSG_DONTWAIT);
	errno = saved;
}

static void show(struct vsock *s, const struct joined *j, struct packet *p)
{
	p->data = j->p.data + j->off;
	p->flags = j->p.flags;
	p->from_len = j->p.from_len;
	memcpy(&p->from, &j->p.from, MIN(sizeof(p->from), (size_t)p->from_len));
	p->control_len = j->p.control_len;
	memcpy(p->control, j->p.control, p->control_len);
	vsock_lies_in(s, j->chunk, load_rlx(&j->n_refs) > 1);
	s->seen = j->n_taken;
}

ssize_t joined_receive(struct vsock *s, struct packet *p, int flags)
{
	struct joined *j = s->joined;
	int saved = errno;

	if (load_rlx(&s->is_closed))
		return -EBADF;
	ALONE(&j->lock);
	int err = j->left ? 0 : fetch(s, j);
	errno = saved;
	if (err)
		return err;
	ssize_t n = MIN(j->size, j->len - j->off);
	show(s, j, p);
	if (!(flags & MSG_PEEK))
		take(s, j);
	return n;
}

void joined_take(struct vsock *s)
{
	ALONE(&s->joined->lock);
	take(s, s->joined);
}

void joined_close(struct vsock *s)
{
	struct joined *j = s->joined;

	s->joined = NULL;
	if (!j || fetch_sub(&j->n_refs, 1u) != 1)
		return;
	if (j->chunk)
		held_chunk_put(j->chunk);
	free(j);
}

/* Other readers. */

static void share(struct joined *j, int copy)
{
	int err;
	VISIT(v, vsock_make(copy, &err));

	if (!v.s || v.s->joined)
		return;
	ALONE(&j->lock);
	if (j->left && !j->chunk) { /* in the memory of one descriptor */
		j->left = 0;
		j->n_taken++;
	}
	fetch_add(&j->n_refs, 1u);
	v.s->until_try = 0;
	store_rel(&v.s->joined, j);
	vsock_count(v.s);
}

void vma_copied(int fd, int copy)
{
	int saved = errno;
	VISIT(v, copy < 0 || fd < 0 ? NULL : vsock_get(fd));

	if (copy >= 0 && fd >= 0)
		joined_forget((unsigned)fd, (unsigned)fd);
	fence_full();
	if (v.s)
		joined_forbid(v.s);
	if (v.s && joined_is_on(v.s))
		share(v.s->joined, copy);
	errno = saved;
}

void vma_passed(int fd)
{
	int saved = errno;
	VISIT(v, fd < 0 ? NULL : vsock_get(fd));

	if (fd >= 0)
		joined_forget((unsigned)fd, (unsigned)fd);
	fence_full();
	if (v.s)
		joined_forbid(v.s);
	errno = saved;
}

/* FIONREAD: of the next datagram. */
bool vma_inq(int fd, int *n)
{
	struct packet p;
	VISIT(v, is_bad_ptr(n) ? NULL : vsock_get(fd));

	if (!v.s || !joined_is_on(v.s) || !visit_lock_rx(&v))
		return false;
	ssize_t r = joined_receive(v.s, &p, MSG_PEEK);
	if (r < 0 && r != -EAGAIN)
		v.s->err = (int)-r;
	*n = r < 0 ? 0 : (int)r;
	return true;
}

/* Our option is not the program's. */
void vma_hide(int fd, int level, int name, void *val, socklen_t len)
{
	int no = 0;
	VISIT(v,
	      level == IPPROTO_UDP && name == UDP_GRO ? vsock_get(fd) : NULL);

	if (v.s && v.s->joined && load_rlx(&v.s->joined->state) == JOINED_ON)
		memcpy(val, &no, MIN(sizeof(no), (size_t)len));
}

void joined_option(int fd, int level, int name, const void *val, socklen_t len)
{
	int on = 0;

	if (level == SOL_SOCKET && name == SO_PEEK_OFF)
		vma_passed(fd);
	if (level != IPPROTO_UDP || name != UDP_GRO)
		return;
	vma_passed(fd);
	if (len >= sizeof(on) && !is_bad_ptr(val))
		memcpy(&on, val, sizeof(on));
	VISIT(v, vsock_get(fd));
	if (v.s && v.s->joined && joined_is_on(v.s))
		store_rlx(&v.s->joined->is_theirs, on != 0);
}
