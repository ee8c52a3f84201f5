/* SPDX-License-Identifier: MIT */
/*
 * tests/port/frames.c - frames through a packet port, with the kernel at the other end
 *
 * Each test runs over IPv4 and IPv6.  What is promised: a flow's frames reach the port
 * and not the kernel, all other frames reach the kernel and not the port, large frames
 * arrive whole and leave whole, and nothing stays steered after the grant's end.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/drop.h"
#include "ip/checksum.h"
#include "ip/ip.h"
#include "osfd/steer.h"
#include "unit.h"
#include "world.h"

#define MTU 1500
#define BULK 400000

static struct world world;
static const struct steer_flow copied = { STEER_COPY, 0 };

struct grant {
	struct steer steer;
	struct packet_port port;
};

static void grant_open(struct grant *g)
{
	struct packet_ring ring = packet_ring_for(MTU);

	world_enter(&world, HERE);
	assert_int_equal(steer_open(&g->steer, world.ifindex[HERE], 16), 0);
	int fd = packet_socket(world.ifindex[HERE], &ring, g->steer.filter_fd);
	assert_true(fd >= 0);
	assert_int_equal(packet_open(&g->port, fd, &ring), 0);
}

static void grant_close(struct grant *g)
{
	packet_close(&g->port);
	steer_close(&g->steer);
}

static struct steer_key key_of_pair(const struct pair *p)
{
	struct steer_key k;

	assert_int_equal(steer_key_of(&p->local, &p->peer, &k), 0);
	return k;
}

/* The payload of a frame: of IP's length, not of the frame's, which may be padded. */
static uint32_t payload_of(const struct packet_frame *f, bool is_v6,
			   const uint8_t **at)
{
	const uint8_t *tcp = f->data + tcp_at(is_v6);
	uint32_t head = (uint32_t)(tcp[12] >> 4) * 4;
	uint32_t ip =
	    is_v6 ? load_be16(f->data + 18) : load_be16(f->data + 16) - 20u;

	*at = tcp + head;
	return ip - head;
}

/* A client THERE that connects to a closed port HERE, without waiting. */
static int knock(bool is_v6, uint16_t from, uint16_t to)
{
	struct sockaddr_storage src = world_addr(THERE, is_v6, from),
				dst = world_addr(HERE, is_v6, to);
	int one = 1;

	world_enter(&world, THERE);
	int fd = socket(src.ss_family,
			SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	world_enter(&world, HERE);
	assert_true(fd >= 0);
	assert_int_equal(
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	assert_int_equal(bind(fd, (void *)&src, addr_len(&src)), 0);
	assert_int_equal(connect(fd, (void *)&dst, addr_len(&dst)), -1);
	return fd;
}

/* What became of it: ECONNREFUSED when the kernel HERE has answered, else 0. */
static int answer_to(int fd, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };
	int err = 0;
	socklen_t len = sizeof(err);

	poll(&pfd, 1, timeout_ms);
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
	return err;
}

static void steer_one(struct grant *g, bool is_v6, enum steer_mode mode)
{
	struct sockaddr_storage local = world_addr(HERE, is_v6, 81),
				peer = world_addr(THERE, is_v6, 4001);
	struct steer_key k;

	assert_int_equal(steer_key_of(&local, &peer, &k), 0);
	assert_int_equal(
	    steer_set(&g->steer, &k, &(struct steer_flow){ mode, 0 }), 0);
}

static void only_the_flow_goes_to_the_port(bool is_v6)
{
	struct grant g;
	struct packet_frame f;
	uint64_t counts[STEER_N_COUNTS];

	grant_open(&g);
	steer_one(&g, is_v6, STEER_OURS);
	int ours = knock(is_v6, 4001, 81);
	assert_true(port_wait(&g.port, &f));
	assert_int_equal(f.data[tcp_at(is_v6) + 13] & 0x3f, 0x02);
	packet_rx_done(&g.port);

	/* The kernel answers this one, and would have answered the other before. */
	int other = knock(is_v6, 4002, 81);
	assert_int_equal(answer_to(other, 5000), ECONNREFUSED);
	assert_int_equal(answer_to(ours, 0), 0);
	steer_counts(&g.steer, counts);
	assert_true(counts[STEER_N_SEGMENTS] >= 1);
	assert_int_equal(counts[STEER_N_ERRORS], 0);
	while (packet_rx(&g.port, &f)) { /* no more than SYNs sent again */
		assert_int_equal(f.data[tcp_at(is_v6) + 1], 4001 & 0xff);
		packet_rx_done(&g.port);
	}
	close(other);
	close(ours);
	grant_close(&g);
}

static void a_copied_flow_stays_the_kernels_too(bool is_v6)
{
	struct grant g;
	struct packet_frame f;

	grant_open(&g);
	steer_one(&g, is_v6, STEER_COPY);
	int fd = knock(is_v6, 4001, 81);
	assert_int_equal(answer_to(fd, 5000), ECONNREFUSED);
	assert_true(port_wait(&g.port, &f));
	packet_rx_done(&g.port);
	close(fd);
	grant_close(&g);
}

static void after_the_grant_the_kernel_answers(bool is_v6)
{
	struct grant g;

	grant_open(&g);
	steer_one(&g, is_v6, STEER_OURS);
	grant_close(&g);
	int fd = knock(is_v6, 4001, 81);
	assert_int_equal(answer_to(fd, 5000), ECONNREFUSED);
	close(fd);
}

/* Two grants of one device: each gets its own, and the end of one is not the other's. */
static void two_programs_share_a_device(bool is_v6)
{
	struct grant a, b;
	struct packet_frame f;

	grant_open(&a);
	grant_open(&b);
	steer_one(&a, is_v6, STEER_OURS);
	grant_close(&b);
	grant_open(&b);
	int fd = knock(is_v6, 4001, 81);
	assert_true(port_wait(&a.port, &f));
	packet_rx_done(&a.port);
	assert_false(packet_rx(&b.port, &f));
	assert_int_equal(answer_to(fd, 0), 0);
	close(fd);
	grant_close(&b);
	grant_close(&a);
}

/* Other threads look at the ring without a lock: its memory stays where it is. */
static void a_ring_takes_the_place_of_another(bool is_v6)
{
	struct grant g, by;
	struct packet_frame f;

	grant_open(&g);
	grant_open(&by);
	int was = g.port.fd;
	const volatile uint8_t *at = g.port.map;
	packet_replace(&g.port, &by.port);
	assert_ptr_equal(g.port.map, at);
	assert_false(packet_has_come(&g.port));
	steer_one(&by, is_v6, STEER_OURS);
	int fd = knock(is_v6, 4001, 81);
	assert_true(port_wait(&g.port, &f));
	packet_rx_done(&g.port);
	close(fd);
	close(was);

	/* A ring of another size. */
	struct packet_ring small = packet_ring_for(MTU);
	struct packet_port other;

	small.n_slots = PACKET_SLOTS_MIN;
	was = g.port.fd;
	world_enter(&world, HERE);
	fd = packet_socket(world.ifindex[HERE], &small, by.steer.filter_fd);
	assert_int_equal(packet_open(&other, fd, &small), 0);
	packet_replace(&g.port, &other);
	assert_ptr_not_equal(g.port.map, at);
	assert_int_equal(*at, 0);
	fd = knock(is_v6, 4001, 81);
	assert_true(port_wait(&g.port, &f));
	packet_rx_done(&g.port);
	close(fd);
	close(was);
	by.port = PACKET_NONE;
	grant_close(&by);
	grant_close(&g);
}

/* Nothing is told to end: the process is killed, and the kernel closes what it had. */
static void after_a_kill_the_kernel_answers(bool is_v6)
{
	struct grant g;
	int ready[2];
	char c;

	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	if (pid == 0) {
		grant_open(&g);
		steer_one(&g, is_v6, STEER_OURS);
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(ready[0]);
	int fd = knock(is_v6, 4001, 81);
	assert_int_equal(answer_to(fd, 5000), ECONNREFUSED);
	close(fd);
}

/* Reads what the port has of a stream: bytes in order, and how large frames were. */
static size_t collect(struct grant *g, bool is_v6, uint32_t first_seq,
		      uint8_t *got, uint32_t *largest)
{
	struct packet_frame f;
	const uint8_t *data;
	size_t have = 0;

	while (have < BULK && port_wait(&g->port, &f)) {
		uint32_t len = payload_of(&f, is_v6, &data);
		uint32_t off =
		    load_be32(f.data + tcp_at(is_v6) + 4) - first_seq;

		if (len && off == have && off + len <= BULK) {
			if (f.len > MTU + 14)
				assert_true(f.offload.gso_size > 500 &&
					    f.offload.gso_size < MTU);
			/* veth leaves the sum to hardware that is not there */
			assert_true(f.offload.needs_csum);
			assert_int_equal(f.offload.csum_start, tcp_at(is_v6));
			assert_int_equal(f.offload.csum_off, 16);
			memcpy(got + have, data, len);
			have += len;
			*largest = MAX(*largest, f.len);
		}
		packet_rx_done(&g->port);
	}
	return have;
}

static uint32_t seq_of(struct grant *g, bool is_v6, struct pair *p)
{
	struct packet_frame f;
	uint8_t byte = 0;

	assert_int_equal(send(p->end[THERE], &byte, 1, 0), 1);
	assert_true(port_wait(&g->port, &f));
	uint32_t seq = load_be32(f.data + tcp_at(is_v6) + 4);
	packet_rx_done(&g->port);
	assert_int_equal(recv(p->end[HERE], &byte, 1, 0), 1);
	return seq + 1;
}

/* All of a stream that THERE sends, of which the kernel has a copy. */
static void bulk_arrives(bool is_v6, void (*meanwhile)(struct pair *p))
{
	struct grant g;
	struct pair p;
	uint32_t largest = 0;
	uint8_t *sent = malloc(BULK), *got = malloc(BULK);
	int size = 2 * BULK;

	grant_open(&g);
	pair_open(&world, is_v6, HERE, &p);
	struct steer_key k = key_of_pair(&p);
	assert_int_equal(steer_set(&g.steer, &k, &copied), 0);
	uint32_t seq = seq_of(&g, is_v6, &p);

	stream_fill(sent, 0, BULK);
	setsockopt(p.end[HERE], SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(p.end[THERE], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	fcntl(p.end[THERE], F_SETFL, O_NONBLOCK);
	assert_int_equal(send(p.end[THERE], sent, BULK, 0), BULK);
	meanwhile(&p);
	assert_int_equal(collect(&g, is_v6, seq, got, &largest), BULK);
	assert_int_equal(stream_differs(got, 0, BULK), BULK);
	print_message("largest frame %u bytes\n", largest);
	assert_true(largest > 2 * MTU);
	free(sent);
	free(got);
	pair_close(&p);
	grant_close(&g);
}

static void nothing(struct pair *p) {}

static void large_frames_arrive_whole(bool is_v6)
{
	bulk_arrives(is_v6, nothing);
}

/* When the kernel has all bytes, the port has all frames. */
static void device_goes(struct pair *p)
{
	static uint8_t got[BULK];

	assert_int_equal(recv(p->end[HERE], got, BULK, MSG_WAITALL), BULK);
	must_run("ip link set va down && ip link set va up && "
		 "ip addr replace fd09::1/64 dev va nodad");
}

/* The device leaves an error at the socket, which is no frame. */
static void large_frames_outlive_a_device_that_goes(void **state)
{
	bulk_arrives(false, device_goes);
}

#define TRIES 100
#define TX_BYTES (3 * 1400 + 100)

/* The headers of the segment that the kernel would send next.  The port's kernel fills
 * in the checksum of TCP and cuts the frame. */
static uint32_t forge_head(uint8_t *h, const uint8_t *like, bool is_v6)
{
	struct sockaddr_storage us = world_addr(HERE, is_v6, 0),
				peer = world_addr(THERE, is_v6, 0);
	uint32_t at = tcp_at(is_v6), l4 = 20 + TX_BYTES;
	struct steer_key k;
	struct ip_addr src, dst;

	assert_int_equal(steer_key_of(&us, &peer, &k), 0);
	memcpy(src.b, k.local, 16);
	memcpy(dst.b, k.peer, 16);
	memcpy(h, like, at + 20);
	ip_build(h + 14, &src, &dst, IP_PROTO_TCP, 0, l4);
	h[at + 12] = 5 << 4; /* no options */
	h[at + 13] = 0x18;   /* PSH, ACK */
	struct cksum sum = ip_pseudo_sum(&src, &dst, IP_PROTO_TCP, l4);
	store_be16(h + at + 16, (uint16_t)~cksum_end(&sum));
	return at + 20;
}

/* A grant THERE shows a segment that the kernel HERE has sent; the port sends what the
 * kernel's next segment would be. */
static void large_frames_leave_whole(bool is_v6)
{
	struct grant g, there;
	struct packet_ring ring = packet_ring_for(MTU);
	struct packet_frame f;
	struct pair p;
	struct steer_key k;
	uint8_t head[128], data[TX_BYTES], got[TX_BYTES];

	grant_open(&g);
	pair_open(&world, is_v6, HERE, &p);
	world_enter(&world, THERE);
	assert_int_equal(steer_open(&there.steer, world.ifindex[THERE], 1), 0);
	int fd =
	    packet_socket(world.ifindex[THERE], &ring, there.steer.filter_fd);
	assert_int_equal(packet_open(&there.port, fd, &ring), 0);
	world_enter(&world, HERE);
	assert_int_equal(steer_key_of(&p.peer, &p.local, &k), 0);
	assert_int_equal(steer_set(&there.steer, &k, &copied), 0);
	assert_int_equal(send(p.end[HERE], "x", 1, 0), 1);
	assert_int_equal(recv(p.end[THERE], data, 1, 0), 1);
	assert_true(port_wait(&there.port, &f));

	uint32_t n = forge_head(head, f.data, is_v6);
	store_be32(head + tcp_at(is_v6) + 4,
		   load_be32(head + tcp_at(is_v6) + 4) + 1);
	packet_rx_done(&there.port);
	stream_fill(data, 0, TX_BYTES);
	struct iovec iov[2] = { { head, n }, { data, TX_BYTES } };
	struct packet_offload o = {
		.gso_size = 1400,
		.is_v6 = is_v6,
		.needs_csum = true,
		.head_len = (uint16_t)n,
		.csum_start = (uint16_t)tcp_at(is_v6),
		.csum_off = 16,
	};
	int err = -EAGAIN;
	for (int i = 0; i < TRIES && err == -EAGAIN; i++)
		err = packet_tx(&g.port, iov, 2, &o);
	assert_int_equal(err, 0);
	assert_int_equal(recv(p.end[THERE], got, TX_BYTES, MSG_WAITALL),
			 TX_BYTES);
	assert_int_equal(stream_differs(got, 0, TX_BYTES), TX_BYTES);
	grant_close(&there);
	pair_close(&p);
	grant_close(&g);
}

/* "Too large", quoting a segment of the flow, from a router THERE. */
static void errors_about_the_flow_go_to_the_port(bool is_v6)
{
	uint8_t icmp[8 + 40 + 8] = { 0 };
	struct sockaddr_storage to = world_addr(HERE, is_v6, 0);
	struct sockaddr_storage us = world_addr(HERE, is_v6, 81),
				peer = world_addr(THERE, is_v6, 4001);
	uint32_t head = is_v6 ? 40 : 20;
	struct steer_key k;
	struct packet_frame f;
	struct grant g;

	grant_open(&g);
	steer_one(&g, is_v6, STEER_OURS);
	assert_int_equal(steer_key_of(&us, &peer, &k), 0);
	icmp[0] = is_v6 ? 2 : 3;
	icmp[1] = is_v6 ? 0 : 4;
	uint8_t *ip = icmp + 8, *tcp = ip + head;
	ip[0] = is_v6 ? 0x60 : 0x45;
	ip[is_v6 ? 6 : 9] = IPPROTO_TCP;
	memcpy(ip + (is_v6 ? 8 : 12), is_v6 ? k.local : k.local + 12,
	       is_v6 ? 16 : 4);
	memcpy(ip + (is_v6 ? 24 : 16), is_v6 ? k.peer : k.peer + 12,
	       is_v6 ? 16 : 4);
	memcpy(tcp, &k.local_port, 2);
	memcpy(tcp + 2, &k.peer_port, 2);
	world_enter(&world, THERE);
	int fd = socket(to.ss_family, SOCK_RAW | SOCK_CLOEXEC,
			is_v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);
	world_enter(&world, HERE);
	assert_true(fd >= 0);
	assert_true(
	    sendto(fd, icmp, 8 + head + 8, 0, (void *)&to, addr_len(&to)) > 0);
	assert_true(port_wait(&g.port, &f));
	assert_int_equal(f.data[is_v6 ? 20 : 23],
			 is_v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);
	packet_rx_done(&g.port);
	uint64_t counts[STEER_N_COUNTS];
	steer_counts(&g.steer, counts);
	assert_int_equal(counts[STEER_N_ERRORS], 1);
	close(fd);
	grant_close(&g);
}

/* A segment THERE, on its way HERE: with options, or with two extension headers that do
 * nothing. */
static void send_strange(bool is_v6)
{
	static const uint8_t nops[] = { 1, 1, 1, 1 },
			     padded[] = { 0, 0, 1, 4, 0, 0, 0, 0 };
	struct sockaddr_storage to = world_addr(HERE, is_v6, 0);
	uint8_t seg[20] = { [12] = 5 << 4, [13] = 0x10 };

	store_be16(seg, 4001);
	store_be16(seg + 2, 81);
	world_enter(&world, THERE);
	int fd = socket(to.ss_family, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_TCP);
	world_enter(&world, HERE);
	assert_true(fd >= 0);
	int err =
	    is_v6 ? setsockopt(fd, IPPROTO_IPV6, IPV6_HOPOPTS, padded,
			       sizeof(padded)) ||
			setsockopt(fd, IPPROTO_IPV6, IPV6_DSTOPTS, padded,
				   sizeof(padded))
		  : setsockopt(fd, IPPROTO_IP, IP_OPTIONS, nops, sizeof(nops));
	assert_int_equal(err, 0);
	assert_int_equal(
	    sendto(fd, seg, sizeof(seg), 0, (void *)&to, addr_len(&to)),
	    sizeof(seg));
	close(fd);
}

/* Sends a SYN THERE.  @vlan: of the tag in front of its IP header, 0 is none; negative: no
 * tag.  @fragment: of its IPv4 header */
static void send_odd(bool is_v6, int vlan, uint16_t fragment)
{
	struct sockaddr_storage here = world_addr(HERE, is_v6, 81),
				there = world_addr(THERE, is_v6, 4001);
	struct sockaddr_ll to = { .sll_family = AF_PACKET,
				  .sll_ifindex = world.ifindex[THERE] };
	uint8_t frame[100] = { 0 };
	struct steer_key k;
	struct ip_addr src, dst;
	uint32_t at = vlan < 0 ? 14 : 18;

	assert_int_equal(steer_key_of(&here, &there, &k), 0);
	memcpy(src.b, k.peer, 16);
	memcpy(dst.b, k.local, 16);
	memcpy(frame, world.mac[HERE], 6);
	memcpy(frame + 6, world.mac[THERE], 6);
	store_be16(frame + 12, 0x8100);
	store_be16(frame + 14, (uint16_t)(1 << 13 | vlan));
	store_be16(frame + at - 2, is_v6 ? 0x86dd : 0x0800);
	uint32_t l4 = at + ip_build(frame + at, &src, &dst, IPPROTO_TCP, 0, 24);
	if (fragment) {
		store_be16(frame + at + 6, fragment);
		store_be16(frame + at + 10, 0);
		store_be16(frame + at + 10, cksum_words(frame + at, 5));
	}
	memcpy(frame + l4, &k.peer_port, 2);
	memcpy(frame + l4 + 2, &k.local_port, 2);
	frame[l4 + 12] = 5 << 4;
	frame[l4 + 13] = 0x02;
	world_enter(&world, THERE);
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	world_enter(&world, HERE);
	assert_true(fd >= 0);
	assert_int_equal(sendto(fd, frame, l4 + 24, 0, (void *)&to, sizeof(to)),
			 l4 + 24);
	close(fd);
}

/* A tag that says a priority alone is no VLAN's: the kernel's TCP takes such a segment. */
static void a_priority_is_no_vlan(bool is_v6)
{
	struct packet_frame f;
	struct grant g;

	grant_open(&g);
	steer_one(&g, is_v6, STEER_OURS);
	send_odd(is_v6, 5, 0);
	send_odd(is_v6, 0, 0);
	assert_true(port_wait(&g.port, &f));
	assert_int_equal(load_be16(f.data + 12), is_v6 ? 0x86dd : 0x0800);
	packet_rx_done(&g.port);
	assert_false(packet_rx(&g.port, &f));
	grant_close(&g);
}

/* Later ones have no ports. */
static void a_first_fragment_is_shown(void **state)
{
	struct packet_frame f;
	struct ip_packet ip;
	struct grant g;

	grant_open(&g);
	steer_one(&g, false, STEER_OURS);
	send_odd(false, -1, 0x2003);
	send_odd(false, -1, 0x2000);
	assert_true(port_wait(&g.port, &f));
	assert_int_equal(ip_parse(f.data + 14, f.len - 14, &ip),
			 DROP(IP_FRAGMENT));
	assert_int_equal(ip.protocol, IPPROTO_TCP);
	packet_rx_done(&g.port);
	assert_false(packet_rx(&g.port, &f));
	grant_close(&g);
}

/* So that a program learns that its peer sends what the port cannot take. */
static void strange_segments_of_the_flow_are_shown(bool is_v6)
{
	struct packet_frame f;
	struct ip_packet ip;
	struct grant g;
	uint64_t counts[STEER_N_COUNTS];

	grant_open(&g);
	steer_one(&g, is_v6, STEER_OURS);
	send_strange(is_v6);
	assert_true(port_wait(&g.port, &f));
	assert_int_equal(ip_parse(f.data + 14, f.len - 14, &ip),
			 DROP(IP_OPTIONS));
	assert_int_equal(ip.protocol, IPPROTO_TCP);
	assert_int_equal(load_be16(f.data + 14 + ip.l4_off), 4001);
	packet_rx_done(&g.port);
	steer_counts(&g.steer, counts);
	assert_int_equal(counts[STEER_N_SEGMENTS], 0);
	grant_close(&g);
}

/* A test's name with each kind of address. */
#define BOTH(test)                                                             \
	static void test##_v4(void **state) { test(false); }                   \
	static void test##_v6(void **state) { test(true); }
BOTH(only_the_flow_goes_to_the_port)
BOTH(a_copied_flow_stays_the_kernels_too)
BOTH(after_the_grant_the_kernel_answers)
BOTH(two_programs_share_a_device)
BOTH(a_ring_takes_the_place_of_another)
BOTH(after_a_kill_the_kernel_answers)
BOTH(large_frames_arrive_whole)
BOTH(large_frames_leave_whole)
/* On a device that does not cut frames itself. */
static void large_frames_leave_without_offloads(bool is_v6)
{
	world_enter(&world, HERE);
	must_run("ethtool -K va tso off gso off tx off >/dev/null");
	large_frames_leave_whole(is_v6);
	must_run("ethtool -K va tx on gso on tso on >/dev/null");
}

BOTH(large_frames_leave_without_offloads)
BOTH(errors_about_the_flow_go_to_the_port)
BOTH(strange_segments_of_the_flow_are_shown)
BOTH(a_priority_is_no_vlan)
#define TWO(test) cmocka_unit_test(test##_v4), cmocka_unit_test(test##_v6)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TWO(only_the_flow_goes_to_the_port),
		TWO(a_copied_flow_stays_the_kernels_too),
		TWO(after_the_grant_the_kernel_answers),
		TWO(two_programs_share_a_device),
		TWO(a_ring_takes_the_place_of_another),
		TWO(after_a_kill_the_kernel_answers),
		TWO(large_frames_arrive_whole),
		TWO(large_frames_leave_whole),
		TWO(large_frames_leave_without_offloads),
		TWO(errors_about_the_flow_go_to_the_port),
		TWO(strange_segments_of_the_flow_are_shown),
		TWO(a_priority_is_no_vlan),
		cmocka_unit_test(a_first_fragment_is_shown),
		cmocka_unit_test(large_frames_outlive_a_device_that_goes),
	};

	world_open(&world);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
