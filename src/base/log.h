/* SPDX-License-Identifier: MIT */
/*
 * base/log.h - messages, silent unless OSF_LOG asks for them
 *
 * A message is one write() to a descriptor that was saved at the start, never stdio:
 * the process belongs to somebody else.  Lower case, no full stop, "name value" pairs.
 */
#pragma once

#include "base/atomic.h"
#include "base/compiler.h"
#include "osf/stats.h"

enum log_level { LOG_LEVEL_ERR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DBG };

/* Messages above its level are not made; -1: none.  vma_stats(8) may write into it
 * while the program runs, once it lies in the statistics file. */
extern struct osf_stats_log *log_now;
static inline int log_level(void) { return load_rlx(&log_now->level); }

void log_open(void); /* reads OSF_LOG and OSF_LOG_FILE */
/* The level and so on go on at @to, or in memory of this process for NULL. */
void log_move(struct osf_stats_log *to);
void log_end(void);                 /* this process says nothing more */
int log_fd(void);                   /* ours, not to be closed, or -1 */
int log_level_parse(const char *s); /* "err".."dbg" or 0..3; -1 unknown */
COLD void log_write(enum log_level level, const char *fmt, ...) PRINTF(2, 3);

#define LOG(level, ...)                                                        \
	do {                                                                   \
		if (unlikely((int)(level) <= log_level()))                     \
			log_write(level, __VA_ARGS__);                         \
	} while (0)
#define log_err(...) LOG(LOG_LEVEL_ERR, __VA_ARGS__)
#define log_warn(...) LOG(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) LOG(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_dbg(...) LOG(LOG_LEVEL_DBG, __VA_ARGS__)
