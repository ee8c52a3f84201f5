/* SPDX-License-Identifier: MIT */
/*
 * tests/differential/text.c - converts a sequence to text and back
 *
 *     listen seg:S,0,0,0,w65535,m1460,k,t,x7 seg:A,0,0,0,w1000,t accept send:100
 *
 * A segment has its flags (F S R P A U E C, or "-" for none), its numbers as in struct
 * seg_step, and its length.  Then follow in any order: wN the window, mN the MSS, xN
 * the window scale, k SACK permitted, t timestamps, o old timestamps, sA:B a SACK
 * block.
 */
#include <stdlib.h>
#include <string.h>

#include "differential.h"

static const char letters[] = "FSRPAUEC";

static const struct {
	const char *name;
	int n_args;
} kinds[] = {
#define S(name, text, n_args) { text, n_args },
#include "steps.def"
#undef S
};

void flags_print(char *out, unsigned flags)
{
	char *at = out;

	for (unsigned i = 0; i < 8; i++)
		if (flags & 1u << i)
			*at++ = letters[i];
	if (at == out)
		*at++ = '-';
	*at = '\0';
}

/* Return: bytes written; @len is TAGS_TEXT_MAX at least. */
int tags_print(char *out, size_t len, unsigned tags)
{
	static const char *const names[] = {
#define T(name, text) text,
#include "tags.def"
#undef T
	};
	int n = 0;

	*out = '\0';
	for (unsigned i = 0; i < TAGS; i++)
		if (tags & 1u << i)
			n += snprintf(out + n, len - (size_t)n, "[%s] ",
				      names[i]);
	return n;
}

static int seg_print(char *out, size_t len, const struct seg_step *s)
{
	char flags[9];
	int n;

	flags_print(flags, s->flags);
	n = snprintf(out, len, "seg:%s,%d,%d,%u,w%u", flags, s->seq, s->ack,
		     s->len, s->wnd);
	if (s->mss)
		n += snprintf(out + n, len - (size_t)n, ",m%u", s->mss);
	if (s->is_sack_ok)
		n += snprintf(out + n, len - (size_t)n, ",k");
	if (s->has_ts)
		n += snprintf(out + n, len - (size_t)n, ",%c",
			      s->is_ts_old ? 'o' : 't');
	if (s->wscale != TCP_NO_WSCALE)
		n += snprintf(out + n, len - (size_t)n, ",x%u", s->wscale);
	for (unsigned i = 0; i < s->n_sacks; i++)
		n += snprintf(out + n, len - (size_t)n, ",s%d:%d",
			      s->sacks[i].from, s->sacks[i].to);
	return n;
}

/* Return: bytes written; @len is 160 at least. */
int step_print(char *out, size_t len, const struct step *s)
{
	if (s->kind == STEP_SEG)
		return seg_print(out, len, &s->seg);
	if (kinds[s->kind].n_args)
		return snprintf(out, len, "%s:%d", kinds[s->kind].name, s->arg);
	return snprintf(out, len, "%s", kinds[s->kind].name);
}

void sequence_print(FILE *f, const struct sequence *q)
{
	char text[200];

	for (uint32_t i = 0; i < q->n; i++) {
		step_print(text, sizeof(text), &q->steps[i]);
		fprintf(f, "%s%s", i ? " " : "", text);
	}
}

static bool seg_option(struct seg_step *s, const char *text)
{
	char *end = NULL;
	long v = strtol(text + 1, &end, 10);

	switch (text[0]) {
	case 'w':
		s->wnd = (uint32_t)v;
		return true;
	case 'm':
		s->mss = (uint16_t)v;
		return true;
	case 'x':
		s->wscale = (uint8_t)v;
		return true;
	case 'k':
		s->is_sack_ok = true;
		return true;
	case 't':
	case 'o':
		s->has_ts = true;
		s->is_ts_old = text[0] == 'o';
		return true;
	case 's':
		if (*end != ':' || s->n_sacks == TCP_SACK_MAX)
			return false;
		s->sacks[s->n_sacks].from = (int32_t)v;
		s->sacks[s->n_sacks++].to = (int32_t)strtol(end + 1, NULL, 10);
		return true;
	}
	return false;
}

static bool seg_parse(struct seg_step *s, char *text)
{
	char *rest, *flags = strtok_r(text, ",", &rest);
	long num[3];

	*s = (struct seg_step){ .wscale = TCP_NO_WSCALE };
	if (!flags)
		return false;
	for (; *flags; flags++) {
		const char *at = strchr(letters, *flags);

		if (at)
			s->flags |= (uint8_t)(1u << (at - letters));
		else if (*flags != '-')
			return false;
	}
	for (int i = 0; i < 3; i++) {
		char *part = strtok_r(NULL, ",", &rest);

		if (!part)
			return false;
		num[i] = strtol(part, NULL, 10);
	}
	s->seq = (int32_t)num[0];
	s->ack = (int32_t)num[1];
	s->len = (uint32_t)num[2];
	for (char *o; (o = strtok_r(NULL, ",", &rest));)
		if (!seg_option(s, o))
			return false;
	return true;
}

static bool step_parse(struct step *s, char *text)
{
	char *args = strchr(text, ':');

	if (args)
		*args++ = '\0';
	for (unsigned i = 0; i < STEP_KINDS; i++) {
		if (strcmp(kinds[i].name, text) != 0)
			continue;
		*s = (struct step){ .kind = (enum step_kind)i };
		if (i == STEP_SEG)
			return args && seg_parse(&s->seg, args);
		if (kinds[i].n_args && !args)
			return false;
		s->arg = args ? atoi(args) : 0;
		return true;
	}
	return false;
}

bool sequence_parse(struct sequence *q, const char *text)
{
	char *copy = strdup(text), *rest;

	*q = (struct sequence){ 0 };
	if (!copy)
		return false;
	for (char *t = strtok_r(copy, " \n", &rest); t;
	     t = strtok_r(NULL, " \n", &rest)) {
		if (q->n == STEPS_MAX || !step_parse(&q->steps[q->n], t)) {
			free(copy);
			return false;
		}
		q->n++;
	}
	free(copy);
	return q->n > 0;
}
