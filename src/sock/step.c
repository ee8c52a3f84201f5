/* SPDX-License-Identifier: MIT */
/* sock/step.c - wait_step(); see sock/wait.h */
#include <errno.h>

#include "base/clock.h"
#include "sock/wait.h"

struct step {
	struct unwind u;
	struct wait *w;
};

static void step_end(struct unwind *u)
{
	struct wait *w = ((struct step *)u)->w;

	w->ops->end(w);
}

static int asleep(struct wait *w)
{
	w->asleep_ns = now_ns();
	uint64_t due = w->ops->next_ns ? w->ops->next_ns(w) : UINT64_MAX;
	uint64_t until = MIN(w->deadline_ns, due);
	struct timespec left =
	    ns_timespec(w->asleep_ns < until ? until - w->asleep_ns : 0);
	int r = w->ops->sleep(w, until == UINT64_MAX ? NULL : &left);
	/* Any handler ends ppoll(). */
	if (r == -EINTR && w->restarts && handlers_ran(w->seen, false) &&
	    !handlers_ran(w->seen, true))
		return 0;
	return r;
}

int wait_step(struct wait *w)
{
	UNWIND(struct step, me) = { .w = w };

	w->has_slept = false;
	if (w->deadline_ns != UINT64_MAX && now_ns() >= w->deadline_ns)
		return -EAGAIN;
	if (w->ops->has_come && spin_until(w->ops->has_come, w, w->deadline_ns))
		return 0;
	w->has_slept = true;
	unwind_push(&me.u, step_end);
	w->ops->begin(w);
	if (w->ops->look(w))
		return 0;
	return handlers_ran(w->seen, w->restarts) ? -EINTR : asleep(w);
}
