/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_steer.c - any frame to the programs that steer
 *
 *     a frame -> steer.bpf.c, compiled for this machine -> a flow's, or the kernel's
 *             -> src/ip                                 -> the connection it belongs to
 *
 * Besides not reading beyond the frame, this holds:
 *   I1  a frame of a known flow, as src/ip reads it, goes to the port's socket, and the kernel
 *       gets it only while the flow is copied
 *   I2  a frame of no known flow goes to the kernel and to nobody else, and is not counted
 *   I3  so does each frame of a VLAN
 *   I4  an ICMP error that quotes a known flow's segment is that flow's
 *   I5  a known flow's segment that src/ip leaves to the kernel goes to the port's socket and
 *       to the kernel, and is not counted
 */
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/drop.h"
#include "ip/icmp.h"
#include "ip/ip.h"

/* What the program calls, in place of libbpf's headers. */
#define __BPF_HELPERS__
#define SEC(name)
#define __uint(name, val) int(*name)[val]
#define __type(name, val) val *name
struct __sk_buff;
static long bpf_skb_load_bytes(const struct __sk_buff *skb, uint32_t off,
			       void *to, uint32_t len);
static void *bpf_map_lookup_elem(void *map, const void *key);

static long bpf_loop(uint32_t n, long (*round)(uint32_t i, void *ctx),
		     void *ctx, uint64_t flags)
{
	uint32_t i = 0;

	while (i < n && !round(i, ctx))
		i++;
	return i;
}

#include "port/packet/steer.bpf.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VLAN = 1, COPIED = 2, OTHER_FLOW = 4, PRIORITY = 8 };

static const uint8_t *frame;
static size_t frame_len;
static struct steer_key known;
static struct steer_flow known_flow;
static bool is_known;
static uint64_t counters[STEER_N_COUNTS];

static long bpf_skb_load_bytes(const struct __sk_buff *skb, uint32_t off,
			       void *to, uint32_t len)
{
	if (off > frame_len || len > frame_len - off)
		return -14;
	memcpy(to, frame + off, len);
	return 0;
}

static void *bpf_map_lookup_elem(void *map, const void *key)
{
	if (map == &counts) {
		uint32_t i;

		memcpy(&i, key, sizeof(i));
		assert(i < STEER_N_COUNTS);
		return &counters[i];
	}
	assert(map == &flows);
	return is_known && !memcmp(key, &known, sizeof(known)) ? &known_flow
							       : NULL;
}

/* The connection, from our side, that src/ip finds in the frame. */
static bool flow_of(struct steer_key *k, uint32_t *counter)
{
	struct ip_packet ip;
	struct icmp_error e;
	const uint8_t *p = frame + ETH_HEAD;
	uint16_t type;

	if (frame_len < ETH_HEAD)
		return false;
	int err = ip_parse(p, (uint32_t)(frame_len - ETH_HEAD), &ip);
	bool is_strange = err == DROP(IP_OPTIONS) || err == DROP(IP_FRAGMENT);
	if (err && !(is_strange && ip.protocol == PROTO_TCP))
		return false;
	type = load_be16(frame + 12);
	if (type != (ip.is_v6 ? ETH_IPV6 : ETH_IPV4))
		return false;
	const uint8_t *l4 = p + ip.l4_off;
	*k = (struct steer_key){ 0 };
	if (ip.protocol == PROTO_TCP && ip.l4_len >= 20) {
		memcpy(k->peer, ip.src.b, 16);
		memcpy(k->local, ip.dst.b, 16);
		memcpy(&k->peer_port, l4, 2);
		memcpy(&k->local_port, l4 + 2, 2);
		*counter = is_strange ? STEER_STRANGE : STEER_N_SEGMENTS;
		return true;
	}
	if (ip.protocol != (ip.is_v6 ? PROTO_ICMPV6 : PROTO_ICMP) ||
	    icmp_parse(&ip, l4, &e) < 0)
		return false;
	memcpy(k->peer, e.dst.b, 16);
	memcpy(k->local, e.src.b, 16);
	k->peer_port = htons(e.dport);
	k->local_port = htons(e.sport);
	*counter = STEER_N_ERRORS;
	return true;
}

static void set_port(bool is_on)
{
	uint8_t bit = (uint8_t)(1u << (known.local_port & 7));

	if (is_on)
		used_ports[known.local_port >> 3] |= bit;
	else
		used_ports[known.local_port >> 3] &= (uint8_t)~bit;
}

static void check(struct __sk_buff *skb, int how, uint32_t counter)
{
	bool is_flows = is_known && !(how & VLAN);
	bool is_ours = is_flows && !(how & COPIED) && counter != STEER_STRANGE;
	uint64_t before[STEER_N_COUNTS];

	memcpy(before, counters, sizeof(before));
	assert(steer_socket(skb) == (is_flows ? WHOLE_FRAME : 0));
	assert(steer_tc(skb) == (is_ours ? TCX_DROP : TCX_NEXT));
	if (is_ours)
		before[counter]++;
	assert(!memcmp(before, counters, sizeof(before)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct __sk_buff skb = { 0 };
	uint32_t counter = STEER_N_SEGMENTS;
	uint16_t type = 0;

	if (!size)
		return 0;
	int how = *data;
	frame = data + 1;
	frame_len = size - 1;
	if (frame_len >= ETH_HEAD)
		memcpy(&type, frame + 12, sizeof(type));
	skb.protocol = type;
	skb.vlan_present = how & (VLAN | PRIORITY);
	skb.vlan_tci = how & VLAN ? 0x2001 : 0x2000;
	known_flow.mode = how & COPIED ? STEER_COPY : STEER_OURS;
	is_known = flow_of(&known, &counter) && !(how & OTHER_FLOW);
	if (how & OTHER_FLOW) /* the same port: the bit does not decide */
		known.peer[15] ^= 1;
	set_port(true);
	check(&skb, how, counter);
	set_port(false);
	return 0;
}
