/* SPDX-License-Identifier: MIT */
/*
 * tools/vma_stats/show_full.c - view 3, a block for each socket; view 4, groups
 */
#include "vma_stats.h"
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define RULE "======================================================\n"
#define KB 1024

static void print_names(FILE *f, const struct row *row)
{
	char addr[ROW_ADDR_MAX], text[INET_ADDRSTRLEN];
	static const struct in6_addr none;

	fprintf(f, "- %s, %s", row->is_udp ? "UDP" : "TCP",
		row->is_blocking ? "Blocked" : "Non-blocked");
	if (row->is_udp)
		fprintf(f, ", MC Loop %s",
			row->is_multicast_loop ? "Enabled " : "Disabled");
	if (row->is_udp && row->multicast_if.s_addr)
		fprintf(
		    f, ", MC IF = [%s]",
		    inet_ntop(AF_INET, &row->multicast_if, text, sizeof(text)));
	fputc('\n', f);
	if (row->local_port) {
		row_addr(&row->local, row->local_port, addr);
		fprintf(f, "- Local Address   = [%s]\n", addr);
	}
	if (row->peer_port && memcmp(&row->peer, &none, sizeof(none)) != 0) {
		row_addr(&row->peer, row->peer_port, addr);
		fprintf(f, "- Foreign Address = [%s]\n", addr);
	}
	for (size_t i = 0; i < row->n_groups; i++)
		fprintf(
		    f, "- Member of = [%s]\n",
		    inet_ntop(AF_INET, &row->groups[i], text, sizeof(text)));
}

/* Return: whether there was anything. */
static bool print_counts(FILE *f, const char *what, const struct counts *c,
			 const char *per)
{
	if (!c->packets && !c->bytes && !c->eagains && !c->errors)
		return false;
	fprintf(f,
		"%s %" PRIu64 " / %" PRIu64 " / %" PRIu64 " / %" PRIu64
		" [kilobytes/packets/eagains/errors]%s\n",
		what, c->bytes / KB, c->packets, c->eagains, c->errors, per);
	return true;
}

static bool print_queue(FILE *f, const struct row *row,
			const struct counters *c, const char *per)
{
	if (!c->rx.packets && !row->rx_queue && !c->n_dropped)
		return false;
	fprintf(f,
		"Rx byte: cur %" PRIu64 " / max %" PRIu64
		" / dropped%s %" PRIu64 " / limit %" PRIu64 "\n",
		row->rx_queue,
		row->rx_most > row->rx_queue ? row->rx_most : row->rx_queue,
		per, c->dropped_bytes, row->rx_limit);
	fprintf(f, "Rx pkt : cur %d / max %d / dropped%s %" PRIu64 "\n",
		row->rx_queue > 0, row->rx_queue || row->rx_most, per,
		c->n_dropped);
	return true;
}

static bool print_polls(FILE *f, const struct counters *c)
{
	uint64_t all = c->n_hits + c->n_misses;

	if (all)
		fprintf(f,
			"Rx poll: %" PRIu64 " / %" PRIu64
			" (%2.2f%%) [miss/hit]\n",
			c->n_misses, c->n_hits,
			100.0 * (double)c->n_hits / (double)all);
	return all;
}

void print_full(FILE *f, const struct row *row, const struct counters *c,
		const char *per)
{
	fprintf(f, RULE "\tFd=[%d]\n", row->fd);
	print_names(f, row);
	bool is_active = print_counts(f, "Tx Offload:", &c->tx, per);
	is_active |= print_counts(f, "Tx OS info:", &c->os_tx, per);
	if (c->n_dummies)
		fprintf(f, "Tx Dummy messages : %" PRIu64 "\n", c->n_dummies);
	is_active |= c->n_dummies != 0;
	is_active |= print_counts(f, "Rx Offload:", &c->rx, per);
	is_active |= print_counts(f, "Rx OS info:", &c->os_rx, per);
	is_active |= print_queue(f, row, c, per);
	if (row->n_lent)
		fprintf(f, "Rx zero copy buffers: cur %" PRIu64 "\n",
			row->n_lent);
	is_active |= row->n_lent != 0;
	is_active |= print_polls(f, c);
	if (row->retransmits)
		fprintf(f, "Retransmissions: %" PRIu64 "\n", row->retransmits);
	if (!is_active)
		fputs("Rx and Tx where not active\n", f);
}

void show_full(const struct shown *s)
{
	for (size_t i = 0; i < s->now->n; i++) {
		struct counters c = shown_counters(s, &s->now->rows[i]);

		print_full(stdout, &s->now->rows[i], &c, s->before ? "/s" : "");
	}
	printf(RULE "\tGLOBAL_STATS\n%-20s %" PRIu64 "\n%-20s %" PRIu64
		    "\n" RULE,
	       "TCP socket objects:", s->now->n_tcp,
	       "All socket objects:", s->now->n_all);
}

/* ---- view 4 ---- */

static void print_group(const struct rows *r, struct in_addr group)
{
	char text[INET_ADDRSTRLEN], in_brackets[INET_ADDRSTRLEN + 2];

	inet_ntop(AF_INET, &group, text, sizeof(text));
	snprintf(in_brackets, sizeof(in_brackets), "[%s]", text);
	printf("%-22s", in_brackets);
	for (size_t i = 0; i < r->n; i++)
		for (size_t j = 0; j < r->rows[i].n_groups; j++)
			if (r->rows[i].groups[j].s_addr == group.s_addr)
				printf("%d ", r->rows[i].fd);
	putchar('\n');
}

void show_groups(const struct shown *s)
{
	bool has_head = false;
	struct index seen;
	size_t n = 0;

	for (size_t i = 0; i < s->now->n; i++)
		n += s->now->rows[i].n_groups;
	index_init(&seen, sizeof(struct in_addr), n);
	for (size_t i = 0; i < s->now->n; i++)
		for (size_t j = 0; j < s->now->rows[i].n_groups; j++) {
			if (!index_put(&seen, &s->now->rows[i].groups[j], 0))
				continue;
			if (!has_head)
				puts("\nVMA Group Memberships Information\n"
				     "Group                fd number\n"
				     "------------------------------");
			has_head = true;
			print_group(s->now, s->now->rows[i].groups[j]);
		}
	index_free(&seen);
}
