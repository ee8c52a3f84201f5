/* SPDX-License-Identifier: MIT */
/*
 * osfd/beyond.h - what the kernel does to a connection's segments outside its socket
 *
 *     NAT         conntrack translates the addresses: our segments would have others
 *     IPsec       a policy of the network namespace may encrypt them, or demand it
 *     signatures  TCP-MD5 or TCP-AO: the peer drops segments that have none
 *
 * Our TCP does none of this, so such a connection stays with the kernel.  Conntrack that
 * only watches sees no segment from the freeze to the thaw, and would take the later ones
 * for invalid.  So osfd tells it to accept sequence numbers that it does not expect.
 */
#pragma once

#include "osfd/freeze.h"

/* Return: 0, or with a reason -MSG_E_NAT, -MSG_E_IPSEC or -MSG_E_SIGNED; or another errno:
 * we cannot find out */
MUST_CHECK int beyond_check(int fd, const struct connection *c,
			    struct refusal *why);
