/* SPDX-License-Identifier: MIT */
/*
 * file/epoll_set.h - what the four parts of epoll share
 *
 *     epoll_item.c  makes, merges and drops the entries of a set
 *     epoll_ctl.c   epoll_ctl()
 *     epoll_ready.c what is ready in a set, also for poll() of the set itself
 *     epoll_wait.c  epoll_wait()
 *
 * An item stays in its set's table for good, and in its socket's list while in
 * use.  Lock order: the file's, then the set's.  The set's lock guards an
 * item's fields.
 */
#pragma once

#include <errno.h>

#include "base/libc.h"
#include "base/list.h"
#include "file/batch.h"
#include "file/epoll.h"
#include "sock/ready.h"
#include "sock/sock_ops.h"

/*
 * A data word of ours: the upper half is one that no pointer and no small
 * number has, then the generation of the kernel's entry, then the item's index.
 * Each ADD and MOD of the program gives the entry a new generation.  So if one
 * thread has fetched an event before another thread's MOD or DEL, we see that
 * the event is stale and drop it.
 */
#define TAG UINT64_C(0xa5f5c31e00000000)
#define TAG_MASK UINT64_C(0xffffffff00000000)
#define TAG_IDX_BITS 20
#define TAG_IDX_MASK ((UINT32_C(1) << TAG_IDX_BITS) - 1)
#define TAG_GENERATIONS (UINT32_C(1) << (32 - TAG_IDX_BITS))
/* No items have these indices. */
#define KICK TAG_IDX_MASK
#define IDLE (KICK - 1) /* base/idle.h */

/* Look at some items this often without a notification: see push_some(). */
#define SOME_LOOK_NS (100 * NS_PER_MS)

struct epitem {
	struct list ready;  /* in epoll.ready when on it */
	struct watch watch; /* of its socket; open while it is merged */
	struct epitem *next_of_sock;
	struct epoll *ep;
	struct file *file;
	epoll_data_t data;
	uint32_t events; /* as the program asked */
	uint32_t idx;
	uint32_t generation; /* of the kernel's entry */
	int fd; /* as the program named it: it may be closed by now */
	bool in_use;
	bool merged;      /* served here; else by the kernel */
	bool tagged;      /* the kernel's entry carries our tag */
	bool asks_room;   /* the kernel's entry asks for EPOLLOUT, too */
	bool disabled;    /* EPOLLONESHOT has fired */
	bool parked;      /* the program removed it; see ctl_del() */
	bool moves;       /* out of the kernel's set, to be put in again */
	bool fresh;       /* EPOLLET: report what is ready, seen or not */
	bool news;        /* EPOLLET: notified since the last look */
	bool queued;      /* was notified: keeps its place on a list */
	uint32_t ev_seen; /* EPOLLET: the bits at the last look */
	uint32_t batch;   /* the last that it had an event in */
	uint64_t
	    rx_seen; /* the same, where news may be missing: bytes arrived */
};

struct epoll {
	struct lock lock;
	int fd;                /* of the kernel's set */
	struct epitem **items; /* by idx */
	uint32_t n_items, cap_items;
	struct epitem *free_items;
	uint32_t
	    n_tagged; /* kernel entries with our tag, or about to have it */
	uint32_t next_generation;
	uint32_t n_merged;
	struct ready_set rs; /* notifications of its sockets */
	struct list ready;
	struct list behind;  /* to report after the kernel's events */
	uint64_t held_until; /* look at some of always then */
	struct list
	    always; /* items to look at each time: nobody notifies us of them */
	int kick_fd;     /* in the kernel's set, to wake other waiters */
	bool is_kicked;  /* by a notification that nobody has drained yet */
	bool bell_tried; /* rs.bell1 is in the kernel's set, or there is none */
	int idle_fd;     /* in the kernel's set: base/idle.h; -1: none */
	uint32_t idle_number;
	/* How often in a row idle_fd has woken a thread and brought the program nothing, while
	 * other threads waited for idle_fd, too. */
	uint32_t idle_vain;
	bool idle_off;  /* so this set leaves it to them for a while */
	bool gave_back; /* an item, whose events the kernel's set has */
	bool nested;    /* waited for from outside */
	bool forked;    /* made by the process that we come from */
	bool shared;    /* a fork has given another process the kernel's set */
	uint32_t n_waits;    /* since the kernel's set was asked */
	uint32_t look_calls; /* ask it after so many */
	uint64_t looked_ns;  /* at some items, news or not */
	uint32_t look_next;
	/* A thread slept in the kernel's set until then, which told of all connections
	 * that had ended. */
	uint64_t told_ns;
	struct batch batch;
};

/* epoll_item.c.  The caller holds the file's lock and the set's. */
struct epitem *item_find(struct file *f, struct epoll *ep, int fd);
struct epitem *item_new(struct epoll *ep, struct file *f, int fd,
			const struct epoll_event *ev);
void item_drop(struct epitem *it);
/* The next generation for a kernel entry of the set. */
uint32_t item_generation(struct epoll *ep);
/* Call this before the kernel gets the tag for the item's entry: a thread that
 * already waits then knows to look for tags in what the kernel returns. */
void item_tagged(struct epitem *it);
/* The kernel's entry has our tag; from now on the item is served by us. */
void item_merged(struct epitem *it);
/* Its socket is the kernel's again: the kernel's entry is the program's, from now on.
 * False: the item stays merged. */
bool item_give_back(struct epitem *it);
/* Put the descriptor of base/idle.h into the kernel's set. */
void epoll_idle(struct epoll *ep);
/* Take it out again. */
void epoll_no_idle(struct epoll *ep);
/* Be woken by it, or no more. */
void epoll_idle_wakes(struct epoll *ep, bool does);
void push_ready(struct epitem *it);
void push_news(struct epitem *it, struct list *to); /* ready or behind */
/* Have peers ring a bell of the calling thread, or stop that.  The caller of
 * epoll_drop_bell() holds the lock. */
void epoll_hang_bell(struct epoll *ep);
void epoll_drop_bell(struct epoll *ep);
/* Wake other waiters: there may be events for them. */
void kick(struct epoll *ep);
/* epoll_ctl() on the kernel's set: 0 or -errno. */
int kernel_ctl(struct epoll *ep, int op, int fd, uint32_t events,
	       uint64_t data);
uint32_t anchor_events(const struct epitem *it);
/* Change the kernel's entry of a merged item to what anchor_events() says now. */
void item_watch_anchor(struct epitem *it);

/* epoll_ready.c.  Collects events of our sockets.  @has_asked: the kernel was
 * polled just now.  @before: how many go before the kernel's events.  -EAGAIN:
 * poll the kernel first. */
int epoll_collect(struct epoll *ep, struct epoll_event *evs, int max,
		  bool has_asked, int *before);
/* Restore the program's data in @evs[0..n) and drop the events of anchors.
 * Returns how many events remain. */
int epoll_translate(struct epoll *ep, struct epoll_event *evs, int n);
/* Does any of them carry our tag? */
bool epoll_has_tag(const struct epoll_event *evs, int n);
/* Is anything on its lists, to be looked at? */
bool epoll_has_listed(struct epoll *ep);

static inline uint64_t tag_of(const struct epitem *it)
{
	return TAG | (uint64_t)it->generation << TAG_IDX_BITS | it->idx;
}

static inline bool is_tag(uint64_t data) { return (data & TAG_MASK) == TAG; }

static inline uint32_t tag_idx(uint64_t data)
{
	return (uint32_t)data & TAG_IDX_MASK;
}

static inline uint32_t tag_generation(uint64_t data)
{
	return (uint32_t)data >> TAG_IDX_BITS;
}

static inline bool is_child(const struct epitem *it)
{
	return it->file->kind == FILE_EPOLL;
}

/* Calls use the anchor: the program may have closed the number it added. */
static inline int item_fd(const struct epitem *it)
{
	return it->file->anchor_fd;
}
