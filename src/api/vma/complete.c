/* SPDX-License-Identifier: MIT */
/*
 * api/vma/complete.c - what the members of a ring have for the program
 *
 *     listener    ->  accept()              NEW_CONNECTION_ACCEPTED
 *     connecting  ->  connected, or not     EPOLLOUT, or EPOLLERR and EPOLLHUP
 *     connected   ->  filter_take_next()    PACKET, its end, room to send
 *
 * The sets report edges, so a member stays ready until it has nothing left.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "api/vma/below.h"
#include "api/vma/filter.h"
#include "api/vma/ring.h"
#include "api/vma/xbuf.h"
#include "base/libc.h"

#define BYTES_MAX UINT16_MAX /* of a completion's packet */
#define BIG 4096u /* bytes; such a packet is worth a look for one to lend */
#define BURST 16u /* completions of one member in its turn */
#define READY_TURNS 64u /* then those come first that are not hot */
/* After a hot member had a packet, each of the next AGAIN_TURNS turns looks so often for
 * its next packet: looking again here is quicker than the program's next call. */
#define LOOKS 4u       /* of one member */
#define AGAIN_LOOKS 8u /* of several */
#define AGAIN_TURNS 256u
#define ENDS (EPOLLRDHUP | EPOLLHUP | EPOLLERR)
#define RESET (EPOLLIN | EPOLLERR | EPOLLHUP | EPOLLRDHUP)

/* The program's array. */
struct fill {
	struct vma_completion_t *to;
	unsigned n, max;
	int err; /* why something could not be completed */
};

static inline struct vma_completion_t *
add(struct fill *f, const struct vsock *s, uint64_t events)
{
	struct vma_completion_t *c = &f->to[f->n++];

	*c = (struct vma_completion_t){
		.events = events,
		.user_data = s->has_user_data ? s->user_data : (uint64_t)s->fd,
		.listen_fd = -1,
	};
	return c;
}

/* New connections. */

/* Accepts a connection.  It does not wait, although accept() on the listener may: another
 * process may have taken the connection.  Return: a descriptor or -errno */
static int accept_now(const struct vsock *s)
{
	int flags = fcntl(s->fd, F_GETFL);
	bool waits = flags >= 0 && !(flags & O_NONBLOCK);

	if (waits)
		fcntl(s->fd, F_SETFL, flags | O_NONBLOCK);
	int fd = accept(s->fd, NULL, NULL);
	int err = errno;
	if (waits)
		fcntl(s->fd, F_SETFL, flags);
	return fd < 0 ? -err : fd;
}

static void add_connection(struct fill *f, struct ring *r,
			   const struct vsock *listener, int fd)
{
	int err;
	VISIT(v, vsock_make_accepted(fd, &err));

	if (!v.s) { /* an ordinary socket, then */
		f->err = -err;
		close(fd);
		return;
	}
	v.s->ring_key = r->key;
	ring_join_accepted(r, v.s);
	struct vma_completion_t *c =
	    add(f, v.s, VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED);
	c->listen_fd = listener->fd;
	c->src = v.s->on_ring.peer;
}

/* True: there may be more. */
static bool accept_some(struct fill *f, struct ring *r, struct vsock *s)
{
	unsigned end = MIN(f->max, f->n + BURST);

	while (f->n < end) {
		int fd = accept_now(s);

		if (fd == -EAGAIN || fd == -EINVAL || fd == -EBADF)
			return false;
		if (fd == -ECONNABORTED || fd == -EINTR)
			continue;
		if (fd < 0) {
			f->err = -fd; /* no descriptor, no memory */
			return true;
		}
		add_connection(f, r, s, fd);
	}
	return true;
}

/* Ends. */

static void end(struct fill *f, struct vsock *s, uint64_t events)
{
	s->on_ring.is_over = 1;
	s->on_ring.events = 0;
	add(f, s, events);
}

/* True: it is connected now. */
static bool find_state(struct fill *f, struct vsock *s)
{
	enum ring_state was = s->on_ring.state, is = ring_state_of(s);

	if (is == ON_RING_FAILED ||
	    (is == ON_RING_IDLE && was == ON_RING_CONNECTING)) {
		end(f, s, RESET);
		return false;
	}
	s->on_ring.state = (uint8_t)is;
	if (is != ON_RING_CONNECTED) {
		s->on_ring.events = 0;
		return false;
	}
	ring_note_peer(s);
	return true;
}

/* Packets. */

/* Of the ring's spare buffer. */
static inline struct vma_completion_t *
add_buffer(struct fill *f, struct ring *r, struct vsock *s, size_t n)
{
	struct vma_completion_t *c =
	    add(f, s, VMA_SOCKETXTREME_PACKET | (s->on_ring.events & EPOLLOUT));

	s->on_ring.events &= ~(uint32_t)EPOLLOUT;
	s->on_ring.is_big = n >= BIG;
	c->packet.num_bufs = 1;
	c->packet.total_len = (uint16_t)n;
	c->packet.buff_lst = r->spare;
	c->src = s->on_ring.peer;
	r->spare = NULL;
	return c;
}

static inline struct vma_completion_t *add_packet(struct fill *f,
						  struct ring *r,
						  struct vsock *s,
						  const void *data, size_t n)
{
	xbuf_fill(r->spare, vsock_keep(s, n), data, (uint16_t)n);
	return add_buffer(f, r, s, n);
}

/* A packet where it lies, if the protocol lends it.  Its bytes; 0: receive it; -errno. */
static COLD ssize_t add_lent(struct fill *f, struct ring *r, struct vsock *s)
{
	const uint8_t *data;
	struct below_lent l;
	ssize_t n = filter_lend(s, BYTES_MAX, &data, &l);

	if (n <= 0)
		return n;
	xbuf_fill_lent(r->spare, s->fd, &l, data, (uint16_t)n);
	add_buffer(f, r, s, (size_t)n);
	return n;
}

static void add_datagram(struct fill *f, struct ring *r, struct vsock *s,
			 const struct packet *p, size_t n)
{
	struct vma_completion_t *c = add_packet(f, r, s, p->data, n);

	if (!load_rlx(&s->callback)) { /* which has counted it */
		count(&s->packets.at->n_received, 1);
		count(&s->packets.at->rx_bytes, n);
	}
	addr_of(&p->from, &c->src);
	if (p->control_len)
		c->packet.hw_timestamp = packet_hw_time(p);
}

/* What a receive found that is no packet.  True: there may be more. */
static bool add_other(struct fill *f, struct vsock *s, ssize_t r)
{
	if (r == -EAGAIN) {
		/* Of the error queue, which the program reads. */
		if (s->on_ring.events & EPOLLERR && f->n < f->max)
			add(f, s, EPOLLERR);
		s->on_ring.events &= EPOLLOUT;
		return false;
	}
	if (r == -ENOBUFS || r == -EINTR) {
		f->err = r == -ENOBUFS ? ENOBUFS : f->err;
		return true;
	}
	if (s->is_udp && r != -EBADF) {
		add(f, s, EPOLLERR);
		s->on_ring.events &= EPOLLOUT;
		return true;
	}
	end(f, s,
	    r ? RESET : EPOLLIN | EPOLLRDHUP | (s->on_ring.events & EPOLLHUP));
	return false;
}

/* Did a receive of @n bytes leave nothing behind? */
static bool is_empty(struct ring *r, struct vsock *s, size_t n)
{
	int is = below_is_ready(s->fd);

	if (is >= 0) {
		ring_hot(r, s);
		return !is && !(s->on_ring.events & ENDS);
	}
	return !s->is_udp && n < BYTES_MAX && !(s->on_ring.events & ENDS);
}

/* The next packet: its bytes, 0 (of a stream: its end) or -errno. */
static ssize_t add_next(struct fill *f, struct ring *r, struct vsock *s)
{
	struct packet p;
	ssize_t n = s->on_ring.is_big ? add_lent(f, r, s) : 0;

	if (n)
		return n;
	n = filter_take_next(s, BYTES_MAX, false, &p);
	if (n >= 0 && s->is_udp)
		add_datagram(f, r, s, &p, (size_t)n);
	else if (n > 0)
		add_packet(f, r, s, p.data, (size_t)n);
	return n;
}

/* True: there may be more. */
static bool receive_some(struct fill *f, struct ring *r, struct vsock *s)
{
	unsigned end = MIN(f->max, f->n + BURST);

	while (f->n < end) {
		if (load_rlx(&s->is_closed))
			return false;
		if (!r->spare && !(r->spare = xbuf_take()))
			return add_other(f, s, -ENOBUFS);
		ssize_t n = add_next(f, r, s);

		if (n < 0 || (!n && !s->is_udp))
			return add_other(f, s, n);
		if (is_empty(r, s, (size_t)n)) {
			s->on_ring.events &= EPOLLOUT;
			return false;
		}
	}
	return true;
}

static bool complete(struct fill *f, struct ring *r, struct vsock *s)
{
	if (s->on_ring.is_over || load_rlx(&s->is_closed))
		return false;
	if (s->on_ring.state == ON_RING_LISTENING)
		return accept_some(f, r, s);
	if (s->on_ring.state != ON_RING_CONNECTED) {
		if (!find_state(f, s))
			return s->on_ring.state == ON_RING_LISTENING;
	}
	vsock_hold(s);
	VISIT(v, s);
	if (!visit_lock_rx(&v))
		return true; /* in its callback */
	bool is_more = receive_some(f, r, s);
	visit_unlock_rx(&v);
	if (s->on_ring.events & EPOLLOUT && !s->on_ring.is_over &&
	    f->n < f->max) {
		s->on_ring.events &= ~(uint32_t)EPOLLOUT;
		add(f, s, EPOLLOUT);
	}
	return is_more || s->on_ring.events & EPOLLOUT;
}

enum hot_news { HOT_KERNEL = -1, HOT_NONE, HOT_TAKEN, HOT_MORE };

/* What takes complete() to find out. */
static COLD enum hot_news look_at_hot(struct vsock *s)
{
	int is = below_is_ready(s->fd);

	return is > 0 ? HOT_MORE : is < 0 ? HOT_KERNEL : HOT_NONE;
}

/* The end of the stream, or an error. */
static COLD enum hot_news hot_ends(struct vsock *s, ssize_t r)
{
	if (r == -EAGAIN)
		return HOT_KERNEL;
	if (r != -ENODATA)
		s->err = (int)-r;
	return HOT_MORE;
}

static COLD ssize_t lend_hot(struct fill *f, struct ring *r, struct vsock *s)
{
	ssize_t n = below_is_ready(s->fd) > 0 ? add_lent(f, r, s) : 0;

	if (n > 0)
		s->on_ring.is_awaited = 0;
	return n;
}

/* Takes one packet of a hot member, in a process of one thread: no other thread can be
 * inside, and no callback runs.  If the packet comes alone, this returns it without a look
 * at what follows.  Such a look would take the cache line away from the peer, who writes to
 * it next.  If the packet comes right behind another one, this joins it with those that
 * wait behind it. */
HOT static inline enum hot_news take_hot(struct fill *f, struct ring *r,
					 struct vsock *s, unsigned looks)
{
	bool is_alone = s->on_ring.is_awaited;
	uint8_t *to;

	if (unlikely(!is_single_threaded() || s->callback || s->accepted ||
		     s->err || s->on_ring.events || s->on_ring.is_over ||
		     s->on_ring.is_ready || s->is_closed || s->owner) ||
	    unlikely(!r->spare && !(r->spare = xbuf_take())) ||
	    unlikely(!(to = room_reserve(&s->room))))
		return look_at_hot(s);
	ssize_t n = unlikely(s->on_ring.is_big) ? lend_hot(f, r, s) : 0;
	if (unlikely(n))
		return n > 0 ? HOT_TAKEN : hot_ends(s, n);
	n = below_take(s->fd, to, BYTES_MAX, is_alone, looks);
	if (likely(!n)) {
		s->on_ring.is_awaited = 1;
		return HOT_NONE;
	}
	if (unlikely(n < 0))
		return hot_ends(s, n);
	s->on_ring.is_awaited = 0;
	add_packet(f, r, s, to, (size_t)n);
	return !is_alone && n == BYTES_MAX ? HOT_MORE : HOT_TAKEN;
}

/* A member that had a packet before, without a look at the kernel. */
HOT static inline void look_at(struct fill *f, struct ring *r, uint32_t i,
			       unsigned looks)
{
	struct vsock *s = r->hot[i];
	enum hot_news is = take_hot(f, r, s, looks);

	if (likely(is == HOT_NONE))
		return;
	r->hot_turn = r->turn;
	if (unlikely(is == HOT_KERNEL))
		r->hot[i] = r->hot[--r->n_hot];
	if (unlikely(is != HOT_TAKEN))
		ring_ready(r, s);
}

/* From where the program's array was full last time. */
static void look_at_several(struct fill *f, struct ring *r, bool is_warm)
{
	for (unsigned left = (is_warm ? AGAIN_LOOKS : 1) * r->n_hot; left;
	     left--) {
		uint32_t i = r->hot_at < r->n_hot ? r->hot_at : 0;

		if (f->n == f->max || !r->n_hot ||
		    (f->n && left % r->n_hot == 0))
			return;
		r->hot_at = i + 1;
		look_at(f, r, i, 1);
	}
}

/* Those that the sets have told of. */
static void complete_ready(struct fill *f, struct ring *r)
{
	struct vsock *s, *first_again = NULL;

	while (f->n < f->max && r->first_ready != first_again &&
	       (s = ring_next_ready(r))) {
		vsock_hold(s); /* its callback may close the ring */
		bool is_more = complete(f, r, s);

		if (is_more && s->on_ring.place) {
			ring_ready(r, s);
			first_again = first_again ? first_again : s;
		}
		vsock_put(s);
	}
}

int ring_turn(struct ring *r, struct vma_completion_t *to, unsigned n)
{
	struct fill f = { .to = to, .max = n };

	r->turn++;
	/* Hot members may have something always, and fill the array each time. */
	if (unlikely(r->turn % READY_TURNS == 0)) {
		ring_look(r);
		complete_ready(&f, r);
	}
	bool is_warm = r->turn - r->hot_turn < AGAIN_TURNS;
	if (likely(r->n_hot == 1))
		look_at(&f, r, 0, is_warm ? LOOKS : 1);
	else if (r->n_hot)
		look_at_several(&f, r, is_warm);
	if (likely(f.n == f.max))
		return (int)f.n;
	if (!r->first_ready && !f.n)
		ring_look(r);
	complete_ready(&f, r);
	/* libvma clears the events of the first place that it does not fill.  A program
	 * that passes one place looks at its events, and not at the number that the poll
	 * returns. */
	if (f.n < f.max)
		to[f.n].events = 0;
	return f.n || !f.err ? (int)f.n : -f.err;
}
