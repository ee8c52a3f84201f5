/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/vma_env.c - "osf vma-env": libvma's variables, and what osf does with them
 *
 * The list is src/base/vma_env.def; libosf.so reads the same.
 */
#include "osf.h"
#include <argp.h>

#define AS(name, ours, text) { #name, text, "as " ours },
#define DOES(name, text, effect) { #name, text, effect },
#define NONE(name, text, why) { #name, text, "no effect: " why },

static const struct {
	const char *name, *text, *effect;
} variables[] = {
#include "base/vma_env.def"
};

static const struct argp argp = {
	.doc = "List the variables of libvma, what each means there and what "
	       "it does here.",
};

int cmd_vma_env(int argc, char **argv)
{
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
		printf("%s\n    %s\n    %s\n", variables[i].name,
		       variables[i].text, variables[i].effect);
	return 0;
}
