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

#define N(width) " %" #width PRIu64
#define KB_N " %*" PRIu64 /* kilobytes, in kb_width() columns */
#define RX_SHORT                                                               \
	" %-3d %-3s" N(10) KB_N N(8) N(7) " %6.1f" N(7) KB_N N(7) N(7) "\n"
#define TX_SHORT                                                               \
	" %-3s %-3s" N(10) KB_N N(8) N(7) " %-6s" N(7) KB_N N(7) N(7) "\n"
#define RX_MEDIUM                                                              \
	" %-3d %-3s" N(10) KB_N N(8) N(7) " %6.1f" N(6) " " N(6) " " N(6) N(7) \
	    KB_N N(7) N(7) "\n"
#define TX_MEDIUM                                                              \
	" %-3s %-3s" N(10) KB_N N(8) N(7) " %29s" N(7) KB_N N(7) N(7) "\n"

/* libxlio's is wider than libvma's. */
static int kb_width(void) { return own_name[0] == 'x' ? 20 : 7; }

static void head_short(bool is_delta)
{
	const char *s = is_delta ? "/s" : "";
	char pkt[8], kbyte[8], eagain[12], error[8];

	snprintf(pkt, sizeof(pkt), "pkt%s", s);
	snprintf(kbyte, sizeof(kbyte), "Kbyte%s", s);
	snprintf(eagain, sizeof(eagain), "eagain%s", s);
	snprintf(error, sizeof(error), "error%s", s);
	printf(" %-7s %*s %*s\n", "fd", 35 + kb_width(),
	       is_delta ? "--------------- offloaded ----------------"
			: "------------ total offloaded -------------",
	       24 + kb_width(),
	       is_delta ? "---------- os ---------"
			: "--------- total os ----------");
	printf(" %-7s %10s %*s %8s %7s %6s %7s %*s %7s %7s\n", " ", pkt,
	       kb_width(), kbyte, eagain, error, "poll%", pkt, kb_width(),
	       kbyte, eagain, error);
}

static void head_medium(bool is_delta)
{
	const char *s = is_delta ? "/s" : "";
	char pkt[8], kbyte[8], eagain[12], error[8];

	snprintf(pkt, sizeof(pkt), "pkt%s", s);
	snprintf(kbyte, sizeof(kbyte), "Kbyte%s", s);
	snprintf(eagain, sizeof(eagain), "eagain%s", s);
	snprintf(error, sizeof(error), "error%s", s);
	printf(" %-7s %*s %*s\n", "fd", 58 + kb_width(),
	       is_delta ? "---------------------------- offloaded "
			  "--------------------------"
			: "----------------------- total offloaded "
			  "-------------------------",
	       24 + kb_width(),
	       is_delta ? "---------- os ---------"
			: "--------- total os ----------");
	printf(" %-7s %10s %*s %8s %7s %6s%23s %7s %*s %7s %7s\n", " ", pkt,
	       kb_width(), kbyte, eagain, error, "poll%",
	       is_delta ? "----- queue pkt ------" : "---- queue pkt -----",
	       pkt, kb_width(), kbyte, eagain, error);
	printf(" %*s %6s  %6s  %6s \n", 43 + kb_width(), " ", "cur", "max",
	       is_delta ? "drop/s" : "drop");
}

static double hit_percent(const struct counters *c)
{
	uint64_t all = c->n_hits + c->n_misses;

	return all ? 100.0 * (double)c->n_hits / (double)all : 0;
}

static void row_short(const struct row *row, const struct counters *c)
{
	printf(RX_SHORT, row->fd, "Rx:", c->rx.packets, kb_width(),
	       c->rx.bytes / KB, c->rx.eagains, c->rx.errors, hit_percent(c),
	       c->os_rx.packets, kb_width(), c->os_rx.bytes / KB,
	       c->os_rx.eagains, c->os_rx.errors);
	printf(TX_SHORT, " ", "Tx:", c->tx.packets, kb_width(),
	       c->tx.bytes / KB, c->tx.eagains, c->tx.errors, " ",
	       c->os_tx.packets, kb_width(), c->os_tx.bytes / KB,
	       c->os_tx.eagains, c->os_tx.errors);
}

/* The queue of a stream has no packets: what is in it counts as one. */
static void row_medium(const struct row *row, const struct counters *c)
{
	printf(RX_MEDIUM, row->fd, "Rx:", c->rx.packets, kb_width(),
	       c->rx.bytes / KB, c->rx.eagains, c->rx.errors, hit_percent(c),
	       (uint64_t)(row->rx_queue > 0), (uint64_t)(row->rx_most > 0),
	       c->n_dropped, c->os_rx.packets, kb_width(), c->os_rx.bytes / KB,
	       c->os_rx.eagains, c->os_rx.errors);
	printf(TX_MEDIUM, " ", "Tx:", c->tx.packets, kb_width(),
	       c->tx.bytes / KB, c->tx.eagains, c->tx.errors, " ",
	       c->os_tx.packets, kb_width(), c->os_tx.bytes / KB,
	       c->os_tx.eagains, c->os_tx.errors);
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
