/* SPDX-License-Identifier: MIT */
/*
 * tests/differential/known.c - the differences that we know; see known.txt
 *
 * An entry has a name, a rule, one or more witnesses, and a reason.  The rule is an
 * extended regular expression (with \1 for a group) that matches the whole text of a
 * difference:
 *
 *     STEP => kernel: WHAT | engine: WHAT
 *
 * With the line "then: the same" the comparison goes on after the difference.
 */
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "differential.h"

/* Return: the text behind the name of a line, or NULL. */
static char *field(const char *line, const char *name)
{
	size_t len = strlen(name);

	return strncmp(line, name, len) ? NULL : strdup(line + len);
}

static bool rule_compile(struct known *k, const char *text)
{
	char whole[2000];
	regex_t *re = malloc(sizeof(*re));

	snprintf(whole, sizeof(whole), "^%s$", text);
	if (!re || regcomp(re, whole, REG_EXTENDED | REG_NOSUB)) {
		free(re);
		return false;
	}
	k->rule = re;
	return true;
}

static bool witness_add(struct known *k, const char *text)
{
	struct sequence *more =
	    realloc(k->witnesses, (k->n_witnesses + 1) * sizeof(*k->witnesses));

	if (!more)
		return false;
	k->witnesses = more;
	return sequence_parse(&more[k->n_witnesses++], text);
}

static bool line_read(struct known_list *l, const char *line)
{
	struct known *k = l->n ? &l->k[l->n - 1] : NULL;
	char *text;
	bool is_good = true;

	if ((text = field(line, "name: "))) {
		if (l->n == KNOWN_MAX)
			return false;
		l->k[l->n++] = (struct known){ .name = text };
		return true;
	}
	if (!k)
		return false;
	if ((text = field(line, "rule: "))) {
		is_good = !k->rule && rule_compile(k, text);
	} else if ((text = field(line, "witness: "))) {
		is_good = witness_add(k, text);
	} else if ((text = field(line, "then: "))) {
		is_good = k->is_over = !strcmp(text, "the same");
	} else if ((text = field(line, "reason: "))) {
		k->reason = text;
		return true;
	}
	free(text);
	return is_good && text;
}

bool known_read(struct known_list *l, const char *path)
{
	FILE *f = fopen(path, "r");
	char line[4000];
	unsigned at = 0;
	bool is_good = true;

	*l = (struct known_list){ 0 };
	if (!f) {
		perror(path);
		return false;
	}
	while (is_good && fgets(line, sizeof(line), f)) {
		at++;
		line[strcspn(line, "\n")] = '\0';
		if (line[0] && line[0] != '#')
			is_good = line_read(l, line);
	}
	fclose(f);
	for (uint32_t i = 0; i < l->n && is_good; i++)
		is_good = l->k[i].rule && l->k[i].n_witnesses && l->k[i].reason;
	if (!is_good)
		fprintf(stderr, "%s: not understood, near line %u\n", path, at);
	return is_good;
}

struct known *known_find(struct known_list *l, const char *difference)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (!regexec(l->k[i].rule, difference, 0, NULL, 0)) {
			l->k[i].n_used++;
			return &l->k[i];
		}
	return NULL;
}

void known_free(struct known_list *l)
{
	for (uint32_t i = 0; i < l->n; i++) {
		free(l->k[i].name);
		free(l->k[i].reason);
		free(l->k[i].witnesses);
		if (l->k[i].rule)
			regfree(l->k[i].rule);
		free(l->k[i].rule);
	}
}
