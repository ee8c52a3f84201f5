/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/rules_parse.c - what is a rule text, what is not, and what we say
 *
 * The messages are golden: a user sees them, so a change of one is a change of
 * what osf does, and shows here.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <cmocka.h>

#include "ops/rules.h"

#define N_ELEMS(a) (sizeof(a) / sizeof((a)[0]))

/* A string literal that may hold NUL bytes. */
#define TEXT(s) (s), sizeof(s) - 1

#define ROLE_WORDS                                                             \
	"a role (tcp_server, tcp_client, udp_sender, udp_receiver or "         \
	"udp_connect)"
#define ADDR_WORDS "'*', an IPv4 address or '['"
#define PROVIDER_WORDS "a provider ('*' or 1 to 15 of a-z 0-9 _ -)"
#define PROGRAM_WORDS "a program name or pattern of 1 to 254 bytes"
#define ID_WORDS "an application id of 1 to 254 bytes, or '*' alone"

#define A16 "aaaaaaaaaaaaaaaa"
#define A64 A16 A16 A16 A16
#define A256 A64 A64 A64 A64
#define A4096                                                                  \
	A256 A256 A256 A256 A256 A256 A256 A256 A256 A256 A256 A256 A256 A256  \
	    A256 A256

static const char *client_rule(const struct rule_set *rs, const char *program)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons(80) };

	inet_pton(AF_INET, "10.1.2.3", &sin.sin_addr);
	return rules_match(rs, program, NULL, ROLE_TCP_CLIENT,
			   (struct sockaddr *)&sin, NULL);
}

static void assert_parses(struct rule_set **prs, const char *text, size_t len)
{
	struct rule_error err = { 0 };
	int rc = rules_parse(prs, text, len, NULL, &err);

	if (rc)
		fail_msg("%u:%u: %s\nin: %s", err.line, err.column, err.text,
			 text);
}

/* rules.h, grammar */
static void good_text_is_accepted(void **state)
{
	static const struct {
		const char *text;
		size_t len;
	} good[] = {
		{ TEXT("") },
		{ TEXT("\n\n \t\n") },
		{ TEXT(";;;") },
		{ TEXT("# only a comment") },
		{ TEXT("# f\xc3\xbcr die Aufl\xc3\xb6sung\n") },
		{ TEXT("use os tcp_client *:*") },
		{ TEXT("use os tcp_client *:*;") },
		{ TEXT("use os tcp_client *:*# comment") },
		{ TEXT("use os tcp_client *:* # a;b\n") },
		{ TEXT("use os tcp_client *:*\r\nuse os tcp_server *:*\r\n") },
		{ TEXT("use os tcp_client *:*\r") },
		{ TEXT("\tuse\tos\ttcp_client\t*:*\t") },
		{ TEXT("use os tcp_client 10.0.0.0 / 8 : 80 - 90 : * : *") },
		{ TEXT("use os udp_sender *:0-65535; use * udp_connect *:0") },
		{ TEXT("use os udp_receiver *:080") },
		{ TEXT("use abcdefghijklmno tcp_client *:80-80") },
		{ TEXT("use my_mod-2 tcp_client *:*") },
		{ TEXT("use sdp tcp_client *:*\nuse sa tcp_server *:*\n") },
		{ TEXT("use os tcp_server 1.2.3.4/33:*") },
		{ TEXT("use os tcp_server 1.2.3.4/99999999999999999999:*") },
		{ TEXT("use os tcp_server [::]/128:*:[2001:DB8::1]:7") },
		{ TEXT("use os tcp_server [::ffff:10.0.0.1]/96:*") },
		{ TEXT("use os tcp_server [ ::1 ] / 64 : *") },
		{ TEXT("application-id ngin[xy]? 12") },
		{ TEXT("application-id * *") },
		{ TEXT("application-id redis-* my-id.2") },
		{ TEXT("log min-level 0") },
		{ TEXT("log min-level 2147483647") },
		{ TEXT("log destination stderr") },
		{ TEXT("log destination syslog") },
		{ TEXT("log destination file /tmp/osf.log") },
		{ TEXT("log destination ystderr") },
		{ TEXT("log destination yfile libvma.log") },
		{ TEXT("log min-level 9 destination file a.log") },
	};

	for (size_t i = 0; i < N_ELEMS(good); i++) {
		struct rule_set *rs = NULL;

		assert_parses(&rs, good[i].text, good[i].len);
		assert_non_null(rs);
		rules_free(rs);
	}
}

struct bad {
	const char *text;
	size_t len;
	unsigned line, column;
	const char *message;
};

static void assert_refused(const struct bad *bad)
{
	struct rule_set *rs = NULL;
	struct rule_error err = { 0 };

	if (rules_parse(&rs, bad->text, bad->len, NULL, &err) != -EINVAL)
		fail_msg("accepted: %s", bad->text);
	assert_null(rs);
	assert_string_equal(err.text, bad->message);
	if (err.line != bad->line || err.column != bad->column)
		fail_msg("%s: at %u:%u, not %u:%u", err.text, err.line,
			 err.column, bad->line, bad->column);
}

static void bad_statement_is_reported_where_it_is(void **state)
{
	static const struct bad bad[] = {
		{ TEXT("us os tcp_client *:*"), 1, 1,
		  "expected a statement (application-id, use or log), found "
		  "'us'" },
		{ TEXT("\n\n  Use os"), 3, 3,
		  "expected a statement (application-id, use or log), found "
		  "'Use'" },
		{ TEXT("# x\r\n; \x7f"), 2, 3,
		  "expected a statement (application-id, use or log), found "
		  "byte 0x7f" },
		{ TEXT("use"), 1, 4,
		  "expected " PROVIDER_WORDS ", found the end of the text" },
		{ TEXT("use  # later"), 1, 6,
		  "expected " PROVIDER_WORDS ", found a comment" },
		{ TEXT("use OS tcp_client *:*"), 1, 5,
		  "expected " PROVIDER_WORDS ", found 'OS'" },
		{ TEXT("use abcdefghijklmnop tcp_client *:*"), 1, 5,
		  "expected " PROVIDER_WORDS ", found 'abcdefghijklmnop'" },
		{ TEXT("use " A64 " tcp_client *:*"), 1, 5,
		  "expected " PROVIDER_WORDS ", found '" A16 A16 "...'" },
		{ TEXT("use os\n"), 1, 7,
		  "expected " ROLE_WORDS ", found the end of the line" },
		{ TEXT("use os\r\n"), 1, 7,
		  "expected " ROLE_WORDS ", found the end of the line" },
		{ TEXT("use os ;"), 1, 8,
		  "expected " ROLE_WORDS ", found ';'" },
		{ TEXT("use os tcp_servers *:*"), 1, 8,
		  "expected " ROLE_WORDS ", found 'tcp_servers'" },
		{ TEXT("use os tcp_server"), 1, 18,
		  "expected " ADDR_WORDS ", found the end of the text" },
		{ TEXT("use os tcp_server *:* junk"), 1, 23,
		  "expected the end of the statement, found 'junk'" },
		{ TEXT("use os tcp_server *:*\nuse os tcp_server *:80x"), 2, 23,
		  "expected the end of the statement, found 'x'" },
		{ TEXT("use os tcp_server *:80,90"), 1, 23,
		  "expected the end of the statement, found ',90'" },
		{ TEXT("use os tcp_server *:*:*:*:*:*"), 1, 26,
		  "expected the end of the statement, found ':*:*'" },
	};

	for (size_t i = 0; i < N_ELEMS(bad); i++)
		assert_refused(&bad[i]);
}

static void bad_tuple_is_reported_where_it_is(void **state)
{
	static const struct bad bad[] = {
		{ TEXT("use os tcp_client localhost:80"), 1, 19,
		  "expected " ADDR_WORDS ", found 'localhost:80'" },
		{ TEXT("use os tcp_client 1.2.3:80"), 1, 19,
		  "expected " ADDR_WORDS ", found '1.2.3'" },
		{ TEXT("use os tcp_client 1.2.3.256:80"), 1, 19,
		  "expected " ADDR_WORDS ", found '1.2.3.256'" },
		{ TEXT("use os tcp_client 1.2.3.4.5.6.7.8.9:80"), 1, 19,
		  "expected " ADDR_WORDS ", found '1.2.3.4.5.6.7.8.9'" },
		{ TEXT("use os tcp_client 1.2.3.4/:80"), 1, 27,
		  "expected a prefix length from 0 to 32, found ':80'" },
		{ TEXT("use os tcp_client 1.2.3.4/-1:80"), 1, 27,
		  "expected a prefix length from 0 to 32, found '-1:80'" },
		{ TEXT("use os tcp_client 1.2.3.4"), 1, 26,
		  "expected ':' and ports after the address, found the end of "
		  "the text" },
		{ TEXT("use os tcp_client */8:80"), 1, 20,
		  "expected ':' and ports after the address, found '/8:80'" },
		{ TEXT("use os tcp_client 2001:db8::1:80"), 1, 19,
		  "expected " ADDR_WORDS ", found '2001'" },
		{ TEXT("use os tcp_client []:80"), 1, 20,
		  "expected an IPv6 address, found ']:80'" },
		{ TEXT("use os tcp_client [1.2.3.4]:80"), 1, 20,
		  "expected an IPv6 address, found '1.2.3.4'" },
		{ TEXT("use os tcp_client [fe80::1%eth0]:80"), 1, 27,
		  "expected ']' after the IPv6 address, found '%eth0]:80'" },
		{ TEXT("use os tcp_client [::1\n]:80"), 1, 23,
		  "expected ']' after the IPv6 address, found the end of the "
		  "line" },
		{ TEXT("use os tcp_client [1::2::3]:80"), 1, 20,
		  "expected an IPv6 address, found '1::2::3'" },
		{ TEXT("use os tcp_client [" A64 "]:80"), 1, 20,
		  "expected an IPv6 address, found '" A16 A16 "...'" },
		{ TEXT("use os tcp_client [::]/129:80"), 1, 24,
		  "expected a prefix length from 0 to 128, found '129'" },
		{ TEXT("use os tcp_client [::]/4294967296:80"), 1, 24,
		  "expected a prefix length from 0 to 128, found "
		  "'4294967296'" },
		{ TEXT("use os tcp_client *:"), 1, 21,
		  "expected '*' or a port from 0 to 65535, found the end of "
		  "the text" },
		{ TEXT("use os tcp_client *:http"), 1, 21,
		  "expected '*' or a port from 0 to 65535, found 'http'" },
		{ TEXT("use os tcp_client *:-1"), 1, 21,
		  "expected '*' or a port from 0 to 65535, found '-1'" },
		{ TEXT("use os tcp_client *:65536"), 1, 21,
		  "expected a port from 0 to 65535, found '65536'" },
		{ TEXT("use os tcp_client *:99999999999999999999"), 1, 21,
		  "expected a port from 0 to 65535, found "
		  "'99999999999999999999'" },
		{ TEXT("use os tcp_client *:80-"), 1, 24,
		  "expected a port from 80 to 65535, found the end of the "
		  "text" },
		{ TEXT("use os tcp_client *:80-*"), 1, 24,
		  "expected a port from 80 to 65535, found '*'" },
		{ TEXT("use os tcp_client *:80-79"), 1, 24,
		  "expected a port from 80 to 65535, found '79'" },
		{ TEXT("use os tcp_client *:80 - 70000"), 1, 26,
		  "expected a port from 80 to 65535, found '70000'" },
		{ TEXT("use os tcp_client *:80:"), 1, 24,
		  "expected " ADDR_WORDS ", found the end of the text" },
		{ TEXT("use os tcp_client *:80:1.2.3.4"), 1, 31,
		  "expected ':' and ports after the address, found the end of "
		  "the text" },
	};

	for (size_t i = 0; i < N_ELEMS(bad); i++)
		assert_refused(&bad[i]);
}

static void bad_application_id_and_log_are_reported(void **state)
{
	static const struct bad bad[] = {
		{ TEXT("application-id"), 1, 15,
		  "expected " PROGRAM_WORDS ", found the end of the text" },
		{ TEXT("application-id nginx"), 1, 21,
		  "expected " ID_WORDS ", found the end of the text" },
		{ TEXT("application-id nginx web*"), 1, 22,
		  "expected " ID_WORDS ", found 'web*'" },
		{ TEXT("application-id nginx 1 2"), 1, 24,
		  "expected the end of the statement, found '2'" },
		{ TEXT("application-id " A256 " *"), 1, 16,
		  "expected " PROGRAM_WORDS ", found '" A16 A16 "...'" },
		{ TEXT("application-id * " A256), 1, 18,
		  "expected " ID_WORDS ", found '" A16 A16 "...'" },
		{ TEXT("log"), 1, 4,
		  "expected min-level or destination, found the end of the "
		  "text" },
		{ TEXT("log level 3"), 1, 5,
		  "expected min-level or destination, found 'level'" },
		{ TEXT("log min-level high"), 1, 15,
		  "expected a level, a number from 0, found 'high'" },
		{ TEXT("log min-level 2147483648"), 1, 15,
		  "expected a level, a number from 0, found '2147483648'" },
		{ TEXT("log min-level 3 4"), 1, 17,
		  "expected min-level or destination, found '4'" },
		{ TEXT("log destination stdout"), 1, 17,
		  "expected stderr, syslog or file and a file name, found "
		  "'stdout'" },
		{ TEXT("log destination file"), 1, 21,
		  "expected a file name of 1 to 4095 bytes, found the end of "
		  "the text" },
		{ TEXT("log destination file " A4096), 1, 22,
		  "expected a file name of 1 to 4095 bytes, found '" A16 A16
		  "...'" },
	};

	for (size_t i = 0; i < N_ELEMS(bad); i++)
		assert_refused(&bad[i]);
}

static void bytes_that_are_not_text_are_refused(void **state)
{
	static const struct bad bad[] = {
		{ TEXT("use os tcp_client *:*\0"), 1, 22,
		  "expected the end of the statement, found byte 0x00" },
		{ TEXT("use os tcp_client 1.2.3.4\0:80"), 1, 26,
		  "expected ':' and ports after the address, found byte 0x00" },
		{ TEXT("use os tcp_client [::1\0]:80"), 1, 23,
		  "expected ']' after the IPv6 address, found byte 0x00" },
		{ TEXT("\n# text\0more\n"), 2, 7,
		  "expected a comment without NUL bytes, found byte 0x00" },
		{ TEXT("use \xc3\xb6s tcp_client *:*"), 1, 5,
		  "expected " PROVIDER_WORDS ", found byte 0xc3" },
		{ TEXT("application-id caf\xc3\xa9 *"), 1, 19,
		  "expected " ID_WORDS ", found byte 0xc3" },
		{ TEXT("use os\rtcp_client *:*"), 1, 7,
		  "expected " ROLE_WORDS ", found byte 0x0d" },
		{ TEXT("use os tcp_client\v*:*"), 1, 18,
		  "expected " ADDR_WORDS ", found byte 0x0b" },
	};

	for (size_t i = 0; i < N_ELEMS(bad); i++)
		assert_refused(&bad[i]);
}

static void names_may_be_as_long_as_promised(void **state)
{
	char program[255], text[300];
	struct rule_set *rs = NULL;

	memset(program, 'p', 254);
	program[254] = '\0';
	snprintf(text, sizeof(text),
		 "application-id %s *;use os tcp_client *:*", program);
	assert_parses(&rs, text, strlen(text));
	assert_string_equal(client_rule(rs, program), "os");
	rules_free(rs);
}

static void long_text_is_refused_one_byte_past_its_limit(void **state)
{
	size_t len = 256 * 1024;
	char *text = malloc(len + 1);
	struct rule_set *rs = NULL;
	struct rule_error err;

	assert_non_null(text);
	memset(text, '\n', len + 1);
	assert_int_equal(rules_parse(&rs, text, len + 1, NULL, &err), -EINVAL);
	assert_null(rs);
	assert_string_equal(err.text, "expected a text of at most 256 KiB, "
				      "found a longer one");
	assert_int_equal(err.line, 1);
	assert_int_equal(err.column, 1);

	assert_parses(&rs, text, len);
	rules_free(rs);
	free(text);
}

static void text_need_not_end_in_nul_nor_outlive_the_call(void **state)
{
	static const char text[] = "application-id a *;use os tcp_client *:80";
	size_t len = sizeof(text) - 1;
	struct rule_set *rs = NULL;
	char *copy = malloc(len);

	assert_non_null(copy);
	memcpy(copy, text, len);
	assert_parses(&rs, copy, len);
	free(copy);
	assert_string_equal(client_rule(rs, "a"), "os");
	rules_free(rs);
}

static void failed_parse_leaves_the_set_as_it_was(void **state)
{
	static const char *const bad[] = {
		"use shm tcp_client *:*; use",
		"log min-level 7\napplication-id nginx *; use x y",
		"application-id nginx *\nuse os tcp_client *:*\nlog",
	};
	struct rule_set *rs = NULL, *before;

	assert_parses(&rs, TEXT("log min-level 3; use os tcp_client *:80"));
	before = rs;
	for (size_t i = 0; i < N_ELEMS(bad); i++) {
		assert_int_equal(
		    rules_parse(&rs, bad[i], strlen(bad[i]), NULL, NULL),
		    -EINVAL);
		assert_ptr_equal(rs, before);
		assert_string_equal(client_rule(rs, "nginx"), "os");
		assert_int_equal(rules_log_level(rs), 3);
	}

	/* and is as good as before for what comes next */
	assert_parses(&rs, TEXT("use shm tcp_server *:*"));
	assert_ptr_equal(rs, before);
	assert_string_equal(
	    rules_match(rs, "nginx", NULL, ROLE_TCP_SERVER, NULL, NULL), "shm");
	rules_free(rs);
}

static void failed_first_parse_makes_no_set(void **state)
{
	struct rule_set *rs = NULL;

	assert_int_equal(rules_parse(&rs, TEXT("use"), NULL, NULL), -EINVAL);
	assert_null(rs);
	rules_free(rs);
}

static void no_text_at_all_is_a_set_without_rules(void **state)
{
	struct rule_set *rs = NULL;

	assert_int_equal(rules_parse(&rs, NULL, 0, NULL, NULL), 0);
	assert_non_null(rs);
	assert_null(client_rule(rs, "a"));
	rules_free(rs);
}

static void last_log_level_holds(void **state)
{
	struct rule_set *rs = NULL;

	assert_int_equal(rules_log_level(NULL), -1);
	assert_parses(&rs, TEXT("use os tcp_client *:*"));
	assert_int_equal(rules_log_level(rs), -1);
	assert_parses(&rs, TEXT("log min-level 2; log min-level 5"));
	assert_int_equal(rules_log_level(rs), 5);
	assert_parses(&rs, TEXT("use os tcp_server *:*"));
	assert_int_equal(rules_log_level(rs), 5);
	assert_parses(&rs, TEXT("log destination stderr min-level 0"));
	assert_int_equal(rules_log_level(rs), 0);
	rules_free(rs);
}

static bool knows_dummy(const char *name) { return !strcmp(name, "dummy"); }

/* A word that is nobody's name is most likely a typing error. */
static void unknown_providers_are_refused_with_the_list(void **state)
{
	static const char *const good[] = {
		"os",  "inet", "osf", "vma", "xlio",
		"shm", "sdp",  "sa",  "*",   "dummy"
	};
	struct rule_set *rs = NULL;
	struct rule_error err;
	char text[64];

	for (size_t i = 0; i < N_ELEMS(good); i++) {
		int n = snprintf(text, sizeof(text), "use %s tcp_client *:*",
				 good[i]);
		assert_int_equal(
		    rules_parse(&rs, text, (size_t)n, knows_dummy, &err), 0);
	}
	rules_free(rs);
	rs = NULL;
	assert_int_equal(
	    rules_parse(&rs, TEXT("use oss tcp_client *:*"), knows_dummy, &err),
	    -EINVAL);
	assert_null(rs);
	assert_int_equal(err.column, 5);
	assert_string_equal(err.text,
			    "expected a provider (os, inet, osf, vma, xlio, "
			    "shm, tcp, sdp, sa, '*' or a module's name), found "
			    "'oss'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_text_is_accepted),
		cmocka_unit_test(bad_statement_is_reported_where_it_is),
		cmocka_unit_test(bad_tuple_is_reported_where_it_is),
		cmocka_unit_test(bad_application_id_and_log_are_reported),
		cmocka_unit_test(bytes_that_are_not_text_are_refused),
		cmocka_unit_test(names_may_be_as_long_as_promised),
		cmocka_unit_test(long_text_is_refused_one_byte_past_its_limit),
		cmocka_unit_test(text_need_not_end_in_nul_nor_outlive_the_call),
		cmocka_unit_test(failed_parse_leaves_the_set_as_it_was),
		cmocka_unit_test(failed_first_parse_makes_no_set),
		cmocka_unit_test(no_text_at_all_is_a_set_without_rules),
		cmocka_unit_test(last_log_level_holds),
		cmocka_unit_test(unknown_providers_are_refused_with_the_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
