/* SPDX-License-Identifier: MIT */
/* api/verbs/device.c - see api/verbs/device.h */
#include <dlfcn.h>
#include <errno.h>

#include "api/verbs/device.h"
#include "base/lock.h"
#include "base/log.h"

#define LIBRARY "libibverbs.so.1"
#define SLOTS 256u /* words of a private table: more than any version has */
#define SLOT_BITS 8u
#define BEFORE_CONTEXT 14u /* words from the pointer to that table on */

/* A context, and before it the table that libibverbs looks for. */
struct verbs {
	void *private; /* of SLOTS functions */
	void *older[BEFORE_CONTEXT - 2];
	size_t size;
	struct ibv_context context;
};
static_assert(offsetof(struct verbs, context) == 8 * BEFORE_CONTEXT,
	      "as verbs_context of rdma-core");

/* After a device libibverbs looks for this: zero means no capability. */
static struct {
	struct ibv_device device;
	uint64_t beyond[32];
} osf0 = {
	.device = { .node_type = -1,
		    .transport_type = -1,
		    .name = "osf0",
		    .dev_name = "osf0" },
};

static const struct device_calls *calls;
static struct verbs verbs;
static void *slots[SLOTS];
static struct lock lock;
static bool is_open, has_looked;

/* For entries that return a pointer: NULL. */
static void *refuse(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

/* For entries that return an errno. */
static void *refuse_errno(void) { return (void *)(intptr_t)EOPNOTSUPP; }

static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t length,
			  uint64_t iova, int access)
{
	return calls->reg(pd, addr, length);
}

static int dereg(struct ibv_mr *mr) { return calls->dereg(mr); }

static void verbs_init(struct verbs *v, void **table, void *with)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		table[i] = with;
	v->private = table;
	v->size = sizeof(v->context) + sizeof(v->size);
	v->context = (struct ibv_context){ .device = &osf0.device,
					   .cmd_fd = -1,
					   .async_fd = -1 };
	pthread_mutex_init(&v->context.mutex, NULL);
	for (uint32_t i = 0; i < CONTEXT_OPS; i++)
		v->context.ops[i] = refuse;
}

/*
 * Finds the entry of the context's table that a function of libibverbs uses.  The functions
 * note_0 and note_1 stand in the entries, by one bit of the entry's number.  So one call of
 * libibverbs' function tells one bit.
 */

static __thread int asked = -1; /* 0, 1; -1: no entry was used */

static void *note_0(void)
{
	asked = 0;
	return NULL;
}

static void *note_1(void)
{
	asked = 1;
	return NULL;
}

static int note_0_errno(void)
{
	asked = 0;
	return EOPNOTSUPP;
}

static int note_1_errno(void)
{
	asked = 1;
	return EOPNOTSUPP;
}

enum probe { PROBE_REG, PROBE_DEREG, PROBE_QUERY_DEVICE, PROBE_QUERY_PORT };

static const char *const probe_names[] = { "ibv_reg_mr_iova2", "ibv_dereg_mr",
					   "ibv_query_device",
					   "ibv_query_port" };

static void probe_call(void *fn, enum probe what, struct verbs *v)
{
	static uint8_t page[4096];
	static uint64_t answer[512]; /* larger than what they fill in */
	struct ibv_pd pd = { .context = &v->context };
	struct ibv_mr mr = { .context = &v->context, .pd = &pd };

	if (what == PROBE_REG)
		((struct ibv_mr * (*)(struct ibv_pd *, void *, size_t, uint64_t,
				      unsigned)) fn)(&pd, page, 1, 0, 0);
	else if (what == PROBE_DEREG)
		((int (*)(struct ibv_mr *))fn)(&mr);
	else if (what == PROBE_QUERY_DEVICE)
		((int (*)(struct ibv_context *, void *))fn)(&v->context,
							    answer);
	else
		((int (*)(struct ibv_context *, uint8_t, void *))fn)(
		    &v->context, 1, answer);
}

/* The entry's number; -1: none was used. */
static int probe(void *library, enum probe what)
{
	static struct verbs v;
	static void *table[SLOTS];
	void *fn = dlsym(library, probe_names[what]);
	bool is_pointer = what == PROBE_REG;
	int slot = 0;

	if (!fn)
		return -1;
	verbs_init(&v, table, (void *)refuse);
	for (uint32_t bit = 0; bit < SLOT_BITS; bit++) {
		for (uint32_t i = 0; i < SLOTS; i++) {
			bool one = i >> bit & 1;

			table[i] = is_pointer
				       ? (one ? (void *)note_1 : (void *)note_0)
				       : (one ? (void *)note_1_errno
					      : (void *)note_0_errno);
		}
		asked = -1;
		probe_call(fn, what, &v);
		if (asked < 0)
			return -1;
		slot |= asked << bit;
	}
	return slot;
}

/* Caller holds the lock. */
static void teach(void *library)
{
	int slot_reg = probe(library, PROBE_REG);
	int slot_dereg = probe(library, PROBE_DEREG);

	for (int i = PROBE_QUERY_DEVICE; i <= PROBE_QUERY_PORT; i++) {
		int slot = probe(library, (enum probe)i);

		if (slot >= 0)
			slots[slot] = (void *)refuse_errno;
	}
	if (slot_reg < 0 || slot_dereg < 0 || slot_reg == slot_dereg) {
		log_info("%s does not register memory for us", LIBRARY);
		return;
	}
	slots[slot_reg] = (void *)reg;
	slots[slot_dereg] = (void *)dereg;
}

struct ibv_context *device_context(const struct device_calls *device_calls)
{
	int saved = errno;
	GUARD(&lock);

	if (!is_open) {
		calls = device_calls;
		verbs_init(&verbs, slots, (void *)refuse);
		is_open = true;
	}
	void *library =
	    has_looked ? NULL : dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
	/* Older ones look elsewhere for their functions. */
	if (library && dlvsym(library, "ibv_reg_mr_iova2", "IBVERBS_1.8")) {
		has_looked = true;
		teach(library);
	}
	if (library)
		dlclose(library);
	errno = saved;
	return &verbs.context;
}
