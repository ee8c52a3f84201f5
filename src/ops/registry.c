/* SPDX-License-Identifier: MIT */
/*
 * ops/registry.c - see ops/registry.h
 *
 * The table changes when modules load, and hardly ever after that.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/setting.h"
#include "ops/builtin.h"
#include "ops/registry.h"
#include "ops/route.h"

#define PROTO_BYTES_MAX 4096 /* a size above it is no size */
#define KNOWN_COMP_MASK UINT64_C(0)
#define KNOWN_STREAM_MASK OSF_STREAM_SERIAL

/* Modules were compiled with these offsets: they must not change. */
static_assert(offsetof(struct osf_proto, name) == 16, "head");
static_assert(offsetof(struct osf_proto, connect) == 40, "head");
static_assert(OSF_PROTO_SIZE_1 == 64, "generation 1");
static_assert(OSF_PROTO_SIZE_2 == 80, "generation 2");
static_assert(OSF_PROTO_SIZE_3 == 88, "generation 3");
static_assert(OSF_STREAM_SIZE_1 == 160, "generation 1 of streams");
static_assert(sizeof(struct osf_route) == OSF_ROUTE_SIZE_1, "generation 1");

static struct lock lock;
static struct protos table;
static int n_modules; /* those in it that are not osf's own */

/* Words of the rules, and names of osf's own. */
static bool is_reserved(const char *name)
{
	static const char *const names[] = { "os", "osf", "inet", "shm",
					     "tcp" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static bool is_name(const char *name)
{
	size_t len = name ? strnlen(name, 16) : 0;

	return len && len <= 15 &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == len;
}

static bool is_zero(const char *from, const char *to)
{
	while (from < to && !*from)
		from++;
	return from >= to;
}

#define HAS(s, op)                                                             \
	((s)->size >= offsetof(struct osf_stream_ops, op) + sizeof((s)->op) && \
	 (s)->op)

/* May a module register these operations, of which its caller knows @known bytes?  The
 * struct may end before the optional ones. */
int stream_check(const struct osf_stream_ops *s, size_t known)
{
	if (s->size < offsetof(struct osf_stream_ops, pair) ||
	    s->size > PROTO_BYTES_MAX || s->reserved)
		return -EINVAL;
	if (s->comp_mask & ~KNOWN_STREAM_MASK)
		return -EOPNOTSUPP;
	if (!is_zero((const char *)s + known, (const char *)s + s->size))
		return -E2BIG;
	return (HAS(s, pair) || HAS(s, connect) || HAS(s, accept)) &&
		       HAS(s, send) && HAS(s, recv) && HAS(s, events) &&
		       HAS(s, close)
		   ? 0
		   : -EINVAL;
}

int proto_check(const struct osf_proto *p, size_t known)
{
	if (!p || p->size < offsetof(struct osf_proto, connect) ||
	    p->size > PROTO_BYTES_MAX || p->reserved || p->reserved2 ||
	    !is_name(p->name))
		return -EINVAL;
	if (p->comp_mask & ~KNOWN_COMP_MASK)
		return -EOPNOTSUPP;
	if (!is_zero((const char *)p + known, (const char *)p + p->size))
		return -E2BIG;
	if (known >= OSF_PROTO_SIZE_3 && PROTO_OP(p, stream)) {
		int err = stream_check(p->stream, OSF_STREAM_SIZE_1);

		if (!err && (p->connect || p->listen || p->accept))
			err = -EINVAL;
		if (err)
			return err;
	}
	return is_reserved(p->name) && !is_builtin(p) ? -EEXIST : 0;
}

/* A protocol wants notify(): sleeping threads must receive events, too. */
static void watch_locked(void)
{
	bool wanted = false;

	for (int i = 0; i < table.n; i++)
		wanted |= PROTO_OP(table.proto[i], notify) != NULL;
	route_watch(wanted);
}

static int add(const struct osf_proto *proto)
{
	int at = 0;

	GUARD(&lock);
	for (int i = 0; i < table.n; i++) {
		if (!strcmp(table.proto[i]->name, proto->name))
			return -EEXIST;
		if (table.proto[i]->priority >= proto->priority)
			at = i + 1;
	}
	if (table.n == PROTOS_MAX)
		return -ENOSPC;
	memmove(&table.proto[at + 1], &table.proto[at],
		(size_t)(table.n - at) * sizeof(table.proto[0]));
	table.proto[at] = proto;
	store_rel(&table.n, table.n + 1);
	count(&n_modules, !is_builtin(proto));
	watch_locked();
	return 0;
}

static const char *why(int err)
{
	switch (err) {
	case -EINVAL:
		return "size, reserved fields or name are wrong";
	case -EOPNOTSUPP:
		return "it asks for what this osf does not do";
	case -E2BIG:
		return "made for a newer osf, and uses what is new there";
	case -EEXIST:
		return "there is one of that name";
	default:
		return "there are too many";
	}
}

OSF_API int ops_proto_register(const struct osf_proto *proto)
{
	int err = proto_check(proto, sizeof(*proto));

	if (!err)
		err = add(proto);
	if (err)
		log_err("protocol %s not registered: %s",
			err == -EINVAL ? "(unnamed)" : proto->name, why(err));
	else
		log_info("protocol %s registered, priority %d", proto->name,
			 (int)proto->priority);
	return err;
}

OSF_API int ops_proto_unregister(const struct osf_proto *proto)
{
	GUARD(&lock);
	for (int i = 0; i < table.n; i++) {
		if (table.proto[i] != proto)
			continue;
		memmove(&table.proto[i], &table.proto[i + 1],
			(size_t)(table.n - i - 1) * sizeof(table.proto[0]));
		store_rel(&table.n, table.n - 1);
		count(&n_modules, -!is_builtin(proto));
		watch_locked();
		return 0;
	}
	return -ENOENT;
}

bool registry_any(void) { return load_rlx(&n_modules); }

struct protos registry_protos(void)
{
	GUARD(&lock);
	return table;
}

const struct osf_proto *protos_find(const struct protos *t, const char *name)
{
	for (int i = 0; i < t->n; i++)
		if (!strcmp(t->proto[i]->name, name))
			return t->proto[i];
	return NULL;
}

bool registry_has(const char *name)
{
	struct protos t = registry_protos();

	return protos_find(&t, name) != NULL;
}

/* dlopen() of a FIFO waits for whoever writes there. */
static bool would_wait(const char *path)
{
	struct stat st;

	return strchr(path, '/') && !stat(path, &st) && !S_ISREG(st.st_mode);
}

/* If a module fails, stop asking it but do not unload it: other code may
 * already point to it. */
static void load(const char *path)
{
	struct protos before = registry_protos();
	int n_before = n_modules;
	int (*init)(void);

	if (would_wait(path)) {
		setting_warn("OSF_MODULES: module not loaded: %s is not a "
			     "regular file",
			     path);
		return;
	}
	void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!so) {
		setting_warn("OSF_MODULES: module not loaded: %s", dlerror());
		return;
	}
	*(void **)&init = dlsym(so, "osf_module_init");
	if (!init) {
		setting_warn("OSF_MODULES: module %s: has no osf_module_init",
			     path);
		dlclose(so);
		return;
	}
	int err = init();
	if (err) {
		setting_warn("OSF_MODULES: module %s: not used: "
			     "osf_module_init: %s",
			     path, strerror(-err));
		GUARD(&lock);
		table = before;
		n_modules = n_before;
		watch_locked();
	}
}

static void fork_prepare(void) { lock_get(&lock); }
static void fork_parent(void) { lock_put(&lock); }
static void fork_child(void) { lock_put(&lock); } /* held since prepare */

void registry_init(void)
{
	const char *paths = secure_getenv("OSF_MODULES");
	char path[512];

	if (paths && *paths)
		pthread_atfork(fork_prepare, fork_parent, fork_child);
	while (paths && *paths) {
		size_t len = strcspn(paths, ":");

		if (len >= sizeof(path)) {
			setting_warn("OSF_MODULES: module not loaded: its path "
				     "is too long");
		} else if (len) {
			snprintf(path, sizeof(path), "%.*s", (int)len, paths);
			load(path);
		}
		paths += len + (paths[len] == ':');
	}
}
