/* SPDX-License-Identifier: MIT */
/*
 * port/packet/setup.c - makes the socket of a port, and maps it
 *
 *     osfd: packet_socket(): options, ring, filter, and only then the device
 *     program: packet_open(): the ring, from a descriptor that osfd has sent
 *
 * osfd binds the socket last.  Until then no frame reaches it, so every frame in the ring
 * has passed the filter.
 */
#include "port/packet/packet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/atomic.h"
#include "base/libc.h"
#include "base/nocancel.h"

#define SLOT_MIN 2048
#define SLOT_MAX (1 << 17)
#define BLOCK_BYTES (1 << 17) /* a slot never crosses a block */
/* A slot's own header, the address, alignment, virtio_net_hdr, Ethernet. */
#define SLOT_HEAD 128
/* How much kernel memory frames that are larger than a slot may hold. */
#define LARGE_BYTES (8 << 20)

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

struct packet_ring packet_ring_for(uint32_t mtu)
{
	struct packet_ring r = { .slot_bytes = SLOT_MIN,
				 .n_slots = PACKET_SLOTS_MAX };

	while (r.slot_bytes < mtu + SLOT_HEAD && r.slot_bytes < SLOT_MAX)
		r.slot_bytes *= 2;
	while (r.n_slots > PACKET_SLOTS_MIN &&
	       (uint64_t)r.n_slots * r.slot_bytes > PACKET_RING_BYTES)
		r.n_slots /= 2;
	return r;
}

static size_t ring_bytes(const struct packet_ring *r)
{
	return (size_t)r->slot_bytes * r->n_slots;
}

static int set(int fd, int level, int opt, int value)
{
	return setsockopt(fd, level, opt, &value, sizeof(value)) < 0 ? -errno
								     : 0;
}

/* The order matters: the kernel takes the version and the header before the ring. */
static int configure(int fd, const struct packet_ring *ring, int filter_fd)
{
	struct tpacket_req req = {
		.tp_block_size = BLOCK_BYTES,
		.tp_block_nr = (unsigned)((uint64_t)ring->slot_bytes *
					  ring->n_slots / BLOCK_BYTES),
		.tp_frame_size = ring->slot_bytes,
		.tp_frame_nr = ring->n_slots,
	};
	int err = set(fd, SOL_PACKET, PACKET_VERSION, TPACKET_V2);

	if (!err)
		err = set(fd, SOL_PACKET, PACKET_VNET_HDR, 1);
	if (!err)
		err = set(fd, SOL_PACKET, PACKET_QDISC_BYPASS, 1);
	if (!err)
		err = set(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
	if (!err)
		err = set(fd, SOL_PACKET, PACKET_COPY_THRESH, 1);
	if (!err)
		err = set(fd, SOL_SOCKET, SO_RCVBUFFORCE, LARGE_BYTES);
	if (!err)
		err = set(fd, SOL_SOCKET, SO_ATTACH_BPF, filter_fd);
	if (!err)
		err = set(fd, SOL_SOCKET, SO_LOCK_FILTER, 1);
	if (!err &&
	    setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)) < 0)
		err = -errno;
	return err;
}

int packet_socket(int ifindex, const struct packet_ring *ring, int filter_fd)
{
	struct sockaddr_ll to = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = ifindex,
	};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;

	int err = configure(fd, ring, filter_fd);
	if (!err && bind(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		err = -errno;
	if (err) {
		nocancel_close(fd);
		return err;
	}
	return fd;
}

/* An EtherType for experiments.  A frame that had it would not pass our filter. */
int packet_listen(int fd, int ifindex, bool is_on)
{
	struct sockaddr_ll to = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(is_on ? ETH_P_ALL : ETH_P_802_EX1),
		.sll_ifindex = ifindex,
	};

	return bind(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ? -errno : 0;
}

static bool is_power_of_2(uint32_t n) { return n && !(n & (n - 1)); }

static bool ring_is_sane(const struct packet_ring *r)
{
	return is_power_of_2(r->slot_bytes) && r->slot_bytes >= SLOT_MIN &&
	       r->slot_bytes <= SLOT_MAX && is_power_of_2(r->n_slots) &&
	       r->n_slots >= PACKET_SLOTS_MIN && r->n_slots <= PACKET_SLOTS_MAX;
}

int packet_open(struct packet_port *p, int fd, const struct packet_ring *ring)
{
	struct packet_port made = { .fd = fd, .ring = *ring };

	*p = PACKET_NONE;
	if (!ring_is_sane(ring)) {
		nocancel_close(fd);
		return -EINVAL;
	}
	made.large = malloc(PACKET_FRAME_MAX);
	made.map = mmap(NULL, ring_bytes(ring), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_POPULATE, fd, 0);
	if (!made.large || made.map == MAP_FAILED) {
		int err = made.large ? -errno : -ENOMEM;
		if (made.map == MAP_FAILED)
			made.map = NULL;
		packet_close(&made);
		return err;
	}
	/* A child that kept the mapping would keep the socket open. */
	madvise(made.map, ring_bytes(ring), MADV_DONTFORK);
	*p = made;
	return 0;
}

/*
 * A thread that asks packet_has_come() holds no lock, so memory has to stay where it looks.
 * A ring of the same size moves to the address of the old one.  A ring of another size has
 * an address of its own, and zeroes that nobody writes take the place of the old ring.
 */
void packet_replace(struct packet_port *p, const struct packet_port *by)
{
	struct packet_port now = *by;
	size_t bytes = ring_bytes(&p->ring);

	store_rlx(&p->next, 0u); /* lies in both rings */
	if (ring_bytes(&by->ring) == bytes &&
	    mremap(by->map, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
		   p->map) != MAP_FAILED)
		now.map = p->map;
	else
		mmap(p->map, bytes, PROT_READ,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
		     -1, 0);
	free(p->large);
	*p = now;
}

void packet_close(struct packet_port *p)
{
	if (p->map)
		munmap(p->map, ring_bytes(&p->ring));
	if (p->fd >= 0)
		nocancel_close(p->fd);
	free(p->large);
	*p = PACKET_NONE;
}
