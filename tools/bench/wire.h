/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/wire.h - two network namespaces, a veth pair between them, and ports
 *
 *     wire_open() -> wire_place(): where a program runs -> wire_close()
 *     wire_ports_add() -> the programs of one run under osf -> wire_ports_del()
 *
 * The namespaces have no names, and only descriptors hold them: they vanish with this
 * process, however it ends, because the programs in them end with it (proc.h).
 */
#pragma once
#include "bench.h"
#include "proc.h"

#define WIRE_SERVER "10.98.0.1"
#define WIRE_CLIENT_DEVICE "va"
#define WIRE_SERVER_DEVICE "vb"
#define WIRE_RULES "OSF_RULES=use tcp tcp_client *:*\nuse tcp tcp_server *:*"

enum { WIRE_AT_CLIENT, WIRE_AT_SERVER, WIRE_PLACES };

struct wire {
	int netns[WIRE_PLACES];        /* or -1 */
	struct proc osfd[WIRE_PLACES]; /* PROC_NONE while there are no ports */
};
#define WIRE_CLOSED                                                            \
	((struct wire){ .netns = { -1, -1 }, .osfd = { PROC_NONE, PROC_NONE } })

/**
 * wire_open() - make the namespaces and the devices, without ports
 * @needs_osfd: ports are to follow
 * @why: WHY_MAX bytes; filled on error
 *
 * Return: 0, -EPERM if the caller is not root, -ENOENT if a program is missing, or another
 * negative errno.  On error @w is closed.
 */
int wire_open(struct wire *w, bool needs_osfd, char *why);
void wire_close(struct wire *w);

/* Starts an osfd in each namespace, and makes each device a port of root's.  @self: this
 * program.  Return: 0, or a negative errno with @why */
int wire_ports_add(struct wire *w, const char *self, char *why);
void wire_ports_del(struct wire *w);

/* The network namespace of a server or a client, for struct proc_spec; NULL for no wire */
const int *wire_place(const struct wire *w, bool is_server);
