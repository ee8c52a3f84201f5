/* SPDX-License-Identifier: MIT */
/* proto/tcp/engine.c - a stack of our own TCP on a port; see engine.h */
#include "proto/tcp/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "base/program.h"
#include "port/packet/ether.h"
#include "proto/tcp/drive.h"
#include "tcp/tcp.h"

/* Memory is taken when it is used first; these are limits. */
#define N_CONNS 4096
#define N_RANGES 32768
#define N_EXTENTS 8192
#define EXTENT_BYTES 4096
/* Of a connection, each way.  A thaw gives as much back to the kernel's socket. */
#define BUF_BYTES (256u << 10)
#define GSO_MAX 61440
#define RCV_MEM (24u << 20)

struct engine {
	struct ether_port ether;
	struct tcp_stack *stack;
	size_t mem_bytes;
	uint64_t n_refused, n_cut, n_full; /* told */
};

static void *lazy_memory(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, bytes, MADV_DONTFORK); /* a stack is one process's */
	return p;
}

/* The address is replaced by the first connection's. */
static int make_stack(struct engine *e, const struct engine_device *dev,
		      uint64_t now_ns)
{
	struct tcp_config cfg = {
		.n_addrs = 1,
		.mtu = MIN(dev->mtu, (uint32_t)IP_MAX), /* lo has more */
		.gso_max = GSO_MAX,
		.offers = TCP_OFFER_ALL,
		.snd_buf = BUF_BYTES,
		.rcv_buf = BUF_BYTES,
		.rcv_mem = RCV_MEM,
		.cc = &tcp_cubic,
		.is_guest = true,
		.has_port_sums = true,
		.n_conns = N_CONNS,
		.n_reqsks = 1,
		.n_ranges = N_RANGES,
		.n_extents = N_EXTENTS,
		.extent_bytes = EXTENT_BYTES,
	};

	if (getrandom(&cfg.key, sizeof(cfg.key), 0) != sizeof(cfg.key))
		return -EIO;
	e->mem_bytes = tcp_stack_bytes(&cfg);
	void *mem = lazy_memory(e->mem_bytes);
	if (!mem)
		return -ENOMEM;
	e->stack = tcp_stack_init(mem, &cfg, now_ns);
	return 0;
}

int engine_open(int fd, const struct engine_device *dev, uint64_t now_ns,
		struct engine **out)
{
	struct engine *e = lazy_memory(sizeof(*e));

	if (!e) {
		nocancel_close(fd);
		return -ENOMEM;
	}
	int err = ether_open(&e->ether, fd, &dev->ring);
	if (err) {
		munmap(e, sizeof(*e));
		return err;
	}
	err = make_stack(e, dev, now_ns);
	if (err) {
		ether_close(&e->ether);
		munmap(e, sizeof(*e));
		return err;
	}
	ether_show(&e->ether, program_name());
	*out = e;
	return 0;
}

void engine_close(struct engine *e)
{
	tcp_stack_fini(e->stack);
	ether_close(&e->ether);
	munmap(e->stack, e->mem_bytes);
	munmap(e, sizeof(*e));
}

void engine_on_leave(struct engine *e, void (*leaves)(struct tcp_conn *c))
{
	e->ether.leaves = leaves;
}

int engine_reopen(struct engine *e, int fd, const struct packet_ring *ring)
{
	return ether_reopen(&e->ether, fd, ring);
}

struct tcp_stack *engine_stack(struct engine *e) { return e->stack; }
int engine_fd(const struct engine *e) { return e->ether.io.fd; }

int engine_reach(struct engine *e, const struct ip_addr *local,
		 const struct ip_addr *to, const uint8_t mac[6])
{
	int err = tcp_add_addr(e->stack, local);

	return err ? err : ether_hop(&e->ether, to, mac);
}

void engine_in(struct engine *e, uint64_t now_ns)
{
	drive_in(e->stack, &e->ether.port, now_ns);
}

void engine_out(struct engine *e, uint64_t now_ns)
{
	drive_out(e->stack, &e->ether.port, now_ns);
}

bool engine_has_come(const struct engine *e)
{
	return ether_has_come(&e->ether);
}

uint64_t engine_next_ns(const struct engine *e)
{
	return drive_next_ns(e->stack, &e->ether.port);
}

/* Has a count changed since it was told? */
static bool has_changed(uint64_t *told, uint64_t n)
{
	bool any = n != *told;

	*told = n;
	return any;
}

bool engine_has_refused(struct engine *e)
{
	return has_changed(&e->n_refused, e->ether.n_refused);
}

bool engine_has_cut(struct engine *e)
{
	return has_changed(&e->n_cut, e->ether.io.stats.n_rx_cut);
}

bool engine_has_been_full(struct engine *e)
{
	return has_changed(&e->n_full, e->ether.io.stats.n_rx_full);
}

int engine_error(struct engine *e) { return ether_error(&e->ether); }
