/* SPDX-License-Identifier: MIT */
/*
 * tests/differential/compare.c - where two runs of a sequence differ, and whether we know why
 *
 *     the observations of each step, twice -> verdict_of(): the first difference that counts
 *
 * Most known differences leave the two stacks in different states and end the
 * comparison.  After one whose entry says "then: the same" it goes on.
 */
#include <string.h>

#include "differential.h"

/* Return: the first step from @i on at which the runs differ, or the number of steps */
static uint32_t next_difference(const struct run *k, const struct run *e,
				uint32_t i)
{
	while (i < k->q->n && !strcmp(k->said[i], e->said[i]))
		i++;
	return i;
}

static void difference_text(char *out, size_t len, const struct run *k,
			    const struct run *e, uint32_t at)
{
	char step[200], tags[TAGS_TEXT_MAX];

	step_print(step, sizeof(step), &k->q->steps[at]);
	tags_print(tags, sizeof(tags), k->tags[at] | e->tags[at]);
	snprintf(out, len, "%s%s => kernel: %s | engine: %s", tags, step,
		 k->said[at], e->said[at]);
}

void verdict_of(struct verdict *v, struct known_list *l, const struct run *k,
		const struct run *e)
{
	*v = (struct verdict){ .is_wrong = false };
	for (uint32_t i = 0; (i = next_difference(k, e, i)) < k->q->n; i++) {
		struct known *why;

		difference_text(v->text, sizeof(v->text), k, e, i);
		v->at = i;
		why = known_find(l, v->text);
		v->is_wrong = !why;
		if (!v->why || !why)
			v->why = why;
		if (!why || !why->is_over)
			return;
	}
}
