/* SPDX-License-Identifier: MIT */
/* ip/ip.c - parses and builds IPv4 and IPv6 headers; see ip.h */
#include "ip/ip.h"

#include "base/drop.h"
#include "ip/checksum.h"

/* RFC 8200 section 4, RFC 4302 */
#define EXT_HOP_BY_HOP 0
#define EXT_ROUTING 43
#define EXT_FRAGMENT 44
#define EXT_AUTHENTICATION 51
#define EXT_DESTINATION 60

#define V4_DF 0x4000
#define V4_FRAGMENT 0x3fff /* more fragments, and the offset */
#define V4_OFFSET 0x1fff
#define V6_OFFSET 0xfff8 /* of a fragment header */

bool ip_addr_is_host(const struct ip_addr *a)
{
	static const struct ip_addr any6;

	if (ip_addr_is_v4(a))
		return a->b[12] != 0 && a->b[12] < 224;
	return a->b[0] != 0xff && !ip_addr_eq(a, &any6);
}

static int parse_v4(const uint8_t *p, uint32_t len, struct ip_packet *k)
{
	if (len < IPV4_HEAD)
		return DROP(SHORT);
	uint32_t head = (p[0] & 15u) * 4, total = load_be16(p + 2);
	if (head < IPV4_HEAD || total < head || total > len)
		return DROP(IP_LENGTH);
	if (cksum_words(p, head / 4))
		return DROP(IP_CHECKSUM);
	k->src = ip_addr_v4(load_be32(p + 12));
	k->dst = ip_addr_v4(load_be32(p + 16));
	k->is_v6 = false;
	k->protocol = p[9];
	k->ecn = p[1] & 3;
	k->l4_off = (uint16_t)head;
	k->l4_len = total - head;
	uint16_t fragment = load_be16(p + 6) & V4_FRAGMENT;
	if (likely(!fragment))
		return head > IPV4_HEAD ? DROP(IP_OPTIONS) : 0;
	if (fragment & V4_OFFSET)
		k->protocol = IP_PROTO_NONE;
	return DROP(IP_FRAGMENT);
}

/* @is_rare: what comes behind the extension headers is not looked at */
static void set_l4(struct ip_packet *k, uint8_t protocol, uint32_t off,
		   uint32_t end, bool is_rare)
{
	k->protocol = is_rare ? IP_PROTO_NONE : protocol;
	k->l4_off = is_rare ? IPV6_HEAD : (uint16_t)off;
	k->l4_len = end - k->l4_off;
}

/* Walks the extension headers, and checks that they are complete and known.  A packet
 * with a valid one belongs to the kernel. */
static COLD int extensions_check(const uint8_t *p, uint32_t payload,
				 struct ip_packet *k)
{
	uint32_t off = IPV6_HEAD, end = IPV6_HEAD + payload, len;
	uint8_t next = p[6];
	bool is_rare = false;

	for (uint32_t n = 0;; n++) {
		switch (next) {
		case EXT_HOP_BY_HOP:
		case EXT_ROUTING:
		case EXT_DESTINATION:
		case EXT_AUTHENTICATION:
			if (end - off < 8)
				return DROP(IP_LENGTH);
			len = next == EXT_AUTHENTICATION
				  ? (p[off + 1] + 2u) * 4
				  : (p[off + 1] + 1u) * 8;
			if (len > end - off)
				return DROP(IP_LENGTH);
			is_rare |= next == EXT_AUTHENTICATION ||
				   n >= IP_EXTENSIONS_MAX;
			next = p[off];
			off += len;
			break;
		case EXT_FRAGMENT:
			if (end - off < 8)
				return DROP(IP_LENGTH);
			is_rare |= n >= IP_EXTENSIONS_MAX ||
				   load_be16(p + off + 2) & V6_OFFSET;
			set_l4(k, p[off], off + 8, end, is_rare);
			return DROP(IP_FRAGMENT);
		default:
			set_l4(k, next, off, end, is_rare);
			return off > IPV6_HEAD ? DROP(IP_OPTIONS) : 0;
		}
	}
}

static int parse_v6(const uint8_t *p, uint32_t len, struct ip_packet *k)
{
	if (len < IPV6_HEAD)
		return DROP(SHORT);
	uint32_t payload = load_be16(p + 4);
	if (payload > len - IPV6_HEAD)
		return DROP(IP_LENGTH);
	memcpy(k->src.b, p + 8, 16);
	memcpy(k->dst.b, p + 24, 16);
	/* IPv4-mapped addresses are for programs, and never on the wire. */
	if (ip_addr_is_v4(&k->src) || ip_addr_is_v4(&k->dst))
		return DROP(IP_ADDRESS);
	k->is_v6 = true;
	k->ecn = p[1] >> 4 & 3;
	return extensions_check(p, payload, k);
}

int ip_parse(const uint8_t *p, uint32_t len, struct ip_packet *out)
{
	int err;

	if (!len)
		return DROP(SHORT);
	if (p[0] >> 4 == 4)
		err = parse_v4(p, len, out);
	else if (p[0] >> 4 == 6)
		err = parse_v6(p, len, out);
	else
		return DROP(IP_VERSION);
	if (err)
		return err;
	return ip_addr_is_host(&out->src) ? 0 : DROP(IP_ADDRESS);
}

void ip_allow_fragments(uint8_t *p, uint16_t id)
{
	assert(p[0] >> 4 == 4);
	store_be16(p + 4, id);
	store_be16(p + 6, 0);
	store_be16(p + 10, 0);
	store_be16(p + 10, cksum_words(p, IPV4_HEAD / 4));
}

bool ip_may_fragment(const uint8_t *p)
{
	return p[0] >> 4 == 4 && !(load_be16(p + 6) & V4_DF);
}

/* Sums the values, not the stored bytes: a load would stall behind the stores. */
static uint32_t build_v4(uint8_t *p, const struct ip_addr *src,
			 const struct ip_addr *dst, uint8_t protocol,
			 uint8_t ecn, uint32_t l4_len)
{
	uint32_t version = (4 << 4 | IPV4_HEAD / 4) << 8 | ecn;
	uint32_t len = IPV4_HEAD + l4_len;
	uint32_t hops = IP_HOPS << 8 | protocol;
	uint64_t sum = htonl(version << 16 | len) + (uint64_t)htonl(V4_DF) +
		       htonl(hops << 16);
	uint32_t from = cksum_load32(src->b + 12);
	uint32_t to = cksum_load32(dst->b + 12);

	sum += (uint64_t)from + to;
	store_be32(p, version << 16 | len);
	/* With "do not fragment" the identification has no meaning: RFC 6864. */
	store_be32(p + 4, V4_DF);
	store_be16(p + 8, (uint16_t)hops);
	store_be16(p + 10, ntohs((uint16_t)~cksum_fold(sum)));
	memcpy(p + 12, &from, 4);
	memcpy(p + 16, &to, 4);
	return IPV4_HEAD;
}

uint32_t ip_build(uint8_t *p, const struct ip_addr *src,
		  const struct ip_addr *dst, uint8_t protocol, uint8_t ecn,
		  uint32_t l4_len)
{
	assert(ip_addr_is_v4(src) == ip_addr_is_v4(dst));
	assert(ip_head_len(dst) + l4_len <= IP_MAX);
	if (ip_addr_is_v4(dst))
		return build_v4(p, src, dst, protocol, ecn, l4_len);
	store_be32(p, 6u << 28 | (uint32_t)ecn << 20);
	store_be16(p + 4, (uint16_t)l4_len);
	p[6] = protocol;
	p[7] = IP_HOPS;
	memcpy(p + 8, src->b, 16);
	memcpy(p + 24, dst->b, 16);
	return IPV6_HEAD;
}

struct cksum ip_pseudo_sum(const struct ip_addr *src, const struct ip_addr *dst,
			   uint8_t protocol, uint32_t l4_len)
{
	uint32_t from = ip_addr_is_v4(dst) ? 3 : 0;
	uint64_t sum = htonl(l4_len) + (uint64_t)htonl(protocol);

	for (uint32_t i = from; i < 4; i++) {
		sum += cksum_load32(src->b + 4 * i);
		sum += cksum_load32(dst->b + 4 * i);
	}
	return (struct cksum){ .sum = cksum_fold(sum) };
}
