/* SPDX-License-Identifier: MIT */
/* ops/registry.c - see ops/registry.h */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "base/log.h"
#include "ops/local.h"
#include "ops/registry.h"
#include "osf/proto.h"

#define PROTOS_MAX 16
#define CONNECT_TIMEOUT_MS 200 /* of one candidate */
#define KNOWN_COMP_MASK UINT64_C(0)

static struct lock lock;
static const struct osf_proto *protos[PROTOS_MAX]; /* by falling priority */
static int n_protos;

/* The op, if the registrant's struct reaches that far. */
#define OP(p, op)                                                              \
	((p)->size >= offsetof(struct osf_proto, op) + sizeof((p)->op)         \
	     ? (p)->op                                                         \
	     : NULL)

static int check(const struct osf_proto *p)
{
	if (!p || p->size < offsetof(struct osf_proto, connect) || !p->name ||
	    p->comp_mask & ~KNOWN_COMP_MASK)
		return -EINVAL;
	size_t len = strnlen(p->name, 16);
	if (!len || len > 15 ||
	    strspn(p->name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != len)
		return -EINVAL;
	if (!strcmp(p->name, "os") || !strcmp(p->name, "inet") ||
	    !strcmp(p->name, "shm") || !strcmp(p->name, "osf"))
		return -EEXIST;
	return 0;
}

OSF_API int ops_proto_register(const struct osf_proto *proto)
{
	int err = check(proto), at = 0;

	if (err)
		return err;
	GUARD(&lock);
	for (int i = 0; i < n_protos; i++) {
		if (!strcmp(protos[i]->name, proto->name))
			return -EEXIST;
		if (protos[i]->priority >= proto->priority)
			at = i + 1;
	}
	if (n_protos == PROTOS_MAX)
		return -ENOSPC;
	memmove(&protos[at + 1], &protos[at],
		(size_t)(n_protos - at) * sizeof(protos[0]));
	protos[at] = proto;
	store_rel(&n_protos, n_protos + 1);
	return 0;
}

OSF_API int ops_proto_unregister(const struct osf_proto *proto)
{
	GUARD(&lock);
	for (int i = 0; i < n_protos; i++) {
		if (protos[i] != proto)
			continue;
		memmove(&protos[i], &protos[i + 1],
			(size_t)(n_protos - i - 1) * sizeof(protos[0]));
		store_rel(&n_protos, n_protos - 1);
		return 0;
	}
	return -ENOENT;
}

/* A copy, so that no lock is held while a module is at work. */
static int snapshot(const struct osf_proto *out[PROTOS_MAX])
{
	if (likely(!load_acq(&n_protos)))
		return 0;
	GUARD(&lock);
	memcpy(out, protos, sizeof(protos));
	return n_protos;
}

OSF_API void ops_inet_notification(const struct osf_inet_event *event)
{
	const struct osf_proto *all[PROTOS_MAX];
	int n = snapshot(all);

	local_changed();
	for (int i = 0; i < n; i++)
		if (OP(all[i], notify))
			OP(all[i], notify)(event);
}

static bool may_reach(const struct osf_proto *p, const struct sockaddr *to)
{
	if (to->sa_family == AF_INET6 && !(p->caps & OSF_CAP_IPV6))
		return false;
	return p->caps & (local_is_local(to) ? OSF_CAP_LOCAL : OSF_CAP_REMOTE);
}

int registry_connect(int fd, const struct sockaddr *to, socklen_t len,
		     const char *provider)
{
	const struct osf_proto *all[PROTOS_MAX];
	int n = snapshot(all), err = -EAGAIN;

	if (provider && (!strcmp(provider, "os") || !strcmp(provider, "inet") ||
			 !strcmp(provider, "shm")))
		return err;
	for (int i = 0; i < n && err; i++) {
		if (!OP(all[i], connect) || !may_reach(all[i], to) ||
		    (provider && strcmp(provider, "osf") &&
		     strcmp(provider, all[i]->name)))
			continue;
		err = OP(all[i], connect)(fd, to, len, CONNECT_TIMEOUT_MS);
		if (err)
			log_dbg("fd %d: %s cannot connect: %s", fd,
				all[i]->name, strerror(-err));
	}
	return err;
}

void registry_listen(int fd, int backlog)
{
	const struct osf_proto *all[PROTOS_MAX];
	int n = snapshot(all);

	for (int i = 0; i < n; i++)
		if (OP(all[i], listen))
			OP(all[i], listen)(fd, backlog);
}

static void load(const char *path)
{
	void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int (*init)(void);

	if (!so) {
		log_err("module %s: %s", path, dlerror());
		return;
	}
	*(void **)&init = dlsym(so, "osf_module_init");
	int err = init ? init() : -ENOENT;
	if (err)
		log_err("module %s: osf_module_init: %s", path, strerror(-err));
}

void registry_init(void)
{
	const char *paths = getenv("OSF_MODULES");
	char path[512];

	while (paths && *paths) {
		size_t len = strcspn(paths, ":");

		if (len && len < sizeof(path)) {
			snprintf(path, sizeof(path), "%.*s", (int)len, paths);
			load(path);
		}
		paths += len + (paths[len] == ':');
	}
}
