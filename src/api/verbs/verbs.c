/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/verbs.c - the protection domain of sockets
 *
 *     verbs_pd() -> pd -> ibv_reg_mr() -> mr.lkey, the key of a send (group/memory.h)
 *
 * If libosf-verbs.so is loaded, the domain is one of that library's device (sockets_pd.h).
 * The rest of this file is for programs without it.
 *
 * No transport of ours needs registered memory, but programs must get an lkey, and memory
 * in a shared mapping can be sent by reference (group/memory.h).  So we define libibverbs'
 * three functions, serve our one pd, and pass calls on every other pd on to libibverbs.
 * The names are unversioned: references to any version bind to us if we come first.  If
 * libibverbs comes first, it finds us through the pd's context (device.h).
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/verbs/device.h"
#include "api/verbs/sockets_pd.h"
#include "api/verbs/verbs.h"
#include "base/lock.h"
#include "group/memory.h"

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			  int access);
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
				uint64_t iova, unsigned access);
int ibv_dereg_mr(struct ibv_mr *mr);

static struct ibv_pd pd = { .handle = 1 };

/* A registration of our pd; found by address. */
struct mr {
	struct ibv_mr mr;
	struct mr *next;
};

static_assert(MEMORY_KEY_BITS == SOCKETS_KEY_BITS,
	      "of keys that have one source");

static struct lock lock;
static struct mr *mrs;

static struct ibv_mr *mr_new(void *addr, size_t length)
{
	struct mr *r = calloc(1, sizeof(*r));

	if (!r) {
		errno = ENOMEM;
		return NULL;
	}
	uint32_t key = memory_register(addr, length);
	if (!key) {
		free(r);
		errno = ENOMEM;
		return NULL;
	}
	GUARD(&lock);
	r->mr = (struct ibv_mr){ .context = pd.context,
				 .pd = &pd,
				 .addr = addr,
				 .length = length,
				 .handle = key,
				 .lkey = key,
				 .rkey = key };
	r->next = mrs;
	mrs = r;
	return &r->mr;
}

/* True: it was ours. */
static bool mr_free(struct ibv_mr *mr)
{
	GUARD(&lock);
	for (struct mr **pr = &mrs; *pr; pr = &(*pr)->next) {
		struct mr *r = *pr;

		if (&r->mr != mr)
			continue;
		*pr = r->next;
		memory_deregister(r->mr.lkey);
		free(r);
		return true;
	}
	return false;
}

/* libibverbs' functions call these for our context. */

static struct ibv_mr *device_reg(struct ibv_pd *of, void *addr, size_t length)
{
	if (of == &pd)
		return mr_new(addr, length);
	errno = EINVAL;
	return NULL;
}

static int device_dereg(struct ibv_mr *mr) { return mr_free(mr) ? 0 : EINVAL; }

static const struct device_calls device_calls = { device_reg, device_dereg };

static void *beyond_in(void *where, const char *name)
{
	void *fn = dlvsym(where, name, "IBVERBS_1.1");

	return fn ? fn : dlsym(where, name);
}

/* libibverbs' own function, if the process has loaded libibverbs.  A plugin may have loaded
 * libibverbs for itself alone: then RTLD_NEXT does not find it. */
static void *beyond(const char *name)
{
	void *fn = beyond_in(RTLD_NEXT, name);
	void *plugins =
	    fn ? NULL : dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);

	if (plugins) {
		fn = beyond_in(plugins, name);
		dlclose(plugins);
	}
	if (!fn)
		errno = ENOSYS;
	return fn;
}

OSF_API struct ibv_mr *ibv_reg_mr(struct ibv_pd *of, void *addr, size_t length,
				  int access)
{
	if (of == &pd)
		return mr_new(addr, length);
	typeof(&ibv_reg_mr) next = (typeof(&ibv_reg_mr))beyond("ibv_reg_mr");
	return next ? next(of, addr, length, access) : NULL;
}

OSF_API struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *of, void *addr,
					size_t length, uint64_t iova,
					unsigned access)
{
	if (of == &pd)
		return mr_new(addr, length);
	typeof(&ibv_reg_mr_iova2) next =
	    (typeof(&ibv_reg_mr_iova2))beyond("ibv_reg_mr_iova2");
	return next ? next(of, addr, length, iova, access) : NULL;
}

OSF_API int ibv_dereg_mr(struct ibv_mr *mr)
{
	if (mr_free(mr))
		return 0;
	typeof(&ibv_dereg_mr) next =
	    (typeof(&ibv_dereg_mr))beyond("ibv_dereg_mr");
	return next ? next(mr) : ENOSYS;
}

/* The function of libosf-verbs.so; NULL if that library is not loaded.  Later calls repeat
 * the first answer, because keys of one domain mean nothing in the other. */
static typeof(&osf_sockets_pd) sockets_pd(void)
{
	static typeof(&osf_sockets_pd) found;
	static bool has_looked;
	GUARD(&lock);

	if (!has_looked)
		found = (typeof(found))dlsym(RTLD_DEFAULT, SOCKETS_PD_NAME);
	has_looked = true;
	return found;
}

struct ibv_pd *verbs_pd(void)
{
	static const struct sockets_memory calls = { memory_register_as,
						     memory_deregister };
	typeof(&osf_sockets_pd) of_device = sockets_pd();

	if (of_device)
		return of_device(&calls);
	store_rel(&pd.context, device_context(&device_calls));
	return &pd;
}
