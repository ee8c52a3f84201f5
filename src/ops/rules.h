/* SPDX-License-Identifier: MIT */
/*
 * ops/rules.h - which provider may serve which socket, as the user wrote it
 *
 *     OSF_RULES, /etc/osf.conf, osf run --rule  ->  rules_parse()  ->  rule_set
 *     rule_set + program + role + addresses      ->  rules_match()  ->  provider
 *
 * The grammar is libvma.conf's and libxlio.conf's, as a superset:
 *
 *   file        := { statement ( NEWLINE | ';' ) }   '#' starts a comment
 *   statement   := 'application-id' PROGRAM ID        opens an instance
 *                | 'use' PROVIDER ROLE TUPLE
 *                | 'log' 'min-level' INT
 *                | 'log' 'destination' ('stderr'|'syslog'|'file' NAME)
 *   PROVIDER    := 'os' | 'osf' | 'vma' | 'xlio' | 'shm' | 'tcp' | 'sdp' | ... | '*'
 *   ROLE        := 'tcp_server' | 'tcp_client' | 'udp_sender'
 *                | 'udp_receiver' | 'udp_connect'
 *   TUPLE       := ADDR ':' PORTS [ ':' ADDR ':' PORTS ]
 *   ADDR        := '*' | IPV4 [ '/' PLEN ] | '[' IPV6 ']' [ '/' PLEN ]
 *   PORTS       := '*' | PORT | PORT '-' PORT
 *
 * Statements before the first application-id belong to an instance "* *".
 *
 * Owner of a rule_set: whoever parsed it; immutable once parsed, so any number
 * of threads may match.  No malloc after parsing; works before libc's stdio is
 * usable and calls nothing that osf interposes but through src/base/libc.h.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum rule_role {
	ROLE_TCP_SERVER, /* tuple: local address */
	ROLE_TCP_CLIENT, /* tuple: remote, optionally local */
	ROLE_UDP_SENDER,
	ROLE_UDP_RECEIVER,
	ROLE_UDP_CONNECT,
	ROLES
};

#define RULE_PROVIDER_MAX 16 /* bytes, NUL included; longer names are an error */

struct rule_set;

/* Where a rule file is wrong.  text is a whole message without file name. */
struct rule_error {
	unsigned line, column; /* from 1 */
	char text[160];
};

/**
 * rules_parse() - add the statements of @text to a rule set
 * @prs: in: a set to add to, or NULL for a new one; out: the set
 *
 * On error nothing is added and *@prs is as it was.
 *
 * Return: 0, -EINVAL with *@err filled, or -ENOMEM.
 * Owns: rules_free() frees the set; @text may go after the call.
 */
int rules_parse(struct rule_set **prs, const char *text, size_t len,
		struct rule_error *err);
void rules_free(struct rule_set *rs);

/**
 * rules_match() - what the first matching rule says
 * @program: program_invocation_short_name; matched by fnmatch()
 * @id: the application id, NULL for "OSF_DEFAULT_APPLICATION_ID"
 * @first: the address the role names first (server: local; client: remote)
 * @second: the other one, or NULL when not known (matches only '*')
 *
 * The first instance whose program and id match is *the* instance; in it the
 * first rule of @role whose tuple matches wins.  v4-mapped IPv6 addresses are
 * compared as IPv4.  '*' as ADDR matches both families; 0.0.0.0/0 only IPv4.
 *
 * Return: the provider's name ("os", "osf", "shm", ...; "vma", "xlio" and "*"
 * come back as "osf"), or NULL when no rule matches.
 */
const char *rules_match(const struct rule_set *rs, const char *program,
			const char *id, enum rule_role role,
			const struct sockaddr *first,
			const struct sockaddr *second);

/* 1 when the instance of @program sends both TCP roles to os for every address,
 * so that a socket can be left to the kernel at socket() already. */
int rules_all_os(const struct rule_set *rs, const char *program, const char *id);

/* The level of the last "log min-level" that applies, or -1. */
int rules_log_level(const struct rule_set *rs);
