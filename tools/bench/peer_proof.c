/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/peer_proof.c - what the proofs cost that a move to shared memory needs
 *
 *     a new loopback connection, and both ends of it:
 *     proof   put up a number, read the other end's, take the number away (proto/shm/notice.h)
 *     user    ask the kernel for the user and the user namespace of the process behind the
 *             channel (proto/shm/trust.h)
 *
 * The peer calls the library's own functions, and times them alone: not the channel, and
 * not the memory.
 */
#include "osf.h"
#include "peer.h"
#include "proto/shm/notice.h"
#include "proto/shm/other_end.h"
#include "proto/shm/trust.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* The kernel says of a connection which process has made it: so a child makes it. */
static int channel_to(pid_t *child)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(name.sun_family); /* the kernel chooses */
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (listener < 0 || bind(listener, (void *)&name, len) < 0 ||
	    listen(listener, 1) < 0)
		peer_die("a unix socket");
	len = sizeof(name);
	getsockname(listener, (void *)&name, &len);
	*child = fork();
	if (*child == 0) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

		if (connect(fd, (void *)&name, len) < 0)
			peer_die("connect");
		pause();
		_exit(0);
	}
	int channel = accept(listener, NULL, NULL);
	if (*child < 0 || channel < 0)
		peer_die("a channel to a child");
	close(listener);
	return channel;
}

/* One end shows a number, which the other one reads. */
static void shown(struct notice *n, int fd, int other)
{
	uint64_t number = notice_number(), seen;
	struct other_end who;

	if (!number || notice_put(n, fd, number) < 0 ||
	    notice_read(other, &who, &seen) < 0 || seen != number)
		peer_die("a number on a TCP socket");
}

static uint64_t proof_ticks(int opener, int acceptor)
{
	struct notice of_opener, of_acceptor;
	uint64_t before = tick_now();

	shown(&of_opener, opener, acceptor);
	shown(&of_acceptor, acceptor, opener);
	if (!notice_remove(&of_opener) || !notice_remove(&of_acceptor))
		peer_die("a number that is taken away");
	return tick_now() - before;
}

/* Each end asks about the other. */
static uint64_t user_ticks(int channel)
{
	uint64_t before = tick_now();

	if (trust_check(channel) < 0 || trust_check(channel) < 0)
		peer_die("the process behind a channel");
	return tick_now() - before;
}

int peer_proof(int argc, char **args)
{
	int listener = peer_listen(args[0]);
	struct times proofs, users;
	pid_t child;

	int channel = channel_to(&child);
	times_init(&proofs);
	times_init(&users);
	uint64_t until_ns = now_ns() + (uint64_t)(atof(args[1]) * 1e9);
	while (now_ns() < until_ns) {
		int opener = peer_connect(args[0]),
		    acceptor = peer_accept(listener);

		times_add(&proofs, proof_ticks(opener, acceptor));
		times_add(&users, user_ticks(channel));
		close(opener);
		close(acceptor);
	}
	printf("proof_us %.3f\nuser_us %.3f\n", times_median_ns(&proofs) / 1e3,
	       times_median_ns(&users) / 1e3);
	times_fini(&proofs);
	times_fini(&users);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}
