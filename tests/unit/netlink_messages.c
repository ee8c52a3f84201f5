/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/netlink_messages.c - what the switch reads out of rtnetlink's messages
 *
 * Each message is cut off at each of its bytes, and behind it is nothing: whoever reads
 * too far ends the test.
 */
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/libc.h"
#include "ops/netlink.h"
#include "unit.h"

struct message {
	struct nlmsghdr h;
	char body[240];
};

static void add(struct message *m, const void *data, size_t len)
{
	memcpy((char *)m + m->h.nlmsg_len, data, len);
	m->h.nlmsg_len += (uint32_t)NLMSG_ALIGN(len);
}

static void add_attr(struct message *m, uint16_t type, const void *data,
		     size_t len)
{
	struct rtattr a = { .rta_len = (uint16_t)RTA_LENGTH(len),
			    .rta_type = type };

	add(m, &a, sizeof(a));
	add(m, data, len);
}

static struct message begin(uint16_t type, const void *body, size_t len)
{
	struct message m = { .h = { .nlmsg_len = NLMSG_HDRLEN,
				    .nlmsg_type = type } };

	add(&m, body, len);
	return m;
}

static struct message route(uint16_t type, bool several)
{
	const struct rtmsg rt = { .rtm_family = AF_INET6 };
	const struct rtnexthop hops[] = {
		{ .rtnh_len = sizeof(*hops), .rtnh_ifindex = 9 },
		{ .rtnh_len = sizeof(*hops), .rtnh_ifindex = 10 },
	};
	const uint32_t out = 7;
	struct message m = begin(type, &rt, sizeof(rt));

	add_attr(&m, RTA_DST, "0123456789abcdef", 16);
	if (several)
		add_attr(&m, RTA_MULTIPATH, hops, sizeof(hops));
	else
		add_attr(&m, RTA_OIF, &out, sizeof(out));
	return m;
}

/* What the first @len bytes of @m say, read where they end before a hole. */
static bool event_of(const struct message *m, uint32_t len,
		     struct osf_inet_event *ev)
{
	static char *at;
	long page = sysconf(_SC_PAGESIZE);

	if (!at) {
		at = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(at, MAP_FAILED);
		assert_int_equal(mprotect(at + page, (size_t)page, PROT_NONE),
				 0);
	}
	struct nlmsghdr *h = (void *)(at + page - NLMSG_ALIGN(len));
	memset(h, 0, NLMSG_ALIGN(len));
	memcpy(h, m, len);
	h->nlmsg_len = len;
	return netlink_event(h, ev);
}

static void each_kind_has_its_device_and_family(void **state)
{
	const struct ifaddrmsg addr = { .ifa_family = AF_INET, .ifa_index = 5 };
	const struct ifinfomsg link = { .ifi_index = 6 };
	const struct fib_rule {
		uint8_t family, rest[11];
	} rule = { .family = AF_INET };
	const struct {
		struct message m;
		uint32_t kind, ifindex, family;
	} cases[] = {
		{ begin(RTM_NEWADDR, &addr, sizeof(addr)), OSF_INET_ADDR_ADD, 5,
		  AF_INET },
		{ begin(RTM_DELADDR, &addr, sizeof(addr)), OSF_INET_ADDR_DEL, 5,
		  AF_INET },
		{ begin(RTM_NEWLINK, &link, sizeof(link)), OSF_INET_LINK, 6,
		  0 },
		{ begin(RTM_DELLINK, &link, sizeof(link)), OSF_INET_LINK, 6,
		  0 },
		{ begin(RTM_NEWRULE, &rule, sizeof(rule)), OSF_INET_RULE, 0,
		  AF_INET },
		{ route(RTM_NEWROUTE, false), OSF_INET_ROUTE, 7, AF_INET6 },
		{ route(RTM_DELROUTE, true), OSF_INET_ROUTE, 9, AF_INET6 },
	};
	struct osf_inet_event ev;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(event_of(&cases[i].m, cases[i].m.h.nlmsg_len, &ev));
		assert_int_equal(ev.size, sizeof(ev));
		assert_int_equal(ev.kind, cases[i].kind);
		assert_int_equal(ev.ifindex, cases[i].ifindex);
		assert_int_equal(ev.family, cases[i].family);
		for (uint32_t len = NLMSG_HDRLEN; len < cases[i].m.h.nlmsg_len;
		     len++) {
			assert_true(event_of(&cases[i].m, len, &ev));
			assert_int_equal(ev.kind, cases[i].kind);
		}
	}
}

static void attributes_may_have_any_length(void **state)
{
	struct osf_inet_event ev;

	for (unsigned len = 0; len < 300; len++) {
		struct message m = route(RTM_NEWROUTE, len & 1);
		struct rtattr *a =
		    (void *)(m.body + sizeof(struct rtmsg) + RTA_SPACE(16));

		a->rta_len = (uint16_t)len;
		assert_true(event_of(&m, m.h.nlmsg_len, &ev));
	}
}

static void other_messages_say_nothing(void **state)
{
	struct message m = begin(0, "", 1);
	struct osf_inet_event ev;

	for (uint16_t type = 0; type < 200; type++) {
		m.h.nlmsg_type = type;
		bool is = type == RTM_NEWADDR || type == RTM_DELADDR ||
			  type == RTM_NEWLINK || type == RTM_DELLINK ||
			  type == RTM_NEWRULE || type == RTM_DELRULE ||
			  type == RTM_NEWROUTE || type == RTM_DELROUTE ||
			  type == RTM_NEWNEXTHOP || type == RTM_DELNEXTHOP;
		assert_int_equal(event_of(&m, m.h.nlmsg_len, &ev), is);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kind_has_its_device_and_family),
		cmocka_unit_test(attributes_may_have_any_length),
		cmocka_unit_test(other_messages_say_nothing),
	};

	libc_resolve();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
