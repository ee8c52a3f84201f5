/* SPDX-License-Identifier: MIT */
/*
 * tests/packetdrill/socket.c - makes, opens, queries and closes sockets
 *
 * Blocking happens here; everything else is the back end's answer.  Time-outs and the
 * seconds of SO_LINGER are kept here, because the back end never waits.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

#include "host.h"

static int socket_file(struct host *h, int sock, int domain)
{
	struct file *f;
	int fd = file_new(h, FILE_SOCKET, eventfd(0, EFD_CLOEXEC), &f);

	if (fd < 0) {
		h->b.ops->close(h->b.self, sock);
		return fd;
	}
	f->sock = sock;
	f->domain = domain;
	return fd;
}

int pd_socket(struct host *h, int domain, int type, int protocol)
{
	bool is_nonblock = type & SOCK_NONBLOCK;

	settings_look(h);
	int sock =
	    h->b.ops->socket(h->b.self, domain,
			     type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC), protocol);

	if (sock < 0)
		return sock;
	int fd = socket_file(h, sock, domain);
	if (fd >= 0)
		h->files[fd].is_nonblock = is_nonblock;
	return fd;
}

/* The tool picks its local addresses at random from two networks, and tells them to
 * bind() alone.  So an address that is bound becomes ours. */
static void learn_local(struct host *h, const struct sockaddr *a, socklen_t len)
{
	static const uint8_t net_v4[2] = { 192, 168 };
	static const uint8_t net_v6[2] = { 0xfd, 0x3d };
	struct ip_addr ip = { { 0 } };

	if (a->sa_family == AF_INET && len >= sizeof(struct sockaddr_in)) {
		const struct sockaddr_in *in = (const void *)a;

		ip = ip_addr_v4(ntohl(in->sin_addr.s_addr));
	} else if (a->sa_family == AF_INET6 &&
		   len >= sizeof(struct sockaddr_in6)) {
		const struct sockaddr_in6 *in = (const void *)a;

		memcpy(ip.b, &in->sin6_addr, 16);
	}
	if (ip_addr_is_v4(&ip) ? !memcmp(ip.b + 12, net_v4, 2)
			       : !memcmp(ip.b, net_v6, 2))
		h->b.ops->set_local(h->b.self, &ip);
}

int pd_bind(struct host *h, int fd, const struct sockaddr *a, socklen_t len)
{
	struct file *f = file_get(h, fd, FILE_SOCKET);

	if (!f)
		return -EBADF;
	if (!h->is_local_known)
		learn_local(h, a, len);
	int err = h->b.ops->bind(h->b.self, f->sock, a, len);
	h->is_local_known |= !err;
	return err;
}

int pd_listen(struct host *h, int fd, int backlog)
{
	struct file *f = file_get(h, fd, FILE_SOCKET);

	settings_look(h);
	return f ? h->b.ops->listen(h->b.self, f->sock, backlog) : -EBADF;
}

int pd_accept(struct host *h, int fd, struct sockaddr *a, socklen_t *len)
{
	struct file *f = file_get(h, fd, FILE_SOCKET);
	int sock;

	if (!f)
		return -EBADF;
	uint64_t until = host_deadline(h, &f->rcv_timeout);
	for (;;) {
		sock = h->b.ops->accept(h->b.self, f->sock);
		if (sock != -EAGAIN || f->is_nonblock || host_wait(h, until))
			break;
		f = file_get(h, fd, FILE_SOCKET);
		if (!f)
			return -EBADF;
	}
	if (sock < 0)
		return sock;
	if (a && h->b.ops->getpeername(h->b.self, sock, a, len))
		*len = 0;
	return socket_file(h, sock, f->domain);
}

int pd_connect(struct host *h, int fd, const struct sockaddr *a, socklen_t len)
{
	struct file *f = file_get(h, fd, FILE_SOCKET);

	if (!f)
		return -EBADF;
	h->is_local_known = true;
	settings_look(h);
	uint64_t until = host_deadline(h, &f->snd_timeout);
	int r = h->b.ops->connect(h->b.self, f->sock, a, len);
	if (r != -EINPROGRESS || f->is_nonblock)
		return r;
	for (;;) {
		host_moved(h);
		int err = host_wait(h, until);
		f = file_get(h, fd, FILE_SOCKET);
		if (!f)
			return -EBADF;
		if (err)
			return -EINPROGRESS;
		/* The second call returns how the first one ended, once. */
		r = h->b.ops->connect(h->b.self, f->sock, a, len);
		if (r != -EALREADY)
			return r;
	}
}

/* Whether the peer has not acknowledged our FIN yet. */
static bool is_closing(struct host *h, const struct file *f)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (h->b.ops->getsockopt(h->b.self, f->sock, IPPROTO_TCP, TCP_INFO,
				 &info, &len))
		return false;
	return info.tcpi_state == TCP_FIN_WAIT1 ||
	       info.tcpi_state == TCP_CLOSING ||
	       info.tcpi_state == TCP_LAST_ACK;
}

/* SO_LINGER: waits some seconds for the sent bytes to arrive. */
static void linger(struct host *h, int fd)
{
	struct file *f = file_get(h, fd, FILE_SOCKET);
	uint64_t until = host_now(h) + (uint64_t)f->linger.l_linger * NS_PER_S;
	int unread = 0;

	if (h->b.ops->ioctl(h->b.self, f->sock, FIONREAD, &unread) || unread)
		return;
	if (h->b.ops->shutdown(h->b.self, f->sock, SHUT_WR))
		return;
	host_moved(h);
	while (f && is_closing(h, f) && !host_wait(h, until))
		f = file_get(h, fd, FILE_SOCKET);
}

int pd_close(struct host *h, int fd)
{
	struct file *f = file_get(h, fd, FILE_SOCKET);
	int r = 0;

	if (f && f->linger.l_onoff && f->linger.l_linger > 0)
		linger(h, fd);
	f = file_get(h, fd, FILE_SOCKET);
	if (f) {
		r = h->b.ops->close(h->b.self, f->sock);
		epoll_forget(h, fd);
	} else if ((f = file_get(h, fd, FILE_EPOLL))) {
		free(f->watches);
	}
	if (f)
		f->kind = FILE_NONE;
	if (close(fd))
		return -errno;
	return r;
}

int pd_shutdown(struct host *h, int fd, int how)
{
	struct file *f = file_get(h, fd, FILE_SOCKET);

	return f ? h->b.ops->shutdown(h->b.self, f->sock, how) : -EBADF;
}

int pd_fcntl(struct host *h, int fd, int cmd, long arg)
{
	struct file *f = file_get(h, fd, FILE_SOCKET);
	int r;

	if (f && cmd == F_GETFL)
		return O_RDWR | (f->is_nonblock ? O_NONBLOCK : 0);
	if (f && cmd == F_SETFL) {
		f->is_nonblock = arg & O_NONBLOCK;
		return 0;
	}
	r = fcntl(fd, cmd, arg);
	return r < 0 ? -errno : r;
}

int pd_ioctl(struct host *h, int fd, unsigned long what, void *arg)
{
	struct file *f = file_get(h, fd, FILE_SOCKET);

	if (!f) {
		int r = ioctl(fd, what, arg);
		return r < 0 ? -errno : r;
	}
	if (what == FIONBIO) {
		f->is_nonblock = *(int *)arg;
		return 0;
	}
	return h->b.ops->ioctl(h->b.self, f->sock, what, arg);
}

/* Return: the value of an option that is kept here, or NULL. */
static void *kept_option(struct file *f, int level, int name, size_t *len)
{
	if (level != SOL_SOCKET)
		return NULL;
	*len = sizeof(struct timeval);
	switch (name) {
	case SO_RCVTIMEO:
		return &f->rcv_timeout;
	case SO_SNDTIMEO:
		return &f->snd_timeout;
	}
	return NULL;
}

int pd_getsockopt(struct host *h, int fd, int level, int name, void *v,
		  socklen_t *len)
{
	struct file *f = file_get(h, fd, FILE_SOCKET);
	size_t kept_len;

	if (!f)
		return -EBADF;
	void *kept = kept_option(f, level, name, &kept_len);
	if (!kept)
		return h->b.ops->getsockopt(h->b.self, f->sock, level, name, v,
					    len);
	*len = (socklen_t)MIN((size_t)*len, kept_len);
	memcpy(v, kept, *len);
	return 0;
}

int pd_setsockopt(struct host *h, int fd, int level, int name, const void *v,
		  socklen_t len)
{
	struct file *f = file_get(h, fd, FILE_SOCKET);
	size_t kept_len;

	if (!f)
		return -EBADF;
	void *kept = kept_option(f, level, name, &kept_len);
	if (kept) {
		struct timeval tv;

		if (len < kept_len)
			return -EINVAL;
		memcpy(&tv, v, sizeof(tv));
		if (tv.tv_usec < 0 || tv.tv_usec >= 1000000)
			return -EDOM;
		memcpy(kept, v, kept_len);
		return 0;
	}
	if (level == IPPROTO_TCP && name == TCP_INQ && len >= sizeof(int)) {
		f->is_inq = *(const int *)v;
		return 0;
	}
	int err = h->b.ops->setsockopt(h->b.self, f->sock, level, name, v, len);
	if (!err && level == SOL_SOCKET && name == SO_LINGER)
		memcpy(&f->linger, v, sizeof(f->linger));
	return err;
}
