/* SPDX-License-Identifier: MIT */
/* tcp/pmtu.h - the largest packet that a path carries (pmtu.c), and ICMP errors (icmp.c) */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ip_packet;
struct tcp_conn;
struct tcp_stack;

void pmtu_init(struct tcp_conn *c);
void pmtu_resume(struct tcp_conn *c, uint32_t mtu);
void pmtu_sync(struct tcp_conn *c);
void pmtu_too_big(struct tcp_conn *c, uint32_t mtu);
void pmtu_timeout(struct tcp_conn *c);
uint32_t pmtu_probe_size(struct tcp_conn *c, uint32_t bytes);
void pmtu_probe_sent(struct tcp_conn *c);
void pmtu_probe_arrived(struct tcp_conn *c);
void pmtu_probe_lost(struct tcp_conn *c);

void icmp_rx(struct tcp_stack *s, const struct ip_packet *ip,
	     const uint8_t *l4);
