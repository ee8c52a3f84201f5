/* SPDX-License-Identifier: MIT */
/* tests/script/repair.c - a connection's state by TCP_REPAIR; see repair.h */
#include "repair.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define ESTABLISHED 1 /* tcpi_state */
#define CA_LOST 3     /* tcpi_ca_state: Recovery, and Loss behind it */
#define OPT_TS 1      /* tcpi_options */
#define OPT_SACK 2
#define OPT_WSCALE 4
#define OPT_ECN 8
/* Options of a SYN, by their number. */
#define KIND_MSS 2
#define KIND_WSCALE 3
#define KIND_SACK 4
#define KIND_TS 8
#define SSTHRESH_NONE 0x7fffffff

static int set(int fd, int name, const void *v, socklen_t len)
{
	return setsockopt(fd, IPPROTO_TCP, name, v, len) ? -errno : 0;
}

static int set_int(int fd, int name, int v)
{
	return set(fd, name, &v, sizeof(v));
}

static int get(int fd, int name, void *v, socklen_t len)
{
	return getsockopt(fd, IPPROTO_TCP, name, v, &len) ? -errno : 0;
}

/* Drops all that arrives, or nothing. */
static int deafen(int fd, bool is_on)
{
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog prog = { .len = 1, .filter = &drop };
	int r = setsockopt(fd, SOL_SOCKET,
			   is_on ? SO_ATTACH_FILTER : SO_DETACH_FILTER, &prog,
			   sizeof(prog));

	return r ? -errno : 0;
}

/* The number at the end of a queue.  From then on, calls mean that queue. */
static int end_of(int fd, int queue, seq32 *out)
{
	int err = set_int(fd, TCP_REPAIR_QUEUE, queue);

	return err ? err : get(fd, TCP_QUEUE_SEQ, &out->v, sizeof(out->v));
}

static int take_queue(int fd, int queue, seq32 *end, uint8_t *bytes, uint32_t n)
{
	int err = end_of(fd, queue, end);

	if (err)
		return err;
	if (n > REPAIR_BYTES)
		return -ENOBUFS;
	ssize_t got = n ? recv(fd, bytes, n, MSG_PEEK | MSG_DONTWAIT) : 0;
	return got < 0 ? -errno : got == (ssize_t)n ? 0 : -EIO;
}

static int take_queues(int fd, struct repaired *out)
{
	struct tcp_image *x = &out->x;
	int queued, unsent, unread, err;

	if (ioctl(fd, SIOCOUTQ, &queued) || ioctl(fd, SIOCOUTQNSD, &unsent) ||
	    ioctl(fd, SIOCINQ, &unread))
		return -errno;
	err = take_queue(fd, TCP_SEND_QUEUE, &x->snd_end, out->queued,
			 (uint32_t)queued);
	if (err)
		return err;
	x->n_unread = (uint32_t)unread;
	x->snd_una = seq_sub(x->snd_end, (uint32_t)queued);
	x->snd_nxt = seq_sub(x->snd_end, (uint32_t)unsent);
	return take_queue(fd, TCP_RECV_QUEUE, &x->rcv_nxt, out->unread,
			  x->n_unread);
}

static int take_window(int fd, struct tcp_image *x)
{
	struct tcp_repair_window w;
	int err = get(fd, TCP_REPAIR_WINDOW, &w, sizeof(w));

	if (err)
		return err;
	x->snd_wl1.v = w.snd_wl1;
	x->snd_wnd = w.snd_wnd;
	x->max_wnd = w.max_window;
	x->rcv_wnd = w.rcv_wnd;
	x->rcv_wup.v = w.rcv_wup;
	return 0;
}

static int take_info(int fd, struct tcp_image *x)
{
	struct tcp_info i = { 0 };
	int err = get(fd, TCP_INFO, &i, sizeof(i));

	if (err)
		return err;
	if (i.tcpi_state != ESTABLISHED)
		return -EINVAL;
	x->has_ts = i.tcpi_options & OPT_TS;
	x->has_sack = i.tcpi_options & OPT_SACK;
	x->has_wscale = i.tcpi_options & OPT_WSCALE;
	x->has_ecn = i.tcpi_options & OPT_ECN;
	x->snd_wscale = i.tcpi_snd_wscale;
	x->rcv_wscale = i.tcpi_rcv_wscale;
	x->cwnd = i.tcpi_snd_cwnd * i.tcpi_snd_mss;
	if (i.tcpi_snd_ssthresh < SSTHRESH_NONE)
		x->ssthresh = i.tcpi_snd_ssthresh * i.tcpi_snd_mss;
	x->is_lossy = i.tcpi_ca_state >= CA_LOST;
	x->snd_lost = x->is_lossy ? x->snd_una : x->snd_nxt;
	x->rtt_us = i.tcpi_rtt;
	x->rttvar_us = i.tcpi_rttvar;
	x->min_rtt_us = i.tcpi_min_rtt;
	x->rto_us = i.tcpi_rto >> (i.tcpi_backoff & 31);
	x->rcv_rtt_us = i.tcpi_rcv_rtt;
	x->rcv_mss = (uint16_t)i.tcpi_rcv_mss;
	x->path_mtu = (uint16_t)i.tcpi_pmtu;
	x->n_backoffs = i.tcpi_backoff;
	x->n_probes = i.tcpi_probes;
	x->tx_ms_ago = i.tcpi_last_data_sent;
	x->rx_ms_ago = i.tcpi_last_ack_recv;
	x->data_rx_ms_ago = i.tcpi_last_data_recv;
	x->bytes_acked = i.tcpi_bytes_acked;
	x->bytes_received = i.tcpi_bytes_received;
	return 0;
}

static void put_addr(const struct sockaddr_storage *a, struct ip_addr *ip,
		     uint16_t *port)
{
	const struct sockaddr_in6 *in6 = (const void *)a;
	const struct sockaddr_in *in = (const void *)a;

	if (a->ss_family == AF_INET6) {
		memcpy(ip->b, &in6->sin6_addr, 16);
		*port = ntohs(in6->sin6_port);
		return;
	}
	*ip = ip_addr_v4(ntohl(in->sin_addr.s_addr));
	*port = ntohs(in->sin_port);
}

static int take_names(int fd, struct tcp_image *x)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	int mss, err;

	if (getsockname(fd, (struct sockaddr *)&a, &len))
		return -errno;
	put_addr(&a, &x->laddr, &x->lport);
	len = sizeof(a);
	if (getpeername(fd, (struct sockaddr *)&a, &len))
		return -errno;
	put_addr(&a, &x->raddr, &x->rport);
	/* In repair mode, Linux returns mss_clamp. */
	err = get(fd, TCP_MAXSEG, &mss, sizeof(mss));
	x->mss_clamp = (uint16_t)mss;
	return err;
}

static int take_timestamp(int fd, struct tcp_image *x)
{
	uint32_t v;
	int err = get(fd, TCP_TIMESTAMP, &v, sizeof(v));

	if (!err && x->has_ts)
		tcp_image_set_timestamp(x, v);
	return err;
}

int repair_take(int fd, struct repaired *out)
{
	socklen_t len = sizeof(out->reuses_addr);
	int err = deafen(fd, true);

	out->x = (struct tcp_image){ 0 };
	getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &out->reuses_addr, &len);

	err = err ? err : set_int(fd, TCP_REPAIR, TCP_REPAIR_ON);
	err = err ? err : take_queues(fd, out);
	err = err ? err : take_window(fd, &out->x);
	err = err ? err : take_info(fd, &out->x);
	err = err ? err : take_names(fd, &out->x);
	return err ? err : take_timestamp(fd, &out->x);
}

int repair_undo(int fd)
{
	int err = set_int(fd, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);

	return err ? err : deafen(fd, false);
}

/* --- back --- */

static socklen_t make_addr(int family, const struct ip_addr *ip, uint16_t port,
			   struct sockaddr_storage *out)
{
	struct sockaddr_in6 *in6 = (void *)out;
	struct sockaddr_in *in = (void *)out;

	memset(out, 0, sizeof(*out));
	out->ss_family = (sa_family_t)family;
	if (family == AF_INET6) {
		memcpy(&in6->sin6_addr, ip->b, 16);
		in6->sin6_port = htons(port);
		return sizeof(*in6);
	}
	memcpy(&in->sin_addr, ip->b + 12, 4);
	in->sin_port = htons(port);
	return sizeof(*in);
}

static int begin_queue(int fd, int queue, seq32 first)
{
	int err = set_int(fd, TCP_REPAIR_QUEUE, queue);

	return err ? err : set_int(fd, TCP_QUEUE_SEQ, (int)first.v);
}

/* Ends the connection silently, and opens it again silently. */
static int reopen(int fd, const struct tcp_image *x)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct sockaddr_storage me, peer;
	int family, err, gone;
	socklen_t len = sizeof(family);

	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len);
	if (connect(fd, &none, sizeof(none)))
		return -errno;
	len = sizeof(gone);
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &gone, &len);
	err = begin_queue(fd, TCP_SEND_QUEUE, x->snd_una);
	err = err ? err
		  : begin_queue(fd, TCP_RECV_QUEUE,
				seq_sub(x->rcv_nxt, x->n_unread));
	if (err)
		return err;
	len = make_addr(family, &x->laddr, x->lport, &me);
	make_addr(family, &x->raddr, x->rport, &peer);
	/* A socket that was bound before keeps its address. */
	if (bind(fd, (struct sockaddr *)&me, len) && errno != EINVAL)
		return -errno;
	/* Linux fits the segments to the MSS during connect() only, and TCP_REPAIR_OPTIONS
	 * comes later: without this they would have 536 bytes, or 1220. */
	err = set_int(fd, TCP_MAXSEG, x->mss_clamp);
	if (err)
		return err;
	return connect(fd, (struct sockaddr *)&peer, len)
		   ? -errno
		   : set_int(fd, TCP_MAXSEG, x->maxseg);
}

static int give_options(int fd, const struct tcp_image *x)
{
	struct tcp_repair_opt o[4];
	unsigned n = 0;

	o[n++] = (struct tcp_repair_opt){ KIND_MSS, x->mss_clamp };
	if (x->has_wscale)
		o[n++] = (struct tcp_repair_opt){
			KIND_WSCALE,
			x->snd_wscale | (uint32_t)x->rcv_wscale << 16
		};
	if (x->has_sack)
		o[n++] = (struct tcp_repair_opt){ KIND_SACK, 0 };
	if (x->has_ts)
		o[n++] = (struct tcp_repair_opt){ KIND_TS, 0 };
	int err = set(fd, TCP_REPAIR_OPTIONS, o, n * (socklen_t)sizeof(o[0]));
	if (err || !x->has_ts)
		return err;
	return set_int(fd, TCP_TIMESTAMP, (int)tcp_image_timestamp(x));
}

static int give_bytes(int fd, int queue, const uint8_t *bytes, uint32_t n)
{
	int err =
	    queue == TCP_NO_QUEUE ? 0 : set_int(fd, TCP_REPAIR_QUEUE, queue);

	if (err || !n)
		return err;
	ssize_t done = send(fd, bytes, n, MSG_DONTWAIT);
	return done < 0 ? -errno : done == (ssize_t)n ? 0 : -ENOBUFS;
}

static int give_window(int fd, const struct tcp_image *x)
{
	const struct tcp_repair_window w = { .snd_wl1 = x->snd_wl1.v,
					     .snd_wnd = x->snd_wnd,
					     .max_window = x->max_wnd,
					     .rcv_wnd = x->rcv_wnd,
					     .rcv_wup = x->rcv_wup.v };

	return set(fd, TCP_REPAIR_WINDOW, &w, sizeof(w));
}

int repair_give(int fd, const struct repaired *in)
{
	const struct tcp_image *x = &in->x;
	uint32_t sent = seq_len(x->snd_una, x->snd_nxt);
	int err = reopen(fd, x);

	err = err ? err : give_options(fd, x);
	err =
	    err ? err : give_bytes(fd, TCP_RECV_QUEUE, in->unread, x->n_unread);
	err = err ? err : give_bytes(fd, TCP_SEND_QUEUE, in->queued, sent);
	err = err ? err : give_window(fd, x);
	err = err ? err : repair_undo(fd);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &in->reuses_addr,
		   sizeof(in->reuses_addr));
	/* What was never sent leaves by itself. */
	return err ? err
		   : give_bytes(fd, TCP_NO_QUEUE, in->queued + sent,
				seq_len(x->snd_nxt, x->snd_end));
}
