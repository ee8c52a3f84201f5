/* SPDX-License-Identifier: MIT */
/* osfd/policy.c - the policy's text, read and written; see policy.h */
#include "osfd/policy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 256
#define WORDS_MAX 8

/* Cuts a line into words, in place.  Return: how many, or -EINVAL for too many */
static int words_of(char *line, char *words[WORDS_MAX])
{
	char *save, *w;
	int n = 0;

	line[strcspn(line, "#")] = '\0';
	for (w = strtok_r(line, " \t\r", &save); w;
	     w = strtok_r(NULL, " \t\r", &save)) {
		if (n == WORDS_MAX)
			return -EINVAL;
		words[n++] = w;
	}
	return n;
}

static bool number_of(const char *word, uint32_t max, uint32_t *out)
{
	char *end;

	if (*word < '0' || *word > '9')
		return false;
	errno = 0;
	unsigned long v = strtoul(word, &end, 10);
	if (errno || *end || v > max)
		return false;
	*out = (uint32_t)v;
	return true;
}

static int port_of(char **words, int n, policy_user *user_of,
		   struct msg_port *out)
{
	struct msg_port p = { .n_flows = POLICY_FLOWS };

	if (n < 2 || n % 2 || strcmp(words[0], "port") != 0 ||
	    strlen(words[1]) >= sizeof(p.dev))
		return -EINVAL;
	strcpy(p.dev, words[1]);
	for (int i = 2; i < n; i += 2) {
		const char *value = words[i + 1];

		if (strcmp(words[i], "user") == 0) {
			if (!number_of(value, UINT32_MAX - 1, &p.uid) &&
			    !user_of(value, &p.uid))
				return -ENOENT;
		} else if (strcmp(words[i], "flows") != 0 ||
			   !number_of(value, MSG_FLOWS_MAX, &p.n_flows) ||
			   !p.n_flows) {
			return -EINVAL;
		}
	}
	*out = p;
	return 0;
}

/* Return: 1 for a port, 0 for a line without one, or a negative errno */
static int line_parse(const char *text, size_t len, policy_user *user_of,
		      struct msg_port *out)
{
	char line[LINE_MAX_BYTES], *words[WORDS_MAX];

	if (len >= sizeof(line) || memchr(text, 0, len))
		return -EINVAL;
	memcpy(line, text, len);
	line[len] = '\0';
	int n = words_of(line, words);
	if (n <= 0)
		return n;
	int err = port_of(words, n, user_of, out);
	return err ? err : 1;
}

int policy_parse(const char *text, size_t len, policy_user *user_of,
		 struct msg_port *out, int max, unsigned *line)
{
	int n = 0;

	*line = 0;
	for (size_t at = 0; at < len;) {
		const char *nl = memchr(text + at, '\n', len - at);
		size_t n_bytes = nl ? (size_t)(nl - text) - at : len - at;
		struct msg_port p;

		++*line;
		int got = line_parse(text + at, n_bytes, user_of, &p);
		if (got < 0)
			return got;
		if (got && n == max)
			return -ENOSPC;
		if (got)
			out[n++] = p;
		at += n_bytes + 1;
	}
	return n;
}

int policy_print(const struct msg_port *p, char *line, size_t size)
{
	return snprintf(line, size, "port %s user %u flows %u\n", p->dev,
			p->uid, p->n_flows);
}
