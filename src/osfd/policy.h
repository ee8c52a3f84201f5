/* SPDX-License-Identifier: MIT */
/*
 * osfd/policy.h - who may use which device: the text that says so
 *
 *     # comments, and empty lines
 *     port eth0 user redis flows 10000
 *     port eth1
 *
 * Without a user a port is root's; a number is a uid.  Without flows it may have
 * POLICY_FLOWS connections.  osfd reads such a text at its start, and writes one to
 * find its ports again after a crash.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "osfd/msg.h"

#define POLICY_FLOWS 65536

/* Finds a user's number.  Return: false where there is none of that name. */
typedef bool policy_user(const char *name, uint32_t *uid);

/**
 * policy_parse() - read a text
 * @out, @max: where ports are stored, and how many fit
 * @line: the line at fault, from 1, on failure
 *
 * Return: the number of ports, or
 *   -EINVAL  a line is not as above
 *   -ENOENT  there is no such user
 *   -ENOSPC  more than @max ports
 */
MUST_CHECK int policy_parse(const char *text, size_t len, policy_user *user_of,
			    struct msg_port *out, int max, unsigned *line);

/* One line, with its newline.  Return: its length */
int policy_print(const struct msg_port *p, char *line, size_t size);
