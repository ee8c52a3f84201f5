/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/test_ends.c - errors, and the end of a peer
 *
 *     test_ends NAME ...     libosf-verbs.so comes first (LD_PRELOAD)
 *
 * Most tests have both queue pairs in this process.  In those with a peer, a forked child
 * has the other one, and is killed.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

static void test_send(void)
{
	struct end a, b;
	struct ibv_wc wc;

	pair(&a, &b, IBV_QPT_RC);
	for (uint32_t size = 0; size <= BUF; size = size ? size * 4 : 1) {
		memset(b.buf, 0, BUF);
		memset(a.buf, 0x5a, BUF);
		CHECK(!post_recv(&b, 1, BUF));
		CHECK(!post(&a, IBV_WR_SEND, size, a.mr->lkey, NULL));
		CHECK(next(&a).status == IBV_WC_SUCCESS);
		wc = next(&b);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == size &&
		      wc.wr_id == 1 && wc.opcode == IBV_WC_RECV);
		CHECK(!memcmp(a.buf, b.buf, size));
		CHECK(size == BUF || b.buf[size] == 0);
	}
}

/* Both ends learn that the receive was too short, and are over. */
static void test_length(void)
{
	struct end a, b;

	pair(&a, &b, IBV_QPT_RC);
	CHECK(!post_recv(&b, 1, 10));
	CHECK(!post_recv(&b, 2, 10));
	CHECK(!post(&a, IBV_WR_SEND, 11, a.mr->lkey, NULL));
	CHECK(next(&a).status == IBV_WC_REM_INV_REQ_ERR);
	CHECK(next(&b).status == IBV_WC_LOC_LEN_ERR);
	CHECK(next(&b).status == IBV_WC_WR_FLUSH_ERR);
	CHECK(!post(&a, IBV_WR_SEND, 1, a.mr->lkey, NULL));
	CHECK(next(&a).status == IBV_WC_WR_FLUSH_ERR);
}

static void test_rnr(void)
{
	struct end a, b;

	pair(&a, &b, IBV_QPT_RC);
	CHECK(!post(&a, IBV_WR_SEND, 1, a.mr->lkey, NULL));
	CHECK(next(&a).status == IBV_WC_RNR_RETRY_EXC_ERR);
}

static void test_keys(void)
{
	struct end a, b;

	pair(&a, &b, IBV_QPT_RC);
	struct address to = address_of(&b);
	memset(a.buf, 0x77, 100);
	CHECK(!post(&a, IBV_WR_RDMA_WRITE, 100, a.mr->lkey, &to));
	CHECK(next(&a).status == IBV_WC_SUCCESS && b.buf[99] == 0x77);
	to.addr += BUF - 99; /* one byte too far */
	CHECK(!post_recv(&b, 1, 10));
	CHECK(!post(&a, IBV_WR_RDMA_WRITE, 100, a.mr->lkey, &to));
	CHECK(next(&a).status == IBV_WC_REM_ACCESS_ERR);
	CHECK(next(&b).status == IBV_WC_WR_FLUSH_ERR);
	struct ibv_async_event ev;
	CHECK(!ibv_get_async_event(b.ctx, &ev));
	CHECK(ev.event_type == IBV_EVENT_QP_ACCESS_ERR &&
	      ev.element.qp == b.qp);
	ibv_ack_async_event(&ev);

	pair(&a, &b, IBV_QPT_RC); /* no access to read */
	to = address_of(&b);
	struct ibv_mr *no_read = ibv_reg_mr(
	    b.pd, b.buf, BUF, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	to.rkey = no_read->rkey;
	CHECK(!post(&a, IBV_WR_RDMA_READ, 8, a.mr->lkey, &to));
	CHECK(next(&a).status == IBV_WC_REM_ACCESS_ERR);

	pair(&a, &b, IBV_QPT_RC); /* a key that is gone */
	to = address_of(&b);
	CHECK(!ibv_dereg_mr(b.mr));
	CHECK(!post(&a, IBV_WR_RDMA_WRITE, 8, a.mr->lkey, &to));
	CHECK(next(&a).status == IBV_WC_REM_ACCESS_ERR);

	pair(&a, &b, IBV_QPT_RC);
	CHECK(!post_recv(&b, 1, 10));
	CHECK(!post(&a, IBV_WR_SEND, 8, a.mr->lkey + 1, NULL));
	CHECK(next(&a).status == IBV_WC_LOC_PROT_ERR);

	pair(&a, &b, IBV_QPT_RC); /* a receive in memory that is gone */
	CHECK(!post_recv(&b, 1, 10));
	CHECK(!ibv_dereg_mr(b.mr));
	CHECK(!post(&a, IBV_WR_SEND, 8, a.mr->lkey, NULL));
	CHECK(next(&a).status == IBV_WC_REM_OP_ERR);
	CHECK(next(&b).status == IBV_WC_LOC_PROT_ERR);
}

/* What has arrived before a queue pair fails is not flushed. */
static void test_arrived(void)
{
	struct end a, b;
	struct ibv_wc wc;

	pair(&a, &b, IBV_QPT_RC);
	CHECK(!post_recv(&a, 1, BUF));
	CHECK(!post_recv(&a, 2, BUF));
	CHECK(!post_recv(&b, 3, BUF));
	CHECK(!post(&b, IBV_WR_SEND, 5, b.mr->lkey, NULL));
	CHECK(!post(&a, IBV_WR_SEND, 5, a.mr->lkey + 1, NULL));
	wc = next(&a);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 1 && wc.byte_len == 5);
	wc = next(&a);
	CHECK(wc.status == IBV_WC_LOC_PROT_ERR && wc.wr_id == 7);
	wc = next(&a);
	CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 2);
}

/* A message, and nothing after it, although there is a receive. */
static void send_one(struct end *a, struct end *b, uint32_t size)
{
	struct ibv_wc wc;

	CHECK(!post_recv(b, 1, size));
	CHECK(!post_recv(b, 2, size));
	CHECK(!post(a, IBV_WR_SEND, size, a->mr->lkey, NULL));
	CHECK(next(a).status == IBV_WC_SUCCESS);
	wc = next(b);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == size);
	CHECK(ibv_poll_cq(b->cq, 1, &wc) == 0);
	CHECK(!post(a, IBV_WR_SEND, size, a->mr->lkey, NULL));
	CHECK(next(a).status == IBV_WC_SUCCESS);
	CHECK(next(b).wr_id == 2);
	CHECK(!memcmp(a->buf, b->buf, size));
}

/* The bytes of a message lie where a message of the next round begins, and look as if it were
 * there (msg_stamp() of rdma/export.h). */
static void test_rounds(void)
{
	enum { SIZE = 64, IN_RING = SIZE + 32, RING = 256 * 1024 };
	struct end a, b;

	pair(&a, &b, IBV_QPT_RC);
	for (uint32_t pos = 0; pos < 4 * RING; pos += 2 * IN_RING) {
		uint16_t stamp = (uint16_t)((pos / RING + 1) | 0x8000);

		for (size_t i = 0; i < SIZE; i += sizeof(stamp))
			memcpy(a.buf + i, &stamp, sizeof(stamp));
		send_one(&a, &b, SIZE);
	}
}

/* One end after the other begins anew, and both meet again.  Where a message of the former life
 * was, there is none now. */
static void test_reset(void)
{
	struct end a, b;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	pair(&a, &b, IBV_QPT_RC);
	struct address at_a = address_of(&a), at_b = address_of(&b);
	for (int i = 0; i < 3; i++) {
		send_one(&a, &b, 3);
		CHECK(!ibv_modify_qp(b.qp, &attr, IBV_QP_STATE));
		end_connect(&b, &at_a);
		CHECK(!ibv_modify_qp(a.qp, &attr, IBV_QP_STATE));
		end_connect(&a, &at_b);
	}
}

/* Memory that is not there, or may not be written, is no region: a copy would end us. */
static void test_memory(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct end e;

	end_open(&e, IBV_QPT_RC);
	char *p = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED && !mprotect(p, page, PROT_READ));
	CHECK(!mprotect(p + 2 * page, page, PROT_NONE));
	struct ibv_mr *mr = ibv_reg_mr(e.pd, p, 2 * page, 0);
	CHECK(mr && !ibv_dereg_mr(mr));
	mr = ibv_reg_mr(e.pd, p + page, page, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr && !ibv_dereg_mr(mr));
	CHECK(!ibv_reg_mr(e.pd, p, 2 * page, IBV_ACCESS_LOCAL_WRITE) &&
	      errno == EFAULT);
	CHECK(!ibv_reg_mr(e.pd, p + page, 2 * page, 0) && errno == EFAULT);
	CHECK(!munmap(p + page, page));
	CHECK(!ibv_reg_mr(e.pd, p, 2 * page, 0) && errno == EFAULT);
	CHECK(!ibv_rereg_mr(e.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    IBV_ACCESS_LOCAL_WRITE));
	CHECK(ibv_rereg_mr(e.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p,
			   2 * page, 0) == IBV_REREG_MR_ERR_INPUT);
	munmap(p, 3 * page);
}

static void test_calls(void)
{
	struct end a, b;

	pair(&a, &b, IBV_QPT_RC);
	CHECK(ibv_dealloc_pd(a.pd) == EBUSY);
	CHECK(ibv_destroy_cq(a.cq) == EBUSY);
	CHECK(!ibv_reg_mr(a.pd, a.buf, BUF, IBV_ACCESS_REMOTE_WRITE) &&
	      errno == EINVAL);
	CHECK(!ibv_create_cq(a.ctx, 0, NULL, NULL, 0) && errno == EINVAL);
	CHECK(!ibv_create_cq(a.ctx, 1, NULL, NULL, 1) && errno == EINVAL);
	for (int i = 0; i < 8; i++)
		CHECK(!post_recv(&a, 1, 10));
	CHECK(post_recv(&a, 1, 10) == ENOMEM);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	CHECK(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE) == EINVAL);
	struct ibv_qp_init_attr init;
	CHECK(!ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init));
	CHECK(attr.qp_state == IBV_QPS_RTS && init.cap.max_send_wr == 8);
	CHECK(!ibv_destroy_qp(a.qp));
	CHECK(!ibv_destroy_cq(a.cq));
	CHECK(!ibv_destroy_comp_channel(a.ch));
	CHECK(!ibv_dereg_mr(a.mr));
	CHECK(!ibv_dealloc_pd(a.pd));
	CHECK(!ibv_close_device(a.ctx));
}

/* The child's queue pair is connected; it waits to be killed. */
static pid_t start_peer(struct end *e, struct address *theirs)
{
	struct address a;
	int sv[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		struct end mine;

		end_open(&mine, IBV_QPT_RC);
		a = address_of(&mine);
		CHECK(write(sv[1], &a, sizeof(a)) == sizeof(a));
		CHECK(read(sv[1], &a, sizeof(a)) == sizeof(a));
		end_connect(&mine, &a);
		CHECK(!post_recv(&mine, 1, BUF));
		CHECK(!post(&mine, IBV_WR_SEND, 5, mine.mr->lkey, NULL));
		CHECK(next(&mine).status == IBV_WC_SUCCESS);
		CHECK(write(sv[1], "", 1) == 1);
		for (;;)
			pause();
	}
	char byte;
	end_open(e, IBV_QPT_RC);
	a = address_of(e);
	CHECK(post_recv(e, 1, BUF) == EINVAL); /* not before INIT */
	CHECK(read(sv[0], theirs, sizeof(*theirs)) == sizeof(*theirs));
	end_connect(e, theirs);
	CHECK(!post_recv(e, 2, BUF));
	CHECK(!post_recv(e, 3, BUF));
	CHECK(write(sv[0], &a, sizeof(a)) == sizeof(a));
	CHECK(read(sv[0], &byte, 1) == 1);
	close(sv[0]);
	close(sv[1]);
	return pid;
}

static void kill_peer(pid_t pid)
{
	CHECK(!kill(pid, SIGKILL));
	CHECK(waitpid(pid, NULL, 0) == pid);
}

/* What was sent before comes first; then what is posted is flushed. */
static void test_death(void)
{
	struct end e;
	struct address theirs;
	pid_t pid = start_peer(&e, &theirs);

	kill_peer(pid);
	struct ibv_wc wc = next(&e);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 2 && wc.byte_len == 5);
	wc = next(&e);
	CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 3);
	CHECK(e.qp->state == IBV_QPS_ERR);
	CHECK(!ibv_destroy_qp(e.qp));
}

/* The same where the dead process's memory is what we want to write. */
static void test_death_and_write(void)
{
	struct end e;
	struct address theirs;
	pid_t pid = start_peer(&e, &theirs);

	kill_peer(pid);
	CHECK(!post(&e, IBV_WR_RDMA_WRITE, 5, e.mr->lkey, &theirs));
	CHECK(next(&e).wr_id == 2);
	struct ibv_wc wc = next(&e);
	CHECK(wc.status == IBV_WC_RETRY_EXC_ERR && wc.wr_id == 7);
	CHECK(next(&e).status == IBV_WC_WR_FLUSH_ERR);
	CHECK(!ibv_destroy_qp(e.qp));
}

/* The same for one that sleeps, by poll() on the channel. */
static void test_death_asleep(void)
{
	struct end e;
	struct address theirs;
	pid_t pid = start_peer(&e, &theirs);
	struct ibv_cq *cq;
	void *context;

	CHECK(next(&e).status == IBV_WC_SUCCESS);
	CHECK(!ibv_req_notify_cq(e.cq, 0));
	kill_peer(pid);
	struct pollfd pfd = { e.ch->fd, POLLIN, 0 };
	CHECK(poll(&pfd, 1, LIMIT_S * 1000) == 1);
	CHECK(!ibv_get_cq_event(e.ch, &cq, &context) && cq == e.cq);
	ibv_ack_cq_events(cq, 1);
	CHECK(next(&e).status == IBV_WC_WR_FLUSH_ERR);
}

/* @is_first: this end connects first, so that the other one finds it and sends at once. */
static void meet(int fd, struct end *e, bool is_first)
{
	struct address mine = address_of(e), theirs;
	char byte = 0;

	CHECK(write(fd, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(read(fd, &theirs, sizeof(theirs)) == sizeof(theirs));
	CHECK(is_first || read(fd, &byte, 1) == 1);
	end_connect(e, &theirs);
	CHECK(!is_first || write(fd, &byte, 1) == 1);
}

/* The peer has destroyed its queue pair and has ended, and this process has heard of that.  A
 * request that it posts then wakes it, too. */
static void test_request_after_end(void)
{
	struct end e;
	struct ibv_cq *cq;
	void *context;
	int sv[2], status;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	pid_t pid = fork();
	CHECK(pid >= 0);
	end_open(&e, IBV_QPT_RC);
	meet(pid ? sv[0] : sv[1], &e, pid);
	if (!pid) {
		char byte;

		CHECK(read(sv[1], &byte, 1) == 1);
		_exit(ibv_destroy_qp(e.qp));
	}
	CHECK(write(sv[0], "", 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(!fcntl(e.ch->fd, F_SETFL, O_NONBLOCK));
	CHECK(!ibv_req_notify_cq(e.cq, 0));
	CHECK(ibv_get_cq_event(e.ch, &cq, &context) && errno == EAGAIN);
	CHECK(!post(&e, IBV_WR_SEND, 5, e.mr->lkey, NULL));
	struct pollfd pfd = { e.ch->fd, POLLIN, 0 };
	CHECK(poll(&pfd, 1, LIMIT_S * 1000) == 1);
	CHECK(!ibv_get_cq_event(e.ch, &cq, &context));
	ibv_ack_cq_events(cq, 1);
	CHECK(next(&e).status == IBV_WC_RETRY_EXC_ERR);
	close(sv[0]);
	close(sv[1]);
}

/* A second queue pair on the same completion queue. */
static struct end one_more(const struct end *e, struct ibv_cq *cq,
			   struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .srq = srq,
					 .cap = { 8, srq ? 0 : 8, 2, 2, 64 },
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };
	struct end more = *e;

	more.cq = cq;
	CHECK((more.qp = ibv_create_qp(e->pd, &init)));
	return more;
}

/* Receives on one of two queue pairs, which share their receives, and ends. */
static void receive_on(int fd, int which)
{
	struct ibv_srq_init_attr attr = { .attr = { 8, 2, 0 } };
	struct end e, of[2];
	char byte;

	end_open(&e, IBV_QPT_RC);
	struct ibv_srq *srq = ibv_create_srq(e.pd, &attr);
	CHECK(srq);
	struct ibv_sge sge = { (uintptr_t)e.buf, BUF, e.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;
	CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
	CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
	for (int i = 0; i < 2; i++) {
		of[i] =
		    one_more(&e, ibv_create_cq(e.ctx, 8, NULL, NULL, 0), srq);
		meet(fd, &of[i], true);
	}
	CHECK(read(fd, &byte, 1) == 1); /* both messages are there */
	CHECK(next(&of[which]).status == IBV_WC_SUCCESS);
	_exit(0);
}

/* What the peer has done on other queue pairs completes before the first error. */
static void test_death_of_two(void)
{
	for (int which = 0; which < 2; which++) {
		struct end e, of[2];
		int sv[2], status;

		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (!pid)
			receive_on(sv[1], which);
		end_open(&e, IBV_QPT_RC);
		for (int i = 0; i < 2; i++) {
			of[i] = one_more(&e, e.cq, NULL);
			meet(sv[0], &of[i], false);
		}
		for (int i = 0; i < 2; i++)
			CHECK(!post(&of[i], IBV_WR_SEND, 5, e.mr->lkey, NULL));
		CHECK(write(sv[0], "", 1) == 1);
		CHECK(waitpid(pid, &status, 0) == pid && !status);
		/* One more is posted, and it fails, too, but not now. */
		CHECK(!post(&of[!which], IBV_WR_SEND, 5, e.mr->lkey, NULL));
		struct ibv_wc wc, wcs[8];
		CHECK(ibv_poll_cq(e.cq, 8, wcs) == 1); /* it comes alone */
		CHECK(wcs[0].status == IBV_WC_SUCCESS &&
		      wcs[0].qp_num == of[which].qp->qp_num);
		wc = next(&e);
		CHECK(wc.status == IBV_WC_RETRY_EXC_ERR &&
		      wc.qp_num == of[!which].qp->qp_num);
		CHECK(next(&e).status == IBV_WC_WR_FLUSH_ERR);
		CHECK(!ibv_destroy_qp(of[0].qp) && !ibv_destroy_qp(of[1].qp));
		close(sv[0]);
		close(sv[1]);
	}
}

/* A queue pair that was never connected has no descriptor but its own to close. */
static void test_descriptors(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct end e;

	CHECK(dup2(1, 0) == 0);
	end_open(&e, IBV_QPT_RC);
	CHECK(!ibv_modify_qp(e.qp, &attr, IBV_QP_STATE));
	CHECK(fcntl(0, F_GETFD) >= 0);
	CHECK(!ibv_destroy_qp(e.qp));
	CHECK(fcntl(0, F_GETFD) >= 0);
}

#define GID_FILES "/sys/class/infiniband/osf0/ports/1/gid_attrs/"

/* UCX looks for these before it opens a device. */
static void test_paths(void)
{
	const char *node = "/dev/infiniband/osf0";
	struct stat st;
	char text[32];

	CHECK(!stat(node, &st) && S_ISCHR(st.st_mode));
	CHECK(!access(node, R_OK | W_OK));
	CHECK(access(node, X_OK) && errno == EACCES);
	CHECK(stat("/dev/infiniband/osf1", &st) && errno == ENOENT);
	CHECK(!stat("/", &st) && S_ISDIR(st.st_mode));
	CHECK(!access("/", X_OK));
	int fd = open(GID_FILES "types/0", O_RDONLY);
	CHECK(read(fd, text, sizeof(text)) == 8 &&
	      !memcmp(text, "RoCE v2\n", 8));
	CHECK(!read(fd, text, 1) && !close(fd));
	CHECK(open(GID_FILES "types/16", O_RDONLY) < 0 && errno == ENOENT);
	CHECK(open(GID_FILES "types/", O_RDONLY) < 0);
	CHECK(open(GID_FILES "types/0", O_RDWR) < 0);
}

/* More processes find this one, one after the other, than its socket has room for. */
static void test_many(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct end e;

	end_open(&e, IBV_QPT_RC);
	struct address here = address_of(&e), theirs;
	for (int i = 0; i < 80; i++) {
		int sv[2], status;

		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
		pid_t pid = fork();
		if (!pid) {
			struct end c;

			end_open(&c, IBV_QPT_RC);
			theirs = address_of(&c);
			CHECK(write(sv[1], &theirs, sizeof(theirs)) > 0);
			CHECK(read(sv[1], &attr, 1) == 1);
			end_connect(&c, &here);
			CHECK(
			    !post(&c, IBV_WR_RDMA_WRITE, 8, c.mr->lkey, &here));
			CHECK(next(&c).status == IBV_WC_SUCCESS);
			_exit(0);
		}
		CHECK(read(sv[0], &theirs, sizeof(theirs)) > 0);
		end_connect(&e, &theirs);
		CHECK(write(sv[0], "", 1) == 1);
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
		CHECK(!ibv_modify_qp(e.qp, &attr, IBV_QP_STATE));
		close(sv[0]);
		close(sv[1]);
	}
}

/* A child may use the device, but not its parent's objects. */
static void test_fork(void)
{
	struct end a, b;
	int status;

	pair(&a, &b, IBV_QPT_RC);
	pid_t pid = fork();
	if (!pid) {
		struct end c, d;

		CHECK(post(&a, IBV_WR_SEND, 1, a.mr->lkey, NULL) == EINVAL);
		CHECK(post_recv(&a, 1, 1) == EINVAL);
		pair(&c, &d, IBV_QPT_RC);
		CHECK(!post_recv(&d, 1, 10));
		CHECK(!post(&c, IBV_WR_SEND, 3, c.mr->lkey, NULL));
		CHECK(next(&d).byte_len == 3);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(!post_recv(&b, 1, 10));
	CHECK(!post(&a, IBV_WR_SEND, 3, a.mr->lkey, NULL));
	CHECK(next(&b).byte_len == 3);
}

static const struct test tests[] = {
	{ "send", test_send },
	{ "length", test_length },
	{ "rnr", test_rnr },
	{ "keys", test_keys },
	{ "calls", test_calls },
	{ "memory", test_memory },
	{ "death", test_death },
	{ "death_asleep", test_death_asleep },
	{ "death_of_two", test_death_of_two },
	{ "death_and_write", test_death_and_write },
	{ "request_after_end", test_request_after_end },
	{ "arrived", test_arrived },
	{ "fork", test_fork },
	{ "reset", test_reset },
	{ "many", test_many },
	{ "descriptors", test_descriptors },
	{ "paths", test_paths },
	{ "rounds", test_rounds },
};

int main(int argc, char **argv)
{
	return tests_main(argc, argv, tests, sizeof(tests) / sizeof(*tests),
			  120);
}
