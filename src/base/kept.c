/* SPDX-License-Identifier: MIT */
/* base/kept.c - see base/kept.h */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/atomic.h"
#include "base/kept.h"
#include "base/rawcall.h"

#define ROOM 1024u /* no process can receive so many */

static uint32_t n_kept;
static int kept[ROOM]; /* plus 1 */

bool kept_is_file(int fd)
{
	struct statx sx;

	return rawcall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		       STATX_TYPE, &sx) ||
	       (sx.stx_mode & S_IFMT && !S_ISSOCK(sx.stx_mode) &&
		!S_ISFIFO(sx.stx_mode));
}

void kept_add(int fd)
{
	uint32_t n = fetch_add(&n_kept, 1u);

	if (n < ROOM)
		store_rlx(&kept[n], fd + 1);
}

uint32_t kept_count(void) { return load_rlx(&n_kept); }

/* The next above @fd that stays open, or INT_MAX.  The program may have closed what was
 * kept, and have something else there. */
static int next_to_spare(const int spare[3], int fd)
{
	int next = INT_MAX;

	for (int i = 0; i < 3; i++)
		if (spare[i] > fd && spare[i] < next)
			next = spare[i];
	for (uint32_t i = 0; i < ROOM && i < load_rlx(&n_kept); i++) {
		int k = load_rlx(&kept[i]) - 1;

		if (k > fd && k < next && kept_is_file(k))
			next = k;
	}
	return next;
}

void kept_close_others(int a, int b, int c)
{
	const int spare[] = { a, b, c };

	for (int done = -1; done != INT_MAX;) {
		int next = next_to_spare(spare, done);

		if (next > done + 1)
			rawcall(SYS_close_range, done + 1,
				next == INT_MAX ? ~0u : (unsigned)next - 1, 0);
		done = next;
	}
}
