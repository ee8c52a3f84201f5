/* SPDX-License-Identifier: MIT */
/*
 * ops/rules.c - creates, searches and frees a rule set
 *
 *     rules_parse.c -> rule_set_new(), rule_set_add_instance(),
 *                      rule_instance_add(), rule_set_join()
 *     connect(), listen(), ... -> rules_match() -> a provider's name
 *
 * Matching is as in libvma: only the first instance that fits the program
 * counts, and in it the first rule of the role whose addresses fit.  Matching
 * allocates nothing, takes no lock and writes nothing, so any thread may do it
 * at any time between rules_parse() and rules_free().
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fnmatch.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "ops/rules_set.h"

#define DEFAULT_ID "OSF_DEFAULT_APPLICATION_ID"

/* An address to be matched: not known when family is AF_UNSPEC. */
struct endpoint {
	sa_family_t family;
	uint16_t port;    /* host order */
	uint8_t addr[16]; /* as in struct rule_addr */
};

struct rule_set *rule_set_new(void)
{
	struct rule_set *rs = malloc(sizeof(*rs));

	if (!rs)
		return NULL;
	rs->head = NULL;
	rs->tail = &rs->head;
	rs->log_level = -1;
	return rs;
}

static void instance_free(struct rule_instance *ri)
{
	for (unsigned role = 0; role < ROLES; role++) {
		struct rule *next;

		for (struct rule *r = ri->rules[role].head; r; r = next) {
			next = r->next;
			free(r);
		}
	}
	free(ri);
}

void rules_free(struct rule_set *rs)
{
	struct rule_instance *next;

	if (!rs)
		return;
	for (struct rule_instance *ri = rs->head; ri; ri = next) {
		next = ri->next;
		instance_free(ri);
	}
	free(rs);
}

struct rule_instance *rule_set_add_instance(struct rule_set *rs)
{
	struct rule_instance *ri = calloc(1, sizeof(*ri));

	if (!ri)
		return NULL;
	for (unsigned role = 0; role < ROLES; role++)
		ri->rules[role].tail = &ri->rules[role].head;
	*rs->tail = ri;
	rs->tail = &ri->next;
	return ri;
}

int rule_instance_add(struct rule_instance *ri, enum rule_role role,
		      const struct rule *rule)
{
	struct rule_list *list = &ri->rules[role];
	struct rule *r = malloc(sizeof(*r));

	if (!r)
		return -ENOMEM;
	*r = *rule;
	r->next = NULL;
	*list->tail = r;
	list->tail = &r->next;
	return 0;
}

static struct rule_instance *first_for_all(struct rule_set *rs)
{
	struct rule_instance *ri = rs->head;

	while (ri && (strcmp(ri->program, "*") || strcmp(ri->id, "*")))
		ri = ri->next;
	return ri;
}

static void instance_join(struct rule_instance *to, struct rule_instance *from)
{
	for (unsigned role = 0; role < ROLES; role++) {
		struct rule_list *list = &from->rules[role];

		if (!list->head)
			continue;
		*to->rules[role].tail = list->head;
		to->rules[role].tail = list->tail;
		list->head = NULL;
	}
	instance_free(from);
}

void rule_set_join(struct rule_set *to, struct rule_set *from)
{
	struct rule_instance *ri = from->head;
	struct rule_instance *for_all = first_for_all(to);

	if (ri && ri->is_implicit && for_all) {
		from->head = ri->next;
		instance_join(for_all, ri);
	}
	if (from->head) {
		*to->tail = from->head;
		to->tail = from->tail;
		from->head = NULL;
	}
	if (from->log_level >= 0)
		to->log_level = from->log_level;
	rules_free(from);
}

static struct endpoint endpoint_v6(const struct sockaddr_in6 *sin6)
{
	struct endpoint ep = { .port = ntohs(sin6->sin6_port) };
	const uint8_t *addr = sin6->sin6_addr.s6_addr;

	if (IN6_IS_ADDR_V4MAPPED(&sin6->sin6_addr)) {
		ep.family = AF_INET;
		memcpy(ep.addr, addr + 12, 4);
	} else {
		ep.family = AF_INET6;
		memcpy(ep.addr, addr, 16);
	}
	return ep;
}

/* Copy, because @sa may be unaligned. */
static struct endpoint endpoint_of(const struct sockaddr *sa)
{
	struct endpoint ep = { .family = AF_UNSPEC };
	sa_family_t family = AF_UNSPEC;
	struct sockaddr_in6 sin6;
	struct sockaddr_in sin;

	if (sa)
		memcpy(&family,
		       (const char *)sa + offsetof(struct sockaddr, sa_family),
		       sizeof(family));
	switch (family) {
	case AF_INET:
		memcpy(&sin, sa, sizeof(sin));
		ep.family = AF_INET;
		ep.port = ntohs(sin.sin_port);
		memcpy(ep.addr, &sin.sin_addr, 4);
		return ep;
	case AF_INET6:
		memcpy(&sin6, sa, sizeof(sin6));
		return endpoint_v6(&sin6);
	default:
		return ep;
	}
}

static bool prefix_equal(const uint8_t *a, const uint8_t *b, unsigned plen)
{
	unsigned n_bytes = plen / 8, n_bits = plen % 8;

	if (memcmp(a, b, n_bytes))
		return false;
	return !n_bits || !((a[n_bytes] ^ b[n_bytes]) >> (8 - n_bits));
}

static bool is_any(const struct rule_addr *ra)
{
	return ra->family == AF_UNSPEC && ra->port_low == 0 &&
	       ra->port_high == UINT16_MAX;
}

static bool addr_matches(const struct rule_addr *ra, const struct endpoint *ep)
{
	if (ep->family == AF_UNSPEC)
		return is_any(ra);
	if (ra->family != AF_UNSPEC &&
	    (ra->family != ep->family ||
	     !prefix_equal(ra->addr, ep->addr, ra->plen)))
		return false;
	return ra->port_low <= ep->port && ep->port <= ra->port_high;
}

static const struct rule_instance *
instance_find(const struct rule_set *rs, const char *program, const char *id)
{
	const struct rule_instance *ri = rs ? rs->head : NULL;

	if (!id)
		id = DEFAULT_ID;
	for (; ri; ri = ri->next)
		if ((!strcmp(ri->id, "*") || !strcmp(ri->id, id)) &&
		    !fnmatch(ri->program, program, 0))
			break;
	return ri;
}

const char *rules_match(const struct rule_set *rs, const char *program,
			const char *id, enum rule_role role,
			const struct sockaddr *first,
			const struct sockaddr *second)
{
	const struct rule_instance *ri = instance_find(rs, program, id);
	struct endpoint ep_first = endpoint_of(first);
	struct endpoint ep_second = endpoint_of(second);

	assert(role < ROLES);
	if (!ri)
		return NULL;
	for (const struct rule *r = ri->rules[role].head; r; r = r->next)
		if (addr_matches(&r->first, &ep_first) &&
		    addr_matches(&r->second, &ep_second))
			return r->provider;
	return NULL;
}

/* A rule for os that matches only some addresses decides nothing here. */
static bool role_is_os(const struct rule_instance *ri, enum rule_role role)
{
	for (const struct rule *r = ri->rules[role].head; r; r = r->next) {
		if (strcmp(r->provider, "os") && strcmp(r->provider, "inet"))
			return false;
		if (is_any(&r->first) && is_any(&r->second))
			return true;
	}
	return false;
}

int rules_all_os(const struct rule_set *rs, const char *program, const char *id)
{
	const struct rule_instance *ri = instance_find(rs, program, id);

	return ri && role_is_os(ri, ROLE_TCP_SERVER) &&
	       role_is_os(ri, ROLE_TCP_CLIENT);
}

int rules_log_level(const struct rule_set *rs)
{
	return rs ? rs->log_level : -1;
}
