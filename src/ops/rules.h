/* SPDX-License-Identifier: MIT */
/*
 * ops/rules.h - which provider may serve which socket, as the user wrote it
 *
 *     OSF_RULES, /etc/osf.conf, osf run --rule -> rules_parse() -> rule_set
 *     rule_set + program + role + addresses    -> rules_match() -> provider
 *
 * The grammar is libvma.conf's and libxlio.conf's, as a superset; docs/rules.md
 * is the same for users:
 *
 *   file        := { statement ( NEWLINE | ';' ) }   '#' starts a comment
 *   statement   := 'application-id' PROGRAM ID        opens an instance
 *                | 'use' PROVIDER ROLE TUPLE
 *                | 'log' LOGOPT { LOGOPT }
 *   LOGOPT      := 'min-level' INT
 *                | 'destination' ( 'stderr' | 'syslog' | 'file' NAME )
 *   PROGRAM     := a pattern for fnmatch()
 *   ID          := a word or number without '*', or '*' alone
 *   PROVIDER    := '*' | 1 to 15 of a-z 0-9 '_' '-': os, inet, osf, vma, xlio,
 *                  shm, tcp, sdp, sa or a module's name
 *   ROLE        := 'tcp_server' | 'tcp_client' | 'udp_sender'
 *                | 'udp_receiver' | 'udp_connect'
 *   TUPLE       := ADDR ':' PORTS [ ':' ADDR ':' PORTS ]
 *   ADDR        := '*' | IPV4 [ '/' PLEN ] | '[' IPV6 ']' [ '/' PLEN ]
 *   PORTS       := '*' | PORT | PORT '-' PORT
 *
 * A word ends at a space, a tab, the line's end (LF or CR LF), ';' or '#'.
 * Spaces may stand between the parts of a tuple.  A comment may hold any byte
 * but NUL; outside comments the text is printable ASCII.  An IPv4 PLEN above 32
 * counts as 32, as in libvma; an IPv6 one above 128 is an error.  A v4-mapped
 * address with a PLEN of 96 or more is an IPv4 one.  The scanners of libvma
 * and libxlio know 'stderr' as 'ystderr' and 'file' as 'yfile': so do we.  Log
 * destinations are checked and then ignored; OSF_LOG decides.
 *
 * Statements before the first application-id of a text belong to the set's
 * first instance "* *", which is opened where there is none.
 *
 * Owner of a rule_set: whoever parsed it; immutable once parsed, so any number
 * of threads may match.  No malloc of ours after parsing (glibc's fnmatch()
 * may, once, in a multibyte locale); works before libc's stdio is usable and
 * calls nothing that osf interposes: no descriptor is ever touched.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum rule_role {
	ROLE_TCP_SERVER,   /* tuple: local address */
	ROLE_TCP_CLIENT,   /* tuple: remote, optionally local */
	ROLE_UDP_SENDER,   /* tuple: remote */
	ROLE_UDP_RECEIVER, /* tuple: local */
	ROLE_UDP_CONNECT,  /* tuple: remote, optionally local */
	ROLES
};

/* Bytes, NUL included; a longer provider is an error. */
#define RULE_PROVIDER_MAX 16

struct rule_set;

/* Is @name, which is not built in, a known provider? */
typedef bool rule_knows(const char *name);

/* Where a rule text is wrong. text is a whole message, "expected ..., found
 * ...", without file name, line and column; always printable ASCII. */
struct rule_error {
	unsigned line, column; /* from 1; a column is a byte */
	char text[200];
};

/**
 * rules_parse() - add the statements of @text to a rule set
 * @prs: in: a set to add to, or NULL for a new one; out: the set
 * @text: need not end in NUL; an empty text is a set without rules
 * @knows: asked for providers that are not built in; NULL knows all
 * @err: may be NULL
 *
 * What is added comes after what is there, so the text that shall win is parsed
 * first; an instance "* *" hides every instance after it.  On error nothing is
 * added and *@prs is as it was.
 *
 * Return: 0, -EINVAL with *@err filled, or -ENOMEM.
 * Owns: rules_free() frees the set; @text may go after the call.
 * Context: nobody else uses *@prs during the call.
 */
int rules_parse(struct rule_set **prs, const char *text, size_t len,
		rule_knows *knows, struct rule_error *err);

/* Takes NULL too.  Names that rules_match() has returned go with the set. */
void rules_free(struct rule_set *rs);

/**
 * rules_match() - what the first matching rule says
 * @rs: NULL is a set without rules
 * @program: program_invocation_short_name; matched by fnmatch()
 * @id: the application id, NULL for "OSF_DEFAULT_APPLICATION_ID"
 * @first: the address the role names first (server: local; client: remote)
 * @second: the other one, or NULL when not known
 *
 * The first instance whose program and id match is *the* instance; in it the
 * first rule of @role whose tuple matches wins, and no other instance is asked.
 *
 * v4-mapped IPv6 addresses are compared as IPv4.  '*' as ADDR matches both
 * families; 0.0.0.0/0 only IPv4, [::]/0 only native IPv6.  A rule's missing
 * second part is '*:*'.  An address that is NULL, or neither AF_INET nor
 * AF_INET6, is not known and matches only '*:*'.
 *
 * Any provider's name is returned as it was written, but "vma", "xlio" and "*"
 * come back as "osf".  A name that the switch does not know ("sdp", "sa") means
 * there what NULL means: libvma, too, treats "sdp" and "sa" as "does not match"
 * without looking at a later rule.
 *
 * Return: the provider's name ("os", "osf", "shm", ...), or NULL when no rule
 * matches.
 * Owns: the name lives as long as @rs.
 */
const char *rules_match(const struct rule_set *rs, const char *program,
			const char *id, enum rule_role role,
			const struct sockaddr *first,
			const struct sockaddr *second);

/* 1 if the instance of @program sends both TCP roles to os for every address,
 * so that socket() can leave a socket to the kernel at once: each role has a
 * rule "os *:*", and only rules for os before it.  0 when in doubt. */
int rules_all_os(const struct rule_set *rs, const char *program,
		 const char *id);

/* The level of the last "log min-level" of the set, whatever its instance, or
 * -1. */
int rules_log_level(const struct rule_set *rs);
