/* SPDX-License-Identifier: MIT */
/* ops/candidates.c - see ops/candidates.h */
#include <netinet/in.h>
#include <string.h>

#include "ops/builtin.h"
#include "ops/candidates.h"
#include "ops/route.h"

static bool is_in(const struct protos *t, const char *name)
{
	return protos_find(t, name) != NULL;
}

/* Does the rule allow @p?  Ignore a rule with an unknown name: old files
 * contain "sdp" and "sa". */
static enum osf_reason by_rule(const struct question *q, const struct protos *t,
			       const struct osf_proto *p)
{
	const char *says = q->provider;

	if (!says || !strcmp(says, "osf") || !strcmp(says, p->name))
		return OSF_REASON_NONE;
	if (!strcmp(says, "os") || !strcmp(says, "inet"))
		return OSF_REASON_RULE;
	if (is_in(t, says))
		return OSF_REASON_RULE_OTHER;
	if (!strcmp(says, "tcp"))
		return OSF_REASON_NO_TCP;
	if (!strcmp(says, "shm"))
		return OSF_REASON_DISABLED;
	return OSF_REASON_NONE;
}

static bool may_speak(const struct question *q, const struct osf_proto *p)
{
	if (q->peer->sa_family == AF_INET6)
		return p->caps & OSF_CAP_IPV6 &&
		       q->len >= sizeof(struct sockaddr_in6);
	return q->peer->sa_family == AF_INET;
}

static bool may_reach(struct question *q, const struct osf_proto *p)
{
	bool is_named = q->provider && !strcmp(q->provider, p->name);

	if (p->caps & OSF_CAP_SELF_ROUTING)
		return true;
	if (!q->route.size) {
		q->route.size = sizeof(q->route);
		route_get(q->fd, q->peer, &q->route);
	}
	switch (q->route.kind) {
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

/* Judges one protocol.  The rule is first: it is cheaper than a route. */
static enum osf_reason refused(struct question *q, const struct protos *t,
			       const struct osf_proto *p)
{
	if (p == &builtin_inet) /* where all others end */
		return OSF_REASON_NONE;
	enum osf_reason why = by_rule(q, t, p);

	if (why != OSF_REASON_NONE || !q->peer)
		return why;
	return may_speak(q, p) && may_reach(q, p) ? OSF_REASON_NONE
						  : OSF_REASON_REMOTE;
}

struct protos candidates(struct question *q)
{
	struct protos t = registry_protos(), out = { 0 };

	for (int i = 0; i < t.n; i++)
		if (refused(q, &t, t.proto[i]) == OSF_REASON_NONE)
			out.proto[out.n++] = t.proto[i];
	return out;
}

enum osf_reason candidate_refused(struct question *q, const char *name)
{
	struct protos t = registry_protos();
	const struct osf_proto *p = protos_find(&t, name);

	return p ? refused(q, &t, p) : OSF_REASON_DISABLED;
}
