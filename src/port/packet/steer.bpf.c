/* SPDX-License-Identifier: MIT */
/*
 * port/packet/steer.bpf.c - which frames are a port's, and which the kernel keeps
 *
 *     frame -> packet socket: steer_socket -> the ring of the port, or nothing
 *           -> tc ingress:    steer_tc     -> dropped, or on to the kernel's TCP
 *
 * The kernel shows a frame to packet sockets first and to tc afterwards.  Both programs
 * look for the frame's connection in the same map.  Frames of another VLAN are the kernel's.
 * An ICMP error belongs to the connection that it quotes.  What src/ip leaves to the kernel
 * (the first fragment, IPv4 options, IPv6 extension headers) goes to both, so that the
 * connection can go to the kernel as well.
 *
 * clang -target bpf compiles this file, and osfd loads it once for each grant.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "port/packet/steer.h"

#define ETH_HEAD 14
#define ETH_IPV4 0x0800
#define ETH_IPV6 0x86dd
#define PROTO_ICMP 1
#define PROTO_TCP 6
#define PROTO_ICMPV6 58
#define ICMP_HEAD 8
#define FRAGMENT_OFFSET 0x1fff
#define FRAGMENT 0x3fff /* an offset, or that more fragments follow */
#define V6_FRAGMENT_OFFSET 0xfff8
#define EXT_HOP_BY_HOP 0
#define EXT_ROUTING 43
#define EXT_FRAGMENT 44
#define EXT_DESTINATION 60
#define EXTENSIONS_MAX 8 /* IP_EXTENSIONS_MAX of src/ip */
#define VLAN_ID 0xfff    /* 0: the tag says a priority, and no VLAN */
#define TCX_NEXT (-1)
#define TCX_DROP 2
#define WHOLE_FRAME (-1)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* osfd sets the number of flows */
	__type(key, struct steer_key);
	__type(value, struct steer_flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STEER_N_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

struct ipv4_head {
	__u8 version_len, tos;
	__u16 len, id, fragment;
	__u8 hops, protocol;
	__u16 checksum;
	__u32 src, dst;
};

struct ipv6_head {
	__u32 version_flow;
	__u16 len;
	__u8 protocol, hops;
	__u8 src[16], dst[16];
};

struct ipv6_extension {
	__u8 protocol, len;
	__u16 fragment; /* of EXT_FRAGMENT */
};

struct ports {
	__u16 src, dst;
};

/* Local ports of flows, a bit for each port in network order: osfd/steer.c.  Most frames
 * that are no flow's go no further than this. */
__u8 used_ports[STEER_PORT_BYTES];

static __always_inline int is_used(__u16 port)
{
	return used_ports[port >> 3] & 1 << (port & 7);
}

/* The addresses of an IP header, and what is behind it. */
struct head {
	__u8 src[16], dst[16];
	__u32 l4_off;
	__u8 protocol;
};

static __always_inline void map_v4(__u8 *to, __u32 addr)
{
	__builtin_memset(to, 0, 10);
	to[10] = to[11] = 0xff;
	__builtin_memcpy(to + 12, &addr, 4);
}

static __always_inline int take_v4(const struct ipv4_head *ip, __u32 off,
				   struct head *h)
{
	if (ip->version_len != 0x45)
		return 0;
	map_v4(h->src, ip->src);
	map_v4(h->dst, ip->dst);
	h->l4_off = off + sizeof(*ip);
	h->protocol = ip->protocol;
	return 1;
}

/* Of a packet that an ICMP error quotes: its first fragment has the ports. */
static __always_inline int head_v4(struct __sk_buff *skb, __u32 off,
				   struct head *h)
{
	struct ipv4_head ip;

	return bpf_skb_load_bytes(skb, off, &ip, sizeof(ip)) == 0 &&
	       !(ip.fragment & bpf_htons(FRAGMENT_OFFSET)) &&
	       take_v4(&ip, off, h);
}

static __always_inline int take_v6(const struct ipv6_head *ip, __u32 off,
				   struct head *h)
{
	if ((ip->version_flow & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000))
		return 0;
	__builtin_memcpy(h->src, ip->src, 16);
	__builtin_memcpy(h->dst, ip->dst, 16);
	h->l4_off = off + sizeof(*ip);
	h->protocol = ip->protocol;
	return 1;
}

static __always_inline int head_v6(struct __sk_buff *skb, __u32 off,
				   struct head *h)
{
	struct ipv6_head ip;

	return bpf_skb_load_bytes(skb, off, &ip, sizeof(ip)) == 0 &&
	       take_v6(&ip, off, h);
}

/* Whether an ICMP message is an error, which quotes a packet. */
static __always_inline int is_error(struct __sk_buff *skb, const struct head *h)
{
	__u8 type;

	if (bpf_skb_load_bytes(skb, h->l4_off, &type, 1) < 0)
		return 0;
	if (h->protocol == PROTO_ICMP)
		return type == 3 || type == 11 || type == 12;
	return type >= 1 && type <= 4;
}

/* An arriving segment comes from the peer; a quoted one was sent by us. */
static __always_inline int key_of(struct __sk_buff *skb, const struct head *h,
				  int is_quoted, struct steer_key *key)
{
	struct ports p;

	if (h->protocol != PROTO_TCP ||
	    bpf_skb_load_bytes(skb, h->l4_off, &p, sizeof(p)) < 0)
		return 0;
	__builtin_memcpy(key->peer, is_quoted ? h->dst : h->src, 16);
	__builtin_memcpy(key->local, is_quoted ? h->src : h->dst, 16);
	key->peer_port = is_quoted ? p.dst : p.src;
	key->local_port = is_quoted ? p.src : p.dst;
	return 1;
}

/* A segment whose IPv4 header is not plain; a later fragment has no ports. */
static __always_inline int strange_v4(const struct ipv4_head *ip,
				      struct head *h)
{
	__u32 len = (ip->version_len & 15) * 4;

	if (ip->version_len >> 4 != 4 || len < sizeof(*ip) ||
	    ip->fragment & bpf_htons(FRAGMENT_OFFSET))
		return 0;
	map_v4(h->src, ip->src);
	map_v4(h->dst, ip->dst);
	h->l4_off = ETH_HEAD + len;
	h->protocol = ip->protocol;
	return 1;
}

static __always_inline int is_extension(__u8 protocol)
{
	return protocol == EXT_HOP_BY_HOP || protocol == EXT_ROUTING ||
	       protocol == EXT_FRAGMENT || protocol == EXT_DESTINATION;
}

/* The walk through a segment's IPv6 extension headers. */
struct walk {
	struct __sk_buff *skb;
	__u32 off;
	__u8 protocol;
	__u8 is_whole; /* the segment's ports are behind the headers */
};

/* One extension header.  Return: 1 behind the last one */
static long walk_on(__u32 i, void *ctx)
{
	struct walk *w = ctx;
	struct ipv6_extension e;
	int is_fragment = w->protocol == EXT_FRAGMENT;

	if (!is_extension(w->protocol))
		return 1;
	if (bpf_skb_load_bytes(w->skb, w->off, &e, sizeof(e)) < 0 ||
	    (is_fragment && e.fragment & bpf_htons(V6_FRAGMENT_OFFSET))) {
		w->is_whole = 0;
		return 1;
	}
	w->protocol = e.protocol;
	w->off += is_fragment ? 8 : (e.len + 1) * 8;
	return 0;
}

/* The verifier follows a function of bpf_loop() once.  Of a loop it follows each way through
 * all of its rounds, and without CAP_PERFMON those that a processor might only guess, too:
 * half a second of CPU for each grant. */
static __always_inline int
strange_v6(struct __sk_buff *skb, const struct ipv6_head *ip, struct head *h)
{
	struct walk w = { skb, ETH_HEAD + sizeof(*ip), ip->protocol, 1 };

	if (!take_v6(ip, ETH_HEAD, h))
		return 0;
	bpf_loop(EXTENSIONS_MAX, walk_on, &w, 0);
	h->protocol = w.protocol;
	h->l4_off = w.off;
	return w.is_whole;
}

/* Return: the counter that a frame of a flow belongs to; STEER_STRANGE for a segment of a
 * flow that src/ip leaves to the kernel; or STEER_N_COUNTS for a frame that is no flow's:
 * then @key is not written. */
#define STEER_STRANGE (STEER_N_COUNTS + 1)
static __always_inline __u32 judge(struct __sk_buff *skb, struct steer_key *key)
{
	int is_v4 = skb->protocol == bpf_htons(ETH_IPV4);
	struct {
		struct ipv4_head ip;
		struct ports ports;
	} v4;
	struct {
		struct ipv6_head ip;
		struct ports ports;
	} v6;
	struct head h;

	if ((skb->vlan_present && skb->vlan_tci & VLAN_ID) ||
	    (!is_v4 && skb->protocol != bpf_htons(ETH_IPV6)))
		return STEER_N_COUNTS;
	/* Both headers at once; a packet without them is no TCP and no error. */
	if (is_v4) {
		if (bpf_skb_load_bytes(skb, ETH_HEAD, &v4, sizeof(v4)) < 0)
			return STEER_N_COUNTS;
		if (v4.ip.version_len != 0x45 ||
		    v4.ip.fragment & bpf_htons(FRAGMENT))
			return strange_v4(&v4.ip, &h) && key_of(skb, &h, 0, key)
				   ? STEER_STRANGE
				   : STEER_N_COUNTS;
		if ((v4.ip.protocol == PROTO_TCP && !is_used(v4.ports.dst)) ||
		    !take_v4(&v4.ip, ETH_HEAD, &h))
			return STEER_N_COUNTS;
	} else {
		if (bpf_skb_load_bytes(skb, ETH_HEAD, &v6, sizeof(v6)) < 0 ||
		    (v6.ip.protocol == PROTO_TCP && !is_used(v6.ports.dst)))
			return STEER_N_COUNTS;
		if (is_extension(v6.ip.protocol))
			return strange_v6(skb, &v6.ip, &h) &&
				       key_of(skb, &h, 0, key)
				   ? STEER_STRANGE
				   : STEER_N_COUNTS;
		if (!take_v6(&v6.ip, ETH_HEAD, &h))
			return STEER_N_COUNTS;
	}
	if (h.protocol == PROTO_TCP)
		return key_of(skb, &h, 0, key) ? STEER_N_SEGMENTS
					       : STEER_N_COUNTS;
	if (h.protocol != (is_v4 ? PROTO_ICMP : PROTO_ICMPV6) ||
	    !is_error(skb, &h))
		return STEER_N_COUNTS;
	__u32 off = h.l4_off + ICMP_HEAD;
	if (!(is_v4 ? head_v4(skb, off, &h) : head_v6(skb, off, &h)))
		return STEER_N_COUNTS;
	return key_of(skb, &h, 1, key) ? STEER_N_ERRORS : STEER_N_COUNTS;
}

SEC("tc")
int steer_tc(struct __sk_buff *skb)
{
	struct steer_key key;
	__u32 kind = judge(skb, &key);

	if (kind >= STEER_N_COUNTS)
		return TCX_NEXT;
	struct steer_flow *flow = bpf_map_lookup_elem(&flows, &key);
	if (!flow || flow->mode != STEER_OURS)
		return TCX_NEXT;
	__u64 *count = bpf_map_lookup_elem(&counts, &kind);
	if (count)
		*count += 1;
	return TCX_DROP;
}

SEC("socket")
int steer_socket(struct __sk_buff *skb)
{
	struct steer_key key;

	if (judge(skb, &key) == STEER_N_COUNTS)
		return 0;
	return bpf_map_lookup_elem(&flows, &key) ? WHOLE_FRAME : 0;
}

char steer_license[] SEC("license") = "Dual MIT/GPL";
