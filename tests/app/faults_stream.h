/* SPDX-License-Identifier: MIT */
/*
 * tests/app/faults_stream.h - a checked byte stream each way over one descriptor
 *
 * Used by both programs of the fault tests, under the library and without it.
 * Functions return false when a byte was wrong or the connection ended too early;
 * errno is 0 then for the end, EBADMSG for a wrong byte.
 */
#ifndef TESTS_FAULTS_STREAM_H
#define TESTS_FAULTS_STREAM_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "pattern.h"

#define STREAM_PART 65536

struct stream {
	int fd;
	uint64_t key_in, key_out;
	uint64_t in, out; /* bytes so far */
};

/* @id: of the connection; the client's stream is direction 0. */
static inline struct stream stream_make(int fd, uint64_t seed, uint32_t id,
					bool is_client)
{
	return (struct stream){ .fd = fd,
				.key_in = pattern_key(seed, id, is_client),
				.key_out = pattern_key(seed, id, !is_client) };
}

static inline bool stream_is_right(struct stream *s, const void *buf, size_t n)
{
	if (pattern_check(s->key_in, s->in, buf, n) != n) {
		errno = EBADMSG;
		return false;
	}
	s->in += n;
	return true;
}

/* The next @n bytes (at most STREAM_PART) as far as one call takes them. */
static inline ssize_t stream_send_some(struct stream *s, size_t n, int flags)
{
	char part[STREAM_PART];

	if (n > sizeof(part))
		n = sizeof(part);
	pattern_fill(s->key_out, s->out, part, n);
	ssize_t r = send(s->fd, part, n, flags | MSG_NOSIGNAL);
	if (r > 0)
		s->out += (uint64_t)r;
	return r;
}

static inline bool stream_send(struct stream *s, uint64_t n)
{
	while (n) {
		ssize_t r = stream_send_some(s, n, 0);

		if (r <= 0)
			return false;
		n -= (uint64_t)r;
	}
	return true;
}

/* Some bytes, checked: their number, 0 at the end, -1. */
static inline ssize_t stream_recv_some(struct stream *s, size_t n, int flags)
{
	char part[STREAM_PART];
	ssize_t r =
	    recv(s->fd, part, n < sizeof(part) ? n : sizeof(part), flags);

	if (r > 0 && !stream_is_right(s, part, (size_t)r))
		return -1;
	return r;
}

static inline bool stream_recv(struct stream *s, uint64_t n)
{
	while (n) {
		ssize_t r = stream_recv_some(s, n, 0);

		if (!r)
			errno = 0;
		if (r <= 0)
			return false;
		n -= (uint64_t)r;
	}
	return true;
}

/* For each byte that comes one of ours goes back, until the end: true. */
static inline bool stream_echo(struct stream *s)
{
	for (;;) {
		ssize_t r = stream_recv_some(s, STREAM_PART, 0);

		if (r <= 0)
			return !r;
		if (!stream_send(s, (uint64_t)r))
			return false;
	}
}

#endif
