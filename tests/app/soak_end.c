/* SPDX-License-Identifier: MIT */
/*
 * tests/app/soak_end.c - one end of a stream of the mix, and what happens to it
 *
 *     end_run() -> step()   one attempt in each direction, then a wait
 *               -> event()  after some bytes: a copy, a child, another program,
 *                           another process
 *
 * Both ends know the length of a stream; each direction ends with a
 * FIN.  Only side 0 ever sleeps in send(), so the two never wait for each other.
 * Waits have no timeout: a wake-up that is lost is a hang.
 */
#include "soak_mix.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define STREAM_MAX (3u << 20)
#define PIECE_MAX 65536
#define TURNS 50
#define TURN_BYTES 16

extern char **environ;

/* What an end does just now, for reports. */
enum call {
	CALL_NONE,
	CALL_RECV,
	CALL_SEND,
	CALL_POLL,
	CALL_SELECT,
	CALL_EPOLL,
	CALL_CHILD,
	CALL_PASS,
	CALL_SHUTDOWN,
	CALL_CLOSE,
	CALLS
};

static const char *const call_names[CALLS] = { "nothing", "recv",    "send",
					       "poll",    "select",  "epoll",
					       "a child", "passing", "shutdown",
					       "close" };

/* An end that is being worked on. */
struct work {
	struct end *e;
	struct slot *slot;
	struct rng rng;
	uint64_t event_at; /* bytes in both directions */
	uint8_t *piece;
};

const char *call_name(int call)
{
	return call >= 0 && call < CALLS ? call_names[call] : "?";
}

/* @direction: 0 from side 0 to side 1 */
static uint64_t total(const struct end *e, uint32_t direction)
{
	struct rng r = { pattern_key(seed, e->id, (int)direction) };

	return rng_one_in(&r, 8) ? rng_below(&r, 200)
				 : rng_size(&r, STREAM_MAX) * (1 + r.s % 16);
}

static uint64_t tx_total(const struct end *e) { return total(e, e->side); }
static uint64_t rx_total(const struct end *e) { return total(e, !e->side); }

static void note(struct work *w, int what, int call)
{
	struct slot *s = w->slot;

	s->notes[s->n_notes++ % NOTES] = (struct note){ .us = now_us(),
							.rx_off = w->e->rx_off,
							.tx_off = w->e->tx_off,
							.pid = getpid(),
							.fd = w->e->fd,
							.what = what,
							.call = call };
}

/* What led to a failure, of both ends. */
void notes_print(uint32_t id)
{
	for (uint32_t side = 0; side < 2; side++) {
		const struct slot *s =
		    &shared->slots[(id * 2 + side) % N_SLOTS];
		uint32_t n = s->n_notes;

		for (uint32_t i = n > NOTES ? n - NOTES : 0; i < n; i++) {
			const struct note *e = &s->notes[i % NOTES];

			fprintf(stderr,
				"  %llu us: connection %u side %u: process %d, "
				"fd %d: %s %s, received %llu, sent %llu\n",
				(unsigned long long)e->us, id, side, e->pid,
				e->fd, call_name(e->call), event_name(e->what),
				(unsigned long long)e->rx_off,
				(unsigned long long)e->tx_off);
		}
	}
}

/* die() with the story of the connection */
#define end_die(e, fmt, ...)                                                   \
	(die_first(), notes_print((e)->id),                                    \
	 die("connection %u side %u: " fmt " (%s)", (e)->id, (e)->side,        \
	     ##__VA_ARGS__, strerror(errno)))

static void doing(struct work *w, enum call call)
{
	struct slot *s = w->slot;

	if (s->pid != getpid())
		note(w, EVENTS, (int)call);
	s->pid = getpid();
	s->call = (int)call;
	s->rx_off = w->e->rx_off;
	s->tx_off = w->e->tx_off;
}

static void work_begin(struct work *w, struct end *e)
{
	*w = (struct work){
		.e = e,
		.slot = &shared->slots[(e->id * 2 + e->side) % N_SLOTS],
		.rng = { pattern_key(seed, e->id, (int)e->side) + e->hops },
		.piece = malloc(PIECE_MAX)
	};
	if (!w->piece)
		die("no memory");
	w->slot->id = e->id;
	w->slot->side = e->side;
	if (!e->hops)
		w->slot->n_notes = 0;
	w->event_at = e->rx_off + e->tx_off + rng_size(&w->rng, 1 << 20);
}

/* --- bytes --- */

static void received(struct work *w, ssize_t r)
{
	struct end *e = w->e;
	uint64_t key = pattern_key(seed, e->id, !e->side);

	if (pattern_check(key, e->rx_off, w->piece, (size_t)r) != (size_t)r)
		end_die(e, "wrong bytes in %zd at %llu (they belong at %llu)",
			r, (unsigned long long)e->rx_off,
			(unsigned long long)pattern_find(key, e->rx_off,
							 w->piece, 1 << 20));
	e->rx_off += (uint64_t)r;
	e->saw_end = !r;
	if (!r && e->rx_off != rx_total(e))
		end_die(e, "ended at %llu of %llu",
			(unsigned long long)e->rx_off,
			(unsigned long long)rx_total(e));
	shared->bytes += (uint64_t)r;
}

/* Where bytes are known to be there, read() does not wait for them. */
static ssize_t receive(struct work *w, size_t n, bool waits)
{
	struct pollfd pfd = { .fd = w->e->fd, .events = POLLIN };
	struct iovec iov[2] = { { w->piece, n / 2 },
				{ w->piece + n / 2, n - n / 2 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };
	int flags = waits ? 0 : MSG_DONTWAIT;

	switch (rng_below(&w->rng, 4)) {
	case 0:
		if (!waits && poll(&pfd, 1, 0) <= 0) {
			errno = EAGAIN;
			return -1;
		}
		return read(w->e->fd, w->piece, n);
	case 1:
		return recvmsg(w->e->fd, &m, flags);
	default:
		return recv(w->e->fd, w->piece, n, flags);
	}
}

/* Return: false when there is nothing to be had now. */
static bool step_rx(struct work *w)
{
	bool waits = w->e->is_shut && rng_one_in(&w->rng, 3);

	if (w->e->saw_end)
		return false;
	doing(w, CALL_RECV);
	ssize_t r = receive(w, rng_size(&w->rng, PIECE_MAX), waits);
	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return errno == EINTR;
	if (r < 0)
		end_die(w->e, "receiving at %llu",
			(unsigned long long)w->e->rx_off);
	received(w, r);
	return true;
}

static ssize_t transmit(struct work *w, size_t n, int flags)
{
	struct iovec iov[2] = { { w->piece, n / 3 },
				{ w->piece + n / 3, n - n / 3 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };

	if (rng_one_in(&w->rng, 3))
		return sendmsg(w->e->fd, &m, flags | MSG_NOSIGNAL);
	if (!flags && rng_one_in(&w->rng, 2))
		return write(w->e->fd, w->piece, n);
	return send(w->e->fd, w->piece, n, flags | MSG_NOSIGNAL);
}

static bool step_tx(struct work *w)
{
	struct end *e = w->e;
	uint64_t left = tx_total(e) - e->tx_off;
	size_t n = rng_size(&w->rng, PIECE_MAX);
	bool waits = e->side == 0 && rng_one_in(&w->rng, 4);

	if (e->is_shut)
		return false;
	if (!left) {
		if (shutdown(e->fd, SHUT_WR))
			end_die(e, "shutdown");
		note(w, EVENTS, CALL_SHUTDOWN);
		e->is_shut = true;
		return true;
	}
	n = n < left ? n : left;
	pattern_fill(pattern_key(seed, e->id, (int)e->side), e->tx_off,
		     w->piece, n);
	doing(w, CALL_SEND);
	ssize_t r = transmit(w, n, waits ? 0 : MSG_DONTWAIT);
	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return errno == EINTR;
	if (r <= 0)
		end_die(e, "sending at %llu", (unsigned long long)e->tx_off);
	e->tx_off += (uint64_t)r;
	shared->bytes += (uint64_t)r;
	return true;
}

/* Half of all streams begin as questions and answers do. */
static void end_turns(struct work *w)
{
	struct end *e = w->e;
	uint64_t least = tx_total(e) < rx_total(e) ? tx_total(e) : rx_total(e);
	uint64_t n = least / TURN_BYTES < TURNS ? least / TURN_BYTES : TURNS;

	if (e->id % 2 || e->hops)
		return;
	for (uint64_t i = 0; i < 2 * n; i++) {
		if (i % 2 == e->side) {
			pattern_fill(pattern_key(seed, e->id, (int)e->side),
				     e->tx_off, w->piece, TURN_BYTES);
			doing(w, CALL_SEND);
			send_all(e->fd, w->piece, TURN_BYTES);
			e->tx_off += TURN_BYTES;
			continue;
		}
		doing(w, CALL_RECV);
		if (!recv_all(e->fd, w->piece, TURN_BYTES))
			end_die(e, "ended among turns");
		received(w, TURN_BYTES);
	}
}

/* --- waiting --- */

static void wait_select(struct work *w)
{
	fd_set in, ou;

	FD_ZERO(&in);
	FD_ZERO(&ou);
	if (!w->e->saw_end)
		FD_SET(w->e->fd, &in);
	if (!w->e->is_shut)
		FD_SET(w->e->fd, &ou);
	doing(w, CALL_SELECT);
	select(w->e->fd + 1, &in, &ou, NULL, NULL);
}

static void wait_epoll(struct work *w)
{
	struct epoll_event ev = { .events = 0 };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	ev.events =
	    (w->e->saw_end ? 0u : EPOLLIN) | (w->e->is_shut ? 0u : EPOLLOUT);
	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, w->e->fd, &ev))
		die("epoll: %s", strerror(errno));
	doing(w, CALL_EPOLL);
	epoll_wait(ep, &ev, 1, -1);
	close(ep);
}

static void wait_poll(struct work *w)
{
	struct pollfd pfd = { .fd = w->e->fd };

	pfd.events = (short)((w->e->saw_end ? 0 : POLLIN) |
			     (w->e->is_shut ? 0 : POLLOUT));
	doing(w, CALL_POLL);
	poll(&pfd, 1, -1);
}

static bool is_over(const struct end *e) { return e->is_shut && e->saw_end; }

static void step(struct work *w)
{
	bool moved = step_rx(w);

	moved |= step_tx(w);
	if (moved || is_over(w->e))
		return;
	switch (rng_below(&w->rng, 3)) {
	case 0:
		wait_select(w);
		break;
	case 1:
		wait_epoll(w);
		break;
	default:
		wait_poll(w);
	}
}

/* --- events that stay in this process --- */

static void event_dup(struct work *w)
{
	int old = w->e->fd, fd;

	if (rng_one_in(&w->rng, 2))
		fd = dup(old);
	else
		fd = fcntl(old, F_DUPFD_CLOEXEC,
			   60 + (int)rng_below(&w->rng, 40));
	if (fd < 0 || fd >= FREE_FDS)
		die("dup gave %d: %s", fd, strerror(errno));
	if (rng_one_in(&w->rng, 2) && dup2(fd, old) != old)
		die("dup2: %s", strerror(errno));
	close(old);
	w->e->fd = fd;
}

/* As a message: the numbers, and the descriptor. */
static void end_pass(struct end *e, int channel)
{
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(int))];
	} u = { .h = { .cmsg_len = CMSG_LEN(sizeof(int)),
		       .cmsg_level = SOL_SOCKET,
		       .cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { e, sizeof(*e) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u) };
	ssize_t r;

	memcpy(CMSG_DATA(&u.h), &e->fd, sizeof(int));
	do
		r = sendmsg(channel, &m, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	if (r != sizeof(*e))
		die("passing an end: %s", strerror(errno));
}

static void event_pass_back(struct work *w)
{
	int pair[2], old = w->e->fd;
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(int))];
	} u;
	struct iovec iov = { w->e, sizeof(*w->e) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u) };

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		die("socketpair: %s", strerror(errno));
	end_pass(w->e, pair[0]);
	close(old);
	if (recvmsg(pair[1], &m, MSG_CMSG_CLOEXEC) != sizeof(*w->e))
		die("receiving one's own end: %s", strerror(errno));
	memcpy(&w->e->fd, CMSG_DATA(&u.h), sizeof(int));
	close(pair[0]);
	close(pair[1]);
}

/* --- events with children --- */

static void child_wait(struct work *w, pid_t pid)
{
	int status = 0;

	doing(w, CALL_CHILD);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			die("a child is lost: %s", strerror(errno));
	if (status)
		end_die(w->e, "a child ended with status 0x%x", status);
}

/* Half of all children close what is not theirs. */
static void child_begins(struct work *w)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	w->e->is_alone = true;
	if (rng_one_in(&w->rng, 2))
		for (int fd = 3; fd < FREE_FDS; fd++)
			if (fd != w->e->fd)
				close(fd);
	if (rng_one_in(&w->rng, 2))
		signals_start((uint64_t)getpid());
}

static __attribute__((noreturn)) void child_ends(struct work *w)
{
	if (rng_one_in(&w->rng, 2))
		_exit(0);
	exit(0);
}

static pid_t child_start(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork: %s", strerror(errno));
	return pid;
}

/* Its numbers come back through a pipe. */
static void event_fork_back(struct work *w)
{
	struct end *e = w->e, back;
	int p[2];

	if (pipe2(p, O_CLOEXEC))
		die("pipe: %s", strerror(errno));
	pid_t pid = child_start();
	if (!pid) {
		int tell = dup2(p[1], FREE_FDS + 2);
		uint64_t until =
		    e->rx_off + e->tx_off + rng_size(&w->rng, 100000);
		child_begins(w);
		while (!is_over(e) && e->rx_off + e->tx_off < until)
			step(w);
		if (write(tell, e, sizeof(*e)) != sizeof(*e))
			die("telling the numbers: %s", strerror(errno));
		child_ends(w);
	}
	close(p[1]);
	child_wait(w, pid);
	if (read(p[0], &back, sizeof(back)) != sizeof(back))
		die("a child did not tell its numbers");
	close(p[0]);
	back.fd = e->fd;
	back.is_alone = e->is_alone;
	*e = back;
}

static void event_fork_over(struct work *w)
{
	pid_t pid = child_start();

	if (!pid) {
		child_begins(w);
		end_run(w->e);
		child_ends(w);
	}
	close(w->e->fd);
	child_wait(w, pid);
}

/* A program that is passed its own numbers calls a descriptor one. */
static char *fd_text(int fd)
{
	char *word = NULL;

	if (asprintf(&word, "fd=%d", fd) < 0)
		die("no memory");
	return word;
}

static void words_of(const struct end *e, bool is_bare, char **words)
{
	int k = 0;

	words[k++] = (char *)(uintptr_t) "mix";
	words[k++] = (char *)(uintptr_t) "end";
	words[k++] = fd_text(e->fd);
	words[k++] = text(e->id);
	words[k++] = text(e->side);
	words[k++] = text(e->hops);
	words[k++] = text(e->rx_off);
	words[k++] = text(e->tx_off);
	words[k++] = text(e->is_shut);
	words[k++] = text(e->saw_end);
	words[k++] = text(is_bare);
	words[k] = NULL;
}

/* @argv: "end", and the numbers from words_of() */
int end_part(int argc, char **argv)
{
	if (argc < 9)
		return 2;
	struct end e = { .fd = atoi(argv[0] + 3),
			 .id = (uint32_t)strtoul(argv[1], NULL, 10),
			 .side = (uint32_t)atoi(argv[2]),
			 .hops = (uint32_t)atoi(argv[3]),
			 .rx_off = strtoull(argv[4], NULL, 10),
			 .tx_off = strtoull(argv[5], NULL, 10),
			 .is_shut = argv[6][0] == '1',
			 .saw_end = argv[7][0] == '1',
			 .is_bare = argv[8][0] == '1',
			 .is_alone = true };
	signals_start((uint64_t)getpid());
	end_run(&e);
	return 0;
}

static bool becomes_bare(struct work *w)
{
	return w->e->is_bare || (rng_one_in(&w->rng, 4) && !shared->no_bare);
}

/* Who is alone does without a fork. */
static void event_exec(struct work *w)
{
	bool is_bare = becomes_bare(w);
	char *words[12];
	pid_t pid = 0;

	if (!w->e->is_alone || rng_one_in(&w->rng, 2))
		pid = child_start();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* The timer stays, the handler does not. */
		signal(SIGALRM, SIG_IGN);
		fcntl(w->e->fd, F_SETFD, 0);
		words_of(w->e, is_bare, words);
		part_exec(words, is_bare);
	}
	close(w->e->fd);
	child_wait(w, pid);
}

static void event_spawn(struct work *w)
{
	bool is_bare = becomes_bare(w);
	char *words[12];

	fcntl(w->e->fd, F_SETFD, 0);
	words_of(w->e, is_bare, words);
	pid_t pid = part_start(words, is_bare);
	close(w->e->fd);
	child_wait(w, pid);
}

/* It has the descriptor for as long as it lives, and does nothing with it. */
static void event_program(struct work *w)
{
	char *argv[] = { (char *)(uintptr_t) "true", NULL };
	pid_t pid;

	fcntl(w->e->fd, F_SETFD, 0);
	int err = posix_spawnp(&pid, "true", NULL, NULL, argv, environ);
	if (err)
		die("spawn: %s", strerror(err));
	child_wait(w, pid);
	fcntl(w->e->fd, F_SETFD, FD_CLOEXEC);
}

/* --- all of it --- */

static void event_pass(struct work *w)
{
	doing(w, CALL_PASS);
	end_pass(w->e, ADOPTER_FD(rng_below(&w->rng, N_ADOPTERS)));
	close(w->e->fd);
}

/* Return: false when the end is somebody else's now. */
static bool event(struct work *w)
{
	enum event what = (enum event)rng_below(&w->rng, EVENTS);

	if (w->e->hops++ >= HOPS_MAX)
		what = EVENT_DUP;
	w->event_at = w->e->rx_off + w->e->tx_off + rng_size(&w->rng, 1 << 20);
	if (!(shared->events & 1u << what))
		return true;
	shared->n_events[what]++;
	note(w, (int)what, CALL_NONE);
	switch (what) {
	case EVENT_FORK_BACK:
		event_fork_back(w);
		return true;
	case EVENT_PASS_BACK:
		event_pass_back(w);
		return true;
	case EVENT_PROGRAM:
		event_program(w);
		return true;
	case EVENT_FORK_OVER:
		event_fork_over(w);
		return false;
	case EVENT_EXEC:
		event_exec(w);
		return false;
	case EVENT_SPAWN:
		event_spawn(w);
		return false;
	case EVENT_PASS:
		event_pass(w);
		return false;
	default:
		event_dup(w);
		return true;
	}
}

void end_run(struct end *e)
{
	struct work w;
	bool is_ours = true;

	work_begin(&w, e);
	end_turns(&w);
	while (is_ours && !is_over(e)) {
		if (e->rx_off + e->tx_off >= w.event_at)
			is_ours = event(&w);
		else
			step(&w);
	}
	free(w.piece);
	if (!is_ours)
		return;
	note(&w, EVENTS, CALL_CLOSE);
	w.slot->pid = 0;
	close(e->fd);
	shared->n_over++;
	shared->n_live--;
}
