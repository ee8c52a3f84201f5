/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/driver/faults.c - osf-faults: what fails, and how often
 *
 *     OSF_FAULTS="seed=7,lost=2,held=30,full=10,memory=5"
 *
 * Each number except the seed is a percentage; what is not named never happens.
 *
 *     lost      a send does not arrive: OSF_WC_RETRY_EXC_ERR, error state
 *     held      a send, and all behind it, arrives when somebody polls an empty
 *               completion queue of either end
 *     full      a post fails with -ENOMEM
 *     memory    an object cannot be made: ENOMEM
 *
 * The same seed and the same calls give the same faults.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/verbs/driver/loop.h"

const char loop_name[] = "faults0";

enum { SEED, LOST, HELD, FULL, MEMORY, SETTINGS };
static const char *const names[SETTINGS] = { "seed", "lost", "held", "full",
					     "memory" };
static unsigned long settings[SETTINGS];
static uint64_t state;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int set(const char *text, size_t len)
{
	for (int i = 0; i < SETTINGS; i++) {
		size_t n = strlen(names[i]);
		char *end;

		if (len <= n || strncmp(text, names[i], n) || text[n] != '=')
			continue;
		settings[i] = strtoul(text + n + 1, &end, 10);
		if (end != text + len || end == text + n + 1)
			return -EINVAL;
		return i != SEED && settings[i] > 100 ? -EINVAL : 0;
	}
	return -EINVAL;
}

int loop_faults_init(void)
{
	const char *text = secure_getenv("OSF_FAULTS");

	while (text && *text) {
		size_t len = strcspn(text, ",");
		int err = set(text, len);

		if (err)
			return err;
		text += len + (text[len] == ',');
	}
	state = settings[SEED];
	return 0;
}

/* True for @percent of 100 calls.  splitmix64 */
static bool happens(unsigned long percent)
{
	pthread_mutex_lock(&lock);
	uint64_t x = state += 0x9e3779b97f4a7c15u;
	pthread_mutex_unlock(&lock);

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (x ^ x >> 31) % 100 < percent;
}

enum loop_fault loop_fault_of_send_locked(void)
{
	if (happens(settings[FULL]))
		return LOOP_FULL;
	if (happens(settings[LOST]))
		return LOOP_LOST;
	return happens(settings[HELD]) ? LOOP_HELD : LOOP_FINE;
}

bool loop_fault_of_memory(void) { return happens(settings[MEMORY]); }
