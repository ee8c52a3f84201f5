/* SPDX-License-Identifier: MIT */
/* proto/tcp/image.c - osfd's numbers and the engine's; see image.h */
#include "proto/tcp/image.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/libc.h"
#include "base/sockopt.h"

#define SSTHRESH_NONE 0x7fffffffu

static void put_addr(const struct sockaddr_storage *a, struct ip_addr *ip,
		     uint16_t *port)
{
	const struct sockaddr_in6 *in6 = (const void *)a;
	const struct sockaddr_in *in = (const void *)a;

	if (a->ss_family == AF_INET6) {
		memcpy(ip->b, &in6->sin6_addr, sizeof(ip->b));
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

	if (getsockname(fd, (struct sockaddr *)&a, &len))
		return -errno;
	put_addr(&a, &x->laddr, &x->lport);
	len = sizeof(a);
	if (libc.getpeername(fd, (struct sockaddr *)&a, &len))
		return -errno;
	put_addr(&a, &x->raddr, &x->rport);
	return 0;
}

/* What TCP_INFO tells and struct frozen does not. */
static int take_info(int fd, struct tcp_image *x)
{
	struct tcp_info i = { 0 };
	socklen_t len = sizeof(i);

	if (libc.getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len))
		return -errno;
	x->rto_us = i.tcpi_rto;
	x->rcv_rtt_us = i.tcpi_rcv_rtt;
	x->rcv_mss = (uint16_t)i.tcpi_rcv_mss;
	x->tx_ms_ago = i.tcpi_last_data_sent;
	x->rx_ms_ago = i.tcpi_last_ack_recv;
	x->data_rx_ms_ago = i.tcpi_last_data_recv;
	x->bytes_acked = i.tcpi_bytes_acked;
	x->bytes_received = i.tcpi_bytes_received;
	x->n_in = i.tcpi_segs_in;
	x->n_out = i.tcpi_segs_out;
	x->n_data_in = i.tcpi_data_segs_in;
	x->n_data_out = i.tcpi_data_segs_out;
	return 0;
}

/* What the program has set; osfd has switched keepalive off meanwhile. */
static void take_options(const struct frozen *f, int fd, struct tcp_image *x)
{
	x->has_nodelay = sockopt_int(fd, IPPROTO_TCP, TCP_NODELAY);
	x->has_cork = sockopt_int(fd, IPPROTO_TCP, TCP_CORK);
	x->user_timeout_ms =
	    (uint32_t)sockopt_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT);
	if (!(f->flags & FROZEN_KEEPALIVE))
		return;
	x->keep_idle_s = (uint16_t)sockopt_int(fd, IPPROTO_TCP, TCP_KEEPIDLE);
	x->keep_interval_s =
	    (uint16_t)sockopt_int(fd, IPPROTO_TCP, TCP_KEEPINTVL);
	x->keep_probes = (uint8_t)sockopt_int(fd, IPPROTO_TCP, TCP_KEEPCNT);
}

/* A frozen connection is quiet: both queues are empty, and all is acknowledged. */
static void take_frozen(const struct frozen *f, struct tcp_image *x)
{
	x->snd_una.v = x->snd_lost.v = x->snd_nxt.v = x->snd_end.v = f->snd_nxt;
	x->rcv_nxt.v = f->rcv_nxt;
	x->snd_wl1.v = f->snd_wl1;
	x->snd_wnd = f->snd_wnd;
	x->max_wnd = f->max_window;
	x->rcv_wnd = f->rcv_wnd;
	x->rcv_wup.v = f->rcv_wup;
	x->mss_clamp = (uint16_t)MIN(f->mss_clamp, (uint32_t)UINT16_MAX);
	x->snd_wscale = f->snd_wscale;
	x->rcv_wscale = f->rcv_wscale;
	x->has_wscale = f->options & FROZEN_WSCALE;
	x->has_sack = f->options & FROZEN_SACK;
	x->has_ts = f->options & FROZEN_TIMESTAMPS;
	x->has_ecn = f->options & FROZEN_ECN;
	x->cwnd = f->cwnd * f->snd_mss;
	if (f->ssthresh < SSTHRESH_NONE)
		x->ssthresh = f->ssthresh * f->snd_mss;
	x->rtt_us = f->srtt_us;
	x->rttvar_us = f->rttvar_us;
	x->min_rtt_us = f->min_rtt_us;
	x->path_mtu = (uint16_t)MIN(f->pmtu, (uint32_t)UINT16_MAX);
	if (x->has_ts)
		tcp_image_set_timestamp(x, f->timestamp);
}

int image_of_frozen(const struct frozen *f, int fd, struct tcp_image *out)
{
	struct tcp_image x = { 0 };
	int err = take_names(fd, &x);

	if (!err)
		err = take_info(fd, &x);
	if (err)
		return err;
	take_frozen(f, &x);
	take_options(f, fd, &x);
	*out = x;
	return 0;
}

void frozen_of_image(const struct tcp_image *x, struct frozen *f,
		     struct image_queues *q)
{
	f->snd_nxt = x->snd_nxt.v;
	f->rcv_nxt = x->rcv_nxt.v;
	f->snd_wl1 = x->snd_wl1.v;
	f->snd_wnd = x->snd_wnd;
	f->max_window = x->max_wnd;
	f->rcv_wnd = x->rcv_wnd;
	f->rcv_wup = x->rcv_wup.v;
	if (x->has_ts)
		f->timestamp = tcp_image_timestamp(x);
	*q = (struct image_queues){
		.n_unread = x->n_unread,
		.n_unacked = seq_len(x->snd_una, x->snd_nxt),
		.n_unsent = seq_len(x->snd_nxt, x->snd_end),
	};
}
