/* SPDX-License-Identifier: MIT */
/* cm/id.c - see cm/id.h: the table of ids */
#include <stdlib.h>

#include "base/nocancel.h"
#include "cm/id.h"

static struct cm_id *ids[N_IDS];
static uint32_t end = 1; /* above the highest in use */

uint32_t id_end(void) { return end; }

struct cm_id *id_new(struct cm_file *f, uint64_t uid, uint16_t ps,
		     uint8_t qp_type)
{
	uint32_t at = 1;

	while (at < N_IDS && ids[at])
		at++;
	struct cm_id *id = at < N_IDS ? calloc(1, sizeof(*id)) : NULL;
	if (!id)
		return NULL;
	id->handle = at;
	id->uid = uid;
	id->file = f;
	id->ps = ps;
	id->qp_type = qp_type;
	id->sock = -1;
	f->n_ids++;
	end = MAX(end, at + 1);
	return ids[at] = id;
}

struct cm_id *id_at(uint32_t handle)
{
	return handle < N_IDS ? ids[handle] : NULL;
}

struct cm_id *id_get(struct cm_file *f, uint32_t handle)
{
	struct cm_id *id = id_at(handle);

	return id && id->file == f && id->state != ID_NEW ? id : NULL;
}

/* Requests that the program has not seen end with their listener. */
static void free_children(struct cm_id *listener)
{
	for (uint32_t i = 1; i < end; i++)
		if (ids[i] && ids[i]->listener == listener)
			id_free(ids[i]);
}

void id_free(struct cm_id *id)
{
	if (id->n_new || id->n_waiting)
		free_children(id);
	if (id->listener && id->state == ID_NEW)
		id->listener->n_new--;
	else if (id->listener)
		id->listener->n_waiting--;
	events_forget(id);
	mcast_free_all(id);
	link_close(id);
	file_set_deadline(id, 0);
	id->file->n_ids--;
	ids[id->handle] = NULL;
	free(id);
	while (end > 1 && !ids[end - 1])
		end--;
}

/* In the child of a fork, where the descriptors are copies. */
void id_forget_all(void)
{
	for (uint32_t i = 1; i < end; i++)
		if (ids[i]) {
			if (ids[i]->sock >= 0)
				nocancel_close(ids[i]->sock);
			ids[i] = NULL;
		}
	end = 1;
}
