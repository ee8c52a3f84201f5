/* SPDX-License-Identifier: MIT */
/*
 * osf/verbs_driver.h - how a driver gives osf/verbs_api.h a device
 *
 *     OSF_DRIVERS  ->  osf_driver_entry()  ->  osf_register_driver_ex()
 *     osf_open_device()  ->  driver_init(device, context)
 *
 * A driver is a shared object with a function osf_driver_entry().  It links
 * against nothing of osf but the names below, which the program already has.
 *
 * The library allocates a context, of its own size, with priv_sz zero bytes
 * behind it for the driver.  driver_init() fills in context->ops, and those drv_
 * members of osf_get_ctx_ex(context) that it has and that OSF_CTX_HAS() says the
 * library knows.  A write above sz hits a page that may not be touched.
 *
 * Library and driver pass each other a struct osf_context, never a struct
 * osf_context_ex: where the latter begins, each knows only for its own.
 *
 * A driver that is to work under a library from before the scheme asks whether
 * osf_register_driver_ex is there (it is weak), and calls osf_register_driver()
 * otherwise.  Then the driver allocates the context itself and leaves
 * abi_compat NULL.
 *
 * Objects (pd, mr, cq, qp) are the driver's memory.  The library fills in the
 * members context, pd, send_cq, recv_cq and cq_context after the driver's call.
 * A driver that needs one of them during its call keeps its own copy.
 */
#ifndef OSF_VERBS_DRIVER_H
#define OSF_VERBS_DRIVER_H

#include "osf/verbs_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of a driver from before the scheme. */
struct osf_device_ops {
	struct osf_context *(*alloc_context)(struct osf_device *device);
	void (*free_context)(struct osf_context *context);
};

/* Return: the driver's device, valid for the life of the process; NULL: none
 * on this machine. */
typedef struct osf_device *(*osf_driver_init_func)(void);

/* Return: 0; -EINVAL: no name, or no function; -EEXIST: the name is in use;
 * -ENODEV: @init returned NULL; -ENOSPC: too many. */
int osf_register_driver(const char *name, osf_driver_init_func init);

/* Grows at its end; init_sz says how far it reaches. */
struct osf_driver_init_ex {
	/* Return: 0, or -errno, which osf_open_device() reports. */
	int (*driver_init)(struct osf_device *device,
			   struct osf_context *context);
	/* Optional.  The library frees the memory afterwards. */
	void (*driver_uninit)(struct osf_context *context);
};

/**
 * osf_register_driver_ex() - a driver of generation 1 or later
 * @init: copied
 * @init_sz: sizeof(*init) as the driver was compiled
 * @priv_sz: bytes behind struct osf_context for the driver
 *
 * The device has the name @name.
 *
 * Return: as osf_register_driver(); -EINVAL also: @init_sz too small.  -E2BIG:
 * something in @init that this library does not know is not 0.
 */
#ifdef __GNUC__
__attribute__((weak))
#endif
int osf_register_driver_ex(const char *name,
			   const struct osf_driver_init_ex *init,
			   size_t init_sz, size_t priv_sz);

/* The driver's own: registers what it has.  Return: 0, or -errno.  It does not
 * call osf_get_device_list(). */
#ifdef __GNUC__
__attribute__((visibility("default")))
#endif
int osf_driver_entry(void);

#ifdef __cplusplus
}
#endif

#endif
