/* SPDX-License-Identifier: MIT */
/*
 * osfd/device.c - what a device is, and who else has programs on its tc
 *
 *     name -> device_find() -> index, MTU; Ethernet or loopback only
 *     index -> device_is_free() -> 0, or who is there: tcx programs, or clsact filters
 *
 * A port's frames bypass the tc programs of others: those at ingress no longer see the
 * port's connections, those at egress never see what the port sends.  If such a program
 * translates addresses (Cilium), a connection over the port could not work.  So such a
 * device becomes a port only if the administrator says so.  XDP programs see every frame
 * before a port does and can stay.
 */
#include "osfd/port.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "osfd/freeze.h"

#define TCX_INGRESS 46
#define TCX_EGRESS 47
#define TCX_PROGS_MAX 64
#define ANSWER_BYTES 32768

static const char *const lo_conf[LO_N_CONF] = {
	[LO_LOCALNET] = "lo/route_localnet",
	[LO_LOCALNET_ALL] = "all/route_localnet",
	[LO_LOCAL] = "lo/accept_local",
	[LO_LOCAL_ALL] = "all/accept_local",
};

static int conf_open(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s", name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static bool is_steer_tc(uint32_t id)
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);
	int fd = bpf_prog_get_fd_by_id(id);
	bool is = fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &len) == 0 &&
		  strcmp(info.name, STEER_TC_NAME) == 0;

	if (fd >= 0)
		close(fd);
	return is;
}

/* Finds the tc programs that an earlier osfd left.  It leaves them if it was killed, or if
 * programs that had their links did not run while it ended.  They do not prevent a port on
 * their device.  Whoever can attach a program can also give it this name. */
static void find_former(struct ports *ps)
{
	uint32_t id = 0;

	while (ps->n_former < FORMER_MAX && bpf_prog_get_next_id(id, &id) == 0)
		if (is_steer_tc(id))
			ps->former[ps->n_former++] = id;
}

int ports_init(struct ports *ps, int state_fd)
{
	*ps = (struct ports){ .state_fd = state_fd, .query_fd = -1 };
	struct {
		struct port port[PORTS_MAX];
		struct use use[GRANTS_MAX];
	} *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return -errno;
	ps->port = shared->port;
	ps->use = shared->use;
	ps->query_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ps->route_fd =
	    socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (ps->query_fd < 0 || ps->route_fd < 0)
		return -errno;
	for (int i = 0; i < LO_N_CONF; i++)
		ps->lo_fd[i] = conf_open(lo_conf[i]);
	find_former(ps);
	/* libbpf reads this from a file, once.  Later osfd can open no file. */
	int n_cpus = libbpf_num_possible_cpus();
	return n_cpus < 0 ? n_cpus : 0;
}

int device_find(const struct ports *ps, const char *name, struct device *out,
		struct refusal *why)
{
	struct ifreq req = { 0 };
	struct device d;

	strncpy(req.ifr_name, name, sizeof(req.ifr_name) - 1);
	if (ioctl(ps->query_fd, SIOCGIFINDEX, &req) < 0) {
		refuse(why, "there is no device %s", name);
		return -ENODEV;
	}
	d.ifindex = req.ifr_ifindex;
	if (ioctl(ps->query_fd, SIOCGIFMTU, &req) < 0)
		return -errno;
	d.mtu = (uint32_t)req.ifr_mtu;
	if (ioctl(ps->query_fd, SIOCGIFHWADDR, &req) < 0)
		return -errno;
	d.is_lo = req.ifr_hwaddr.sa_family == ARPHRD_LOOPBACK;
	if (req.ifr_hwaddr.sa_family != ARPHRD_ETHER && !d.is_lo) {
		refuse(why, "%s has no Ethernet headers", name);
		return -ENODEV;
	}
	*out = d;
	return 0;
}

static bool conf_is_on(const struct ports *ps, int which)
{
	char c = '0';

	return ps->lo_fd[which] >= 0 &&
	       pread(ps->lo_fd[which], &c, 1, 0) == 1 && c != '0';
}

int device_takes(const struct ports *ps, const struct grant *g, int fd,
		 struct refusal *why)
{
	struct connection c;

	if (!g->is_lo || connection_of(fd, &c, why) < 0 ||
	    !steer_is_v4(c.key.local))
		return 0;
	bool is_127 = c.key.local[12] == 127 || c.key.peer[12] == 127;
	if (!conf_is_on(ps, LO_LOCAL) && !conf_is_on(ps, LO_LOCAL_ALL))
		refuse(why, "lo takes no such frames: net.ipv4.conf.%s is 0",
		       "lo.accept_local");
	else if (is_127 && !conf_is_on(ps, LO_LOCALNET) &&
		 !conf_is_on(ps, LO_LOCALNET_ALL))
		refuse(why, "lo takes no such frames: net.ipv4.conf.%s is 0",
		       "lo.route_localnet");
	else
		return 0;
	return -EADDRNOTAVAIL;
}

static bool is_ours(const struct ports *ps, uint32_t tc_id)
{
	for (uint32_t i = 0; i < ps->n_former; i++)
		if (ps->former[i] == tc_id)
			return true;
	for (unsigned i = 0; i < GRANTS_MAX; i++)
		if (ps->grant[i].port && ps->grant[i].steer.tc_id == tc_id)
			return true;
	return false;
}

/* Return: the number of programs of others; an old kernel has none. */
static int n_foreign_tcx(const struct ports *ps, int ifindex, int where)
{
	uint32_t ids[TCX_PROGS_MAX], n = TCX_PROGS_MAX, flags = 0;
	int n_foreign = 0;

	if (bpf_prog_query(ifindex, (enum bpf_attach_type)where, 0, &flags, ids,
			   &n) < 0)
		return 0;
	for (uint32_t i = 0; i < n && i < TCX_PROGS_MAX; i++)
		n_foreign += !is_ours(ps, ids[i]);
	return n_foreign;
}

static int count_filter(const struct nlmsghdr *nlh, void *n)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(nlh);

	/* Each priority comes once more, without a handle. */
	if (nlh->nlmsg_type == RTM_NEWTFILTER && tc->tcm_handle)
		++*(int *)n;
	return MNL_CB_OK;
}

/* Return: the number of filters of one side of clsact, or a negative errno */
static int n_filters(int fd, int ifindex, uint32_t minor)
{
	char buf[ANSWER_BYTES];
	static uint32_t seq;
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	int n = 0, more = MNL_CB_OK;

	nlh->nlmsg_type = RTM_GETTFILTER;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = ++seq;
	struct tcmsg *tc = mnl_nlmsg_put_extra_header(nlh, sizeof(*tc));
	tc->tcm_ifindex = ifindex;
	tc->tcm_parent = TC_H_MAKE(TC_H_CLSACT, minor);
	if (sendto(fd, nlh, nlh->nlmsg_len, 0, (struct sockaddr *)&kernel,
		   sizeof(kernel)) < 0)
		return -errno;
	while (more > MNL_CB_STOP) {
		ssize_t len = recv(fd, buf, sizeof(buf), 0);
		if (len < 0)
			return -errno;
		more = mnl_cb_run(buf, (size_t)len, seq, 0, count_filter, &n);
	}
	return more < 0 ? -errno : n;
}

int device_is_free(const struct ports *ps, const struct device *d,
		   struct refusal *why)
{
	int in = n_foreign_tcx(ps, d->ifindex, TCX_INGRESS),
	    out = n_foreign_tcx(ps, d->ifindex, TCX_EGRESS);
	int clsact_in = n_filters(ps->route_fd, d->ifindex, TC_H_MIN_INGRESS),
	    clsact_out = n_filters(ps->route_fd, d->ifindex, TC_H_MIN_EGRESS);

	in += MAX(clsact_in, 0);
	out += MAX(clsact_out, 0);
	if (!in && !out)
		return 0;
	refuse(why,
	       "tc has programs of others, which a port bypasses: "
	       "%d at ingress, %d at egress (--beside: do it)",
	       in, out);
	return -EBUSY;
}
