/* SPDX-License-Identifier: MIT */
/* tcp/info.c - what TCP_INFO reports; see info.h */
#include "tcp/calls.h"
#include "tcp/info.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

#define OPT_TIMESTAMPS 1
#define OPT_SACK 2
#define OPT_WSCALE 4
#define US_PER_MS UINT64_C(1000)
#define SSTHRESH_NONE 0x7fffffff

static uint8_t linux_state(const struct tcp_conn *c)
{
	static const uint8_t numbers[] = {
		[TCP_ESTABLISHED] = 1, [TCP_SYN_SENT] = 2,
		[TCP_SYN_RCVD] = 3,    [TCP_FIN_WAIT_1] = 4,
		[TCP_FIN_WAIT_2] = 5,  [TCP_TIME_WAIT] = 6,
		[TCP_CLOSED] = 7,      [TCP_CLOSE_WAIT] = 8,
		[TCP_LAST_ACK] = 9,    [TCP_LISTEN] = 10,
		[TCP_CLOSING] = 11,
	};
	return numbers[c->state];
}

/* Open, Disorder, CWR, Recovery, Loss. */
static uint8_t linux_ca_state(const struct tcp_conn *c)
{
	if (c->ca_state == CA_CWR)
		return 2;
	if (c->ca_state == CA_RECOVERY)
		return 3;
	if (c->ca_state == CA_LOSS)
		return 4;
	return c->sacked_bytes || c->n_dupacks ? 1 : 0;
}

static uint32_t segments(const struct tcp_conn *c, uint32_t bytes)
{
	return c->mss ? (bytes + c->mss - 1) / c->mss : 0;
}

static uint32_t us(uint64_t ns) { return (uint32_t)(ns / NS_PER_US); }

static uint32_t ms_since(const struct tcp_conn *c, uint64_t at_ns)
{
	return (uint32_t)((c->stack->now_ns - at_ns) / NS_PER_MS);
}

/* Bytes from the ISN @first to @now, a number that has passed 0 @wraps times.  SYN and
 * FIN do not count as bytes. */
static uint64_t bytes_since(seq32 first, seq32 now, uint32_t wraps, bool is_fin)
{
	uint64_t at = (uint64_t)wraps << 32 | now.v;

	return at > first.v ? at - first.v - 1 - is_fin : 0;
}

/* @ms: the sum before the current state began */
static uint64_t chrono_us(const struct tcp_conn *c, enum chrono what,
			  uint32_t ms)
{
	if (c->rec.chrono == what)
		ms += now_ms(c->stack) - c->chrono_start_ms;
	return ms * US_PER_MS;
}

static void put_sending(const struct tcp_conn *c, struct tcp_conn_info *i)
{
	uint32_t flight = seq_len(c->snd_una, c->snd_nxt);
	bool is_fin_acked =
	    c->flags & CONN_FIN_SENT && seq_eq(c->snd_una, c->snd_nxt);
	uint32_t out = flight - (c->flags & CONN_FIN_SENT && !is_fin_acked);

	/* A SYN is not a byte, either. */
	out = c->state < TCP_ESTABLISHED ? 0 : out;
	i->tcpi_snd_mss = c->mss;
	i->tcpi_unacked = segments(c, flight);
	i->tcpi_sacked = segments(c, c->sacked_bytes);
	/* As in Linux, a range that was sent again counts as lost until it is
	 * acknowledged. */
	uint32_t again = c->again_out;
	i->tcpi_lost = segments(
	    c, c->lost_bytes + (c->ca_state >= CA_RECOVERY ? again : 0));
	i->tcpi_retrans = segments(c, again);
	i->tcpi_total_retrans = c->n_again;
	i->tcpi_snd_cwnd = c->mss ? c->cwnd / c->mss : 0;
	i->tcpi_snd_ssthresh =
	    c->ssthresh >= 1u << 30 ? SSTHRESH_NONE : segments(c, c->ssthresh);
	i->tcpi_snd_wnd = c->snd_wnd;
	i->tcpi_notsent_bytes = tcp_unsent_bytes(c);
	i->tcpi_bytes_acked =
	    bytes_since(c->iss, c->snd_una, c->snd_wraps, is_fin_acked);
	i->tcpi_bytes_retrans = c->again_bytes;
	i->tcpi_bytes_sent = i->tcpi_bytes_acked + out + c->again_bytes;
	i->tcpi_dsack_dups = c->n_dsacks;
	i->tcpi_segs_out = c->n_out;
	i->tcpi_data_segs_out = c->n_data_out;
	uint32_t first = c->n_data_out - c->n_again;
	uint32_t left = i->tcpi_unacked - i->tcpi_sacked;
	/* The SYN counts, too. */
	i->tcpi_delivered =
	    (c->state >= TCP_ESTABLISHED) + (first > left ? first - left : 0);
	i->tcpi_reord_seen = c->rec.n_reorders;
	i->tcpi_rwnd_limited = chrono_us(c, CHRONO_RWND_LIMITED, c->rwnd_ms);
	i->tcpi_sndbuf_limited =
	    chrono_us(c, CHRONO_SNDBUF_LIMITED, c->sndbuf_ms);
	i->tcpi_busy_time = chrono_us(c, CHRONO_BUSY, c->busy_ms) +
			    i->tcpi_rwnd_limited + i->tcpi_sndbuf_limited;
}

static void put_receiving(const struct tcp_conn *c, struct tcp_conn_info *i)
{
	i->tcpi_rcv_mss = c->rcv_mss;
	i->tcpi_rcv_ssthresh = c->rcv_buf;
	i->tcpi_rcv_space = c->rcv_space;
	i->tcpi_rcv_rtt = c->rcv_rtt_us;
	i->tcpi_rcv_ooopack = c->n_ooo;
	i->tcpi_rcv_wnd = seq_len(c->rcv_nxt, c->rcv_adv);
	i->tcpi_ecn_mode = !!(c->flags & CONN_ECN); /* RFC 3168 */
	i->tcpi_bytes_received = bytes_since(c->irs, c->rcv_nxt, c->rcv_wraps,
					     c->flags & CONN_FIN_RCVD);
	i->tcpi_segs_in = c->n_in;
	i->tcpi_data_segs_in = c->n_data_in;
	i->tcpi_last_data_recv = now_ms(c->stack) - c->last_data_rx_ms;
	i->tcpi_last_ack_recv = now_ms(c->stack) - c->last_rx_ms;
}

static uint32_t adv_mss(const struct tcp_conn *c)
{
	uint32_t mss = stack_mss(c->stack, &c->flow.raddr, c->maxseg);

	return c->flags & CONN_TS && mss > TS_BYTES ? mss - TS_BYTES : mss;
}

void tcp_get_info(const struct tcp_conn *c, struct tcp_conn_info *out,
		  uint64_t now_ns)
{
	stack_at(c->stack, now_ns);
	struct tcp_conn_info i = {
		.tcpi_state = linux_state(c),
		.tcpi_ca_state = linux_ca_state(c),
		.tcpi_retransmits = c->n_rtx,
		.tcpi_probes = c->n_probes,
		.tcpi_backoff = c->n_rtx,
		.tcpi_options =
		    (uint8_t)((c->flags & CONN_TS ? OPT_TIMESTAMPS : 0) |
			      (c->flags & CONN_SACK ? OPT_SACK : 0) |
			      (c->flags & CONN_WSCALE ? OPT_WSCALE : 0)),
		.tcpi_snd_wscale = c->snd_wscale,
		.tcpi_rcv_wscale = c->rcv_wscale,
		.tcpi_rto = c->rto_us,
		.tcpi_ato = us(DELACK_NS),
		.tcpi_rtt = c->srtt_8us / 8,
		.tcpi_rttvar = c->rttvar_us,
		.tcpi_min_rtt = c->min_rtt_us,
		.tcpi_pmtu = c->path_mtu,
		.tcpi_advmss = adv_mss(c),
		.tcpi_reordering = c->rec.reordering > DUP_THRESH
				       ? c->rec.reordering
				       : DUP_THRESH,
		.tcpi_last_data_sent = ms_since(c, c->last_tx_ns),
		.tcpi_pacing_rate = pace_rate(c),
		.tcpi_max_pacing_rate = UINT64_MAX,
	};

	put_sending(c, &i);
	put_receiving(c, &i);
	*out = i;
}
