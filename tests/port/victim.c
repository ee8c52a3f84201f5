/* SPDX-License-Identifier: MIT */
/*
 * tests/port/victim.c - a program that takes turns until it is killed
 *
 *     victim ADDRESS PORT SEED
 *
 * See victim.h.  It ends by itself, with status 0, when the other end has closed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "victim.h"

static int reach(const char *address, const char *port)
{
	struct sockaddr_storage ss = { 0 };
	struct sockaddr_in *in = (void *)&ss;
	struct sockaddr_in6 *in6 = (void *)&ss;
	bool is_v6 = strchr(address, ':');
	int one = 1, fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);

	ss.ss_family = is_v6 ? AF_INET6 : AF_INET;
	inet_pton(ss.ss_family, address,
		  is_v6 ? (void *)&in6->sin6_addr : (void *)&in->sin_addr);
	in->sin_port = htons((uint16_t)atoi(port)); /* the same place in both */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (void *)&ss, is_v6 ? sizeof(*in6) : sizeof(*in)) < 0) {
		perror("victim: connect");
		exit(1);
	}
	return fd;
}

static void send_all(int fd, struct victim *v, uint32_t n)
{
	static uint8_t buf[65536];
	uint64_t sent = v->sent;

	stream_fill(buf, sent, n);
	for (uint32_t done = 0; done < n;) {
		ssize_t r = send(fd, buf + done, n - done, MSG_NOSIGNAL);
		if (r < 0) {
			perror("victim: send");
			exit(errno == EPIPE ? 0 : 2);
		}
		done += (uint32_t)r;
		store_rel(&v->sent, sent + done);
	}
}

static void recv_all(int fd, uint64_t *got, uint32_t n)
{
	uint8_t buf[4096];

	while (n) {
		ssize_t r = recv(fd, buf, n < sizeof(buf) ? n : sizeof(buf), 0);
		if (r == 0)
			exit(0);
		if (r < 0) {
			perror("victim: recv");
			exit(3);
		}
		if (stream_differs(buf, *got, (size_t)r) != (size_t)r) {
			fprintf(stderr, "victim: wrong byte\n");
			exit(4);
		}
		*got += (uint64_t)r;
		n -= (uint32_t)r;
	}
}

/* A sleep of which osf knows nothing. */
static void be_away(struct victim *v)
{
	const struct timespec ms = { .tv_nsec = NS_PER_MS };

	while (load_acq(&v->stays_away)) {
		store_rel(&v->is_away, 1u);
		nanosleep(&ms, NULL);
	}
	store_rel(&v->is_away, 0u);
}

int main(int argc, char **argv)
{
	struct victim *v = mmap(NULL, sizeof(*v), PROT_READ | PROT_WRITE,
				MAP_SHARED, VICTIM_FD, 0);
	uint64_t got = 0;
	int zero = 0;

	if (argc != 4 || v == MAP_FAILED)
		return 5;
	struct rng rng = { strtoull(argv[3], NULL, 10) };
	int fd = reach(argv[1], argv[2]);
	for (int i = 0; i < VICTIM_TURNS_MAX; i++) {
		send_all(fd, v, victim_length(v, &rng));
		recv_all(fd, &got, victim_reply(&rng));
		be_away(v);
		if (load_acq(&v->asks) == v->asked)
			continue;
		if (setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &zero,
			       sizeof(zero)))
			return 6;
		store_rel(&v->asked, v->asked + 1);
	}
	return 0;
}
