/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/rules_match.c - which rule answers for which socket
 *
 * A case is a text, a question and the answer; addresses are written as
 * "10.0.0.1:80" or "[2001:db8::1]:80", NULL being one that is not known.
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
#include <sys/un.h>
#include <cmocka.h>

#include "ops/rules.h"

#define N_ELEMS(a) (sizeof(a) / sizeof((a)[0]))

static struct rule_set *parse(const char *text)
{
	struct rule_set *rs = NULL;
	struct rule_error err = { 0 };

	if (rules_parse(&rs, text, strlen(text), NULL, &err))
		fail_msg("%u:%u: %s\nin: %s", err.line, err.column, err.text,
			 text);
	return rs;
}

static void add(struct rule_set **prs, const char *text)
{
	assert_int_equal(rules_parse(prs, text, strlen(text), NULL, NULL), 0);
}

/* @ss is written and returned; NULL for NULL. */
static const struct sockaddr *addr(struct sockaddr_storage *ss,
				   const char *text)
{
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)ss;
	struct sockaddr_in *sin = (struct sockaddr_in *)ss;
	unsigned port;
	char host[64];

	if (!text)
		return NULL;
	memset(ss, 0, sizeof(*ss));
	if (sscanf(text, "[%63[^]]]:%u", host, &port) == 2) {
		sin6->sin6_family = AF_INET6;
		sin6->sin6_port = htons((uint16_t)port);
		assert_int_equal(inet_pton(AF_INET6, host, &sin6->sin6_addr),
				 1);
	} else {
		assert_int_equal(sscanf(text, "%63[^:]:%u", host, &port), 2);
		sin->sin_family = AF_INET;
		sin->sin_port = htons((uint16_t)port);
		assert_int_equal(inet_pton(AF_INET, host, &sin->sin_addr), 1);
	}
	return (const struct sockaddr *)ss;
}

static const char *ask(const struct rule_set *rs, const char *program,
		       const char *id, enum rule_role role, const char *first,
		       const char *second)
{
	struct sockaddr_storage a, b;

	return rules_match(rs, program, id, role, addr(&a, first),
			   addr(&b, second));
}

static void assert_answer(const char *answer, const char *expected,
			  const char *about)
{
	if (!answer != !expected || (answer && strcmp(answer, expected)))
		fail_msg("%s: %s, not %s", about, answer ? answer : "no rule",
			 expected ? expected : "no rule");
}

struct tuple_case {
	const char *tuple;
	const char *first, *second;
	int does_match;
};

static void assert_tuples(const struct tuple_case *cases, size_t n_cases)
{
	for (size_t i = 0; i < n_cases; i++) {
		char text[160];
		struct rule_set *rs;

		snprintf(text, sizeof(text), "use os tcp_client %s",
			 cases[i].tuple);
		rs = parse(text);
		assert_answer(ask(rs, "a", NULL, ROLE_TCP_CLIENT,
				  cases[i].first, cases[i].second),
			      cases[i].does_match ? "os" : NULL,
			      cases[i].tuple);
		rules_free(rs);
	}
}

static void port_range_includes_both_ends(void **state)
{
	static const struct tuple_case cases[] = {
		{ "*:80-90", "10.0.0.1:79", NULL, 0 },
		{ "*:80-90", "10.0.0.1:80", NULL, 1 },
		{ "*:80-90", "10.0.0.1:90", NULL, 1 },
		{ "*:80-90", "10.0.0.1:91", NULL, 0 },
		{ "*:53", "10.0.0.1:53", NULL, 1 },
		{ "*:53", "10.0.0.1:54", NULL, 0 },
		{ "*:0", "10.0.0.1:0", NULL, 1 },
		{ "*:0-65535", "10.0.0.1:65535", NULL, 1 },
		{ "*:*", "10.0.0.1:65535", NULL, 1 },
		{ "*:65535", "[::1]:65535", NULL, 1 },
	};

	assert_tuples(cases, N_ELEMS(cases));
}

static void ipv4_prefix_counts_leading_bits(void **state)
{
	static const struct tuple_case cases[] = {
		{ "10.0.0.1:*", "10.0.0.1:80", NULL, 1 },
		{ "10.0.0.1:*", "10.0.0.2:80", NULL, 0 },
		{ "10.0.0.0/8:*", "10.255.255.255:80", NULL, 1 },
		{ "10.0.0.0/8:*", "11.0.0.0:80", NULL, 0 },
		/* the mask holds for the rule's own bits, too */
		{ "10.1.2.3/8:*", "10.9.9.9:80", NULL, 1 },
		{ "10.0.0.0/15:*", "10.1.0.1:80", NULL, 1 },
		{ "10.0.0.0/15:*", "10.2.0.1:80", NULL, 0 },
		{ "10.0.0.0/31:*", "10.0.0.1:80", NULL, 1 },
		{ "10.0.0.0/31:*", "10.0.0.2:80", NULL, 0 },
		{ "10.0.0.1/33:*", "10.0.0.1:80", NULL, 1 },
		{ "10.0.0.1/33:*", "10.0.0.0:80", NULL, 0 },
		{ "10.0.0.1/4294967296:*", "10.0.0.0:80", NULL, 0 },
		{ "0.0.0.0/0:*", "255.1.2.3:80", NULL, 1 },
		{ "0.0.0.0/0:*", "[2001:db8::1]:80", NULL, 0 },
	};

	assert_tuples(cases, N_ELEMS(cases));
}

static void ipv6_prefix_counts_leading_bits(void **state)
{
	static const struct tuple_case cases[] = {
		{ "[2001:db8::1]:*", "[2001:db8::1]:80", NULL, 1 },
		{ "[2001:db8::1]:*", "[2001:db8::2]:80", NULL, 0 },
		{ "[2001:db8::]/32:*", "[2001:db8:ffff::1]:80", NULL, 1 },
		{ "[2001:db8::]/32:*", "[2001:db9::1]:80", NULL, 0 },
		{ "[2001:db8::]/31:*", "[2001:db9::1]:80", NULL, 1 },
		{ "[2001:db8::]/127:*", "[2001:db8::1]:80", NULL, 1 },
		{ "[2001:db8::]/127:*", "[2001:db8::2]:80", NULL, 0 },
		{ "[2001:db8::1]/128:80-81", "[2001:db8::1]:81", NULL, 1 },
		{ "[2001:db8::1]/128:80-81", "[2001:db8::1]:82", NULL, 0 },
		{ "[fe80::]/10:*", "[febf::1]:80", NULL, 1 },
		{ "[fe80::]/10:*", "[fec0::1]:80", NULL, 0 },
		{ "[::]/0:*", "[2001:db8::1]:80", NULL, 1 },
		{ "[::]/0:*", "10.0.0.1:80", NULL, 0 },
	};

	assert_tuples(cases, N_ELEMS(cases));
}

static void v4_mapped_address_is_an_ipv4_address(void **state)
{
	static const struct tuple_case cases[] = {
		{ "10.0.0.0/8:*", "[::ffff:10.1.2.3]:80", NULL, 1 },
		{ "10.0.0.0/8:*", "[::ffff:11.1.2.3]:80", NULL, 0 },
		{ "[::]/0:*", "[::ffff:10.1.2.3]:80", NULL, 0 },
		{ "[::ffff:10.0.0.0]/104:*", "10.1.2.3:80", NULL, 1 },
		{ "[::ffff:10.0.0.0]/104:*", "11.1.2.3:80", NULL, 0 },
		{ "[::ffff:10.0.0.0]/104:*", "[::ffff:10.1.2.3]:80", NULL, 1 },
		{ "[::ffff:10.0.0.1]:*", "10.0.0.1:80", NULL, 1 },
		{ "[::ffff:0:0]/96:*", "1.2.3.4:80", NULL, 1 },
		{ "[::ffff:0:0]/96:*", "[2001:db8::1]:80", NULL, 0 },
		/* compatible is not mapped */
		{ "10.0.0.1:*", "[::10.0.0.1]:80", NULL, 0 },
	};

	assert_tuples(cases, N_ELEMS(cases));
}

static void second_address_must_match_too(void **state)
{
	static const struct tuple_case cases[] = {
		{ "*:80:10.0.0.0/8:*", "1.1.1.1:80", "10.0.0.1:5000", 1 },
		{ "*:80:10.0.0.0/8:*", "1.1.1.1:80", "11.0.0.1:5000", 0 },
		{ "*:80:10.0.0.0/8:*", "1.1.1.1:81", "10.0.0.1:5000", 0 },
		{ "*:80:*:5000", "1.1.1.1:80", "10.0.0.1:5001", 0 },
		{ "*:80:[fd00::]/8:*", "[fd00::1]:80", "[fd00::2]:9", 1 },
		{ "*:80", "1.1.1.1:80", "10.0.0.1:5000", 1 },
	};

	assert_tuples(cases, N_ELEMS(cases));
}

static void unknown_address_matches_only_the_star(void **state)
{
	static const struct tuple_case cases[] = {
		{ "*:80", "1.1.1.1:80", NULL, 1 },
		{ "*:80:*:*", "1.1.1.1:80", NULL, 1 },
		{ "*:80:*:0-65535", "1.1.1.1:80", NULL, 1 },
		{ "*:80:*:5000", "1.1.1.1:80", NULL, 0 },
		{ "*:80:0.0.0.0/0:*", "1.1.1.1:80", NULL, 0 },
		{ "*:*", NULL, NULL, 1 },
		{ "*:80", NULL, NULL, 0 },
		{ "0.0.0.0/0:*", NULL, NULL, 0 },
		{ "[::]/0:*", NULL, NULL, 0 },
	};

	assert_tuples(cases, N_ELEMS(cases));
}

static void address_of_another_family_is_an_unknown_one(void **state)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	const struct sockaddr *sa = (const struct sockaddr *)&sun;
	struct rule_set *rs = parse("use os tcp_client *:0-1\n"
				    "use shm tcp_client *:*");

	assert_string_equal(rules_match(rs, "a", NULL, ROLE_TCP_CLIENT, sa, sa),
			    "shm");
	rules_free(rs);
}

static void address_need_not_be_aligned(void **state)
{
	struct rule_set *rs = parse("use os tcp_client [::1]:80");
	struct sockaddr_storage ss;
	char bytes[sizeof(ss) + 1];
	const void *odd = bytes + 1;

	addr(&ss, "[::1]:80");
	memcpy(bytes + 1, &ss, sizeof(ss));
	assert_string_equal(
	    rules_match(rs, "a", NULL, ROLE_TCP_CLIENT, odd, NULL), "os");
	rules_free(rs);
}

static void first_matching_rule_wins(void **state)
{
	struct rule_set *rs = parse("use shm tcp_client 10.0.0.0/24:*\n"
				    "use os  tcp_client 10.0.0.0/8:80\n"
				    "use tcp tcp_client 10.0.0.0/8:*\n"
				    "use os  tcp_client *:*\n");
	static const struct {
		const char *first, *provider;
	} cases[] = {
		{ "10.0.0.9:80", "shm" },
		{ "10.1.0.9:80", "os" },
		{ "10.1.0.9:81", "tcp" },
		{ "11.1.0.9:80", "os" },
	};

	for (size_t i = 0; i < N_ELEMS(cases); i++)
		assert_answer(
		    ask(rs, "a", NULL, ROLE_TCP_CLIENT, cases[i].first, NULL),
		    cases[i].provider, cases[i].first);
	rules_free(rs);
}

static void rule_answers_for_its_role_only(void **state)
{
	static const char *const names[ROLES] = {
		[ROLE_TCP_SERVER] = "tcp_server",
		[ROLE_TCP_CLIENT] = "tcp_client",
		[ROLE_UDP_SENDER] = "udp_sender",
		[ROLE_UDP_RECEIVER] = "udp_receiver",
		[ROLE_UDP_CONNECT] = "udp_connect",
	};

	for (unsigned rule = 0; rule < ROLES; rule++) {
		char text[64];
		struct rule_set *rs;

		snprintf(text, sizeof(text), "use os %s *:*", names[rule]);
		rs = parse(text);
		for (unsigned role = 0; role < ROLES; role++)
			assert_answer(
			    ask(rs, "a", NULL, role, "1.1.1.1:1", NULL),
			    role == rule ? "os" : NULL, names[role]);
		rules_free(rs);
	}
}

static void library_names_are_one_provider(void **state)
{
	static const struct {
		const char *written, *returned;
	} cases[] = {
		{ "os", "os" },         { "osf", "osf" }, { "vma", "osf" },
		{ "xlio", "osf" },      { "*", "osf" },   { "shm", "shm" },
		{ "inet", "inet" },     { "sdp", "sdp" }, { "sa", "sa" },
		{ "my-mod", "my-mod" },
	};

	for (size_t i = 0; i < N_ELEMS(cases); i++) {
		char text[64];
		struct rule_set *rs;

		snprintf(text, sizeof(text), "use %s tcp_client *:*",
			 cases[i].written);
		rs = parse(text);
		assert_answer(
		    ask(rs, "a", NULL, ROLE_TCP_CLIENT, "1.1.1.1:1", NULL),
		    cases[i].returned, cases[i].written);
		rules_free(rs);
	}
}

static void first_instance_that_fits_is_the_only_one_asked(void **state)
{
	struct rule_set *rs = parse("application-id nginx 7\n"
				    "use shm tcp_client *:*\n"
				    "application-id nginx *\n"
				    "use os tcp_client *:80\n"
				    "application-id redis-* web\n"
				    "use tcp tcp_client *:*\n"
				    "application-id [a-c]? *\n"
				    "application-id nginx *\n"
				    "use shm tcp_client *:*\n"
				    "application-id * *\n"
				    "use osf tcp_client *:*\n");
	static const struct {
		const char *program, *id, *first, *provider;
	} cases[] = {
		{ "nginx", "7", "1.1.1.1:80", "shm" },
		{ "nginx", "8", "1.1.1.1:80", "os" },
		{ "nginx", NULL, "1.1.1.1:80", "os" },
		/* no later instance is asked, not even the same once more */
		{ "nginx", "8", "1.1.1.1:81", NULL },
		{ "redis-server", "web", "1.1.1.1:80", "tcp" },
		{ "redis-server", "other", "1.1.1.1:80", "osf" },
		{ "redis", "web", "1.1.1.1:80", "osf" },
		/* an instance without rules is an instance */
		{ "b1", NULL, "1.1.1.1:80", NULL },
		{ "d1", NULL, "1.1.1.1:80", "osf" },
		{ "b12", NULL, "1.1.1.1:80", "osf" },
		/* names are whole names */
		{ "nginx2", "7", "1.1.1.1:80", "osf" },
	};

	for (size_t i = 0; i < N_ELEMS(cases); i++)
		assert_answer(ask(rs, cases[i].program, cases[i].id,
				  ROLE_TCP_CLIENT, cases[i].first, NULL),
			      cases[i].provider, cases[i].program);
	rules_free(rs);
}

static void application_id_has_a_default(void **state)
{
	struct rule_set *rs =
	    parse("application-id a OSF_DEFAULT_APPLICATION_ID\n"
		  "use os tcp_client *:*\n");

	assert_answer(ask(rs, "a", NULL, ROLE_TCP_CLIENT, "1.1.1.1:1", NULL),
		      "os", "no id");
	assert_answer(ask(rs, "a", "x", ROLE_TCP_CLIENT, "1.1.1.1:1", NULL),
		      NULL, "another id");
	rules_free(rs);
}

static void statements_before_any_instance_are_for_every_program(void **state)
{
	struct rule_set *rs = parse("use os tcp_client *:80\n"
				    "application-id nginx *\n"
				    "use shm tcp_client *:*\n");

	assert_answer(
	    ask(rs, "nginx", "1", ROLE_TCP_CLIENT, "1.1.1.1:80", NULL), "os",
	    "implicit instance");
	assert_answer(
	    ask(rs, "nginx", "1", ROLE_TCP_CLIENT, "1.1.1.1:81", NULL), NULL,
	    "and it is the instance");
	rules_free(rs);
}

static void added_text_comes_after_what_is_there(void **state)
{
	struct rule_set *rs = parse("application-id nginx *\n"
				    "use os tcp_client *:80\n");

	add(&rs, "use shm tcp_client *:80");
	add(&rs, "use tcp tcp_client *:*\napplication-id redis *\n"
		 "use os tcp_client *:*");
	add(&rs, "application-id nginx *\nuse shm tcp_client *:81");
	add(&rs, "use xdp tcp_client *:*\nuse xdp tcp_server *:*");

	assert_answer(
	    ask(rs, "nginx", NULL, ROLE_TCP_CLIENT, "1.1.1.1:80", NULL), "os",
	    "the first text");
	assert_answer(
	    ask(rs, "nginx", NULL, ROLE_TCP_CLIENT, "1.1.1.1:81", NULL), NULL,
	    "its instance hides the fourth");
	/* the texts without application-id share one instance */
	assert_answer(
	    ask(rs, "redis", NULL, ROLE_TCP_CLIENT, "1.1.1.1:80", NULL), "shm",
	    "the second text");
	assert_answer(
	    ask(rs, "redis", NULL, ROLE_TCP_CLIENT, "1.1.1.1:81", NULL), "tcp",
	    "the third");
	assert_answer(
	    ask(rs, "redis", NULL, ROLE_TCP_SERVER, "1.1.1.1:81", NULL), "xdp",
	    "the fifth");
	rules_free(rs);
}

static void added_rules_join_a_written_instance_for_all(void **state)
{
	struct rule_set *rs = parse("application-id * *\n"
				    "use os udp_connect *:53\n"
				    "application-id late *\n");

	add(&rs, "use os tcp_client *:80");
	add(&rs, "application-id * *\nuse shm tcp_server *:*");
	assert_answer(ask(rs, "a", NULL, ROLE_TCP_CLIENT, "1.1.1.1:80", NULL),
		      "os", "added");
	assert_answer(ask(rs, "a", NULL, ROLE_UDP_CONNECT, "1.1.1.1:53", NULL),
		      "os", "there before");
	assert_answer(ask(rs, "a", NULL, ROLE_TCP_SERVER, "1.1.1.1:80", NULL),
		      NULL, "a second written instance stays one of its own");
	rules_free(rs);
}

/* DNS stays on the kernel, all else is offloaded. */
static void default_file_keeps_dns_on_the_kernel(void **state)
{
	struct rule_set *rs = parse("# What libvma and libxlio install.\n"
				    "\n"
				    "application-id * *\n"
				    "#use vma tcp_server *:*\n"
				    "use os udp_connect *:53\n");

	assert_answer(
	    ask(rs, "curl", NULL, ROLE_UDP_CONNECT, "9.9.9.9:53", NULL), "os",
	    "dns");
	assert_answer(ask(rs, "curl", "x", ROLE_UDP_CONNECT, "[2620:fe::fe]:53",
			  "[2001:db8::1]:40000"),
		      "os", "dns over IPv6");
	assert_answer(
	    ask(rs, "curl", NULL, ROLE_UDP_CONNECT, "9.9.9.9:443", NULL), NULL,
	    "quic");
	assert_answer(
	    ask(rs, "curl", NULL, ROLE_TCP_CLIENT, "9.9.9.9:53", NULL), NULL,
	    "tcp");
	assert_false(rules_all_os(rs, "curl", NULL));
	assert_int_equal(rules_log_level(rs), -1);
	rules_free(rs);
}

static void program_is_all_os_when_both_tcp_roles_are(void **state)
{
	static const struct {
		const char *text;
		int is_all_os;
	} cases[] = {
		{ "", 0 },
		{ "use os tcp_server *:*", 0 },
		{ "use os tcp_client *:*", 0 },
		{ "use os tcp_server *:*;use os tcp_client *:*", 1 },
		{ "use os tcp_server *:*:*:*;use os tcp_client *:0-65535", 1 },
		{ "use os tcp_server *:*;use os tcp_client *:*;"
		  "use shm tcp_client *:*",
		  1 },
		{ "use os tcp_server *:*;use shm tcp_client *:80;"
		  "use os tcp_client *:*",
		  0 },
		{ "use os tcp_server *:*;use os tcp_client *:80;"
		  "use os tcp_client *:*",
		  1 },
		{ "use os tcp_server *:*;use os tcp_client *:1-65535", 0 },
		{ "use os tcp_server *:*;use os tcp_client 0.0.0.0/0:*", 0 },
		{ "use os tcp_server *:*;use os tcp_client *:*:*:80", 0 },
		{ "use os tcp_server *:*;use vma tcp_client *:*", 0 },
		{ "application-id b *;use os tcp_server *:*;"
		  "use os tcp_client *:*",
		  0 },
		{ "application-id a *;use os tcp_server *:*;"
		  "use os tcp_client *:*",
		  1 },
	};

	for (size_t i = 0; i < N_ELEMS(cases); i++) {
		struct rule_set *rs = parse(cases[i].text);

		if (rules_all_os(rs, "a", NULL) != cases[i].is_all_os)
			fail_msg("not %d: %s", cases[i].is_all_os,
				 cases[i].text);
		rules_free(rs);
	}
}

static void no_set_is_a_set_without_rules(void **state)
{
	assert_null(ask(NULL, "a", NULL, ROLE_TCP_CLIENT, "1.1.1.1:1", NULL));
	assert_false(rules_all_os(NULL, "a", NULL));
	rules_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(port_range_includes_both_ends),
		cmocka_unit_test(ipv4_prefix_counts_leading_bits),
		cmocka_unit_test(ipv6_prefix_counts_leading_bits),
		cmocka_unit_test(v4_mapped_address_is_an_ipv4_address),
		cmocka_unit_test(second_address_must_match_too),
		cmocka_unit_test(unknown_address_matches_only_the_star),
		cmocka_unit_test(address_of_another_family_is_an_unknown_one),
		cmocka_unit_test(address_need_not_be_aligned),
		cmocka_unit_test(first_matching_rule_wins),
		cmocka_unit_test(rule_answers_for_its_role_only),
		cmocka_unit_test(library_names_are_one_provider),
		cmocka_unit_test(
		    first_instance_that_fits_is_the_only_one_asked),
		cmocka_unit_test(application_id_has_a_default),
		cmocka_unit_test(
		    statements_before_any_instance_are_for_every_program),
		cmocka_unit_test(added_text_comes_after_what_is_there),
		cmocka_unit_test(added_rules_join_a_written_instance_for_all),
		cmocka_unit_test(default_file_keeps_dns_on_the_kernel),
		cmocka_unit_test(program_is_all_os_when_both_tcp_roles_are),
		cmocka_unit_test(no_set_is_a_set_without_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
