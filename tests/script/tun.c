/* SPDX-License-Identifier: MIT */
/*
 * tests/script/tun.c - a namespace and a TUN device; see tun.h
 *
 * Devices are configured with ioctl(), which needs no library.  IPv6 neither checks for
 * duplicate addresses nor sends solicitations, so only TCP's packets come out.
 */
#include "tun.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/ipv6.h>
#include <linux/route.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n;
	int err = 0;

	if (fd < 0)
		return -errno;
	n = write(fd, text, strlen(text));
	if (n < 0)
		err = -errno;
	close(fd);
	return err;
}

int netns_sysctl(const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/sys/%s", name);
	return write_file(path, value);
}

static int userns_enter(void)
{
	unsigned uid = getuid(), gid = getgid();
	char map[64];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return -errno;
	snprintf(map, sizeof(map), "0 %u 1", uid);
	int err = write_file("/proc/self/setgroups", "deny");
	if (!err)
		err = write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	if (!err)
		err = write_file("/proc/self/gid_map", map);
	return err;
}

/* Makes one ioctl() on a temporary socket. */
static int net_ioctl(int family, unsigned long what, void *arg)
{
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (ioctl(fd, what, arg))
		err = -errno;
	close(fd);
	return err;
}

static int link_up(const char *name)
{
	struct ifreq req = { .ifr_flags = IFF_UP | IFF_RUNNING };

	memcpy(req.ifr_name, name, IFNAMSIZ - 1);
	return net_ioctl(AF_INET, SIOCSIFFLAGS, &req);
}

int netns_enter(void)
{
	char lo[IFNAMSIZ] = "lo";

	if (unshare(CLONE_NEWNET)) {
		if (errno != EPERM)
			return -errno;
		int err = userns_enter();
		if (err)
			return err;
	}
	return link_up(lo);
}

static struct sockaddr addr_v4(const uint8_t *b)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr sa;

	memcpy(&in.sin_addr, b, 4);
	memcpy(&sa, &in, sizeof(sa));
	return sa;
}

static int add_v4(const char *name, const struct ip_addr *a)
{
	static const uint8_t mask[4] = { 255, 255, 255, 255 };
	struct ifreq req = { .ifr_addr = addr_v4(a->b + 12) };

	memcpy(req.ifr_name, name, IFNAMSIZ - 1);
	int err = net_ioctl(AF_INET, SIOCSIFADDR, &req);
	if (err)
		return err;
	req.ifr_netmask = addr_v4(mask);
	return net_ioctl(AF_INET, SIOCSIFNETMASK, &req);
}

/* Waits until the kernel has checked an address for duplicates.  The check does nothing
 * here, but a work queue runs it. */
static int await_v6(const struct ip_addr *a)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6 };
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;

	if (fd < 0)
		return -errno;
	memcpy(&sa.sin6_addr, a->b, 16);
	for (unsigned ms = 0; ms < 2000; ms++) {
		err = bind(fd, (struct sockaddr *)&sa, sizeof(sa)) ? -errno : 0;
		if (err != -EADDRNOTAVAIL)
			break;
		poll(NULL, 0, 1);
	}
	close(fd);
	return err;
}

static int add_v6(const char *name, const struct ip_addr *a)
{
	/* struct in6_ifreq, whose header cannot stand beside <netinet/in.h>. */
	struct {
		struct in6_addr addr;
		uint32_t prefix;
		int index;
	} req = { .prefix = 128, .index = (int)if_nametoindex(name) };

	memcpy(&req.addr, a->b, 16);
	int err = net_ioctl(AF_INET6, SIOCSIFADDR, &req);
	return err ? err : await_v6(a);
}

static int route_v4(char *name)
{
	static const uint8_t any[4];
	struct rtentry rt = { .rt_dst = addr_v4(any),
			      .rt_genmask = addr_v4(any),
			      .rt_flags = RTF_UP,
			      .rt_dev = name };

	return net_ioctl(AF_INET, SIOCADDRT, &rt);
}

static int route_v6(const char *name)
{
	/* struct in6_rtmsg */
	struct {
		struct in6_addr dst, src, gateway;
		uint32_t type;
		uint16_t dst_len, src_len;
		uint32_t metric;
		unsigned long info;
		uint32_t flags;
		int index;
	} rt = { .metric = 1,
		 .flags = RTF_UP,
		 .index = (int)if_nametoindex(name) };

	return net_ioctl(AF_INET6, SIOCADDRT, &rt);
}

/* Makes the device send nothing but TCP's packets. */
static int be_quiet(const char *name)
{
	static const char *const off[] = { "accept_dad", "accept_ra",
					   "router_solicitations",
					   "dad_transmits" };
	char path[96];
	int err = 0;

	for (unsigned i = 0; i < 4 && !err; i++) {
		snprintf(path, sizeof(path), "net/ipv6/conf/%s/%s", name,
			 off[i]);
		err = netns_sysctl(path, "0");
	}
	snprintf(path, sizeof(path), "net/ipv6/conf/%s/addr_gen_mode", name);
	return err ? err : netns_sysctl(path, "1");
}

static int tun_create(struct tun *t, uint32_t mtu)
{
	struct ifreq req = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	int err;

	t->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (t->fd < 0)
		return -errno;
	memcpy(req.ifr_name, "tun0", 5);
	if (ioctl(t->fd, TUNSETIFF, &req))
		return -errno;
	memcpy(t->name, req.ifr_name, IFNAMSIZ);
	req.ifr_mtu = (int)mtu;
	err = net_ioctl(AF_INET, SIOCSIFMTU, &req);
	return err ? err : be_quiet(t->name);
}

int tun_open(struct tun *t, uint32_t mtu, const struct ip_addr *locals,
	     uint32_t n)
{
	*t = TUN_NONE;
	int err = tun_create(t, mtu);
	if (!err)
		err = link_up(t->name);
	for (uint32_t i = 0; i < n && !err; i++)
		err = ip_addr_is_v4(&locals[i]) ? add_v4(t->name, &locals[i])
						: add_v6(t->name, &locals[i]);
	if (!err)
		err = route_v4(t->name);
	if (!err)
		err = route_v6(t->name);
	if (err)
		tun_close(t);
	return err;
}

void tun_close(struct tun *t)
{
	if (t->fd >= 0)
		close(t->fd);
	*t = TUN_NONE;
}

int tun_write(const struct tun *t, const uint8_t *p, uint32_t len)
{
	return write(t->fd, p, len) < 0 ? -errno : 0;
}

/* Multicast listener reports: the kernel sends them unasked, and nothing turns them
 * off. */
static bool is_mld(const uint8_t *p, ssize_t n)
{
	return n >= IPV6_HEAD && p[0] >> 4 == 6 && p[6] == 0;
}

ssize_t tun_read(const struct tun *t, uint8_t *p, uint32_t cap,
		 uint64_t timeout_ns)
{
	uint64_t until = now_ns() + timeout_ns;

	for (;;) {
		ssize_t n = read(t->fd, p, cap);
		if (n >= 0 && !is_mld(p, n))
			return n;
		if (n >= 0)
			continue;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		uint64_t now = now_ns();
		if (now >= until)
			return -EAGAIN;
		struct timespec left = ns_timespec(until - now);
		struct pollfd p1 = { .fd = t->fd, .events = POLLIN };
		if (ppoll(&p1, 1, &left, NULL) < 0 && errno != EINTR)
			return -errno;
	}
}
