/* SPDX-License-Identifier: MIT */
/*
 * ops/policy.h - the rules in force for this process
 *
 *     OSF_RULES, then OSF_CONFIG_FILE or /etc/osf.conf  ->  policy_*()
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "ops/rules.h"

/* Reads the rules after modules are loaded.  -EINVAL: a rule is wrong; it has
 * warned, and no rule is in force. */
MUST_CHECK int policy_init(void);
/* Adds a line before all others, for future connections.  -EINVAL: no rule. */
MUST_CHECK int policy_add(const char *line);
bool policy_has_rules(void);
bool policy_all_os(void);
/* The provider of the matching rule, NULL for none. */
const char *policy_provider(enum rule_role role, const struct sockaddr *first,
			    const struct sockaddr *second);
