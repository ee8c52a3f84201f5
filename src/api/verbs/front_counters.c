/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/front_counters.c - counts what the device has done, for tests
 *
 * OSF_RDMA_COUNTERS names a file.  A process that has used the device appends a line of
 * "name=number" to it when it ends.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/libc.h"
#include "rdma/core.h"

__attribute__((destructor)) static void end(void)
{
	const struct x_counters *c = rdma_counters;
	const char *path = secure_getenv("OSF_RDMA_COUNTERS");
	char line[512];

	if (!path || !self_current)
		return;
	int n = snprintf(line, sizeof(line),
			 "sends=%lu send_bytes=%lu recvs=%lu recv_bytes=%lu "
			 "writes=%lu write_bytes=%lu reads=%lu read_bytes=%lu "
			 "atomics=%lu placed=%lu dropped=%lu errors=%lu\n",
			 c->sends, c->send_bytes, c->recvs, c->recv_bytes,
			 c->writes, c->write_bytes, c->reads, c->read_bytes,
			 c->atomics, c->placed, c->dropped, c->errors);
	int fd =
	    libc.open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (libc.write(fd, line, (size_t)n) < 0)
		perror(path);
	libc.close(fd);
}
