/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_list.c - what processes say of their RDMA device, any bytes, as `osf rdma' reads it
 *
 *     script of words -> this process's directory and a queue pair's memory -> cmd_rdma()
 *
 * Besides not crashing, this holds:
 *   I1  the command succeeds
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../tools/osf/osf.h"
#include "../../tools/osf/rdma.h"
#include "fuzz_script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct x_dir *dir;
static struct x_qp *qp;
static int qp_fd;

static void *make(const char *name, size_t bytes, int *fd)
{
	*fd = memfd_create(name, MFD_CLOEXEC);
	int err = ftruncate(*fd, (off_t)bytes);
	void *map =
	    mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);

	assert(!err && map != MAP_FAILED);
	return map;
}

static void begin(void)
{
	int fd;

	dir = make("osf-rdma-1", sizeof(*dir), &fd);
	qp = make("osf-rdma-qp", sizeof(*qp), &qp_fd);
	assert(freopen("/dev/null", "w", stdout));
}

static void fresh(void)
{
	memset(dir, 0, sizeof(*dir));
	*dir = (struct x_dir){ .magic = EXPORT_MAGIC,
			       .version = EXPORT_VERSION,
			       .block = 1 };
	dir->qp_fd[0] = qp_fd + 1;
	*qp = (struct x_qp){ .magic = EXPORT_MAGIC,
			     .version = EXPORT_VERSION,
			     .n_recv = 1 };
}

/* A word of one of the tables, or of anything. */
static void *some_word(void)
{
	size_t i = take(1), j = take(1);

	switch (i % 7) {
	case 0:
		return (uint32_t *)&dir->mr[j] + i / 7 % 16;
	case 1:
		return (uint32_t *)&dir->cq[j] + i / 7 % 4;
	case 2:
		return (uint32_t *)&dir->srq[j] + i / 7 % 4;
	case 3:
		return (uint32_t *)&dir->mcast[j % N_MCASTS] + i / 7 % 5;
	case 4:
		return (uint32_t *)&dir->counters + j % 24;
	case 5:
		return (uint32_t *)qp + (j + i / 7 * 256) % (sizeof(*qp) / 4);
	default:
		return &dir->qp_fd[j];
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char pid[16], *memory[] = { "rdma", "--memory", "--queues", pid, NULL },
		      *json[] = { "rdma", "--json", pid, NULL };

	if (!dir)
		begin();
	script_begin(data, n);
	fresh();
	while (script.at < script.end) {
		uint32_t *word = some_word();

		*word = take(take(1) % 5);
	}
	/* Without these it is nobody's, which may also be. */
	bool is_ours = dir->magic == EXPORT_MAGIC;
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	int status = cmd_rdma(4, memory) | cmd_rdma(3, json);
	assert(!is_ours || !status); /* I1 */
	return 0;
}
