/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/stat_ports.c - the ports that "osf stat" shows
 *
 *     osfd of this network namespace -> MSG_LIST -> a table, or JSON
 *
 * Programs in other namespaces have ports there: `ip netns exec NAME osf stat'.
 */
#include "osf.h"
#include "stat.h"
#include "table.h"
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include "osfd/client.h"

#define ANSWER_S 2 /* it takes microseconds, unless osfd is stopped */

void stat_ports_read(struct stat_ports *p)
{
	struct timeval limit = { .tv_sec = ANSWER_S };
	struct reply r;
	int fd = osfd_connect(&r);

	*p = (struct stat_ports){ 0 };
	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	for (uint32_t i = 0;; i++) {
		struct request q = { .list = { i } };

		if (osfd_call(fd, MSG_LIST, &q, NULL, 0, &r, NULL))
			break;
		p->listed = xgrow(p->listed, p->n, sizeof(*p->listed));
		p->listed[p->n++] = r.listed;
	}
	close(fd);
}

void stat_ports_free(struct stat_ports *p)
{
	free(p->listed);
	*p = (struct stat_ports){ 0 };
}

void stat_ports_print(const struct stat_ports *p, const struct screen *screen)
{
	static const char *const headings[] = { "PORT",      ">UID",
						">PROGRAMS", ">FLOWS",
						">MAX",      ">FRAMES",
						">ICMP",     ">DROPPED" };
	struct table t = { .headings = headings,
			   .n_columns = sizeof(headings) / sizeof(*headings) };

	for (size_t i = 0; i < p->n; i++) {
		const struct msg_listed *l = &p->listed[i];

		table_row(&t, NULL);
		table_cell(&t, "%.15s", l->port.dev);
		table_cell(&t, "%u", l->port.uid);
		table_cell(&t, "%u", l->n_grants);
		table_cell(&t, "%u", l->n_used);
		table_cell(&t, "%u", l->port.n_flows);
		table_cell(&t, "%s", unit_count(l->n_segments).s);
		table_cell(&t, "%s", unit_count(l->n_errors).s);
		table_cell(&t, "%s", unit_count(l->n_dropped).s);
	}
	if (t.n_rows)
		table_print(&t, stdout, screen);
	table_free(&t);
}

static void add_count(cJSON *to, const char *key, uint64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, n);
	cJSON_AddRawToObject(to, key, text);
}

void stat_ports_json(const struct stat_ports *p, cJSON *top)
{
	cJSON *ports = cJSON_AddArrayToObject(top, "ports");

	for (size_t i = 0; i < p->n; i++) {
		const struct msg_listed *l = &p->listed[i];
		cJSON *o = cJSON_CreateObject();
		char dev[MSG_DEV_MAX];

		snprintf(dev, sizeof(dev), "%.*s", MSG_DEV_MAX - 1,
			 l->port.dev);
		cJSON_AddItemToArray(ports, o);
		cJSON_AddStringToObject(o, "device", dev);
		add_count(o, "uid", l->port.uid);
		add_count(o, "n_programs", l->n_grants);
		add_count(o, "n_flows", l->n_used);
		add_count(o, "n_flows_max", l->port.n_flows);
		add_count(o, "n_frames", l->n_segments);
		add_count(o, "n_icmp", l->n_errors);
		add_count(o, "n_dropped", l->n_dropped);
	}
}
