/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_osfd.c - any bytes as a request to osfd, and as its policy
 *
 *     first byte -> how many descriptors came; the rest -> request_parse()
 *                                                       -> policy_parse()
 *
 * Besides not crashing, this holds:
 *   I1  a request that is taken has texts that end, and numbers within their limits
 *   I2  what was taken and is sent again as it was understood is taken again, the same
 *   I3  a request that is refused leaves the output as it was
 *   I4  a port of a policy that is taken, printed and read again, is the same port
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "osfd/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PORTS 8

static bool user_of(const char *name, uint32_t *uid)
{
	*uid = (uint32_t)strlen(name);
	return *name != 'x';
}

static void check_request(const struct request *r, unsigned n_fds)
{
	struct request again;

	assert(r->magic == MSG_MAGIC);
	assert(r->type > MSG_NONE && r->type < MSG_TYPES);
	if (r->type == MSG_ADD || r->type == MSG_DEL || r->type == MSG_OPEN) {
		size_t len = strnlen(r->port.dev, MSG_DEV_MAX);
		assert(len > 0 && len < MSG_DEV_MAX);
		assert(!strchr(r->port.dev, '/'));
		assert(r->port.n_flows <= MSG_FLOWS_MAX);
	}
	if (r->type == MSG_THAW) {
		const struct msg_thaw *t = &r->thaw;
		assert(t->n_unread <= MSG_QUEUE_MAX);
		assert(t->n_unacked <= MSG_QUEUE_MAX);
		assert(t->n_unsent <= MSG_QUEUE_MAX);
		assert(memchr(t->state.ca_name, 0, FROZEN_CA_MAX));
	}
	size_t len = request_len((enum msg_type)r->type);
	int err = request_parse(r, len, n_fds, &again);
	assert(!err);
	assert(!memcmp(r, &again, sizeof(again)));
}

static void try_request(const uint8_t *data, size_t size, unsigned n_fds)
{
	struct request r, before;

	memset(&r, 0xa5, sizeof(r));
	before = r;
	if (request_parse(data, size, n_fds, &r) == 0)
		check_request(&r, n_fds);
	else
		assert(!memcmp(&r, &before, sizeof(r)));
}

static void try_policy(const char *text, size_t len)
{
	struct msg_port ports[PORTS], again;
	char line[256];
	unsigned at;
	int n = policy_parse(text, len, user_of, ports, PORTS, &at);

	assert(n <= PORTS);
	for (int i = 0; i < n; i++) {
		int n_line = policy_print(&ports[i], line, sizeof(line));
		assert(n_line > 0 && n_line < (int)sizeof(line));
		int err =
		    policy_parse(line, (size_t)n_line, user_of, &again, 1, &at);
		assert(err == 1);
		assert(!memcmp(&again, &ports[i], sizeof(again)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	try_request(data + 1, size - 1, data[0] & 3);
	try_policy((const char *)data, size);
	return 0;
}
