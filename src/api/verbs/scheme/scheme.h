/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/scheme/scheme.h - the library's half of osf/verbs_scheme.h
 *
 *     OSF_DRIVERS -> load.c -> the driver's entry -> registry.c, registry_ex.c
 *     osf_open_device() -> entry.open() -> a context
 *     osf_f()           -> calls.c, or lib_f of calls_ex.c and calls_time.c
 *
 * The files keep the generations of the interface apart, so that tests/abi can build the
 * library as it was: registry.c, load.c and calls.c are generation 0; registry_ex.c and
 * calls_ex.c need the headers of generation 1 or later; calls_time.c needs those of
 * generation 2.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"
#include "osf/verbs_driver.h"

/* A device. */
struct entry {
	struct osf_device *device; /* what programs see */
	struct osf_context *(*open)(struct entry *e);
	void (*close)(struct entry *e, struct osf_context *context);
	void *more; /* registry_ex.c's */
};

/* Return: 0, -EINVAL, -EEXIST, -ENOSPC as osf_register_driver(). */
MUST_CHECK int registry_add(const char *name, struct entry e);
/* Has the driver filled in each of them? */
bool ops_are_complete(const struct osf_context_ops *ops);

void drivers_load(void); /* once */
/* Sets what the library owns of @cq.  Return: @cq. */
struct osf_cq *cq_fill(struct osf_cq *cq, struct osf_context *context, int cqe,
		       void *cq_context);
