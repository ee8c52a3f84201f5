/* SPDX-License-Identifier: MIT */
/* cm/addr.c - see cm/addr.h */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "cm/addr.h"
#include "rdma/core.h"

#define PREFIX "osf-cm/"
#define PORT_FIRST 32768u /* of those that are given out */
#define PORT_LAST 60999u

socklen_t addr_len(const union addr *a)
{
	return a->sa.sa_family == AF_INET ? sizeof(a->in) : sizeof(a->in6);
}

bool addr_is_ip(const union addr *a)
{
	return a->sa.sa_family == AF_INET || a->sa.sa_family == AF_INET6;
}

bool addr_is_any(const union addr *a)
{
	return a->sa.sa_family == AF_INET
		   ? a->in.sin_addr.s_addr == 0
		   : IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr);
}

bool addr_is_loopback(const union addr *a)
{
	return a->sa.sa_family == AF_INET
		   ? ntohl(a->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
		   : IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
}

bool addr_is_multicast(const union addr *a)
{
	return a->sa.sa_family == AF_INET
		   ? IN_MULTICAST(ntohl(a->in.sin_addr.s_addr))
		   : IN6_IS_ADDR_MULTICAST(&a->in6.sin6_addr);
}

bool addr_is_equal(const union addr *a, const union addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return IN6_ARE_ADDR_EQUAL(&a->in6.sin6_addr, &b->in6.sin6_addr);
}

/* Both structs have the port at the same place. */
uint16_t addr_port(const union addr *a) { return ntohs(a->in.sin_port); }

void addr_set_port(union addr *a, uint16_t port)
{
	a->in.sin_port = htons(port);
}

void addr_set_loopback(union addr *a)
{
	if (a->sa.sa_family == AF_INET)
		a->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		a->in6.sin6_addr = in6addr_loopback;
}

/*
 * This host's addresses: the kernel knows them.
 */

int addr_check_local(const union addr *a)
{
	union addr with_no_port = *a;

	if (addr_is_multicast(a))
		return -EADDRNOTAVAIL;
	addr_set_port(&with_no_port, 0);
	int s = libc.socket(a->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return -errno;
	int err = libc.bind(s, &with_no_port.sa, addr_len(a)) ? -errno : 0;
	nocancel_close(s);
	return err;
}

int addr_source(const union addr *dst, union addr *src)
{
	union addr to = *dst;
	socklen_t len = sizeof(*src);

	if (!addr_port(&to))
		addr_set_port(&to, 1);
	int s = libc.socket(dst->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return -errno;
	memset(src, 0, sizeof(*src));
	int err = nocancel_connect(s, &to.sa, addr_len(&to)) ||
			  libc.getsockname(s, &src->sa, &len)
		      ? -errno
		      : 0;
	nocancel_close(s);
	addr_set_port(src, 0);
	return err;
}

union ibv_gid addr_as_gid(const union addr *a)
{
	union ibv_gid gid = { 0 };

	if (a->sa.sa_family == AF_INET) {
		gid.raw[10] = gid.raw[11] = 0xff;
		memcpy(gid.raw + 12, &a->in.sin_addr, 4);
	} else {
		memcpy(gid.raw, &a->in6.sin6_addr, 16);
	}
	return gid;
}

bool addr_has_gid(const union addr *a)
{
	union ibv_gid gid = addr_as_gid(a);

	return device_find_gid(&gid) >= 0;
}

uint8_t addr_gid(const union addr *a, union ibv_gid *gid)
{
	int i;

	*gid = addr_as_gid(a);
	i = device_find_gid(gid);
	if (i >= 0)
		return (uint8_t)i;
	/* An address of this host's without a GID has the first one. */
	if (!addr_check_local(a) && device_gid(0, gid, NULL))
		memset(gid, 0, sizeof(*gid));
	return 0;
}

/*
 * Names.
 */

static socklen_t make_name(struct sockaddr_un *un, uint16_t ps, uint16_t port,
			   const char *where)
{
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	int n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1,
			 PREFIX "%u/%u/%s", ps, port, where);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)n);
}

/* IPv4 and the same address as one of IPv6 are one name. */
static void write_address(const union addr *a, char text[INET6_ADDRSTRLEN])
{
	const uint8_t *raw = a->in6.sin6_addr.s6_addr;

	if (a->sa.sa_family == AF_INET)
		inet_ntop(AF_INET, &a->in.sin_addr, text, INET6_ADDRSTRLEN);
	else if (IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr))
		inet_ntop(AF_INET, raw + 12, text, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, raw, text, INET6_ADDRSTRLEN);
}

static bool is_ipv4(const union addr *a)
{
	return a->sa.sa_family == AF_INET ||
	       IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr);
}

static void where_of(const union addr *a, bool is_only,
		     char text[INET6_ADDRSTRLEN])
{
	if (!addr_is_any(a))
		write_address(a, text);
	else
		strcpy(text, a->sa.sa_family == AF_INET ? "4any"
			     : is_only                  ? "6only"
							: "6any");
}

/* May names at @a and @b, as where_of() writes them, have the same port? */
static bool names_overlap(const char *a, const char *b)
{
	bool a_any = strchr("46", a[0]) && !strpbrk(a, ".:");
	bool b_any = strchr("46", b[0]) && !strpbrk(b, ".:");

	if (!a_any && !b_any)
		return false; /* two addresses; equal ones are one name */
	if (!strcmp(a, "6any") || !strcmp(b, "6any"))
		return true;
	/* What is left is of one family each. */
	bool a_is_4 = a_any ? a[0] == '4' : !strchr(a, ':');
	bool b_is_4 = b_any ? b[0] == '4' : !strchr(b, ':');
	return a_is_4 == b_is_4;
}

/* Does another socket have a name for the same port that overlaps with @where?  The caller
 * has bound its own name before, so of two processes that try at once at least one sees the
 * other. */
static bool is_taken(uint16_t ps, uint16_t port, const char *where)
{
	char line[256], start[32];
	bool found = false;
	FILE *f = fopen("/proc/net/unix", "re");

	if (!f)
		return false;
	snprintf(start, sizeof(start), "@" PREFIX "%u/%u/", ps, port);
	while (!found && fgets(line, sizeof(line), f)) {
		char *name = strstr(line, start);

		if (!name)
			continue;
		name += strlen(start);
		name[strcspn(name, "\n@")] = '\0';
		found = strcmp(name, where) && names_overlap(name, where);
	}
	fclose(f);
	return found;
}

static int bind_name(int sock, uint16_t ps, uint16_t port, const char *where)
{
	struct sockaddr_un un;
	socklen_t len = make_name(&un, ps, port, where);

	return libc.bind(sock, (struct sockaddr *)&un, len) ? -errno : 0;
}

static int bind_free(int sock, uint16_t ps, union addr *a, const char *where)
{
	uint32_t n = PORT_LAST - PORT_FIRST + 1, at = 0;

	if (getrandom(&at, sizeof(at), 0) != sizeof(at))
		at = (uint32_t)getpid();
	for (uint32_t i = 0; i < n; i++) {
		uint16_t port = (uint16_t)(PORT_FIRST + (at % n + i) % n);
		int err = bind_name(sock, ps, port, where);

		if (err == -EADDRINUSE)
			continue;
		if (!err)
			addr_set_port(a, port);
		return err;
	}
	return -EADDRNOTAVAIL;
}

int addr_bind(int sock, uint16_t ps, union addr *a, bool is_only)
{
	char where[INET6_ADDRSTRLEN];

	where_of(a, is_only, where);
	if (!addr_port(a))
		return bind_free(sock, ps, a, where);
	int err = bind_name(sock, ps, addr_port(a), where);
	if (!err && is_taken(ps, addr_port(a), where))
		err = -EADDRINUSE; /* the caller closes the socket */
	return err;
}

/* The listener at the address itself comes before those at wildcards. */
int addr_connect(int sock, uint16_t ps, const union addr *a)
{
	char at[INET6_ADDRSTRLEN];
	const char *wheres[] = { at, is_ipv4(a) ? "4any" : "6only", "6any" };
	struct sockaddr_un un;

	write_address(a, at);
	for (unsigned i = 0; i < ARRAY_LEN(wheres); i++) {
		socklen_t len = make_name(&un, ps, addr_port(a), wheres[i]);

		if (!nocancel_connect(sock, (struct sockaddr *)&un, len))
			return 0;
		if (errno != ECONNREFUSED)
			return -errno;
	}
	return -ECONNREFUSED;
}
