/* SPDX-License-Identifier: MIT */
/*
 * tests/app/calls_preload.c - a library that talks before main() and after it
 *
 * Its constructor connects to the port in CALLS_PORT and exchanges 30 messages;
 * its destructor sends "end" and closes.  Where no port is given it does nothing.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int fd = -1;

__attribute__((constructor)) static void begin(void)
{
	const char *port = getenv("CALLS_PORT");
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	char sent[16], back[16];
	int one = 1;

	if (!port)
		return;
	sa.sin_port = htons((uint16_t)atoi(port));
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (void *)&sa, sizeof(sa)))
		_exit(70);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	for (int i = 0; i < 30; i++) {
		memset(sent, 'a' + i % 26, sizeof(sent));
		if (send(fd, sent, sizeof(sent), 0) != sizeof(sent) ||
		    recv(fd, back, sizeof(back), MSG_WAITALL) != sizeof(back) ||
		    memcmp(sent, back, sizeof(sent)))
			_exit(71);
	}
}

__attribute__((destructor)) static void end(void)
{
	if (fd >= 0 && send(fd, "end", 3, MSG_NOSIGNAL) != 3)
		_exit(72);
	if (fd >= 0 && close(fd))
		_exit(73);
}
