/* SPDX-License-Identifier: MIT */
/*
 * tests/script/engine_sock.h - sockets over the engine, as Linux's calls show them
 *
 *     calls -> engine_sock.c, engine_opt.c -> calls.h, opt.h
 *     packets, time -> backend_engine.c    -> tcp.h
 *
 * Owner: the back end.
 */
#pragma once

#include "backend.h"
#include "port/port.h"
#include "tcp/calls.h"
#include "tcp/opt.h"
#include "tcp/stack.h"

#define ENGINE_FDS 1024
#define ENGINE_FD_FIRST 100 /* so that nobody takes them for a script's */

enum sock_kind { SOCK_FREE, SOCK_FRESH, SOCK_LISTENER, SOCK_CONN };

struct engine_sock {
	enum sock_kind kind;
	bool is_v6, is_connecting, is_shut_rd, is_peer_known;
	bool is_shut_wr;       /* while there was no connection */
	bool is_disconnecting; /* nor will there be another */
	bool is_nodelay, is_cork, is_keepalive, is_linger, is_reuse, is_inline;
	int linger_s;
	int keep_idle_s, keep_interval_s, keep_probes;
	int user_timeout_ms, n_reqsks, fin_timeout_s, notsent_lowat, rcv_lowat;
	int defer_s, maxseg;
	int snd_buf, rcv_buf; /* twice what was told; 0: nothing was */
	bool is_mapped;       /* bound to an IPv4 address, of an IPv6 socket */
	bool is_any;   /* bound to no address: of IPv6, to neither family's */
	uint16_t port; /* bound to, host order; 0: not */
	int err;       /* of a connection that is gone; negative */
	struct tcp_conn *conn;
	struct tcp_listener *listener;
};

struct engine {
	struct tcp_stack *stack;
	struct port port;
	struct tcp_frame frame;      /* that leaves */
	struct tcp_rx_frame arrived; /* ext NULL: none */
	void *mem, *rx_mem;
	struct pool rx_pool;
	uint64_t now_ns, start_ns;
	int fin_timeout_s; /* of new sockets; 0: the engine's own */
	struct engine_packet *head, **tail; /* sent, not received yet */
	struct engine_sock socks[ENGINE_FDS];
};

/* backend_engine.c: sends what is pending. */
void engine_flush(struct engine *e);

/* engine_sock.c */
int engine_take_error(struct engine_sock *s, int otherwise);
struct engine_sock *engine_sock(struct engine *e, int fd);
int engine_socket(void *b, int domain, int type, int protocol);
int engine_bind(void *b, int fd, const struct sockaddr *a, socklen_t len);
int engine_listen(void *b, int fd, int backlog);
int engine_accept(void *b, int fd);
int engine_connect(void *b, int fd, const struct sockaddr *a, socklen_t len);
ssize_t engine_send(void *b, int fd, const void *buf, size_t len, int flags);
ssize_t engine_recv(void *b, int fd, void *buf, size_t len, int flags);
int engine_shutdown(void *b, int fd, int how);
int engine_close(void *b, int fd);
int engine_poll(void *b, int fd, short events);
int engine_move(void *b, int fd);
int engine_getpeername(void *b, int fd, struct sockaddr *a, socklen_t *len);

/* engine_opt.c */
void engine_apply_options(struct engine *e, struct engine_sock *s);
int engine_setsockopt(void *b, int fd, int level, int name, const void *v,
		      socklen_t len);
int engine_getsockopt(void *b, int fd, int level, int name, void *v,
		      socklen_t *len);
int engine_ioctl(void *b, int fd, unsigned long what, int *arg);
