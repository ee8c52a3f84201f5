/* SPDX-License-Identifier: MIT */
/*
 * ops/registry.c - see ops/registry.h
 *
 * The table changes when modules load, and hardly ever after.  Those who ask
 * modules work on a copy, so that no lock is held while a module is at work.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/setting.h"
#include "ops/registry.h"
#include "ops/route.h"
#include "osf/proto.h"

#define PROTOS_MAX 16
#define PROTO_BYTES_MAX 4096   /* a size above it is no size */
#define CONNECT_TIMEOUT_MS 200 /* of one candidate */
#define KNOWN_COMP_MASK UINT64_C(0)

/* What modules were compiled to must not move. */
static_assert(offsetof(struct osf_proto, name) == 16, "head");
static_assert(offsetof(struct osf_proto, connect) == 40, "head");
static_assert(OSF_PROTO_SIZE_1 == 64, "generation 1");
static_assert(OSF_PROTO_SIZE_2 == 80, "generation 2");
static_assert(sizeof(struct osf_route) == OSF_ROUTE_SIZE_1, "generation 1");

struct table {
	int n;
	const struct osf_proto *proto[PROTOS_MAX]; /* by falling priority */
};

static struct lock lock;
static struct table table;
static __thread bool is_inside; /* an op: its own calls are not asked of it */

/* The op, if the registrant's struct reaches that far. */
#define OP(p, op)                                                              \
	((p)->size >= offsetof(struct osf_proto, op) + sizeof((p)->op)         \
	     ? (p)->op                                                         \
	     : NULL)

static bool is_built_in(const char *name)
{
	return !strcmp(name, "os") || !strcmp(name, "inet") ||
	       !strcmp(name, "shm");
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

static int check(const struct osf_proto *p)
{
	if (!p || p->size < offsetof(struct osf_proto, connect) ||
	    p->size > PROTO_BYTES_MAX || p->reserved || p->reserved2 ||
	    !is_name(p->name))
		return -EINVAL;
	if (p->comp_mask & ~KNOWN_COMP_MASK)
		return -EOPNOTSUPP;
	if (!is_zero((const char *)(p + 1), (const char *)p + p->size))
		return -E2BIG;
	return is_built_in(p->name) || !strcmp(p->name, "osf") ? -EEXIST : 0;
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
	return 0;
}

static const char *why(int err)
{
	switch (err) {
	case -EINVAL:
		return "size, reserved fields or name are wrong";
	case -EOPNOTSUPP:
		return "comp_mask asks for what this osf does not know";
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
	int err = check(proto);

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
		return 0;
	}
	return -ENOENT;
}

bool registry_has(const char *name)
{
	GUARD(&lock);
	for (int i = 0; i < table.n; i++)
		if (!strcmp(table.proto[i]->name, name))
			return true;
	return false;
}

bool registry_any(void) { return load_rlx(&table.n); }

static struct table copy(void)
{
	struct table t = { 0 };

	if (likely(!load_acq(&table.n)))
		return t;
	GUARD(&lock);
	t = table;
	return t;
}

/* Those of the table that a rule leaves, if any. */
static struct table candidates(const char *provider)
{
	struct table t = copy();

	if (is_inside)
		t.n = 0;
	if (!t.n || !provider || !strcmp(provider, "osf"))
		return t;
	for (int i = 0; i < t.n; i++)
		if (!strcmp(t.proto[i]->name, provider))
			return (struct table){ 1, { t.proto[i] } };
	if (is_built_in(provider))
		t.n = 0;
	return t;
}

OSF_API void ops_inet_notification(const struct osf_inet_event *event)
{
	struct table t = copy();
	bool was_inside = is_inside;

	route_changed();
	is_inside = true;
	for (int i = 0; i < t.n; i++)
		if (OP(t.proto[i], notify))
			OP(t.proto[i], notify)(event);
	is_inside = was_inside;
}

static bool may_speak(const struct osf_proto *p, const struct sockaddr *to,
		      socklen_t len)
{
	if (to->sa_family == AF_INET6)
		return p->caps & OSF_CAP_IPV6 &&
		       len >= sizeof(struct sockaddr_in6);
	return to->sa_family == AF_INET;
}

/* @is_named: a rule says that this protocol is to go there. */
static bool may_reach(const struct osf_proto *p, const struct osf_route *route,
		      bool is_named)
{
	if (p->caps & OSF_CAP_SELF_ROUTING)
		return true;
	switch (route->kind) {
	case OSF_ROUTE_LOCAL:
		return p->caps & OSF_CAP_LOCAL;
	case OSF_ROUTE_LINK:
		return p->caps & OSF_CAP_REMOTE;
	case OSF_ROUTE_GATEWAY:
		return p->caps & OSF_CAP_REMOTE &&
		       (is_named || p->caps & OSF_CAP_GATEWAY);
	default:
		return false;
	}
}

/* Put @carrier where @fd is, with those flags that the program gave @fd. */
static int place(const struct osf_proto *p, int carrier, int fd)
{
	int fd_flags = libc.fcntl(fd, F_GETFD);
	int want = libc.fcntl(fd, F_GETFL), have = libc.fcntl(carrier, F_GETFL);
	int err = 0;

	if (have < 0 || carrier == fd) {
		log_err("module %s: descriptor %d is no carrier", p->name,
			carrier);
		return -EBADF;
	}
	if (((want ^ have) & O_NONBLOCK &&
	     libc.fcntl(carrier, F_SETFL, have ^ O_NONBLOCK) < 0) ||
	    libc.dup3(carrier, fd, fd_flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0)
		err = -errno;
	close(carrier); /* by its public name: it may be in the file table */
	return err;
}

int registry_connect(uint64_t id, int fd, const struct sockaddr *to,
		     socklen_t len, const char *provider)
{
	struct table t = candidates(provider);
	struct osf_route route = { .size = sizeof(route) };

	if (t.n)
		route_get(fd, to, &route);
	for (int i = 0; i < t.n; i++) {
		const struct osf_proto *p = t.proto[i];
		bool is_named = provider && !strcmp(p->name, provider);
		int carrier = -1;

		if (!OP(p, connect) || !may_speak(p, to, len) ||
		    !may_reach(p, &route, is_named))
			continue;
		is_inside = true;
		int err = OP(p, connect)(id, fd, to, len, CONNECT_TIMEOUT_MS,
					 &carrier);
		is_inside = false;
		if (!err)
			err = place(p, carrier, fd);
		if (!err)
			return 0;
		log_dbg("fd %d: %s cannot connect: %s", fd, p->name,
			strerror(-err));
	}
	return -EAGAIN;
}

int registry_accept(uint64_t listener, uint64_t id, int fd,
		    struct sockaddr_storage *from, socklen_t *len)
{
	struct table t = candidates(NULL);

	for (int i = 0; i < t.n; i++) {
		const struct osf_proto *p = t.proto[i];
		int carrier = -1;

		if (!OP(p, accept))
			continue;
		is_inside = true;
		int err = OP(p, accept)(listener, id, fd, from, len, &carrier);
		is_inside = false;
		if (!err && place(p, carrier, fd))
			err = -ECONNABORTED;
		if (!err || err == -ECONNABORTED)
			return err;
	}
	return -EAGAIN;
}

void registry_listen(uint64_t id, int fd, int backlog, const char *provider)
{
	struct table t = candidates(provider);

	for (int i = 0; i < t.n; i++) {
		if (!OP(t.proto[i], listen))
			continue;
		is_inside = true;
		int err = OP(t.proto[i], listen)(id, fd, backlog);
		is_inside = false;
		if (err)
			log_warn("fd %d: %s cannot listen: %s", fd,
				 t.proto[i]->name, strerror(-err));
	}
}

void registry_close(uint64_t id)
{
	struct table t = copy();

	for (int i = 0; i < t.n; i++)
		if (OP(t.proto[i], close))
			OP(t.proto[i], close)(id);
}

/* A module that fails is not unloaded, only not asked: who knows what points to
 * it by then. */
static void load(const char *path)
{
	struct table before = copy();
	void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int (*init)(void);

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
