/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/rdma_find.c - which processes use the software RDMA device, and how
 *
 *     /proc/PID/fd/N -> "/memfd:osf-rdma-BLOCK" -> struct x_dir, its queue pairs' memfds
 *
 * A process may write anything into this memory, at any time.  So we copy it by read() and
 * check its size, and use no number in it as an index before we have checked it.
 */
#include "rdma.h"
#include "osf.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "/memfd:osf-rdma-"

const char *rdma_type(uint32_t type)
{
	/* enum ibv_qp_type */
	static const char *const names[] = { "?",  "?",        "RC",      "UC",
					     "UD", "?",        "?",       "?",
					     "?",  "XRC send", "XRC recv" };

	return type < sizeof(names) / sizeof(*names) ? names[type] : "?";
}

const char *rdma_state(uint32_t state)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS",
					     "SQD",   "SQE",  "ERR" };

	return state < sizeof(names) / sizeof(*names) ? names[state] : "?";
}

/* The bits of enum ibv_access_flags, from the lowest on. */
struct rdma_text rdma_access(const struct x_mr *m)
{
	static const char *const names[] = { "local write", "remote write",
					     "remote read", "remote atomic" };
	struct rdma_text t = { "" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (m->access & 1u << i) {
			strcat(t.s, *t.s ? ", " : "");
			strcat(t.s, names[i]);
		}
	if (!*t.s)
		strcpy(t.s, "local read");
	if (m->kind == X_WINDOW)
		strcat(t.s, ", window");
	return t;
}

struct rdma_text rdma_host(const uint8_t *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct rdma_text t = { "?" };
	bool is_v4 = !memcmp(gid, mapped, sizeof(mapped));

	inet_ntop(is_v4 ? AF_INET : AF_INET6, gid + (is_v4 ? 12 : 0), t.s,
		  sizeof(t.s));
	return t;
}

/* Copies the beginning of descriptor @fd of process @pid, if it is a file of ours.
 * *@bytes: how much memory the whole file takes. */
static bool copy_memory(pid_t pid, int fd, void *to, size_t size,
			uint64_t *bytes)
{
	char path[64], target[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	if (n < 0 || strncmp(target, NAME, strlen(NAME)))
		return false;
	int at = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (at < 0)
		return false;
	bool is_good = !fstat(at, &st) && S_ISREG(st.st_mode) &&
		       st.st_size >= (off_t)size &&
		       pread(at, to, size, 0) == (ssize_t)size;
	close(at);
	*bytes = is_good ? (uint64_t)st.st_blocks * 512 : 0;
	return is_good;
}

/* The number of its directory's descriptor, or -1. */
static int directory_of(pid_t pid)
{
	char path[64], target[64];
	int found = -1;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && found < 0 && (e = readdir(dir));) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, target,
				       sizeof(target) - 1);

		target[n > 0 ? n : 0] = '\0';
		if (!strncmp(target, NAME, strlen(NAME)) &&
		    isdigit((unsigned char)target[strlen(NAME)]))
			found = atoi(e->d_name);
	}
	if (dir)
		closedir(dir);
	return found;
}

static void read_name(struct rdma_process *p)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", p->pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, p->name, sizeof(p->name) - 1);
	if (fd >= 0)
		close(fd);
	p->name[n > 0 ? n : 0] = '\0';
	p->name[strcspn(p->name, "\n")] = '\0';
	for (char *c = p->name; *c; c++)
		if (!isprint((unsigned char)*c))
			*c = '?';
}

static void read_qps(struct rdma_process *p)
{
	struct rdma_qp qp;

	for (uint32_t i = 0; i < N_QPS; i++) {
		int fd = p->dir->qp_fd[i] - 1;

		if (fd < 0 ||
		    !copy_memory(p->pid, fd, &qp.x, sizeof(qp.x), &qp.bytes) ||
		    qp.x.magic != EXPORT_MAGIC ||
		    qp.x.version != EXPORT_VERSION)
			continue;
		p->qps = xgrow(p->qps, p->n_qps, sizeof(*p->qps));
		p->qps[p->n_qps++] = qp;
	}
}

static bool read_process(struct rdma_process *p, pid_t pid)
{
	int fd = directory_of(pid);

	if (fd < 0)
		return false;
	*p = (struct rdma_process){ .pid = pid,
				    .dir = xcalloc(1, sizeof(*p->dir)) };
	uint64_t bytes;
	if (!copy_memory(pid, fd, p->dir, sizeof(*p->dir), &bytes) ||
	    p->dir->magic != EXPORT_MAGIC ||
	    p->dir->version != EXPORT_VERSION) {
		free(p->dir);
		return false;
	}
	read_name(p);
	read_qps(p);
	return true;
}

void rdma_find(struct rdma_list *l)
{
	DIR *dir = opendir("/proc");
	struct rdma_process p;

	*l = (struct rdma_list){ 0 };
	for (struct dirent *e; dir && (e = readdir(dir));) {
		if (!isdigit((unsigned char)*e->d_name) ||
		    !read_process(&p, atoi(e->d_name)))
			continue;
		l->processes = xgrow(l->processes, l->n, sizeof(*l->processes));
		l->processes[l->n++] = p;
	}
	if (dir)
		closedir(dir);
}

void rdma_free(struct rdma_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->processes[i].dir);
		free(l->processes[i].qps);
	}
	free(l->processes);
}
