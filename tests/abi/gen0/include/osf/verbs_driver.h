/* SPDX-License-Identifier: MIT */
/*
 * osf/verbs_driver.h - how a driver gives osf/verbs_api.h a device
 *
 *     OSF_DRIVERS  ->  osf_driver_entry()  ->  osf_register_driver()
 *     osf_open_device()  ->  alloc_context(device)
 *
 * A driver is a shared object with a function osf_driver_entry().  It links
 * against nothing of osf but the names below, which the program already has.
 * The context and all objects (pd, mr, cq, qp) are the driver's memory.
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
