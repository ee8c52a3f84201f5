/* SPDX-License-Identifier: MIT */
/*
 * tools/vma_stats/kernel.c - what the kernel says of a process's sockets
 *
 *     /proc/PID/fd           number -> inode
 *     /proc/PID/net/tcp, udp inode  -> state, ends, queues, datagrams dropped
 *     a copy of a socket            -> the groups it has joined, its options
 *
 * pidfd_getfd(2) makes the copies.  Root may call it, and other users may if they may trace
 * the process.  Without that right, groups are not known.
 */
#include "../osf/diag.h"
#include "vma_stats.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GROUPS_MAX 256u /* that a namespace may have joined */

struct held {
	uint64_t ino;
	int fd;
};

struct kernel {
	pid_t pid;
	struct held *held; /* the sockets under this process's numbers */
	size_t n_held;
	struct index by_ino, by_fd; /* of @held */
	struct index rows_by_ino;   /* of TCP */
	struct in_addr groups[GROUPS_MAX];
	unsigned ifs[GROUPS_MAX];
	size_t n_groups;
};

static void read_held(struct kernel *k)
{
	char path[64], to[64];
	struct dirent *e;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)k->pid);
	DIR *dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		struct held h = { .fd = atoi(e->d_name) };
		ssize_t n =
		    readlinkat(dirfd(dir), e->d_name, to, sizeof(to) - 1);

		to[n > 0 ? n : 0] = '\0';
		if (sscanf(to, "socket:[%" SCNu64 "]", &h.ino) != 1)
			continue;
		k->held = xgrow(k->held, k->n_held, sizeof(h));
		k->held[k->n_held++] = h;
	}
	if (dir)
		closedir(dir);
	index_init(&k->by_ino, sizeof(k->held->ino), k->n_held);
	index_init(&k->by_fd, sizeof(k->held->fd), k->n_held);
	for (size_t i = 0; i < k->n_held; i++) {
		index_put(&k->by_ino, &k->held[i].ino, (uint32_t)i);
		index_put(&k->by_fd, &k->held[i].fd, (uint32_t)i);
	}
}

static const struct held *held_by_ino(const struct kernel *k, uint64_t ino)
{
	uint32_t i = index_get(&k->by_ino, &ino);

	return i == INDEX_NONE ? NULL : &k->held[i];
}

static uint64_t ino_of(const struct kernel *k, int fd)
{
	uint32_t i = index_get(&k->by_fd, &fd);

	return i == INDEX_NONE ? 0 : k->held[i].ino;
}

unsigned fd_flags(pid_t pid, int fd)
{
	char path[64], line[128];
	unsigned flags = 0;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (int)pid, fd);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "flags: %o", &flags) == 1)
			break;
	if (f)
		fclose(f);
	return flags;
}

/* ---- /proc/net/tcp and the like ---- */

struct line {
	struct in6_addr local, peer;
	uint16_t local_port, peer_port;
	uint8_t state;
	uint64_t rx_queue, tx_queue, ino, n_drops;
};

/* An address as the kernel prints it: words in this machine's order. */
static bool parse_addr(const char *s, struct in6_addr *to)
{
	size_t n = strlen(s) / 8;
	uint32_t words[4];

	if (n != 1 && n != 4)
		return false;
	for (size_t i = 0; i < n; i++)
		if (sscanf(s + 8 * i, "%8" SCNx32, &words[i]) != 1)
			return false;
	struct diag_end e =
	    diag_end_of(n == 4 ? AF_INET6 : AF_INET, (const uint8_t *)words, 0);
	memcpy(to, e.addr, sizeof(*to));
	return true;
}

static bool parse_line(const char *s, struct line *l)
{
	char local[40], peer[40];
	unsigned lport, pport, state;

	*l = (struct line){ 0 };
	if (sscanf(s,
		   " %*d: %39[0-9A-F]:%x %39[0-9A-F]:%x %x %" SCNx64 ":%" SCNx64
		   " %*x:%*x %*x %*u %*u %" SCNu64 " %*d %*x %" SCNu64,
		   local, &lport, peer, &pport, &state, &l->tx_queue,
		   &l->rx_queue, &l->ino, &l->n_drops) < 8)
		return false;
	l->local_port = (uint16_t)lport;
	l->peer_port = (uint16_t)pport;
	l->state = (uint8_t)state;
	return parse_addr(local, &l->local) && parse_addr(peer, &l->peer);
}

static void take_tcp(struct rows *r, const struct kernel *k,
		     const struct line *l)
{
	uint32_t i = index_get(&k->rows_by_ino, &l->ino);

	if (i == INDEX_NONE)
		return;
	struct row *row = &r->rows[i];
	row->state = l->state;
	row->local = l->local;
	row->local_port = l->local_port;
	if (!row->is_offloaded) {
		row->rx_queue = l->rx_queue;
		row->tx_queue = l->tx_queue;
	}
}

static void add_udp(struct rows *r, const struct kernel *k,
		    const struct line *l)
{
	const struct held *h = held_by_ino(k, l->ino);

	if (!h)
		return;
	r->rows = xgrow(r->rows, r->n, sizeof(*r->rows));
	r->rows[r->n++] = (struct row){
		.fd = h->fd,
		.is_udp = true,
		.ino = l->ino,
		.state = l->state,
		.local = l->local,
		.peer = l->peer,
		.local_port = l->local_port,
		.peer_port = l->peer_port,
		.rx_queue = l->rx_queue,
		.tx_queue = l->tx_queue,
		.c.n_dropped = l->n_drops,
	};
}

static void read_table(struct rows *r, const struct kernel *k, const char *name)
{
	char path[64], *text = NULL;
	size_t size = 0;
	struct line l;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)k->pid, name);
	FILE *f = fopen(path, "re");
	while (f && getline(&text, &size, f) > 0) {
		if (!parse_line(text, &l) || !l.ino)
			continue;
		if (name[0] == 'u')
			add_udp(r, k, &l);
		else
			take_tcp(r, k, &l);
	}
	free(text);
	if (f)
		fclose(f);
}

/* ---- groups ---- */

/* All that sockets of the namespace have joined, with the interface. */
static void read_groups(struct kernel *k)
{
	char path[64], line[256];
	unsigned index = 0;
	uint32_t group;

	snprintf(path, sizeof(path), "/proc/%d/net/igmp", (int)k->pid);
	FILE *f = fopen(path, "re");
	while (f && k->n_groups < GROUPS_MAX && fgets(line, sizeof(line), f)) {
		if (line[0] != '\t') {
			index = (unsigned)strtoul(line, NULL, 10);
		} else if (sscanf(line, "\t%8" SCNx32, &group) == 1) {
			k->groups[k->n_groups].s_addr = group;
			k->ifs[k->n_groups++] = index;
		}
	}
	if (f)
		fclose(f);
}

int fd_copy(pid_t pid, int fd)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int copy = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);

	if (pidfd >= 0)
		close(pidfd);
	return copy;
}

/* The kernel tells a member the sources it has named, others an error. */
static bool is_member(int fd, struct in_addr group, unsigned index)
{
	struct group_filter filter = { .gf_interface = index };
	struct sockaddr_in *in = (struct sockaddr_in *)&filter.gf_group;
	socklen_t len = sizeof(filter);

	in->sin_family = AF_INET;
	in->sin_addr = group;
	return !getsockopt(fd, IPPROTO_IP, MCAST_MSFILTER, &filter, &len);
}

static void look_inside(const struct kernel *k, struct row *row)
{
	int fd = fd_copy(k->pid, row->fd), loop = 1, limit = 0;
	socklen_t len = sizeof(loop), len2 = sizeof(row->multicast_if);
	socklen_t len3 = sizeof(limit);

	row->is_multicast_loop = true;
	if (fd < 0)
		return;
	if (!getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &limit, &len3))
		row->rx_limit = (uint64_t)limit;
	if (!getsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &loop, &len))
		row->is_multicast_loop = loop != 0;
	if (row->is_udp)
		getsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &row->multicast_if,
			   &len2);
	for (size_t i = 0; row->is_udp && i < k->n_groups; i++) {
		if (!is_member(fd, k->groups[i], k->ifs[i]))
			continue;
		row->groups =
		    xgrow(row->groups, row->n_groups, sizeof(*row->groups));
		row->groups[row->n_groups++] = k->groups[i];
	}
	close(fd);
}

void kernel_look(struct rows *r, const struct process *p, bool wants_groups)
{
	static const char *const tables[] = { "tcp", "tcp6", "udp", "udp6" };
	struct kernel k = { .pid = p->pid };

	read_held(&k);
	index_init(&k.rows_by_ino, sizeof(r->rows->ino), r->n_tcp);
	for (size_t i = 0; i < r->n_tcp; i++) {
		if (!r->rows[i].ino)
			r->rows[i].ino = ino_of(&k, r->rows[i].fd);
		index_put(&k.rows_by_ino, &r->rows[i].ino, (uint32_t)i);
	}
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		read_table(r, &k, tables[i]);
	if (wants_groups)
		read_groups(&k);
	for (size_t i = 0; i < r->n; i++) {
		r->rows[i].is_blocking =
		    !(fd_flags(p->pid, r->rows[i].fd) & O_NONBLOCK);
		if (wants_groups)
			look_inside(&k, &r->rows[i]);
	}
	index_free(&k.by_ino);
	index_free(&k.by_fd);
	index_free(&k.rows_by_ino);
	free(k.held);
}
