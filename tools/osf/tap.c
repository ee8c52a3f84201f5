/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/tap.c - "osf tap": what our TCP and our RDMA device send and receive, for
 * tshark
 *
 *     osf tap DEV|PID... -w FILE: programs' taps (port/tap.h) -> a pcapng file
 *
 * The command looks for frames every few milliseconds, and for programs every half a
 * second.  Each time it asks the programs for frames of the next two seconds.  It ends by
 * SIGINT or SIGTERM, after --count frames, or when the processes that were named have
 * ended.
 */
#include "osf.h"
#include "port/pcapng.h"
#include "tap.h"
#include <argp.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS 5
#define FIND_NS UINT64_C(500000000)
#define WANT_NS UINT64_C(2000000000)
#define TURN_FRAMES 4096 /* of one program, before the others' turn */

static const struct argp_option options[] = {
	{ "write", 'w', "FILE", 0,
	  "The file to write; - is standard output (-)", 0 },
	{ "count", 'c', "N", 0, "End after N frames", 0 },
	{ 0 },
};

struct args {
	const char *file, *dev;
	uint64_t n_most;
	pid_t *pids;
	size_t n_pids;
};

struct capture {
	struct tap_sources sources;
	struct pcapng out;
	struct tap_seen seen;
	uint64_t n, n_most, n_lost;
};

static volatile sig_atomic_t is_over;

static void on_signal(int number) { is_over = 1; }

static void parse_word(struct args *a, char *word, struct argp_state *state)
{
	char *end;
	unsigned long pid = strtoul(word, &end, 10);

	if (*word >= '0' && *word <= '9' && !*end && pid && pid < INT32_MAX) {
		a->pids = xgrow(a->pids, a->n_pids, sizeof(*a->pids));
		a->pids[a->n_pids++] = (pid_t)pid;
	} else if (!a->dev && strlen(word) < TAP_DEV_MAX) {
		a->dev = word;
	} else {
		argp_error(state, "'%s' is no process, and no device", word);
	}
}

static error_t parse_opt(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;
	char *end;

	switch (key) {
	case 'w':
		a->file = arg;
		return 0;
	case 'c':
		a->n_most = strtoull(arg, &end, 10);
		if (*arg < '0' || *arg > '9' || *end || !a->n_most)
			argp_error(state, "--count is a number, not '%s'", arg);
		return 0;
	case ARGP_KEY_ARG:
		parse_word(a, arg, state);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_opt,
	.args_doc = "DEV|PID...",
	.doc =
	    "Write what osf's own TCP sends and receives over DEV, or in the "
	    "processes PID, to a pcapng file.  DEV osf0 is the software RDMA "
	    "device, as packets of RoCEv2.\v"
	    "The kernel does not show these frames to tcpdump(1).  "
	    "osf-tap(1) has more.",
};

/* A program that has just been found gets an interface. */
static void source_begin(struct capture *c, struct tap_source *s)
{
	s->interface = pcapng_interface(&c->out, PCAPNG_ETHERNET,
					s->reader.info.dev, s->name);
}

static void frame_write(struct capture *c, const struct tap_source *s)
{
	const struct tap_record *r = &c->seen.r;

	c->n++;
	c->n_lost += c->seen.n_lost;
	pcapng_write(&c->out,
		     &(struct pcapng_frame){
			 .interface = s->interface,
			 .direction = r->direction == TAP_IN ? PCAPNG_IN
				      : r->direction == TAP_OUT
					  ? PCAPNG_OUT
					  : PCAPNG_UNKNOWN,
			 .at_ns = r->at_ns,
			 .data = c->seen.data,
			 .len = r->len,
			 .wire_len = r->wire_len,
			 .n_lost = (uint32_t)MIN(c->seen.n_lost, UINT32_MAX),
			 .comment = s->name });
}

/* Return: whether the program can be believed. */
static bool source_read(struct capture *c, struct tap_source *s)
{
	tap_reader_want(&s->reader, now_ns() + WANT_NS);
	for (unsigned i = 0; i < TURN_FRAMES; i++) {
		if (c->n_most && c->n == c->n_most)
			return true;
		int got = tap_reader_next(&s->reader, &c->seen);
		if (got <= 0)
			return !got;
		frame_write(c, s);
	}
	return true;
}

static void read_all(struct capture *c)
{
	for (size_t i = 0; i < c->sources.n; i++) {
		struct tap_source *s = &c->sources.of[i];

		if (s->is_liar || source_read(c, s))
			continue;
		complain("%s: what it shows contradicts itself", s->name);
		s->is_liar = true;
	}
}

static void find(struct capture *c)
{
	size_t n_before;

	tap_sources_check(&c->sources);
	n_before = c->sources.n;
	tap_sources_find(&c->sources);
	for (size_t i = n_before; i < c->sources.n; i++)
		source_begin(c, &c->sources.of[i]);
}

/* Return: 0, or -EIO when the file takes no more. */
static int run(struct capture *c)
{
	uint64_t find_at_ns = now_ns() + FIND_NS;
	int err = 0;

	while (!err && !is_over && !(c->n_most && c->n == c->n_most)) {
		if (now_ns() >= find_at_ns) {
			find(c);
			find_at_ns = now_ns() + FIND_NS;
			if (c->sources.n_pids && !c->sources.n)
				break;
		}
		read_all(c);
		err = pcapng_flush(&c->out);
		(void)poll(NULL, 0, LOOK_MS);
	}
	return err;
}

static void signals_take(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* It may come, and programs that use it later are found. */
static void say_no_device(const char *dev)
{
	if (strcmp(dev, "osf0") != 0 && !if_nametoindex(dev))
		complain("there is no device '%s' here now", dev);
}

static int say_nothing_there(const struct capture *c)
{
	if (c->sources.n_denied)
		complain("the descriptors of a process may not be seen: try as "
			 "root");
	else
		complain("no such process has a port: nothing of its goes "
			 "over osf's own TCP, or over osf0");
	return EXIT_FAILURE;
}

static int capture(struct capture *c, const char *file)
{
	if (strcmp(file, "-") == 0 && isatty(STDOUT_FILENO)) {
		complain("standard output is a terminal: say -w FILE");
		return EXIT_USAGE;
	}
	int err = pcapng_open(&c->out, file);

	if (err) {
		complain("%s: %s", file, strerror(-err));
		return EXIT_FAILURE;
	}
	signals_take();
	find(c);
	bool is_there = c->sources.n || !c->sources.n_pids;
	if (!c->sources.n && c->sources.dev)
		say_no_device(c->sources.dev);
	if (is_there)
		err = run(c);
	err = err ? err : pcapng_close(&c->out);
	if (!is_there)
		return say_nothing_there(c);
	if (err)
		complain("%s: %s", file, strerror(-err));
	complain("%llu frames, %llu missed", (unsigned long long)c->n,
		 (unsigned long long)c->n_lost);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

int cmd_tap(int argc, char **argv)
{
	static struct capture c;
	struct args a = { .file = "-" };

	argp_parse(&argp, argc, argv, 0, NULL, &a);
	c.sources = (struct tap_sources){ .dev = a.dev,
					  .pids = a.pids,
					  .n_pids = a.n_pids };
	c.n_most = a.n_most;
	int status = capture(&c, a.file);
	tap_sources_free(&c.sources);
	free(a.pids);
	return status;
}
