/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/peer_wire.c - the peers that use a device and osfd themselves
 *
 *     frame-echo <- frame-ask   a frame of 64 bytes there and back, no TCP
 *     echo       <- moves       a connection frozen and thawed by osfd, again and again
 *
 * The frames go the way that a port's frames go: out by send() past the queueing
 * discipline, in by a ring in shared memory, and both ends poll it.
 */
#include "osf.h"
#include "peer.h"
#include "wire.h"
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/atomic.h"
#include "osfd/client.h"

#define ETHER_TYPE 0x88b5 /* for experiments: nobody else receives it */
#define FRAME 64
#define SLOT 2048
#define N_SLOTS 64
#define AGAIN_NS 100000000ull /* a frame is sent again: nobody listened yet */
#define LOST_NS 10000000000ull
#define BETWEEN_LOOKS 65536

struct frames {
	int fd;
	uint8_t *ring;
	unsigned next;
};

static void frames_option(int fd, int name, const void *value, size_t len)
{
	if (setsockopt(fd, SOL_PACKET, name, value, (socklen_t)len) < 0)
		peer_die("packet socket");
}

static void frames_open(struct frames *f, const char *dev)
{
	struct tpacket_req req = { .tp_block_size = SLOT * N_SLOTS,
				   .tp_block_nr = 1,
				   .tp_frame_size = SLOT,
				   .tp_frame_nr = N_SLOTS };
	struct sockaddr_ll at = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETHER_TYPE),
				  .sll_ifindex = (int)if_nametoindex(dev) };
	int v2 = TPACKET_V2, on = 1;

	*f = (struct frames){ .fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC,
					   0) };
	if (f->fd < 0)
		peer_die("packet socket");
	frames_option(f->fd, PACKET_VERSION, &v2, sizeof(v2));
	frames_option(f->fd, PACKET_RX_RING, &req, sizeof(req));
	frames_option(f->fd, PACKET_QDISC_BYPASS, &on, sizeof(on));
	frames_option(f->fd, PACKET_IGNORE_OUTGOING, &on, sizeof(on));
	f->ring = mmap(NULL, SLOT * N_SLOTS, PROT_READ | PROT_WRITE, MAP_SHARED,
		       f->fd, 0);
	if (f->ring == MAP_FAILED ||
	    bind(f->fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		peer_die("packet socket");
}

static void frames_send(const struct frames *f)
{
	uint8_t frame[FRAME];

	memset(frame, 0xff, ETH_ALEN);
	memset(frame + ETH_ALEN, 0, sizeof(frame) - ETH_ALEN);
	frame[2 * ETH_ALEN] = ETHER_TYPE >> 8;
	frame[2 * ETH_ALEN + 1] = ETHER_TYPE & 0xff;
	if (send(f->fd, frame, sizeof(frame), 0) < 0)
		peer_die("send");
}

/* False: none has come by then. */
static bool frames_receive(struct frames *f, uint64_t until_ns)
{
	struct tpacket2_hdr *h =
	    (struct tpacket2_hdr *)(void *)(f->ring + f->next * SLOT);

	for (unsigned i = 1; !(load_acq(&h->tp_status) & TP_STATUS_USER); i++) {
		__builtin_ia32_pause();
		if (i % BETWEEN_LOOKS == 0 && now_ns() > until_ns)
			return false;
	}
	store_rel(&h->tp_status, (uint32_t)TP_STATUS_KERNEL);
	f->next = (f->next + 1) % N_SLOTS;
	return true;
}

int peer_frame_echo(int argc, char **args)
{
	struct frames f;

	frames_open(&f, args[0]);
	for (;;)
		if (frames_receive(&f, UINT64_MAX))
			frames_send(&f);
}

/* Frames that were sent before the other end listened are lost; no other one is. */
static void frames_begin(struct frames *f)
{
	uint64_t until_ns = now_ns() + LOST_NS;

	do {
		if (now_ns() > until_ns) {
			errno = ETIMEDOUT;
			peer_die("no frame comes back");
		}
		frames_send(f);
	} while (!frames_receive(f, now_ns() + AGAIN_NS));
}

int peer_frame_ask(int argc, char **args)
{
	struct frames f;
	struct times times;

	frames_open(&f, args[0]);
	times_init(&times);
	frames_begin(&f);
	uint64_t until_ns = now_ns() + (uint64_t)(atof(args[1]) * 1e9);
	uint64_t before = tick_now();
	while (now_ns() < until_ns && times.n < TIMES_MAX) {
		frames_send(&f);
		if (!frames_receive(&f, now_ns() + LOST_NS)) {
			errno = ETIMEDOUT;
			peer_die("a frame is lost");
		}
		uint64_t now = tick_now();
		times_add(&times, now - before);
		before = now;
	}
	printf("one_way_us %.4f\n", times_median_ns(&times) / 2000);
	times_fini(&times);
	return 0;
}

/*
 * Freeze and thaw.
 */

struct mover {
	int osfd, queue, fd; /* @queue: no bytes */
	uint32_t grant;
	struct times freezes, thaws;
};

static void mover_open(struct mover *m, const char *port)
{
	struct request r = { .port = { .dev = WIRE_CLIENT_DEVICE } };
	struct reply reply;
	int got[2];

	*m = (struct mover){ .osfd = osfd_connect(&reply),
			     .queue = memfd_create("bench", MFD_CLOEXEC),
			     .fd = peer_connect(port) };
	if (m->osfd < 0 || m->queue < 0)
		peer_die("osfd");
	if (osfd_call(m->osfd, MSG_OPEN, &r, NULL, 0, &reply, got) < 0)
		peer_die("a port");
	m->grant = reply.grant.grant;
	times_init(&m->freezes);
	times_init(&m->thaws);
}

/* There and back.  A connection that is not quiet yet stays. */
static void mover_move(struct mover *m)
{
	struct request r = { .freeze = { m->grant } };
	struct reply reply;
	uint64_t from = tick_now();
	int err = osfd_call(m->osfd, MSG_FREEZE, &r, &m->fd, 1, &reply, NULL);

	if (err == -EAGAIN)
		return;
	if (err) {
		errno = -err;
		peer_die("freeze");
	}
	uint64_t frozen = tick_now();
	r = (struct request){ .thaw = { .grant = m->grant,
					.state = reply.frozen } };
	int fds[2] = { m->fd, m->queue };
	err = osfd_call(m->osfd, MSG_THAW, &r, fds, 2, &reply, NULL);
	if (err) {
		errno = -err;
		peer_die("thaw");
	}
	times_add(&m->freezes, frozen - from);
	times_add(&m->thaws, tick_now() - frozen);
}

int peer_moves(int argc, char **args)
{
	uint64_t until_ns = now_ns() + (uint64_t)(atof(args[1]) * 1e9);
	struct mover m;

	mover_open(&m, args[0]);
	while (!m.thaws.n || (now_ns() < until_ns && m.thaws.n < TIMES_MAX)) {
		peer_ask(m.fd);
		mover_move(&m);
		if (now_ns() > until_ns + LOST_NS)
			peer_die("the connection is never quiet");
	}
	printf("freeze_us %.2f\n", times_median_ns(&m.freezes) / 1000);
	printf("thaw_us %.2f\n", times_median_ns(&m.thaws) / 1000);
	printf("moves %zu\n", m.thaws.n);
	close(m.fd);
	return 0;
}
