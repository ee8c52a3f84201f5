/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/drive.h - connects a stack to a port
 *
 *     drive_in(): frames that have arrived, timers
 *         -> programs: tcp_next_ready(), tcp_send(), tcp_peek() ..
 *         -> drive_out(): frames to be sent
 *         -> drive_next_ns(): when to begin again at the latest
 *
 * A turn consists of these calls, in this order.  Everybody who has a stack and a port
 * makes its turns in this way.
 *
 * Owner: the one who owns the stack and the port.
 */
#pragma once

#include <stdint.h>

struct port;
struct tcp_stack;

/* Gives the frames that have arrived to the stack, and runs its timers.  Return: how many
 * frames */
uint32_t drive_in(struct tcp_stack *s, struct port *p, uint64_t now_ns);

/* Gives the port what the stack has to send, until the port is full. */
void drive_out(struct tcp_stack *s, struct port *p, uint64_t now_ns);

/* Return: when something will be due, of the stack or of the port. */
uint64_t drive_next_ns(const struct tcp_stack *s, const struct port *p);
