/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/scheme/registry_ex.c - drivers since the scheme, and their contexts
 *
 *     osf_register_driver_ex()  ->  table of registry.c
 *     osf_open_device()  ->  ex_open()  ->  driver_init()
 *
 * Each context has a mapping of its own:
 *
 *     | page without access | drv_f, lib_f ... has_ex, sz, osf_context | priv |
 *                           ^ page boundary
 *
 * So a driver that writes a member which this library does not have faults, instead of
 * changing somebody's memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/verbs/scheme/scheme_ex.h"
#include "base/log.h"

#define PRIV_MAX (1u << 20)

static_assert(offsetof(struct osf_context_ex, context) +
		      sizeof(struct osf_context) ==
		  sizeof(struct osf_context_ex),
	      "the context is last");
static_assert(offsetof(struct osf_context_ex, context) % 16 == 0,
	      "a context is aligned as malloc() would align it");
static_assert(offsetof(struct osf_context_ex, sz) + sizeof(size_t) ==
		  offsetof(struct osf_context_ex, context),
	      "sz stands right before it, where each generation finds it");

/* A driver's registration. */
struct driver {
	struct osf_driver_init_ex init;
	size_t priv_sz;
	struct osf_device device;
};

static size_t guard_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static size_t context_bytes(const struct driver *d)
{
	return guard_bytes() + sizeof(struct osf_context_ex) + d->priv_sz;
}

static struct osf_context_ex *context_new(const struct driver *d)
{
	char *at = mmap(NULL, context_bytes(d), PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	if (mprotect(at + guard_bytes(), context_bytes(d) - guard_bytes(),
		     PROT_READ | PROT_WRITE)) {
		munmap(at, context_bytes(d));
		return NULL;
	}
	struct osf_context_ex *ex = (void *)(at + guard_bytes());

#define FILL(name) ex->lib_##name = lib_##name;
	OSF_VERBS_CALLS(FILL)
#undef FILL
	ex->sz = sizeof(*ex);
	ex->context.abi_compat = OSF_ABI_EXTENDED;
	return ex;
}

static void context_free(const struct driver *d, struct osf_context_ex *ex)
{
	munmap((char *)ex - guard_bytes(), context_bytes(d));
}

static struct osf_context *ex_open(struct entry *e)
{
	struct driver *d = e->more;
	struct osf_context_ex *ex = context_new(d);

	if (!ex) {
		errno = ENOMEM;
		return NULL;
	}
	ex->context.device = e->device;
	int err = d->init.driver_init(e->device, &ex->context);
	if (!err && ops_are_complete(&ex->context.ops))
		return &ex->context;
	if (!err) {
		log_err("driver %s lacks a call", e->device->name);
		if (d->init.driver_uninit)
			d->init.driver_uninit(&ex->context);
	}
	context_free(d, ex);
	errno = err ? -err : EINVAL;
	return NULL;
}

static void ex_close(struct entry *e, struct osf_context *context)
{
	struct driver *d = e->more;
	struct osf_context_ex *ex = osf_get_ctx_ex(context);

	if (d->init.driver_uninit)
		d->init.driver_uninit(context);
	context_free(d, ex);
}

/* Copies what this library knows of @from, which reaches @size bytes. */
static int init_copy(struct osf_driver_init_ex *to,
		     const struct osf_driver_init_ex *from, size_t size)
{
	const char *bytes = (const char *)from;

	if (!OSF_SIZE_HAS(size, struct osf_driver_init_ex, driver_init))
		return -EINVAL;
	for (size_t i = sizeof(*to); i < size; i++)
		if (bytes[i])
			return -E2BIG;
	memcpy(to, from, MIN(size, sizeof(*to)));
	return to->driver_init ? 0 : -EINVAL;
}

OSF_API int osf_register_driver_ex(const char *name,
				   const struct osf_driver_init_ex *init,
				   size_t init_sz, size_t priv_sz)
{
	struct driver *d = calloc(1, sizeof(*d));
	int err = !d                   ? -ENOMEM
		  : priv_sz > PRIV_MAX ? -EINVAL
				       : init_copy(&d->init, init, init_sz);

	if (!err) {
		d->priv_sz = priv_sz;
		err = registry_add(name, (struct entry){ .device = &d->device,
							 .open = ex_open,
							 .close = ex_close,
							 .more = d });
	}
	if (err)
		free(d);
	return err;
}
