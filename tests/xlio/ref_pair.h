/* SPDX-License-Identifier: MIT */
/*
 * tests/xlio/ref_pair.h - a pair of sockets that sends by reference, what its receiver
 * keeps, and a receiver in another process
 */
#pragma once

#include "xlio_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#define FLUSH XLIO_SOCKET_SEND_FLAG_FLUSH
#define PAGE 4096u
#define BLOCK (64 * 1024u)

struct ibv_pd;
struct ibv_mr { /* as far as it matters here */
	void *context, *pd, *addr;
	size_t length;
	uint32_t handle, lkey, rkey;
};
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t n, int access);
int ibv_dereg_mr(struct ibv_mr *mr);

/* Open descriptors: those that are hidden from the program, too. */
static inline int n_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	EXPECT(d != NULL);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static inline double cpu_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* What the receiver keeps. */
static struct {
	struct xlio_buf *buf;
	uint8_t *data;
	size_t len;
} kept[1024];
static int n_kept;

static inline bool keep(struct end *e, void *data, size_t len,
			struct xlio_buf *buf)
{
	(void)e;
	EXPECT(n_kept < 1024);
	kept[n_kept].buf = buf;
	kept[n_kept].data = data;
	kept[n_kept++].len = len;
	return true;
}

static inline void give_back(int i)
{
	xlio_poll_group_buf_free(w->server, kept[i].buf);
	kept[i] = kept[--n_kept];
}

/* Do they hold the stream of @key, in the order of arrival? */
static inline bool kept_are(uint64_t key)
{
	size_t off = 0;

	for (int i = 0; i < n_kept; off += kept[i++].len)
		if (!stream_is(kept[i].data, key, off, kept[i].len))
			return false;
	return true;
}

static inline void send_key(struct end *e, const void *data, size_t len,
			    uint32_t key)
{
	struct xlio_socket_send_attr attr = { .flags = FLUSH,
					      .mkey = key,
					      .userdata_op = (uintptr_t)data };

	e->n_ops++;
	EXPECT_EQ(xlio_socket_send(e->sock, data, len, &attr), 0);
}

static inline uint8_t *block(size_t len, uint64_t key)
{
	uint8_t *data = osf_mem_alloc(len);

	EXPECT(data != NULL);
	stream_fill(data, key, 0, len);
	return data;
}

/* A pair whose ends know each other's memory already. */
static inline void ref_pair(struct end **c, struct end **s)
{
	uint8_t *first = block(PAGE, 0);
	size_t had;

	pair(c, s);
	had = (*s)->received;
	send_key(*c, first, PAGE, 0);
	UNTIL((*s)->received == had + PAGE && (*c)->n_comps == (*c)->n_ops);
	(*s)->received = 0;
	osf_mem_free(first);
}

/* A world in which the receiver holds what was sent by reference. */
static inline void ref_pair_holding(struct end **c, struct end **s,
				    const uint8_t *data, size_t len)
{
	world_open(0);
	ref_pair(c, s);
	w->on_rx = keep;
	send_key(*c, data, len, 0);
	UNTIL((*s)->received == len);
}

static inline uint8_t *shared_mapping(size_t len, int *fd)
{
	*fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	EXPECT_EQ(ftruncate(*fd, (off_t)len), 0);
	uint8_t *data =
	    mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	EXPECT(data != MAP_FAILED);
	return data;
}

static inline uint64_t refs_of(struct end *c, struct end *s,
			       const uint8_t *data, size_t len, uint32_t key)
{
	uint64_t before = ref_bytes();
	size_t had = s->received;

	send_key(c, data, len, key);
	UNTIL(s->received == had + len && c->n_comps == c->n_ops);
	return ref_bytes() - before;
}

/* Serve what the parent connects, until killed; what arrives is checked and counted in
 * @seen, and kept if @keeps. */
static inline void serve(volatile uint64_t *seen, bool keeps)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	world_open(0);
	w->on_rx = keeps ? keep : NULL;
	memcpy((void *)(seen + 8), &w->addr, sizeof(w->addr));
	seen[1] = w->addr_len;
	for (;;) {
		poll_both();
		if (w->newest) {
			w->newest->key = 77;
			seen[0] = w->newest->received;
		}
	}
}

static inline pid_t serve_apart(volatile uint64_t **seen, bool keeps)
{
	*seen = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = fork();

	if (!pid)
		serve(*seen, keeps);
	while (!(*seen)[1])
		usleep(1000);
	struct xlio_poll_group_attr attr = world_attr(0);
	world_open_with(&attr, &attr);
	memcpy(&w->addr, (void *)(*seen + 8), sizeof(w->addr));
	w->addr_len = (socklen_t)(*seen)[1];
	return pid;
}

/* A connection to a receiver apart, which reads our memory already.  @data becomes what its
 * stream goes on with; what it has seen so far is in *@seen. */
static inline struct end *connect_apart(volatile uint64_t *seen, uint8_t *data,
					size_t len)
{
	struct end *c = end_connect();
	uint64_t before = ref_bytes();
	double limit = now() + 40;
	size_t sent = 0;

	UNTIL(c->n_established);
	do {
		uint8_t *page = osf_mem_alloc(PAGE); /* it may keep it */

		EXPECT(page && now() < limit);
		stream_fill(page, 77, sent, PAGE);
		send_key(c, page, PAGE, 0);
		sent += PAGE;
		UNTIL(seen[0] == sent);
	} while (is_shm() && ref_bytes() == before);
	stream_fill(data, 77, sent, len);
	return c;
}

/* The same of a receiver apart, block by block. */
static inline struct end *held_apart(volatile uint64_t *seen, uint8_t *data,
				     size_t len)
{
	struct end *c = connect_apart(seen, data, len);
	size_t had = seen[0];

	for (size_t sent = 0; sent < len; sent += BLOCK) {
		send_key(c, data + sent, BLOCK, 0);
		UNTIL(seen[0] == had + sent + BLOCK);
	}
	return c;
}
