/* SPDX-License-Identifier: MIT */
/*
 * ops/rules_set.h - a rule set in memory
 *
 *     rule_set -> instance -> instance -> ...        in the order of the text
 *                    |
 *                    +-> rules[role] -> rule -> ...  likewise
 *
 * For rules.c and rules_parse.c only.  Rules are in lists because joining two
 * lists cannot fail: we parse a text into a set of its own, and join it to the
 * user's only if all of the text was valid.
 */
#pragma once
#include <stdbool.h>
#include "ops/rules.h"

/* Bytes of a program pattern or an application id, NUL included.  A file name
 * has 255 at most, and up to 254 glibc's fnmatch() stays on its stack. */
#define RULE_NAME_MAX 255

/* One side of a tuple. */
struct rule_addr {
	sa_family_t family; /* AF_INET, AF_INET6; AF_UNSPEC: any address */
	uint8_t plen;       /* leading bits of addr that count */
	uint8_t addr[16];   /* as on the wire; AF_INET: the first 4 bytes */
	uint16_t port_low, port_high; /* host order, both included */
};
#define RULE_ADDR_ANY ((struct rule_addr){ .port_high = UINT16_MAX })

struct rule {
	struct rule *next;
	struct rule_addr first, second;
	char provider[RULE_PROVIDER_MAX];
};

struct rule_list {
	struct rule *head;
	struct rule **tail; /* the last next, or head */
};

struct rule_instance {
	struct rule_instance *next;
	struct rule_list rules[ROLES];
	bool is_implicit; /* its text began without an application-id */
	char program[RULE_NAME_MAX];
	char id[RULE_NAME_MAX];
};

struct rule_set {
	struct rule_instance *head;
	struct rule_instance **tail; /* the last next, or head */
	int log_level;               /* -1: none given */
};

/* NULL: no memory. */
struct rule_set *rule_set_new(void);

/* A new last instance, without rules and names.  NULL: no memory. */
struct rule_instance *rule_set_add_instance(struct rule_set *rs);

/* Appends all of @from to @to and frees @from.  The implicit instance of @from
 * adds to the first "* *" of @to, if there is one. */
void rule_set_join(struct rule_set *to, struct rule_set *from);

/* Copies *@rule to the end of its role's list.  0 or -ENOMEM. */
int rule_instance_add(struct rule_instance *ri, enum rule_role role,
		      const struct rule *rule);
