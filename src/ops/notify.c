/* SPDX-License-Identifier: MIT */
/*
 * ops/notify.c - changes of addresses, links and routes, to routes and modules
 *
 *     rtnetlink, or a module  ->  ops_inet_notification()  ->  each notify()
 */
#include "base/compiler.h"
#include "ops/inside.h"
#include "ops/registry.h"
#include "ops/route.h"

__thread bool ops_inside __attribute__((tls_model("initial-exec")));

OSF_API void ops_inet_notification(const struct osf_inet_event *event)
{
	struct protos t = registry_protos();

	route_changed();
	for (int i = 0; i < t.n; i++)
		if (PROTO_OP(t.proto[i], notify))
			ASK(, t.proto[i]->notify(event));
}
