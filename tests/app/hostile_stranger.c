/* SPDX-License-Identifier: MIT */
/*
 * tests/app/hostile_stranger.c - another user, who has no part in a connection
 *
 *     sock_diag: which sockets show a number  ->  a visit to whoever that is
 *
 * Seeded visits, each by a process, and each one of these:
 *   - connects to the unix name of a number, and passes greetings that lie, with
 *     descriptors of all kinds, or says nothing, and stays or goes;
 *   - opens a TCP connection to the victim and shows a number on it: its own, whose
 *     name is a listener, or no listener, or of another kind of socket; or a number
 *     that somebody else shows;
 *   - takes the names by which listeners announce themselves.
 * faults_visits.c is the victim.
 */
#include "hostile_stranger.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "odd_fds.h"
#include "pattern.h"
#include "proto/shm/rendezvous.h"
#include "proto/shm/segment.h"

#define UID 65532
#define NUMBERS_MAX 32
#define KEPT 48 /* sockets that stay, the oldest of them closed for a new one */
#define VISITORS 6 /* at a time */
#define SHOWN (UINT64_C(1) << 62)
#define SHOWN_MASK ((UINT64_C(1) << NOTICE_BITS) - 1)

static uint64_t rng;
static uint16_t reached_port, open_port;
static uint64_t numbers[NUMBERS_MAX];
static unsigned n_numbers;

static uint64_t next(void)
{
	rng += 0x9e3779b97f4a7c15ull;
	return pattern_mix(pattern_mix(rng));
}

static uint32_t below(uint32_t n) { return (uint32_t)(next() >> 16) % n; }

/* It stays open for a while. */
static void keep(int fd)
{
	static int kept[KEPT];
	static unsigned n;

	if (kept[n % KEPT] > 0)
		close(kept[n % KEPT]);
	kept[n++ % KEPT] = fd;
}

/* --- who shows what --- */

static uint64_t number_in(const struct nlmsghdr *h)
{
	const struct inet_diag_msg *m = NLMSG_DATA(h);
	const struct rtattr *at = (const void *)(m + 1);
	int left = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof(*m)));
	uint16_t port = htons(reached_port);

	if (m->id.idiag_sport != port && m->id.idiag_dport != port)
		return 0; /* whose connection that is, is no business of ours */
	for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
		uint64_t rate;

		if (at->rta_type != INET_DIAG_INFO)
			continue;
		memcpy(&rate,
		       (const char *)RTA_DATA(at) +
			   offsetof(struct tcp_info, tcpi_max_pacing_rate),
		       sizeof(rate));
		if ((rate & ~SHOWN_MASK) == SHOWN)
			return rate & SHOWN_MASK;
	}
	return 0;
}

static bool numbers_in(const char *bytes, size_t n)
{
	const struct nlmsghdr *h = (const void *)bytes;

	for (; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
		uint64_t number;

		if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY)
			return false;
		number = number_in(h);
		if (number && n_numbers < NUMBERS_MAX)
			numbers[n_numbers++] = number;
	}
	return true;
}

static void look_for_numbers(void)
{
	static char bytes[65536];
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} ask = { .h = { .nlmsg_len = sizeof(ask),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		  .r = { .sdiag_family = AF_INET,
			 .sdiag_protocol = IPPROTO_TCP,
			 .idiag_ext = 1 << (INET_DIAG_INFO - 1),
			 .idiag_states = 1 << 1 } };
	int nl =
	    socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	ssize_t n;

	n_numbers = 0;
	if (send(nl, &ask, sizeof(ask), 0) == (ssize_t)sizeof(ask))
		while ((n = recv(nl, bytes, sizeof(bytes), 0)) > 0 &&
		       numbers_in(bytes, (size_t)n))
			;
	close(nl);
}

static uint64_t number_of_somebody(void)
{
	for (int i = 0; i < 20; i++) {
		look_for_numbers();
		if (n_numbers)
			return numbers[below(n_numbers)];
	}
	return next() & SHOWN_MASK;
}

/* --- greetings --- */

static void greet(int channel)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(8 * sizeof(int))];
	} control = { 0 };
	struct hello h = { .magic = HELLO_MAGIC,
			   .version = SEG_VERSION,
			   .size = sizeof(h),
			   .pid = (uint32_t)next(),
			   .n_needed = (uint16_t)below(4),
			   .bell1 = (uint16_t)below(70) };
	struct iovec iov = { &h, below(4) ? sizeof(h) : below(sizeof(h)) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	const struct linger never = { 0 };
	size_t n = 0, n_wanted = below(9);
	int fds[8];

	if (below(4) == 0)
		((uint8_t *)&h)[below(sizeof(h))] = (uint8_t)next();
	for (unsigned tries = 0; n < n_wanted && tries < 30; tries++)
		if ((fds[n] = odd_fd(below(n_odd_fds))) >= 0)
			n++;
	if (n) {
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		control.align =
		    (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
				      .cmsg_type = SCM_RIGHTS,
				      .cmsg_len = CMSG_LEN(n * sizeof(int)) };
		memcpy(CMSG_DATA(&control.align), fds, n * sizeof(int));
	}
	bool is_sent = sendmsg(channel, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
	while (n) {
		/* What nobody else has would make us wait ourselves. */
		if (!is_sent)
			setsockopt(fds[n - 1], SOL_SOCKET, SO_LINGER, &never,
				   sizeof(never));
		close(fds[--n]);
	}
}

static socklen_t name_of(struct sockaddr_un *un, uint64_t number)
{
	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	int n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1,
			 "osf8/%015llx", (unsigned long long)number);

	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)n);
}

static int unix_socket(int type)
{
	return socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* --- visits --- */

static void visit_an_offer(void)
{
	struct sockaddr_un un;
	int channel = unix_socket(SOCK_SEQPACKET);

	if (below(2))
		bind(channel, (void *)&un, name_of(&un, next() & SHOWN_MASK));
	if (connect(channel, (void *)&un, name_of(&un, number_of_somebody()))) {
		close(channel);
		return;
	}
	for (unsigned n = below(5); n; n--)
		greet(channel);
	if (below(4) == 0)
		shutdown(channel, (int)below(3));
	if (below(2))
		keep(channel);
	else
		close(channel);
}

static int connect_to_victim(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(open_port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (!connect(fd, (void *)&at, sizeof(at)))
		return fd;
	close(fd);
	return -1;
}

static void show(int tcp, uint64_t number)
{
	uint64_t rate = SHOWN | number;

	setsockopt(tcp, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
}

static void talk(int tcp, unsigned times)
{
	char bin[100];

	while (times--) {
		send(tcp, "hello", 5, MSG_NOSIGNAL | MSG_DONTWAIT);
		usleep(below(300));
		recv(tcp, bin, sizeof(bin), MSG_DONTWAIT);
	}
}

/* The victim comes to a name of ours, or tries to. */
static void visit_with_an_offer(void)
{
	static const int types[] = { SOCK_SEQPACKET, SOCK_SEQPACKET,
				     SOCK_SEQPACKET, SOCK_STREAM, SOCK_DGRAM };
	uint64_t number = next() & SHOWN_MASK;
	struct sockaddr_un un;
	int channel, tcp = connect_to_victim();

	if (tcp < 0)
		return;
	int offer = unix_socket(types[below(5)]);
	bind(offer, (void *)&un, name_of(&un, number));
	if (below(4))
		listen(offer, (int)below(2));
	show(tcp, number);
	for (int i = 0; i < 10; i++) {
		talk(tcp, 2);
		channel =
		    accept4(offer, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (channel < 0)
			continue;
		for (unsigned n = below(5); n; n--)
			greet(channel);
		keep(channel);
	}
	keep(offer);
	keep(tcp);
}

/* The victim comes to somebody else, who is not at the other end. */
static void visit_with_anothers_number(void)
{
	int tcp = connect_to_victim();

	if (tcp < 0)
		return;
	show(tcp, number_of_somebody());
	talk(tcp, 6);
	if (below(2)) {
		show(tcp, number_of_somebody());
		talk(tcp, 6);
	}
	keep(tcp);
}

static void take_names(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int s = unix_socket(SOCK_SEQPACKET);
	uint16_t port = below(2) ? reached_port : open_port;

	int n = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "osf1/%c/%u",
			 below(2) ? 'a' : 'k', port);
	if (below(2))
		n += snprintf(un.sun_path + 1 + n, 8, "/%u", below(4));
	socklen_t len =
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	if (bind(s, (void *)&un, len) && below(2)) {
		if (!connect(s, (void *)&un, len))
			greet(s);
	} else if (below(2)) {
		listen(s, (int)below(3));
	}
	keep(s);
}

void visit_until_killed(uint64_t seed, int ctl)
{
	static void (*const visits[])(void) = {
		visit_an_offer,      visit_an_offer,
		visit_an_offer,      visit_with_an_offer,
		visit_with_an_offer, visit_with_anothers_number,
		take_names,
	};
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	uint64_t word;

	odd_fds_init();
	if (read(ctl, &word, sizeof(word)) != sizeof(word) || setgid(UID) ||
	    setuid(UID))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* setuid() has cleared it */
	/* What is killed may still wait for what it has made itself.  So it keeps no pipe that
	 * somebody reads to its end. */
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	reached_port = (uint16_t)(word >> 16);
	open_port = (uint16_t)word;
	for (uint64_t n = 0;; n++) {
		static unsigned n_visitors;

		/* Each may be made to wait by what it has made itself. */
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			rng = seed * 1000003 + n;
			send(ctl, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
			visits[below(sizeof(visits) / sizeof(*visits))]();
			usleep(below(20000)); /* stays a little */
			_exit(0);
		}
		n_visitors++;
		while (waitpid(-1, NULL, n_visitors < VISITORS ? WNOHANG : 0) >
		       0)
			n_visitors--;
	}
}
