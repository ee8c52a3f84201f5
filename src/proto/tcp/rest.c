/* SPDX-License-Identifier: MIT */
/* proto/tcp/rest.c - see proto/tcp/rest.h */
#include "proto/tcp/rest.h"

#include "base/compiler.h"

#define REST_TURNS 16u
#define REST_SHIFT_MAX 16u
/* The same where a rule moves it. */
#define FORCED_TURNS 2u
#define FORCED_SHIFT_MAX 6u

/* How many turns a connection that has gone back stays with the kernel.  If the default
 * policy moves it, each return doubles the number, whatever the reason.  A return by the
 * judge does not, because the judge itself rests then.  A connection that a rule moves
 * should move again soon, and only returns for bulk double its number: otherwise a program
 * whose every turn has more than a window would freeze and thaw it in each turn. */
uint32_t rest_turns(struct sock *sk, enum osf_reason why)
{
	uint32_t n = sk->n_returns;

	if (why == OSF_REASON_SLOWER)
		return REST_TURNS;
	sk->n_returns = (uint8_t)MIN(n + 1, REST_SHIFT_MAX);
	if (!(load_rlx(&sk->flags) & SOCK_F_EAGER))
		return REST_TURNS << n;
	return FORCED_TURNS
	       << (why == OSF_REASON_BULK ? MIN(n, FORCED_SHIFT_MAX) : 0);
}
