/* SPDX-License-Identifier: MIT */
/*
 * tests/port/death.c - a program dies, or osfd does, while connections have moved
 *
 *     death OSFD LIBOSF VICTIM [KILLS [SEED [RESTARTS]]]
 *
 * HERE a program under osf takes turns with this one, whose socket THERE is the kernel's.
 * The program is killed at random moments; what its send() has taken must arrive, byte by
 * byte, and the connection must end.  Then osfd is killed and started again, and the
 * program goes on.  Nothing stays steered, and osfd keeps no descriptor.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "half_osfd.h"
#include "osfd/escrow.h"
#include "osfd_run.h"
#include "victim.h"

#define PATIENCE_MS 20000
#define EARLY_US 60000u
#define LATE_US 10000u
#define PART 3000u

static struct world world;
static const char *libosf_path, *victim_path;
static unsigned n_kills = 20, n_restarts = 8;
static uint64_t seed = 1;

static struct msg_listed listed(void)
{
	struct msg_listed l = { 0 };
	int fd = must_connect();

	assert_int_equal(n_listed(fd, &l), 1);
	close(fd);
	return l;
}

/* Nothing of programs that are gone is left.  osfd may be opening the port for one that was
 * killed meanwhile: then it has steering for a moment. */
static void must_be_clean(void)
{
	struct msg_listed l = listed();

	for (int i = 0; i < PATIENCE_MS && (l.n_grants || n_tcx(&world)); i++) {
		poll(NULL, 0, 1);
		l = listed();
	}
	assert_int_equal(l.n_grants, 0);
	assert_int_equal(l.n_used, 0);
	assert_int_equal(n_tcx(&world), 0);
}

/*
 * An escrow by hand.
 */

struct dying {
	struct program prog;
	struct pair p;
	struct frozen f;
	uint8_t *map;
	pid_t pid;
};

static void pair_ping(const struct pair *p)
{
	char c;

	assert_int_equal(send(p->end[HERE], "a", 1, 0), 1);
	assert_int_equal(recv(p->end[THERE], &c, 1, 0), 1);
	assert_int_equal(send(p->end[THERE], "b", 1, 0), 1);
	assert_int_equal(recv(p->end[HERE], &c, 1, 0), 1);
}

static int escrow_file(void)
{
	int fd = memfd_create("escrow", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)ESCROW_BYTES) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		return -1;
	return fd;
}

/* The child: a connection in slot 2, which stays frozen.  Return: whether all went well */
static bool be_frozen(struct dying *d, int file)
{
	struct request q = { .escrow = { 0 } };
	struct reply r;
	int err = -EAGAIN;

	program_open(&d->prog);
	q.escrow.grant = d->prog.grant;
	if (osfd_call(d->prog.osfd, MSG_ESCROW, &q, &file, 1, &r, NULL))
		return false;
	for (int i = 0; i < 5000 && err == -EAGAIN; i++) {
		struct request f = { .freeze = { d->prog.grant, 2 } };
		err = osfd_call(d->prog.osfd, MSG_FREEZE, &f, &d->p.end[HERE],
				1, &r, NULL);
		poll(NULL, 0, err == -EAGAIN);
	}
	/* The test reads from here what was said. */
	memcpy(d->map, &r.frozen, sizeof(r.frozen));
	return !err;
}

static void dying_open(struct dying *d)
{
	int ready[2], file = escrow_file();
	char c = 0;

	assert_true(file >= 0);
	d->map = mmap(NULL, 2 * ESCROW_SLOT, PROT_READ | PROT_WRITE, MAP_SHARED,
		      file, 0);
	assert_true(d->map != MAP_FAILED);
	pair_open(&world, false, HERE, &d->p);
	pair_ping(&d->p);
	world_enter(&world, HERE);
	assert_int_equal(pipe(ready), 0);
	d->pid = fork();
	if (!d->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (be_frozen(d, file) && write(ready[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(file);
	close(d->p.end[HERE]);
	memcpy(&d->f, d->map, sizeof(d->f));
}

/* What an engine would have written that has sent PART bytes and has PART more.  They lie
 * across the end of the ring. */
static struct escrow_head *dying_say(struct dying *d)
{
	struct escrow_head *h = (void *)(d->map + ESCROW_SLOT);
	uint8_t *ring = d->map + ESCROW_SLOT + ESCROW_HEAD;
	uint32_t off = ESCROW_RING - PART - 100;

	h->state[1] = (struct escrow_state){
		.snd_una = d->f.snd_nxt,
		.snd_nxt = d->f.snd_nxt + PART,
		.snd_end = d->f.snd_nxt + 2 * PART,
		.off = off,
		.rcv_nxt = d->f.rcv_nxt,
		.snd_wl1 = d->f.snd_wl1,
		.snd_wnd = d->f.snd_wnd,
		.max_window = d->f.max_window,
		.rcv_wnd = d->f.rcv_wnd,
		.rcv_wup = d->f.rcv_wup,
	};
	for (uint32_t i = 0; i < 2 * PART; i++)
		ring[(off + i) % ESCROW_RING] = stream_byte(i);
	h->which = 2;
	return h;
}

static void dying_kill(struct dying *d)
{
	kill(d->pid, SIGKILL);
	assert_int_equal(waitpid(d->pid, NULL, 0), d->pid);
	munmap(d->map, 2 * ESCROW_SLOT);
}

/* What the peer reads, up to the end.  Return: bytes; *@err: how it ended */
static size_t peer_reads(struct dying *d, uint8_t *buf, size_t max, int *err)
{
	struct timeval limit = { .tv_sec = PATIENCE_MS / 1000 };
	int fd = d->p.end[THERE];
	size_t got = 0;
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	while ((n = recv(fd, buf + got, max - got, 0)) > 0)
		got += (size_t)n;
	*err = n < 0 ? errno : 0;
	close(fd);
	return got;
}

static void bytes_of_an_escrow_arrive(void **state)
{
	struct dying d;
	uint8_t buf[3 * PART];
	int err;

	dying_open(&d);
	dying_say(&d);
	dying_kill(&d);
	assert_int_equal(peer_reads(&d, buf, sizeof(buf), &err), 2 * PART);
	assert_int_equal(err, 0);
	assert_int_equal(stream_differs(buf, 0, 2 * PART), 2 * PART);
	must_be_clean();
	assert_int_equal(listed().n_thawed, 1);
}

static void a_connection_that_has_done_nothing_ends(void **state)
{
	struct dying d;
	uint8_t buf[10];
	int err;

	dying_open(&d);
	dying_kill(&d);
	assert_int_equal(peer_reads(&d, buf, sizeof(buf), &err), 0);
	assert_int_equal(err, 0);
	must_be_clean();
	assert_int_equal(listed().n_thawed, 1);
}

/* As where the kernel has the connection of a program that is killed. */
static void bytes_that_were_not_read_mean_a_reset(void **state)
{
	struct dying d;
	uint8_t buf[10];
	int err;

	dying_open(&d);
	struct escrow_state *s = &dying_say(&d)->state[1];
	s->snd_nxt = s->snd_end = s->snd_una;
	s->n_unread = 1;
	dying_kill(&d);
	assert_int_equal(peer_reads(&d, buf, sizeof(buf), &err), 0);
	assert_int_equal(err, ECONNRESET);
	must_be_clean();
}

static void an_escrow_that_contradicts_itself_means_a_reset(void **state)
{
	uint8_t buf[10];
	int err;

	for (int i = 0; i < 4; i++) {
		struct dying d;
		uint64_t before = listed().n_reset;

		dying_open(&d);
		struct escrow_head *h = dying_say(&d);
		if (i == 0)
			h->which = 3;
		if (i == 1)
			h->state[1].snd_end += ESCROW_RING;
		if (i == 2)
			h->state[1].off = ESCROW_RING;
		if (i == 3) /* what only the kernel refuses */
			h->state[1].snd_wl1 += 1u << 31;
		dying_kill(&d);
		assert_int_equal(peer_reads(&d, buf, sizeof(buf), &err), 0);
		assert_int_equal(err, ECONNRESET);
		must_be_clean(); /* the peer hears of it before it is counted */
		assert_int_equal(listed().n_reset, before + 1);
	}
}

/*
 * A program under osf.
 */

struct far {
	struct victim *v;
	struct rng rng; /* the same as the victim's */
	pid_t pid;
	int fd;
	uint64_t sent, got;
	uint32_t to_get; /* of this turn */
};

static void victim_exec(const char *address, uint16_t port, uint64_t its_seed,
			int shared)
{
	char p[8], s[24];

	world_enter(&world, HERE);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(p, sizeof(p), "%u", port);
	snprintf(s, sizeof(s), "%llu", (unsigned long long)its_seed);
	setenv("LD_PRELOAD", libosf_path, 1);
	setenv("OSF_RULES", "use tcp tcp_client *:*", 1);
	dup2(shared, VICTIM_FD);
	execl(victim_path, "victim", address, p, s, NULL);
	_exit(127);
}

static void far_open(struct far *f, bool is_v6, bool is_gentle,
		     uint64_t its_seed)
{
	struct sockaddr_storage at = world_addr(THERE, is_v6, 0);
	struct sockaddr_in *in = (void *)&at; /* the port has the same place */
	socklen_t len = addr_len(&at);
	int shared = memfd_create("victim", MFD_CLOEXEC);

	*f = (struct far){ .rng = { its_seed } };
	assert_int_equal(ftruncate(shared, sizeof(*f->v)), 0);
	f->v = mmap(NULL, sizeof(*f->v), PROT_READ | PROT_WRITE, MAP_SHARED,
		    shared, 0);
	f->v->is_gentle = is_gentle;
	world_enter(&world, THERE);
	int l = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(l, (void *)&at, len), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (void *)&at, &len), 0);
	f->pid = fork();
	if (!f->pid)
		victim_exec(is_v6 ? "fd09::2" : "10.9.0.2", ntohs(in->sin_port),
			    its_seed, shared);
	struct pollfd p = { l, POLLIN, 0 };
	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	f->fd = accept4(l, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(f->fd >= 0);
	close(l);
	close(shared);
	world_enter(&world, HERE);
	f->to_get = victim_length(f->v, &f->rng);
}

static void far_answer(struct far *f)
{
	uint8_t buf[512];
	uint32_t n = victim_reply(&f->rng);

	stream_fill(buf, f->sent, n);
	(void)send(f->fd, buf, n, MSG_NOSIGNAL); /* the victim may be dead */
	f->sent += n;
	f->to_get = victim_length(f->v, &f->rng);
}

/* Takes what is there.  Return: false at the end */
static bool far_take(struct far *f, bool answers)
{
	static uint8_t buf[65536];
	size_t want =
	    answers ? MIN((size_t)f->to_get, sizeof(buf)) : sizeof(buf);
	ssize_t n = recv(f->fd, buf, want, 0);

	if (n < 0 && errno == EAGAIN)
		return true;
	if (n <= 0) {
		assert_true(n == 0 || errno == ECONNRESET);
		return false;
	}
	assert_int_equal(stream_differs(buf, f->got, (size_t)n), n);
	f->got += (uint64_t)n;
	f->to_get -= MIN((uint32_t)n, f->to_get);
	if (answers && !f->to_get)
		far_answer(f);
	return true;
}

static void far_turns(struct far *f, uint64_t us)
{
	uint64_t end = now_ns() + us * NS_PER_US;

	while (now_ns() < end) {
		struct pollfd p = { f->fd, POLLIN, 0 };
		struct timespec left = ns_timespec(end - MIN(now_ns(), end));

		if (ppoll(&p, 1, &left, NULL) > 0)
			assert_true(far_take(f, true));
	}
}

/* Kills the victim, and reads to the end. */
static void far_kill(struct far *f)
{
	int status;

	kill(f->pid, SIGKILL);
	assert_int_equal(waitpid(f->pid, &status, 0), f->pid);
	assert_true(WIFSIGNALED(status));
	uint64_t sent = f->v->sent;
	struct pollfd p = { f->fd, POLLIN, 0 };
	do
		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	while (far_take(f, false));
	if (f->got < sent)
		print_message("send() took %llu bytes, and %llu arrived\n",
			      (unsigned long long)sent,
			      (unsigned long long)f->got);
	assert_true(f->got >= sent);
	munmap(f->v, sizeof(*f->v));
	close(f->fd);
}

/* Until its connection has moved; false: it has not, in the given time. */
static bool far_moves(struct far *f, unsigned ms)
{
	for (unsigned i = 0; i < ms; i++) {
		far_turns(f, 1000);
		if (listed().n_used)
			return true;
	}
	return false;
}

/* How many connections osfd has given back for programs that were killed, and how many of
 * these could not have gone back before. */
struct deaths {
	unsigned n_thawed, n_moved;
};

/* A gentle one never has bytes for which its connection would go back to the kernel.  So once
 * it has moved, it is at the port when it dies. */
static void kill_one(struct rng *rng, bool is_v6, bool is_gentle, bool is_early,
		     struct deaths *d)
{
	uint64_t before = listed().n_thawed;
	struct far f;

	far_open(&f, is_v6, is_gentle, rng_next(rng));
	if (!is_early)
		assert_true(far_moves(&f, PATIENCE_MS));
	far_turns(&f, rng_below(rng, is_early ? EARLY_US : LATE_US));
	far_kill(&f);
	must_be_clean();
	unsigned n = (unsigned)(listed().n_thawed - before);
	assert_true(n <= 1);
	if (is_gentle && !is_early)
		assert_int_equal(n, 1);
	d->n_moved += is_gentle && !is_early;
	d->n_thawed += n;
}

/* Every fourth one is killed at any moment of its life, the others when they have moved.
 * Half of these may have gone back to the kernel by then, which closes them itself. */
static void what_a_killed_program_has_sent_arrives(void **state)
{
	struct rng rng = { seed };
	struct deaths d = { 0 };

	print_message("seed %llu\n", (unsigned long long)seed);
	unsigned n_fds = n_fds_of(osfd_pid);
	for (unsigned i = 0; i < n_kills; i++)
		kill_one(&rng, i & 1, i % 8 < 4, i % 4 == 3, &d);
	print_message(
	    "%u kills: osfd gave %u connections to the kernel, among them all "
	    "%u that could not go back before; the kernel had the other %u "
	    "already; %llu were reset\n",
	    n_kills, d.n_thawed, d.n_moved, n_kills - d.n_thawed,
	    (unsigned long long)listed().n_reset);
	assert_int_equal(listed().n_reset, 0);
	for (int i = 0; i < 5000 && n_fds_of(osfd_pid) > n_fds; i++)
		poll(NULL, 0, 1);
	assert_true(n_fds_of(osfd_pid) <= n_fds);
}

static void osfd_restart(void)
{
	osfd_kill(SIGKILL);
	osfd_run(&world);
}

/* Each osfd finds the port and the connection again; the last one gives it back. */
static void connections_go_on_when_osfd_is_killed(void **state)
{
	struct far f;

	far_open(&f, false, true, seed);
	assert_true(far_moves(&f, PATIENCE_MS));
	unsigned n_fds = n_fds_of(f.pid);
	for (unsigned i = 0; i < n_restarts; i++) {
		osfd_restart();
		uint64_t got = f.got;
		far_turns(&f, 1000);
		for (int ms = 0; ms < PATIENCE_MS && !listed().n_used; ms++)
			far_turns(&f, 1000);
		assert_int_equal(listed().n_used, 1);
		for (int ms = 0; ms < PATIENCE_MS && f.got == got; ms++)
			far_turns(&f, 1000);
		assert_true(f.got > got);
	}
	/* The old ring and link are closed some moments after the adoption.  One is the bell of
	 * the thread, which it has from its first sleep on. */
	for (int ms = 0; ms < PATIENCE_MS && n_fds_of(f.pid) > n_fds + 1; ms++)
		far_turns(&f, 1000);
	assert_true(n_fds_of(f.pid) <= n_fds + 1);
	far_kill(&f);
	must_be_clean();
	assert_int_equal(listed().n_thawed, 1);
	assert_int_equal(listed().n_reset, 0);
}

/* osfd is killed before the program hears that it has frozen a connection. */
static void a_freeze_that_nobody_heard_of_is_undone(void **state)
{
	struct program before, next;
	struct pair p;
	struct reply r;
	int err = -EAGAIN;

	pair_open(&world, false, HERE, &p);
	pair_ping(&p);
	world_enter(&world, HERE);
	program_open(&before);
	for (int i = 0; i < 5000 && err == -EAGAIN; i++) {
		err = program_freeze(&before, p.end[HERE], &r);
		poll(NULL, 0, err == -EAGAIN);
	}
	assert_int_equal(err, 0);
	osfd_restart();
	program_open(&next);
	struct request q = { .undo = { next.grant } };
	assert_int_equal(
	    osfd_call(next.osfd, MSG_UNDO, &q, &p.end[HERE], 1, &r, NULL), 0);
	program_close(&before); /* with its link, which still steered */
	pair_ping(&p);
	program_close(&next);
	pair_close(&p);
	must_be_clean();
}

/* The program takes turns, or waits in a call, until the osfd has ended. */
static void far_sees_end(struct far *f, pid_t half)
{
	int status = 0;
	pid_t pid = 0;

	for (int ms = 0; ms < PATIENCE_MS && !pid; ms++) {
		far_turns(f, 1000);
		pid = waitpid(half, &status, WNOHANG);
	}
	assert_int_equal(pid, half);
	assert_int_equal(status, 0);
}

/* One osfd ends in a freeze, and the next one when it is to be undone. */
static void a_freeze_is_undone_by_the_third_osfd(void **state)
{
	struct far f;

	osfd_kill(SIGKILL); /* the next one finds its port again */
	pid_t half = half_osfd_run(&world, MSG_FREEZE);
	far_open(&f, false, true, seed);
	far_sees_end(&f, half);
	far_sees_end(&f, half_osfd_run(&world, MSG_UNDO));
	osfd_run(&world);
	assert_true(far_moves(&f, PATIENCE_MS));
	uint64_t got = f.got;
	for (int ms = 0; ms < PATIENCE_MS && f.got == got; ms++)
		far_turns(&f, 1000);
	assert_true(f.got > got);
	far_kill(&f);
	must_be_clean();
	assert_int_equal(listed().n_reset, 0);
}

/* The program asks for what only the kernel can do while there is no osfd. */
static void a_call_that_needs_osfd_waits_for_it(void **state)
{
	struct far f;

	far_open(&f, true, true, seed);
	assert_true(far_moves(&f, PATIENCE_MS));
	osfd_kill(SIGKILL);
	store_rel(&f.v->asks, f.v->asks + 1);
	far_turns(&f, 20000);
	osfd_run(&world);
	for (int ms = 0; ms < PATIENCE_MS && !load_acq(&f.v->asked); ms++)
		far_turns(&f, 1000);
	assert_int_equal(f.v->asked, 1);
	assert_true(far_moves(&f, PATIENCE_MS));
	uint64_t got = f.got;
	far_turns(&f, 50000);
	assert_true(f.got > got);
	far_kill(&f);
	must_be_clean();
}

static int n_not_acked(int fd)
{
	int n = -1;

	assert_int_equal(ioctl(fd, SIOCOUTQ, &n), 0);
	return n;
}

/* Its bytes were read, and nobody makes a turn that would send the ACK. */
static void a_program_that_is_away_acknowledges(void **state)
{
	struct far f;

	far_open(&f, false, true, seed);
	assert_true(far_moves(&f, PATIENCE_MS));
	for (int i = 0; i < 5; i++) {
		uint64_t sent = f.sent;

		store_rel(&f.v->stays_away, 1u);
		for (int ms = 0; ms < PATIENCE_MS && !load_acq(&f.v->is_away);
		     ms++)
			far_turns(&f, 1000);
		assert_int_equal(f.v->is_away, 1);
		for (int ms = 0; ms < PATIENCE_MS && n_not_acked(f.fd); ms++)
			poll(NULL, 0, 1);
		assert_int_equal(n_not_acked(f.fd), 0);
		assert_int_equal(f.v->is_away, 1);
		store_rel(&f.v->stays_away, 0u);
		for (int ms = 0; ms < PATIENCE_MS && f.sent == sent; ms++)
			far_turns(&f, 1000);
		assert_true(f.sent > sent);
	}
	assert_int_equal(listed().n_used, 1);
	far_kill(&f);
	must_be_clean();
	assert_int_equal(listed().n_reset, 0);
}

#define TEST(name) OSFD_TEST(name, &world)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(bytes_of_an_escrow_arrive),
		TEST(a_connection_that_has_done_nothing_ends),
		TEST(bytes_that_were_not_read_mean_a_reset),
		TEST(an_escrow_that_contradicts_itself_means_a_reset),
		TEST(what_a_killed_program_has_sent_arrives),
		TEST(connections_go_on_when_osfd_is_killed),
		TEST(a_freeze_that_nobody_heard_of_is_undone),
		TEST(a_freeze_is_undone_by_the_third_osfd),
		TEST(a_call_that_needs_osfd_waits_for_it),
		TEST(a_program_that_is_away_acknowledges),
	};
	char seed_name[] = "OSF_TEST_SEED";

	if (argc < 4)
		return 1;
	osfd_path = argv[1];
	libosf_path = argv[2];
	victim_path = argv[3];
	if (getenv(seed_name))
		seed = strtoull(getenv(seed_name), NULL, 10);
	if (argc > 4)
		n_kills = (unsigned)atoi(argv[4]);
	if (argc > 5)
		seed = strtoull(argv[5], NULL, 10);
	if (argc > 6)
		n_restarts = (unsigned)atoi(argv[6]);
	return osfd_run_tests(&world, tests);
}
