/* SPDX-License-Identifier: MIT */
/*
 * tests/packetdrill/test_calls.c - calls that do not wait, in whole conversations
 */
#include "test_interface.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>

/* Each call that sends, and each that receives. */
void test_bytes(void)
{
	char a[64], b[64] = "0123456789";
	struct iovec iov[2] = { { b, 4 }, { b + 4, 6 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	struct sockaddr_in from;
	socklen_t from_len = sizeof(from);
	struct peer p;
	int n, listener = listen_v4(), fd = serve(listener, &p);

	EXPECT_EQ(pd.write(U, fd, b, 10), 10);
	struct tcp_seg seg = peer_receive(&p, NULL);
	EXPECT_EQ(seg.flags, TCP_ACK | TCP_PSH);
	EXPECT_EQ(seg.len, 10);
	EXPECT_EQ(pd.ioctl(U, fd, SIOCOUTQ, &n), 0);
	EXPECT_EQ(n, 10);
	peer_send(&p, TCP_ACK, 0);
	EXPECT_EQ(pd.ioctl(U, fd, SIOCOUTQ, &n), 0);
	EXPECT_EQ(n, 0);
	EXPECT_EQ(pd.writev(U, fd, iov, 2), 10);
	EXPECT_EQ(peer_receive(&p, NULL).len, 10);
	peer_send(&p, TCP_ACK, 0);
	EXPECT_EQ(pd.send(U, fd, b, 7, MSG_NOSIGNAL), 7);
	EXPECT_EQ(peer_receive(&p, NULL).len, 7);
	peer_send(&p, TCP_ACK, 0);
	EXPECT_EQ(pd.sendto(U, fd, b, 3, 0, NULL, 0), 3);
	EXPECT_EQ(peer_receive(&p, NULL).len, 3);
	peer_send(&p, TCP_ACK, 0);
	EXPECT_EQ(pd.sendmsg(U, fd, &msg, 0), 10);
	EXPECT_EQ(peer_receive(&p, NULL).len, 10);
	EXPECT_ERR(pd.sendto(U, fd, b, 3, MSG_FASTOPEN, NULL, 0), EOPNOTSUPP);
	EXPECT_ERR(pd.sendmsg(U, fd, &msg, MSG_FASTOPEN), EOPNOTSUPP);
	EXPECT_ERR(pd.writev(U, fd, iov, -1), EINVAL);

	peer_send(&p, TCP_ACK | TCP_PSH, 50);
	EXPECT_EQ(peer_receive(&p, NULL).flags, TCP_ACK);
	EXPECT_EQ(pd.ioctl(U, fd, FIONREAD, &n), 0);
	EXPECT_EQ(n, 50);
	EXPECT_EQ(pd.recv(U, fd, a, 10, MSG_PEEK), 10);
	EXPECT_EQ(pd.read(U, fd, a, 10), 10);
	EXPECT_EQ(memcmp(a, "abcdefghij", 10), 0);
	EXPECT_EQ(pd.readv(U, fd, iov, 2), 10);
	EXPECT_EQ(memcmp(b, "klmnopqrst", 10), 0);
	EXPECT_ERR(pd.readv(U, fd, iov, -1), EINVAL);
	EXPECT_EQ(
	    pd.recvfrom(U, fd, a, 10, 0, (struct sockaddr *)&from, &from_len),
	    10);
	EXPECT_EQ(from_len, 0);
	EXPECT_EQ(pd.recvmsg(U, fd, &msg, 0), 10);
	EXPECT_EQ(memcmp(b, "efghijklmn", 10), 0);
	EXPECT_EQ(pd.recv(U, fd, a, 60, 0), 10);
	EXPECT_ERR(pd.recv(U, fd, a, 1, MSG_DONTWAIT), EAGAIN);
	EXPECT_EQ(pd.close(U, fd), 0);
	EXPECT_EQ(peer_receive(&p, NULL).flags, TCP_FIN | TCP_ACK);
	peer_send(&p, TCP_FIN | TCP_ACK, 0);
	EXPECT_EQ(peer_receive(&p, NULL).flags, TCP_ACK);
	EXPECT_EQ(pd.close(U, listener), 0);
}

void test_errors(void)
{
	struct sockaddr_in a = v4("192.0.2.1", PORT), local = v4(LOCAL, PORT);
	struct sockaddr_in6 six = v6(LOCAL_V6, PORT);
	char buf[10];
	int fd = pd.socket(U, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), n = 1;
	socklen_t len = sizeof(n);

	EXPECT_ERR(pd.socket(U, AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
	EXPECT_ERR(pd.socket(U, AF_INET, SOCK_DGRAM, 0), ESOCKTNOSUPPORT);
	EXPECT_ERR(pd.bind(U, fd, (struct sockaddr *)&six, sizeof(six)),
		   EAFNOSUPPORT);
	EXPECT_ERR(pd.bind(U, fd, (struct sockaddr *)&local, 4), EINVAL);
	EXPECT_ERR(pd.bind(U, fd, (struct sockaddr *)&a, sizeof(a)),
		   EADDRNOTAVAIL);
	EXPECT_EQ(pd.bind(U, fd, (struct sockaddr *)&local, sizeof(local)), 0);
	EXPECT_ERR(pd.bind(U, fd, (struct sockaddr *)&local, sizeof(local)),
		   EINVAL);
	EXPECT_ERR(pd.accept(U, fd, NULL, NULL), EINVAL);
	EXPECT_ERR(pd.read(U, fd, buf, 10), ENOTCONN);
	EXPECT_ERR(pd.write(U, fd, buf, 10), EPIPE);
	EXPECT_ERR(pd.shutdown(U, fd, SHUT_WR), ENOTCONN);
	EXPECT_ERR(pd.shutdown(U, fd, 7), EINVAL);
	EXPECT_EQ(pd.listen(U, fd, 5), 0);
	EXPECT_ERR(pd.accept(U, fd, NULL, NULL), EAGAIN);
	EXPECT_ERR(pd.connect(U, fd, (struct sockaddr *)&a, sizeof(a)),
		   EISCONN);
	EXPECT_ERR(pd.getsockopt(U, fd, SOL_SOCKET, 9999, &n, &len),
		   ENOPROTOOPT);
	EXPECT_ERR(pd.setsockopt(U, fd, IPPROTO_TCP, TCP_NODELAY, &n, 1),
		   EINVAL);
	EXPECT_EQ(pd.close(U, fd), 0);
	/* A number that is nobody's, to each. */
	EXPECT_ERR(pd.close(U, fd), EBADF);
	EXPECT_ERR(pd.bind(U, fd, (struct sockaddr *)&a, sizeof(a)), EBADF);
	EXPECT_ERR(pd.listen(U, fd, 1), EBADF);
	EXPECT_ERR(pd.accept(U, fd, NULL, NULL), EBADF);
	EXPECT_ERR(pd.connect(U, fd, (struct sockaddr *)&a, sizeof(a)), EBADF);
	EXPECT_ERR(pd.read(U, fd, buf, 1), EBADF);
	EXPECT_ERR(pd.write(U, fd, buf, 1), EBADF);
	EXPECT_ERR(pd.shutdown(U, fd, SHUT_WR), EBADF);
	EXPECT_ERR(pd.fcntl(U, fd, F_GETFL), EBADF);
	EXPECT_ERR(pd.ioctl(U, fd, FIONREAD, &n), EBADF);
	EXPECT_ERR(pd.getsockopt(U, fd, SOL_SOCKET, SO_ERROR, &n, &len), EBADF);
	EXPECT_ERR(pd.setsockopt(U, fd, SOL_SOCKET, SO_KEEPALIVE, &n, 4),
		   EBADF);
	EXPECT_ERR(pd.epoll_ctl(U, fd, EPOLL_CTL_DEL, 0, NULL), EBADF);
	EXPECT_ERR(pd.netdev_send(U, buf, 70000), EMSGSIZE);
}

void test_options(void)
{
	int n = 1, got = 0, listener = listen_v4();
	socklen_t len = sizeof(got);
	struct timeval tv = { 3, 500000 }, bad = { 1, 1000000 };
	struct tcp_info info = { 0 };
	struct peer p;
	int fd = serve(listener, &p);

	EXPECT_EQ(pd.fcntl(U, fd, F_GETFL), O_RDWR);
	EXPECT_EQ(pd.fcntl(U, fd, F_SETFL, O_RDWR | O_NONBLOCK), 0);
	EXPECT_EQ(pd.fcntl(U, fd, F_GETFL), O_RDWR | O_NONBLOCK);
	got = 0;
	EXPECT_EQ(pd.ioctl(U, fd, FIONBIO, &got), 0);
	EXPECT_EQ(pd.fcntl(U, fd, F_GETFL), O_RDWR);
	EXPECT_EQ(pd.setsockopt(U, fd, IPPROTO_TCP, TCP_NODELAY, &n, len), 0);
	EXPECT_EQ(pd.getsockopt(U, fd, IPPROTO_TCP, TCP_NODELAY, &got, &len),
		  0);
	EXPECT_EQ(got, 1);
	len = sizeof(tv);
	EXPECT_EQ(pd.setsockopt(U, fd, SOL_SOCKET, SO_RCVTIMEO, &tv, len), 0);
	EXPECT_ERR(pd.setsockopt(U, fd, SOL_SOCKET, SO_SNDTIMEO, &bad, len),
		   EDOM);
	EXPECT_ERR(pd.setsockopt(U, fd, SOL_SOCKET, SO_SNDTIMEO, &bad, 4),
		   EINVAL);
	tv.tv_sec = 0;
	EXPECT_EQ(pd.getsockopt(U, fd, SOL_SOCKET, SO_RCVTIMEO, &tv, &len), 0);
	EXPECT_EQ(tv.tv_sec, 3);
	EXPECT_EQ(tv.tv_usec, 500000);
	/* What a script's assertions look at. */
	EXPECT_EQ(pd.write(U, fd, "0123456789", 10), 10);
	EXPECT_EQ(peer_receive(&p, NULL).len, 10);
	len = sizeof(info);
	EXPECT_EQ(pd.getsockopt(U, fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	EXPECT_EQ(info.tcpi_state, 1); /* ESTABLISHED */
	EXPECT_EQ(info.tcpi_unacked, 1);
	EXPECT_EQ(info.tcpi_snd_cwnd, 10);
	EXPECT_EQ(info.tcpi_snd_mss, 1000);
	EXPECT_EQ(info.tcpi_options & TCPI_OPT_SACK, TCPI_OPT_SACK);
	EXPECT_EQ(pd.close(U, fd), 0);
	EXPECT_EQ(pd.close(U, listener), 0);
	/* The FIN. */
	EXPECT_EQ(peer_receive(&p, NULL).flags, TCP_FIN | TCP_ACK);
	peer_send(&p, TCP_RST, 0);
}

/* Whom there is no memory for. */
void test_no_buffer(void)
{
	struct iovec none = { NULL, 10 };
	struct peer p;
	int fd = call(&p);

	EXPECT_ERR(pd.write(U, fd, NULL, 10), EFAULT);
	EXPECT_ERR(pd.writev(U, fd, &none, 1), EFAULT);
	EXPECT_ERR(pd.read(U, fd, NULL, 10), EFAULT);
	EXPECT_ERR(pd.readv(U, fd, &none, 1), EFAULT);
	EXPECT_EQ(pd.write(U, fd, NULL, 0), 0);
	peer_send(&p, TCP_RST, 0);
	EXPECT_EQ(pd.close(U, fd), 0);
}

/* What is left to be read comes with what was read; the end counts as a byte. */
void test_inq(void)
{
	char buf[100], control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { buf, 40 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control };
	struct cmsghdr *cm = (struct cmsghdr *)control;
	static const int left[] = { 60, 20, 0, 1 };
	struct peer p;
	int on = 1, n, fd = call(&p);

	EXPECT_EQ(pd.setsockopt(U, fd, IPPROTO_TCP, TCP_INQ, &on, sizeof(on)),
		  0);
	peer_send(&p, TCP_ACK | TCP_PSH, 100);
	for (unsigned i = 0; i < ARRAY_LEN(left); i++) {
		if (i == 3)
			peer_send(&p, TCP_ACK | TCP_FIN, 0);
		m.msg_controllen = sizeof(control);
		EXPECT_EQ(pd.recvmsg(U, fd, &m, 0), i < 2    ? 40
						    : i == 2 ? 20
							     : 0);
		EXPECT_EQ(m.msg_controllen, sizeof(control));
		EXPECT_EQ(cm->cmsg_type, TCP_CM_INQ);
		memcpy(&n, CMSG_DATA(cm), sizeof(n));
		EXPECT_EQ(n, left[i]);
	}
	m.msg_controllen = 4;
	EXPECT_EQ(pd.recvmsg(U, fd, &m, 0), 0);
	EXPECT_EQ(m.msg_controllen, 0);
	peer_send(&p, TCP_RST, 0);
	EXPECT_EQ(pd.close(U, fd), 0);
}

/* IPv6, and IPv4 in an IPv6 socket, as the tool's three variants have them. */
void test_families(void)
{
	struct sockaddr_in6 a = v6(LOCAL_V6, PORT), any = v6("::", PORT + 1);
	struct sockaddr_in6 to = v6("::ffff:192.0.2.1", PORT), from;
	socklen_t len = sizeof(from);
	int six = pd.socket(U, AF_INET6, SOCK_STREAM, 0);
	int both = pd.socket(U, AF_INET6, SOCK_STREAM, 0);
	struct peer p = { .lport = PORT,
			  .rport = 1234,
			  .nxt = { 99 },
			  .remote = { { 0x20, 1, 0x0d, 0xb8, [15] = 1 } } };

	memcpy(p.local.b, &a.sin6_addr, 16);
	EXPECT_EQ(pd.bind(U, six, (struct sockaddr *)&a, sizeof(a)), 0);
	EXPECT_EQ(pd.listen(U, six, 1), 0);
	peer_send(&p, TCP_SYN, 0);
	EXPECT_EQ(peer_receive(&p, NULL).mss, 1440);
	peer_send(&p, TCP_ACK, 0);
	int fd = pd.accept(U, six, (struct sockaddr *)&from, &len);
	EXPECT_EQ(fd >= 0, 1);
	EXPECT_EQ(len, sizeof(from));
	EXPECT_EQ(memcmp(&from.sin6_addr, p.remote.b, 16), 0);
	peer_send(&p, TCP_RST, 0);
	EXPECT_EQ(pd.close(U, fd), 0);

	p = (struct peer){ .local = ip_addr_v4(0xc0a80001),
			   .remote = ip_addr_v4(0xc0000201),
			   .lport = PORT + 1,
			   .rport = 1234,
			   .nxt = { 99 } };
	EXPECT_EQ(pd.bind(U, both, (struct sockaddr *)&any, sizeof(any)), 0);
	EXPECT_EQ(pd.listen(U, both, 1), 0);
	peer_send(&p, TCP_SYN, 0);
	EXPECT_EQ(peer_receive(&p, NULL).mss, 1460);
	peer_send(&p, TCP_ACK, 0);
	len = sizeof(from);
	fd = pd.accept(U, both, (struct sockaddr *)&from, &len);
	EXPECT_EQ(fd >= 0, 1);
	EXPECT_EQ(memcmp(&from.sin6_addr, p.remote.b, 16), 0);
	peer_send(&p, TCP_RST, 0);
	EXPECT_EQ(pd.close(U, fd), 0);
	EXPECT_EQ(pd.close(U, both), 0);
	EXPECT_EQ(pd.close(U, six), 0);

	/* A listener at an IPv4 address alone. */
	struct sockaddr_in6 mapped = v6("::ffff:192.168.0.1", PORT + 2);
	both = pd.socket(U, AF_INET6, SOCK_STREAM, 0);
	EXPECT_EQ(pd.bind(U, both, (struct sockaddr *)&mapped, sizeof(mapped)),
		  0);
	EXPECT_EQ(pd.listen(U, both, 1), 0);
	p = (struct peer){ .local = ip_addr_v4(0xc0a80001),
			   .remote = ip_addr_v4(0xc0000201),
			   .lport = PORT + 2,
			   .rport = 1235,
			   .nxt = { 99 } };
	peer_send(&p, TCP_SYN, 0);
	EXPECT_EQ(peer_receive(&p, NULL).flags, TCP_SYN | TCP_ACK);
	peer_send(&p, TCP_RST, 0);
	EXPECT_EQ(pd.close(U, both), 0);

	fd = pd.socket(U, AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);
	EXPECT_ERR(pd.connect(U, fd, (struct sockaddr *)&to, sizeof(to)),
		   EINPROGRESS);
	p.rport = PORT;
	EXPECT_EQ(peer_receive(&p, NULL).flags, TCP_SYN);
	EXPECT_EQ(pd.close(U, fd), 0);
}

void test_splice(void)
{
	int listener = listen_v4(), pipe[2], other[2];
	struct peer p;
	char buf[100];
	int fd = serve(listener, &p);

	EXPECT_EQ(pd.pipe(U, pipe), 0);
	EXPECT_EQ(pd.pipe(U, other), 0);
	EXPECT_EQ(pd.write(U, pipe[1], "0123456789", 10), 10);
	EXPECT_EQ(pd.splice(U, pipe[0], NULL, fd, NULL, 4, 0), 4);
	EXPECT_EQ(peer_receive(&p, NULL).len, 4);
	peer_send(&p, TCP_ACK, 0);
	EXPECT_EQ(pd.splice(U, pipe[0], NULL, other[1], NULL, 2, 0), 2);
	EXPECT_EQ(pd.splice(U, pipe[0], NULL, fd, NULL, 99, 0), 4);
	EXPECT_EQ(peer_receive(&p, NULL).len, 4);
	EXPECT_ERR(pd.splice(U, pipe[0], NULL, fd, NULL, 1, SPLICE_F_NONBLOCK),
		   EAGAIN);
	peer_send(&p, TCP_ACK | TCP_PSH, 100);
	EXPECT_EQ(peer_receive(&p, NULL).flags, TCP_ACK);
	EXPECT_EQ(pd.splice(U, fd, NULL, other[1], NULL, 60, 0), 60);
	EXPECT_EQ(pd.read(U, other[0], buf, 100), 62);
	EXPECT_EQ(memcmp(buf, "45abcdef", 8), 0);
	EXPECT_EQ(pd.splice(U, fd, NULL, other[1], NULL, 60, 0), 40);
	EXPECT_ERR(
	    pd.splice(U, fd, NULL, other[1], NULL, 60, SPLICE_F_NONBLOCK),
	    EAGAIN);
	/* An urgent byte is not spliced. */
	peer_send(&p, TCP_ACK | TCP_URG, 10);
	EXPECT_EQ(pd.splice(U, fd, NULL, other[1], NULL, 60, 0), 9);
	EXPECT_EQ(pd.splice(U, fd, NULL, other[1], NULL, 60, 0), 0);
	loff_t off = 0;
	EXPECT_ERR(pd.splice(U, fd, &off, other[1], NULL, 60, 0), ESPIPE);
	EXPECT_ERR(pd.splice(U, fd, NULL, fd, NULL, 60, 0), EINVAL);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(pd.close(U, pipe[i]), 0);
		EXPECT_EQ(pd.close(U, other[i]), 0);
	}
	EXPECT_EQ(pd.close(U, listener), 0);
	peer_send(&p, TCP_RST, 0);
	EXPECT_EQ(pd.close(U, fd), 0);
}

/* Half closes, resets, and what the calls say then. */
void test_ends(void)
{
	struct peer p;
	char buf[10];
	int err = 0, fd = call(&p);
	socklen_t len = sizeof(err);

	peer_send(&p, TCP_FIN | TCP_ACK, 0);
	EXPECT_EQ(peer_receive(&p, NULL).flags, TCP_ACK);
	EXPECT_EQ(pd.read(U, fd, buf, 10), 0);
	EXPECT_EQ(pd.shutdown(U, fd, SHUT_WR), 0);
	EXPECT_EQ(peer_receive(&p, NULL).flags, TCP_FIN | TCP_ACK);
	EXPECT_ERR(pd.write(U, fd, buf, 1), EPIPE);
	peer_send(&p, TCP_ACK, 0);
	EXPECT_EQ(pd.close(U, fd), 0);

	fd = call(&p);
	peer_send(&p, TCP_RST | TCP_ACK, 0);
	EXPECT_EQ(pd.getsockopt(U, fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	EXPECT_EQ(err, ECONNRESET);
	EXPECT_EQ(pd.read(U, fd, buf, 10), 0);
	EXPECT_ERR(pd.write(U, fd, buf, 10), EPIPE);
	EXPECT_EQ(pd.close(U, fd), 0);
}
