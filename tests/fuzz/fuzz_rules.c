/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_rules.c - any bytes as a rule text
 *
 *     bytes -> rules_parse() -> rules_match() for a few sockets
 *
 * Besides not crashing, this holds for every text:
 *   I1  a text that is refused leaves the set, and says where and what in
 *       printable ASCII
 *   I2  adding a text a second time changes no answer: every rule of the second
 *       copy stands behind its twin
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "ops/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct sockaddr_in loopback = {
	.sin_family = AF_INET,
	.sin_port = 0x5000, /* 80 on a little-endian machine */
	.sin_addr = { 0x0100007f },
};
static const struct sockaddr_in6 mapped = {
	.sin6_family = AF_INET6,
	.sin6_port = 0x3500, /* 53 */
	.sin6_addr = { { { [10] = 0xff, 0xff, 10, 0, 0, 1 } } },
};
static const struct sockaddr_in6 native = {
	.sin6_family = AF_INET6,
	.sin6_port = 0xffff,
	.sin6_addr = { { { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 } } },
};

#define N_ADDRS 4
static const struct sockaddr *const addrs[N_ADDRS] = {
	NULL,
	(const struct sockaddr *)&loopback,
	(const struct sockaddr *)&mapped,
	(const struct sockaddr *)&native,
};

#define N_ANSWERS (ROLES * N_ADDRS * N_ADDRS)

/* Copies, because a set that grows may move what it returned. */
struct answers {
	char provider[N_ANSWERS][RULE_PROVIDER_MAX];
	int is_all_os;
};

static void ask(const struct rule_set *rs, struct answers *out)
{
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < N_ANSWERS; i++) {
		const char *name = rules_match(
		    rs, "nginx", i % 3 ? NULL : "7",
		    (enum rule_role)(i / (N_ADDRS * N_ADDRS)),
		    addrs[i / N_ADDRS % N_ADDRS], addrs[i % N_ADDRS]);
		if (!name)
			continue;
		assert(*name);
		assert(strlen(name) < RULE_PROVIDER_MAX);
		strcpy(out->provider[i], name);
	}
	out->is_all_os = rules_all_os(rs, "nginx", NULL);
}

static void check_error(const struct rule_error *err)
{
	size_t len = strnlen(err->text, sizeof(err->text));

	assert(err->line >= 1);
	assert(err->column >= 1);
	assert(len > 0);
	assert(len < sizeof(err->text));
	for (size_t i = 0; i < len; i++)
		assert(err->text[i] >= ' ' && err->text[i] < 0x7f);
}

static void check_good(struct rule_set *rs, const char *text, size_t len)
{
	struct answers once, twice;
	struct rule_set *same = rs;
	int level = rules_log_level(rs);

	ask(rs, &once);
	int err = rules_parse(&same, text, len, NULL, NULL);
	assert(!err);
	assert(same == rs);
	ask(rs, &twice);
	assert(!memcmp(&once, &twice, sizeof(once)));
	assert(rules_log_level(rs) == level);
}

/* A refused text, added to a set with rules. */
static void check_bad(const char *text, size_t len)
{
	static const char rules[] = "use os tcp_client *:80\nlog min-level 3";
	struct answers before, after;
	struct rule_set *rs = NULL;
	int err = rules_parse(&rs, rules, sizeof(rules) - 1, NULL, NULL);

	assert(!err);
	ask(rs, &before);
	err = rules_parse(&rs, text, len, NULL, NULL);
	assert(err == -EINVAL);
	ask(rs, &after);
	assert(!memcmp(&before, &after, sizeof(before)));
	assert(rules_log_level(rs) == 3);
	rules_free(rs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rule_set *rs = NULL;
	struct rule_error err = { 0 };
	const char *text = (const char *)data;

	if (!rules_parse(&rs, text, size, NULL, &err)) {
		assert(rs);
		check_good(rs, text, size);
	} else {
		assert(!rs);
		check_error(&err);
		check_bad(text, size);
	}
	rules_free(rs);
	return 0;
}
