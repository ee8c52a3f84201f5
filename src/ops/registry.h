/* SPDX-License-Identifier: MIT */
/*
 * ops/registry.h - the table of protocols: modules' and osf's own
 *
 *     OSF_MODULES  ->  osf_module_init()  ->  ops_proto_register()  ->  the table
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"
#include "osf/proto.h"

#define PROTOS_MAX 16

struct protos {
	int n;
	const struct osf_proto *proto[PROTOS_MAX]; /* by falling priority */
};

/* The op, if the registrant's struct is long enough to have it. */
#define PROTO_OP(p, op)                                                        \
	((p)->size >= offsetof(struct osf_proto, op) + sizeof((p)->op)         \
	     ? (p)->op                                                         \
	     : NULL)

/* May @p register, if the caller's struct osf_proto has @known bytes?  0 or the
 * error of ops_proto_register(). */
MUST_CHECK int proto_check(const struct osf_proto *p, size_t known);
/* The same of its streams. */
MUST_CHECK int stream_check(const struct osf_stream_ops *s, size_t known);
void registry_init(void); /* loads OSF_MODULES */
/* A copy of the table as it is now.  Callers work on the copy, so they hold no
 * lock while a module runs. */
struct protos registry_protos(void);
const struct osf_proto *protos_find(const struct protos *t, const char *name);
bool registry_any(void);             /* any but osf's own? */
bool registry_has(const char *name); /* is there one of that name? */
