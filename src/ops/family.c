/* SPDX-License-Identifier: MIT */
/*
 * ops/family.c - which socket() calls the switch handles
 *
 *     socket(domain, type, protocol)  ->  ops_family()    ->  the kernel's domain
 *     bind(), connect()               ->  ops_sockaddr()  ->  the kernel's address
 *
 * family.def does what sock_register() does in a kernel: one line is one
 * family.
 */
#include <netinet/in.h>
#include <string.h>

#include "base/compiler.h"
#include "ops/ops.h"

enum offload { MAY, MUST, NEVER };

static const struct family {
	int family, kernel;
	enum offload offload;
	bool is_in_addresses;
} families[] = {
#define F(family, kernel, offload, address)                                    \
	{ family, kernel, offload, address },
#include "ops/family.def"
#undef F
};

static const struct family *find(int family)
{
	for (size_t i = 0; i < ARRAY_LEN(families); i++)
		if (families[i].family == family)
			return &families[i];
	return NULL;
}

bool ops_family(int domain, int type, int protocol, struct ops_family *out)
{
	const struct family *f = find(domain);
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);

	*out = (struct ops_family){ .domain = f ? f->kernel : domain };
	if (!f)
		return false;
	out->offload = f->offload == MUST;
	out->direct = f->offload == NEVER;
	return kind == SOCK_STREAM &&
	       (protocol == 0 || protocol == IPPROTO_TCP);
}

const struct sockaddr *ops_sockaddr(const struct sockaddr *in, socklen_t len,
				    struct sockaddr_storage *copy)
{
	if (!in || len < sizeof(struct sockaddr_in) || len > sizeof(*copy))
		return in;
	const struct family *f = find(in->sa_family);

	if (!f || !f->is_in_addresses)
		return in;
	memcpy(copy, in, len);
	copy->ss_family = (sa_family_t)f->kernel;
	return (const struct sockaddr *)copy;
}
