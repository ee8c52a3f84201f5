/* SPDX-License-Identifier: MIT */
/* rdma/wire.c - see rdma/wire.h: the socket, and what it receives */
#include <errno.h>
#include <endian.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/libc.h"
#include "rdma/mcast.h"
#include "rdma/show.h"
#include "rdma/wire_in.h"

#define BUFFERS 8u
#define CM_QPN 1u
#define CM_QKEY 0x80010000u
#define BUFFER_BYTES 65536u
#define ROUNDS 4   /* batches of one call */
#define SMALL 512u /* bytes of packets */
#define THOROUGH_POLLS                                                         \
	64u /* that found nothing, from one full look to the next */
/* The program's polls look at the clock once in so many.  If the program polls less often
 * than POLLS_MANY times in a millisecond (wire_help.c), the thread looks at the clock
 * itself. */
#define TIME_POLLS 16u
/* Polls that find nothing: so long an acknowledgement waits for the program to answer. */
#define LATE_POLLS 4u
#define END_NS (100 * NS_PER_MS)
#define TRY_AGAIN_NS NS_PER_S /* to open the port */

#define WIRE_NONE                                                              \
	((struct wire){ .fd = -1,                                              \
			.mail = -1,                                            \
			.bell = -1,                                            \
			.group_set = -1,                                       \
			.bridge_fd = -1 })

struct wire wire = WIRE_NONE;
bool wire_is_open;
static struct qp *table[N_QPS];
static uint8_t *buffers;
/* Under rx_lock. */
static bool is_polled;     /* by the program, not by the thread */
static struct qp *late;    /* its acknowledgement waits */
static uint32_t n_waiting; /* polls since then */
/* More than one datagram may be there: the last poll found something, or the last datagrams
 * were larger than a short message and an acknowledgement. */
static bool was_found, was_large;

/* What recvmmsg() fills, under rx_lock. */
static struct {
	uint64_t now; /* when the batch came */
	struct sockaddr_storage from[BUFFERS];
	union {
		char bytes[128];
		struct cmsghdr aligned;
	} control[BUFFERS];
	struct mmsghdr msgs[BUFFERS];
	struct iovec iov[BUFFERS];
} rx;

static void prepare(int i)
{
	rx.iov[i] = (struct iovec){ buffers + i * BUFFER_BYTES, BUFFER_BYTES };
	rx.msgs[i].msg_hdr =
	    (struct msghdr){ .msg_name = &rx.from[i],
			     .msg_namelen = sizeof(rx.from[i]),
			     .msg_iov = &rx.iov[i],
			     .msg_iovlen = 1,
			     .msg_control = &rx.control[i],
			     .msg_controllen = sizeof(rx.control[i]) };
}

static bool make_buffers(void)
{
	if (!buffers)
		buffers = malloc((size_t)BUFFERS * BUFFER_BYTES);
	for (int i = 0; buffers && i < (int)BUFFERS; i++)
		prepare(i);
	return buffers != NULL;
}

/* OSF_RDMA_WIRE=0: this host alone. */
static bool is_unwanted(void)
{
	const char *value = secure_getenv("OSF_RDMA_WIRE");

	return value && !strcmp(value, "0");
}

/* The caller may hold a queue pair's lock.  That is no deadlock: until the port is open, no
 * thread that holds rx_lock takes the lock of a queue pair. */
int wire_open(void)
{
	static uint64_t failed_ns;

	if (load_acq(&wire_is_open))
		return 0;
	GUARD(&wire.rx_lock);
	if (wire.fd >= 0)
		return 0;
	if (failed_ns && now_ns() - failed_ns < TRY_AGAIN_NS)
		return -EADDRINUSE;
	if (is_unwanted())
		return -EPERM;
	failed_ns = now_ns();
	if (!make_buffers())
		return -ENOMEM;
	device_gid(0, NULL, &wire.ifindex);
	int err = wire_open_port();
	if (err)
		return err;
	wire_help();
	store_rel(&wire_is_open, true);
	return 0;
}

void wire_after_fork(void)
{
	wire_close_port();
	if (wire.bell >= 0)
		libc.close(wire.bell);
	if (wire.group_set >= 0)
		libc.close(wire.group_set);
	wire_group_after_fork();
	wire = WIRE_NONE;
	wire_is_open = false;
	late = NULL;
	memset(table, 0, sizeof(table));
}

/*
 * Addresses.
 */

static bool is_mapped(const uint8_t *raw)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(raw, mapped, sizeof(mapped));
}

bool wire_flow(const union ibv_gid *sgid, const union ibv_gid *dgid,
	       struct roce_flow *f)
{
	bool is_v4 = is_mapped(dgid->raw);

	if (is_mapped(sgid->raw) != is_v4 || (!is_v4 && !wire.is_v6))
		return false;
	*f = (struct roce_flow){ .is_v6 = !is_v4,
				 .src_port = ROCE_PORT,
				 .dst_port = ROCE_PORT };
	memcpy(f->src, sgid->raw + (is_v4 ? 12 : 0), is_v4 ? 4 : 16);
	memcpy(f->dst, dgid->raw + (is_v4 ? 12 : 0), is_v4 ? 4 : 16);
	return true;
}

void wire_gid(const struct roce_flow *f, const uint8_t *addr,
	      union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (!f->is_v6)
		gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + (f->is_v6 ? 0 : 12), addr, f->is_v6 ? 16 : 4);
}

socklen_t wire_sockaddr(const uint8_t *addr, bool is_v6,
			struct sockaddr_storage *ss)
{
	struct sockaddr_in *in = (void *)ss;
	struct sockaddr_in6 *in6 = (void *)ss;

	memset(ss, 0, sizeof(*ss));
	if (!wire.is_v6) {
		in->sin_family = AF_INET;
		in->sin_port = htons(ROCE_PORT);
		memcpy(&in->sin_addr, addr, 4);
		return sizeof(*in);
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(ROCE_PORT);
	if (!is_v6)
		in6->sin6_addr.s6_addr[10] = in6->sin6_addr.s6_addr[11] = 0xff;
	memcpy(in6->sin6_addr.s6_addr + (is_v6 ? 0 : 12), addr, is_v6 ? 16 : 4);
	if (is_v6 && (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ||
		      IN6_IS_ADDR_MC_LINKLOCAL(&in6->sin6_addr)))
		in6->sin6_scope_id = wire.ifindex;
	return sizeof(*in6);
}

/* Finds where a datagram came from, and which of our addresses it was sent to.  Another
 * process may have made the socket and set other options, so each option's message may be
 * missing. */
static bool flow_of(struct msghdr *msg, struct roce_flow *f, uint32_t *part)
{
	const struct sockaddr_in *in = msg->msg_name;
	const struct sockaddr_in6 *in6 = msg->msg_name;
	const uint8_t *to = NULL, *from;

	*f = (struct roce_flow){ .dst_port = ROCE_PORT };
	*part = BUFFER_BYTES;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO)
			memcpy(part, CMSG_DATA(c), sizeof(int));
		else if (wire.is_v6 && c->cmsg_level == IPPROTO_IPV6 &&
			 c->cmsg_type == IPV6_PKTINFO)
			to = ((struct in6_pktinfo *)(void *)CMSG_DATA(c))
				 ->ipi6_addr.s6_addr;
		else if (!wire.is_v6 && c->cmsg_level == IPPROTO_IP &&
			 c->cmsg_type == IP_PKTINFO)
			to =
			    (void *)&((struct in_pktinfo *)(void *)CMSG_DATA(c))
				->ipi_addr;
	}
	if (!to || !*part ||
	    in->sin_family != (wire.is_v6 ? AF_INET6 : AF_INET))
		return false;
	from = wire.is_v6 ? in6->sin6_addr.s6_addr : (void *)&in->sin_addr;
	f->src_port = ntohs(wire.is_v6 ? in6->sin6_port : in->sin_port);
	f->is_v6 = wire.is_v6 && !is_mapped(from);
	if (wire.is_v6 && !f->is_v6) {
		from += 12;
		to += 12;
	}
	memcpy(f->src, from, f->is_v6 ? 16 : 4);
	memcpy(f->dst, to, f->is_v6 ? 16 : 4);
	return true;
}

/*
 * What arrives.
 */

void wire_attach(struct qp *qp)
{
	store_rel(&table[qp->qp.qp_num % N_QPS], qp);
}

void wire_detach(struct qp *qp)
{
	if (load_rlx(&table[qp->qp.qp_num % N_QPS]) != qp)
		return;
	GUARD(&wire.rx_lock);
	store_rlx(&table[qp->qp.qp_num % N_QPS], NULL);
	if (late == qp)
		late = NULL;
}

/*
 * The end of a batch.  A program that polls may answer at once, and then the
 * acknowledgement and the answer leave in one system call, which costs as much as one
 * packet.  So the acknowledgement of one queue pair waits for the program's answer.
 */
static void end_batch(struct qp *qp)
{
	roce_qp_end(qp, is_polled && (!late || late == qp), rx.now);
	if (roce_qp_waits(qp)) {
		late = qp;
		n_waiting = 0;
	}
	lock_put(&qp->lock);
}

static void send_late(void)
{
	lock_get(&late->lock);
	roce_qp_late(late);
	lock_put(&late->lock);
	late = NULL;
	wire_flush();
}

/* The program may end without destroying its queue pairs.  It has got messages whose
 * acknowledgement we still keep back, and the peer waits for that, so send it now.  The
 * thread may be about to do so; wait for it, but not for long, because a signal handler may
 * call exit() while its own thread holds rx_lock. */
__attribute__((destructor)) static void end(void)
{
	uint64_t until = wire_is_open ? now_ns() + END_NS : 0;

	if (!until)
		return;
	while (!lock_try(&wire.rx_lock)) {
		if (now_ns() > until)
			return;
		sched_yield();
	}
	if (late)
		send_late();
	lock_put(&wire.rx_lock);
}

/* Packets for one queue pair follow each other: its lock is held meanwhile. */
static void change_to(struct qp **now, struct qp *qp)
{
	if (*now == qp)
		return;
	if (*now)
		end_batch(*now);
	*now = qp;
	if (qp)
		lock_get(&qp->lock);
}

static void give(struct qp **now, uint32_t qpn, const struct roce_flow *f,
		 const struct roce_head *h)
{
	struct qp *qp = load_acq(&table[qpn % N_QPS]);

	if (!qp || qp->qp.qp_num != qpn)
		return;
	change_to(now, qp);
	roce_qp_packet(qp, f, h, rx.now);
}

/* To each member of the group that it was sent to. */
static void give_members(struct qp **now, const struct roce_flow *f,
			 const struct roce_head *h)
{
	const struct x_dir *dir = self_current->dir;
	union ibv_gid gid;

	if (h->service != ROCE_UD)
		return;
	wire_gid(f, f->dst, &gid);
	for (uint32_t i = 0; i < N_MCASTS; i++) {
		uint32_t qpn = load_acq(&dir->mcast[i].qpn);

		if (qpn && !memcmp(dir->mcast[i].gid, gid.raw, sizeof(gid.raw)))
			give(now, qpn, f, h);
	}
}

/* @id: see icrc_matches(). */
static void take_packet(const struct roce_flow *f, const uint8_t *p, size_t n,
			uint16_t *id, struct qp **now)
{
	struct roce_head h;
	uint32_t crc;

	if (!roce_parse(p, n, &h))
		return;
	memcpy(&crc, p + n - ROCE_ICRC, sizeof(crc));
	if (!icrc_matches(f, p, n - ROCE_ICRC, le32toh(crc), id))
		return;
	if (show_is_wanted())
		show_packet(false, f, *id, p, n);
	if (h.dest_qpn == MCAST_QPN)
		give_members(now, f, &h);
	else
		give(now, h.dest_qpn, f, &h);
}

void wire_set_bridge(const struct wire_bridge *b, int fd)
{
	if (load_acq(&wire.bridge))
		return;
	wire.bridge_fd = fd;
	store_rel(&wire.bridge, b);
	wire_helper_wake();
}

/* A datagram for the connection manager, of this process or another one. */
static void take_mad(const struct wire_packets *m, bool is_first_hand)
{
	const struct wire_bridge *bridge = load_acq(&wire.bridge);
	enum wire_verdict verdict = WIRE_FOR_ALL;
	uint32_t crc, block = 0;
	uint16_t id = 0;
	struct roce_head h;

	if (!roce_parse(m->bytes, m->n, &h) || h.service != ROCE_UD ||
	    h.dest_qpn != CM_QPN || h.qkey != CM_QKEY)
		return;
	memcpy(&crc, m->bytes + m->n - ROCE_ICRC, sizeof(crc));
	if (!icrc_matches(&m->flow, m->bytes, m->n - ROCE_ICRC, le32toh(crc),
			  &id))
		return;
	if (show_is_wanted())
		show_packet(false, &m->flow, id, m->bytes, m->n);
	if (bridge)
		verdict = bridge->mad(&m->flow, h.payload, h.n_payload,
				      is_first_hand, &block);
	if (!is_first_hand)
		return;
	if (verdict == WIRE_FOR_BLOCK)
		wire_forward(m, block);
	else if (verdict == WIRE_FOR_ALL)
		wire_forward_all(m);
}

/* Whose is it?  The number's place is the same in all packets. */
static uint32_t block_of(const uint8_t *p, size_t n)
{
	return n < 8 ? 0 : (uint32_t)(p[5] << 8 | p[6]) >> (QPN_BITS - 8);
}

static void take_packets(const struct wire_packets *m, bool is_first_hand,
			 struct qp **now)
{
	uint16_t id = 0;

	/* The sender's kernel gives the packets of one call consecutive identifications,
	 * and our kernel joins only packets that follow each other. */
	for (size_t off = 0, n; off < m->n; off += n, id++) {
		n = MIN(m->n - off, (size_t)m->part);
		uint32_t block = block_of(m->bytes + off, n);

		if (block == self_current->block || block == MCAST_BLOCK) {
			take_packet(&m->flow, m->bytes + off, n, &id, now);
			continue;
		}
		if (!block) {
			const struct wire_packets one = { m->flow,
							  m->bytes + off, n,
							  (uint32_t)n };

			take_mad(&one, is_first_hand);
			continue;
		}
		while (off + n < m->n &&
		       block_of(m->bytes + off + n, m->n - off - n) == block)
			n += MIN(m->n - off - n, (size_t)m->part);
		const struct wire_packets rest = { m->flow, m->bytes + off, n,
						   m->part };
		if (is_first_hand)
			wire_forward(&rest, block);
	}
}

static void take_message(struct msghdr *msg, const uint8_t *p, size_t n,
			 struct qp **now)
{
	struct wire_packets m = { .bytes = p, .n = n };

	if (!(msg->msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
	    flow_of(msg, &m.flow, &m.part))
		take_packets(&m, true, now);
}

/* Caller holds rx_lock. */
static void receive_mail(void)
{
	struct wire_packets m;
	struct qp *now = NULL;

	rx.now = now_ns();
	for (int i = 0; i < ROUNDS; i++) {
		if (!wire_read_mail(buffers, BUFFER_BYTES, &m))
			break;
		if (m.n)
			take_packets(&m, false, &now);
	}
	change_to(&now, NULL);
	wire_flush();
}

/* Caller holds rx_lock.  How many datagrams there were. */
static int receive(int fd, int at_most)
{
	struct qp *now = NULL;
	int n = wire_recv(fd, rx.msgs, at_most);

	if (n <= 0)
		return n;
	rx.now = now_ns();
	was_large = n > 1 || rx.msgs[0].msg_len > SMALL;
	for (int i = 0; i < n; i++) {
		take_message(&rx.msgs[i].msg_hdr, rx.iov[i].iov_base,
			     rx.msgs[i].msg_len, &now);
		prepare(i);
	}
	change_to(&now, NULL);
	wire_flush();
	return n;
}

/* Caller holds rx_lock. */
static void receive_groups(void)
{
	struct epoll_event ev[BUFFERS];
	int n = wire.group_set < 0
		    ? 0
		    : libc.epoll_wait(wire.group_set, ev, BUFFERS, 0);

	for (int i = 0; i < n; i++)
		(void)receive(ev[i].data.fd, BUFFERS);
}

/*
 * Time.
 */

void wire_wake_at(uint64_t ns)
{
	uint64_t next = load_rlx(&wire.next_ns);

	if (next && next <= ns)
		return;
	store_rlx(&wire.next_ns, ns);
	fence_full(); /* against the thread, which looks before it sleeps */
	if (ns < load_rlx(&wire.sleeps_to))
		wire_helper_wake();
}

static void tick(uint64_t now)
{
	uint64_t next = 0;

	store_rlx(&wire.next_ns, 0);
	for (uint32_t i = 0; i < N_QPS; i++) {
		struct qp *qp = load_acq(&table[i]);

		if (!qp)
			continue;
		lock_get(&qp->lock);
		roce_qp_tick(qp, now);
		uint64_t at = roce_qp_deadline(qp);
		lock_put(&qp->lock);
		if (at && (!next || at < next))
			next = at;
	}
	wire_flush();
	uint64_t at = load_acq(&wire.bridge) ? wire.bridge->tick(now) : 0;
	if (at && (!next || at < next))
		next = at;
	if (next)
		wire_wake_at(next);
}

/* Caller holds rx_lock. */
static void look_around(void)
{
	(void)receive(wire.fds[0], BUFFERS);
	receive_groups();
	receive_mail();
	if (load_acq(&wire.bridge))
		wire.bridge->ready();
}

bool wire_progress(bool is_thread)
{
	int saved = errno, n = BUFFERS;

	if (wire.fd < 0)
		return true;
	if (!lock_try(&wire.rx_lock))
		return false;
	is_polled = !is_thread;
	store_rlx(&wire.n_polls, wire.n_polls + is_polled);
	if (is_thread || was_found || was_large)
		for (int i = 0; i < ROUNDS && n == BUFFERS; i++)
			n = receive(wire.fd, BUFFERS);
	else
		n = receive(wire.fd, 1);
	was_found = n > 0;
	wire.n_empty += n <= 0;
	if (late && (is_thread || (n <= 0 && ++n_waiting >= LATE_POLLS)))
		send_late();
	if (is_thread || (n <= 0 && wire.n_empty % THOROUGH_POLLS == 0))
		look_around();
	bool looks = is_thread || !load_rlx(&wire.has_helper) ||
		     wire.n_polls % TIME_POLLS == 0;
	uint64_t next = looks ? load_rlx(&wire.next_ns) : 0;
	uint64_t now = next ? now_ns() : 0;
	if (next && now >= next)
		tick(now);
	lock_put(&wire.rx_lock);
	errno = saved;
	return true;
}
