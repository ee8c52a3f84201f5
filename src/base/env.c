/* SPDX-License-Identifier: MIT */
/* base/env.c - see base/env.h */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/env.h"
#include "base/log.h"

#define RULES "XLIO_CONFIG_FILE"
#define IS_JSON "XLIO_USE_NEW_CONFIG"
#define LEVEL "XLIO_TRACELEVEL"
#define OFFLOADED "XLIO_OFFLOADED_SOCKETS"
#define VMA_RULES "VMA_CONFIG_FILE"
#define VMA_LEVEL "VMA_TRACELEVEL"
#define VMA_OFFLOADED "VMA_OFFLOADED_SOCKETS"
#define NODELAY "XLIO_TCP_NODELAY"
#define VMA_NODELAY "VMA_TCP_NODELAY"
#define DETAILS "XLIO_LOG_DETAILS"
#define VMA_DETAILS "VMA_LOG_DETAILS"
#define VMA_SPEC "VMA_SPEC"

/* Other names of our variables: the first that is set counts. */
static const struct {
	const char *ours, *other;
} twins[] = {
	{ "OSF_UPGRADE_PINGPONGS", "OSF_UPGRADE_TURNS" }, /* its older name */
	{ "OSF_APPLICATION_ID", "XLIO_APPLICATION_ID" },
	{ "OSF_LOG_FILE", "XLIO_LOG_FILE" },
	{ "OSF_SPIN_US", "XLIO_RX_POLL" },
	{ "OSF_SPIN_US", "XLIO_SELECT_POLL" },
	{ "OSF_XLIO_MEMORY", "XLIO_MEMORY_LIMIT" },
#define AS(name, ours, text) { ours, #name },
#define DOES(name, text, effect)
#define NONE(name, text, why)
#include "base/vma_env.def"
#undef AS
#undef DOES
#undef NONE
};

static const char *said(const char *name)
{
	const char *s = secure_getenv(name);

	return s && *s ? s : NULL;
}

/* libvma's profiles for latency poll without end. */
static const char *text_of_profile(const char *name)
{
	const char *s = said(VMA_SPEC);
	bool is_latency = s && (!strcasecmp(s, "latency") ||
				!strcasecmp(s, "multi_ring_latency"));

	return is_latency && !strcmp(name, "OSF_SPIN_US") ? "-1" : NULL;
}

const char *env_name(const char *name)
{
	if (said(name))
		return name;
	for (size_t i = 0; i < ARRAY_LEN(twins); i++)
		if (!strcmp(twins[i].ours, name) && said(twins[i].other))
			return twins[i].other;
	return name;
}

const char *env_text(const char *name)
{
	const char *s = said(env_name(name));

	return s ? s : text_of_profile(name);
}

static bool is_on(const char *name)
{
	const char *s = said(name);

	return s && (!strcmp(s, "1") || !strcasecmp(s, "true"));
}

const char *env_other_rules(void)
{
	const char *xlio = is_on(IS_JSON) ? NULL : said(RULES);

	return xlio ? xlio : said(VMA_RULES);
}

int env_other_log_level(int otherwise)
{
	/* Levels begin at 0.  A lower number is as silent as 0. */
	static const char *const names[] = { "panic", "error",   "warn",
					     "info",  "details", "debug",
					     "fine",  "finer",   "all" };
	const char *s = said(LEVEL) ? said(LEVEL) : said(VMA_LEVEL);
	int level = s ? atoi(s) : 0;

	if (!s)
		return otherwise;
	for (int i = 0; i < (int)ARRAY_LEN(names); i++)
		if (!strcasecmp(s, names[i]))
			level = i;
	if (!strcasecmp(s, "func") || !strcasecmp(s, "func_all"))
		level = 6;
	if (level < 1)
		return -1;
	return level < 3   ? level - 1
	       : level < 5 ? LOG_LEVEL_INFO
			   : LOG_LEVEL_DBG;
}

int env_other_log_details(void)
{
	const char *s = said(DETAILS) ? said(DETAILS) : said(VMA_DETAILS);
	int details = s ? atoi(s) : 0;

	return details > 0 && details <= 3 ? details : 0;
}

bool env_other_leaves(void)
{
	const char *s = said(OFFLOADED) ? said(OFFLOADED) : said(VMA_OFFLOADED);

	return s && (!strcmp(s, "0") || !strcasecmp(s, "false"));
}

bool env_other_nodelay(void)
{
	return is_on(said(NODELAY) ? NODELAY : VMA_NODELAY);
}

static bool has_effect(const char *name, size_t len)
{
	static const char *const others[] = {
		IS_JSON, LEVEL, OFFLOADED, NODELAY, DETAILS,
#define AS(name, ours, text)
#define DOES(name, text, effect) #name,
#define NONE(name, text, why)
#include "base/vma_env.def"
#undef AS
#undef DOES
#undef NONE
	};

	for (size_t i = 0; i < ARRAY_LEN(twins); i++)
		if (strlen(twins[i].other) == len &&
		    !memcmp(twins[i].other, name, len))
			return true;
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (strlen(others[i]) == len && !memcmp(others[i], name, len))
			return true;
	return strlen(RULES) == len && !memcmp(RULES, name, len) &&
	       !is_on(IS_JSON);
}

void env_name_others(void)
{
	for (char **at = environ; at && *at; at++) {
		size_t len = strcspn(*at, "=");

		if ((!strncmp(*at, "XLIO_", 5) || !strncmp(*at, "VMA_", 4)) &&
		    !has_effect(*at, len))
			log_info("%.*s has no effect", (int)len, *at);
	}
}
