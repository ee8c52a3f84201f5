/* SPDX-License-Identifier: MIT */
/*
 * cm/addr.h - addresses and ports of the connection manager
 *
 * A port of a port space belongs to the process that has bound its name: a unix socket in
 * the abstract name space of the network namespace,
 *
 *     osf-cm/<port space>/<port>/<address>     or 4any, 6any, 6only for wildcards
 *
 * The name goes away with its socket, so a process that is killed leaves nothing.  Any user
 * may bind any name, as with ports of TCP.  So a process that connects asks the kernel who
 * has the other end.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "base/compiler.h"
#include "cm/msg.h"

socklen_t addr_len(const union addr *a);
bool addr_is_ip(const union addr *a);
bool addr_is_any(const union addr *a);
bool addr_is_loopback(const union addr *a);
bool addr_is_multicast(const union addr *a);
bool addr_is_equal(const union addr *a,
		   const union addr *b); /* without ports */
uint16_t addr_port(const union addr *a);
void addr_set_port(union addr *a, uint16_t port);
/* The loopback address in place of a wildcard. */
void addr_set_loopback(union addr *a);

/* Is it an address of this host?  0; -EADDRNOTAVAIL; -errno. */
MUST_CHECK int addr_check_local(const union addr *a);
/* The address from which this host would send to @dst.  0; -ENETUNREACH; -errno. */
MUST_CHECK int addr_source(const union addr *dst, union addr *src);
/* The address as a GID. */
union ibv_gid addr_as_gid(const union addr *a);
/* Has the device a GID of this address's own? */
bool addr_has_gid(const union addr *a);
/* Return: the number of the address among the device's GIDs; 0 if it has none.  *@gid: the
 * address as a GID, also if it is another host's. */
uint8_t addr_gid(const union addr *a, union ibv_gid *gid);

/* Binds @sock to the name of @a's port.  Port 0: chooses a free port and sets it in @a.
 * Return: 0, -EADDRINUSE or another -errno */
MUST_CHECK int addr_bind(int sock, uint16_t ps, union addr *a, bool is_only);
/* Connects @sock to the process that listens at @a.  Return: 0; -ECONNREFUSED: nobody
 * listens; -EAGAIN: its backlog is full; or another -errno */
MUST_CHECK int addr_connect(int sock, uint16_t ps, const union addr *a);
