/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/port.c - "osf port": which devices programs may move connections to
 *
 *     osf port add DEV [--user U] -> osfd, started where none runs
 *     osf port del DEV [--user U] -> osfd
 *     osf port list               -> osfd -> a table
 *
 * osfd does it all (osfd(8)); this command asks and prints.
 */
#include "osf.h"
#include "port.h"
#include "table.h"
#include <argp.h>
#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "osfd/client.h"

#define LEAVE_MS 10000 /* that programs have to give connections back */
#define ASK_MS 10

enum { OPT_USER = 'u', OPT_FLOWS = 'n', OPT_BESIDE = 'b' };

static const struct argp_option options[] = {
	{ "user", OPT_USER, "USER", 0,
	  "The user whose programs may use DEV (root)", 0 },
	{ "flows", OPT_FLOWS, "N", 0,
	  "How many connections at a time may use it (65536)", 0 },
	{ "beside", OPT_BESIDE, NULL, 0,
	  "Add it although tc has programs of others, which it bypasses", 0 },
	{ 0 },
};

struct args {
	const char *action, *dev;
	struct msg_port port;
};

static void parse_user(struct args *a, const char *name,
		       struct argp_state *state)
{
	char *end;
	const struct passwd *pw = getpwnam(name);
	unsigned long uid = strtoul(name, &end, 10);

	if (pw)
		a->port.uid = pw->pw_uid;
	else if (*name >= '0' && *name <= '9' && !*end && uid < UINT32_MAX)
		a->port.uid = (uint32_t)uid;
	else
		argp_error(state, "there is no user '%s'", name);
}

static void parse_flows(struct args *a, const char *arg,
			struct argp_state *state)
{
	char *end;
	unsigned long n = strtoul(arg, &end, 10);

	if (*arg < '0' || *arg > '9' || *end || !n || n > MSG_FLOWS_MAX)
		argp_error(state, "--flows is a number up to %u, not '%s'",
			   MSG_FLOWS_MAX, arg);
	a->port.n_flows = (uint32_t)n;
}

static void parse_word(struct args *a, const char *arg,
		       struct argp_state *state)
{
	if (!a->action)
		a->action = arg;
	else if (!a->dev)
		a->dev = arg;
	else
		argp_usage(state);
}

static void check_words(const struct args *a, struct argp_state *state)
{
	if (!a->action)
		argp_usage(state);
	bool is_list = strcmp(a->action, "list") == 0;
	if (!is_list && strcmp(a->action, "add") && strcmp(a->action, "del"))
		argp_error(state, "add, del or list, not '%s'", a->action);
	if (is_list && a->dev)
		argp_error(state, "list takes no device");
	if (!is_list && !a->dev)
		argp_error(state, "which device is to be %s?",
			   *a->action == 'a' ? "added" : "removed");
	if (a->dev && strlen(a->dev) >= MSG_DEV_MAX)
		argp_error(state, "'%s' is too long for a device", a->dev);
}

static error_t parse_opt(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case OPT_USER:
		parse_user(a, arg, state);
		return 0;
	case OPT_FLOWS:
		parse_flows(a, arg, state);
		return 0;
	case OPT_BESIDE:
		a->port.flags |= MSG_BESIDE;
		return 0;
	case ARGP_KEY_ARG:
		parse_word(a, arg, state);
		return 0;
	case ARGP_KEY_END:
		check_words(a, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_opt,
	.args_doc = "add DEV\ndel DEV\nlist",
	.doc = "Let programs move TCP connections over DEV into user space.\v"
	       "Adding a port is a grant of CAP_NET_RAW to the user, and lets "
	       "connections pass by netfilter and tc after their handshake; "
	       "osf-port(8) says more.",
};

static void print_one(struct table *t, const struct msg_listed *l)
{
	table_row(t, NULL);
	table_cell(t, "%.15s", l->port.dev);
	table_cell(t, "%u", l->port.uid);
	table_cell(t, "%u", l->n_grants);
	table_cell(t, "%u", l->n_used);
	table_cell(t, "%u", l->port.n_flows);
	table_cell(t, "%llu", (unsigned long long)l->n_segments);
	table_cell(t, "%llu", (unsigned long long)l->n_errors);
	table_cell(t, "%llu", (unsigned long long)l->n_dropped);
	table_cell(t, "%llu", (unsigned long long)l->n_thawed);
	table_cell(t, "%llu", (unsigned long long)l->n_reset);
}

static int list(int fd)
{
	static const char *const headings[] = {
		"DEVICE",    ">UID",    ">PROGRAMS", ">FLOWS",  ">MAX",
		">SEGMENTS", ">ERRORS", ">DROPPED",  ">THAWED", ">RESET",
	};
	struct table t = { .headings = headings,
			   .n_columns = sizeof(headings) / sizeof(*headings) };
	struct screen screen = screen_of(stdout);
	struct reply r;
	int err = 0;

	for (uint32_t i = 0; !err; i++) {
		struct request q = { .list = { i } };

		err = osfd_call(fd, MSG_LIST, &q, NULL, 0, &r, NULL);
		if (!err)
			print_one(&t, &r.listed);
	}
	table_print(&t, stdout, &screen);
	table_free(&t);
	return err == -ENOENT ? 0 : err;
}

/* osfd asks the programs for their connections, and removes the port with the last one. */
static int del(int fd, struct request *r, struct reply *reply)
{
	int err = osfd_call(fd, MSG_DEL, r, NULL, 0, reply, NULL);

	for (int ms = 0; err == -EBUSY && ms < LEAVE_MS; ms += ASK_MS) {
		poll(NULL, 0, ASK_MS);
		err = osfd_call(fd, MSG_DEL, r, NULL, 0, reply, NULL);
		if (err == -ENOENT)
			return 0;
	}
	return err;
}

/* What is asked of osfd.  Return: as osfd_call() */
static int ask(int fd, const struct args *a, struct reply *reply)
{
	struct request r = { .port = a->port };

	if (strcmp(a->action, "list") == 0)
		return list(fd);
	memcpy(r.port.dev, a->dev, strlen(a->dev));
	if (strcmp(a->action, "del") == 0)
		return del(fd, &r, reply);
	return osfd_call(fd, MSG_ADD, &r, NULL, 0, reply, NULL);
}

static const char *reason_of(int err, const struct reply *reply)
{
	if (reply->err && reply->reason[0])
		return reply->reason;
	if (err == -ECONNREFUSED)
		return "no osfd runs in this network namespace";
	return strerror(-err);
}

int cmd_port(int argc, char **argv)
{
	struct args a = { 0 };
	struct reply reply = { 0 };

	argp_parse(&argp, argc, argv, 0, NULL, &a);
	bool may_start = strcmp(a.action, "add") == 0;
	int fd = may_start ? osfd_reach(&reply) : osfd_connect(&reply);
	if (fd == -ECONNREFUSED && strcmp(a.action, "list") == 0)
		return EXIT_SUCCESS; /* no osfd, no ports */
	int err = fd < 0 ? fd : ask(fd, &a, &reply);
	if (fd >= 0)
		close(fd);
	if (!err)
		return EXIT_SUCCESS;
	complain("port %s: %s", a.action, reason_of(err, &reply));
	return EXIT_FAILURE;
}
