/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/main.c - the command "osf": which of its commands is meant
 *
 *     osf run     start a program with libosf.so preloaded   run.c
 *     osf stat    what the sockets of running programs do    stat.c
 *     osf port    devices for TCP in user space              port.c
 *     osf tap     what that TCP sends and receives           tap.c
 *     osf rdma    what programs do on the RDMA device        rdma.c
 *     osf bench   the kernel against osf, side by side       tools/bench
 *     osf vma-env libvma's variables                         vma_env.c
 *
 * The manual page is docs/osf.1.
 */
#include "osf.h"
#include <argp.h>
#include <stdlib.h>
#include <string.h>

const char *argp_program_version = "osf " OSF_VERSION;

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "run", cmd_run },
	{ "stat", cmd_stat },
	{ "port", cmd_port },
	{ "tap", cmd_tap },
	{ "rdma", cmd_rdma },
	{ "bench", cmd_bench },
	{ "vma-env", cmd_vma_env },
	{ "bench-peer",
	  cmd_bench_peer }, /* not for people: what bench starts */
};

static const char doc[] =
    "Offload Sockets Framework: kernel-bypass sockets for programs as they "
    "are.\v"
    "Commands:\n"
    "  run      start a program with its sockets offloaded\n"
    "  stat     show what the sockets of running programs do, and why\n"
    "  port     let programs move TCP connections over a device\n"
    "  tap      write what these connections send and receive to a file\n"
    "  rdma     show the software RDMA device's queue pairs and counters\n"
    "  bench    measure the kernel against osf on this machine\n"
    "  vma-env  list the variables of libvma, and what they do here\n"
    "  help     this text, or that of a command: osf help run\n"
    "\n"
    "`osf COMMAND --help' describes a command; osf(1) describes them all.";

/* What is left of the command line, from the command's name on. */
struct rest {
	int argc;
	char **argv;
};

static error_t parse_opt(int key, char *arg, struct argp_state *state)
{
	struct rest *rest = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		rest->argv = &state->argv[state->next - 1];
		rest->argc = state->argc - state->next + 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_state_help(state, stderr,
				ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK);
		exit(EXIT_USAGE);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.parser = parse_opt,
	.args_doc = "COMMAND [ARGUMENTS]",
	.doc = doc,
};

static const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static int command_run(const struct command *c, int argc, char **argv)
{
	argv[0] = xasprintf("osf %s", c->name); /* for usage lines */
	int status = c->run(argc, argv);
	free(argv[0]);
	return status;
}

static int cmd_help(int argc, char **argv)
{
	const struct command *c = argc > 1 ? command_find(argv[1]) : NULL;
	char help[] = "--help", osf[] = "osf";

	if (argc > 1 && !c) {
		complain("there is no command '%s'; try `osf --help'", argv[1]);
		return EXIT_USAGE;
	}
	if (c)
		return command_run(c, 2, (char *[]){ osf, help, NULL });
	argp_help(&argp, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK, osf);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct rest rest = { 0 };

	char osf[] = "osf"; /* for usage lines, wherever it is installed */

	argp_err_exit_status = EXIT_USAGE;
	if (argc)
		argv[0] = osf;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &rest);

	if (strcmp(rest.argv[0], "help") == 0)
		return cmd_help(rest.argc, rest.argv);

	const struct command *c = command_find(rest.argv[0]);
	if (!c) {
		complain("there is no command '%s'; try `osf --help'",
			 rest.argv[0]);
		return EXIT_USAGE;
	}
	return command_run(c, rest.argc, rest.argv);
}
