/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/scheme/registry.c - the devices, and drivers from before the scheme
 *
 *     osf_register_driver()  ->  table  ->  osf_get_device_list()
 *                                  |
 *                                  +->  osf_open_device(), osf_close_device()
 *
 * Devices are only ever added, so a pointer to an entry stays valid, and readers
 * need no lock.  V1: an entry is filled in before n_entries counts it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/verbs/scheme/scheme.h"
#include "base/lock.h"
#include "base/log.h"

#define DEVICES_MAX 32

static struct lock lock; /* for who adds */
static struct entry entries[DEVICES_MAX];
static int n_entries;

int registry_add(const char *name, struct entry e)
{
	if (!name || !*name || strlen(name) >= sizeof(e.device->name))
		return -EINVAL;
	GUARD(&lock);
	for (int i = 0; i < n_entries; i++)
		if (!strcmp(entries[i].device->name, name))
			return -EEXIST;
	if (n_entries == DEVICES_MAX)
		return -ENOSPC;
	strcpy(e.device->name, name);
	entries[n_entries] = e;
	store_rel(&n_entries, n_entries + 1); /* V1 */
	return 0;
}

bool ops_are_complete(const struct osf_context_ops *ops)
{
	void (*op[sizeof(*ops) / sizeof(void (*)(void))])(void);

	memcpy(op, ops, sizeof(op));
	for (size_t i = 0; i < ARRAY_LEN(op); i++)
		if (!op[i])
			return false;
	return true;
}

/* The driver allocates the context. */
static struct osf_context *legacy_open(struct entry *e)
{
	struct osf_context *context = e->device->ops->alloc_context(e->device);

	if (!context)
		return NULL;
	context->device = e->device;
	context->abi_compat = NULL;
	if (ops_are_complete(&context->ops))
		return context;
	log_err("driver %s lacks a call", e->device->name);
	e->device->ops->free_context(context);
	errno = EINVAL;
	return NULL;
}

static void legacy_close(struct entry *e, struct osf_context *context)
{
	e->device->ops->free_context(context);
}

OSF_API int osf_register_driver(const char *name, osf_driver_init_func init)
{
	if (!init)
		return -EINVAL;
	struct osf_device *device = init();
	if (!device)
		return -ENODEV;
	if (!device->ops || !device->ops->alloc_context ||
	    !device->ops->free_context)
		return -EINVAL;
	return registry_add(name, (struct entry){ .device = device,
						  .open = legacy_open,
						  .close = legacy_close });
}

OSF_API struct osf_device **osf_get_device_list(int *n)
{
	drivers_load();
	int n_devices = load_acq(&n_entries); /* V1 */
	struct osf_device **list =
	    calloc((size_t)n_devices + 1, sizeof(struct osf_device *));

	if (n)
		*n = list ? n_devices : 0;
	if (!list) {
		errno = ENOMEM;
		return NULL;
	}
	for (int i = 0; i < n_devices; i++)
		list[i] = entries[i].device;
	return list;
}

OSF_API void osf_free_device_list(struct osf_device **list) { free(list); }

OSF_API const char *osf_get_device_name(const struct osf_device *device)
{
	return device->name;
}

static struct entry *entry_of(const struct osf_device *device)
{
	int n_devices = load_acq(&n_entries); /* V1 */

	for (int i = 0; i < n_devices; i++)
		if (entries[i].device == device)
			return &entries[i];
	return NULL;
}

OSF_API struct osf_context *osf_open_device(struct osf_device *device)
{
	struct entry *e = entry_of(device);

	if (e)
		return e->open(e);
	errno = ENODEV;
	return NULL;
}

OSF_API int osf_close_device(struct osf_context *context)
{
	struct entry *e = entry_of(context->device);

	if (!e)
		return -ENODEV;
	e->close(e, context);
	return 0;
}
