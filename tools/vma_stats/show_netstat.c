/* SPDX-License-Identifier: MIT */
/*
 * tools/vma_stats/show_netstat.c - view 5: a line for each socket, as netstat(8)
 */
#include "vma_stats.h"
#include <inttypes.h>
#include <string.h>

#define ADDR_WIDTH 21 /* of 123.123.123.123:12345 */

void netstat_head(void)
{
	puts("Proto Offloaded Recv-Q Send-Q Local Address          "
	     "Foreign Address       State       Inode      "
	     "PID/Program name");
}

/* libvma's names of the kernel's states. */
static const char *state_name(const struct row *row)
{
	static const char *const names[] = {
		"CLOSED",     "ESTABLISHED", "SYN_SENT",  "SYN_RCVD",
		"FIN_WAIT_1", "FIN_WAIT_2",  "TIME_WAIT", "CLOSED",
		"CLOSE_WAIT", "LAST_ACK",    "LISTEN",    "CLOSING",
	};

	if (row->is_udp)
		return "";
	return row->state < sizeof(names) / sizeof(*names) ? names[row->state]
							   : "CLOSED";
}

static void print_line(const struct row *row, const struct seg *seg)
{
	char local[ROW_ADDR_MAX], peer[ROW_ADDR_MAX] = "0.0.0.0:*";

	row_addr(&row->local, row->local_port, local);
	if (row->peer_port)
		row_addr(&row->peer, row->peer_port, peer);
	printf("%-5s %-9s %-6" PRIu64 " %-6" PRIu64 " ",
	       row->is_udp ? "udp" : "tcp", row->is_offloaded ? "Yes" : "No",
	       row->rx_queue, row->tx_queue);
	printf("%-*s  %-*s ", ADDR_WIDTH, local, ADDR_WIDTH, peer);
	printf("%-11s %-10" PRIu64 " %d/%s\n", state_name(row), row->ino,
	       (int)seg->found_pid, seg->head.program);
}

void show_netstat(const struct shown *s)
{
	for (size_t i = 0; i < s->now->n; i++)
		if (s->now->rows[i].ino)
			print_line(&s->now->rows[i], s->p->seg);
}
