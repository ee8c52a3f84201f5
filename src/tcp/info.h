/* SPDX-License-Identifier: MIT */
/*
 * tcp/info.h - what a connection reports about itself (TCP_INFO)
 *
 * The fields, their order and their units are those of Linux's struct tcp_info, so
 * programs can get the struct as it is.  A test compares it with the machine's headers.
 * Values that the engine does not know stay 0: the delivery rate, the cost of
 * time-outs.  bytes_sent does not include bytes that were in flight when a connection
 * ended.
 */
#pragma once

#include <stdint.h>

struct tcp_conn;

struct tcp_conn_info {
	uint8_t tcpi_state; /* Linux's number */
	uint8_t tcpi_ca_state;
	uint8_t tcpi_retransmits; /* time-outs in a row */
	uint8_t tcpi_probes;
	uint8_t tcpi_backoff;
	uint8_t tcpi_options;
	uint8_t tcpi_snd_wscale : 4, tcpi_rcv_wscale : 4;
	uint8_t tcpi_delivery_rate_app_limited : 1,
	    tcpi_fastopen_client_fail : 2;

	uint32_t tcpi_rto, tcpi_ato; /* us */
	uint32_t tcpi_snd_mss, tcpi_rcv_mss;
	uint32_t tcpi_unacked, tcpi_sacked, tcpi_lost; /* segments */
	uint32_t tcpi_retrans, tcpi_fackets;
	uint32_t tcpi_last_data_sent, tcpi_last_ack_sent; /* ms ago */
	uint32_t tcpi_last_data_recv, tcpi_last_ack_recv;
	uint32_t tcpi_pmtu, tcpi_rcv_ssthresh;
	uint32_t tcpi_rtt, tcpi_rttvar;            /* us */
	uint32_t tcpi_snd_ssthresh, tcpi_snd_cwnd; /* segments */
	uint32_t tcpi_advmss, tcpi_reordering;
	uint32_t tcpi_rcv_rtt; /* us */
	uint32_t tcpi_rcv_space;
	uint32_t tcpi_total_retrans;

	uint64_t tcpi_pacing_rate, tcpi_max_pacing_rate;
	uint64_t tcpi_bytes_acked, tcpi_bytes_received;
	uint32_t tcpi_segs_out, tcpi_segs_in;
	uint32_t tcpi_notsent_bytes;
	uint32_t tcpi_min_rtt; /* us */
	uint32_t tcpi_data_segs_in, tcpi_data_segs_out;
	uint64_t tcpi_delivery_rate;
	uint64_t tcpi_busy_time, tcpi_rwnd_limited,
	    tcpi_sndbuf_limited; /* us */
	uint32_t tcpi_delivered, tcpi_delivered_ce;
	uint64_t tcpi_bytes_sent, tcpi_bytes_retrans;
	uint32_t tcpi_dsack_dups, tcpi_reord_seen;
	uint32_t tcpi_rcv_ooopack;
	uint32_t tcpi_snd_wnd;
	/* The fields from here on are newer than some machines' headers. */
	uint32_t tcpi_rcv_wnd;
	uint32_t tcpi_rehash;
	uint16_t tcpi_total_rto, tcpi_total_rto_recoveries;
	uint32_t tcpi_total_rto_time; /* ms */
	uint32_t tcpi_received_ce;
	uint32_t tcpi_delivered_e1_bytes, tcpi_delivered_e0_bytes,
	    tcpi_delivered_ce_bytes; /* of accurate ECN: there is none */
	uint32_t tcpi_received_e1_bytes, tcpi_received_e0_bytes,
	    tcpi_received_ce_bytes;
	uint32_t tcpi_ecn_mode : 2, tcpi_accecn_opt_seen : 2,
	    tcpi_accecn_fail_mode : 4, tcpi_options2 : 24;
};

void tcp_get_info(const struct tcp_conn *c, struct tcp_conn_info *out,
		  uint64_t now_ns);
