/* SPDX-License-Identifier: MIT */
/* base/list.h - circular doubly linked lists; an entry that links to itself is on no
 * list.  Who changes a list holds a lock; list_is_empty() may be asked without it. */
#pragma once

#include <stdbool.h>

#include "base/atomic.h"

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
	store_rlx(&l->next, l);
	l->prev = l;
}

static inline bool list_is_empty(const struct list *l)
{
	return load_rlx(&l->next) == l;
}

static inline void list_add_tail(struct list *head, struct list *l)
{
	l->prev = head->prev;
	store_rlx(&l->next, head);
	store_rlx(&head->prev->next, l);
	head->prev = l;
}

/* Moves all entries of @from behind the last one of @head, in order. */
static inline void list_splice_tail(struct list *head, struct list *from)
{
	if (list_is_empty(from))
		return;
	from->next->prev = head->prev;
	store_rlx(&head->prev->next, from->next);
	store_rlx(&from->prev->next, head);
	head->prev = from->prev;
	list_init(from);
}

static inline void list_del(struct list *l)
{
	store_rlx(&l->prev->next, l->next);
	l->next->prev = l->prev;
	list_init(l);
}
