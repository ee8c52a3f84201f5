/* SPDX-License-Identifier: MIT */
/* osfd/steer.c - loads and attaches port/packet/steer.bpf.c; see steer.h */
#include "osfd/steer.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"

/* Linux 6.6; headers of older kernels lack them. */
#define TCX_INGRESS 46
#define TCX_BEFORE (1u << 3)

/* What clang has made of steer.bpf.c: an ELF file. */
static const _Alignas(8) uint8_t steer_object[] = {
#include <steer_object.h> /* of the build */
};

static int map_ports(struct steer *s)
{
	void *ports = mmap(NULL, STEER_PORT_BYTES, PROT_READ | PROT_WRITE,
			   MAP_SHARED, s->ports_fd, 0);
	if (ports == MAP_FAILED)
		return -errno;
	s->used_ports = ports;
	s->n_of_port = calloc(UINT16_MAX + 1, sizeof(*s->n_of_port));
	return s->n_of_port ? 0 : -ENOMEM;
}

static void unmap_ports(struct steer *s)
{
	if (s->used_ports)
		munmap(s->used_ports, STEER_PORT_BYTES);
	free(s->n_of_port);
}

static int load(struct steer *s, uint32_t n_flows)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "osf_steer");

	s->object =
	    bpf_object__open_mem(steer_object, sizeof(steer_object), &opts);
	if (!s->object)
		return -errno;

	struct bpf_map *flows =
	    bpf_object__find_map_by_name(s->object, "flows");
	struct bpf_map *counts =
	    bpf_object__find_map_by_name(s->object, "counts");
	struct bpf_program *filter =
	    bpf_object__find_program_by_name(s->object, "steer_socket");
	struct bpf_map *bss = bpf_object__find_map_by_name(s->object, ".bss");
	assert(flows && counts && filter && bss);
	if (bpf_map__set_max_entries(flows, n_flows) < 0 ||
	    bpf_object__load(s->object) < 0)
		return -errno;
	s->ports_fd = bpf_map__fd(bss);
	s->flows_fd = bpf_map__fd(flows);
	s->counts_fd = bpf_map__fd(counts);
	s->filter_fd = bpf_program__fd(filter);
	return map_ports(s);
}

/* A packet socket takes a frame before any tc program sees it.  So our tc program must be
 * the first one, to stop the frame before others act on it. */
int steer_attach(struct steer *s, int ifindex)
{
	struct bpf_program *tc =
	    bpf_object__find_program_by_name(s->object, STEER_TC_NAME);
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = TCX_BEFORE);

	assert(tc);
	int fd =
	    bpf_link_create(bpf_program__fd(tc), ifindex, TCX_INGRESS, &opts);
	if (fd < 0)
		return errno == EINVAL ? -EOPNOTSUPP : -errno;
	s->link_fd = fd;
	if (bpf_obj_get_info_by_fd(bpf_program__fd(tc), &info, &len) == 0)
		s->tc_id = info.id;
	return 0;
}

int steer_open(struct steer *s, int ifindex, uint32_t n_flows)
{
	struct steer made = STEER_NONE;
	int err = load(&made, n_flows);

	if (!err)
		err = steer_attach(&made, ifindex);
	if (err) {
		steer_close(&made);
		return err;
	}
	*s = made;
	return 0;
}

void steer_detach(struct steer *s)
{
	if (s->link_fd < 0)
		return;
	bpf_link_detach(s->link_fd);
	close(s->link_fd);
	s->link_fd = -1;
}

bool steer_next(const struct steer *s, const struct steer_key *last,
		struct steer_key *key, struct steer_flow *flow)
{
	return bpf_map_get_next_key(s->flows_fd, last, key) == 0 &&
	       bpf_map_lookup_elem(s->flows_fd, key, flow) == 0;
}

void steer_close(struct steer *s)
{
	steer_detach(s);
	bpf_object__close(s->object);
	unmap_ports(s);
	*s = STEER_NONE;
}

int steer_share(struct steer *s, int flows_fd, int ports_fd)
{
	*s = STEER_NONE;
	s->flows_fd = flows_fd;
	s->ports_fd = ports_fd;
	return map_ports(s);
}

void steer_drop(struct steer *s)
{
	unmap_ports(s);
	close(s->flows_fd);
	close(s->ports_fd);
	*s = STEER_NONE;
}

static int addr_of(const struct sockaddr_storage *ss, uint8_t addr[16],
		   uint16_t *port)
{
	const struct sockaddr_in *in = (const void *)ss;
	const struct sockaddr_in6 *in6 = (const void *)ss;

	if (ss->ss_family == AF_INET) {
		memset(addr, 0, 10);
		memset(addr + 10, 0xff, 2);
		memcpy(addr + 12, &in->sin_addr, 4);
		*port = in->sin_port;
		return 0;
	}
	if (ss->ss_family != AF_INET6)
		return -EAFNOSUPPORT;
	memcpy(addr, &in6->sin6_addr, 16);
	*port = in6->sin6_port;
	return 0;
}

int steer_key_of(const struct sockaddr_storage *local,
		 const struct sockaddr_storage *peer, struct steer_key *out)
{
	struct steer_key k;
	int err = addr_of(local, k.local, &k.local_port);

	if (!err)
		err = addr_of(peer, k.peer, &k.peer_port);
	if (!err)
		*out = k;
	return err;
}

bool steer_is_v4(const uint8_t addr[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(addr, mapped, sizeof(mapped)) == 0;
}

/* The bit of a port is set from before its first flow is there to after its last one. */
static void port_used(struct steer *s, const struct steer_key *k)
{
	uint8_t bit = (uint8_t)(1u << (k->local_port & 7));

	if (!s->n_of_port[k->local_port]++)
		s->used_ports[k->local_port >> 3] |= bit;
}

static void port_unused(struct steer *s, const struct steer_key *k)
{
	uint8_t bit = (uint8_t)(1u << (k->local_port & 7));

	if (!--s->n_of_port[k->local_port])
		s->used_ports[k->local_port >> 3] &= (uint8_t)~bit;
}

int steer_set(struct steer *s, const struct steer_key *k,
	      const struct steer_flow *flow)
{
	bool is_new = !steer_has(s, k);

	if (is_new)
		port_used(s, k);
	int err =
	    bpf_map_update_elem(s->flows_fd, k, flow, BPF_ANY) < 0 ? -errno : 0;
	if (err && is_new)
		port_unused(s, k);
	return err;
}

bool steer_has(const struct steer *s, const struct steer_key *k)
{
	struct steer_flow flow;

	return bpf_map_lookup_elem(s->flows_fd, k, &flow) == 0;
}

bool steer_del(struct steer *s, const struct steer_key *k)
{
	if (bpf_map_delete_elem(s->flows_fd, k) < 0)
		return false;
	port_unused(s, k);
	return true;
}

void steer_counts(const struct steer *s, uint64_t counts[STEER_N_COUNTS])
{
	int n_cpus = libbpf_num_possible_cpus();
	AUTOFREE uint64_t *each =
	    n_cpus > 0 ? calloc((size_t)n_cpus, sizeof(*each)) : NULL;

	for (uint32_t i = 0; i < STEER_N_COUNTS; i++) {
		counts[i] = 0;
		if (!each || bpf_map_lookup_elem(s->counts_fd, &i, each) < 0)
			continue;
		for (int cpu = 0; cpu < n_cpus; cpu++)
			counts[i] += each[cpu];
	}
}
