/* SPDX-License-Identifier: MIT */
/*
 * tools/vma_stats/show_table.c - views 1 and 2: two lines for each socket
 *
 * Columns stand where libvma's stand: scripts cut them out.
 */
#include "vma_stats.h"
#include <inttypes.h>

#define LINES_BETWEEN_HEADINGS 24u
#define KB 1024

#define RX_SHORT                                                               \
	" %-3d %-3s %10" PRIu64 " %7" PRIu64 " %8" PRIu64 " %7" PRIu64         \
	" %6.1f %7" PRIu64 " %7" PRIu64 " %7" PRIu64 " %7" PRIu64 "\n"
#define TX_SHORT                                                               \
	" %-3s %-3s %10" PRIu64 " %7" PRIu64 " %8" PRIu64 " %7" PRIu64         \
	" %-6s %7" PRIu64 " %7" PRIu64 " %7" PRIu64 " %7" PRIu64 "\n"
#define RX_MEDIUM                                                              \
	" %-3d %-3s %10" PRIu64 " %7" PRIu64 " %8" PRIu64 " %7" PRIu64         \
	" %6.1f %6" PRIu64 "  %6" PRIu64 "  %6" PRIu64 " %7" PRIu64            \
	" %7" PRIu64 " %7" PRIu64 " %7" PRIu64 "\n"
#define TX_MEDIUM                                                              \
	" %-3s %-3s %10" PRIu64 " %7" PRIu64 " %8" PRIu64 " %7" PRIu64         \
	" %29s %7" PRIu64 " %7" PRIu64 " %7" PRIu64 " %7" PRIu64 "\n"

static void head_short(bool is_delta)
{
	const char *s = is_delta ? "/s" : "";
	char pkt[8], kbyte[8], eagain[12], error[8];

	snprintf(pkt, sizeof(pkt), "pkt%s", s);
	snprintf(kbyte, sizeof(kbyte), "Kbyte%s", s);
	snprintf(eagain, sizeof(eagain), "eagain%s", s);
	snprintf(error, sizeof(error), "error%s", s);
	printf(" %-7s %42s %31s\n", "fd",
	       is_delta ? "--------------- offloaded ----------------"
			: "------------ total offloaded -------------",
	       is_delta ? "---------- os ---------"
			: "--------- total os ----------");
	printf(" %-7s %10s %7s %8s %7s %6s %7s %7s %7s %7s\n", " ", pkt, kbyte,
	       eagain, error, "poll%", pkt, kbyte, eagain, error);
}

static void head_medium(bool is_delta)
{
	const char *s = is_delta ? "/s" : "";
	char pkt[8], kbyte[8], eagain[12], error[8];

	snprintf(pkt, sizeof(pkt), "pkt%s", s);
	snprintf(kbyte, sizeof(kbyte), "Kbyte%s", s);
	snprintf(eagain, sizeof(eagain), "eagain%s", s);
	snprintf(error, sizeof(error), "error%s", s);
	printf(" %-7s %65s %31s\n", "fd",
	       is_delta ? "---------------------------- offloaded "
			  "--------------------------"
			: "----------------------- total offloaded "
			  "-------------------------",
	       is_delta ? "---------- os ---------"
			: "--------- total os ----------");
	printf(" %-7s %10s %7s %8s %7s %6s%23s %7s %7s %7s %7s\n", " ", pkt,
	       kbyte, eagain, error, "poll%",
	       is_delta ? "----- queue pkt ------" : "---- queue pkt -----",
	       pkt, kbyte, eagain, error);
	printf(" %50s %6s  %6s  %6s \n", " ", "cur", "max",
	       is_delta ? "drop/s" : "drop");
}

static double hit_percent(const struct counters *c)
{
	uint64_t all = c->n_hits + c->n_misses;

	return all ? 100.0 * (double)c->n_hits / (double)all : 0;
}

static void row_short(const struct row *row, const struct counters *c)
{
	printf(RX_SHORT, row->fd, "Rx:", c->rx.packets, c->rx.bytes / KB,
	       c->rx.eagains, c->rx.errors, hit_percent(c), c->os_rx.packets,
	       c->os_rx.bytes / KB, c->os_rx.eagains, c->os_rx.errors);
	printf(TX_SHORT, " ", "Tx:", c->tx.packets, c->tx.bytes / KB,
	       c->tx.eagains, c->tx.errors, " ", c->os_tx.packets,
	       c->os_tx.bytes / KB, c->os_tx.eagains, c->os_tx.errors);
}

/* The queue of a stream has no packets: what is in it counts as one. */
static void row_medium(const struct row *row, const struct counters *c)
{
	printf(RX_MEDIUM, row->fd, "Rx:", c->rx.packets, c->rx.bytes / KB,
	       c->rx.eagains, c->rx.errors, hit_percent(c),
	       (uint64_t)(row->rx_queue > 0), (uint64_t)(row->rx_most > 0),
	       c->n_dropped, c->os_rx.packets, c->os_rx.bytes / KB,
	       c->os_rx.eagains, c->os_rx.errors);
	printf(TX_MEDIUM, " ", "Tx:", c->tx.packets, c->tx.bytes / KB,
	       c->tx.eagains, c->tx.errors, " ", c->os_tx.packets,
	       c->os_tx.bytes / KB, c->os_tx.eagains, c->os_tx.errors);
}

void show_table(const struct shown *s)
{
	bool is_medium = s->o->view == VIEW_MEDIUM;

	if (*s->n_lines >= LINES_BETWEEN_HEADINGS) {
		if (is_medium)
			head_medium(s->o->wants_deltas);
		else
			head_short(s->o->wants_deltas);
		*s->n_lines = is_medium ? 3 : 2;
	}
	for (size_t i = 0; i < s->now->n; i++) {
		struct counters c = shown_counters(s, &s->now->rows[i]);

		if (is_medium)
			row_medium(&s->now->rows[i], &c);
		else
			row_short(&s->now->rows[i], &c);
		*s->n_lines += 2;
	}
}
