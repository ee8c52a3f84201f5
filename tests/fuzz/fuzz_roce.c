/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_roce.c - packets of another host: any bytes, to the parsers and to a
 * connection that is at work
 *
 *     first byte: reliable or not, XRC or not; then a script of steps:
 *       a packet with its length     roce_parse(), roce_receive(), mad_parse()
 *       a request of our own         roce_send()
 *       time passes                  roce_tick()
 *
 * Besides not crashing, this holds:
 *   I1  the peer reaches no memory but the region with its key, and no byte around it
 *   I2  each request completes once, in order; nothing follows a failure
 *   I3  a message's bytes follow each other without a gap
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cm/mad.h"
#include "rdma/roce/conn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define N_WR 8u
#define REGION 4096u
#define KEY 0x101u
#define PSN 0xfffff0u
#define LARGEST 3000u

static struct {
	struct roce_conn c;
	struct roce_wr wr[N_WR];
	uint32_t head, done;
	uint32_t off; /* of the message that arrives */
	bool has_failed;
	uint32_t denied; /* an access; 0: none is */
	uint8_t *region;
	uint64_t now;
} t;

static void op_send(struct roce_conn *c, struct roce_head *h,
		    const struct iovec *iov, int n)
{
	uint8_t bytes[ROCE_HEAD_MAX];
	uint32_t n_payload = 0;

	for (int i = 0; i < n; i++)
		n_payload += (uint32_t)iov[i].iov_len;
	assert(n_payload <= c->cf.mtu);
	assert(roce_build(h, n_payload, bytes) <= sizeof(bytes));
}

static int op_gather(struct roce_conn *c, uint32_t i, uint32_t off, uint32_t n,
		     struct iovec *iov)
{
	static uint8_t bytes[ROCE_MTU_MAX];

	assert(off + n <= roce_wr_at(c, i)->length);
	*iov = (struct iovec){ bytes, n };
	return 1;
}

static bool op_scatter(struct roce_conn *c, uint32_t i, uint32_t off,
		       const void *from, uint32_t n)
{
	static uint8_t bytes[LARGEST];

	assert(i == t.done && off + n <= roce_wr_at(c, i)->length);
	memcpy(bytes, from, n);
	return true;
}

static void op_done(struct roce_conn *c, uint32_t i, enum ibv_wc_status status)
{
	assert(i == t.done && (int32_t)(t.head - i) > 0 && !t.has_failed);
	t.done++;
	t.has_failed = status != IBV_WC_SUCCESS;
}

static bool op_has_queue(struct roce_conn *c)
{
	assert(c->cf.is_xrc);
	return c->rsp.srqn < 0x800000;
}

static bool op_take(struct roce_conn *c)
{
	assert(!c->cf.is_xrc || op_has_queue(c));
	return t.now % 5 != 0;
}

static enum ibv_wc_status op_put(struct roce_conn *c, uint32_t off,
				 const void *from, uint32_t n)
{
	assert(off == 0 || off == t.off);
	if (off + n > REGION)
		return IBV_WC_LOC_LEN_ERR;
	t.off = off + n;
	memcpy(t.region + off, from, n);
	return IBV_WC_SUCCESS;
}

static void op_arrived(struct roce_conn *c, const struct roce_arrival *a)
{
	assert(a->is_write || a->length == t.off);
	t.off = 0;
}

static bool op_permits(struct roce_conn *c, uint32_t access)
{
	return access != t.denied;
}

static bool op_may(struct roce_conn *c, uint32_t rkey, uint64_t addr,
		   uint32_t n, uint32_t access)
{
	return rkey == KEY && addr <= REGION && n <= REGION - addr;
}

static bool op_write(struct roce_conn *c, uint32_t rkey, uint64_t addr,
		     const void *from, uint32_t n)
{
	assert(op_may(c, rkey, addr, n, 0));
	memcpy(t.region + addr, from, n);
	return true;
}

static bool op_read(struct roce_conn *c, uint32_t rkey, uint64_t addr, void *to,
		    uint32_t n)
{
	assert(op_may(c, rkey, addr, n, 0));
	memcpy(to, t.region + addr, n);
	return true;
}

static bool op_atomic(struct roce_conn *c, uint32_t rkey, uint64_t addr,
		      bool is_swap, uint64_t swap_add, uint64_t compare,
		      uint64_t *was)
{
	assert(op_may(c, rkey, addr, 8, 0) && addr % 8 == 0);
	memcpy(was, t.region + addr, 8);
	memcpy(t.region + addr, &swap_add, 8);
	return true;
}

static int op_local(struct roce_conn *c, uint32_t i)
{
	assert((int32_t)(i - t.done) >= 0 && (int32_t)(t.head - i) > 0);
	return t.now % 3 ? IBV_WC_SUCCESS : -1;
}

static bool op_invalidate(struct roce_conn *c, uint32_t rkey)
{
	return rkey == KEY;
}

static void op_fail(struct roce_conn *c, enum ibv_wc_status status,
		    enum ibv_event_type event)
{
	assert(!t.has_failed);
	t.has_failed = true;
}

static const struct roce_ops ops = {
	.send = op_send,
	.gather = op_gather,
	.scatter = op_scatter,
	.done = op_done,
	.has_queue = op_has_queue,
	.take = op_take,
	.put = op_put,
	.arrived = op_arrived,
	.permits = op_permits,
	.may = op_may,
	.write = op_write,
	.read = op_read,
	.atomic = op_atomic,
	.local = op_local,
	.invalidate = op_invalidate,
	.fail = op_fail,
};

/* The input's bytes, where a sanitizer sees their end. */
static void packet(const uint8_t *p, size_t n)
{
	struct roce_head h;
	struct mad d;
	uint8_t *bytes = malloc(n ? n : 1);

	memcpy(bytes, p, n);
	if (mad_parse(bytes, n, &d))
		assert(d.m.p.private_len <= 196);
	if (roce_parse(bytes, n, &h)) {
		/* Near what is expected: most others are dropped at once. */
		h.psn = psn_add(PSN, h.psn % 64);
		roce_receive(&t.c, &h, t.now);
		roce_flush(&t.c, t.now);
	}
	free(bytes);
}

static void request(uint8_t kind, uint8_t size)
{
	if (t.head - t.done == N_WR || t.has_failed)
		return;
	struct roce_wr *w = roce_wr_at(&t.c, t.head++);

	*w = (struct roce_wr){ .kind = t.c.cf.is_uc ? kind % 2 : kind % 6,
			       .flags = kind >> 4,
			       .length = size * 11u,
			       .rkey = KEY };
	if (w->kind == REQ_SWAP || w->kind == REQ_ADD)
		w->length = 8;
	roce_send(&t.c, t.head, t.now);
}

static void begin(uint8_t how)
{
	const struct roce_config cf = { .is_uc = how & 1,
					.is_xrc = (how & 65) == 64,
					.mtu = 256,
					.timeout = 10,
					.retry_cnt = 7,
					.rnr_retry = how >> 1 & 7,
					.max_rd_atomic = 4 };

	memset(&t, 0, sizeof(t));
	t.denied = how & 32 ? IBV_ACCESS_REMOTE_READ : 0;
	t.region = malloc(REGION);
	memset(t.region, 0, REGION);
	roce_init(&t.c, &ops, &cf, t.wr, N_WR - 1);
	t.c.patience_ns = how & 16 ? 5000 : 0;
	roce_set_psn(&t.c, PSN);
	roce_expect_psn(&t.c, PSN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = data + size;

	if (!size)
		return 0;
	begin(*data++);
	while (end - data > 2) {
		uint8_t step = *data++, a = *data++, b = *data++;

		t.now += 1000;
		if (step < 160) {
			size_t n = MIN((size_t)(a | (b & 1) << 8),
				       (size_t)(end - data));

			packet(data, n);
			data += n;
		} else if (step < 220) {
			request(a, b);
		} else {
			t.now += (uint64_t)a << 16;
			roce_tick(&t.c, t.now);
		}
	}
	free(t.region);
	return 0;
}
