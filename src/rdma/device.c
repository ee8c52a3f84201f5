/* SPDX-License-Identifier: MIT */
/*
 * rdma/device.c - what the device says of itself
 *
 * There is one device for each network namespace.  It describes itself as a
 * RoCE device of the first network interface that is up: the hardware address
 * of the interface makes the GUID and GID 0, and its IP addresses make the
 * other GIDs.  The limits reported here are those that the code keeps.
 */
#include <endian.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "rdma/core.h"

#define N_GIDS 16u
#define LOOPBACK 1u /* the index of lo in every network namespace */
#define HEADERS 108 /* at most, of IPv6 and RoCEv2, with the ICRC */

static struct {
	struct lock lock;
	bool is_known;
	uint64_t guid; /* network order */
	uint32_t ifindex, n;
	uint32_t mtu; /* bytes of the program's in a packet */
	union ibv_gid gid[N_GIDS];
} dev;

/* The modified EUI-64 of RFC 4291, appendix A. */
static void learn_guid(const char *name)
{
	struct ifreq ifr = { 0 };
	uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 };
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	if (s >= 0 && !ioctl(s, SIOCGIFHWADDR, &ifr) &&
	    memcmp(ifr.ifr_hwaddr.sa_data, "\0\0\0\0\0", 6))
		memcpy(mac, ifr.ifr_hwaddr.sa_data, 6);
	if (s >= 0 && !ioctl(s, SIOCGIFMTU, &ifr))
		dev.mtu = (uint32_t)MAX(ifr.ifr_mtu, HEADERS) - HEADERS;
	if (s >= 0)
		close(s);
	uint8_t guid[8] = { mac[0] ^ 2, mac[1], mac[2], 0xff,
			    0xfe,       mac[3], mac[4], mac[5] };
	memcpy(&dev.guid, guid, sizeof(guid));
	dev.gid[0].global.subnet_prefix = htobe64(UINT64_C(0xfe80) << 48);
	dev.gid[0].global.interface_id = dev.guid;
	/* An adapter, or soft-RoCE, may have this number, and librdmacm tells devices by it. */
	memcpy((uint8_t *)&dev.guid + 3, "os", 2);
	dev.ifindex = if_nametoindex(name);
	dev.n = 1;
}

static void learn_address(const struct sockaddr *sa)
{
	union ibv_gid *gid = &dev.gid[dev.n];
	const struct sockaddr_in *in = (const void *)sa;
	const struct sockaddr_in6 *in6 = (const void *)sa;

	if (dev.n == N_GIDS)
		return;
	memset(gid, 0, sizeof(*gid));
	if (sa->sa_family == AF_INET) {
		gid->raw[10] = gid->raw[11] = 0xff;
		memcpy(gid->raw + 12, &in->sin_addr, 4);
	} else if (sa->sa_family == AF_INET6 &&
		   !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr)) {
		memcpy(gid->raw, &in6->sin6_addr, 16);
	} else {
		return;
	}
	dev.n++;
}

static const char *first_interface(const struct ifaddrs *list)
{
	for (const struct ifaddrs *a = list; a; a = a->ifa_next)
		if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET &&
		    a->ifa_flags & IFF_UP && !(a->ifa_flags & IFF_LOOPBACK))
			return a->ifa_name;
	return "lo";
}

static void learn(void)
{
	struct ifaddrs *list = NULL;
	int err = getifaddrs(&list);
	const char *name = first_interface(err ? NULL : list);

	learn_guid(name);
	for (struct ifaddrs *a = err ? NULL : list; a; a = a->ifa_next)
		if (a->ifa_addr && !strcmp(a->ifa_name, name))
			learn_address(a->ifa_addr);
	if (!err)
		freeifaddrs(list);
}

/* Once: a program's numbers of GIDs stay what they were. */
static void know(void)
{
	if (load_acq(&dev.is_known))
		return;
	GUARD(&dev.lock);
	if (dev.is_known)
		return;
	learn();
	store_rel(&dev.is_known, true);
}

int device_gid(uint32_t index, union ibv_gid *gid, uint32_t *ifindex)
{
	know();
	if (index >= dev.n)
		return -1;
	if (gid)
		*gid = dev.gid[index];
	if (ifindex)
		*ifindex = dev.ifindex;
	return 0;
}

int device_find_gid(const union ibv_gid *gid)
{
	know();
	for (uint32_t i = 0; i < dev.n; i++)
		if (!memcmp(&dev.gid[i], gid, sizeof(*gid)))
			return (int)i;
	return -1;
}

bool device_is_alone(void)
{
	know();
	return dev.ifindex == LOOPBACK;
}

/* The largest of InfiniBand's sizes that fits into a packet of the interface's. */
static enum ibv_mtu packet_mtu(void)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && dev.mtu >= 256u << mtu)
		mtu++;
	return mtu;
}

uint32_t device_mtu(void)
{
	know();
	return 128u << packet_mtu();
}

uint64_t device_guid(void)
{
	know();
	return dev.guid;
}

void device_attr(struct ibv_device_attr *a)
{
	*a = (struct ibv_device_attr){
		.fw_ver = "osf",
		.node_guid = device_guid(),
		.sys_image_guid = device_guid(),
		.max_mr_size = UINT64_MAX,
		.page_size_cap = 0xfffff000,
		.vendor_id = 0x6f7366, /* nobody's: a local one */
		.vendor_part_id = 1,
		.max_qp = N_QPS,
		.max_qp_wr = MAX_WR,
		.device_cap_flags =
		    IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_CURR_QP_STATE_MOD |
		    IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_XRC |
		    IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B,
		.max_sge = N_SGE,
		.max_sge_rd = N_SGE,
		.max_cq = N_CQS,
		.max_cqe = MAX_CQE,
		.max_mr = N_MRS,
		.max_mw = N_MRS,
		.max_pd = 65536,
		.max_qp_rd_atom = MAX_RD_ATOMIC,
		.max_res_rd_atom = MAX_RD_ATOMIC * N_QPS,
		.max_qp_init_rd_atom = MAX_RD_ATOMIC,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_mcast_grp = N_MCASTS,
		.max_mcast_qp_attach = N_MCASTS,
		.max_total_mcast_qp_attach = N_MCASTS,
		.max_ah = 65536,
		.max_srq = 65536,
		.max_srq_wr = MAX_WR,
		.max_srq_sge = N_SGE,
		.max_pkeys = 1,
		.local_ca_ack_delay = 15,
		.phys_port_cnt = 1,
	};
}

int device_port(uint8_t port, struct ibv_port_attr *a)
{
	if (port != 1)
		return -1;
	know();
	*a = (struct ibv_port_attr){
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = packet_mtu(),
		.gid_tbl_len = N_GIDS,
		.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
		.max_msg_sz = MAX_MSG,
		.pkey_tbl_len = 1,
		.max_vl_num = 1,
		.active_width = 2,  /* four lanes */
		.active_speed = 32, /* 25 Gb/s each */
		.phys_state = 5,    /* the link is up */
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};
	return 0;
}
