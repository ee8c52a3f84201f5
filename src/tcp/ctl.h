/* SPDX-License-Identifier: MIT */
/* tcp/ctl.h - making, failing and freeing a connection, and its news; ctl.c */
#pragma once

#include <stdint.h>

struct flow;
struct tcp_conn;
struct tcp_seg;
struct tcp_stack;

struct tcp_conn *conn_new(struct tcp_stack *s, const struct flow *f);
void conn_free(struct tcp_conn *c);
void conn_news(struct tcp_conn *c);
void conn_fail(struct tcp_conn *c, int err);
void conn_set_options(struct tcp_conn *c, uint32_t offers, uint16_t peer_mss,
		      uint8_t wscale);
void conn_agree(struct tcp_conn *c, uint32_t offers, uint16_t peer_mss,
		uint8_t wscale);
void conn_established(struct tcp_conn *c, const struct tcp_seg *seg);

/* bytes.c: the error that ended the connection, once. */
int take_error(struct tcp_conn *c);
