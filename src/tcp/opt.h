/* SPDX-License-Identifier: MIT */
/*
 * tcp/opt.h - the options of a connection or a listener; opt.c, rcvwin.c
 *
 * A program may set them in every state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct tcp_conn;
struct tcp_listener;

/* --- when to send --- */

void tcp_set_nodelay(struct tcp_conn *c, bool is_on, uint64_t now_ns);
/* On: the engine spreads segments over the round trip. */
void tcp_set_pacing(struct tcp_conn *c, bool is_on, uint64_t now_ns);
/* On: only full segments leave; a smaller one leaves after a time-out. */
void tcp_set_cork(struct tcp_conn *c, bool is_on, uint64_t now_ns);
/* On: the next ACKs leave at once.  Off: they wait for data to carry them. */
void tcp_set_quickack(struct tcp_conn *c, bool is_on, uint64_t now_ns);

/* --- sizes --- */

/* TCP_MAXSEG: bytes of a segment without options, in both directions; 0: the link's.
 * Only a value that was set before the SYN leaves limits the peer.  After both SYNs it
 * changes nothing. */
void tcp_set_maxseg(struct tcp_conn *c, uint16_t bytes);
void tcp_set_listen_maxseg(struct tcp_listener *l, uint16_t bytes);
/* SO_RCVBUF: bytes, from 1024 to 1 GB.  The engine no longer tunes the buffer.  It keeps
 * what earlier windows have promised.  The window is never smaller than two units of the
 * window scale.  A value that was set before the SYN leaves, or on the listener before a
 * SYN arrives, also decides the scale and the first window; later ones keep the scale. */
void tcp_set_rcv_buf(struct tcp_conn *c, uint32_t bytes);
void tcp_set_listen_rcv_buf(struct tcp_listener *l, uint32_t bytes);
/* SO_SNDBUF: bytes, from 2048 to 1 GB.  The engine no longer tunes the buffer. */
void tcp_set_snd_buf(struct tcp_conn *c, uint32_t bytes);
/* TCP_WINDOW_CLAMP: the largest window from now on, 1024 at least; 0: no limit. */
void tcp_set_window_clamp(struct tcp_conn *c, uint32_t bytes);

/* --- when to tell the program --- */

/* TCP_NOTSENT_LOWAT: how many bytes may wait beyond those that can leave at once.  The
 * connection is writable when less than half of that waits.  0: no limit. */
void tcp_set_notsent_lowat(struct tcp_conn *c, uint32_t bytes);
/* SO_RCVLOWAT: the connection is readable when so many bytes have arrived, or the window
 * is used up.  The engine lowers it to half the buffer. */
void tcp_set_rcv_lowat(struct tcp_conn *c, uint32_t bytes);
/* TCP_DEFER_ACCEPT: tcp_accept() returns a connection when bytes have arrived, or after
 * @s seconds, 31 at most; 0: at once. */
void tcp_set_defer_accept(struct tcp_listener *l, uint32_t s);
/* SO_OOBINLINE.  On: the program reads the urgent byte among the others. */
void tcp_set_oob_inline(struct tcp_conn *c, bool is_on);

/* --- when to give up --- */

/* TCP_SYNCNT; 127 at most. */
void tcp_set_syn_retries(struct tcp_conn *c, uint8_t n);
/* TCP_LINGER2: how long FIN-WAIT-2 lasts after tcp_close(); 0: 60 s. */
void tcp_set_fin_timeout(struct tcp_conn *c, uint16_t s);
/* SO_LINGER {1, 0}: tcp_close() resets. */
void tcp_set_linger(struct tcp_conn *c, bool resets);
void tcp_set_user_timeout(struct tcp_conn *c, uint32_t ms); /* 0: none */
/* If the peer has sent nothing for @silent_ms, sends an ACK, even if none is owed.  A peer that
 * still has the connection does not answer.  One that has reset it sends its reset again. */
void tcp_ask_silent(struct tcp_conn *c, uint32_t silent_ms, uint64_t now_ns);
/* Keepalive.  @idle_s 0: off.  @interval_s and @n_probes are 1 at least. */
void tcp_set_keepalive(struct tcp_conn *c, uint32_t idle_s, uint32_t interval_s,
		       uint32_t n_probes, uint64_t now_ns);
