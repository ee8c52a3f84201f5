/* SPDX-License-Identifier: MIT */
/* base/list.h - circular doubly linked lists; an entry that links to itself is on no
 * list */
#pragma once

#include <stdbool.h>

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *l) { l->next = l->prev = l; }
static inline bool list_is_empty(const struct list *l) { return l->next == l; }

static inline void list_add_tail(struct list *head, struct list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

/* Moves all entries of @from behind the last one of @head, in order. */
static inline void list_splice_tail(struct list *head, struct list *from)
{
	if (list_is_empty(from))
		return;
	from->next->prev = head->prev;
	head->prev->next = from->next;
	from->prev->next = head;
	head->prev = from->prev;
	list_init(from);
}

static inline void list_del(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}
