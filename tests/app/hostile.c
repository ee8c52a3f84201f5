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
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "faults_stream.h"
#include "hostile_stranger.h"
#include "odd_fds.h"
#include "proto/shm/inbox.h"
#include "proto/shm/other_end.h"
#include "proto/shm/rendezvous.h"
#include "proto/shm/ring.h"
#include "proto/shm/segment.h"

#define RING_BYTES (256u * 1024)
#define ROUND_MS 25
#define HOLD_MS 2000
#define STRANGER_UID 65532
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define COUNT(a) (sizeof(a) / sizeof(*(a)))

struct foe {
	int tcp, channel;
	struct seg *seg;
	uint32_t ring; /* bytes of each */
	unsigned side; /* ours */
	uint32_t head; /* of our ring */
	struct inbox *in, *own;
	int own_fd;
	uint8_t own_id[16];
	struct notice notice;
	uint64_t rng;
};

static uint64_t seed, rounds;
static int ctl, patience_ms = 300;
static bool as_opener, is_odd;

static uint64_t next(struct foe *f)
{
	f->rng += 0x9e3779b97f4a7c15ull;
	return pattern_mix(pattern_mix(f->rng));
}

static uint32_t below(struct foe *f, uint32_t n)
{
	return (uint32_t)(next(f) >> 16) % n;
}

static uint64_t ms_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000u + (uint64_t)ts.tv_nsec / 1000000u;
}

static void give_up(const char *why)
{
	fprintf(stderr, "hostile: %s: %s\n", why, strerror(errno));
	_exit(1);
}

/* --- memory --- */

static int memory(size_t bytes, unsigned flags, int seals)
{
	int fd = memfd_create("hostile", MFD_CLOEXEC | flags);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) ||
	    (seals && fcntl(fd, F_ADD_SEALS, seals)))
		give_up("memory");
	return fd;
}

static void *map(int fd, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

static int segment(struct foe *f, int seals)
{
	int fd = memory(seg_bytes(RING_BYTES), MFD_ALLOW_SEALING, 0);

	f->ring = RING_BYTES;
	f->side = 0;
	f->seg = map(fd, seg_bytes(RING_BYTES));
	if (!f->seg || (seals && fcntl(fd, F_ADD_SEALS, seals)))
		give_up("segment");
	f->seg->version = SEG_VERSION;
	f->seg->ring_size = RING_BYTES;
	f->seg->side[0].slot = f->seg->side[1].slot = SLOT_NONE;
	f->seg->magic = SEG_MAGIC;
	return fd;
}

static void own_inbox(struct foe *f)
{
	f->own_fd = memory(sizeof(struct inbox), MFD_ALLOW_SEALING, SEALS);
	f->own = map(f->own_fd, sizeof(struct inbox));
	if (!f->own)
		give_up("inbox");
	for (int i = 0; i < 16; i++)
		f->own_id[i] = (uint8_t)next(f);
}

/* --- TCP and the rendezvous --- */

static struct sockaddr_in local(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr =
					 htonl(INADDR_LOOPBACK) };
}

static uint16_t port_of(int fd, bool of_peer)
{
	struct sockaddr_in a = { 0 };
	socklen_t len = sizeof(a);

	if (of_peer)
		getpeername(fd, (void *)&a, &len);
	else
		getsockname(fd, (void *)&a, &len);
	return ntohs(a.sin_port);
}

static int tcp_socket(void)
{
	struct sockaddr_in a = local(0);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (bind(fd, (void *)&a, sizeof(a)))
		give_up("bind");
	return fd;
}

/* The victim's socket for the connection that we have accepted; -1 when it does not appear in
 * time. */
static int proposal_of_victim(struct foe *f)
{
	uint64_t end = ms_now() + (uint64_t)patience_ms;
	int channel, refused;

	while ((channel = proposal_connect(f->tcp, &f->notice, &refused)) < 0 &&
	       ms_now() < end)
		usleep(200);
	if (refused >= 0)
		give_up("not to be trusted");
	return channel < 0 ? -1 : channel;
}

/* The offer of a connection between others. */
static int proposal_of_others(uint16_t client, uint16_t server)
{
	struct sockaddr_storage at = { 0 }, to = { 0 };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	uint64_t end = ms_now() + 300;
	struct other_end e = { 0 };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(&at, (struct sockaddr_in[]){ local(client) },
	       sizeof(struct sockaddr_in));
	memcpy(&to, (struct sockaddr_in[]){ local(server) },
	       sizeof(struct sockaddr_in));
	while (ms_now() < end) {
		int n = socket_ask(&at, &to, &e)
			    ? 0
			    : snprintf(un.sun_path + 1, 100, "osf8/%015llx",
				       (unsigned long long)e.rate &
					   ((UINT64_C(1) << NOTICE_BITS) - 1));

		if (n && !connect(fd, (void *)&un,
				  (socklen_t)(offsetof(struct sockaddr_un,
						       sun_path) +
					      1 + (size_t)n)))
			return fd;
		usleep(200);
	}
	close(fd);
	return -1;
}

static struct hello hello_make(const struct foe *f)
{
	struct hello h = { .magic = HELLO_MAGIC,
			   .version = SEG_VERSION,
			   .size = sizeof(h),
			   .pid = (uint32_t)getpid() };

	memcpy(h.inbox_id, f->own_id, 16);
	return h;
}

/* At most 8 descriptors. */
static void say(int channel, const struct hello *h, size_t len, const int *fds,
		size_t n)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(8 * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)h, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n) {
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	sendmsg(channel, &msg, MSG_NOSIGNAL);
}

/* What the victim says; false when it says nothing in @ms. */
static bool listen_to(int channel, int ms, struct hello *h, int fds[2])
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct iovec iov = { h, sizeof(*h) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };
	struct pollfd p = { .fd = channel, .events = POLLIN };

	fds[0] = fds[1] = -1;
	if (poll(&p, 1, ms) != 1 ||
	    recvmsg(channel, &msg, MSG_CMSG_CLOEXEC) < (ssize_t)sizeof(*h))
		return false;
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	if (c)
		memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	return true;
}

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void take_memory(struct foe *f, int seg_fd, int inbox_fd)
{
	struct stat st;

	if (seg_fd >= 0 && !fstat(seg_fd, &st)) {
		f->seg = map(seg_fd, (size_t)st.st_size);
		f->ring = f->seg ? f->seg->ring_size : 0;
		f->side = 1;
	}
	if (inbox_fd >= 0)
		f->in = map(inbox_fd, sizeof(struct inbox));
}

/* A channel with the victim, its segment mapped, as one who offers. */
static bool channel_as_opener(struct foe *f, uint16_t server)
{
	struct sockaddr_in a = local(server);
	struct pollfd p = { .events = POLLIN };
	struct hello h;
	int fds[2];

	f->tcp = tcp_socket();
	int offer = proposal_listen(f->tcp, &f->notice);
	if (offer < 0)
		give_up("offer");
	if (connect(f->tcp, (void *)&a, sizeof(a)))
		give_up("connect");
	p.fd = offer;
	f->channel =
	    poll(&p, 1, patience_ms) == 1 ? accept(offer, NULL, NULL) : -1;
	close(offer);
	if (f->channel < 0 || !listen_to(f->channel, patience_ms, &h, fds))
		return false;
	take_memory(f, fds[0], fds[1]);
	close_all(fds, 2);
	return f->seg && f->in;
}

static void channel_close(struct foe *f)
{
	if (f->channel >= 0)
		close(f->channel);
	f->channel = -1;
}

static void foe_close(struct foe *f)
{
	channel_close(f);
	if (f->seg)
		munmap(f->seg, seg_bytes(f->ring));
	if (f->in)
		munmap(f->in, sizeof(struct inbox));
	if (f->own)
		munmap(f->own, sizeof(struct inbox));
	close_all((int[]){ f->tcp, f->own_fd }, 2);
}

/* --- getting the rendezvous wrong: what is passed to a victim that offers --- */

static void pass(struct foe *f, const struct hello *h, size_t len,
		 const int *fds, size_t n)
{
	f->channel = proposal_of_victim(f);
	if (f->channel < 0)
		give_up("no offer");
	say(f->channel, h, len, fds, n);
}

static void pass_with(struct foe *f, int seg_fd, int inbox_fd)
{
	struct hello h = hello_make(f);

	pass(f, &h, sizeof(h), (int[]){ seg_fd, inbox_fd }, 2);
}

static void bad_unsealed(struct foe *f)
{
	pass_with(f, segment(f, 0), f->own_fd);
}

static void bad_half_sealed(struct foe *f)
{
	pass_with(f, segment(f, F_SEAL_GROW), f->own_fd);
}

static void bad_short_segment(struct foe *f)
{
	pass_with(f, memory(SEG_PAGE, MFD_ALLOW_SEALING, SEALS), f->own_fd);
}

static void bad_empty_segment(struct foe *f)
{
	pass_with(f, memory(0, MFD_ALLOW_SEALING, SEALS), f->own_fd);
}

static void bad_odd_segment(struct foe *f)
{
	pass_with(f,
		  memory(seg_bytes(RING_BYTES) + 1, MFD_ALLOW_SEALING, SEALS),
		  f->own_fd);
}

static void bad_huge_segment(struct foe *f)
{
	pass_with(
	    f, memory(SEG_PAGE + ((size_t)3 << 31), MFD_ALLOW_SEALING, SEALS),
	    f->own_fd);
}

/* The right size, and a lie about it inside. */
static void bad_ring_size(struct foe *f)
{
	int fd = segment(f, SEALS);

	f->seg->ring_size *= 2;
	pass_with(f, fd, f->own_fd);
}

static void bad_segment_magic(struct foe *f)
{
	int fd = segment(f, SEALS);

	f->seg->magic++;
	pass_with(f, fd, f->own_fd);
}

static void bad_segment_version(struct foe *f)
{
	int fd = segment(f, SEALS);

	f->seg->version++;
	pass_with(f, fd, f->own_fd);
}

static void bad_pipe(struct foe *f)
{
	int fds[2];

	if (pipe(fds))
		give_up("pipe");
	pass_with(f, fds[0], f->own_fd);
}

static void bad_device(struct foe *f)
{
	pass_with(f, open("/dev/zero", O_RDWR | O_CLOEXEC), f->own_fd);
}

static void bad_write_sealed(struct foe *f)
{
	int fd = segment(f, 0);

	if (fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_FUTURE_WRITE))
		give_up("F_SEAL_FUTURE_WRITE");
	pass_with(f, fd, f->own_fd);
}

static void bad_read_only(struct foe *f)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", segment(f, SEALS));
	pass_with(f, open(path, O_RDONLY | O_CLOEXEC), f->own_fd);
}

static void bad_unsealed_inbox(struct foe *f)
{
	pass_with(f, segment(f, SEALS),
		  memory(sizeof(struct inbox), MFD_ALLOW_SEALING, 0));
}

static void bad_short_inbox(struct foe *f)
{
	pass_with(
	    f, segment(f, SEALS),
	    memory(sizeof(struct inbox) - 4096, MFD_ALLOW_SEALING, SEALS));
}

static void bad_one_descriptor(struct foe *f)
{
	struct hello h = hello_make(f);

	pass(f, &h, sizeof(h), (int[]){ segment(f, SEALS) }, 1);
}

static void bad_no_descriptor(struct foe *f)
{
	struct hello h = hello_make(f);

	pass(f, &h, sizeof(h), NULL, 0);
}

static void bad_many_descriptors(struct foe *f)
{
	struct hello h = hello_make(f);
	int s = segment(f, SEALS), i = f->own_fd;

	pass(f, &h, sizeof(h), (int[]){ s, i, s, i, s, i, s, i }, 8);
}

static void bad_short_hello(struct foe *f)
{
	struct hello h = hello_make(f);

	pass(f, &h, sizeof(h) - 1, (int[]){ segment(f, SEALS), f->own_fd }, 2);
}

static void bad_magic(struct foe *f)
{
	struct hello h = hello_make(f);

	h.magic ^= 1;
	pass(f, &h, sizeof(h), (int[]){ segment(f, SEALS), f->own_fd }, 2);
}

static void bad_version(struct foe *f)
{
	struct hello h = hello_make(f);

	h.version++;
	pass(f, &h, sizeof(h), (int[]){ segment(f, SEALS), f->own_fd }, 2);
}

/* Takes the offer and says nothing. */
static void bad_mute(struct foe *f)
{
	f->channel = proposal_of_victim(f);
	if (f->channel < 0)
		give_up("no offer");
}

static void bad_gone(struct foe *f)
{
	bad_mute(f);
	channel_close(f);
}

/* --- the same as one who offers: the segment has come, f->seg --- */

static void bad_holds(struct foe *f) {}

static void bad_declines(struct foe *f) { channel_close(f); }

/* Neither taken nor free. */
static void bad_flags(struct foe *f) { f->seg->side[1].flags = SEG_LENDS; }

static void bad_flags_and_goes(struct foe *f)
{
	bad_flags(f);
	channel_close(f);
}

static void bad_answer(struct foe *f)
{
	struct hello h = hello_make(f);

	h.magic ^= 1;
	say(f->channel, &h, 5, NULL, 0);
}

struct manners {
	const char *name;
	void (*behave)(struct foe *f);
};

static const struct manners bad_acceptors[] = {
	{ "unsealed", bad_unsealed },
	{ "half_sealed", bad_half_sealed },
	{ "short_segment", bad_short_segment },
	{ "empty_segment", bad_empty_segment },
	{ "odd_segment", bad_odd_segment },
	{ "huge_segment", bad_huge_segment },
	{ "ring_size", bad_ring_size },
	{ "segment_magic", bad_segment_magic },
	{ "segment_version", bad_segment_version },
	{ "pipe", bad_pipe },
	{ "device", bad_device },
	{ "write_sealed", bad_write_sealed },
	{ "read_only", bad_read_only },
	{ "unsealed_inbox", bad_unsealed_inbox },
	{ "short_inbox", bad_short_inbox },
	{ "one_descriptor", bad_one_descriptor },
	{ "no_descriptor", bad_no_descriptor },
	{ "many_descriptors", bad_many_descriptors },
	{ "short_hello", bad_short_hello },
	{ "magic", bad_magic },
	{ "version", bad_version },
	{ "mute", bad_mute },
	{ "gone", bad_gone },
};

static const struct manners bad_openers[] = {
	{ "holds", bad_holds },
	{ "declines", bad_declines },
	{ "half_taken", bad_flags },
	{ "half_taken_and_goes", bad_flags_and_goes },
	{ "answer", bad_answer },
};

/* --- attacks --- */

static struct seg_side *me(struct foe *f) { return &f->seg->side[f->side]; }
static struct seg_side *victim(struct foe *f)
{
	return &f->seg->side[!f->side];
}

static uint8_t *ring(struct foe *f)
{
	return seg_ring(f->seg, f->side, f->ring);
}

static void header_put(struct foe *f, uint32_t off, uint64_t hdr)
{
	store_rel(ring_hdr_at(ring(f), off % (f->ring - 8)), hdr);
}

/* As an honest producer would, if there is room. */
static void record(struct foe *f, uint32_t len)
{
	uint32_t next_off = f->head + ring_record_bytes(len);

	if (next_off + RING_RESERVE > f->ring)
		return;
	header_put(f, next_off, 0);
	header_put(f, f->head, ring_hdr(RING_DATA, len));
	f->head = next_off;
}

static void bell(struct foe *f)
{
	uint32_t slot = load_rlx(&victim(f)->slot);

	if (slot >> 16 < INBOX_LANES && (slot & 0xffff) < LANE_SLOTS && f->in) {
		struct lane *l = &f->in->lane[slot >> 16];
		uint32_t bit = slot & 0xffff;

		store_rlx(&l->ticket, f->head * 0x9e3779b9u);
		store_rlx(&l->log[f->head % LANE_LOG], (uint16_t)~bit);
		store_rlx(&l->behind, (uint64_t)f->head << 24);
		fetch_or(&l->bits[bit / 64], UINT64_C(1) << bit % 64);
		fetch_or(&l->summary[bit / 4096], UINT64_C(1) << bit / 64 % 64);
	}
	fetch_add(&me(f)->bells, 1);
	send(f->tcp, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A number near where mistakes are made. */
static uint32_t nasty(struct foe *f)
{
	const uint32_t some[] = { 0,
				  1,
				  63,
				  64,
				  65,
				  f->head,
				  f->head + 64,
				  f->ring - 64,
				  f->ring - 8,
				  f->ring,
				  f->ring + 64,
				  RING_CHUNK,
				  RING_CHUNK + 1,
				  INT32_MAX,
				  (uint32_t)INT32_MAX + 1,
				  UINT32_MAX - 63,
				  UINT32_MAX };

	if (below(f, 3) == 0)
		return (uint32_t)next(f);
	if (below(f, 3) == 0)
		return below(f, f->ring / 64) * 64;
	return some[below(f, COUNT(some))];
}

static void attack_headers(struct foe *f)
{
	header_put(f, f->head, (uint64_t)below(f, 8) << 32 | nasty(f));
	if (below(f, 4) == 0)
		header_put(f, f->head, next(f));
	bell(f);
}

static void attack_long(struct foe *f)
{
	const uint32_t lens[] = { f->ring - f->head, RING_CHUNK + 1, f->ring,
				  UINT32_MAX, UINT32_MAX - 127 };

	if (below(f, 2))
		f->head = f->ring - 64 * (1 + below(f, 8));
	header_put(f, 0, ring_hdr(RING_SKIP, f->head));
	header_put(f, f->head,
		   ring_hdr(RING_DATA, lens[below(f, COUNT(lens))]));
	bell(f);
}

/* Round and round: SKIP to the next line, all along, and WRAP at the end. */
static void attack_loop(struct foe *f)
{
	uint32_t step = 64 * (1 + below(f, 16)), off;

	for (off = 0; off + 2 * step < f->ring; off += step)
		header_put(f, off, ring_hdr(RING_SKIP, off + step));
	header_put(f, off, ring_hdr(RING_WRAP, 0));
	header_put(f, f->head, ring_hdr(RING_WRAP, 0));
	bell(f);
}

static void attack_tail(struct foe *f)
{
	store_rel(&me(f)->tail, nasty(f));
	fetch_or(&me(f)->flags, SEG_TX_RING);
	bell(f);
}

static void attack_tcp_bytes(struct foe *f)
{
	static const uint64_t some[] = { 1,          1000,       INT32_MAX,
					 1ull << 31, 1ull << 32, INT64_MAX,
					 UINT64_MAX };

	me(f)->tcp_bytes = some[below(f, COUNT(some))];
	fetch_or(&me(f)->flags, SEG_TX_RING);
	if (below(f, 2))
		send(f->tcp, "abcdefgh", below(f, 9),
		     MSG_DONTWAIT | MSG_NOSIGNAL);
	bell(f);
	if (below(f, 4) == 0)
		fetch_and(&me(f)->flags, ~(uint32_t)SEG_TX_RING);
}

static void attack_flags(struct foe *f)
{
	store_rel(&me(f)->flags, (uint32_t)next(f) & below(f, 256));
	if (below(f, 4) == 0)
		store_rel(&victim(f)->flags, (uint32_t)next(f));
	bell(f);
}

static void attack_slots(struct foe *f)
{
	store_rel(&me(f)->slot, nasty(f));
	store_rel(&victim(f)->slot, nasty(f));
	me(f)->rx_inbox = me(f)->tx_inbox = 1;
	me(f)->rx_anchor = me(f)->tx_anchor = below(f, 2);
	record(f, 1 + below(f, 300));
	bell(f);
}

static void attack_bells(struct foe *f)
{
	static const uint32_t some[] = { 1u << 31, (1u << 31) - 1, UINT32_MAX,
					 1, 0 };

	bell(f);
	store_rel(&me(f)->bells, some[below(f, COUNT(some))]);
	record(f, 1 + below(f, 3000));
	if (below(f, 8) == 0)
		header_put(f, f->head, ring_hdr(RING_BACK, 0));
}

static void scribble(struct foe *f, void *at, size_t bytes, unsigned n)
{
	uint32_t *words = at;

	while (n--) {
		uint32_t what = below(f, 2) ? nasty(f) : (uint32_t)next(f);

		store_rlx(&words[below(f, (uint32_t)(bytes / 4))], what);
	}
}

static void attack_scribble(struct foe *f)
{
	scribble(f, f->seg->side, sizeof(f->seg->side), 20);
	if (below(f, 4) == 0)
		scribble(f, f->seg, seg_bytes(f->ring), 2000);
	header_put(f, f->head, (uint64_t)below(f, 7) << 32 | nasty(f));
	bell(f);
}

/* The lanes that are in use are the first. */
static void attack_inbox(struct foe *f)
{
	struct lane *l = &f->in->lane[below(f, 2)];
	static const uint64_t zeros[8];

	store_rlx(&l->sleeping, below(f, 4) == 0);
	scribble(f, l->summary, sizeof(l->summary), 2);
	if (below(f, 2))
		memcpy(l->bits, zeros, sizeof(zeros));
	scribble(f, l->bits, sizeof(l->bits), 10);
	scribble(f, f->in, 64, 2); /* its magic, its name */
	if (below(f, 4) == 0)
		scribble(f, f->in, sizeof(*f->in), 2000);
	record(f, 1 + below(f, 300));
	bell(f);
}

/* Counts doorbells that never come, and ends the stream. */
static void attack_owes(struct foe *f)
{
	fetch_add(&me(f)->bells, 5000);
	record(f, 1 + below(f, 300));
	if (below(f, 2)) {
		header_put(f, f->head, ring_hdr(RING_FIN, 0));
		fetch_or(&me(f)->flags, SEG_TX_FIN);
	}
	bell(f);
}

/* Says that a gigabyte of TCP comes before the ring, and sends a byte now and then. */
static void attack_drip(struct foe *f)
{
	record(f, 1 + below(f, 300));
	me(f)->tcp_bytes = 1u << 30;
	fetch_or(&me(f)->flags, SEG_TX_RING);
	send(f->tcp, "d", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	usleep(below(f, 2000));
}

/* Has stopped reading, and does not say where; or says so, and lies. */
static void attack_recall(struct foe *f)
{
	record(f, 1 + below(f, 300));
	fetch_or(&me(f)->flags, SEG_FALLBACK | SEG_WANT_BACK);
	bell(f);
	usleep(below(f, 3000));
	if (below(f, 4) == 0) {
		me(f)->cut = below(f, 2) ? SEG_CUT_IS : nasty(f);
		f->seg->first_back = below(f, 3);
		fetch_or(&me(f)->flags, SEG_SETTLED);
	}
}

/* Nothing: the rendezvous alone was the attack. */
static void attack_none(struct foe *f)
{
	record(f, 1 + below(f, 300));
	bell(f);
}

static const struct manners attacks[] = {
	{ "headers", attack_headers },     { "long", attack_long },
	{ "loop", attack_loop },           { "tail", attack_tail },
	{ "tcp_bytes", attack_tcp_bytes }, { "flags", attack_flags },
	{ "slots", attack_slots },         { "bells", attack_bells },
	{ "scribble", attack_scribble },   { "owes", attack_owes },
	{ "drip", attack_drip },           { "recall", attack_recall },
	{ "inbox", attack_inbox },         { "stolen_name", attack_none },
	{ "odd_fds", attack_none },
};
#define N_FOR_ANY 12 /* those of above that stay within the segment */

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

	for (size_t i = 0; i < COUNT(attacks); i++)
		if (!strcmp(name, attacks[i].name))
			m = &attacks[i];
	if (m->behave != attack_tcp_bytes && m->behave != attack_drip)
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
	const struct manners *list = as_opener ? bad_openers : bad_acceptors;
	size_t n = as_opener ? COUNT(bad_openers) : COUNT(bad_acceptors);
	struct foe f = { .tcp = -1, .channel = -1, .rng = seed };

	for (size_t i = 0; i < n; i++) {
		if (strcmp(list[i].name, name))
			continue;
		own_inbox(&f);
		if (as_opener && !channel_as_opener(&f, port))
			give_up("no segment");
		if (!as_opener)
			f.tcp = accept(listener, NULL, NULL);
		list[i].behave(&f);
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
	alarm(20);
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
