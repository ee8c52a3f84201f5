/* SPDX-License-Identifier: MIT */
/*
 * tests/app/hostile.c - a peer that knows the protocol, and does not keep to it
 *
 *     hostile acceptor|opener MANNER SEED CTL [PORT-OF-ANOTHER]
 *
 *     the victim, under osf  <- TCP, offer, segment, inboxes ->  hostile, without
 *
 * As the acceptor it listens, says its port over the descriptor CTL, connects to
 * the victim's offer and passes a segment; as the opener it is told a port, and
 * offers.  A MANNER is either a way to get the rendezvous wrong, after which it
 * serves one connection as a well-behaved echo over TCP, until that ends; or an
 * attack, with which it comes again and again, until it is killed:
 *
 *     rendezvous, then some honest records, then nonsense for some milliseconds
 *
 * The manner "first_and_slow" stops in the middle of a fallback, as a process that
 * loses its core does; those that begin with "ends_" end there.  The manner "stranger" is another user's, who reaches for a
 * connection between two others; "visits" is what hostile_stranger.c does.  "odd_fds"
 * passes descriptors of all kinds (odd_fds.h) in place of what is wanted, or behind it.
 * What is written depends on SEED and the number of the round alone;
 * when the victim sees it does not.  Started by faults_hostile.c.
 */
#include "hostile.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "faults_stream.h"
#include "hostile_stranger.h"
#include "odd_fds.h"

#define ROUND_MS 25
#define HOLD_MS 2000
#define STRANGER_UID 65532

static uint64_t seed, rounds;
static int ctl;
int patience_ms = 300;
static bool as_opener, is_odd;

static bool has_ended(struct foe *f)
{
	char bin[4096];
	ssize_t n;

	do
		n = recv(f->tcp, bin, sizeof(bin), MSG_DONTWAIT);
	while (n > 0);
	return !n || errno != EAGAIN;
}

/* As say(), but replaces some of the @n descriptors in @fds by descriptors of other kinds, or
 * adds such behind them.  Closes them here afterwards. */
static void say_oddly(struct foe *f, struct hello *h, const int *fds, size_t n)
{
	int all[8], made[8];
	size_t n_made = 0, n_all = n + below(f, (uint32_t)(9 - n));
	bool is_right = below(f, 2);

	for (size_t i = 0; i < n_all; i++) {
		all[i] = i < n ? fds[i] : -1;
		if (i < n && (is_right || below(f, 2)))
			continue;
		for (int fd = -1; fd < 0;)
			all[i] = made[n_made] = fd =
			    odd_fd(below(f, n_odd_fds));
		n_made++;
	}
	if (below(f, 2)) {
		h->n_needed = (uint16_t)n;
		h->bell1 = (uint16_t)(1 + below(f, 70));
	}
	say(f->channel, h, sizeof(*h), all, n_all);
	close_all(made, n_made);
}

static void answer(struct foe *f, const int *fds, size_t n)
{
	struct hello h = hello_make(f);

	if (is_odd && rounds > 1)
		say_oddly(f, &h, fds, n);
	else
		say(f->channel, &h, sizeof(h), fds, n);
}

/* Becomes the victim's peer in due form: an upgraded connection. */
static bool meet(struct foe *f, int listener, uint16_t port)
{
	struct hello h;
	int fds[2];

	if (as_opener) {
		if (!channel_as_opener(f, port))
			return false;
		answer(f, &f->own_fd, 1);
		fetch_or(&me(f)->flags, SEG_READY);
		return true;
	}
	f->tcp = accept(listener, NULL, NULL);
	f->channel = proposal_of_victim(f);
	if (f->channel < 0)
		return false;
	int seg_fd = segment(f, SEALS);
	answer(f, (int[]){ seg_fd, f->own_fd }, 2);
	close(seg_fd);
	if (!listen_to(f->channel, patience_ms, &h, fds))
		return false;
	take_memory(f, -1, fds[0]);
	close_all(fds, 2);
	fetch_or(&me(f)->flags, SEG_READY);
	return f->in;
}

static void round_of(struct foe *f, const char *name)
{
	const struct manners *m = &attacks[below(f, N_FOR_ANY)];
	uint64_t end = ms_now() + 5 + below(f, ROUND_MS);

	for (const struct manners *a = attacks; a->name; a++)
		if (!strcmp(name, a->name))
			m = a;
	if (!attack_is_by_tcp(m))
		fetch_or(&me(f)->flags, SEG_TX_RING);
	for (unsigned n = below(f, 4); n; n--)
		record(f, 1 + below(f, 5000));
	bell(f);
	while (ms_now() < end && !has_ended(f)) {
		m->behave(f);
		if (below(f, 8) == 0)
			usleep(100);
	}
	/* Nothing more comes, and the connection does not end. */
	for (end += rounds >= 4 && !is_odd && !below(f, 4) ? HOLD_MS : 0;
	     ms_now() < end && !has_ended(f);)
		usleep(1000);
}

/* The name that another process has for its inbox, from that process. */
static void steal_name(struct foe *f, uint16_t port)
{
	struct foe thief = { .tcp = -1, .channel = -1, .own_fd = -1 };

	if (!channel_as_opener(&thief, port))
		give_up("nothing to steal");
	memcpy(f->own_id, thief.in->id, 16);
	foe_close(&thief);
}

static void attack_until_killed(const char *name, int listener, uint16_t port,
				uint16_t other)
{
	for (;; rounds++) {
		struct foe f = { .tcp = -1,
				 .channel = -1,
				 .rng = seed * 1000003 + rounds };

		own_inbox(&f);
		if (other)
			steal_name(&f, other);
		if (meet(&f, listener, port))
			round_of(&f, name);
		if (other) /* holds on to what it has stolen */
			pause();
		foe_close(&f);
	}
}

/* The next word of the victim's program. */
static uint64_t heard(void)
{
	uint64_t word = 0;

	if (read(ctl, &word, sizeof(word)) != sizeof(word))
		_exit(0);
	return word;
}

static void said(uint64_t word)
{
	if (write(ctl, &word, sizeof(word)) != sizeof(word))
		give_up("ctl");
}

/* Bytes that TCP brings until @ms pass without any; *@has_end: then it has ended. */
static uint64_t tcp_brings(struct foe *f, int ms, bool *has_end)
{
	struct pollfd p = { .fd = f->tcp, .events = POLLIN };
	char bin[4096];
	uint64_t n = 0;

	*has_end = false;
	while (!*has_end && poll(&p, 1, ms) == 1) {
		ssize_t r = recv(f->tcp, bin, sizeof(bin), 0);

		*has_end = r <= 0;
		n += r > 0 ? (uint64_t)r : 0;
	}
	return n;
}

/* One connection moves, and its victim has been heard. */
static void meet_once(struct foe *f, int listener, uint16_t port)
{
	patience_ms = 5000;
	own_inbox(f);
	if (!meet(f, listener, port))
		give_up("no meeting");
	fetch_or(&me(f)->flags, SEG_TX_RING);
	heard();
}

/* Falls back first, and does not finish the fallback until the victim's program has made its
 * calls: bytes of these calls must not come by TCP before. */
static void be_first_and_slow(int listener, uint16_t port, bool has_shut)
{
	struct foe f = { .tcp = -1, .channel = -1, .rng = seed };
	bool has_end;

	meet_once(&f, listener, port);
	record(&f, 100);
	if (has_shut) {
		header_put(&f, f.head, ring_hdr(RING_FIN, 0));
		fetch_or(&me(&f)->flags, SEG_TX_FIN);
	}
	f.seg->first_back = f.side + 1;
	fetch_or(&me(&f)->flags, SEG_FALLBACK | SEG_WANT_BACK);
	tcp_brings(&f, 50, &has_end);
	said(1);
	heard();
	uint64_t early = tcp_brings(&f, 50, &has_end);
	if (early || has_end)
		errno = 0, give_up("something came too early");
	fetch_or(&me(&f)->flags, SEG_SETTLED);
	uint64_t n = tcp_brings(&f, 8000, &has_end);
	said(has_end ? n : UINT64_MAX);
	record(&f, 1);
	bell(&f);
	pause();
}

/* As much as TCP takes. */
static void flood(struct foe *f)
{
	static const char junk[4096];

	while (send(f->tcp, junk, sizeof(junk), MSG_DONTWAIT | MSG_NOSIGNAL) >
	       0)
		;
}

/* So many doorbells are counted that never come, and TCP goes on. */
static void owe_behind_back(struct foe *f, bool resets)
{
	struct linger hard = { .l_onoff = 1 };

	fetch_add(&me(f)->bells, 3);
	header_put(f, f->head, ring_hdr(RING_BACK, 0));
	fetch_or(&me(f)->flags, SEG_TX_BACK | SEG_WANT_BACK);
	if (resets)
		setsockopt(f->tcp, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	close(f->tcp);
}

/* A record, and behind it the way back to it. */
static void circle(struct foe *f)
{
	uint32_t at = f->head + 128, len = 60000;
	uint32_t behind = at + 64 + (len + 63) / 64 * 64;

	header_put(f, behind, ring_hdr(RING_WRAP, 0));
	header_put(f, at, ring_hdr(RING_DATA, len));
	header_put(f, 0, ring_hdr(RING_SKIP, at));
	header_put(f, f->head, ring_hdr(RING_SKIP, at));
	bell(f);
}

/* What one that dies in the middle leaves behind, or a liar. */
static void end_oddly(struct foe *f, const char *how)
{
	if (!strcmp(how, "ends_unmarked_back")) {
		fetch_or(&me(f)->flags, SEG_TX_BACK);
		flood(f);
	} else if (!strcmp(how, "ends_unmarked_fin")) {
		fetch_or(&me(f)->flags, SEG_TX_FIN);
		bell(f);
	} else if (!strcmp(how, "ends_owing")) {
		owe_behind_back(f, false);
	} else if (!strcmp(how, "ends_owing_reset")) {
		owe_behind_back(f, true);
	} else if (!strncmp(how, "ends_unsettled", 14)) {
		if (!strcmp(how, "ends_unsettled_shut"))
			fetch_or(&me(f)->flags, SEG_TX_FIN);
		f->seg->first_back = f->side + 1;
		fetch_or(&me(f)->flags, SEG_FALLBACK | SEG_WANT_BACK);
		close(f->tcp);
	} else if (!strcmp(how, "ends_circle")) {
		circle(f);
		close(f->tcp);
	} else if (!strcmp(how, "ends_awake")) {
		record(f, 100);
		header_put(f, f->head, ring_hdr(RING_BACK, 0));
		fetch_or(&me(f)->flags, SEG_TX_BACK);
		flood(f);
	} else {
		errno = EINVAL, give_up(how);
	}
}

static void be_odd_at_the_end(int listener, uint16_t port, const char *how)
{
	struct foe f = { .tcp = -1, .channel = -1, .rng = seed };

	meet_once(&f, listener, port);
	end_oddly(&f, how);
	said(1);
	pause();
}

/* Reaches for a connection that is not ours, as another user, and sits on it. */
static void reach_for_another(void)
{
	struct foe f = { .tcp = -1, .channel = -1, .rng = seed };
	struct hello h;
	uint64_t word;

	if (setuid(STRANGER_UID) || read(ctl, &word, sizeof(word)) < 0)
		give_up("setuid");
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* setuid() has cleared it */
	own_inbox(&f);
	h = hello_make(&f);
	uint16_t client = (uint16_t)(word >> 16), server = (uint16_t)word;
	/* As an opener it could not show an offer on a socket that it has not. */
	if (!as_opener) {
		f.channel = proposal_of_others(client, server);
		if (f.channel >= 0)
			say(f.channel, &h, sizeof(h),
			    (int[]){ segment(&f, SEALS), f.own_fd }, 2);
	}
	if (write(ctl, &word, sizeof(word)) < 0)
		give_up("ctl");
	pause();
}

static bool behave_badly(const char *name, int listener, uint16_t port)
{
	const struct manners *m = as_opener ? bad_openers : bad_acceptors;
	struct foe f = { .tcp = -1, .channel = -1, .rng = seed };

	for (; m->name; m++) {
		if (strcmp(m->name, name))
			continue;
		own_inbox(&f);
		if (as_opener && !channel_as_opener(&f, port))
			give_up("no segment");
		if (!as_opener)
			f.tcp = accept(listener, NULL, NULL);
		m->behave(&f);
		struct stream s = stream_make(f.tcp, seed, 0, as_opener);
		if (!stream_echo(&s) && errno != ECONNRESET)
			give_up("echo");
		return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	uint16_t port = 0, other = 0;
	uint64_t word;
	int listener = -1;

	if (argc < 5)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	alarm(60); /* longer than a scenario of faults.c may take */
	as_opener = !strcmp(argv[1], "opener");
	seed = strtoull(argv[3], NULL, 0);
	ctl = atoi(argv[4]);
	if (argc > 5)
		other = (uint16_t)atoi(argv[5]);
	if (!strcmp(argv[2], "stranger"))
		reach_for_another();
	if (!strcmp(argv[2], "visits"))
		visit_until_killed(seed, ctl);
	is_odd = !strcmp(argv[2], "odd_fds");
	if (is_odd)
		odd_fds_init();
	if (as_opener) {
		if (read(ctl, &word, sizeof(word)) != sizeof(word))
			return 1;
		port = (uint16_t)word;
	} else {
		listener = tcp_socket();
		word = port_of(listener, false);
		if (listen(listener, 16) ||
		    write(ctl, &word, sizeof(word)) != sizeof(word))
			return 1;
	}
	if (!strcmp(argv[2], "first_and_slow"))
		be_first_and_slow(listener, port, false);
	if (!strcmp(argv[2], "first_and_slow_shut"))
		be_first_and_slow(listener, port, true);
	if (!strncmp(argv[2], "ends_", 5))
		be_odd_at_the_end(listener, port, argv[2]);
	if (behave_badly(argv[2], listener, port))
		return 0;
	attack_until_killed(argv[2], listener, port, other);
}
