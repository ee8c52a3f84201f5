/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/plain_stream.c - a program of plain sockets, for librspreload
 *
 *     plain_stream -s PORT     accepts one connection, reads BYTES and checks them, says "ok"
 *     plain_stream -c PORT     connects, sends them, and reads the answer
 *
 * It makes the calls that librspreload knows: socket() without flags, and accept().
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES (10 << 20)
#define CHUNK 30000

static unsigned char byte_at(size_t at) { return (unsigned char)(at * 31); }

static int serve(int s, struct sockaddr_in *sin)
{
	unsigned char buf[CHUNK];
	size_t at = 0;

	if (bind(s, (struct sockaddr *)sin, sizeof(*sin)) || listen(s, 4))
		return 1;
	int c = accept(s, NULL, NULL);
	if (c < 0)
		return 2;
	while (at < BYTES) {
		ssize_t n = recv(c, buf, sizeof(buf), 0);

		if (n <= 0)
			return 3;
		for (ssize_t i = 0; i < n; i++)
			if (buf[i] != byte_at(at++))
				return 4;
	}
	if (send(c, "ok", 2, 0) != 2 || recv(c, buf, 1, 0) != 0)
		return 5;
	close(c);
	return 0;
}

static int call(int s, struct sockaddr_in *sin)
{
	unsigned char buf[CHUNK], answer[2];
	size_t at = 0, done = 0;

	if (connect(s, (struct sockaddr *)sin, sizeof(*sin)))
		return 1;
	while (at < BYTES) {
		for (size_t i = 0; i < CHUNK; i++)
			buf[i] = byte_at(at + i);
		size_t left = BYTES - at < CHUNK ? BYTES - at : CHUNK;
		ssize_t n = send(s, buf, left, 0);
		if (n <= 0)
			return 2;
		at += (size_t)n;
	}
	while (done < 2) {
		ssize_t n = recv(s, answer + done, 2 - done, 0);

		if (n <= 0)
			return 3;
		done += (size_t)n;
	}
	return memcmp(answer, "ok", 2) ? 4 : 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	int s = socket(AF_INET, SOCK_STREAM, 0);

	if (argc != 3 || s < 0)
		return 9;
	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	sin.sin_port = htons((unsigned short)atoi(argv[2]));
	int bad = argv[1][1] == 's' ? serve(s, &sin) : call(s, &sin);
	if (bad)
		perror("plain_stream");
	close(s);
	return bad;
}
