/* SPDX-License-Identifier: MIT */
/* tests/app/hostile_foe.c - see tests/app/hostile.h */
#include "hostile.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "pattern.h"

uint64_t next(struct foe *f)
{
	f->rng += 0x9e3779b97f4a7c15ull;
	return pattern_mix(pattern_mix(f->rng));
}

uint32_t below(struct foe *f, uint32_t n)
{
	return (uint32_t)(next(f) >> 16) % n;
}

uint64_t ms_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000u + (uint64_t)ts.tv_nsec / 1000000u;
}

void give_up(const char *why)
{
	fprintf(stderr, "hostile: %s: %s\n", why, strerror(errno));
	_exit(1);
}

/* --- memory --- */

int memory(size_t bytes, unsigned flags, int seals)
{
	int fd = memfd_create("hostile", MFD_CLOEXEC | flags);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) ||
	    (seals && fcntl(fd, F_ADD_SEALS, seals)))
		give_up("memory");
	return fd;
}

static void *map(int fd, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

int segment(struct foe *f, int seals)
{
	int fd = memory(seg_bytes(RING_BYTES), MFD_ALLOW_SEALING, 0);

	f->ring = RING_BYTES;
	f->side = 0;
	f->seg = map(fd, seg_bytes(RING_BYTES));
	if (!f->seg || (seals && fcntl(fd, F_ADD_SEALS, seals)))
		give_up("segment");
	f->seg->version = SEG_VERSION;
	f->seg->ring_size = RING_BYTES;
	f->seg->side[0].slot = f->seg->side[1].slot = SLOT_NONE;
	f->seg->magic = SEG_MAGIC;
	return fd;
}

void own_inbox(struct foe *f)
{
	f->own_fd = memory(sizeof(struct inbox), MFD_ALLOW_SEALING, SEALS);
	f->own = map(f->own_fd, sizeof(struct inbox));
	if (!f->own)
		give_up("inbox");
	for (int i = 0; i < 16; i++)
		f->own_id[i] = (uint8_t)next(f);
}

/* --- TCP and the rendezvous --- */

int tcp_socket(void)
{
	struct sockaddr_in a = local_addr(0);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (bind(fd, (void *)&a, sizeof(a)))
		give_up("bind");
	return fd;
}

int proposal_of_victim(struct foe *f)
{
	uint64_t end = ms_now() + (uint64_t)patience_ms;
	int channel, refused;

	while ((channel = proposal_connect(f->tcp, &f->notice, &refused)) < 0 &&
	       ms_now() < end)
		usleep(200);
	if (refused >= 0)
		give_up("not to be trusted");
	return channel < 0 ? -1 : channel;
}

int proposal_of_others(uint16_t client, uint16_t server)
{
	struct sockaddr_storage at = { 0 }, to = { 0 };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	uint64_t end = ms_now() + 300;
	uint64_t rate;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(&at, (struct sockaddr_in[]){ local_addr(client) },
	       sizeof(struct sockaddr_in));
	memcpy(&to, (struct sockaddr_in[]){ local_addr(server) },
	       sizeof(struct sockaddr_in));
	while (ms_now() < end) {
		int n = socket_ask(&at, &to, &rate)
			    ? 0
			    : snprintf(un.sun_path + 1, 100, "osf8/%015llx",
				       (unsigned long long)rate &
					   ((UINT64_C(1) << NOTICE_BITS) - 1));

		if (n && !connect(fd, (void *)&un,
				  (socklen_t)(offsetof(struct sockaddr_un,
						       sun_path) +
					      1 + (size_t)n)))
			return fd;
		usleep(200);
	}
	close(fd);
	return -1;
}

struct hello hello_make(const struct foe *f)
{
	struct hello h = { .magic = HELLO_MAGIC,
			   .version = SEG_VERSION,
			   .size = sizeof(h),
			   .pid = (uint32_t)getpid() };

	memcpy(h.inbox_id, f->own_id, 16);
	return h;
}

void say(int channel, const struct hello *h, size_t len, const int *fds,
	 size_t n)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(8 * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)h, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n) {
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	sendmsg(channel, &msg, MSG_NOSIGNAL);
}

bool listen_to(int channel, int ms, struct hello *h, int fds[2])
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct iovec iov = { h, sizeof(*h) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };
	struct pollfd p = { .fd = channel, .events = POLLIN };

	fds[0] = fds[1] = -1;
	if (poll(&p, 1, ms) != 1 ||
	    recvmsg(channel, &msg, MSG_CMSG_CLOEXEC) < (ssize_t)sizeof(*h))
		return false;
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	if (c)
		memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	return true;
}

void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

void take_memory(struct foe *f, int seg_fd, int inbox_fd)
{
	struct stat st;

	if (seg_fd >= 0 && !fstat(seg_fd, &st)) {
		f->seg = map(seg_fd, (size_t)st.st_size);
		f->ring = f->seg ? f->seg->ring_size : 0;
		f->side = 1;
	}
	if (inbox_fd >= 0)
		f->in = map(inbox_fd, sizeof(struct inbox));
}

bool channel_as_opener(struct foe *f, uint16_t server)
{
	struct sockaddr_in a = local_addr(server);
	struct pollfd p = { .events = POLLIN };
	struct hello h;
	int fds[2];

	f->tcp = tcp_socket();
	int offer = proposal_listen(f->tcp, &f->notice);
	if (offer < 0)
		give_up("offer");
	if (connect(f->tcp, (void *)&a, sizeof(a)))
		give_up("connect");
	p.fd = offer;
	f->channel =
	    poll(&p, 1, patience_ms) == 1 ? accept(offer, NULL, NULL) : -1;
	close(offer);
	if (f->channel < 0 || !listen_to(f->channel, patience_ms, &h, fds))
		return false;
	take_memory(f, fds[0], fds[1]);
	close_all(fds, 2);
	return f->seg && f->in;
}

void channel_close(struct foe *f)
{
	if (f->channel >= 0)
		close(f->channel);
	f->channel = -1;
}

void foe_close(struct foe *f)
{
	channel_close(f);
	if (f->seg)
		munmap(f->seg, seg_bytes(f->ring));
	if (f->in)
		munmap(f->in, sizeof(struct inbox));
	if (f->own)
		munmap(f->own, sizeof(struct inbox));
	close_all((int[]){ f->tcp, f->own_fd }, 2);
}
