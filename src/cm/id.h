/* SPDX-License-Identifier: MIT */
/*
 * cm/id.h - ids, event channels, and events
 *
 *     file: what a descriptor of the program refers to
 *       |-- ids: a listener, a connection, an end of a datagram service
 *       '-- events that the program has not taken yet
 *
 * Everything here is private to the process and under cm_lock.  An id has one unix
 * socket: bound to the name of its port, then listening or connected.
 */
#pragma once

#include <rdma/rdma_user_cm.h>

#include "base/lock.h"
#include "cm/addr.h"

#define N_IDS 65536u /* as librdmacm's table */

/* <rdma/rdma_cma.h>, which belongs to librdmacm, has these as enum rdma_cm_event_type. */
enum event_kind {
	EVENT_ADDR_RESOLVED,
	EVENT_ADDR_ERROR,
	EVENT_ROUTE_RESOLVED,
	EVENT_ROUTE_ERROR,
	EVENT_CONNECT_REQUEST,
	EVENT_CONNECT_RESPONSE,
	EVENT_CONNECT_ERROR,
	EVENT_UNREACHABLE,
	EVENT_REJECTED,
	EVENT_ESTABLISHED,
	EVENT_DISCONNECTED,
	EVENT_DEVICE_REMOVAL,
	EVENT_MULTICAST_JOIN,
	EVENT_MULTICAST_ERROR,
	EVENT_ADDR_CHANGE,
	EVENT_TIMEWAIT_EXIT,
};

enum state {
	ID_IDLE,
	ID_BOUND,
	ID_ADDR, /* the address is resolved */
	ID_ROUTE,
	ID_LISTEN,
	ID_CONNECTING, /* the listener's backlog is full; again soon */
	ID_REQ_SENT,
	ID_REP_RCVD,
	ID_NEW, /* accepted, and nothing received: no id of the program's yet */
	ID_REQ_RCVD,
	ID_REP_SENT,
	ID_ESTABLISHED,
	ID_ENDING,   /* the other end has ended it; what it sent comes first */
	ID_TIMEWAIT, /* disconnected, and TIMEWAIT_EXIT still comes */
	ID_OVER,
};

struct cm_id {
	uint32_t handle;
	uint64_t uid; /* the program's; 0: it has not told us yet */
	struct cm_file *file;
	enum state state;
	uint16_t ps;
	uint8_t qp_type, ack_timeout; /* 0: the program has set none */
	union addr src, dst;
	bool has_device, has_route, may_reuse, is_v6_only, is_marked_v6_only;
	int sock; /* -1: none */
	bool is_watched;
	bool has_hung_up; /* before the program has accepted */
	struct param own, peer;
	uint64_t deadline_ns; /* 0: none */
	uint64_t give_up_ns;  /* of ID_CONNECTING and ID_ENDING */
	bool is_refused;      /* ID_CONNECTING, because nobody listens */
	uint32_t events_reported;
	/* Of a listener. */
	uint32_t backlog, n_waiting, n_new;
	struct cm_id
	    *listener; /* of one whose request waits, or has not come */
	struct cm_mcast *mcasts;
};

struct cm_event {
	struct cm_event *next;
	struct cm_id *owner;    /* whose uid is reported, and who counts it */
	struct cm_id *child;    /* of a CONNECT_REQUEST */
	struct cm_mcast *mcast; /* of a MULTICAST_JOIN, which counts it */
	struct rdma_ucm_event_resp resp;
};

/* Descriptor numbers of the program are copies of @set. */
struct cm_file {
	int set, bell,
	    timer; /* epoll set, and an eventfd and a timerfd in it */
	uint32_t n_fds, n_inside;
	uint32_t n_ids;
	bool rings;
	uint64_t deadline_ns; /* of the timer */
	struct cm_event *events, **events_end;
};

extern struct lock cm_lock;

/* id.c */
struct cm_id *id_new(struct cm_file *f, uint64_t uid, uint16_t ps,
		     uint8_t qp_type);
/* The program's id of this number on @f, or NULL. */
struct cm_id *id_get(struct cm_file *f, uint32_t handle);
/* Any id of this number, or NULL. */
struct cm_id *id_at(uint32_t handle);
/* All numbers in use are below. */
uint32_t id_end(void);
/* End what it does, and forget it and its events. */
void id_free(struct cm_id *id);
void id_forget_all(void);

/* file.c */
struct cm_event *event_new(struct cm_id *id, enum event_kind kind, int status);
/* What the program hears of the other end: @private_len bytes, zeros behind what came. */
void event_put_conn(struct cm_event *e, const struct param *p,
		    uint8_t private_len);
void event_put_ud(struct cm_event *e, const struct cm_id *id,
		  uint8_t private_len);
void event_queue(struct cm_event *e);
void event_add_plain(struct cm_id *id, enum event_kind kind, int status);
struct cm_event *event_take(struct cm_file *f);
void events_forget(struct cm_id *id);
void events_forget_mcast(struct cm_id *id, const struct cm_mcast *m);
/* What @fd refers to, or NULL: nothing of ours any more. */
struct cm_file *file_at(int fd);
/* A call is inside, and so the file stays. */
void file_enter(struct cm_file *f);
void file_leave(struct cm_file *f);
/* Move @id and its events. */
void file_adopt(struct cm_file *to, struct cm_id *id);
/* Does @id's socket wake the program? */
void file_watch(struct cm_id *id);
void file_unwatch(struct cm_id *id);
/* Call link_expired() at @at_ns; 0: not at all. */
void file_set_deadline(struct cm_id *id, uint64_t at_ns);
/* Look after what is ready. */
void file_progress(struct cm_file *f);
/* Sleeps, without the lock, until something is readable.  Return: 0; -EAGAIN: the
 * descriptor does not block; or -EINTR */
MUST_CHECK int file_wait(struct cm_file *f);

/* The number of the first packet to send: any. */
uint32_t param_psn(void);

/* link.c */
/* A socket for @id, bound to the name of its source port.  0, or -errno. */
MUST_CHECK int link_bind(struct cm_id *id);
MUST_CHECK int link_listen(struct cm_id *id, int backlog);
/* Send a REQ or a SIDR_REQ; what becomes of it is an event. */
MUST_CHECK int link_connect(struct cm_id *id);
void link_send(struct cm_id *id, enum msg_kind kind, uint8_t reason);
void link_close(struct cm_id *id);
/* The program ends the connection: the other end is told. */
void link_disconnect(struct cm_id *id);
/* The passive end may assume that the active one is ready. */
void link_establish(struct cm_id *id);
/* Something has arrived for @id, or its deadline has.  It may be gone afterwards. */
void link_ready(struct cm_id *id);
void link_expired(struct cm_id *id);

/* cmd_mcast.c */
void mcast_count_event(struct cm_mcast *m);
void mcast_free_all(struct cm_id *id);

/* cmd.c */
struct cm_call {
	struct cm_file *file;
	const void *in;
	uint64_t response; /* of the program's, to be written by call_reply() */
	uint16_t out;
};
/* Writes as many of the reply's @n bytes as the program has room for.  Return: 0; -ENOSPC:
 * it has room for less than @least; or another -errno */
MUST_CHECK int call_reply(const struct cm_call *c, const void *reply, size_t n,
			  size_t least);
/* Copy from and to the program's addresses.  0, or -EFAULT. */
MUST_CHECK int user_read(void *to, const void *from, size_t n);
MUST_CHECK int user_write(uint64_t to, const void *from, size_t n);

/* cmd_id.c, cmd_conn.c, attr.c */
#define CMD(number, name, type, least) int cmd_##name(struct cm_call *c);
#include "cm/cmds.def"
#undef CMD
